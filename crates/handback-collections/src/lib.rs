//! Tables and files behind the [`Collection`](handback_page::Collection) trait.
//!
//! What callers send never becomes SQL text: values are bound, and the only identifiers in a
//! statement are those that the database itself named when it was looked at.

pub mod files;
pub mod postgres;
pub mod shelf;
mod sql;
pub mod sqlite;
