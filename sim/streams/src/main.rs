//! `cargo xtask soak streams`: many seeds, with what they found.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sim_streams::{Broken, run};

/// Seeds count only with at least so many crashes.
const CRASHES_MIN: u64 = 3;

fn main() -> Result<()> {
    let (mut seeds, mut only) = (1000, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} wants a number"))?;
        match name.as_str() {
            "--seeds" => seeds = value.parse().context("--seeds wants a number")?,
            "--seed" => only = Some(value.parse().context("--seed wants a number")?),
            other => bail!("there is no option {other}"),
        }
    }
    if let Some(seed) = only {
        let report = run(seed, Broken::No);
        println!("{report:#?}");
        if !report.faults.is_empty() {
            bail!("seed {seed} failed");
        }
        return Ok(());
    }
    let start = Instant::now();
    let (mut counted, mut seed) = (0_u64, 0);
    let (mut crashes, mut cuts, mut takeovers, mut acked, mut failed) = (0, 0, 0, 0, Vec::new());
    while counted < seeds {
        let report = run(seed, Broken::No);
        if !report.faults.is_empty() {
            println!("seed {seed}: {:?}", report.faults);
            failed.push(seed);
        }
        counted += u64::from(report.crashes >= CRASHES_MIN);
        crashes += report.crashes;
        cuts += report.cuts;
        takeovers += report.takeovers;
        acked += report.acked;
        seed += 1;
        if seed % 500 == 0 {
            println!("{counted} seeds, {crashes} crashes, {} s", start.elapsed().as_secs());
        }
    }
    println!(
        "{counted} seeds with at least {CRASHES_MIN} crashes (of {seed}), {crashes} crashes, {cuts} \
         cuts, {takeovers} takeovers, {acked} acknowledged appends, {} s: {} failed {failed:?}",
        start.elapsed().as_secs(),
        failed.len(),
    );
    if !failed.is_empty() {
        bail!("replay a seed with --seed N");
    }
    Ok(())
}
