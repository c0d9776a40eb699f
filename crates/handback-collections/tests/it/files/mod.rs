//! JSONL and CSV files.

mod csv;
mod jsonl;
mod refresh;
mod support;
