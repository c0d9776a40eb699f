//! The ways to get at an answer: each question is answered in each of them by a fixed script.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent::{Agent, BYTES_PER_TOKEN, Cost};
use crate::data::DataSet;
use crate::front::Programs;
use crate::known::Known;
use crate::plain;
use crate::question::Question;
use crate::reader::{Parts, Reader};
use crate::search;
use crate::upstream::{self, WRITE};

/// Harnesses cut a result here: so many tokens.
const TRUNCATED_TOKENS: usize = 25_000;

/// What they put in the place of the rest.
const TRUNCATED_NOTE: &str = "\n... [truncated]";

/// Questions where a reader of pages can stop at the record that answers them.
const ENDS_EARLY: [&str; 13] = [
    "issues-first",
    "issues-one",
    "issues-code",
    "issues-fuzzy",
    "orders-one",
    "log-first",
    "log-before",
    "config-one",
    "results-first",
    "results-one",
    "results-quote",
    "handbook-one",
    "handbook-fuzzy",
];

/// A way to get at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The whole result.
    Everything,
    /// The first part of it, and nothing tells of the rest.
    Truncated,
    /// Page by page.
    Pages,
    /// Operations that find, filter, sort, project and count.
    Search,
}

impl Strategy {
    pub(crate) const ALL: [Self; 4] =
        [Self::Everything, Self::Truncated, Self::Pages, Self::Search];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Truncated => "truncated",
            Self::Pages => "pages",
            Self::Search => "search first",
        }
    }
}

/// How an answer came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
}

/// One question, answered in one way.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) question: Question,
    pub(crate) strategy: Strategy,
    pub(crate) cost: Cost,
    /// What the cost is made of.
    pub(crate) parts: Parts,
    pub(crate) verdict: Verdict,
}

/// Answers a question, with servers of its own.
pub(crate) fn run(programs: &Programs, question: &Question, strategy: Strategy) -> Result<Run> {
    let scratch = tempfile::tempdir()?;
    let record = scratch.path().join("record");
    let (answer, cost, parts) = match strategy {
        Strategy::Everything | Strategy::Truncated => {
            let mut client = programs.upstream(&record)?;
            let mut agent = Agent::new(&mut client)?;
            let tools = agent.cost().bytes();
            let (answer, first) = by_reading(question, strategy, &mut agent)?;
            (answer, agent.cost(), Parts { tools, first, introspection: 0 })
        }
        Strategy::Pages | Strategy::Search => {
            let mut client = programs.wrapped(&record, &scratch.path().join("data"))?;
            let mut reader = Reader::new(&mut client, question)?;
            let answer = match strategy {
                Strategy::Pages => by_pages(question, &mut reader)?,
                _ => search::answer(question, &mut reader)?,
            };
            (answer, reader.cost(), reader.parts())
        }
    };
    let answer = if question.is_edit() { written(&record)? } else { answer };
    let verdict = if answer == question.answer { Verdict::Right } else { Verdict::Wrong };
    Ok(Run { question: question.clone(), strategy, cost, parts, verdict })
}

/// The result of the tool in one piece, or as much of it as is let through. Gives the answer, and the
/// bytes of the call that got the data.
fn by_reading(
    question: &Question,
    strategy: Strategy,
    agent: &mut Agent<'_>,
) -> Result<(Value, usize)> {
    let before = agent.cost().bytes();
    let mut text = agent.send(question.data.tool(), &json!({}))?.join("\n");
    if strategy == Strategy::Truncated {
        truncate(&mut text);
    }
    agent.take(&text);
    let first = agent.cost().bytes() - before;
    let known = Known::from_text(question.data, text.trim_end_matches(TRUNCATED_NOTE));
    if let Some(arguments) = whole_document(question, &known) {
        agent.call(WRITE, &arguments)?;
    }
    Ok((plain::answer(&question.id, &known), first))
}

/// All pages, or as many as it takes to find what is asked for; the first one may be enough.
fn by_pages(question: &Question, reader: &mut Reader<'_>) -> Result<Value> {
    let ends_early = ENDS_EARLY.contains(&question.id.as_str());
    let shown = Known::from_text(question.data, &reader.page);
    let answer = plain::answer(&question.id, &shown);
    if ends_early && !answer.is_null() {
        return Ok(answer);
    }
    let is_enough = |recent: &[Value]| {
        ends_early
            && !plain::answer(&question.id, &Known::from_pages(question.data, recent)).is_null()
    };
    let items = reader.walk("list_elements", json!({}), is_enough)?;
    let known = Known::from_pages(question.data, &items);
    if let Some(arguments) = whole_document(question, &known) {
        reader.call(WRITE, &arguments)?;
    }
    Ok(plain::answer(&question.id, &known))
}

/// What is written to change a document: all of it, as it was printed.
fn whole_document(question: &Question, known: &Known) -> Option<Value> {
    let document = plain::edited(&question.id, known)?;
    let text = match document {
        Value::String(text) => text,
        other => serde_json::to_string_pretty(&other).unwrap_or_default(),
    };
    Some(json!({"path": question.data.path(), "text": text}))
}

/// What the upstream got, by its own record.
fn written(record: &Path) -> Result<Value> {
    Ok(json!(upstream::last_written(record)?))
}

fn truncate(text: &mut String) {
    let mut end = TRUNCATED_TOKENS * BYTES_PER_TOKEN;
    if text.len() <= end {
        return;
    }
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(TRUNCATED_NOTE);
}

impl DataSet {
    /// The tokens of the whole result.
    pub(crate) fn tokens(self) -> usize {
        self.text().len().div_ceil(BYTES_PER_TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_the_limit_and_between_characters() {
        let mut text = "é".repeat(60_000);
        text.insert(0, 'x');
        truncate(&mut text);
        assert_eq!(text.len(), 99_999 + TRUNCATED_NOTE.len());
        assert!(text.ends_with("é\n... [truncated]"));
        let mut short = "x".repeat(100_000);
        truncate(&mut short);
        assert_eq!(short.len(), 100_000);
    }
}
