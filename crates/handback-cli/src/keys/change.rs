//! What a command says about a ring that it changed.

use std::fmt;
use std::path::Path;

use handback_token::{KeyRing, RETIRE_AFTER_S, SlotNumber, UnixTime};
use serde::Serialize;

use crate::error::Failure;
use crate::output::Output;
use crate::text;

/// What was done.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Generated,
    Added,
    Promoted,
    Rotated,
    Epoch,
    Retired,
    Dropped,
}

/// The answer of a command that changes a ring.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    action: Action,
    file: String,
    ring: String,
    generation: u64,
    fingerprint: String,
    slot: u8,
    next: Option<Next>,
}

/// What is to be done later.
#[derive(Debug, Serialize)]
pub(super) struct Next {
    /// The command.
    command: String,
    /// Not before this.
    after: Option<String>,
    /// Why.
    why: &'static str,
}

impl Change {
    pub(super) fn new(action: Action, path: &Path, ring: &KeyRing, slot: SlotNumber) -> Self {
        Self {
            action,
            file: path.display().to_string(),
            ring: ring.id().to_string(),
            generation: ring.generation(),
            fingerprint: ring.fingerprint(),
            slot: slot.get(),
            next: None,
        }
    }

    pub(super) fn next(self, next: Next) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Writes the answer, and for people what is to be done next.
    pub(super) fn tell(&self, output: Output) -> Result<(), Failure> {
        output.answer(self)?;
        if let Some(Next { command, after, why }) = &self.next {
            let after = after.as_ref().map(|time| format!("after {time}, ")).unwrap_or_default();
            output.note("next", &format!("{after}{why}: `{command}`"));
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.slot;
        let done = match self.action {
            Action::Generated => "made a key ring",
            Action::Added => "added a key, which opens but does not seal yet",
            Action::Promoted => "promoted a key, which seals from now on",
            Action::Rotated => "added a key, which seals from now on; the old one goes on opening",
            Action::Epoch => "began an epoch: a new key seals, and all others are retired",
            Action::Retired => "retired a key, whose tokens answer `expired` from now on",
            Action::Dropped => "dropped a key, whose tokens answer `invalid` from now on",
        };
        writeln!(f, "{done}\n")?;
        text::write_pairs(
            f,
            &[
                ("file", &self.file),
                ("ring", &self.ring),
                ("generation", &self.generation.to_string()),
                ("fingerprint", &self.fingerprint),
                ("slot", &slot.to_string()),
            ],
        )
    }
}

impl Next {
    /// The slot that sealed until now can be retired when its last token is dead.
    pub(super) fn retire(old: SlotNumber, keys: Option<&Path>, now: UnixTime) -> Self {
        Self {
            command: command(&format!("retire {old}"), keys),
            after: Some(text::rfc3339(when_the_last_token_is_dead(now))),
            why: "retire the old key",
        }
    }

    pub(super) fn promote(added: SlotNumber, keys: Option<&Path>) -> Self {
        Self {
            command: command(&format!("rotate --step promote --slot {added}"), keys),
            after: None,
            why: "when every replica has this ring, promote the key",
        }
    }

    pub(super) fn drop(retired: SlotNumber, keys: Option<&Path>) -> Self {
        Self {
            command: command(&format!("retire {retired} --drop"), keys),
            after: None,
            why: "when nothing is wrapped under it any more, drop the key",
        }
    }
}

/// When no token can be alive that was made before `now` by a slot that stopped sealing then.
pub(super) const fn when_the_last_token_is_dead(now: UnixTime) -> UnixTime {
    UnixTime::from_secs(now.as_secs().saturating_add(RETIRE_AFTER_S))
}

fn command(rest: &str, keys: Option<&Path>) -> String {
    let file = keys
        .map(|path| format!(" --keys {}", text::shell_word(&path.to_string_lossy())))
        .unwrap_or_default();
    format!("handback keys {rest}{file}")
}
