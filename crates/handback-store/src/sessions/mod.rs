//! Sessions: what a server remembers of an exchange that a client names by an id.
//!
//! - **Made only if new, changed only if there.** A session that was deleted never comes back, also
//!   not by a change that was under way: every change names the row that it replaces.
//! - **Owned.** Whoever asks is compared with the binding that is stored. Somebody else's session
//!   answers as one that is not there, and stays as it is: it is neither ended nor kept alive.
//!   Anonymous and identified callers are somebody else to each other.
//! - **Two lives.** A session ends when it is not used for a while, and at the latest after a fixed
//!   time. Reading is using; it is written down only when an eighth of the idle life has passed, so
//!   that a busy session does not write at every request.
//! - **Absent is not unreachable.** [`SessionError::Absent`] is a 404, [`SessionError::Store`] a 503.
//!
//! A session is filed under its id. Those of a principal are counted by an index under the principal,
//! which is written first: an entry without a session is found and removed when the quota is reached,
//! a session without an entry does not exist. Rows and keys: `docs/spec/journal.md`.

mod row;
mod store;

pub use store::{
    MAX_SESSION_BYTES, MAX_SESSION_ID_BYTES, Session, SessionError, SessionOptions, Sessions,
};
