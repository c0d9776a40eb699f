//! What a tool gave, on stdout.

use handback_client::tools::{Failed, Given};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

#[derive(Serialize)]
struct Line<'a> {
    result: &'a RawValue,
    next_cursor: Option<&'a str>,
    is_replay: bool,
}

pub(super) fn given(given: &Given, output: Output) -> Result<Exit, Failure> {
    let next_cursor = given.next_cursor.as_deref();
    let line = Line { result: &given.result, next_cursor, is_replay: given.is_replay };
    print(&given.result, &line, output)?;
    if given.is_replay {
        output.note("replayed", "this is the answer to an earlier call with the same key");
    }
    if let Some(cursor) = next_cursor {
        output.note("next page", &format!("the same command with --cursor={}", word(cursor)));
    }
    Ok(Exit::OK)
}

/// A server's word as a shell takes it: one word, with nothing in it that a terminal obeys.
pub(super) fn word(of_server: &str) -> String {
    text::shell_word(&text::one_line(of_server))
}

/// JSON as it came to people, without what a terminal would take for commands, and a line with
/// members to programs.
pub(super) fn print(
    result: &RawValue,
    line: &impl Serialize,
    output: Output,
) -> Result<(), Failure> {
    if output.is_for_people() {
        return output.text(&text::plain_json(result.get()));
    }
    let line = serde_json::to_string(line).map_err(Failure::new)?;
    output.text(&text::plain_json(&line))
}

pub(super) fn failed(failed: &Failed, output: Output) -> Result<Exit, Failure> {
    if let Some(data) = &failed.data {
        output.text(&text::plain_json(data.get()))?;
    }
    Err(Failure::new(text::one_line(&failed.message)).about("the tool failed".to_owned()))
}
