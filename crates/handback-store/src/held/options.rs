//! How much is held, for how long, and where.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::encrypted::key::Keys;
use crate::{DataKey, Millis};

const HOUR_MS: Millis = 60 * 60 * 1_000;

/// How long a value is held without being used.
const IDLE_MS: Millis = HOUR_MS;

/// How long a value is held at most.
const LONGEST_MS: Millis = 24 * HOUR_MS;

/// Bytes that are held for one principal.
const PER_PRINCIPAL_BYTES: u64 = 256 << 20;

/// How much is held, for how long, and where.
#[derive(Clone)]
#[must_use]
pub struct HeldOptions {
    pub(super) idle_ms: Millis,
    pub(super) longest_ms: Millis,
    pub(super) per_principal_bytes: u64,
    pub(super) folder: Option<PathBuf>,
    pub(super) keys: Option<Arc<Keys>>,
}

impl HeldOptions {
    /// One hour without use, 24 hours at most, 256 MiB for one principal, no files.
    pub const fn new() -> Self {
        Self {
            idle_ms: IDLE_MS,
            longest_ms: LONGEST_MS,
            per_principal_bytes: PER_PRINCIPAL_BYTES,
            folder: None,
            keys: None,
        }
    }

    /// How long a value is held without being used.
    pub const fn idle_ms(mut self, idle_ms: Millis) -> Self {
        self.idle_ms = idle_ms;
        self
    }

    /// How long a value is held at most.
    pub const fn longest_ms(mut self, longest_ms: Millis) -> Self {
        self.longest_ms = longest_ms;
        self
    }

    /// Bytes that are held for one principal. Each value counts
    /// [`VALUE_COST_BYTES`](super::VALUE_COST_BYTES) more than it has.
    pub const fn per_principal_bytes(mut self, bytes: u64) -> Self {
        self.per_principal_bytes = bytes;
        self
    }

    /// Values over [`MAX_IN_STORE_BYTES`](super::MAX_IN_STORE_BYTES) are files in this folder, which
    /// has nothing else in it.
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Files are encrypted. The key is that of the store, if it is [`Encrypted`](crate::Encrypted).
    pub fn encrypted_under(mut self, key: &DataKey) -> Self {
        self.keys = Some(Arc::new(Keys::new(key)));
        self
    }
}

impl Default for HeldOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HeldOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldOptions")
            .field("idle_ms", &self.idle_ms)
            .field("longest_ms", &self.longest_ms)
            .field("per_principal_bytes", &self.per_principal_bytes)
            .field("folder", &self.folder)
            .field("is_encrypted", &self.keys.is_some())
            .finish()
    }
}

/// The limit of what an owner may hold once a value is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Allowance {
    /// The quota.
    #[default]
    Quota,
    /// The limit for values that the owner holds and owes together.
    HeldAndOwed,
    /// None: the value is kept in any case.
    Unlimited,
}

/// What is said of a value when it is made.
#[derive(Clone, Debug)]
#[must_use]
pub struct NewValue {
    pub(super) kind: String,
    pub(super) note: Bytes,
    pub(super) life: Option<Millis>,
    pub(super) least_ms: Millis,
    pub(super) allowance: Allowance,
}

impl NewValue {
    /// A value of this kind, such as a media type.
    pub fn new(kind: impl Into<String>) -> Self {
        let (note, allowance) = (Bytes::new(), Allowance::Quota);
        Self { kind: kind.into(), note, life: None, least_ms: 0, allowance }
    }

    /// What else is to be known of it, at most [`MAX_NOTE_BYTES`](super::MAX_NOTE_BYTES): which
    /// upstream and which tool made it.
    pub fn note(mut self, note: impl Into<Bytes>) -> Self {
        self.note = note.into();
        self
    }

    /// It lives exactly so long, whether it is used or not.
    pub const fn fixed_life(mut self, life_ms: Millis) -> Self {
        self.life = Some(life_ms);
        self
    }

    /// It lives at least so long, whether it is used or not, and longer as any other: somebody may
    /// learn of it late.
    pub const fn at_least(mut self, life_ms: Millis) -> Self {
        self.least_ms = life_ms;
        self
    }

    /// It is kept also where there is no room, and counts: an outcome is kept after the work is done,
    /// when it is too late to refuse. Whoever makes such values asks beforehand whether their owner
    /// [may owe](super::HeldStore::may_owe) more.
    pub const fn owed(mut self) -> Self {
        self.allowance = Allowance::Unlimited;
        self
    }

    /// The same, unless its owner holds and owes more than [may be
    /// owed](super::HeldStore::may_owe) without it.
    pub const fn owed_within_limit(mut self) -> Self {
        self.allowance = Allowance::HeldAndOwed;
        self
    }
}
