//! What is measured, and where.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use crate::case::ROWS_STEP;

/// The arguments.
pub(crate) struct Args {
    /// Rows of the tables.
    pub(crate) rows: i64,
    /// Objects of the JSON array, of about 100 bytes each.
    pub(crate) objects: i64,
    /// Whether only to see that everything runs.
    pub(crate) smoke: bool,
    /// Where what was generated is kept from run to run; nowhere, if there is no folder.
    pub(crate) data: Option<PathBuf>,
    /// A server in which a schema may be made.
    pub(crate) postgres: Option<String>,
    /// The file whose section is replaced.
    pub(crate) write: Option<PathBuf>,
}

const OBJECTS_PER_MB: i64 = 10_000;

/// The smallest table of which every page is full.
const SMOKE_ROWS: i64 = 8000;
const SMOKE_OBJECTS: i64 = 2000;

impl Args {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self> {
        let (mut rows, mut json_mb) = (10_000_000, 100);
        let (mut smoke, mut is_bench) = (false, false);
        let (mut data, mut postgres, mut write) = (None, None, None);
        while let Some(name) = given.next() {
            let mut value = || given.next().with_context(|| format!("{name} wants a value"));
            match name.as_str() {
                "--rows" => rows = value()?.parse().context("--rows wants a number")?,
                "--json-mb" => json_mb = value()?.parse().context("--json-mb wants a number")?,
                "--smoke" => smoke = true,
                "--data" => data = Some(value()?.into()),
                "--postgres" => postgres = Some(value()?),
                "--postgres-file" => postgres = Some(first_line(&value()?)?),
                "--write" => write = Some(value()?.into()),
                // From `cargo bench`, but not from `cargo test`.
                "--bench" => is_bench = true,
                other => bail!("there is no option {other}"),
            }
        }
        let smoke = smoke || !is_bench;
        let mut objects = json_mb * OBJECTS_PER_MB;
        if smoke {
            (rows, objects) = (SMOKE_ROWS, SMOKE_OBJECTS);
        }
        ensure!(
            rows >= SMOKE_ROWS && rows % ROWS_STEP == 0,
            "--rows wants a multiple of {ROWS_STEP}, from {SMOKE_ROWS} on"
        );
        ensure!(objects > 0, "--json-mb wants 1 or more");
        Ok(Self { rows, objects, smoke, data, postgres, write })
    }
}

/// A URL with a password has no place in the list of processes.
fn first_line(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
