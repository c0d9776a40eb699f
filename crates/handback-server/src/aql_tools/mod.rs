//! The MCP-AQL operations as tools: `mcp_aql_read` and `mcp_aql_create`, or the single tool
//! `mcp_aql`.
//!
//! A call goes to the [`Engine`](handback_page::aql::Engine) on a thread that may block. A page that
//! waits sleeps between two looks, and holds no thread meanwhile.
//!
//! - **Answers.** What a caller gets is the envelope of MCP-AQL, as JSON text, also when it says
//!   `"success": false`: such a call was made and answered. Only what the caller can do nothing about
//!   (`INTERNAL_ERROR`) is a call that failed; its message is the envelope, so that it is the text
//!   that a client finds, with `isError` set on MCP. The schema of the arguments is shown and not
//!   checked by the pipeline: what is wrong with a request is said in the envelope as well.
//! - **Handles.** `element_type` may be a handle: what is held for the caller under it is read as a
//!   collection, by position. A wrong checksum is `mistyped handle`, before anything is looked up;
//!   the caller's own that ended within 24 hours is `expired handle`; everything else, and what is
//!   somebody else's, is `invalid handle`, to the byte. Its items are where its note says, and with
//!   `HANDLE#POINTER` those of any array or object in it.
//! - **Bounds.** However large held values are, and however many callers read them: of each the index
//!   and the orders that were found take 16 MiB at most, all that are kept open 32 MiB, and the few
//!   requests that are looked at at a time what they sort by, 20 MiB each.
//! - **Media.** A held image, audio or blob is given as a block of its own, and never as base64 in a
//!   text; it is a resource as well.
//! - **Derived values.** `derive_element` makes a held value of another one of the caller, with the
//!   note of that one: it came from where that came from.
//! - **Snapshots and long places** are held for the caller, under its quota.
//! - **Revocations** concern the cursors and the handles of these tools as they do all others.
//!
//! A call with an idempotency key is replayed with the cursors that it was answered with, which may
//! have expired since.

mod held;
mod media;
mod own;
mod shelf;
mod tool;

pub use tool::{AqlError, AqlParts, CALLS_MAX, HELD_CALLS_MAX, HELD_CALLS_PER_CALLER, register};
