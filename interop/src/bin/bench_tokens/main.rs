//! `cargo xtask bench tokens`: tokens beside their peers, in one run, as ratios.
//!
//! Every contender does the same for each token: bind the context of the call, open the token that
//! came in, seal the one that goes out. The argument fingerprint is computed beforehand for all.
//! Contenders take turns in short batches, so that whatever else the machine does hits all of them;
//! the minimum and the median over the batches are kept.

mod contenders;
mod measure;
mod report;

use anyhow::{Context as _, Result, bail};
use contenders::{PAYLOADS, contenders, refusals};
use measure::{Effort, run};

fn main() -> Result<()> {
    let mut effort = Effort::FULL;
    let mut write = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--smoke" => effort = Effort::SMOKE,
            "--write" => write = Some(arguments.next().context("--write wants a path")?),
            other => bail!("there is no option {other}"),
        }
    }
    let mut results = Vec::new();
    for payload in PAYLOADS {
        eprintln!("payload of {payload} bytes");
        results.push((payload, run(contenders(payload), effort)));
    }
    eprintln!("refusals");
    let refusals = run(refusals(), effort);
    let report = report::Report { results, refusals, effort };
    report.check()?;
    let text = report.markdown();
    println!("{text}");
    if let Some(path) = write {
        report::replace_section(&path, &text)?;
        eprintln!("written to {path}");
    }
    Ok(())
}
