//! Integration tests: real signatures, attacks on them, and misuse that must not compile.

#![expect(clippy::indexing_slicing, reason = "the helpers index what they have just made")]

mod accept;
mod attack;
mod binding;
mod compile_fail;
mod mutation;
mod support;
