//! What is relayed, as bytes: messages of others, and what is made of them.
//!
//! A relayed message is never made a tree or one of rmcp's types, which drop members that they do not
//! know. It is looked at once, which also proves that it is JSON; its parts are slices of it, and what
//! has to change is written anew around the slices that stay.
//!
//! | module | what it is for |
//! |---|---|
//! | [`Message`], [`Object`] | messages of JSON-RPC and the members of an object, in slices |
//! | [`scan`] | the same of messages that are larger than memory |
//! | [`sse`] | streams of events |
//! | [`event_ids`] | streams of events whose ids become others |
//! | [`era`], [`depth`] | which revision a message is of, and how deep it is nested |
//! | [`header`] | texts that go in headers |
//! | [`meta`] | what a relay changes in `_meta` |
//! | [`marks`] | marks of Handback in messages of upstreams |
//! | [`controls`] | control characters in titles and descriptions of upstreams |
//! | [`hop`] | what cursors and task ids of upstreams are made of |
//! | [`json`] | JSON in pieces of any size |
//! | [`mod@bound`] | results over a client's budget |
//! | [`mod@reference`] | arguments that name held values |
//! | [`schema`] | JSON Schemas of upstreams, checked within a budget of steps |
//! | [`note`] | what is written beside a held value |
//!
//! Everything here is a function of the bytes that it is given: there is no IO, no clock and no random
//! source. `handback-gateway` has those, and says what the parts are for. What comes from outside is
//! read here, so that a fuzz target reaches it.

pub mod bound;
pub mod controls;
pub mod depth;
pub mod era;
pub mod event_ids;
pub mod header;
pub mod hop;
pub mod json;
pub mod marks;
mod message;
pub mod meta;
pub mod note;
mod object;
pub mod reference;
pub mod scan;
pub mod schema;
pub mod sse;

pub use message::{Id, MAX_ID_BYTES, MAX_METHOD_BYTES, Message, MessageError};
pub use object::{MAX_MEMBERS, Object, ObjectError};
