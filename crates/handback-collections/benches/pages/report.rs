//! What was measured, as text.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::case::{Case, Measured};
use crate::json::Json;
use crate::measure::Times;

const BEGIN: &str = "<!-- pages: written by `cargo xtask bench pages` -->";
const END: &str = "<!-- pages: end -->";

const ABOUT: &str = "\
`cargo xtask bench pages`, release build, one thread. Contenders take turns in short batches, in both \
orders; a ratio is the median of the ratios of two batches of one round, with the quartiles in \
brackets, and so are times. A page of Handback is all of it: the bytes of the request are checked, the cursor is \
opened, the rows are found, the cursors of the page are sealed, the answer is written. The bare \
query is prepared once and bound to the same place, its rows are written as JSON by `serde_json` \
from a struct that borrows them; `OFFSET` likewise. All pages have the same 20 rows of six columns and are read again \
and again, so that everything comes from memory. Depth is counted in rows of the table, from the \
end where the walk starts; a filtered walk meets every fourth row, by an index on (`status`, `id`). \
Everyone uses the allocator of the `handback` binary.";

const ABOUT_JSON: &str = "\
Each round reads the bytes once with `serde_json` into `IgnoredAny`, indexes them (without the hash \
that a file's bytes are known by), and asks that index. Answers are whole ones, as above. Memory is \
what the process holds more than before it read the document, the document included, after three \
seconds of pages: before that, the allocator still holds what sorting needed for a moment.";

/// All that was measured.
pub(crate) struct Report {
    pub(crate) tables: Vec<Measured>,
    pub(crate) json: Json,
    pub(crate) is_smoke: bool,
}

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{BEGIN}\n## Pages\n\n{ABOUT}\n");
        if self.is_smoke {
            out.push_str("\nA smoke run: the times mean nothing.\n");
        }
        self.summary(&mut out);
        for table in &self.tables {
            pages(&mut out, table);
        }
        json(&mut out, &self.json);
        out.push_str(END);
        out
    }

    /// The worst of each, beside what was aimed at.
    fn summary(&self, out: &mut String) {
        let names: Vec<_> = self.tables.iter().map(|table| table.title.as_str()).collect();
        let titles = format!("worst of all pages | aim | {}", names.join(" | "));
        line(out, &format!("\n| {titles} |"));
        line(out, &format!("|---|---|{}", "---|".repeat(names.len())));
        self.row(out, "the deepest page, of the first one", "≤ 1.2", Measured::by_depth);
        self.row(out, "`OFFSET`, of the deepest page", "≥ 100", Measured::by_offset);
        self.row(out, "a page, of the bare query", "≤ 1.5", Measured::by_bare);
    }

    fn row(&self, out: &mut String, what: &str, aim: &str, ratio: fn(&Measured) -> Ratio) {
        let ratios: Vec<_> = self.tables.iter().map(|table| ratio(table).to_string()).collect();
        line(out, &format!("| {what} | {aim} | {} |", ratios.join(" | ")));
    }
}

/// A median, and the quartiles around it.
#[derive(Clone, Copy)]
struct Ratio([f64; 3]);

impl Ratio {
    fn of(a: &Times, b: &Times) -> Self {
        Self(a.ratios_to(b))
    }

    const fn median(&self) -> f64 {
        self.0[1]
    }

    /// The one whose median is the worst.
    fn worst(ratios: impl Iterator<Item = Self>, is_worse: fn(&f64, &f64) -> bool) -> Self {
        let worse = |a: Self, b: Self| if is_worse(&b.median(), &a.median()) { b } else { a };
        ratios.reduce(worse).unwrap_or(Self([f64::NAN; 3]))
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([lower, median, upper]) = self;
        let digits = match *median {
            small if small < 0.1 => 5,
            middling if middling < 10.0 => 2,
            _ => 0,
        };
        write!(f, "{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
    }
}

impl Measured {
    fn deepest(&self) -> impl Iterator<Item = &(Case, [Times; 3])> {
        let depth = self.cases.iter().map(|(case, _)| case.depth).max();
        self.cases.iter().filter(move |(case, _)| Some(case.depth) == depth)
    }

    /// A page, of the first one of the same walk.
    fn of_first(&self, case: &Case, page: &Times) -> Ratio {
        let is_first = |other: &&(Case, [Times; 3])| {
            (other.0.filtered, other.0.way, other.0.depth) == (case.filtered, case.way, 0)
        };
        let (_, [first, ..]) = self.cases.iter().find(is_first).expect("each walk has a start");
        Ratio::of(page, first)
    }

    fn by_depth(&self) -> Ratio {
        let ratios = self.deepest().map(|(case, [page, ..])| self.of_first(case, page));
        Ratio::worst(ratios, f64::gt)
    }

    fn by_offset(&self) -> Ratio {
        let ratios = self.deepest().map(|(_, [page, _, offset])| Ratio::of(offset, page));
        Ratio::worst(ratios, f64::lt)
    }

    fn by_bare(&self) -> Ratio {
        let ratios = self.cases.iter().map(|(_, [page, bare, _])| Ratio::of(page, bare));
        Ratio::worst(ratios, f64::gt)
    }
}

fn pages(out: &mut String, table: &Measured) {
    line(out, &format!("\n### {}\n\nMicroseconds.\n", table.title));
    line(
        out,
        "| walk | depth | Handback | bare query | `OFFSET` | of the first page | of the bare query \
         | `OFFSET` of it |\n|---|---|---|---|---|---|---|---|",
    );
    for (case, [page, bare, offset]) in &table.cases {
        let filtered = if case.filtered { ", filtered" } else { "" };
        let _ = write!(out, "| {}{filtered} | {} |", case.way, grouped(case.depth));
        for times in [page, bare, offset] {
            let _ = write!(out, " {} |", times_of(times, 1.0));
        }
        let first = table.of_first(case, page);
        let (bare, offset) = (Ratio::of(page, bare), Ratio::of(offset, page));
        line(out, &format!(" {first} | {bare} | {offset} |"));
    }
}

fn json(out: &mut String, json: &Json) {
    let (objects, bytes) = (grouped(json.objects), json.bytes as f64 / 1e6);
    line(out, &format!("\n### JSON, {objects} objects, {bytes:.1} MB\n\n{ABOUT_JSON}\n"));
    line(out, "| | ms | of the index | aim |\n|---|---|---|---|");
    let mut row = |what: &str, times: &Times, aim: &str| {
        let ratio = Ratio::of(times, &json.index);
        line(out, &format!("| {what} | {} | {ratio} | {aim} |", times_of(times, 1000.0)));
    };
    row("index", &json.index, "");
    row("`serde_json` into `IgnoredAny`", &json.ignored, "≥ 1.0");
    row("a page at a random depth", &json.page, "≤ 0.01");
    for (what, [first, again]) in &json.queries {
        row(&format!("{what}: first"), first, "");
        row(&format!("{what}: again"), again, "");
    }
    line(out, "\n| memory | of the bytes | at its peak | aim |\n|---|---|---|---|");
    let memory = &json.memory;
    for (what, now, peak) in [
        ("document and index", memory.indexed, memory.indexed_peak),
        ("and one sort order that is kept", memory.sorted, memory.sorted_peak),
    ] {
        line(out, &format!("| {what} | {now:.3} | {peak:.3} | ≤ 1.15 |"));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// The median and the quartiles, in a unit of so many microseconds.
fn times_of(times: &Times, unit: f64) -> String {
    let [lower, median, upper] = times.quartiles().map(|time| time / unit);
    let digits = match median {
        small if small < 1.0 => 3,
        middling if middling < 1000.0 => 1,
        _ => 0,
    };
    format!("{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
}

/// A number with commas.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Puts the section into the file, in the place of the one that is there.
pub(crate) fn replace_section(path: &Path, section: &str) -> Result<()> {
    let name = path.display();
    let old = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let between = old.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let new = match between {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n{section}\n", old.trim_end()),
    };
    std::fs::write(path, new).with_context(|| format!("cannot write {name}"))
}
