//! Tools over plain HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/tools` | the tools that the caller may use, in pages |
//! | `GET /v1/tools/{id}` | one of them |
//! | `POST /v1/tools/{id}/run` | calls it; with `Accept: text/event-stream`, what it tells on the way comes too |
//! | `POST /v1/tools/{id}/continue` | the next page |
//! | `GET /v1/openapi.json` | all of this as an OpenAPI document, with the schemas of the tools |
//!
//! `docs/spec/tools-http.md` has every byte. A lost connection does not cancel a call. Who calls, and
//! whether host and origin may ask, is checked before.

pub(crate) mod answer;
mod catalog;
mod events;
mod openapi;
mod read;
mod routes;

pub use routes::{handle, is_ours};
