//! What it cost, as text.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::agent::{BYTES_PER_TOKEN, Cost};
use crate::data::DataSet;
use crate::question::Question;
use crate::reader::Parts;
use crate::strategy::{Run, Strategy, Verdict};

const BEGIN: &str = "<!-- answers: written by `cargo xtask bench answers` -->";
const END: &str = "<!-- answers: end -->";

/// What search first may cost of everything, over all questions.
pub(crate) const AIM: f64 = 0.1;

/// What many models take at once, in tokens.
const WINDOW_TOKENS: usize = 200_000;

const ABOUT: &str = "\
`cargo xtask bench answers`: questions about large results of tools, and what an agent has to read \
and write for the answer; no model, but a fixed script for each question and each way. Data and \
questions were committed before any operation was tuned for them (`bench/answers/questions.json`, \
`bench/answers/src/data/`; a test knows their digests and answers). The data comes from an MCP server \
that is a process of its own; the first two ways talk to it directly, the others to `handback wrap` \
on defaults in front of it. Every question is a conversation of its own, and nothing is carried over.\n\n\
What counts as read and written: the descriptions of all tools, once (where Handback is in front, its \
own among them), the notice and the first page, the name and the arguments of every call, and the \
text of every answer. A token is taken for 4 bytes everywhere; JSON and numbers have fewer bytes in \
a token than prose, so that the absolute numbers are low, but all ways read the same data. The wire \
has every byte of every message in both directions, also what models do not see: JSON-RPC, escapes, \
`_meta`. Whether an edit is right is judged by the digest of what the server was given to write.\n\n\
- **everything**: the tool's result in one piece. The answer is then worked out without a mistake, \
which no model does over so much text.\n\
- **truncated**: the first 25,000 tokens and a mark. Clients have been reported to refuse more than \
that, to leave the middle out after about 10,000, and to show 2 KB and the name of a file: less than \
this in each case. The answer is worked out from the records that are whole.\n\
- **pages**: the held result from its first page to the end, as many items a page as fit 40 KiB (100 \
at most), or until the record is found.\n\
- **search first**: the operations over the handle. The script writes no operation, parameter or \
operator that nothing it has read has named, and asks `introspect` where something is missing; it \
uses no column that it has not seen.\n\n\
Tokens are counted once. A model goes through all that was before again for each call; where \
nothing is cached, that is paid for, and many small calls cost more than few: *tokens, read again* \
counts so.\n\n\
In the tables by question: tokens, whether the answer is right, and calls of tools. Questions marked \
*hard* were expected to be hard to answer without reading everything.";

/// All that was run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) questions: &'a [Question],
    pub(crate) runs: &'a [Run],
    pub(crate) is_smoke: bool,
}

impl Report<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{BEGIN}\n## Answers\n\n{ABOUT}\n\n");
        if self.is_smoke {
            line(&mut out, "A smoke run: not everything was answered in every way.\n");
        }
        self.totals(&mut out);
        self.aims(&mut out);
        self.parts(&mut out);
        self.lost(&mut out);
        for data in DataSet::ALL {
            self.table(&mut out, data);
        }
        out.push_str(END);
        out
    }

    fn run(&self, question: &Question, strategy: Strategy) -> Option<&Run> {
        let is_it = |run: &&Run| run.question.id == question.id && run.strategy == strategy;
        self.runs.iter().find(is_it)
    }

    /// What a way costs over the questions that it answered, and what everything costs for those.
    fn totals_of(&self, strategy: Strategy) -> [Cost; 2] {
        let mut totals = [Cost::default(); 2];
        for question in self.questions {
            let runs = [strategy, Strategy::Everything].map(|way| self.run(question, way));
            if let [Some(own), Some(everything)] = runs {
                totals[0] += own.cost;
                totals[1] += everything.cost;
            }
        }
        totals
    }

    /// What search first costs of everything over all questions: in tokens, and on the wire.
    pub(crate) fn parts_of_everything(&self) -> [f64; 2] {
        let totals = self.totals_of(Strategy::Search);
        [totals.map(Cost::tokens), totals.map(|cost| cost.wire)]
            .map(|both| of(both).unwrap_or(f64::NAN))
    }

    fn totals(&self, out: &mut String) {
        line(
            out,
            "| | right answers | tokens | of everything | bytes read | bytes written | calls | \
             tokens, read again | bytes on the wire | of everything |",
        );
        line(out, "|---|---|---|---|---|---|---|---|---|---|");
        for way in Strategy::ALL {
            let all = self.with(way, |_| true).count();
            let right = self.with(way, |run| run.verdict == Verdict::Right).count();
            let [cost, everything] = self.totals_of(way);
            line(
                out,
                &format!(
                    "| {} | {right} of {all} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    way.title(),
                    grouped(cost.tokens()),
                    ratio(cost.tokens(), everything.tokens()),
                    grouped(cost.read),
                    grouped(cost.written),
                    grouped(cost.trips),
                    grouped(cost.tokens_again()),
                    grouped(cost.wire),
                    ratio(cost.wire, everything.wire),
                ),
            );
        }
    }

    fn aims(&self, out: &mut String) {
        let way = Strategy::Search;
        let word = |is_met: bool| if is_met { "met" } else { "**missed**" };
        let wrong: Vec<_> = self.with(way, |run| run.verdict == Verdict::Wrong).collect();
        let _ =
            write!(out, "\nAims of search first: every answer right, {}", word(wrong.is_empty()));
        if !wrong.is_empty() {
            let _ = write!(out, " ({})", names(&wrong));
        }
        let is_met = self.parts_of_everything().into_iter().all(|part| part <= AIM);
        line(
            out,
            &format!(
                "; at most {AIM} of everything over the whole set, in tokens and on the wire, {}.",
                word(is_met)
            ),
        );
        self.spread(out);
        self.together(out);
        let large = DataSet::ALL.into_iter().filter(|data| data.tokens() > WINDOW_TOKENS);
        let large: Vec<_> = large.map(DataSet::name).collect();
        line(
            out,
            &format!(
                "Everything is more than {} tokens, which many models cannot read at once, for {}.",
                grouped(WINDOW_TOKENS),
                large.join(", ")
            ),
        );
    }

    /// The sum is that of the large sets of data: how it is question by question.
    fn spread(&self, out: &mut String) {
        let tokens =
            |question: &Question, way| self.run(question, way).map(|run| run.cost.tokens());
        let part = |question: &Question| {
            of([tokens(question, Strategy::Search)?, tokens(question, Strategy::Everything)?])
        };
        let mut parts: Vec<f64> = self.questions.iter().filter_map(part).collect();
        parts.sort_by(f64::total_cmp);
        let (Some(best), Some(worst)) = (parts.first(), parts.last()) else { return };
        let median = parts.get(parts.len() / 2).unwrap_or(worst);
        line(
            out,
            &format!(
                "Question by question, of everything: {best:.3} to {worst:.2}, median {median:.3}."
            ),
        );
    }

    /// Who asks several questions in one conversation reads everything once for all of them.
    fn together(&self, out: &mut String) {
        let mut sums = [0; 2];
        for data in DataSet::ALL {
            for (sum, way) in sums.iter_mut().zip([Strategy::Search, Strategy::Everything]) {
                let runs = || self.with(way, |run| run.question.data == data);
                // What every conversation about the data begins with.
                let start = |run: &Run| run.parts.tools + run.parts.first;
                *sum += runs().map(start).max().unwrap_or_default();
                *sum += runs().map(|run| run.cost.bytes() - start(run)).sum::<usize>();
            }
        }
        let [own, everything] = sums.map(|bytes| bytes.div_ceil(BYTES_PER_TOKEN));
        line(
            out,
            &format!(
                "All questions about one set of data in one conversation, in which everything, or \
                 notice and first page, is read once: search first takes {} tokens, {} of the {} of \
                 everything.",
                grouped(own),
                ratio(own, everything),
                grouped(everything)
            ),
        );
    }

    /// What the cost of search first is made of.
    fn parts(&self, out: &mut String) {
        let mean = |way: Strategy, bytes: &dyn Fn(&Run) -> usize| {
            let runs = self.with(way, |_| true);
            let (sum, count) = runs.fold((0, 0), |(sum, count), run| (sum + bytes(run), count + 1));
            grouped((sum / BYTES_PER_TOKEN).checked_div(count).unwrap_or(0))
        };
        let rest = |run: &Run| {
            let Parts { tools, first, introspection } = run.parts;
            run.cost.bytes() - tools - first - introspection
        };
        line(
            out,
            &format!(
                "\nOf search first, tokens per question on average: descriptions of the tools {} \
                 (without Handback {}), notice and first page {}, introspection {}, all other \
                 requests and answers {}.",
                mean(Strategy::Search, &|run| run.parts.tools),
                mean(Strategy::Everything, &|run| run.parts.tools),
                mean(Strategy::Search, &|run| run.parts.first),
                mean(Strategy::Search, &|run| run.parts.introspection),
                mean(Strategy::Search, &rest),
            ),
        );
    }

    /// Where search first loses.
    fn lost(&self, out: &mut String) {
        line(out, "\nWhere search first loses:\n");
        let (everything, truncated) = (Strategy::Everything, Strategy::Truncated);
        for (what, runs) in [
            ("a tenth of everything", self.above(everything, Cost::tokens, AIM)),
            ("everything", self.above(everything, Cost::tokens, 1.0)),
            ("everything, read again", self.above(everything, Cost::tokens_again, 1.0)),
            (
                "the truncated result, where that is enough",
                self.above(truncated, Cost::tokens, 1.0),
            ),
            ("pages", self.above(Strategy::Pages, Cost::tokens, 1.0)),
        ] {
            let which = if runs.is_empty() { "none".to_owned() } else { names(&runs) };
            line(out, &format!("- costs more than {what}: {which}"));
        }
    }

    /// Runs of search first that cost more than a multiple of another way, which was right.
    fn above(&self, way: Strategy, tokens: fn(Cost) -> usize, factor: f64) -> Vec<&Run> {
        let costs_more = |run: &Run| {
            let other = self.run(&run.question, way);
            let other = other.filter(|other| other.verdict == Verdict::Right);
            let part = other.and_then(|other| of([tokens(run.cost), tokens(other.cost)]));
            part.is_some_and(|part| part > factor)
        };
        self.with(Strategy::Search, |run| run.verdict == Verdict::Right && costs_more(run))
            .collect()
    }

    fn with(
        &self,
        strategy: Strategy,
        is_one: impl Fn(&Run) -> bool,
    ) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.strategy == strategy && is_one(run))
    }

    fn table(&self, out: &mut String, data: DataSet) {
        let questions: Vec<_> = self.questions.iter().filter(|q| q.data == data).collect();
        if questions.is_empty() {
            return;
        }
        let tokens = grouped(data.tokens());
        line(out, &format!("\n### {}: {}, {tokens} tokens\n", data.name(), data.about()));
        let titles = Strategy::ALL.map(Strategy::title).join(" | ");
        line(out, &format!("| question | {titles} | of everything |"));
        line(out, "|---|---|---|---|---|---|");
        for question in questions {
            let mut asks = format!("`{}` {}", question.id, question.asks);
            if let Some(why) = &question.hard {
                let _ = write!(asks, " *Hard: {why}.*");
            }
            let cells = Strategy::ALL.map(|way| cell(self.run(question, way)));
            let tokens = |way| Some(self.run(question, way)?.cost.tokens());
            let part = match (tokens(Strategy::Search), tokens(Strategy::Everything)) {
                (Some(own), Some(everything)) => ratio(own, everything),
                _ => "–".to_owned(),
            };
            line(out, &format!("| {asks} | {} | {part} |", cells.join(" | ")));
        }
    }
}

fn cell(run: Option<&Run>) -> String {
    let Some(run) = run else { return "–".to_owned() };
    let verdict = match run.verdict {
        Verdict::Right => "right",
        Verdict::Wrong => "**wrong**",
    };
    format!("{}, {verdict}, {}", grouped(run.cost.tokens()), run.cost.trips)
}

fn names(runs: &[&Run]) -> String {
    runs.iter().map(|run| format!("`{}`", run.question.id)).collect::<Vec<_>>().join(", ")
}

/// A part of a whole, if there is any.
#[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^52")]
fn of([part, whole]: [usize; 2]) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn ratio(part: usize, whole: usize) -> String {
    match of([part, whole]) {
        None => "–".to_owned(),
        Some(ratio) if ratio < 0.1 => format!("{ratio:.4}"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A number with commas.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
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

    fn run(question: &Question, strategy: Strategy, read: usize, verdict: Verdict) -> Run {
        let cost = Cost { read, written: 0, trips: 1, again: 0, wire: 2 * read };
        Run { question: question.clone(), strategy, cost, parts: Parts::default(), verdict }
    }

    fn markdown(search: usize, verdict: Verdict) -> String {
        let questions = crate::question::all().unwrap();
        let questions = &questions[..1];
        let runs = [
            run(&questions[0], Strategy::Everything, 4000, Verdict::Right),
            run(&questions[0], Strategy::Truncated, 400, Verdict::Wrong),
            run(&questions[0], Strategy::Pages, 2000, Verdict::Right),
            run(&questions[0], Strategy::Search, search, verdict),
        ];
        Report { questions, runs: &runs, is_smoke: false }.markdown()
    }

    #[test]
    fn aims_that_are_met_or_missed_are_said() {
        let good = markdown(400, Verdict::Right);
        assert!(good.contains("every answer right, met; at most 0.1"), "{good}");
        assert!(!good.contains("missed"), "{good}");
        assert!(good.contains("| search first | 1 of 1 | 100 | 0.10 |"), "{good}");
        let bad = markdown(4400, Verdict::Wrong);
        assert!(bad.contains("right, **missed** (`issues-first`); at most 0.1"), "{bad}");
        assert!(bad.contains("on the wire, **missed**"), "{bad}");
    }

    #[test]
    fn where_it_loses_is_said() {
        let text = markdown(4400, Verdict::Right);
        assert!(text.contains("- costs more than everything: `issues-first`"), "{text}");
        assert!(text.contains("- costs more than pages: `issues-first`"), "{text}");
        let text = markdown(440, Verdict::Right);
        assert!(text.contains("- costs more than a tenth of everything: `issues-first`"), "{text}");
        assert!(text.contains("- costs more than everything: none"), "{text}");
    }

    #[test]
    fn a_way_is_compared_over_what_it_answered() {
        let questions = crate::question::all().unwrap();
        let questions = &questions[..2];
        let runs = [
            run(&questions[0], Strategy::Everything, 4000, Verdict::Right),
            run(&questions[1], Strategy::Everything, 8000, Verdict::Right),
            run(&questions[0], Strategy::Search, 400, Verdict::Right),
            run(&questions[1], Strategy::Search, 400, Verdict::Right),
            run(&questions[1], Strategy::Pages, 4000, Verdict::Right),
        ];
        let report = Report { questions, runs: &runs, is_smoke: true };
        let text = report.markdown();
        assert!(text.contains("| pages | 1 of 1 | 1,000 | 0.50 |"), "{text}");
        assert!(text.contains("| search first | 2 of 2 | 200 | 0.0667 |"), "{text}");
        let [tokens, wire] = report.parts_of_everything();
        assert!((tokens - 200.0 / 3000.0).abs() < 1e-9 && (wire - tokens).abs() < 1e-9);
    }

    #[test]
    fn the_section_is_replaced_and_the_rest_stays() {
        let section = format!("{BEGIN}\nnew\n{END}");
        let old = format!("# A\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&old, &section), format!("# A\n{section}\nafter\n"));
        assert_eq!(replaced("# A\n", &section), format!("# A\n\n{section}\n"));
    }
}
