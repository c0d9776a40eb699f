//! What it means to people that there is no answer.

use std::fmt;

use handback_client::tools::{Call, Refused, ToolsError};
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// A cursor or state that the server did not take.
#[derive(Serialize)]
struct RefusedAnswer<'a> {
    kind: &'static str,
    outside: &'a str,
    explanation: &'a str,
}

/// A refused continuation is an answer, and everything else a failure.
pub(super) fn told(error: ToolsError, call: &Call, output: Output) -> Result<Exit, Failure> {
    match plain(error) {
        ToolsError::Refused(refused) if call.goes_on() && refused.is_about_continuation() => {
            let Refused { code, message, .. } = &refused;
            output.answer(&RefusedAnswer {
                kind: "refused",
                outside: code,
                explanation: message,
            })?;
            Ok(Exit::REFUSED)
        }
        error => Err(failure(error, call.is_keyed())),
    }
}

/// Without what a terminal would take for commands: the words are the server's.
fn plain(error: ToolsError) -> ToolsError {
    match error {
        ToolsError::Refused(mut refused) => {
            refused.code = text::one_line(&refused.code);
            refused.message = text::one_line(&refused.message);
            refused.into()
        }
        error => error,
    }
}

pub(super) fn failure(error: ToolsError, is_keyed: bool) -> Failure {
    let error = plain(error);
    let hint = match &error {
        ToolsError::Unreached(_) => "is the server running? `handback serve` starts one",
        ToolsError::Lost(_) if is_keyed => {
            "the same command with the same --idempotency-key asks again, and the call is made once"
        }
        ToolsError::Lost(_) => {
            "look before you repeat it; with --idempotency-key a call can be repeated"
        }
        ToolsError::TooLarge(_) => "the call was made; --max-bytes takes larger answers",
        ToolsError::Merge(_) => "--merge lines writes pages as they come",
        ToolsError::Refused(refused) => refused_hint(refused),
        _ => "",
    };
    match hint {
        "" => Failure::new(error),
        hint => Failure::new(error).hint(hint),
    }
}

fn refused_hint(refused: &Refused) -> &'static str {
    match refused.code.as_str() {
        "CREDENTIAL" | "401" => "--token-file names the file with your bearer token",
        "not_found" => "`handback call --list` shows the tools",
        "bad_arguments" => "`handback call --describe TOOL` shows the schema of the arguments",
        "mismatch" => "the key was used for another call; take another one",
        "ambiguous" => "an earlier call with this key was cut off: look what became of it",
        _ => "",
    }
}

impl fmt::Display for RefusedAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {} ({})", self.explanation, self.outside)
    }
}
