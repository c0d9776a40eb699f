//! What was measured, as text.

use std::fmt::Write as _;

use bench_kit::report::{Aim, Markers, bars, cell, cores, grouped, judged, line};

use crate::contender::Contender;
use crate::sample::{Sample, Timeline, Value};
use crate::scenario::Scenario;

/// Where the section is in the document.
pub(crate) const MARKERS: Markers = Markers {
    begin: "<!-- streams: written by `cargo xtask bench streams` -->",
    end: "<!-- streams: end -->",
};

const ABOUT: &str = "\
`cargo xtask bench streams`, release builds. Every run has a server of its own on a new folder, on \
loopback, and shares the machine with the generator, which is one thread with a client of its own \
that does little. Events have 256 bytes; every append carries `Producer-Id`, `Producer-Epoch` and \
`Producer-Seq`, one request at a time on each connection, which stays open. All servers sync before \
they ack except the one in memory. Contenders take turns within each scenario: where appends are \
counted, `durable-streams` and Handback every tenth of a second, and whoever has no turn is stopped \
(`SIGSTOP`), so that what else the machine does hits them alike; otherwise run by run. A run counts \
only if all that was acked is there exactly once and in order, byte for byte, and an append that is \
sent again is known (204). Numbers are medians over the runs; a ratio is that of Handback over the \
peer's of the same time, or else over the mean of the peer's runs just before and just after, the \
median of them with the lowest and the highest. Server time is that of all its threads, user and \
system.";

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) contenders: &'a [Contender],
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// What the machine did before.
    pub(crate) load_before: String,
    pub(crate) is_smoke: bool,
}

/// How a scenario is told.
struct Words {
    title: &'static str,
    about: &'static str,
    /// What the main number is of, and how it is read.
    unit: &'static str,
    value: Value,
    digits: usize,
    /// What the server's time is counted for.
    per: &'static str,
    /// What ours has to reach of the peer that the aims name.
    aim: Option<Aim>,
}

fn words(scenario: Scenario) -> Words {
    let append = Words {
        title: "",
        about: "",
        unit: "appends/s",
        value: |sample| sample.rate,
        digits: 0,
        per: "append",
        aim: Some(Aim::AtLeast(1.0)),
    };
    match scenario {
        Scenario::OneConnection => {
            Words { title: "Append, 1 connection", aim: Some(Aim::AtLeast(0.85)), ..append }
        }
        Scenario::Connections => Words { title: "Append, 64 connections, 1 stream", ..append },
        Scenario::Streams => Words { title: "Append, 64 streams, 1 connection each", ..append },
        Scenario::FanOut => Words {
            title: "Fan-out to 100 readers",
            about: "50 events a second to 100 readers of server-sent events (text): from just \
                    before the append is sent to each receipt.",
            unit: "p50 ms",
            value: |sample| sample.p50_ms,
            digits: 2,
            per: "delivery",
            aim: Some(Aim::AtMost(1.2)),
        },
        Scenario::Resume => Words {
            title: "Resume after a cut",
            about: "A reader of server-sent events is cut off and misses 10 events: from connecting \
                    again with its last offset until it has all of them.",
            unit: "p50 ms",
            value: |sample| sample.p50_ms,
            digits: 2,
            per: "cut, with its 10 appends",
            aim: None,
        },
        Scenario::CatchUp => Words {
            title: "Catch-up",
            about: "One reader, from the start of a JSON stream of 131,072 events (33.6 MB, appended \
                    256 at a time) to its end, page after page, again and again.",
            unit: "MB/s",
            value: |sample| sample.rate,
            digits: 0,
            per: "event",
            aim: None,
        },
    }
}

/// A run for people who wait.
pub(crate) fn one_line(scenario: Scenario, sample: &Sample) -> String {
    let Words { unit, digits, per, .. } = words(scenario);
    let parts = [
        sample.rate.map(|rate| format!("{} {unit}", grouped(rate, digits))),
        sample.p50_ms.map(|ms| format!("p50 {ms:.2} ms")),
        sample.p99_ms.map(|ms| format!("p99 {ms:.2} ms")),
        sample.cpu_us.map(|us| format!("server {us:.2} µs per {per}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl Report<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{}\n## Streams\n\n{ABOUT}\n\n", MARKERS.begin);
        let cores = cores();
        let Self { rounds, seconds, load_before, .. } = self;
        let (failed, all) = self.void();
        line(
            &mut out,
            &format!(
                "{rounds} rounds of {seconds} s on {cores} cores, {all} runs; the load average of \
                 the machine was {load_before} before."
            ),
        );
        if failed > 0 {
            line(&mut out, &format!("{failed} runs failed or were void; they are named below."));
        }
        if self.is_smoke {
            line(&mut out, "\nA smoke run: the numbers mean nothing.");
        }
        self.aims(&mut out);
        for &scenario in self.scenarios {
            self.scenario(&mut out, scenario);
        }
        out.push_str(MARKERS.end);
        out
    }

    fn void(&self) -> (usize, usize) {
        let runs = &self.timeline.0;
        (runs.iter().filter(|run| run.outcome.is_err()).count(), runs.len())
    }

    /// Ours of the peer that the aims name.
    fn aims(&self, out: &mut String) {
        let own: Vec<Contender> = self.own().collect();
        if own.is_empty() || !self.contenders.contains(&Contender::Wal) {
            return;
        }
        let names: Vec<String> = own.iter().map(Contender::to_string).collect();
        line(out, &format!("\n| of {} | aim | {} |", Contender::Wal, names.join(" | ")));
        line(out, &format!("|---|---|{}", "---|".repeat(own.len())));
        for &scenario in self.scenarios {
            let Words { title, unit, value, aim, .. } = words(scenario);
            let aim_text = aim.map(|aim| aim.to_string()).unwrap_or_default();
            let _ = write!(out, "| {title}, {unit} | {aim_text} |");
            for &who in &own {
                let ratio = self.timeline.ratio(scenario, [who, Contender::Wal], value);
                // What is aimed at is aimed at with signatures.
                let aim = aim.filter(|_| who == Contender::Handback);
                let _ = write!(out, " {} |", cell(ratio.map(|ratio| judged(ratio, aim))));
            }
            out.push('\n');
        }
    }

    fn scenario(&self, out: &mut String, scenario: Scenario) {
        let Words { title, about, unit, value, digits, per, .. } = words(scenario);
        line(out, &format!("\n### {title}\n"));
        if !about.is_empty() {
            line(out, &format!("{about}\n"));
        }
        let own: Vec<Contender> = self.own().collect();
        let mut columns: Vec<(String, Value, usize)> = vec![(unit.to_owned(), value, digits)];
        if unit == "appends/s" {
            columns.push(("p50 ms".to_owned(), |sample| sample.p50_ms, 2));
        }
        if scenario != Scenario::CatchUp {
            columns.push(("p99 ms".to_owned(), |sample| sample.p99_ms, 2));
        }
        columns.push((format!("server µs per {per}"), |sample| sample.cpu_us, 2));
        let titles = columns.iter().map(|(title, ..)| title.clone());
        let titles: Vec<_> = titles.chain(own.iter().map(|who| format!("{who}, of it"))).collect();
        line(out, &format!("| | {} |", titles.join(" | ")));
        line(out, &format!("|---|{}", "---|".repeat(titles.len())));
        for &who in self.contenders {
            let numbers = columns.iter().map(|&(_, value, digits)| {
                let spread = self.timeline.spread(scenario, who, value);
                cell(spread.map(|spread| grouped(spread.median, digits)))
            });
            let ratios = own.iter().map(|&ours| {
                let ratio = self.timeline.ratio(scenario, [ours, who], value);
                cell(ratio.filter(|_| ours != who).map(|ratio| judged(ratio, None)))
            });
            let cells: Vec<_> = numbers.chain(ratios).collect();
            line(out, &format!("| {who} | {} |", cells.join(" | ")));
        }
        self.plot(out, scenario, value, digits, unit);
        self.failures(out, scenario);
    }

    fn plot(&self, out: &mut String, scenario: Scenario, value: Value, digits: usize, unit: &str) {
        let medians: Vec<(String, f64)> = self
            .contenders
            .iter()
            .filter_map(|&who| {
                let spread = self.timeline.spread(scenario, who, value)?;
                Some((who.to_string(), spread.median))
            })
            .collect();
        bars(out, &medians, digits, unit);
    }

    fn failures(&self, out: &mut String, scenario: Scenario) {
        for &who in self.contenders {
            let (failed, all, why) = self.timeline.failures(scenario, who);
            if failed > 0 {
                let why = why.replace('\n', " ");
                line(out, &format!("\n{who}: {failed} of {all} runs failed: {why}"));
            }
        }
    }

    fn own(&self) -> impl Iterator<Item = Contender> {
        self.contenders.iter().copied().filter(|who| Contender::OWN.contains(who))
    }
}
