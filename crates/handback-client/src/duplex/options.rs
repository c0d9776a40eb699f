//! What a duplex is opened with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use handback_stream::StreamKey;
use handback_stream::duplex::{Format, is_idempotency_key};
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::DuplexError;
use crate::backoff::Backoff;
use crate::bearer::BearerToken;
use crate::clock::{Clock, SystemClock};
use crate::keys::Keys;
use crate::state::{Saved, Trust};

/// How long what was interrupted is resumed, unless said otherwise: as long as a token lives.
pub const DEFAULT_LOOKBACK_MS: u64 = 900_000;

/// How long it can be: no server resumes a duplex that is older.
pub const MAX_LOOKBACK_MS: u64 = 7_200_000;

/// Chunks that wait for the server, unless said otherwise.
pub const DEFAULT_OUTBOX_CHUNKS: usize = 4096;

/// Bytes of them.
pub const DEFAULT_OUTBOX_BYTES: usize = 16 << 20;

/// Bytes of the outbox at most: it is in memory, and read whole at a restart.
pub const MAX_OUTBOX_BYTES: usize = 32 << 20;

/// Settings of an application, by the names that clients of this kind of protocol know.
///
/// ```
/// use handback_client::duplex::Settings;
///
/// let settings: Settings =
///     serde_json::from_str(r#"{"persist_idempotent_stream_state": true}"#).unwrap();
/// assert!(settings.persist_idempotent_stream_state);
/// assert_eq!(settings.retry_lookback_window_ms, 900_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "applications write it as a literal")]
pub struct Settings {
    /// Whether the state is kept on the disk. Without it the outbox is in memory, and nothing is
    /// resumed after a restart.
    pub persist_idempotent_stream_state: bool,
    /// How long ago a duplex may have been interrupted to be resumed; at most 7,200,000.
    pub retry_lookback_window_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            persist_idempotent_stream_state: false,
            retry_lookback_window_ms: DEFAULT_LOOKBACK_MS,
        }
    }
}

impl Settings {
    /// Settings that keep the state on the disk.
    #[must_use]
    pub fn persistent() -> Self {
        Self { persist_idempotent_stream_state: true, ..Self::default() }
    }

    pub(super) const fn check(&self) -> Result<(), DuplexError> {
        if self.retry_lookback_window_ms > MAX_LOOKBACK_MS {
            return Err(DuplexError::Options("retry_lookback_window_ms is at most 7200000"));
        }
        Ok(())
    }
}

/// What a duplex is opened with.
///
/// ```
/// use handback_client::duplex::{DuplexOptions, Settings};
///
/// let options = DuplexOptions::new("http://127.0.0.1:8420")
///     .handler("echo")
///     .state("/var/lib/app/streams", Settings::persistent());
/// ```
#[derive(Clone)]
#[must_use]
pub struct DuplexOptions {
    pub(super) url: String,
    pub(super) handler: String,
    pub(super) idempotency_key: Option<String>,
    pub(super) stream_key: Option<StreamKey>,
    pub(super) bearer: Option<BearerToken>,
    pub(super) verify: Option<Keys>,
    pub(super) format: Format,
    pub(super) idempotent: bool,
    pub(super) auto_ack: bool,
    pub(super) backoff: Backoff,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) outbox_chunks: usize,
    pub(super) outbox_bytes: usize,
    pub(super) directory: Option<PathBuf>,
    pub(super) settings: Settings,
}

impl DuplexOptions {
    /// A duplex at a server, with the handler `relay` and a new key.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            handler: "relay".to_owned(),
            idempotency_key: None,
            stream_key: None,
            bearer: None,
            verify: None,
            format: Format::Protobuf,
            idempotent: true,
            auto_ack: false,
            backoff: Backoff::default(),
            clock: Arc::new(SystemClock),
            outbox_chunks: DEFAULT_OUTBOX_CHUNKS,
            outbox_bytes: DEFAULT_OUTBOX_BYTES,
            directory: None,
            settings: Settings::default(),
        }
    }

    /// What consumes the chunks.
    pub fn handler(mut self, name: impl Into<String>) -> Self {
        self.handler = name.into();
        self
    }

    /// Which duplex: one that was started before goes on.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Encrypts both streams under a key that the server does not keep.
    pub fn stream_key(mut self, key: StreamKey) -> Self {
        self.stream_key = Some(key);
        self
    }

    /// Asks as whoever has this token. It is not kept: what is resumed after a restart is given it
    /// again, and only where the server is the same.
    pub fn bearer(mut self, token: BearerToken) -> Self {
        self.bearer = Some(token);
        self
    }

    /// Hands out events only when their signatures were checked.
    pub fn verify(mut self, keys: Keys) -> Self {
        self.verify = Some(keys);
        self
    }

    /// How frames are written. Protobuf, unless said otherwise.
    pub const fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Whether the operation may be resumed. If not, a connection that breaks after the server
    /// welcomed it is an error, and nothing of it is kept on the disk.
    pub const fn idempotent(mut self, is: bool) -> Self {
        self.idempotent = is;
        self
    }

    /// Acknowledges an event when the next one is asked for.
    pub const fn auto_ack(mut self, is: bool) -> Self {
        self.auto_ack = is;
        self
    }

    /// How long to wait between attempts.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// What time it is.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How much waits for the server before [`send`](super::Duplex::send) does.
    pub const fn outbox(mut self, chunks_max: usize, bytes_max: usize) -> Self {
        self.outbox_chunks = chunks_max;
        self.outbox_bytes = bytes_max;
        self
    }

    /// Where the state is kept, if the settings say so.
    pub fn state(mut self, directory: impl Into<PathBuf>, settings: Settings) -> Self {
        self.directory = Some(directory.into());
        self.settings = settings;
        self
    }

    /// The directory, if this operation is kept.
    pub(super) const fn kept_in(&self) -> Option<&PathBuf> {
        match &self.directory {
            Some(path) if self.idempotent && self.settings.persist_idempotent_stream_state => {
                Some(path)
            }
            _ => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), DuplexError> {
        self.settings.check()?;
        let key = self.idempotency_key.as_deref();
        if key.is_some_and(|key| !is_idempotency_key(key)) {
            return Err(DuplexError::Options("the idempotency key has other characters"));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if self.handler.is_empty() || !self.handler.bytes().all(is_name) {
            return Err(DuplexError::Options("the handler is no name"));
        }
        if self.outbox_chunks == 0 || self.outbox_bytes > MAX_OUTBOX_BYTES {
            return Err(DuplexError::Options("the outbox holds 1 chunk to 32 MiB"));
        }
        let is_lost = self.settings.persist_idempotent_stream_state && self.directory.is_none();
        if is_lost {
            return Err(DuplexError::Options("there is no directory to keep the state in"));
        }
        Ok(())
    }

    /// How a new duplex with these options stands.
    pub(super) fn fresh(&self) -> Saved {
        let now = self.clock.now_ms();
        Saved {
            url: self.url.clone(),
            handler: self.handler.clone(),
            idempotency_key: self.idempotency_key.clone().unwrap_or_else(random_uuid),
            format: format_name(self.format).to_owned(),
            verify: self.verify.as_ref().map(Trust::of),
            has_stream_key: self.stream_key.is_some(),
            event_id: None,
            place: None,
            proved: None,
            next_seqno: 0,
            resume_token: None,
            closing: None,
            ended: None,
            created_ms: now,
            updated_ms: now,
        }
    }

    /// The options that a duplex was started with, for its next life.
    pub(super) fn of_saved(&self, saved: &Saved, stream_key: Option<StreamKey>) -> Option<Self> {
        let mut options = self.clone();
        // A token is for the server that it was given for.
        options.bearer = options.bearer.filter(|_| saved.url == self.url);
        options.url.clone_from(&saved.url);
        options.handler.clone_from(&saved.handler);
        options.idempotency_key = Some(saved.idempotency_key.clone());
        options.stream_key = stream_key;
        options.format = match saved.format.as_str() {
            "json" => Format::Json,
            _ => Format::Protobuf,
        };
        options.verify = match &saved.verify {
            Some(trust) => Some(trust.keys()?),
            None => None,
        };
        Some(options)
    }
}

impl fmt::Debug for DuplexOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexOptions")
            .field("url", &self.url)
            .field("handler", &self.handler)
            .field("idempotency_key", &self.idempotency_key)
            .field("verify", &self.verify)
            .field("format", &self.format)
            .field("idempotent", &self.idempotent)
            .field("directory", &self.directory)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

const fn format_name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Protobuf => "protobuf",
    }
}

/// A random UUID (RFC 9562, version 4).
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let text = format!("{number:032x}");
    let mut out = String::with_capacity(36);
    for (place, digit) in text.chars().enumerate() {
        if matches!(place, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_random_uuids() {
        let key = random_uuid();
        assert!(is_idempotency_key(&key));
        assert_eq!((key.len(), &key[14..15]), (36, "4"));
        assert!("89ab".contains(&key[19..20]));
        assert_ne!(key, random_uuid());
    }

    #[test]
    fn a_token_is_for_the_server_that_it_was_given_for() {
        let token = BearerToken::parse("secret").unwrap();
        let options = DuplexOptions::new("http://a").bearer(token);
        assert!(!format!("{options:?}").contains("secret"));
        let resumed = |url: &str| {
            let saved = DuplexOptions::new(url).fresh();
            options.of_saved(&saved, None).unwrap().bearer.is_some()
        };
        assert!(resumed("http://a"));
        assert!(!resumed("http://b"));
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let good = DuplexOptions::new("http://a");
        assert!(good.clone().check().is_ok());
        assert!(good.clone().idempotency_key("a/b").check().is_err());
        assert!(good.clone().handler("a b").check().is_err());
        assert!(good.clone().outbox(0, 1).check().is_err());
        let late =
            Settings { retry_lookback_window_ms: MAX_LOOKBACK_MS + 1, ..Settings::default() };
        assert!(good.state("/tmp", late).check().is_err());
        let unknown = r#"{"retry_lookback_window": 1}"#;
        assert!(serde_json::from_str::<Settings>(unknown).is_err());
    }
}
