//! What a client keeps on the disk, so that a restart goes on where it was cut.
//!
//! ```text
//! DIRECTORY/device.key          the key of the MACs, 0600, made on first use
//! DIRECTORY/duplex/ID/          one folder per duplex, 0700
//!     lock                      who drives it
//!     state                     where it stands
//!     outbox                    chunks that the server may not have yet
//! DIRECTORY/keys/ID.key         its stream key, kept apart, 0600
//! DIRECTORY/finished/ID         where it stood at its end, for a day after it
//! ```
//!
//! `ID` is made of the server's address, the handler and the idempotency key.
//!
//! # Security
//!
//! `state` and `outbox` carry HMAC-SHA256 under the device key. That shows damage, and edits by
//! others who can write the files but not read the key. It does not protect against whoever can read
//! the key, and it hides nothing: the chunks are there in the clear. A file that is put back as it
//! was earlier has a good MAC; the server notices, because tokens and numbers have moved on.

mod device;
mod disk;
mod error;
mod folder;
mod outbox;
mod saved;
#[cfg(test)]
mod tests;

pub use error::StateError;
pub(crate) use folder::{Folder, StateDir};
pub(crate) use outbox::Chunk;
pub(crate) use saved::{Closing, Ended, Place, Saved, Trust};
