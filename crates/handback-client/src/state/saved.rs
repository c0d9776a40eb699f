//! Where a duplex stands, as it is kept.
//!
//! ```text
//! file = "handback duplex state 1\n" || MAC in hexadecimal || "\n" || JSON
//! MAC  = HMAC-SHA256(key, u32be(length) folder id || JSON)
//! ```

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use handback_stream::{Head, KeyId, PublicKey, StreamId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::keys::Keys;

const TITLE: &[u8] = b"handback duplex state 1\n";
const MAC_HEX: usize = 64;

/// Where a duplex stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) url: String,
    pub(crate) handler: String,
    pub(crate) idempotency_key: String,
    /// `json` or `protobuf`.
    pub(crate) format: String,
    /// Whose signatures are believed, if they are checked.
    pub(crate) verify: Option<Trust>,
    /// Whether there is a stream key, in its own file.
    pub(crate) has_stream_key: bool,
    /// The last event that the application has kept.
    pub(crate) event_id: Option<String>,
    /// The head behind that event.
    pub(crate) place: Option<Place>,
    /// The last head that a commit proved: it must come again.
    pub(crate) proved: Option<Place>,
    /// At least so many chunks were handed over.
    pub(crate) next_seqno: u32,
    pub(crate) resume_token: Option<String>,
    pub(crate) closing: Option<Closing>,
    pub(crate) ended: Option<Ended>,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
}

/// How the client ended its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Closing {
    Close,
    Abort,
}

/// Why there is nothing to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    Finished,
    /// It came to its end by an abort.
    Aborted,
    Expired,
    Invalid,
    Superseded,
    /// The server refused it for another reason, or did not prove what it said.
    Failed,
}

/// A record of a stream, and the head behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    #[serde(with = "as_text")]
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
    #[serde(with = "as_text")]
    pub(crate) head: Head,
}

/// Whose signatures are believed, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trust {
    Server,
    Pinned(Vec<String>),
    Given(Vec<[u8; 32]>),
}

impl Trust {
    pub(crate) fn of(keys: &Keys) -> Self {
        match keys {
            Keys::Server => Self::Server,
            Keys::Pinned(ids) => Self::Pinned(ids.iter().map(KeyId::to_string).collect()),
            Keys::Given(keys) => Self::Given(keys.iter().map(|key| *key.as_bytes()).collect()),
        }
    }

    pub(crate) fn keys(&self) -> Option<Keys> {
        Some(match self {
            Self::Server => Keys::Server,
            Self::Pinned(ids) => {
                Keys::Pinned(ids.iter().map(|id| id.parse().ok()).collect::<Option<_>>()?)
            }
            Self::Given(keys) => {
                Keys::Given(keys.iter().copied().map(PublicKey::from_bytes).collect())
            }
        })
    }
}

mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

impl Saved {
    /// The file.
    pub(super) fn seal(&self, key: &hmac::Key, id: &str) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("texts and numbers are JSON always");
        let mut bytes = TITLE.to_vec();
        for byte in mac(key, id, &json).as_ref() {
            bytes.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        bytes.push(b'\n');
        bytes.extend_from_slice(&json);
        bytes
    }

    /// What a file says; or what is wrong with it.
    pub(super) fn open(bytes: &[u8], key: &hmac::Key, id: &str) -> Result<Self, &'static str> {
        let rest = bytes.strip_prefix(TITLE).ok_or("not a state file of this version")?;
        let (hex, rest) = rest.split_at_checked(MAC_HEX).ok_or("it is cut")?;
        let json = rest.strip_prefix(b"\n").ok_or("it was edited")?;
        let hex = std::str::from_utf8(hex).map_err(|_| "it was edited")?;
        let head: Head = hex.parse().map_err(|_| "it was edited")?;
        let expected = mac(key, id, json);
        verify_slices_are_equal(expected.as_ref(), head.as_bytes())
            .map_err(|_| "it was edited, or is of another folder or key")?;
        serde_json::from_slice(json).map_err(|_| "it is of another version")
    }
}

fn mac(key: &hmac::Key, id: &str, json: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(&u32::try_from(id.len()).unwrap_or(u32::MAX).to_be_bytes());
    context.update(id.as_bytes());
    context.update(json);
    context.sign()
}
