//! What belongs to the caller of a request and to nobody else.
//!
//! The engine knows its caller as the two halves that cursors are bound to. What a server holds is
//! filed under more than that: so the server hands in, with the caller, what is the caller's.
//! Whoever implements [`Own`] checks the owner at every look-up. The engine asks again for every
//! request, and keeps nothing of the answers.

use std::fmt;
use std::sync::Arc;

use handback_token::{Handle, SlotNumber, UnixTime};

use crate::collection::{Collection, CollectionError};
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
