//! What it cost, as text.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::agent::{BYTES_PER_TOKEN, Cost};
use crate::data::DataSet;
use crate::question::Question;
use crate::strategy::{Run, Strategy, Verdict};

const BEGIN: &str = "<!-- answers: written by `cargo xtask bench answers` -->";
const END: &str = "<!-- answers: end -->";

/// What search first may cost of everything, over all questions.
const AIM: f64 = 0.1;

/// What many models take at once, in tokens.
const WINDOW_TOKENS: usize = 200_000;

const ABOUT: &str = "\
`cargo xtask bench answers`: questions about large results of tools, and what an agent has to read \
and write for the answer; no model, but a fixed script for each question and each way. Data and \
questions were committed before any operation was tuned for them (`bench/answers/questions.json`, \
`bench/answers/src/data/`; a test knows their digests and answers). A token is taken for 4 bytes. \
What counts: the descriptions of the tools that Handback adds (once for each question), the notice \
and the first page, the name and the arguments of every call, and the text of every answer.\n\n\
- **everything**: the tool's result in one piece. The answer is then worked out without a mistake, \
which no model does over so much text.\n\
- **truncated**: the first 25,000 tokens, as harnesses cut. The answer is worked out from the records \
that are whole.\n\
- **pages**: `list_elements` from the first page on, as many items a page as fit 40 KiB (100 at \
most), until the record is found, or to the end.\n\
- **search first**: the operations over the handle. The script writes no operation, parameter or \
operator that nothing it has read has named, and asks `introspect` where something is missing; it \
uses no column that it has not seen.\n\n\
Tokens are counted once. A model goes through all that was before again for each call; where \
nothing is cached, that is paid for, and many small calls cost more than few: *tokens, read again* \
counts so.\n\n\
In the table: tokens, whether the answer is right, and calls of tools. Questions marked *hard* were \
expected to be hard to answer without reading everything.";

/// All that was run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) questions: &'a [Question],
    pub(crate) runs: &'a [Run],
    /// Whether the gateway itself was in front.
    pub(crate) has_gateway: bool,
    pub(crate) is_smoke: bool,
}

impl Report<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{BEGIN}\n## Answers\n\n{ABOUT}\n\n");
        if !self.has_gateway {
            line(&mut out, PROVISIONAL);
        }
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

    /// Questions that were answered in every way.
    fn complete(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| {
            Strategy::ALL.iter().all(|&way| {
                self.run(question, way).is_some_and(|run| run.verdict != Verdict::Pending)
            })
        })
    }

    fn run(&self, question: &Question, strategy: Strategy) -> Option<&Run> {
        let is_it = |run: &&Run| run.question.id == question.id && run.strategy == strategy;
        self.runs.iter().find(is_it)
    }

    /// What a way costs over all questions that were answered in every way.
    fn total(&self, strategy: Strategy) -> Cost {
        let mut total = Cost::default();
        for run in self.complete().filter_map(|question| self.run(question, strategy)) {
            total += run.cost;
        }
        total
    }

    fn totals(&self, out: &mut String) {
        let complete = self.complete().count();
        let all = self.questions.len();
        line(
            out,
            "| | right answers | tokens | of everything | bytes read | bytes written | calls | tokens, read again |",
        );
        line(out, "|---|---|---|---|---|---|---|---|");
        let everything = self.total(Strategy::Everything).tokens();
        for way in Strategy::ALL {
            let right = self.complete().filter_map(|question| self.run(question, way));
            let right = right.filter(|run| run.verdict == Verdict::Right).count();
            let cost = self.total(way);
            let Cost { read, written, trips, .. } = cost;
            line(
                out,
                &format!(
                    "| {} | {right} of {complete} | {} | {} | {} | {} | {} | {} |",
                    way.title(),
                    grouped(cost.tokens()),
                    ratio(cost.tokens(), everything),
                    grouped(read),
                    grouped(written),
                    grouped(trips),
                    grouped(cost.tokens_again())
                ),
            );
        }
        if complete < all {
            let rest = all - complete;
            line(
                out,
                &format!(
                    "\n{rest} of {all} questions are not in this sum: not every way answered them."
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
        let pending = self.with(way, |run| run.verdict == Verdict::Pending).count();
        if pending > 0 {
            let _ = write!(out, ", {pending} pending");
        }
        let all = [way, Strategy::Everything].map(|way| self.total(way).tokens());
        let is_met = of(all).is_some_and(|part| part <= AIM);
        line(out, &format!("; at most {AIM} of everything over the whole set, {}.", word(is_met)));
        self.spread(out);
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
        let mut parts: Vec<f64> = self.complete().filter_map(part).collect();
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

    /// What the cost of search first is made of.
    fn parts(&self, out: &mut String) {
        let (mut tools, mut first, mut introspection, mut all, mut count) = (0, 0, 0, 0, 0);
        for run in self.with(Strategy::Search, |run| run.verdict != Verdict::Pending) {
            tools += run.parts.tools;
            first += run.parts.first;
            introspection += run.parts.introspection;
            all += run.cost.bytes();
            count += 1;
        }
        let rest = all - tools - first - introspection;
        let mean =
            |bytes: usize| grouped((bytes / BYTES_PER_TOKEN).checked_div(count).unwrap_or(0));
        line(
            out,
            &format!(
                "\nOf search first, tokens per question on average: descriptions of the tools {}, \
                 notice and first page {}, introspection {}, all other requests and answers {}.",
                mean(tools),
                mean(first),
                mean(introspection),
                mean(rest)
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
            let tokens = |way| {
                let run = self.run(question, way).filter(|run| run.verdict != Verdict::Pending)?;
                Some(run.cost.tokens())
            };
            let part = match (tokens(Strategy::Search), tokens(Strategy::Everything)) {
                (Some(own), Some(everything)) => ratio(own, everything),
                _ => "–".to_owned(),
            };
            line(out, &format!("| {asks} | {} | {part} |", cells.join(" | ")));
        }
    }
}

const PROVISIONAL: &str = "**Provisional**: the gateway is not there yet. A server that holds the \
results stands for it, and notice and first page (40 KiB) are a placeholder; questions that write \
are pending.\n";

fn cell(run: Option<&Run>) -> String {
    let Some(run) = run else { return "–".to_owned() };
    let verdict = match run.verdict {
        Verdict::Pending => return "pending".to_owned(),
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
    use crate::reader::Parts;

    fn run(question: &Question, strategy: Strategy, read: usize, verdict: Verdict) -> Run {
        let cost = Cost { read, written: 0, trips: 1, again: 0 };
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
        Report { questions, runs: &runs, has_gateway: true, is_smoke: false }.markdown()
    }

    #[test]
    fn aims_that_are_met_or_missed_are_said() {
        let good = markdown(400, Verdict::Right);
        assert!(good.contains("every answer right, met; at most 0.1"), "{good}");
        assert!(!good.contains("missed"), "{good}");
        assert!(good.contains("| search first | 1 of 1 | 100 | 0.10 |"), "{good}");
        let bad = markdown(4400, Verdict::Wrong);
        assert!(bad.contains("right, **missed** (`issues-first`); at most 0.1"), "{bad}");
        assert!(bad.contains("whole set, **missed**"), "{bad}");
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
    fn what_is_pending_is_not_in_the_sum() {
        let text = markdown(0, Verdict::Pending);
        assert!(text.contains("| everything | 0 of 0 | 0 |"), "{text}");
        assert!(text.contains("1 of 1 questions are not in this sum"), "{text}");
        assert!(text.contains("every answer right, met, 1 pending"), "{text}");
    }

    #[test]
    fn the_section_is_replaced_and_the_rest_stays() {
        let section = format!("{BEGIN}\nnew\n{END}");
        let old = format!("# A\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(replaced(&old, &section), format!("# A\n{section}\nafter\n"));
        assert_eq!(replaced("# A\n", &section), format!("# A\n\n{section}\n"));
    }
}
