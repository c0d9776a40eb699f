//! Foreign formats against the published crates themselves.

mod atd;
mod rmcp;
mod v1;
