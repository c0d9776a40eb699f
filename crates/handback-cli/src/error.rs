//! How a command fails: an error with its causes, and a hint at what to do about it.

use std::error::Error;
use std::io;

use handback_token::ring::file::KeyFileError;
use handback_token::ring::source::LoadRingError;
use handback_token::{ContextError, RingError, SealError, SealerError};

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::text;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), hint: None, exit: Exit::FAILURE }
    }

    /// A command line that clap lets through but that makes no sense.
    pub(crate) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit: Exit::USAGE, ..Self::new(error) }
    }

    /// A failure with another exit code.
    pub(crate) fn of(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, ..Self::new(error) }
    }

    /// The same, with a hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, as the cause of a failure that says what was tried.
    pub(crate) fn about(self, what: String) -> Self {
        Self { error: Box::new(About { what, cause: self.error }), ..self }
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> String {
        self.error.to_string()
    }

    /// What caused it, the nearest cause first.
    pub(crate) fn causes(&self) -> Vec<String> {
        std::iter::successors(self.error.source(), |&cause| cause.source())
            .map(ToString::to_string)
            .collect()
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    fn with(error: impl Error + Send + Sync + 'static, hint: Option<String>) -> Self {
        Self { hint, ..Self::new(error) }
    }
}

/// What was tried, and why it did not work.
#[derive(Debug)]
struct About {
    what: String,
    cause: Box<dyn Error + Send + Sync>,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for About {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        let hint = key_file_hint(&error);
        Self::with(error, hint)
    }
}

/// Advice for a data directory without its key ring.
pub(crate) const MISSING_RING: &str = "restore the file from a backup, or name the ring that the data directory was made with: --keys \
     FILE, or HANDBACK_KEYS";

impl From<LoadRingError> for Failure {
    fn from(error: LoadRingError) -> Self {
        let hint = match &error {
            LoadRingError::File(inner) => key_file_hint(inner),
            LoadRingError::KeysVariable(_) => Some(
                "the variable holds the text of a key file, as `handback keys export` prints it; \
                 no other ring is used while it is set"
                    .to_owned(),
            ),
            LoadRingError::AtdVariable(_) => Some(
                "the variable holds 32 random bytes in base64; no other ring is used while it is \
                 set"
                .to_owned(),
            ),
            LoadRingError::Missing { .. } => Some(MISSING_RING.to_owned()),
            LoadRingError::NotText { name } => Some(format!("set {name} again, or unset it")),
            LoadRingError::SharedEpoch => Some(
                "replicas would expire each other's tokens; without --keys, HANDBACK_KEYS and \
                 ATD_CURSOR_SIGNING_KEY the ring is the data directory's own"
                    .to_owned(),
            ),
            _ => None,
        };
        Self::with(error, hint)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let hint = match error {
            ConfigError::Empty => "set HANDBACK_DATA to a directory, or unset it",
            ConfigError::Listen => "set HANDBACK_LISTEN to one such as 127.0.0.1:8420, or unset it",
            ConfigError::NoDataDirectory => "name a key file with --keys, or set HANDBACK_DATA",
        };
        Self::new(error).hint(hint)
    }
}

impl From<SealerError> for Failure {
    fn from(error: SealerError) -> Self {
        Self::with(error, None)
    }
}

impl From<ContextError> for Failure {
    fn from(error: ContextError) -> Self {
        Self::with(error, None)
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        let hint = match error {
            SealError::TooLarge { .. } => Some("keep what is larger in a store, and seal its id"),
            SealError::Clock => Some("a token can name seconds up to the year 2106"),
            _ => None,
        };
        Self::with(error, hint.map(str::to_owned))
    }
}

fn key_file_hint(error: &KeyFileError) -> Option<String> {
    match error {
        KeyFileError::Exists { path } => Some(format!(
            "`handback keys list --keys {0}` shows what it holds, and `handback keys rotate --keys \
             {0}` adds a key to it",
            text::shell_word(&path.to_string_lossy())
        )),
        KeyFileError::TooOpen { path, .. } => Some(format!(
            "`chmod 600 {}`; if somebody else may have read it, rotate its keys",
            text::shell_word(&path.to_string_lossy())
        )),
        KeyFileError::Parse { .. } => {
            Some("a key file is never edited by hand; restore it from a backup".to_owned())
        }
        KeyFileError::Ring { source, .. } => ring_hint(*source),
        KeyFileError::Wrapped { .. } => Some(
            "as long as it cannot be read, it may be wrapped under any slot: restore or remove it"
                .to_owned(),
        ),
        KeyFileError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
            Some(format!(
                "`handback keys generate --keys {}` makes a key file in a folder that exists",
                text::shell_word(&path.to_string_lossy())
            ))
        }
        _ => None,
    }
}

fn ring_hint(error: RingError) -> Option<String> {
    match error {
        RingError::TooSoon { slot, safe_at } => Some(format!(
            "retire slot {slot} after {}; --now-compromised retires it at once, and its tokens \
             answer `expired` from then on",
            text::rfc3339(safe_at)
        )),
        RingError::Full => Some("`handback keys retire SLOT --drop` empties a slot".to_owned()),
        RingError::Empty(_) => Some("`handback keys list` shows the slots".to_owned()),
        RingError::NotAccepting(_) => Some(
            "`handback keys list` shows the states; an active slot becomes accepting when another \
             one is promoted (`handback keys rotate`)"
                .to_owned(),
        ),
        RingError::NotRetired(slot) => {
            Some(format!("retire it first: `handback keys retire {slot}`"))
        }
        RingError::Wraps(_) => Some(
            "the texts in the folder `wrapped` beside the key file name their slots".to_owned(),
        ),
        _ => None,
    }
}
