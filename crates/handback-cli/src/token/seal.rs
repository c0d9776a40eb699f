//! `handback token seal`.

use std::fmt;

use clap::Args;
use handback_token::{Cursor, KeyedPurpose, Resume, State};
use serde::Serialize;

use super::call::{Call, CallArgs, PurposeName};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Make a token, for drills: can this process open what that one makes?
///
/// The token follows no other one and lives as long as its purpose has it by default. It is as good
/// as one that a server made, so treat it like one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  kind \"sealed\", token, purpose, slot, expires_at, fingerprint, ring, audience

Examples:
  handback token seal --purpose cursor --operation call --name orders.search --payload-text 'row 20'
  handback token seal --keys old.json --purpose state --payload-hex 0001 \\
      | handback token open - --keys new.json --purpose state")]
pub(crate) struct SealArgs {
    #[command(flatten)]
    call: CallArgs,

    #[command(flatten)]
    payload: PayloadArgs,
}

/// What goes into the token: nothing, unless one of these is given.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Payload")]
struct PayloadArgs {
    /// The payload as hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = parse_payload)]
    payload_hex: Option<Payload>,

    /// The payload as text
    #[arg(long, value_name = "TEXT")]
    payload_text: Option<String>,
}

#[derive(Clone, Debug)]
struct Payload(Vec<u8>);

fn parse_payload(digits: &str) -> Result<Payload, String> {
    text::parse_hex(digits).map(Payload)
}

impl PayloadArgs {
    fn bytes(&self) -> &[u8] {
        match (&self.payload_hex, &self.payload_text) {
            (Some(Payload(bytes)), _) => bytes,
            (None, Some(text)) => text.as_bytes(),
            (None, None) => &[],
        }
    }
}

pub(super) fn run(args: &SealArgs, output: Output) -> Result<Exit, Failure> {
    let call = args.call.prepare()?;
    let (purpose, payload) = (args.call.purpose, args.payload.bytes());
    let answer = match purpose {
        PurposeName::Cursor => seal::<Cursor>(&call, purpose, payload)?,
        PurposeName::State => seal::<State>(&call, purpose, payload)?,
        PurposeName::Resume => seal::<Resume>(&call, purpose, payload)?,
    };
    output.answer(&answer)?;
    Ok(Exit::OK)
}

fn seal<P: KeyedPurpose>(
    call: &Call<'_>,
    purpose: PurposeName,
    payload: &[u8],
) -> Result<SealedAnswer, Failure> {
    let bound = call.sealer.bind::<P>(&call.context())?;
    let token = bound.seal(&mut rand::rng(), call.now, payload)?;
    let opened = bound
        .open(token.as_str(), call.now)
        .map_err(|refused| Failure::new(format!("the new token is refused: {refused}")))?;
    Ok(SealedAnswer {
        kind: "sealed",
        purpose: purpose.as_str(),
        slot: opened.slot().get(),
        expires_at: text::rfc3339(opened.expires_at()),
        fingerprint: token.fingerprint().to_string(),
        ring: call.ring.clone(),
        audience: call.sealer.audience().to_owned(),
        token: token.into_string(),
    })
}

#[derive(Serialize)]
struct SealedAnswer {
    kind: &'static str,
    token: String,
    purpose: &'static str,
    slot: u8,
    expires_at: String,
    fingerprint: String,
    ring: String,
    audience: String,
}

impl fmt::Display for SealedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.token)
    }
}
