//! Files as collections.
//!
//! JSON and text files are read by position, with an index in memory. JSONL and CSV files are
//! indexed into a database of their own.

mod indexed;
mod refreshed;
mod source;

pub use indexed::{
    CsvCollection, FileOptions, JsonlCollection, MAX_CSV_COLUMNS, MAX_JSONL_COLUMNS,
    MAX_LINE_BYTES, Progress,
};
pub use refreshed::{JsonFileCollection, JsonFileOptions, TextFileCollection};

pub(crate) use source::read_exact_at;
