//! `handback keys list`.

use std::fmt;

use clap::Args;
use handback_token::{SlotInfo, SlotNumber, SlotState, UnixTime};
use serde::Serialize;

use super::change::when_the_last_token_is_dead;
use crate::args::{RingArgs, parse_slot};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::rings::{self, FoundRing, OriginMember};
use crate::text;

/// Show a ring and its slots; a key only where asked for by its slot
///
/// Two processes have the same ring if they show the same fingerprint. Where the ring came from is
/// said on stderr. No ring is made if there is none.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  origin {kind, file}, ring, generation, fingerprint, active,
  slots [{slot, state, mode, since, does, retire_after, key}]
  `key` is there only for the slot that --reveal names

Examples:
  handback keys list
  handback keys list --keys /etc/handback/keys.json --output json
  handback keys list --reveal 0")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    ring: RingArgs,

    /// Print the key of this slot: whoever reads it can make and open its tokens
    #[arg(long, value_name = "SLOT", value_parser = parse_slot)]
    reveal: Option<SlotNumber>,
}

pub(super) fn run(args: &ListArgs, output: Output) -> Result<Exit, Failure> {
    let FoundRing { ring, origin } = rings::find(&args.ring)?;
    let key = match args.reveal {
        None => None,
        Some(slot) => Some((
            slot,
            ring.dangerous_reveal(slot).ok_or_else(|| {
                Failure::new(format!("key slot {slot} is empty"))
                    .hint("`handback keys list` shows the slots")
            })?,
        )),
    };
    let origin = OriginMember::of(&origin);
    output.note("ring from", &origin.sentence());
    let slots = ring
        .slots()
        .map(|info| SlotMember {
            key: key.as_ref().filter(|(slot, _)| *slot == info.number).map(|(_, key)| key.as_str()),
            ..SlotMember::of(&info)
        })
        .collect();
    output.answer(&List {
        origin,
        ring: ring.id().to_string(),
        generation: ring.generation(),
        fingerprint: ring.fingerprint(),
        active: ring.active().get(),
        slots,
    })?;
    Ok(Exit::OK)
}

#[derive(Serialize)]
struct List<'a> {
    origin: OriginMember,
    ring: String,
    generation: u64,
    fingerprint: String,
    active: u8,
    slots: Vec<SlotMember<'a>>,
}

#[derive(Serialize)]
struct SlotMember<'a> {
    slot: u8,
    state: &'static str,
    mode: &'static str,
    since: Option<String>,
    does: &'static str,
    retire_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl SlotMember<'_> {
    fn of(info: &SlotInfo) -> Self {
        // A ring that is made from a secret does not know since when.
        let since = (info.since > UnixTime::from_secs(0)).then_some(info.since);
        let retire_after = since.filter(|_| info.state == SlotState::Accepting);
        Self {
            slot: info.number.get(),
            state: info.state.as_str(),
            mode: info.mode.as_str(),
            since: since.map(text::rfc3339),
            does: match info.state {
                SlotState::Active => "seals and opens",
                SlotState::Accepting => "opens",
                SlotState::Retired => "answers expired",
            },
            retire_after: retire_after.map(when_the_last_token_is_dead).map(text::rfc3339),
            key: None,
        }
    }
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_pairs(
            f,
            &[
                ("ring", &self.ring),
                ("generation", &self.generation.to_string()),
                ("fingerprint", &self.fingerprint),
            ],
        )?;
        writeln!(f, "\nSLOT  STATE      MODE    SINCE                 WHAT IT DOES")?;
        self.slots.iter().try_for_each(|slot| slot.fmt(f))?;
        self.slots
            .iter()
            .filter_map(|slot| Some((slot.slot, slot.key?)))
            .try_for_each(|(slot, key)| writeln!(f, "\nkey of slot {slot}  {key}"))
    }
}

impl fmt::Display for SlotMember<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since.as_deref().unwrap_or("-");
        let Self { slot, state, mode, does, .. } = self;
        write!(f, "{slot:>4}  {state:9}  {mode:6}  {since:20}  {does}")?;
        if let Some(time) = &self.retire_after {
            write!(f, "; can be retired after {time}")?;
        }
        writeln!(f)
    }
}
