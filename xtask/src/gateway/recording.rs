//! What was said on the wire between a client and a server, as `mcp-recorder` wrote it down.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

/// All that was said, in its order; JSON is as it was, to the byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recording {
    /// What the client asked.
    pub(crate) asked: Vec<Exchange>,
    /// What the server asked the client.
    pub(crate) asked_back: Vec<Exchange>,
    /// What the server told without being asked.
    pub(crate) told: Vec<Note>,
    /// How many recorders there were: how often the server was started, if it was started.
    pub(crate) starts: usize,
}

/// A request and what it was answered with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    /// Empty if there were none.
    pub(crate) params: String,
    /// Only while it is read there is none.
    pub(crate) answer: Option<Answer>,
}

/// The part of an answer that says something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Result(String),
    Error(String),
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
    pub(crate) method: String,
    pub(crate) params: String,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Recording {
    /// Reads a file. Every answer must be one to a question, and every question has one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {name}"))?;
        Self::parse(&text).with_context(|| format!("in {name}"))
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut recording = Self::default();
        let mut lines: BTreeMap<&str, Open> = BTreeMap::new();
        let mut last = "";
        for line in text.lines() {
            let (head, message) = line.split_once(' ').context("a line has no message")?;
            let number = head.trim_end_matches(['<', '>']);
            ensure!(!number.is_empty(), "nobody wrote {line}");
            if !lines.contains_key(number) {
                last = number;
            }
            let Open { of_client, of_server } = lines.entry(number).or_default();
            let (asked, back) = (&mut recording.asked, &mut recording.asked_back);
            match head.strip_prefix(number) {
                // What clients tell without being asked is not relayed to the byte.
                Some(">") => drop(file(message, asked, of_client, back, of_server)?),
                Some("<") => {
                    let note = file(message, back, of_server, asked, of_client)?;
                    recording.told.extend(note);
                }
                _ => bail!("nobody said {line}"),
            }
        }
        recording.starts = lines.len();
        let Open { of_client, of_server } = lines.remove(last).unwrap_or_default();
        let open = of_client.keys().chain(of_server.keys()).next();
        ensure!(open.is_none(), "{} has no answer", open.map_or("", String::as_str));
        // What was not answered by a server that was stopped, and started again, was for nobody.
        recording.asked.retain(|exchange| exchange.answer.is_some());
        recording.asked_back.retain(|exchange| exchange.answer.is_some());
        Ok(recording)
    }
}

/// Ids of questions that wait for an answer, by who asked, with their place.
#[derive(Debug, Default)]
struct Open {
    of_client: BTreeMap<String, usize>,
    of_server: BTreeMap<String, usize>,
}

/// Puts a message where it belongs, by what its sender asked and what the other side did; gives a
/// notification back.
fn file(
    message: &str,
    own: &mut Vec<Exchange>,
    own_open: &mut BTreeMap<String, usize>,
    other: &mut [Exchange],
    other_open: &mut BTreeMap<String, usize>,
) -> Result<Option<Note>> {
    let read = serde_json::from_str::<Message<'_>>(message);
    let Message { id, method, params, result, error } =
        read.with_context(|| format!("this is no message: {message}"))?;
    let params = params.map(RawValue::get).unwrap_or_default().to_owned();
    match (id, method) {
        (None, Some(method)) => Ok(Some(Note { method: method.into_owned(), params })),
        (Some(id), Some(method)) => {
            let open = own_open.insert(id.get().to_owned(), own.len());
            ensure!(open.is_none(), "a question has the id of an open one: {message}");
            own.push(Exchange { method: method.into_owned(), params, answer: None });
            Ok(None)
        }
        (Some(id), None) => {
            let answer = match (result, error) {
                (Some(result), None) => Answer::Result(result.get().to_owned()),
                (None, Some(error)) => Answer::Error(error.get().to_owned()),
                _ => bail!("this is neither a result nor an error: {message}"),
            };
            let place = other_open.remove(id.get());
            let exchange = place.and_then(|place| other.get_mut(place));
            exchange.with_context(|| format!("nobody asked for {message}"))?.answer = Some(answer);
            Ok(None)
        }
        (None, None) => bail!("this is no message: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_byte_that_says_something() {
        let recording = Recording::parse(
            "7> {\"id\":1,\"method\":\"a\",\"params\":{ \"x\" : 1.50 }}\n\
             7< {\"method\":\"told\",\"params\":[ ]}\n\
             7< {\"id\":1,\"method\":\"back\"}\n\
             7> {\"result\":{\"y\":1e2},\"id\":1}\n\
             7< {\"id\":1,\"result\":{\"z\" :\"\\u0041\"}}\n\
             7> {\"method\":\"note\"}\n",
        );
        let exchange = |method: &str, params: &str, result: &str| Exchange {
            method: method.into(),
            params: params.into(),
            answer: Some(Answer::Result(result.into())),
        };
        let expected = Recording {
            asked: vec![exchange("a", "{ \"x\" : 1.50 }", "{\"z\" :\"\\u0041\"}")],
            asked_back: vec![exchange("back", "", "{\"y\":1e2}")],
            told: vec![Note { method: "told".into(), params: "[ ]".into() }],
            starts: 1,
        };
        assert_eq!(recording.unwrap(), expected);
    }

    #[test]
    fn an_answer_is_one_to_an_open_question() {
        let asked = "7> {\"id\":1,\"method\":\"a\"}\n";
        let answer = "7< {\"id\":1,\"result\":{}}\n";
        assert!(Recording::parse(answer).is_err());
        assert!(Recording::parse(&[asked, answer].concat()).is_ok());
        assert!(Recording::parse(asked).is_err());
        assert!(Recording::parse(&[asked, answer, answer].concat()).is_err());
        assert!(Recording::parse(&[asked, asked].concat()).is_err());
        assert!(Recording::parse(&[asked, answer, asked, answer].concat()).is_ok());
    }

    #[test]
    fn a_server_that_is_started_again_has_ids_of_its_own() {
        let recording = Recording::parse(
            "7> {\"id\":1,\"method\":\"a\"}\n8> {\"id\":1,\"method\":\"b\"}\n\
             8< {\"id\":1,\"result\":{}}\n",
        );
        let recording = recording.unwrap();
        let asked: Vec<&str> = recording.asked.iter().map(|one| one.method.as_str()).collect();
        assert_eq!((asked, recording.starts), (vec!["b"], 2));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for line in ["7> {}", "> [", "x", "7< {\"id\":1}"] {
            assert!(Recording::parse(line).is_err(), "{line}");
        }
        assert_eq!(Recording::parse("").unwrap(), Recording::default());
    }
}
