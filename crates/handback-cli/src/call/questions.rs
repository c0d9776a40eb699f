//! What a tool asks, and how it is answered.

use std::ffi::OsString;
use std::fmt;

use handback_client::tools::{Asks, Question};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Reads the name of a question. A name that begins with `"` is a JSON string, so that every name can be
/// typed.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("this is no JSON string: {error}"))
}

/// Reads an answer: `NAME=JSON`.
pub(super) fn parse_answer(text: &str) -> Result<(String, Value), String> {
    let (name, json) = split_answer(text)
        .filter(|(name, _)| !name.is_empty())
        .ok_or("it is NAME=JSON, such as sure={\"confirm\":true}")?;
    let value = serde_json::from_str(json).map_err(|error| format!("this is no JSON: {error}"))?;
    Ok((parse_name(name)?, value))
}

/// Splits an answer into the typed name and the text behind the `=`.
fn split_answer(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with('"') {
        return text.split_once('=');
    }
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    strings.next()?.ok()?;
    let (name, rest) = text.split_at_checked(strings.byte_offset())?;
    Some((name, rest.strip_prefix('=')?))
}

/// Reads a state from a JSON string.
pub(super) fn parse_state(text: &str) -> Result<String, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no JSON string: {error}"))
}

/// A form that is filled in.
pub(super) fn accepted(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// A question that is not answered.
pub(super) fn declined() -> Value {
    json!({"action": "decline"})
}

/// One member of a form.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) kind: String,
    pub(super) description: &'a str,
    pub(super) is_required: bool,
    pub(super) schema: &'a Value,
}

/// The members of a form, those that are needed first.
pub(super) fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|required| required.iter().any(|one| one.as_str() == Some(name)))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fields: Vec<_> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| Field {
            name,
            kind: kind(schema),
            description: schema.get("description").and_then(Value::as_str).unwrap_or_default(),
            is_required: is_required(name),
            schema,
        })
        .collect();
    fields.sort_by_key(|field| !field.is_required);
    fields
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values.iter().map(Value::to_string).collect();
        return format!("one of {}", values.join(", "));
    }
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// Something that fits the form, to be changed.
fn example(schema: &Value) -> Value {
    let one = |field: Field<'_>| {
        let first = field.schema.get("enum").and_then(|values| values.get(0)).cloned();
        let value = first.unwrap_or_else(|| match field.kind.as_str() {
            "boolean" => true.into(),
            "integer" | "number" => 0.into(),
            "array" => json!([]),
            "object" => json!({}),
            _ => "…".into(),
        });
        (field.name.to_owned(), value)
    };
    let needed = fields(schema).into_iter().filter(|field| field.is_required);
    Value::Object(needed.map(one).collect::<Map<_, _>>())
}

#[derive(Serialize)]
struct Shown<'a> {
    questions: Vec<ShownQuestion<'a>>,
    state: &'a str,
    /// For people: what is typed to answer.
    #[serde(skip)]
    command: String,
}

#[derive(Default, Serialize)]
struct ShownQuestion<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<&'a Value>,
}

/// Writes what is asked to stdout, with the command that answers it.
pub(super) fn show(asks: &Asks, output: Output) -> Result<Exit, Failure> {
    let questions = asks.questions.iter().map(|(name, question)| shown(name, question)).collect();
    let command = command(asks, std::env::args_os());
    output.answer(&Shown { questions, state: &asks.state, command })?;
    Ok(Exit::OK)
}

fn shown<'a>(name: &'a str, question: &'a Question) -> ShownQuestion<'a> {
    let shown = ShownQuestion { name, ..ShownQuestion::default() };
    match question {
        Question::Form { message, schema } => {
            ShownQuestion { message: Some(message), schema: Some(schema), ..shown }
        }
        Question::Url { message, url } => {
            ShownQuestion { message: Some(message), url: Some(url), ..shown }
        }
        Question::Other(asked) => ShownQuestion { other: Some(asked), ..shown },
        _ => shown,
    }
}

/// The command that was run, with answers.
fn command(asks: &Asks, run: impl Iterator<Item = OsString>) -> String {
    let mut words: Vec<String> = without_answers(run).iter().map(|word| quoted(word)).collect();
    let mut more = vec![state_word(&asks.state)];
    for (name, question) in &asks.questions {
        let (flag, answer) = match question {
            Question::Form { schema, .. } => ("--answer", example(schema)),
            Question::Url { .. } => ("--raw-answer", json!({"action": "accept"})),
            _ => ("--raw-answer", json!({})),
        };
        let answer = answer.to_string();
        let word = format!("{flag}={}={}", typed_name(name), text::plain_json(&answer));
        more.push(text::shell_word(&word));
    }
    // Behind `--` there are no flags.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(end..end, more);
    words.join(" ")
}

/// The flag with a state: `--state-json` for a state with control characters.
fn state_word(state: &str) -> String {
    let word = match is_typed_as_it_is(state) {
        true => format!("--state={state}"),
        false => format!("--state-json={}", json_word(state)),
    };
    text::shell_word(&word)
}

/// The name of a question as [`parse_answer`] reads it.
fn typed_name(name: &str) -> String {
    let is_plain = !name.is_empty() && !name.starts_with('"') && !name.contains('=');
    match is_plain && is_typed_as_it_is(name) {
        true => name.to_owned(),
        false => json_word(name),
    }
}

/// True if a text has no control characters and no line breaks.
fn is_typed_as_it_is(text: &str) -> bool {
    text::printable(text.as_bytes()).is_some() && !text.contains(['\n', '\r', '\t'])
}

/// A text as a JSON string without control characters.
fn json_word(text: &str) -> String {
    text::plain_json(&Value::from(text).to_string()).into_owned()
}

/// A word of the command line that was run.
fn quoted(word: &str) -> String {
    match text::printable(word.as_bytes()) {
        Some(word) => text::shell_word(word),
        None => text::shell_word(&text::one_line(word)),
    }
}

/// The words of a command line, but the answers to an earlier question.
fn without_answers(run: impl Iterator<Item = OsString>) -> Vec<String> {
    let flags = ["--state", "--state-json", "--answer", "--decline", "--raw-answer"];
    let mut words = run.map(|word| word.to_string_lossy().into_owned());
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if word == "--" {
            kept.push(word);
            kept.extend(words.by_ref());
        } else if !flags.contains(&flag) {
            kept.push(word);
        } else if flag == word {
            words.next();
        }
    }
    kept
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The tool asks:")?;
        for question in &self.questions {
            write!(f, "{question}")?;
        }
        write!(f, "\nTo answer:\n  {}", self.command)
    }
}

impl fmt::Display for ShownQuestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = text::one_line;
        let message = self.message.unwrap_or_default();
        writeln!(f, "\n  {}: {}", plain(self.name), plain(message))?;
        if let Some(url) = self.url {
            writeln!(f, "    at {}", plain(url))?;
        }
        for field in self.schema.map(fields).into_iter().flatten() {
            let Field { name, kind, description, is_required, .. } = &field;
            let optional = if *is_required { "" } else { ", may be left out" };
            let (name, kind) = (plain(name), plain(kind));
            writeln!(f, "    {name} ({kind}{optional}): {}", plain(description))?;
        }
        if let Some(other) = self.other {
            writeln!(f, "    {}", text::plain_json(&other.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        without_answers(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_command_is_repeated_without_earlier_answers() {
        let first = ["handback", "call", "t", "{}", "--all"];
        assert_eq!(words("handback call t {} --all"), first);
        let second =
            "handback call t --state s {} --answer a={} --decline=b --raw-answer c=1 --all";
        assert_eq!(words(second), first);
        let behind = "handback call --state-json \"s\" -- t --answer";
        assert_eq!(words(behind), ["handback", "call", "--", "t", "--answer"]);
    }

    #[test]
    fn every_name_can_be_typed() {
        let names =
            ["sure", "-x", "--state", "a=b", "\"q\"", "a\"b=", "", "it's $(x) `y`", "a\nb\u{1b}"];
        for name in names {
            let answer = format!("{}={{\"a\":\"=\"}}", typed_name(name));
            assert!(!answer.contains(char::is_control), "{answer}");
            assert_eq!(parse_answer(&answer), Ok((name.to_owned(), json!({"a": "="}))), "{answer}");
            assert_eq!(parse_name(&typed_name(name)), Ok(name.to_owned()));
        }
        assert_eq!(typed_name("sure"), "sure");
        assert!(parse_answer("\"a\"").is_err() && parse_answer("\"a={}").is_err());
    }

    #[test]
    fn an_example_has_what_a_form_needs() {
        let schema = json!({
            "required": ["sure", "how", "why", "many"],
            "properties": {
                "sure": {"type": "boolean"},
                "how": {"type": "string", "enum": ["fast", "slow"]},
                "why": {"type": "string"},
                "many": {"type": "integer"},
                "note": {"type": "string"},
            },
        });
        assert_eq!(example(&schema), json!({"sure": true, "how": "fast", "why": "…", "many": 0}));
        assert_eq!(fields(&schema).last().map(|field| field.name), Some("note"));
    }

    #[test]
    fn answers_have_a_name() {
        assert_eq!(parse_answer("a={\"b\":1}"), Ok(("a".to_owned(), json!({"b": 1}))));
        assert!(parse_answer("={}").is_err());
        assert!(parse_answer("a").is_err());
        assert!(parse_answer("a=b").is_err());
    }
}
