//! The public keys that sign commits: from the server, and which of them are believed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use handback_stream::{KeyId, PublicKey};
use http_body_util::Full;
use hyper::StatusCode;
use serde::Deserialize;

use crate::http::{Http, HttpError};

/// Bytes of a key set at most, and keys in it.
const KEY_SET_BYTES_MAX: usize = 256 << 10;
const KEYS_MAX: usize = 1024;

const TIMEOUT: Duration = Duration::from_secs(15);

/// Whose signatures are believed.
///
/// Keys that come from the server that is checked prove that it agrees with itself: that it does not
/// tell one reader this and another one that, and that nothing was lost or edited later. Pinned keys
/// prove who it is as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// All keys at `/v1/keys`.
    #[default]
    Server,
    /// Those of them that have one of these ids.
    Pinned(Vec<KeyId>),
    /// These, whatever the server says.
    Given(Vec<PublicKey>),
}

/// Why there are no keys.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The server did not tell them.
    #[error("failed to read the public keys of the server")]
    Http(#[from] HttpError),
    /// It answered with something else.
    #[error("the server answered {0} instead of its public keys")]
    Status(u16),
    /// What it told is no key set.
    #[error("the server told no key set")]
    Malformed,
    /// It has no key of this kind: it does not sign.
    #[error("the server publishes no key that signs events")]
    NoKeys,
    /// None of them is believed.
    #[error("the server has none of the keys that were pinned")]
    NonePinned,
}

impl Keys {
    /// The keys of a JSON Web Key Set that a file holds.
    ///
    /// ```
    /// use handback_client::Keys;
    ///
    /// let set = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
    /// assert!(matches!(Keys::parse_set(set.as_bytes()), Ok(Keys::Given(keys)) if keys.len() == 1));
    /// ```
    ///
    /// # Errors
    ///
    /// [`KeysError::Malformed`] if it is none, [`KeysError::NoKeys`] if it has none that signs events.
    pub fn parse_set(bytes: &[u8]) -> Result<Self, KeysError> {
        key_set(bytes).map(Self::Given)
    }

    /// The keys that are believed now.
    pub(crate) async fn load(&self, http: &Http) -> Result<Vec<PublicKey>, KeysError> {
        if let Self::Given(keys) = self {
            return Ok(keys.clone());
        }
        let request = http
            .request("GET", "/v1/keys")
            .body(Full::new(Bytes::new()))
            .map_err(|_| HttpError::Request)?;
        let answer = http.ask(request, KEY_SET_BYTES_MAX, TIMEOUT).await?;
        if answer.status != StatusCode::OK {
            return Err(KeysError::Status(answer.status.as_u16()));
        }
        let mut keys = key_set(&answer.body)?;
        if let Self::Pinned(ids) = self {
            keys.retain(|key| ids.contains(&key.id()));
            if keys.is_empty() {
                return Err(KeysError::NonePinned);
            }
        }
        Ok(keys)
    }
}

fn key_set(bytes: &[u8]) -> Result<Vec<PublicKey>, KeysError> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Key>,
    }
    #[derive(Deserialize)]
    struct Key {
        kty: String,
        crv: Option<String>,
        x: Option<String>,
    }
    let set: Set = serde_json::from_slice(bytes).map_err(|_| KeysError::Malformed)?;
    if set.keys.len() > KEYS_MAX {
        return Err(KeysError::Malformed);
    }
    // Keys of other kinds may be there for others.
    let is_ours = |key: &&Key| key.kty == "OKP" && key.crv.as_deref() == Some("Ed25519");
    let key = |key: &Key| {
        let bytes = URL_SAFE_NO_PAD.decode(key.x.as_deref()?).ok()?;
        bytes.try_into().ok().map(PublicKey::from_bytes)
    };
    let keys: Option<Vec<_>> = set.keys.iter().filter(is_ours).map(key).collect();
    match keys {
        None => Err(KeysError::Malformed),
        Some(keys) if keys.is_empty() => Err(KeysError::NoKeys),
        Some(keys) => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_key_sets_are_taken() {
        for bad in [
            "",
            "{}",
            r#"{"keys":[]}"#,
            r#"{"keys":[{"kty":"RSA"}]}"#,
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519"}]}"#,
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}"#,
        ] {
            assert!(Keys::parse_set(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
