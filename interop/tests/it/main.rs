//! Foreign formats and clients: the published crates themselves.

mod atd;
mod atd_sdk;
mod rmcp;
mod v1;
