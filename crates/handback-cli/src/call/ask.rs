//! Questions that a person answers here.

use std::io::{self, BufRead, IsTerminal as _, Write};

use handback_client::tools::{Asks, Question};
use serde_json::{Map, Value, json};

use super::questions::{Field, accepted, declined, fields};
use crate::error::Failure;
use crate::output::Output;
use crate::text::one_line;

/// How often one thing is asked, until there is an answer that fits.
const TRIES_MAX: u32 = 3;

/// Bytes of a line that somebody types.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Whether somebody is there to answer.
pub(super) fn is_possible(output: Output) -> bool {
    output.is_for_people() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for the answers; nothing, if there is a question that cannot be answered here, or nobody
/// answers.
pub(super) fn answers(asks: &Asks) -> Result<Option<Map<String, Value>>, Failure> {
    let asked = asked(asks, &mut io::stdin().lock(), &mut io::stderr().lock());
    asked.map_err(|error| Failure::new(error).about("cannot ask for the answers".to_owned()))
}

fn asked(
    asks: &Asks,
    from: &mut impl BufRead,
    to: &mut impl Write,
) -> io::Result<Option<Map<String, Value>>> {
    let mut answers = Map::new();
    for (name, question) in &asks.questions {
        let answer = match question {
            Question::Form { message, schema } => {
                writeln!(to, "{}", one_line(message))?;
                form(schema, from, to)?
            }
            Question::Url { message, url } => {
                writeln!(to, "{}: {}", one_line(message), one_line(url))?;
                write!(to, "Was it done? (yes or no) ")?;
                typed("boolean", from, to)?.map(|is_done| match is_done {
                    Value::Bool(true) => json!({"action": "accept"}),
                    _ => declined(),
                })
            }
            _ => None,
        };
        let Some(answer) = answer else { return Ok(None) };
        answers.insert(name.clone(), answer);
    }
    Ok(Some(answers))
}

/// A form that is filled in; one that lacks what it needs is declined.
fn form(schema: &Value, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<Option<Value>> {
    let mut content = Map::new();
    for field in fields(schema) {
        let Field { name, kind, description, is_required, .. } = &field;
        let optional = if *is_required { "empty declines" } else { "may be empty" };
        let (shown, description) = (one_line(kind), one_line(description));
        write!(to, "  {} ({shown}, {optional}) {description} ", one_line(name))?;
        match typed(kind, from, to)? {
            None => return Ok(None),
            Some(Value::Null) if *is_required => return Ok(Some(declined())),
            Some(Value::Null) => {}
            Some(value) => {
                content.insert((*name).to_owned(), value);
            }
        }
    }
    Ok(Some(accepted(&Value::Object(content))))
}

/// A value of a kind: null, if the line is empty; nothing, if there is no line.
fn typed(kind: &str, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<Option<Value>> {
    for _ in 0..TRIES_MAX {
        to.flush()?;
        let mut line = String::new();
        if io::Read::take(&mut *from, LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim();
        if line.is_empty() {
            return Ok(Some(Value::Null));
        }
        if let Some(value) = value(kind, line) {
            return Ok(Some(value));
        }
        write!(to, "  that is not {kind}; again: ")?;
    }
    Ok(Some(Value::Null))
}

fn value(kind: &str, line: &str) -> Option<Value> {
    let json = || serde_json::from_str::<Value>(line).ok();
    match kind {
        "boolean" => match line.to_ascii_lowercase().as_str() {
            "yes" | "y" | "true" => Some(true.into()),
            "no" | "n" | "false" => Some(false.into()),
            _ => None,
        },
        "integer" => json().filter(|value| value.is_i64() || value.is_u64()),
        "number" => json().filter(Value::is_number),
        "array" => json().filter(Value::is_array),
        "object" => json().filter(Value::is_object),
        // Numbers among the choices are not texts.
        kind if kind.starts_with("one of ") => json().or_else(|| Some(line.into())),
        _ => Some(line.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of lines that somebody types.
    fn typed_in(lines: &str) -> Option<Value> {
        let schema = json!({
            "required": ["sure"],
            "properties": {
                "sure": {"type": "boolean"},
                "many": {"type": "integer"},
                "why": {"type": "string"},
            },
        });
        form(&schema, &mut lines.as_bytes(), &mut Vec::new()).unwrap()
    }

    #[test]
    fn a_form_is_filled_in_line_by_line() {
        let all = json!({"sure": true, "many": 3, "why": "it broke"});
        assert_eq!(typed_in("yes\n3\nit broke\n"), Some(accepted(&all)));
        assert_eq!(typed_in("n\n\n\n"), Some(accepted(&json!({"sure": false}))));
        let again = json!({"sure": true, "many": 4});
        assert_eq!(typed_in("perhaps\ny\nthree\n4\n\n"), Some(accepted(&again)));
    }

    #[test]
    fn what_is_needed_and_not_given_declines_the_form() {
        assert_eq!(typed_in("\n"), Some(declined()));
        assert_eq!(typed_in("a\nb\nc\n"), Some(declined()));
        assert_eq!(typed_in("yes\n"), None);
        assert_eq!(typed_in(""), None);
    }
}
