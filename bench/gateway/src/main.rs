//! `cargo xtask bench gateway`: calls of tools direct, through Handback, and through other proxies;
//! and what each feature of Handback costs.
//!
//! The upstream, every proxy and the generator are processes of their own on one machine. The
//! generator is one thread with a client that does little; every answer is checked. Calls are made
//! with 2025-11-25, which all proxies speak; those who speak 2026-07-28 as well are measured with it,
//! too.
//!
//! With `--smoke` it only checks that everything runs.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod args;
mod caller;
mod contender;
mod features;
mod hop;
mod report;
mod sample;
mod shares;
mod turns;
mod upstream;

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use bench_kit::server::Running;

use crate::args::Args;
use crate::caller::Era;
use crate::contender::{Contender, Way};
use crate::features::{Cost, Site};
use crate::report::Report;
use crate::sample::Turns;
use crate::shares::Beside;
use crate::turns::{Effort, Level};

/// Rounds with the newer revision, for one with the older.
const MODERN_SHARE: usize = 3;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if_eq(upstream::COMMAND).is_some() {
        let address = args.next().and_then(|address| address.parse().ok());
        return upstream::serve(address.context("the upstream wants an address")?);
    }
    let args = Args::parse(args)?;
    let (there, missing): (Vec<Contender>, Vec<Contender>) =
        args.contenders.iter().partition(|contender| contender.is_there(&args.programs));
    for contender in missing {
        eprintln!("{contender}: left out, its program is not there");
    }
    ensure!(!there.is_empty(), "there is nobody to measure");
    std::fs::create_dir_all(&args.scratch)?;
    let load_before = bench_kit::report::load();
    // One thread, so that the generator takes no more than one of the cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let upstream = start_upstream(&args)?;
    let levels = if args.is_only_shares { Vec::new() } else { levels(&args.callers) };
    let (turns, unopened) = runtime.block_on(calls(&args, &there, &levels, upstream.address()));
    let costs = features(&args, &there, &runtime, upstream.address());
    let hops = hops(&args, &there, &runtime, upstream.address());
    let beside = beside(&args, &there, &runtime, upstream.address());
    let report = Report {
        turns: &turns,
        contenders: &there,
        levels: &levels,
        costs: costs.as_deref().unwrap_or_default(),
        hops: hops.as_deref().unwrap_or_default(),
        beside: beside.as_ref().ok().and_then(Option::as_ref),
        unopened: &unopened,
        rounds: args.effort.rounds,
        load_before,
        is_smoke: args.effort.is_smoke,
    };
    let text = report.markdown();
    println!("{text}");
    let shared = beside.and_then(|beside| judge_shares(beside.as_ref(), args.effort.is_smoke));
    let outcome = judge(&turns, &unopened)
        .and_then(|()| costs.map(|_| ()))
        .and_then(|()| hops.map(|_| ()))
        .and(shared);
    if let (Some(path), Ok(())) = (&args.write, &outcome) {
        report::MARKERS.replace(path, &text)?;
        eprintln!("written to {}", path.display());
    }
    outcome
}

/// This program once more.
fn start_upstream(args: &Args) -> Result<Running> {
    let program = std::env::current_exe()?.display().to_string();
    Running::start(&args.scratch, upstream::COMMAND, |address, _| {
        Ok(vec![program, upstream::COMMAND.to_owned(), address.to_string()])
    })
    .context("failed to start the upstream")
}

fn levels(callers: &[u64]) -> Vec<Level> {
    let eras = [Era::Legacy, Era::Modern].into_iter();
    eras.flat_map(|era| callers.iter().map(move |&callers| Level { era, callers })).collect()
}

/// A way that did not open, and why.
type Unopened = Vec<(Contender, String)>;

async fn calls(
    args: &Args,
    contenders: &[Contender],
    levels: &[Level],
    upstream: SocketAddr,
) -> (Turns, Unopened) {
    let (mut ways, mut unopened) = (Vec::new(), Vec::new());
    for &contender in contenders {
        match Way::open(contender, &args.programs, &args.scratch, upstream) {
            Ok(way) => ways.push(way),
            Err(error) => {
                eprintln!("{contender}: FAILED: {error:#}");
                unopened.push((contender, format!("{error:#}")));
            }
        }
    }
    let mut all = Turns::default();
    for &level in levels {
        let rounds = match level.era {
            Era::Legacy => args.effort.rounds,
            Era::Modern => args.effort.rounds.div_ceil(MODERN_SHARE),
        };
        let effort = Effort { rounds, ..args.effort };
        let turns = turns::measure(&ways, level, &effort).await;
        for way in ways.iter().filter(|way| way.contender.speaks(level.era)) {
            let line = report::one_line(&turns, level, way.contender);
            eprintln!("{level}: {}: {line}", way.contender);
            if turns.failures(level, way.contender).0 > 0 {
                eprintln!("{} said:\n{}", way.contender, way.log());
            }
        }
        all.0.extend(turns.0);
    }
    (all, unopened)
}

fn features(
    args: &Args,
    contenders: &[Contender],
    runtime: &tokio::runtime::Runtime,
    upstream: SocketAddr,
) -> Result<Vec<Cost>> {
    let Some(effort) = args.features.filter(|_| contenders.contains(&Contender::Handback)) else {
        return Ok(Vec::new());
    };
    let site = Site { programs: &args.programs, scratch: &args.scratch, upstream };
    runtime.block_on(features::measure(site, &effort)).context("the features of Handback")
}

/// The processor time of large calls, where the features are measured, too.
fn hops(
    args: &Args,
    contenders: &[Contender],
    runtime: &tokio::runtime::Runtime,
    upstream: SocketAddr,
) -> Result<Vec<hop::Cost>> {
    if args.features.is_none() || !contenders.contains(&Contender::Handback) {
        return Ok(Vec::new());
    }
    let effort = if args.effort.is_smoke { hop::Effort::smoke() } else { hop::Effort::full() };
    let site = Site { programs: &args.programs, scratch: &args.scratch, upstream };
    runtime.block_on(hop::measure(site, effort)).context("large calls through Handback")
}

fn beside(
    args: &Args,
    contenders: &[Contender],
    runtime: &tokio::runtime::Runtime,
    upstream: SocketAddr,
) -> Result<Option<Beside>> {
    let Some(effort) = args.shares.filter(|_| contenders.contains(&Contender::Handback)) else {
        return Ok(None);
    };
    let site = Site { programs: &args.programs, scratch: &args.scratch, upstream };
    let measured = runtime.block_on(shares::measure(site, &effort));
    measured.map(Some).context("a caller beside one at its limits")
}

/// A caller at its limits may make another one wait, and not for long.
fn judge_shares(beside: Option<&Beside>, is_smoke: bool) -> Result<()> {
    let Some(beside) = beside.filter(|_| !is_smoke) else { return Ok(()) };
    let ratio = beside.ratio.median;
    ensure!(
        ratio <= shares::RATIO_MAX,
        "p99 beside a caller at its limits is {ratio:.2} times that alone, at most {} are allowed",
        shares::RATIO_MAX
    );
    Ok(())
}

/// What peers get wrong is in the report; what we get wrong is a failure.
fn judge(turns: &Turns, unopened: &Unopened) -> Result<()> {
    let ours = [Contender::Direct, Contender::Handback];
    if let Some((_, why)) = unopened.iter().find(|(who, _)| ours.contains(who)) {
        bail!("Handback does not serve: {why}");
    }
    let failed = turns.0.iter().filter(|turn| ours.contains(&turn.contender));
    if let Some(why) = failed.filter_map(|turn| turn.outcome.as_ref().err()).next() {
        bail!("a turn of ours failed: {why}");
    }
    let is_any = turns.0.is_empty() || turns.0.iter().any(|turn| turn.outcome.is_ok());
    ensure!(is_any, "every turn failed");
    Ok(())
}
