//! JSON Schemas of upstreams, checked within a budget of steps.
//!
//! A schema of an upstream is input from outside. General validators expand it: 25 definitions that each
//! refer twice to the next are 33 million schemas below `unevaluatedProperties`, and as many visits for
//! a value. Here reading a schema takes time and memory linear in its text, and checking a value counts
//! every step.
//!
//! | type | purpose |
//! |---|---|
//! | [`ForeignSchema`] | a schema that was read: each subschema is one entry of a table, each `$ref` a number |
//! | [`BoundedValidator`] | the only way to check a value: a schema with a budget of steps |
//! | [`Verdict`] | the value fits, does not fit, or the budget did not suffice |
//! | [`Unusable`] | the reason why a schema cannot be used at all |
//!
//! - **Drafts.** 4, 6, 7, 2019-09 and 2020-12, by `$schema`; without it 2020-12, as MCP says. References
//!   work by pointer, `$anchor`, `$id`, `$dynamicRef` and `$recursiveRef`, also to the published
//!   meta-schemas. Nothing is fetched.
//! - **Annotations.** `format` and `content…` are not checked.
//! - **Patterns** run in linear time, and those with look-around within the steps of the check, for texts
//!   of 4 KiB. A text that is longer, or that reaches a backreference, cannot be checked.
//! - **Bounds.** [`SCHEMA_BYTES_MAX`], [`SUBSCHEMAS_MAX`], [`LISTED_OBJECTS_MAX`], [`PATTERNS_MAX`] and
//!   the time and memory of patterns when reading; [`CHECK_STEPS_MAX`] and [`NESTED_CHECKS_MAX`] when checking. A flag ends both early.
//!
//! Rejected: an estimate before a general validator. Its work depends on dynamic scopes, on caches by
//! location and on rounds of deferred references, so a bound would hold for one version of it only.

mod applicators;
mod assertions;
mod draft;
mod error;
mod evaluated;
mod keywords;
mod look_around;
mod misfit;
mod patterns;
mod read;
mod resources;
mod steps;
mod table;
mod validator;
mod values;

pub use error::Unusable;
pub use misfit::Misfit;
pub use patterns::PATTERNS_MAX;
pub use read::{LISTED_OBJECTS_MAX, SCHEMA_BYTES_MAX, SUBSCHEMAS_MAX};
pub use steps::NESTED_CHECKS_MAX;
pub use table::ForeignSchema;
pub use validator::{BoundedValidator, CHECK_STEPS_MAX, Verdict};

#[cfg(test)]
mod tests;
