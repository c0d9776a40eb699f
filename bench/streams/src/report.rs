//! What was measured, as text.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::contender::Contender;
use crate::sample::{Sample, Spread, Timeline, Value};
use crate::scenario::Scenario;

const BEGIN: &str = "<!-- streams: written by `cargo xtask bench streams` -->";
const END: &str = "<!-- streams: end -->";

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

/// The widest bar of a plot.
const BAR_WIDTH: f64 = 60.0;

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

/// The bound of a ratio.
#[derive(Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
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
        let mut out = format!("{BEGIN}\n## Streams\n\n{ABOUT}\n\n");
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
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
        out.push_str(END);
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
        let most = medians.iter().map(|(_, median)| *median).fold(0.0, f64::max);
        let width = medians.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        line(out, "\n```text");
        for (name, median) in medians {
            let bar: String = (0..60_u32)
                .take_while(|&at| f64::from(at) < BAR_WIDTH * median / most)
                .map(|_| '█')
                .collect();
            line(out, &format!("{name:<width$}  {bar} {} {unit}", grouped(median, digits)));
        }
        line(out, "```");
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

fn judged(ratio: Spread, aim: Option<Aim>) -> String {
    let Spread { median, min, max } = ratio;
    let digits = if median < 10.0 { 2 } else { 0 };
    let missed = aim.is_some_and(|aim| !aim.is_met(median));
    let note = if missed { ", **missed**" } else { "" };
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$}){note}")
}

fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A number with commas.
fn grouped(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// Puts the section into the file, in the place of the one that is there.
pub(crate) fn replace_section(path: &Path, section: &str) -> Result<()> {
    let name = path.display();
    let old = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    std::fs::write(path, replaced(&old, section)).with_context(|| format!("cannot write {name}"))
}

fn replaced(old: &str, section: &str) -> String {
    let between = old.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    match between {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n{section}\n", old.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!(grouped(20_532.4, 0), "20,532");
        assert_eq!(grouped(532.0, 0), "532");
        assert_eq!(grouped(1234.567, 2), "1,234.57");
    }

    #[test]
    fn a_missed_aim_is_said() {
        let ratio = Spread { median: 0.93, min: 0.9, max: 1.1 };
        assert_eq!(judged(ratio, Some(Aim::AtLeast(0.85))), "0.93 (0.90 to 1.10)");
        assert_eq!(judged(ratio, Some(Aim::AtLeast(1.0))), "0.93 (0.90 to 1.10), **missed**");
        assert_eq!(judged(ratio, Some(Aim::AtMost(1.2))), "0.93 (0.90 to 1.10)");
    }

    #[test]
    fn the_section_is_replaced_and_the_rest_stays() {
        let section = format!("{BEGIN}\nnew\n{END}");
        let old = format!("# A\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&old, &section), format!("# A\n{section}\nafter\n"));
        assert_eq!(replaced("# A\n", &section), format!("# A\n\n{section}\n"));
    }
}
