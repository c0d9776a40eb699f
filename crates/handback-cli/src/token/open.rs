//! `handback token open`.

use std::fmt;

use clap::Args;
use handback_token::{
    Cursor, KeyedPurpose, NoHead, Opened, Purpose, Resume, ResumeHead, State, StateHead, TokenId,
    UnixTime,
};
use serde::Serialize;

use super::call::{Call, CallArgs, PurposeName};
use super::presented::Presented;
use super::refused::RefusedAnswer;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Open a token, or say exactly why it is refused
///
/// The flags describe the call that the token came back with; it opens only if they are those of
/// the call that it was made for. Revocation and single use need a store and are not looked at. The
/// reason is for operators: whoever sent the token is told `expired` or `invalid`, and nothing more.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  opened   kind \"opened\", purpose, slot, expires_at, head {id, born_at, generation}, payload_hex,
           payload_text, fingerprint, ring, audience
  refused  kind \"refused\", reason, outside, explanation, fingerprint, ring, audience

Examples:
  handback token open EAAAAA… --purpose cursor --operation call --name orders.search \\
      --issuer https://id.example --subject alice --args arguments.json
  handback token open - --purpose state --at 2027-01-15T08:00:00Z < token.txt")]
pub(crate) struct OpenArgs {
    /// The token; `-` reads it from stdin (at most 64 KiB), where other users do not see it
    token: String,

    #[command(flatten)]
    call: CallArgs,
}

pub(super) fn run(args: &OpenArgs, output: Output) -> Result<Exit, Failure> {
    let call = args.call.prepare()?;
    let presented = Presented::read(&args.token)?;
    match args.call.purpose {
        PurposeName::Cursor => open::<Cursor>(&call, &presented, output),
        PurposeName::State => open::<State>(&call, &presented, output),
        PurposeName::Resume => open::<Resume>(&call, &presented, output),
    }
}

fn open<P>(call: &Call<'_>, presented: &Presented, output: Output) -> Result<Exit, Failure>
where
    P: KeyedPurpose,
    P::Head: ShowHead,
{
    let (ring, audience) = (call.ring.clone(), call.sealer.audience().to_owned());
    match call.sealer.bind::<P>(&call.context())?.open(&presented.text, call.now) {
        Ok(opened) => {
            output.answer(&OpenedAnswer::of(presented, &opened, ring, audience))?;
            Ok(Exit::OK)
        }
        Err(refused) => {
            let answer = RefusedAnswer::of(presented, refused.reason()).under(ring, audience);
            output.answer(&answer)?;
            Ok(Exit::REFUSED)
        }
    }
}

#[derive(Serialize)]
struct OpenedAnswer {
    kind: &'static str,
    purpose: &'static str,
    slot: u8,
    expires_at: String,
    head: Option<HeadMember>,
    payload_hex: String,
    payload_text: Option<String>,
    fingerprint: Option<String>,
    ring: String,
    audience: String,
}

#[derive(Serialize)]
struct HeadMember {
    id: String,
    born_at: String,
    generation: Option<u32>,
}

impl OpenedAnswer {
    fn of<P>(presented: &Presented, opened: &Opened<P>, ring: String, audience: String) -> Self
    where
        P: Purpose,
        P::Head: ShowHead,
    {
        Self {
            kind: "opened",
            purpose: P::LABEL,
            slot: opened.slot().get(),
            expires_at: text::rfc3339(opened.expires_at()),
            head: opened.head().show(),
            payload_hex: text::hex(opened.payload()),
            payload_text: text::printable(opened.payload()).map(str::to_owned),
            fingerprint: presented.fingerprint_text(),
            ring,
            audience,
        }
    }
}

impl fmt::Display for OpenedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "opened: {}\n", self.purpose)?;
        let slot = self.slot.to_string();
        let quoted = self.payload_text.as_ref().map(|payload| text::quoted(payload));
        let generation = self
            .head
            .as_ref()
            .and_then(|head| head.generation)
            .map(|generation| generation.to_string());
        let mut pairs = vec![
            ("token", self.fingerprint.as_deref().unwrap_or("-")),
            ("ring", &self.ring),
            ("audience", &self.audience),
            ("slot", &slot),
            ("expires", &self.expires_at),
        ];
        if let Some(head) = &self.head {
            pairs.extend([("id", head.id.as_str()), ("born", &head.born_at)]);
        }
        pairs.extend(generation.as_deref().map(|generation| ("generation", generation)));
        pairs.push(("payload hex", &self.payload_hex));
        pairs.extend(quoted.as_deref().map(|payload| ("payload text", payload)));
        text::write_pairs(f, &pairs)
    }
}

/// What is shown of a head.
trait ShowHead {
    fn show(&self) -> Option<HeadMember>;
}

impl ShowHead for NoHead {
    fn show(&self) -> Option<HeadMember> {
        None
    }
}

impl ShowHead for StateHead {
    fn show(&self) -> Option<HeadMember> {
        Some(HeadMember::new(self.id(), self.born_at(), None))
    }
}

impl ShowHead for ResumeHead {
    fn show(&self) -> Option<HeadMember> {
        Some(HeadMember::new(self.id(), self.born_at(), Some(self.generation())))
    }
}

impl HeadMember {
    fn new(id: TokenId, born_at: UnixTime, generation: Option<u32>) -> Self {
        Self { id: text::hex(id.as_bytes()), born_at: text::rfc3339(born_at), generation }
    }
}
