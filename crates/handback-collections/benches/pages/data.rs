//! Orders, the same in every run and everywhere.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Each is that of every fourth order; the first one of the fourth, the eighth and so on.
pub(crate) const STATUSES: [&str; 4] = ["open", "paid", "shipped", "returned"];

/// Goes into the names of files: to be changed with what is in them.
const VERSION: u32 = 1;

const NOTES: [Option<&str>; 4] = [
    None,
    Some("to be left at the door"),
    Some("the customer called twice and wants it \"as soon as possible\""),
    Some("paid by voucher, the rest by card; invoice to the head office"),
];

/// An order as it is generated.
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) status: &'static str,
    pub(crate) customer: String,
    pub(crate) total: f64,
    pub(crate) created_at: String,
    pub(crate) note: Option<&'static str>,
}

/// An order as the rows of a bare query are serialised.
#[derive(Deserialize, Serialize)]
pub(crate) struct Shown<'a> {
    pub(crate) id: i64,
    pub(crate) status: &'a str,
    pub(crate) customer: &'a str,
    pub(crate) total: f64,
    pub(crate) created_at: &'a str,
    #[serde(borrow)]
    pub(crate) note: Option<Cow<'a, str>>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { id, status, customer, total, created_at, note } = self;
        write!(f, "{id} {status} {customer} {total} {created_at} {note:?}")
    }
}

impl Order {
    pub(crate) fn of(id: i64) -> Self {
        let mut random = Random(id.unsigned_abs());
        let mut below = |limit: u64| random.below(limit);
        let (day, hour, minute, second) = (1 + below(28), below(24), below(60), below(60));
        Self {
            id,
            status: pick(&STATUSES, id.unsigned_abs()),
            customer: format!("c-{:05}", below(50_000)),
            total: below(1_000_000) as f64 / 100.0,
            created_at: format!("2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
            note: pick(&NOTES, below(4)),
        }
    }

    /// All orders up to this id.
    pub(crate) fn upto(last: i64) -> impl Iterator<Item = Self> {
        (1..=last).map(Self::of)
    }

    /// As an object of about 100 bytes, without the note.
    fn object(&self) -> String {
        let Self { id, status, customer, total, created_at, note: _ } = self;
        format!(
            r#"{{"id":{id},"status":"{status}","customer":"{customer}","total":{total},"created_at":"{created_at}"}}"#
        )
    }
}

fn pick<T: Copy>(choices: &[T; 4], number: u64) -> T {
    let [a, b, c, d] = *choices;
    match number % 4 {
        0 => a,
        1 => b,
        2 => c,
        _ => d,
    }
}

/// splitmix64: numbers that look random, and are the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// A file of the data folder: the one that is there, or what `make` makes of it.
pub(crate) fn kept(
    folder: &Path,
    stem: &str,
    count: i64,
    extension: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let path = folder.join(format!("{stem}-v{VERSION}-{count}.{extension}"));
    if !path.exists() {
        let part = path.with_extension("part");
        if part.exists() {
            std::fs::remove_file(&part)?;
        }
        make(&part)?;
        std::fs::rename(part, &path)?;
    }
    Ok(path)
}

/// A JSON array of so many orders.
pub(crate) fn json_file(folder: &Path, objects: i64) -> Result<PathBuf> {
    kept(folder, "orders", objects, "json", |path| {
        let mut file = BufWriter::new(File::create(path)?);
        for order in Order::upto(objects) {
            file.write_all(if order.id == 1 { b"[" } else { b",\n" })?;
            file.write_all(order.object().as_bytes())?;
        }
        file.write_all(b"]\n")?;
        Ok(file.flush()?)
    })
}
