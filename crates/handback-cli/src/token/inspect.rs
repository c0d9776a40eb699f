//! `handback token inspect`.

use std::fmt;

use clap::Args;
use handback_token::{Handle, Mode, Reason, Visible, inspect};
use serde::Serialize;

use super::presented::Presented;
use super::refused::RefusedAnswer;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Show what anybody can see of a token or a handle, without a key
///
/// Nothing that is shown is verified: a token that can be read is not one that opens.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  of a token   kind \"token\", fingerprint, mode, slot, salt, body_bytes, expires_at, body_hex,
               body_text, verified (always false)
  of a handle  kind \"handle\", fingerprint, checksum
  refused      kind \"refused\", reason, outside, explanation, fingerprint

Examples:
  handback token inspect EAAAAA…
  handback token inspect - < token.txt")]
pub(crate) struct InspectArgs {
    /// The token or handle; `-` reads it from stdin (at most 64 KiB), where other users do not see
    /// it
    token: String,
}

pub(super) fn run(args: &InspectArgs, output: Output) -> Result<Exit, Failure> {
    let presented = Presented::read(&args.token)?;
    if Handle::is_handle_shaped(&presented.text) {
        return handle(&presented, output);
    }
    match inspect(&presented.text) {
        Ok(visible) => output.answer(&TokenAnswer::of(&presented, &visible))?,
        Err(reason) => return refused(&RefusedAnswer::of(&presented, reason), output),
    }
    Ok(Exit::OK)
}

fn handle(presented: &Presented, output: Output) -> Result<Exit, Failure> {
    use handback_token::HandleError;
    match Handle::parse(&presented.text) {
        Ok(_) => {
            let fingerprint = presented.fingerprint_text();
            output.answer(&HandleAnswer { kind: "handle", fingerprint, checksum: "correct" })?;
            Ok(Exit::OK)
        }
        Err(HandleError::Mistyped) => refused(&RefusedAnswer::mistyped(presented), output),
        Err(_) => refused(&RefusedAnswer::of(presented, Reason::Malformed), output),
    }
}

fn refused(answer: &RefusedAnswer, output: Output) -> Result<Exit, Failure> {
    output.answer(answer)?;
    Ok(Exit::REFUSED)
}

#[derive(Serialize)]
struct HandleAnswer {
    kind: &'static str,
    fingerprint: Option<String>,
    checksum: &'static str,
}

impl fmt::Display for HandleAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_pairs(
            f,
            &[
                ("kind", "handle: the name of something held at a server"),
                ("fingerprint", self.fingerprint.as_deref().unwrap_or("-")),
                ("checksum", self.checksum),
            ],
        )
    }
}

#[derive(Serialize)]
struct TokenAnswer {
    kind: &'static str,
    fingerprint: Option<String>,
    mode: &'static str,
    slot: u8,
    salt: String,
    body_bytes: usize,
    expires_at: Option<String>,
    body_hex: Option<String>,
    body_text: Option<String>,
    verified: bool,
}

impl TokenAnswer {
    fn of(presented: &Presented, visible: &Visible) -> Self {
        let (expires_at, body) = visible.readable.clone().unzip();
        Self {
            kind: "token",
            fingerprint: presented.fingerprint_text(),
            mode: visible.mode.as_str(),
            slot: visible.slot.get(),
            salt: text::hex(&visible.salt),
            body_bytes: visible.body_bytes,
            expires_at: expires_at.map(text::rfc3339),
            body_hex: body.as_deref().map(text::hex),
            body_text: body.as_deref().and_then(text::printable).map(str::to_owned),
            verified: false,
        }
    }
}

impl fmt::Display for TokenAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.slot.to_string();
        let body = match &self.body_hex {
            None => format!("{} bytes, encrypted", self.body_bytes),
            Some(_) => format!("{} bytes, readable by everybody", self.body_bytes),
        };
        let quoted = self.body_text.as_ref().map(|body| text::quoted(body));
        let optional = [
            ("body hex", self.body_hex.as_deref()),
            ("body text", quoted.as_deref()),
            ("expires", self.expires_at.as_deref()),
        ];
        let mut pairs = vec![
            ("kind", "token"),
            ("fingerprint", self.fingerprint.as_deref().unwrap_or("-")),
            ("mode", self.mode),
            ("slot", &slot),
        ];
        if self.mode == Mode::Sealed.as_str() {
            pairs.push(("salt", &self.salt));
        }
        pairs.push(("body", &body));
        pairs.extend(
            optional.into_iter().filter_map(|(label, value)| {
                Some((label, value.filter(|value| !value.is_empty())?))
            }),
        );
        pairs.push(("verified", "no: this is what it says of itself"));
        text::write_pairs(f, &pairs)
    }
}
