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

/// Reads an answer: `NAME=JSON`.
pub(super) fn parse_answer(text: &str) -> Result<(String, Value), String> {
    let (name, json) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("it is NAME=JSON, such as sure={\"confirm\":true}")?;
    let value = serde_json::from_str(json).map_err(|error| format!("this is no JSON: {error}"))?;
    Ok((name.to_owned(), value))
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
    words.extend(["--state".to_owned(), quoted(&asks.state)]);
    for (name, question) in &asks.questions {
        let (flag, answer) = match question {
            Question::Form { schema, .. } => ("--answer", example(schema)),
            Question::Url { .. } => ("--raw-answer", json!({"action": "accept"})),
            _ => ("--raw-answer", json!({})),
        };
        words.extend([flag.to_owned(), quoted(&format!("{name}={answer}"))]);
    }
    words.join(" ")
}

/// What a terminal takes for commands is not repeated as it is: the name of a question is the server's.
fn quoted(word: &str) -> String {
    match text::printable(word.as_bytes()) {
        Some(word) => text::shell_word(word),
        None => text::shell_word(&text::one_line(word)),
    }
}

/// The words of a command line, but the answers to an earlier question.
fn without_answers(run: impl Iterator<Item = OsString>) -> Vec<String> {
    let flags = ["--state", "--answer", "--decline", "--raw-answer"];
    let mut words = run.map(|word| word.to_string_lossy().into_owned());
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if !flags.contains(&flag) {
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
