//! Bytes change or vanish: what is read is right, or it is said that it is not.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use handback_store::{EmbeddedOptions, EmbeddedStore, Log, OpenError, ReadLimit, Record};
use rand::RngExt;
use tempfile::TempDir;

use crate::story;

const SEED: u64 = 5;
const BATCHES: u64 = 20;

/// A closed store with some batches, where its journal ends, and where its last batch starts.
struct Written {
    directory: TempDir,
    last_start: usize,
    end: usize,
    /// The watermark as it was before the last batch was acknowledged.
    unacknowledged: Vec<u8>,
}

impl Written {
    fn new() -> Self {
        let directory = story::directory();
        let mut story = story::Story::new(SEED);
        let store = story::open(directory.path());
        for _ in 1..BATCHES {
            store.commit(&story.tell()).unwrap();
        }
        let last_start = journal_end(directory.path());
        let unacknowledged = fs::read(directory.path().join(WATERMARK)).unwrap();
        store.commit(&story.tell()).unwrap();
        let end = journal_end(directory.path());
        drop(store);
        Self { directory, last_start, end, unacknowledged }
    }

    /// A copy as a crash leaves it that comes before the last batch is acknowledged.
    fn crashed(&self, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
        let copy = self.changed(change);
        fs::write(copy.path().join(WATERMARK), &self.unacknowledged).unwrap();
        copy
    }

    /// A copy whose journal is as `change` makes it, and as long as before.
    fn changed(&self, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
        let copy = story::directory();
        story::copy_all(self.directory.path(), copy.path());
        let path = journal(copy.path());
        let mut bytes = story::read_up_to_zeros(&path);
        change(&mut bytes);
        let length = fs::metadata(&path).unwrap().len();
        let file = fs::File::create(path).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.set_len(length).unwrap();
        copy
    }
}

const WATERMARK: &str = "watermark";

fn journal(directory: &Path) -> PathBuf {
    directory.join("fjall/0.jnl")
}

fn journal_end(directory: &Path) -> usize {
    story::read_up_to_zeros(&journal(directory)).len()
}

#[test]
fn a_journal_that_ends_in_its_last_batch_loses_that_batch_only() {
    let written = Written::new();
    for end in (written.last_start..written.end).step_by(9) {
        let copy = written.crashed(|bytes| bytes.truncate(end));
        assert_eq!(story::check(&story::open(copy.path()), SEED), BATCHES - 1, "cut at {end}");
    }
    let copy = written.crashed(|_| {});
    assert_eq!(story::check(&story::open(copy.path()), SEED), BATCHES);
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    let written = Written::new();
    let mut rng = rand::rng();
    let (mut noticed, mut harmless) = (0, 0);
    let middle = (0..written.last_start).step_by(written.last_start / 200);
    for at in middle.chain((written.last_start..written.end).step_by(7)) {
        let bit = rng.random_range(0..8);
        let copy = written.changed(|bytes| bytes[at] ^= 1 << bit);
        match EmbeddedStore::open(copy.path(), EmbeddedOptions::new()) {
            Err(OpenError::Damaged(_)) => noticed += 1,
            Err(other) => panic!("bit {bit} of {at}: {other}"),
            Ok(store) => {
                let told = story::check(&store, SEED);
                assert_eq!(told, BATCHES, "bit {bit} of {at}");
                harmless += 1;
            }
        }
    }
    assert!(noticed > 200, "{noticed} noticed, {harmless} not");
}

#[test]
fn a_zeroed_part_in_the_middle_is_noticed() {
    let written = Written::new();
    for at in (0..written.last_start - 512).step_by(written.last_start / 20) {
        let copy = written.changed(|bytes| bytes[at..at + 512].fill(0));
        let opened = EmbeddedStore::open(copy.path(), EmbeddedOptions::new());
        assert!(matches!(opened, Err(OpenError::Damaged(_))), "{at}");
    }
}

#[test]
fn what_a_caller_wrote_is_not_taken_for_a_batch() {
    let directory = story::directory();
    let log = story::log_id(1);
    let append = |number, bytes: Vec<u8>| {
        let record = Record { log, number, bytes: bytes.into() };
        handback_store::Batch { records: vec![record], ..Default::default() }
    };
    let store = story::open(directory.path());
    store.commit(&append(0, vec![1; 100])).unwrap();
    // A batch that looks as if it came next, within a record of the last batch, whose middle is lost.
    let mut forged = story::read_up_to_zeros(&journal(directory.path()));
    forged[5..13].copy_from_slice(&1_000_u64.to_le_bytes());
    let record = [forged, vec![7; 1_000]].concat();
    let unacknowledged = fs::read(directory.path().join(WATERMARK)).unwrap();
    store.commit(&append(1, record)).unwrap();
    let last = journal_end(directory.path());
    drop(store);
    let path = journal(directory.path());
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; 512], last as u64 - 600).unwrap();
    fs::write(directory.path().join(WATERMARK), unacknowledged).unwrap();
    let store = story::open(directory.path());
    assert_eq!(store.last(log).unwrap().map(|record| record.number), Some(0));
}

#[test]
fn a_missing_journal_is_noticed() {
    let written = Written::new();
    let copy = written.changed(|_| {});
    let check = || {
        let opened = EmbeddedStore::open(copy.path(), EmbeddedOptions::new());
        assert!(matches!(opened, Err(OpenError::Damaged(_))));
    };
    let later = copy.path().join("fjall/2.jnl");
    fs::write(&later, []).unwrap();
    check();
    fs::remove_file(later).unwrap();
    fs::remove_file(journal(copy.path())).unwrap();
    fs::remove_file(copy.path().join("journals/0.jnl")).unwrap();
    check();
}

#[test]
fn a_damaged_table_is_noticed_when_it_is_read() {
    const RECORDS: u64 = 80;
    let directory = story::directory();
    let log = story::log_id(1);
    let bytes = |number: u64| {
        let byte = u8::try_from(number).unwrap();
        (0..1 << 20).map(|at: u32| byte ^ at.to_le_bytes()[0]).collect::<Vec<_>>()
    };
    let store = story::open(directory.path());
    for number in 0..RECORDS {
        let record = Record { log, number, bytes: bytes(number).into() };
        let batch = handback_store::Batch { records: vec![record], ..Default::default() };
        store.commit(&batch).unwrap();
    }
    let table = loop {
        let tables = story::walk(&directory.path().join("fjall/keyspaces"));
        let large = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.len() > 60 << 20);
        if let Some(table) = tables.into_iter().find(large) {
            break table;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    drop(store);
    let mut rng = rand::rng();
    let file = OpenOptions::new().read(true).write(true).open(&table).unwrap();
    let len = file.metadata().unwrap().len();
    for _ in 0..6 {
        let at = rng.random_range(0..len);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        let read = EmbeddedStore::open(directory.path(), EmbeddedOptions::new())
            .map_err(|error| error.to_string())
            .and_then(|store| {
                let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
                store.read(log, 0, all).map_err(|error| error.to_string())
            });
        if let Ok(records) = read {
            assert_eq!(records.len() as u64, RECORDS, "byte {at}");
            assert!(records.iter().all(|record| record.bytes == bytes(record.number)), "byte {at}");
        }
        file.write_all_at(&byte, at).unwrap();
    }
}
