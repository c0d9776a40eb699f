//! Search first: a fixed script for each question, of the operations that a reader would think of.

mod config;
mod handbook;
mod issues;
mod log;
mod orders;
mod results;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::data::DataSet;
use crate::known::Known;
use crate::plain;
use crate::question::Question;
use crate::reader::Reader;
use crate::upstream::WRITE;

/// Answers a question. Null is "I do not know"; for questions that write, the upstream knows.
pub(crate) fn answer(question: &Question, reader: &mut Reader<'_>) -> Result<Value> {
    let id = question.id.as_str();
    if id == "log-first" {
        // What a text begins with is on the first page.
        return Ok(plain::answer(id, &Known::from_text(question.data, &reader.page)));
    }
    match question.data {
        DataSet::Issues => issues::answer(id, reader),
        DataSet::Orders => orders::answer(id, reader),
        DataSet::Log => log::answer(id, reader),
        DataSet::Config => config::answer(id, reader),
        DataSet::Results => results::answer(id, reader),
        DataSet::Handbook => handbook::answer(id, reader),
    }
}

/// Writes a held value back, by its handle alone. The tool takes a text: held text is one, and JSON
/// becomes one if the reference is a text.
fn write_held(data: DataSet, handle: &str, reader: &mut Reader<'_>) -> Result<Value> {
    reader.must_know("$held")?;
    let reference = match data {
        DataSet::Handbook | DataSet::Log => json!({"$held": handle}),
        _ => json!(format!("$held:{handle}")),
    };
    reader.call(WRITE, &json!({"path": data.path(), "text": reference}))?;
    Ok(Value::Null)
}

fn no_script(id: &str) -> Result<Value> {
    bail!("there is no script for {id}")
}

/// The value at a pointer in each item.
fn each(items: &[Value], pointer: &str) -> Vec<Value> {
    items.iter().map(|item| item.pointer(pointer).cloned().unwrap_or_default()).collect()
}

/// The value at a pointer in the only item, or null.
fn only(items: &[Value], pointer: &str) -> Value {
    match items {
        [item] => item.pointer(pointer).cloned().unwrap_or_default(),
        _ => Value::Null,
    }
}
