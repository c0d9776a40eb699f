//! A process is killed at random moments; what it acknowledged is there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread;
use std::time::Duration;

use handback_store::{EmbeddedStore, Log};
use rand::RngExt;

use crate::{process, story};

const SHORT: u64 = 11;
const LONG: u64 = 12;

#[test]
fn what_was_acknowledged_outlives_a_killed_process() {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), SHORT, "kill::commits_short_records", 40, Duration::from_millis(40));
}

#[test]
fn what_was_acknowledged_outlives_a_process_that_is_killed_while_it_moves_tables() {
    let directory = story::directory();
    check(directory.path(), LONG, "kill::commits_long_records", 12, Duration::from_millis(300));
}

fn check(directory: &Path, seed: u64, test: &str, kills: usize, life: Duration) {
    let mut rng = rand::rng();
    let mut kept = 0;
    for _ in 0..kills {
        let mut child = process::start(test, directory);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Sometimes it dies while it opens.
        let mut acked = kept;
        if rng.random_ratio(4, 5) {
            acked = process::heard(&mut lines).unwrap();
        }
        thread::sleep(rng.random_range(Duration::ZERO..life));
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(number) = process::heard(&mut lines) {
            acked = number;
        }
        kept = story::check(&open(seed, directory), seed);
        assert!(kept == acked || kept == acked + 1, "{acked} acknowledged, {kept} kept");
    }
    assert!(kept > 0);
}

/// Does nothing unless a test above started it in a process of its own.
#[test]
fn commits_short_records() {
    commit_for_ever(SHORT);
}

/// Does nothing unless a test above started it in a process of its own.
#[test]
fn commits_long_records() {
    commit_for_ever(LONG);
}

fn open(seed: u64, directory: &Path) -> EmbeddedStore {
    if seed == LONG { story::open_restless(directory) } else { story::open(directory) }
}

fn commit_for_ever(seed: u64) {
    let Some(directory) = process::directory() else { return };
    let store = open(seed, &directory);
    let mut told = story::told(&store);
    let mut story = story::Story::after(seed, told);
    loop {
        store.commit(&story.tell()).unwrap();
        told += 1;
        process::say(told);
    }
}
