//! What was measured, as text.

use bench_kit::report::{Aim, Markers, bars, cell, cores, grouped, judged, line, row};

use crate::caller::Era;
use crate::contender::Contender;
use crate::features::Cost;
use crate::hop;
use crate::sample::{Turns, Value};
use crate::shares::{Beside, RATIO_MAX};
use crate::turns::Level;

/// Where the section is in the document.
pub(crate) const MARKERS: Markers = Markers {
    begin: "<!-- gateway: written by `cargo xtask bench gateway` -->",
    end: "<!-- gateway: end -->",
};

const ABOUT: &str = "\
`cargo xtask bench gateway`, release builds. One upstream on plain hyper that says a number again, over \
Streamable HTTP; the same calls go to it directly and through proxies, all on loopback and on one \
machine with the generator, which is one thread with a client of its own that does little. Every \
caller has a connection that stays open and a session of its own, opened before anything is measured; \
it makes one call at a time, with a number that nobody else has, and every answer is checked. Callers \
speak 2025-11-25, because `mcp-proxy` as it is installed knows nothing newer; what a proxy speaks to \
the upstream, which knows both, is its own choice. `mcp-proxy` runs without any of its middleware and \
with its log at `warn`; Handback with its defaults but for the rate of one caller, who all are here, \
so that tokens are bound and sealed and the journal is on. FastMCP is measured as it comes, with a new session to the upstream for every request, \
and with one that is kept; it has fewer calls and turns, because it is slow. In every round each has a \
turn, the first one being another each time, and whoever has no turn is stopped (`SIGSTOP`), so that \
what it still has to do costs nobody else. Numbers are medians over the rounds. A ratio is the median \
over the rounds of the ratios within a round, with the lowest and the highest. What a proxy adds is \
its p50 less that of direct calls in the same round. Server time is that of the proxy alone, user and \
system, in all of its threads.";

const ABOUT_FEATURES: &str = "\
One caller with 2026-07-28, in small batches that alternate between direct and through Handback; \
medians over the batches of the median within a batch. To hold a result is to take all of it in, keep \
it, and answer with its first page: the time is until that is there, and direct it is until all of it \
is there.";

const ABOUT_HOPS: &str = "\
One caller with 2026-07-28 sends large arguments and gets a small result. The time is that of the \
gateway's process alone, user and system, in all of its threads: the median over the rounds, with the \
lowest and the highest.";

const ABOUT_BESIDE: &str = "\
Two identified callers of one Handback. One makes one call at a time with 2026-07-28, and every answer is \
checked: alone, and beside one that has all that it may have (WebSockets, event streams, sessions, streams, \
stored bytes) and asks up to 200 times a second for one more of each and for a tool that is not there. All of \
these have to be refused. The numbers are medians over the rounds of the slowest hundredth of 3,000 calls, \
and the ratio is the median of the ratios within a round, with the lowest and the highest.";

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) turns: &'a Turns,
    pub(crate) contenders: &'a [Contender],
    pub(crate) levels: &'a [Level],
    pub(crate) costs: &'a [Cost],
    pub(crate) hops: &'a [hop::Cost],
    /// A caller beside one at its limits.
    pub(crate) beside: Option<&'a Beside>,
    /// Proxies that did not start, and why.
    pub(crate) unopened: &'a [(Contender, String)],
    pub(crate) rounds: usize,
    /// What the machine did before.
    pub(crate) load_before: String,
    pub(crate) is_smoke: bool,
}

/// Ours, and the peer that the aims name.
const OURS: Contender = Contender::Handback;
const PEER: Contender = Contender::McpProxy;

/// At any number of callers.
const RATE_AIM: Aim = Aim::AtLeast(1.0);
const ADDED_AIM: Aim = Aim::AtMost(1.0);

const COLUMNS: [(&str, Value, usize); 4] = [
    ("calls/s", |sample| Some(sample.rate), 0),
    ("p50 ms", |sample| Some(sample.p50_ms), 3),
    ("p99 ms", |sample| Some(sample.p99_ms), 3),
    ("server µs per call", |sample| sample.cpu_us, 0),
];

/// A level for people who wait.
pub(crate) fn one_line(turns: &Turns, level: Level, who: Contender) -> String {
    let (failed, why) = turns.failures(level, who);
    if failed > 0 {
        return format!("FAILED: {why}");
    }
    let part = |(title, value, digits): (&str, Value, usize)| {
        let spread = turns.spread(level, who, value)?;
        Some(format!("{title} {}", grouped(spread.median, digits)))
    };
    COLUMNS.into_iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

impl Report<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{}\n## Gateway\n\n{ABOUT}\n\n", MARKERS.begin);
        let Self { rounds, load_before, .. } = self;
        let cores = cores();
        line(
            &mut out,
            &format!(
                "{rounds} rounds on {cores} cores; the load average of the machine was \
                 {load_before} before."
            ),
        );
        if self.is_smoke {
            line(&mut out, "\nA smoke run: the numbers mean nothing.");
        }
        self.failures(&mut out);
        self.aims(&mut out);
        for &level in self.levels {
            self.level(&mut out, level);
        }
        self.features(&mut out);
        self.hops(&mut out);
        self.beside(&mut out);
        out.push_str(MARKERS.end);
        out
    }

    fn failures(&self, out: &mut String) {
        let unopened = self.unopened.iter().map(|(who, why)| (who.to_string(), why.clone()));
        let turns = self.levels.iter().flat_map(|&level| {
            self.contenders.iter().filter_map(move |&who| {
                let (failed, why) = self.turns.failures(level, who);
                (failed > 0).then(|| (format!("{who}, {level}"), why.to_owned()))
            })
        });
        for (what, why) in unopened.chain(turns) {
            line(out, &format!("\n{what}: failed: {}", why.replace('\n', " ")));
        }
    }

    /// Ours of the peer that the aims name.
    fn aims(&self, out: &mut String) {
        if ![OURS, PEER].iter().all(|who| self.contenders.contains(who)) {
            return;
        }
        line(
            out,
            &format!("\n| {OURS} of {PEER} | calls/s, {RATE_AIM} | added p50, {ADDED_AIM} |"),
        );
        line(out, "|---|---|---|");
        for &level in self.levels.iter().filter(|level| level.era == Era::Legacy) {
            let rate = self.turns.rate_ratio(level, [OURS, PEER]);
            let added = self.turns.added_ratio(level, [OURS, PEER]);
            let rate = cell(rate.map(|ratio| judged(ratio, Some(RATE_AIM))));
            let added = cell(added.map(|ratio| judged(ratio, Some(ADDED_AIM))));
            row(out, &[level.to_string(), rate, added]);
        }
    }

    fn level(&self, out: &mut String, level: Level) {
        let takes_part =
            |who: &Contender| who.speaks(level.era) && !self.unopened.iter().any(|(w, _)| w == who);
        let contenders: Vec<Contender> =
            self.contenders.iter().copied().filter(takes_part).collect();
        line(out, &format!("\n### {level}\n"));
        let titles = COLUMNS.iter().map(|(title, ..)| (*title).to_owned());
        let titles: Vec<String> = titles
            .chain(["adds to p50, ms".to_owned(), format!("{OURS}, calls/s of it")])
            .collect();
        line(out, &format!("| | {} |", titles.join(" | ")));
        line(out, &format!("|---|{}", "---|".repeat(titles.len())));
        for &who in &contenders {
            let mut cells = vec![who.to_string()];
            cells.extend(COLUMNS.iter().map(|&(_, value, digits)| {
                let spread = self.turns.spread(level, who, value);
                cell(spread.map(|spread| grouped(spread.median, digits)))
            }));
            let added = self.turns.added(level, who).filter(|_| who != Contender::Direct);
            cells.push(cell(added.map(|spread| grouped(spread.median, 3))));
            let ratio = self.turns.rate_ratio(level, [OURS, who]).filter(|_| who != OURS);
            cells.push(cell(ratio.map(|ratio| judged(ratio, None))));
            row(out, &cells);
        }
        let rates: Vec<(String, f64)> = contenders
            .iter()
            .filter_map(|&who| {
                let spread = self.turns.spread(level, who, |sample| Some(sample.rate))?;
                Some((who.to_string(), spread.median))
            })
            .collect();
        bars(out, &rates, 0, "calls/s");
    }

    fn beside(&self, out: &mut String) {
        let Some(beside) = self.beside else { return };
        line(out, &format!("\n### A caller beside one at all of its limits\n\n{ABOUT_BESIDE}\n"));
        let Beside { rounds, load, refusals, .. } = beside;
        line(out, &format!("{rounds} rounds; the load average was {load} before.\n"));
        line(out, "| p99 alone, ms | p99 beside, ms | ratio, at most 2 | requests refused |");
        line(out, "|---|---|---|---|");
        let cells = [
            grouped(beside.alone.median, 3),
            grouped(beside.beside.median, 3),
            judged(beside.ratio, Some(Aim::AtMost(RATIO_MAX))),
            grouped(*refusals as f64, 0),
        ];
        row(out, &cells);
    }

    fn features(&self, out: &mut String) {
        if self.costs.is_empty() {
            return;
        }
        line(out, &format!("\n### What each feature costs\n\n{ABOUT_FEATURES}\n"));
        line(out, "| | direct, ms | through Handback, ms | more than direct, ms |");
        line(out, "|---|---|---|---|");
        for Cost { what, direct, through } in self.costs {
            let more = through.zip(*direct).map(|(through, direct)| through.median - direct.median);
            let number = |number: Option<f64>| cell(number.map(|number| grouped(number, 3)));
            let cells = [
                what.clone(),
                number(direct.map(|spread| spread.median)),
                number(through.map(|spread| spread.median)),
                number(more),
            ];
            row(out, &cells);
        }
    }

    fn hops(&self, out: &mut String) {
        if self.hops.is_empty() {
            return;
        }
        line(out, &format!("\n### Hop of a 3 MB call\n\n{ABOUT_HOPS}\n"));
        line(out, "| arguments | MB | CPU per MB, ms |");
        line(out, "|---|---|---|");
        for hop::Cost { name, megabytes, ms_per_mb } in self.hops {
            let spread = ms_per_mb.map(|spread| {
                let [median, low, high] =
                    [spread.median, spread.min, spread.max].map(|ms| grouped(ms, 1));
                format!("{median} ({low} to {high})")
            });
            row(out, &[(*name).to_owned(), grouped(*megabytes, 2), cell(spread)]);
        }
    }
}
