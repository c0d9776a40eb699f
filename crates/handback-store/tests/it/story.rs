//! A run of batches that is the same every time, and what a store holds after so many of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use handback_store::{
    Batch, EmbeddedOptions, EmbeddedStore, Log, LogId, MemoryStore, ReadLimit, Record,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

/// The log whose note counts the batches.
pub(crate) const COUNTER: u8 = 0xcc;
const LOGS: u8 = 5;

/// A directory, in memory if there is such a thing: what is tested is not the speed of a disk.
pub(crate) fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().expect("there is room"))
}

pub(crate) fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, EmbeddedOptions::new()).expect("the store opens")
}

/// Opens a store that flushes tables all the time.
pub(crate) fn open_restless(path: &Path) -> EmbeddedStore {
    let options = EmbeddedOptions::new().memtable_bytes(1 << 20);
    EmbeddedStore::open(path, options).expect("the store opens")
}

pub(crate) fn log_id(number: u8) -> LogId {
    LogId::from_bytes([number; 24])
}

/// What is in a file, up to the last byte that is not zero. A journal is 64 MiB of nearly nothing.
pub(crate) fn read_up_to_zeros(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(at) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(bytes.len() as u64)) {
        bytes.resize(usize::try_from(at).unwrap(), 0);
        let read = file.read_at(&mut chunk, at).unwrap();
        bytes.extend_from_slice(&chunk[..read]);
    }
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

/// All files below a folder.
pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Copies a folder. Second names of a file stay that, and holes of journals stay holes.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    let mut copied = BTreeMap::new();
    for path in walk(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        if let Some(first) = copied.get(&metadata.ino()) {
            fs::hard_link(first, target).unwrap();
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let file = File::create(&target).unwrap();
            file.write_all_at(&read_up_to_zeros(&path), 0).unwrap();
            file.set_len(metadata.len()).unwrap();
        } else {
            fs::copy(path, &target).unwrap();
        }
        copied.insert(metadata.ino(), target);
    }
}

/// The batches, one after the other.
pub(crate) struct Story {
    rng: SmallRng,
    /// How long records are, in parts of the usual length.
    scale: usize,
    told: u64,
    next: [u64; LOGS as usize],
}

impl Story {
    pub(crate) fn new(seed: u64) -> Self {
        // Every other seed tells of long records, so that tables are written in between.
        let scale = if seed.is_multiple_of(2) { 300 } else { 1 };
        Self { rng: SmallRng::seed_from_u64(seed), scale, told: 0, next: [0; LOGS as usize] }
    }

    /// The batches after the first `told`.
    pub(crate) fn after(seed: u64, told: u64) -> Self {
        let mut story = Self::new(seed);
        while story.told < told {
            story.tell();
        }
        story
    }

    /// The next batch: records of several logs, sometimes long ones; sometimes a log is removed.
    pub(crate) fn tell(&mut self) -> Batch {
        self.told += 1;
        let mut batch = Batch::default();
        let removed = (self.rng.random_ratio(1, 12)).then(|| self.rng.random_range(0..LOGS));
        if let Some(log) = removed {
            batch.removed.push(log_id(log));
            self.next[usize::from(log)] = 0;
        }
        for _ in 0..self.rng.random_range(1..8) {
            let log = self.rng.random_range(0..LOGS);
            let len = if self.rng.random_ratio(1, 10) { 5_000 } else { 200 };
            let len = self.rng.random_range(0..len);
            let mut bytes = vec![0; len * self.scale];
            self.rng.fill(bytes.as_mut_slice());
            if removed == Some(log) {
                continue;
            }
            let number = &mut self.next[usize::from(log)];
            batch.records.push(Record { log: log_id(log), number: *number, bytes: bytes.into() });
            *number += 1;
        }
        batch.notes.push((log_id(COUNTER), self.told.to_be_bytes().to_vec().into()));
        batch
    }
}

/// All that a store holds.
#[derive(PartialEq, Eq)]
pub(crate) struct Contents(Vec<Record>, Vec<(LogId, Bytes)>);

/// What a store holds.
pub(crate) fn contents(store: &impl Log) -> Contents {
    let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
    let records = (0..LOGS).flat_map(|log| store.read(log_id(log), 0, all).expect("it reads"));
    Contents(records.collect(), store.noted(None, usize::MAX).expect("it reads"))
}

/// What a store holds after so many batches.
pub(crate) fn after(seed: u64, batches: u64) -> Contents {
    let store = MemoryStore::new();
    let mut story = Story::new(seed);
    for _ in 0..batches {
        store.commit(&story.tell()).expect("memory does not fail");
    }
    contents(&store)
}

/// How many batches a store says it holds.
pub(crate) fn told(store: &impl Log) -> u64 {
    let note = store.note(log_id(COUNTER)).expect("it reads");
    note.map_or(0, |note| u64::from_be_bytes(note.as_ref().try_into().expect("eight bytes")))
}

/// Asserts that a store holds exactly so many batches as it says, whole. Gives how many.
pub(crate) fn check(store: &impl Log, seed: u64) -> u64 {
    let told = told(store);
    assert!(contents(store) == after(seed, told), "batch {told} is not there as a whole");
    told
}
