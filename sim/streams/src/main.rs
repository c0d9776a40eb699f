//! `cargo xtask soak streams`: many seeds, with what they found.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sim_streams::{Broken, Engine, Report, run};

/// Seeds count only with at least so many crashes.
const CRASHES_MIN: u64 = 3;

/// Every so many-th seed is run on the real engine as well.
const EMBEDDED_EVERY: u64 = 50;

/// What faults can be of.
const KINDS: [&str; 12] = [
    "lost",
    "duplicate",
    "order",
    "tampering",
    "zombie",
    "undone",
    "late",
    "key",
    "unproved",
    "differs",
    "damaged",
    "stuck",
];

struct Options {
    seeds: u64,
    only: Option<u64>,
    engine: Option<Engine>,
    broken: Broken,
    threads: usize,
}

fn main() -> Result<()> {
    let options = options()?;
    if let Some(seed) = options.only {
        let report = run(seed, options.engine.unwrap_or(Engine::Memory), options.broken);
        println!("{report:#?}");
        if !report.faults.is_empty() {
            bail!("seed {seed} failed");
        }
        return Ok(());
    }
    let totals = soak(&options);
    totals.print();
    if !totals.failed.is_empty() {
        bail!("replay a seed with --seed N, and --engine embedded if it says so");
    }
    Ok(())
}

fn options() -> Result<Options> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options =
        Options { seeds: 1000, only: None, engine: None, broken: Broken::No, threads };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} wants a value"))?;
        let number = || value.parse().with_context(|| format!("{name} wants a number"));
        match name.as_str() {
            "--seeds" => options.seeds = number()?,
            "--seed" => options.only = Some(number()?),
            "--threads" => options.threads = usize::try_from(number()?)?.max(1),
            "--engine" => {
                options.engine = Some(match value.as_str() {
                    "memory" => Engine::Memory,
                    "embedded" => Engine::Embedded,
                    other => bail!("there is no engine {other}"),
                });
            }
            "--broken" => {
                let named = |broken: &Broken| format!("{broken:?}").eq_ignore_ascii_case(&value);
                let broken = Broken::ALL.into_iter().chain(Broken::KNOWN).find(named);
                options.broken = broken.with_context(|| format!("nothing is broken as {value}"))?;
            }
            other => bail!("there is no option {other}"),
        }
    }
    Ok(options)
}

/// Runs seeds from 0 on until enough of them count.
fn soak(options: &Options) -> Totals {
    let (next, totals) = (AtomicU64::new(0), Mutex::new(Totals::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_embedded = options.engine.is_none() && seed.is_multiple_of(EMBEDDED_EVERY);
            let engine = options.engine.unwrap_or(Engine::Memory);
            let engines = [Some((engine, false)), is_embedded.then_some((Engine::Embedded, true))];
            for (engine, is_extra) in engines.into_iter().flatten() {
                let report = run(seed, engine, options.broken);
                let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                if totals.counted >= options.seeds {
                    return;
                }
                totals.add(&report, engine, is_extra);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(work);
        }
    });
    totals.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Totals {
    start: Instant,
    counted: u64,
    runs: u64,
    embedded: u64,
    sum: Report,
    faults: [usize; KINDS.len()],
    failed: Vec<(u64, Engine)>,
}

impl Totals {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            counted: 0,
            runs: 0,
            embedded: 0,
            sum: Report::default(),
            faults: [0; KINDS.len()],
            failed: Vec::new(),
        }
    }

    fn add(&mut self, report: &Report, engine: Engine, is_extra: bool) {
        if !report.faults.is_empty() {
            println!("seed {} on {engine:?}: {:?}", report.seed, report.faults);
            self.failed.push((report.seed, engine));
        }
        self.runs += 1;
        self.embedded += u64::from(engine == Engine::Embedded);
        // A seed that is run again on the real engine is still one seed.
        self.counted += u64::from(report.crashes >= CRASHES_MIN && !is_extra);
        for (kind, count) in KINDS.iter().zip(&mut self.faults) {
            *count += report.count(kind);
        }
        let sum = &mut self.sum;
        for (total, count) in [
            (&mut sum.crashes, report.crashes),
            (&mut sum.cuts, report.cuts),
            (&mut sum.takeovers, report.takeovers),
            (&mut sum.torn, report.torn),
            (&mut sum.acked, report.acked),
            (&mut sum.created, report.created),
            (&mut sum.forked, report.forked),
            (&mut sum.deleted, report.deleted),
            (&mut sum.expired, report.expired),
            (&mut sum.closed, report.closed),
            (&mut sum.fenced, report.fenced),
            (&mut sum.superseded, report.superseded),
            (&mut sum.events, report.events),
            (&mut sum.tampered, report.tampered),
        ] {
            *total += count;
        }
        if self.runs.is_multiple_of(500) {
            let seconds = self.start.elapsed().as_secs();
            println!("{} runs, {} crashes, {seconds} s", self.runs, self.sum.crashes);
        }
    }

    fn print(&self) {
        let sum = &self.sum;
        println!(
            "{} seeds with at least {CRASHES_MIN} crashes (of {} runs, {} on the real engine), {} s",
            self.counted,
            self.runs,
            self.embedded,
            self.start.elapsed().as_secs(),
        );
        println!(
            "{} crashes, {} torn writes, {} cuts, {} takeovers",
            sum.crashes, sum.torn, sum.cuts, sum.takeovers,
        );
        println!(
            "{} acknowledged appends, {} streams created, {} of them forks, {} closed, {} deleted, \
             {} outlived",
            sum.acked, sum.created, sum.forked, sum.closed, sum.deleted, sum.expired,
        );
        println!(
            "{} appends refused to fenced producers, {} tokens that were over, {} events received, \
             {} times tampered",
            sum.fenced, sum.superseded, sum.events, sum.tampered,
        );
        let faults = KINDS.iter().zip(&self.faults).map(|(kind, count)| format!("{kind} {count}"));
        println!("faults: {}", faults.collect::<Vec<_>>().join(", "));
        println!("{} failed {:?}", self.failed.len(), self.failed);
    }
}
