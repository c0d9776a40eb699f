//! Messages as bytes, for what is passed on.
//!
//! A relayed message is never made a tree or one of rmcp's types, which drop members that they do not
//! know. It is looked at once, which also proves that it is JSON; its parts are slices of it, and what
//! has to change is written anew around the slices that stay.

mod message;
mod object;

pub use message::{Id, MAX_ID_BYTES, MAX_METHOD_BYTES, Message, MessageError};
pub use object::{MAX_MEMBERS, Object, ObjectError};
