//! What is said of a token that is refused: the exact reason, and what its sender may learn.

use std::fmt;

use handback_token::Reason;
use serde::Serialize;

use super::presented::Presented;
use crate::text;

/// The answer for a refused token.
#[derive(Debug, Serialize)]
pub(super) struct RefusedAnswer {
    kind: &'static str,
    reason: &'static str,
    outside: &'static str,
    explanation: &'static str,
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<String>,
}

impl RefusedAnswer {
    pub(super) fn of(presented: &Presented, reason: Reason) -> Self {
        Self {
            kind: "refused",
            reason: reason.as_str(),
            outside: reason.outside().as_str(),
            explanation: explanation(reason),
            fingerprint: presented.fingerprint_text(),
            ring: None,
            audience: None,
        }
    }

    /// A handle with a wrong checksum, which is told apart from everything else.
    pub(super) fn mistyped(presented: &Presented) -> Self {
        Self {
            reason: "mistyped",
            outside: "mistyped",
            explanation: "It has the shape of a handle, but its checksum is wrong: a character was \
                          lost or changed.",
            ..Self::of(presented, Reason::Malformed)
        }
    }

    /// The ring and the audience under which it was refused.
    pub(super) fn under(self, ring: String, audience: String) -> Self {
        Self { ring: Some(ring), audience: Some(audience), ..self }
    }
}

impl fmt::Display for RefusedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "refused: {}", self.reason)?;
        writeln!(f, "{}", self.explanation)?;
        writeln!(f, "Its sender is told: {}", self.outside)?;
        let optional =
            [("token", &self.fingerprint), ("ring", &self.ring), ("audience", &self.audience)];
        let pairs: Vec<(&str, &str)> = optional
            .into_iter()
            .filter_map(|(label, value)| Some((label, value.as_deref()?)))
            .collect();
        if !pairs.is_empty() {
            writeln!(f)?;
        }
        text::write_pairs(f, &pairs)
    }
}

const fn explanation(reason: Reason) -> &'static str {
    match reason {
        Reason::TooLong => {
            "It is longer than a token of its purpose can be; nothing of it was decoded."
        }
        Reason::Malformed => {
            "It is not canonical base64url, or not of a form and size that its key slot makes."
        }
        Reason::UnknownSlot => {
            "The key slot that it names is empty: the key was dropped, or is in another ring."
        }
        Reason::NotOpened => {
            "The tag does not verify: it was edited, or made by another ring, or for another \
             purpose, audience, caller, operation, name, arguments, tenant, upstream or client. \
             Which of these cannot be told."
        }
        Reason::RetiredKey => "It is genuine, but the key that it was made under is retired.",
        Reason::Expired => "It is genuine, but its time is over.",
        Reason::TooFar => {
            "It is genuine, but dated further ahead than its purpose allows: the clock is wrong \
             here, or was where it was made."
        }
        Reason::Revoked => "It is genuine, but was revoked.",
        Reason::Replayed => "It is genuine, but was used before, and can be used once.",
        _ => "It is refused.",
    }
}
