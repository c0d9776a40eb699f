//! Where a process gets its ring from.
//!
//! The first that is there is used:
//!
//! 1. a key file that was named explicitly;
//! 2. `HANDBACK_KEYS`: the text of a key file;
//! 3. `ATD_CURSOR_SIGNING_KEY`: 32 bytes in base64, for people who come from ATD (unless it feeds the
//!    ATD compatibility instead: a key is used for one thing);
//! 4. `keys.json` in the data directory, made on the first start.
//!
//! Every variable that is set is checked, also one that another source overrides. A malformed value
//! refuses to start: there is no fallback to another source, and no default key.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::file::{KeyFile, KeyFileError, Locked};
use super::{KeyRing, Mode, ParseRingError, SlotNumber};
use crate::key::{KeyError, MAX_KEY_TEXT_CHARS, MasterKey};
use crate::time::UnixTime;

/// The variable that holds the text of a key file.
pub const KEYS_VARIABLE: &str = "HANDBACK_KEYS";

/// The variable that ATD servers share their key by.
pub const ATD_KEY_VARIABLE: &str = "ATD_CURSOR_SIGNING_KEY";

/// Name of the key file in the data directory.
pub const KEY_FILE_NAME: &str = "keys.json";

/// Locked by a process for as long as it has an epoch in the data directory.
const EPOCH_FILE_NAME: &str = "epoch.lock";

/// Where to look.
#[expect(missing_debug_implementations, reason = "holds a function")]
#[expect(clippy::exhaustive_structs, reason = "an argument list with names")]
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// A key file that was named explicitly.
    pub key_file: Option<&'a Path>,
    /// Looks a variable up.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// What `ATD_CURSOR_SIGNING_KEY` is for.
    pub atd_key: AtdKeyUse,
    /// The data directory.
    pub data_directory: Option<&'a Path>,
    /// Mode of a ring that is made, or made from a secret.
    pub mode: Mode,
}

/// What `ATD_CURSOR_SIGNING_KEY` is used for: one or the other, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one or the other")]
pub enum AtdKeyUse {
    /// Native tokens: it feeds slot 0, through HKDF.
    Ring,
    /// Cursors in ATD's own format. The ring comes from elsewhere.
    Compat,
}

/// Where a ring came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A key file that was named explicitly, and may be shared.
    KeyFile(PathBuf),
    /// `HANDBACK_KEYS`.
    KeysVariable,
    /// `ATD_CURSOR_SIGNING_KEY`.
    AtdVariable,
    /// The data directory, which one process has to itself.
    DataDirectory(PathBuf),
}

/// A ring, and where it came from.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedRing {
    /// The ring.
    pub ring: KeyRing,
    /// Where it came from.
    pub origin: Origin,
    /// The key in `ATD_CURSOR_SIGNING_KEY`, if it is there and is for [`AtdKeyUse::Compat`].
    pub atd_key: Option<AtdSigningKey>,
    /// Locked while an epoch of this process lasts.
    epoch: Option<Locked>,
}

impl LoadedRing {
    /// Finds and reads the ring; makes one in the data directory on the first start.
    ///
    /// # Errors
    ///
    /// [`LoadRingError`]: a process without a ring must not start.
    pub fn load<R: CryptoRng + ?Sized>(
        sources: &Sources<'_>,
        rng: &mut R,
        now: UnixTime,
    ) -> Result<Self, LoadRingError> {
        let from_keys = variable(sources, KEYS_VARIABLE)?
            .map(|text| KeyRing::parse(&text))
            .transpose()
            .map_err(LoadRingError::KeysVariable)?;
        let atd_key = variable(sources, ATD_KEY_VARIABLE)?
            .map(|text| AtdSigningKey::from_text(&text))
            .transpose()
            .map_err(LoadRingError::AtdVariable)?;
        let (from_atd, atd_key) = match sources.atd_key {
            AtdKeyUse::Ring => (atd_key, None),
            AtdKeyUse::Compat => (None, atd_key),
        };
        let (ring, origin) = if let Some(path) = sources.key_file {
            (KeyFile::new(path).load()?, Origin::KeyFile(path.to_owned()))
        } else if let Some(ring) = from_keys {
            (ring, Origin::KeysVariable)
        } else if let Some(key) = from_atd {
            (key.into_ring(sources.mode), Origin::AtdVariable)
        } else {
            let folder = sources.data_directory.ok_or(LoadRingError::NoSource)?;
            let ring = load_or_create(folder, sources.mode, rng, now)?;
            (ring, Origin::DataDirectory(folder.to_owned()))
        };
        Ok(Self { ring, origin, atd_key, epoch: None })
    }

    /// Begins a new epoch (`--epoch per-start`) and stores it: tokens of earlier starts answer
    /// `expired`.
    ///
    /// # Errors
    ///
    /// [`LoadRingError::SharedEpoch`] unless the ring is the data directory's own, and no other process
    /// has an epoch there: replicas that share a ring would expire each other's tokens.
    pub fn begin_epoch<R: CryptoRng + ?Sized>(
        &mut self,
        rng: &mut R,
        mode: Mode,
        now: UnixTime,
    ) -> Result<SlotNumber, LoadRingError> {
        let Origin::DataDirectory(folder) = &self.origin else {
            return Err(LoadRingError::SharedEpoch);
        };
        let alone = match &self.epoch {
            Some(_) => None,
            None => {
                let alone = KeyFile::new(folder.join(EPOCH_FILE_NAME)).try_to_be_alone()?;
                Some(alone.ok_or(LoadRingError::SharedEpoch)?)
            }
        };
        let (slot, ring) = KeyFile::new(folder.join(KEY_FILE_NAME))
            .update_knowing_wrapped(|ring, wrapped| ring.begin_epoch(rng, mode, now, wrapped))?;
        self.ring = ring;
        self.epoch = self.epoch.take().or(alone);
        Ok(slot)
    }
}

fn variable(
    sources: &Sources<'_>,
    name: &'static str,
) -> Result<Option<Zeroizing<String>>, LoadRingError> {
    (sources.environment)(name)
        .map(|value| value.into_string().map(Zeroizing::new))
        .transpose()
        .map_err(|_| LoadRingError::NotText { name })
}

fn load_or_create<R: CryptoRng + ?Sized>(
    folder: &Path,
    mode: Mode,
    rng: &mut R,
    now: UnixTime,
) -> Result<KeyRing, LoadRingError> {
    let file = KeyFile::new(folder.join(KEY_FILE_NAME));
    match file.load() {
        Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        loaded => return Ok(loaded?),
    }
    if !file.wrapped()?.is_empty() {
        return Err(LoadRingError::Missing { path: folder.join(KEY_FILE_NAME) });
    }
    file.create_folder()?;
    match file.create(&KeyRing::generate(rng, mode, now)) {
        // Another process was faster; its ring is as good.
        Ok(()) | Err(KeyFileError::Exists { .. }) => Ok(file.load()?),
        Err(error) => Err(error.into()),
    }
}

/// The key that ATD servers share, as it comes from `ATD_CURSOR_SIGNING_KEY`.
///
/// It becomes a ring or a compatibility key, and is gone then: never both.
#[derive(Debug)]
pub struct AtdSigningKey(MasterKey);

impl AtdSigningKey {
    /// Reads it from base64url without padding or from standard base64, as ATD does; white space
    /// around it is dropped.
    ///
    /// # Errors
    ///
    /// [`KeyError`] unless these are exactly 32 bytes, not all equal.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
        let text = text.trim();
        if text.len() > MAX_KEY_TEXT_CHARS {
            return Err(KeyError::NotBase64);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .or_else(|_| STANDARD.decode(text))
            .map_err(|_| KeyError::NotBase64)?;
        MasterKey::from_bytes(&Zeroizing::new(bytes)).map(Self)
    }

    /// The ring whose slot 0 it feeds, through HKDF: the same on every replica that shares it.
    #[must_use]
    pub fn into_ring(self, mode: Mode) -> KeyRing {
        KeyRing::from_secret_of(&self.0, "atd", mode)
    }

    #[cfg(feature = "compat")]
    pub(crate) fn into_master(self) -> MasterKey {
        self.0
    }
}

/// A fresh random key, as ATD's function of this name makes one.
pub fn random_signing_key<R: CryptoRng + ?Sized>(rng: &mut R) -> AtdSigningKey {
    AtdSigningKey(MasterKey::generate(rng))
}

/// The key in `ATD_CURSOR_SIGNING_KEY`, or a random one if the variable is not set.
///
/// # Errors
///
/// [`KeyError`] if the variable is set to anything but a key. ATD's function of this name falls back
/// to a random key then, and the second replica refuses the first one's cursors.
pub fn signing_key_from_env_or_random<R: CryptoRng + ?Sized>(
    environment: impl Fn(&str) -> Option<OsString>,
    rng: &mut R,
) -> Result<AtdSigningKey, KeyError> {
    match environment(ATD_KEY_VARIABLE) {
        None => Ok(random_signing_key(rng)),
        Some(value) => {
            let text = Zeroizing::new(value.into_string().map_err(|_| KeyError::NotBase64)?);
            AtdSigningKey::from_text(&text)
        }
    }
}

/// A ring that cannot be loaded. The process must not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadRingError {
    /// `HANDBACK_KEYS` does not hold a ring.
    #[error("HANDBACK_KEYS does not hold a key ring")]
    KeysVariable(#[source] ParseRingError),
    /// `ATD_CURSOR_SIGNING_KEY` does not hold a key.
    #[error("ATD_CURSOR_SIGNING_KEY does not hold a key")]
    AtdVariable(#[source] KeyError),
    /// A variable is not text.
    #[error("{name} is not valid UTF-8")]
    NotText {
        /// Which.
        name: &'static str,
    },
    /// The key file cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The key file is gone, and what it opens is still there. Another ring would open nothing of it.
    #[error("{} is missing, and the keys in the folder `wrapped` beside it cannot be read without it",
        path.display())]
    Missing {
        /// The key file.
        path: PathBuf,
    },
    /// Nothing names a ring, and there is no data directory to make one in.
    #[error("there is no key ring: no key file, no HANDBACK_KEYS and no data directory")]
    NoSource,
    /// A new epoch at every start and a ring that replicas share do not go together.
    #[error("a new epoch at every start needs a key ring that this process does not share")]
    SharedEpoch,
}
