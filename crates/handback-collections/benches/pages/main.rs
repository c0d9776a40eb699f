//! `cargo xtask bench pages`: pages of large tables and of a large JSON document, in one run.
//!
//! A page of Handback is the whole way from the bytes of a request to those of the answer: the
//! request is checked, its cursor opened, the rows found, the cursors of the page sealed, and all
//! of it written. Beside it run the bare keyset query, prepared once, and `OFFSET`, each with its
//! rows serialised. All take turns in short batches on one thread, so that whatever else the
//! machine does hits all of them; a ratio is the median of the ratios of batches of one round.
//!
//! Started by `cargo test`, or with `--smoke`, it only checks that everything runs and gives the
//! same rows.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod args;
mod case;
mod data;
mod handback;
mod json;
mod measure;
mod postgres;
mod report;
mod sqlite;

use std::path::Path;

use anyhow::Result;
use mimalloc::MiMalloc;

use crate::args::Args;
use crate::report::Report;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    match &args.data {
        Some(folder) => run(&args, folder),
        None => run(&args, tempfile::tempdir()?.path()),
    }
}

fn run(args: &Args, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    // First, while the memory of the process is clean.
    eprintln!("json");
    let json = json::run(args, folder)?;
    eprintln!("sqlite");
    let mut tables = vec![sqlite::run(args, folder)?];
    match &args.postgres {
        Some(url) => {
            eprintln!("postgres");
            tables.push(postgres::run(args, url)?);
        }
        None => eprintln!("postgres: left out, there is no --postgres"),
    }
    let report = Report { tables, json, is_smoke: args.smoke };
    let text = report.markdown();
    println!("{text}");
    if let Some(path) = &args.write {
        report::replace_section(path, &text)?;
        eprintln!("written to {}", path.display());
    }
    Ok(())
}
