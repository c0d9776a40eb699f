//! What belongs to the caller of a request and to nobody else.
//!
//! The engine knows its caller as the two halves that cursors are bound to. What a server holds is
//! filed under more than that: so the server hands in, with the caller, what is the caller's.
//! Whoever implements [`Own`] checks the owner at every look-up. The engine asks again for every
//! request, and keeps nothing of the answers.

use std::fmt;
use std::sync::Arc;

use handback_token::{Handle, SlotNumber, UnixTime};
use rand_core::CryptoRng;

use crate::collection::{Collection, CollectionError};
use crate::json::ByteSource;
use crate::shelf::Shelf;

/// What belongs to the caller of a request.
///
/// Two wrong answers are dangerous: a collection or a shelf of somebody else, and a handle of
/// somebody else that is told apart from an unknown one.
pub trait Own: fmt::Debug + Send + Sync {
    /// Where snapshots and long places of this caller are kept, in the place of the engine's shelf.
    fn shelf(&self) -> &dyn Shelf;

    /// What a handle names for this caller.
    ///
    /// # Errors
    ///
    /// [`OwnError::Unknown`] also for what is held for somebody else.
    fn collection(&self, handle: Handle) -> Result<Arc<dyn Collection>, OwnError>;

    /// The bytes that a handle names for this caller, and what is known of them.
    ///
    /// # Errors
    ///
    /// [`OwnError::Unknown`] also for what is held for somebody else.
    fn value(&self, handle: Handle) -> Result<OwnValue, OwnError>;

    /// Holds a value for this caller, under a new handle.
    ///
    /// # Errors
    ///
    /// [`CollectionError::TooLarge`] of a `held value` if the caller may not hold that much,
    /// [`CollectionError::Unavailable`].
    fn hold(&self, new: NewOwn<'_>, rng: &mut dyn CryptoRng) -> Result<OwnEntry, CollectionError>;

    /// What is held for this caller and can be named by a handle.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Unavailable`] if that cannot be known now.
    fn list(&self) -> Result<OwnList, CollectionError>;

    /// Whether a cursor that opened, sealed under this key and good until then, was revoked.
    fn is_revoked(&self, slot: SlotNumber, expires_at: UnixTime) -> bool;
}

/// Why a handle gives no collection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// Unknown, long gone, or somebody else's: these are not told apart.
    #[error("unknown handle")]
    Unknown,
    /// It was revoked, which the caller is not told: to it, the handle is unknown.
    #[error("unknown handle")]
    Revoked,
    /// It was held for this caller until a while ago.
    #[error("expired handle")]
    Expired,
    /// It is held, and cannot be read.
    #[error(transparent)]
    Collection(#[from] CollectionError),
}

/// A value that is held for a caller.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct OwnValue {
    /// What it is, as a media type: `text/…` is text, everything else JSON.
    pub kind: String,
    /// What the server has written beside it.
    pub note: Vec<u8>,
    /// Its bytes.
    pub bytes: Arc<dyn ByteSource>,
}

/// A value to be held for a caller.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "servers take it apart")]
pub struct NewOwn<'a> {
    /// What it is, as a media type.
    pub kind: &'a str,
    /// The note of what it was made of: it came from where that came from.
    pub note: &'a [u8],
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Says how many bytes there are, not which.
impl fmt::Debug for NewOwn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewOwn")
            .field("kind", &self.kind)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// What is held for a caller.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct OwnList {
    /// Each of them; not more than fit a list.
    pub entries: Vec<OwnEntry>,
    /// Whether there are more.
    pub more: bool,
}

/// Something that is held for a caller.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "servers write it as a literal")]
pub struct OwnEntry {
    /// Its handle.
    pub handle: Handle,
    /// What it is, as a media type.
    pub kind: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// When it ends, if it is not used before.
    pub until: UnixTime,
}
