//! Held values that are larger than what may be in memory of them.
//!
//! Each test starts this binary again, with one test in it: so nothing else is in the memory that is
//! measured.

mod reader;
mod result;

use std::io::{self, Write as _};
use std::process::Command;

use crate::config;

/// What a process may take more than before, while it holds and reads a value of any size.
const RISE_MAX_BYTES: u64 = 64_000_000;

/// What it may take while several callers do so at the same time.
const CROWD_RISE_MAX_BYTES: u64 = 160_000_000;

#[test]
fn a_large_result_is_read_in_little_memory() {
    config::large_sizes().into_iter().for_each(|size| run("everything", size));
}

#[test]
fn large_results_of_several_callers_are_read_in_bounded_memory() {
    // Each of the four has one: together as large as the one above.
    config::large_sizes().into_iter().for_each(|size| run("crowd", size / 4));
}

#[track_caller]
fn run(what: &str, megabytes: u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "large::reader::reads", "--nocapture", "--test-threads=1"])
        .env(config::LARGE, format!("{what} {megabytes}"))
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{what}, {megabytes} MB: {said}{errors}");
    assert!(said.contains("reads is over"), "it did nothing: {said}{errors}");
    // For whoever looks: how near it is.
    let measured = said.lines().filter_map(|line| line.strip_prefix("said measured "));
    measured.for_each(|line| io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
