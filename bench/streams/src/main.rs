//! `cargo xtask bench streams`: appends, fan-out, resuming and catching up, beside other servers of
//! the Durable Streams protocol.
//!
//! Every run gets a server of its own, with nothing in its folder. The contenders take turns within
//! each scenario, so that whatever else the machine does hits all of them; where appends are counted,
//! every tenth of a second. Generator and server
//! share the machine; the generator is one thread with a client that does little. A run counts only
//! if every event that was acked is there exactly once, in order, and a repeated append is known.
//!
//! With `--smoke` it only checks that everything runs.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod args;
mod contender;
mod event;
mod report;
mod sample;
mod scenario;
mod stream;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::args::Args;
use crate::contender::Contender;
use crate::report::Report;
use crate::sample::{Run, Sample, Timeline};
use crate::scenario::Scenario;

/// In so many rounds those have turns that seldom do.
const SELDOM_ROUNDS: usize = 3;

fn main() -> Result<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    let (there, missing): (Vec<Contender>, Vec<Contender>) =
        args.contenders.iter().partition(|contender| contender.is_there(&args.programs));
    for contender in missing {
        eprintln!("{contender}: left out, its program is not there");
    }
    ensure!(!there.is_empty(), "there is nobody to measure");
    std::fs::create_dir_all(&args.scratch)?;
    let load_before = bench_kit::report::load();
    let timeline = measure(&args, &there);
    let report = Report {
        timeline: &timeline,
        contenders: &there,
        scenarios: &args.scenarios,
        rounds: args.rounds,
        seconds: args.effort.time.as_secs_f64(),
        load_before,
        is_smoke: args.smoke,
    };
    let text = report.markdown();
    println!("{text}");
    if let Some(path) = &args.write {
        report::MARKERS.replace(path, &text)?;
        eprintln!("written to {}", path.display());
    }
    judge(&timeline)
}

fn measure(args: &Args, contenders: &[Contender]) -> Timeline {
    let mut timeline = Timeline::default();
    let every = args.rounds.div_ceil(SELDOM_ROUNDS);
    for &scenario in &args.scenarios {
        for round in 0..args.rounds {
            let (seldom, often): (Vec<Contender>, Vec<Contender>) =
                contenders.iter().partition(|who| who.is_seldom());
            if scenario.is_shared() {
                timeline.0.extend(run(args, scenario, &often, round));
            } else {
                for who in often {
                    timeline.0.extend(run(args, scenario, &[who], round));
                }
            }
            for who in seldom.into_iter().filter(|_| round % every == 0) {
                timeline.0.extend(run(args, scenario, &[who], round));
            }
        }
        // The last run of ours has a peer's run after it, too.
        let is_compared = contenders.iter().any(|who| Contender::OWN.contains(who));
        let is_alone = is_compared && !scenario.is_shared();
        if is_alone && contenders.contains(&Contender::Wal) && !args.smoke {
            timeline.0.extend(run(args, scenario, &[Contender::Wal], args.rounds));
        }
    }
    timeline
}

/// One run of contenders that are measured at the same time.
fn run(args: &Args, scenario: Scenario, contenders: &[Contender], round: usize) -> Vec<Run> {
    let outcomes = attempt(args, scenario, contenders)
        .unwrap_or_else(|error| contenders.iter().map(|_| Err(anyhow!("{error:#}"))).collect());
    let runs = contenders.iter().zip(outcomes).map(|(&contender, outcome)| {
        let outcome = outcome.map_err(|error| format!("{error:#}"));
        let what = format!("{} {round}: {contender}", scenario.key());
        match &outcome {
            Ok(sample) => eprintln!("{what}: {}", report::one_line(scenario, sample)),
            Err(why) => eprintln!("{what}: FAILED: {why}"),
        }
        Run { scenario, contender, round, outcome }
    });
    runs.collect()
}

fn attempt(
    args: &Args,
    scenario: Scenario,
    contenders: &[Contender],
) -> Result<Vec<Result<Sample>>> {
    let start = |contender: &Contender| {
        let started = contender.start(&args.programs, &args.scratch);
        started.with_context(|| contender.to_string())
    };
    let servers = contenders.iter().map(start).collect::<Result<Vec<_>>>()?;
    // One thread, so that the generator takes no more than one of the cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let samples = runtime.block_on(scenario.run(&servers, &args.effort));
    for ((sample, contender), server) in samples.iter().zip(contenders).zip(&servers) {
        if sample.is_err() {
            eprintln!("{contender} said:\n{}", server.log());
        }
    }
    Ok(samples)
}

/// What peers get wrong is in the report; what we get wrong is a failure.
fn judge(timeline: &Timeline) -> Result<()> {
    let is_ours = |run: &&Run| Contender::OWN.contains(&run.contender) && run.outcome.is_err();
    let failed = timeline.0.iter().filter(is_ours).count();
    if failed > 0 {
        bail!("{failed} runs of Handback failed");
    }
    ensure!(timeline.0.iter().any(|run| run.outcome.is_ok()), "every run failed");
    Ok(())
}
