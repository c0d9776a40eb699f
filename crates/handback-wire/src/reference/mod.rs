//! Arguments that name held values.
//!
//! A caller that was given a handle can pass what it names to another call, without reading it:
//! before the call goes upstream, the reference is replaced by the value.
//!
//! | written in the arguments | what takes its place |
//! |---|---|
//! | `{"$held": HANDLE}` | the held value; held text is a JSON string |
//! | `{"$held": HANDLE, "path": POINTER}` | the value at a JSON pointer in it |
//! | `"$held:HANDLE"`, `"$held:HANDLE#POINTER"` | the same, always as a JSON string: a value that is no text is one by its JSON |
//!
//! An object has these members and no others; a string that starts with `$held:` is a reference as a
//! whole. What looks like one and is none is an error, and never goes upstream.
//!
//! - **Text, not trees.** [`resolve`] works on the text of the arguments: what is no reference stays as
//!   it is, to the byte. Arguments that name nothing cost one search, and are not copied.
//! - **Once.** A value that was put in is not looked into: there are no loops.
//! - **Owned.** Whoever implements [`Fetch`] looks a handle up as the caller. Somebody else's is an unknown one, to
//!   the byte; a wrong checksum is told before anything is looked up.
//! - **Directed.** A value goes to the upstream that made it, and to others only where [`Rules`] say
//!   so. A derived value has the upstream of its source. What our own tools hold has none, and goes
//!   nowhere unless a rule names it: it may come from anywhere, and an upstream that asks for it by
//!   way of a model would get it.
//! - **Bounded.** [`MAX_REFERENCES`] in one call; together as many bytes as the rules say, found out
//!   before any are read into memory.
//! - **Checked.** What comes out is validated against the schema of the tool.
//!
//! Everything here blocks on the store: servers call [`resolve`] where that is allowed, if
//! [`mentions_held`] says that there may be something to do.

mod error;
mod find;
mod resolve;
mod rules;

pub use error::{Fault, HandleRefusal, ReferenceError};
pub use find::{MAX_ARGUMENTS_DEPTH, MAX_REFERENCES, Reference, find, mentions_held};
pub use resolve::{Call, Fetch, Resolution, Resolved, Source, resolve};
pub use rules::{ANY, Allowed, DEFAULT_BYTES_MAX, OWN, Rules};
