//! Results of older servers, with what newer clients look for in them.
//!
//! A result in memory gets what it lacks behind its members. One that is so large that it is in a file
//! stays there: it is read once to see what it lacks, and that is put behind it.

use std::sync::Arc;

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_page::json::ByteSource as _;
use handback_wire::json::{Lexer, Sink, Token};
use serde_json::value::RawValue;

use crate::upstream::{Answer, Raw};

/// Members of results that clients may keep: those are told for how long.
const KEPT: [&str; 5] = ["tools", "prompts", "resources", "resourceTemplates", "contents"];

/// Members that are added.
const KIND: (&str, &str) = ("resultType", "\"complete\"");
const LIFE: (&str, &str) = ("ttlMs", "0");
const SCOPE: (&str, &str) = ("cacheScope", "\"private\"");

/// Bytes of a file that are looked at at a time.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes of a member's name that are looked at: those that matter are short, even with escapes.
const NAME_BYTES_MAX: usize = 128;

/// The answer of an older server, as newer clients know it.
pub(crate) async fn completed(answer: Answer) -> Answer {
    let raw = match &answer {
        Answer::Error(_) => return answer,
        Answer::Result(raw) => raw.clone(),
    };
    let whole = match raw {
        Raw::Memory(json) => in_memory(&json),
        file => tokio::task::spawn_blocking(move || in_file(&file)).await.ok().flatten(),
    };
    whole.map_or(answer, Answer::Result)
}

/// What a result lacks whose members these are.
fn lacking(has: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    let mut lacking = Vec::new();
    if !has(KIND.0) {
        lacking.push(KIND);
    }
    if KEPT.iter().any(|name| has(name)) && !has(LIFE.0) {
        lacking.push(LIFE);
        if !has(SCOPE.0) {
            lacking.push(SCOPE);
        }
    }
    lacking
}

fn in_memory(json: &Bytes) -> Option<Raw> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    let mut result = Object::read(raw).ok()?;
    for (name, value) in lacking(|name| result.get(name).is_some()) {
        result.set(name, value.to_owned());
    }
    Some(Raw::Memory(result.to_json().into()))
}

/// The same of a result in a file. Nothing, if it lacks nothing, or cannot be read.
fn in_file(raw: &Raw) -> Option<Raw> {
    let Raw::File { file, range, .. } = raw else { return None };
    let names = Names::read(raw)?;
    let lacking = lacking(|name| names.known.iter().any(|known| known == name));
    let mut more = String::new();
    for (number, (name, value)) in lacking.iter().enumerate() {
        let comma = if number > 0 || !names.is_empty { "," } else { "" };
        more.push_str(&format!("{comma}\"{name}\":{value}"));
    }
    if lacking.is_empty() {
        return None;
    }
    more.push('}');
    // Before the end of the object.
    let range = range.start..range.end.checked_sub(1)?;
    Some(Raw::File { file: Arc::clone(file), range, more: more.into() })
}

/// The names of the members of a result that matter here.
#[derive(Debug)]
struct Names {
    /// How deep what passes by is nested.
    depth: usize,
    /// The name that passes by, as it is written.
    name: Option<Vec<u8>>,
    known: Vec<String>,
    is_object: bool,
    is_empty: bool,
}

impl Names {
    /// Reads a result to its end; nothing, if it is no object.
    fn read(raw: &Raw) -> Option<Self> {
        let mut names =
            Self { depth: 0, name: None, known: Vec::new(), is_object: false, is_empty: true };
        let (mut lexer, mut at, size) = (Lexer::new(), 0, raw.size_bytes());
        while at < size {
            let end = size.min(at + CHUNK_BYTES);
            lexer.feed(&raw.read(at..end).ok()?, &mut names).ok()?;
            at = end;
        }
        lexer.finish(&mut names).ok()?;
        names.is_object.then_some(names)
    }

    /// Whether anything depends on a member of this name.
    fn matters(name: &str) -> bool {
        let added = [KIND.0, LIFE.0, SCOPE.0];
        added.iter().chain(&KEPT).any(|known| *known == name)
    }
}

impl Sink for Names {
    fn begin(&mut self, token: Token, _at: u64) {
        match (token, self.depth) {
            (Token::Object, 0) => self.is_object = true,
            (Token::Name, 1) => {
                self.is_empty = false;
                self.name = Some(Vec::new());
            }
            _ => {}
        }
        self.depth += usize::from(token.is_container());
    }

    fn piece(&mut self, bytes: &[u8]) {
        if let Some(name) = &mut self.name {
            let room = NAME_BYTES_MAX.saturating_sub(name.len());
            name.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }

    fn end(&mut self, token: Token, _at: u64) {
        self.depth -= usize::from(token.is_container());
        // One that is too long is cut, and so is none.
        let name = self.name.take().and_then(|name| serde_json::from_slice::<String>(&name).ok());
        self.known.extend(name.filter(|name| Self::matters(name) && !self.known.contains(name)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::upstream::Spooled;

    fn memory(json: &str) -> Raw {
        Raw::Memory(Bytes::from(json.to_owned()))
    }

    /// The same in a file, with something around it.
    fn file(json: &str) -> Raw {
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "before{json}behind").unwrap();
        let range = 6..6 + json.len() as u64;
        Raw::File { file: Arc::new(Spooled::of_file(file)), range, more: Bytes::new() }
    }

    /// What comes of a result, in memory and in a file.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for raw in [memory(json), file(json)] {
            let completed = runtime.block_on(completed(Answer::Result(raw.clone())));
            let Answer::Result(completed) = completed else { panic!("a result") };
            assert_eq!(completed.whole().unwrap(), expected, "{raw:?}");
            assert_eq!(completed.size_bytes(), expected.len() as u64);
            // In whatever pieces it is read.
            let read = |at: u64| completed.read(at..at + 1).unwrap().into_owned();
            let bytes: Vec<u8> = (0..completed.size_bytes()).flat_map(read).collect();
            assert_eq!(bytes, expected.as_bytes());
            for from in 0..=completed.size_bytes() {
                let range = from..completed.size_bytes();
                let part = completed.part(&range).unwrap().whole().unwrap();
                assert_eq!(part, expected.as_bytes()[usize::try_from(from).unwrap()..]);
            }
        }
    }

    #[test]
    fn what_a_newer_client_looks_for_is_there() {
        check("{}", r#"{"resultType":"complete"}"#);
        check(r#"{"content":[]}"#, r#"{"content":[],"resultType":"complete"}"#);
        check(
            r#"{"contents":[{"resultType":1}],"x":1e2}"#,
            r#"{"contents":[{"resultType":1}],"x":1e2,"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        );
        check(r#"{"tools":[],"ttlMs":7}"#, r#"{"tools":[],"ttlMs":7,"resultType":"complete"}"#);
        check(
            r#"{"tools":[],"cacheScope":"public"}"#,
            r#"{"tools":[],"cacheScope":"public","resultType":"complete","ttlMs":0}"#,
        );
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        for json in [
            r#"{"resultType":"x","content":[]}"#,
            r#"{"a":{"b":[{}]},"resultType":null}"#,
            "[1,2]",
            "7",
        ] {
            check(json, json);
        }
        // However its name is written.
        let escaped = r#"{"result\u0054ype":"x"}"#;
        let names = Names::read(&file(escaped)).unwrap();
        assert_eq!(names.known, ["resultType"]);
        assert!(in_file(&file(escaped)).is_none());
    }

    #[test]
    fn long_names_are_not_kept() {
        let long = "x".repeat(8 * NAME_BYTES_MAX);
        let json = format!(r#"{{"{long}":1,"content":[]}}"#);
        check(&json.clone(), &format!(r#"{},"resultType":"complete"}}"#, &json[..json.len() - 1]));
    }
}
