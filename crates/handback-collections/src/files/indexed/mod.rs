//! JSONL and CSV files, by way of an index: a SQLite database in the data directory.
//!
//! The index is a cache: `index/HASH.sqlite` under the data directory, for its owner only, named
//! after the file and the options. It is written beside its place and renamed when it is whole, so
//! that two processes that index one file do not disturb each other. It knows the state of the file
//! that it was made of (length, time of change, inode), and every read compares: a file that was
//! changed is indexed anew. Without a key a place is a line number, and belongs to one state of the
//! file: afterwards it is [`Changed`](handback_page::CollectionError::Changed). With a
//! [key](FileOptions::key) a walk survives, also that the file is empty for a while. A place with
//! numbers of a column of a CSV file that holds text now, or the other way round, is
//! [`OtherType`](handback_page::CollectionError::OtherType).
//!
//! | | JSONL | CSV |
//! |---|---|---|
//! | item | the line, as it is | an object of all columns |
//! | columns | the members of the objects, the first 200 that are met | the first line |
//! | values | as in JSON: `true` is not 1 | numbers where a whole column has nothing else, else text |
//! | null | null, or no such member | an empty cell |
//! | lines without anything | skipped | skipped |
//!
//! A column of a CSV file without any value takes all. One is numeric only if all its cells are numbers as a program writes them:
//! `007`, `1.50` and `+1` make it text, since something would be lost. In a JSONL file, arrays and
//! objects are neither compared nor looked into, but searched; integers beyond 64 bits are compared
//! as doubles. Truth values sort behind text, and so do decimals that no double is written as, which
//! are found by equality only.
//!
//! A byte order mark at the start is skipped, and so is a carriage return at the end of a line.
//! What is not UTF-8, not JSON, has another number of cells than the first line, or a quote that is
//! never closed, is an error with its line: a file is read as a whole or not at all.
//!
//! What was left out: reading on from where the last index ended when a file has grown. Nothing
//! says that what was there before is still the same.

mod build;
mod collection;
mod csv;
mod jsonl;
mod options;

pub use collection::{CsvCollection, JsonlCollection, Progress};
pub use options::{FileOptions, MAX_CSV_COLUMNS, MAX_JSONL_COLUMNS, MAX_LINE_BYTES};
