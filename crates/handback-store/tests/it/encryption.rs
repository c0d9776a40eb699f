//! What is stored is not readable, and stays where it was put.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use handback_store::{
    Batch, Change, DataKey, Encrypted, Kv, KvBatch, KvError, Log, MemoryStore, ReadLimit, Record,
    StoreError,
};

use crate::story::{self, log_id};

const ALL: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
const SECRET: &[u8] = b"nobody may read this, and nobody will";

fn record(log: u8, number: u64) -> Record {
    Record { log: log_id(log), number, bytes: Bytes::from_static(SECRET) }
}

fn put(key: &'static str, until: Option<u64>) -> KvBatch {
    let change = Change::Put { value: Bytes::from_static(SECRET), until };
    KvBatch { conditions: Vec::new(), changes: vec![(key.into(), change)] }
}

fn fill(store: &(impl Log + Kv)) {
    let records = vec![record(1, 0), record(1, 1), record(2, 0)];
    let notes = [1, 2].map(|log| (log_id(log), Bytes::from_static(SECRET))).to_vec();
    store.commit(&Batch { records, notes, ..Batch::default() }).unwrap();
    store.write(&put("a", None), 0).unwrap();
    store.write(&put("b", Some(10)), 0).unwrap();
}

fn key() -> DataKey {
    DataKey::generate(&mut rand::rng())
}

fn is_damaged<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Damaged(_)))
}

#[test]
fn no_plain_text_is_on_the_disk() {
    let directory = story::directory();
    let store = Encrypted::new(story::open(directory.path()), &key());
    fill(&store);
    assert_eq!(store.read(log_id(1), 0, ALL).unwrap(), [record(1, 0), record(1, 1)]);
    drop(store);
    assert_eq!(files_with(directory.path(), &SECRET[..12]), 0);
    assert!(files_with(directory.path(), log_id(1).as_bytes()) > 0, "names are not hidden");
}

fn files_with(directory: &Path, text: &[u8]) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            return files_with(&path, text);
        }
        let bytes = story::read_up_to_zeros(&path);
        usize::from(bytes.windows(text.len()).any(|window| window == text))
    };
    entries.map(count).sum()
}

#[test]
fn another_key_reads_nothing() {
    let key = key();
    let store = Encrypted::new(MemoryStore::new(), &key);
    fill(&store);
    let same = Encrypted::new(moved(store.inner(), |_, _| {}), &key);
    assert_eq!(same.read(log_id(1), 0, ALL).unwrap().len(), 2);
    let other = Encrypted::new(moved(store.inner(), |_, _| {}), &self::key());
    assert!(is_damaged(other.read(log_id(1), 0, ALL)));
    assert!(is_damaged(other.last(log_id(1))));
    assert!(is_damaged(other.note(log_id(1))));
    assert!(is_damaged(other.noted(None, 10)));
    assert!(is_damaged(other.get(b"a", 0)));
    assert!(is_damaged(other.scan(b"", None, 10, 0)));
}

/// A copy of what [`fill`] wrote, changed.
fn moved(from: &MemoryStore, change: impl FnOnce(&mut Batch, &mut KvBatch)) -> MemoryStore {
    let mut batch = Batch {
        records: [1, 2].iter().flat_map(|&log| from.read(log_id(log), 0, ALL).unwrap()).collect(),
        notes: from.noted(None, 10).unwrap(),
        removed: Vec::new(),
        ..Batch::default()
    };
    let values = from.scan(b"", None, 10, 0).unwrap().into_iter();
    let put = |(key, value)| (key, Change::Put { value, until: None });
    let mut values = KvBatch { conditions: Vec::new(), changes: values.map(put).collect() };
    change(&mut batch, &mut values);
    let to = MemoryStore::new();
    to.commit(&batch).unwrap();
    to.write(&values, 0).unwrap();
    to
}

#[test]
fn values_in_another_place_are_damaged() {
    let key = key();
    let store = Encrypted::new(MemoryStore::new(), &key);
    fill(&store);
    let changed = |change: &dyn Fn(&mut Batch, &mut KvBatch)| {
        Encrypted::new(moved(store.inner(), change), &key)
    };
    let swapped_numbers = changed(&|batch, _| {
        let first = batch.records[0].bytes.clone();
        batch.records[0].bytes = std::mem::replace(&mut batch.records[1].bytes, first);
    });
    assert!(is_damaged(swapped_numbers.read(log_id(1), 0, ALL)));
    let other_log = changed(&|batch, _| batch.records[2].bytes = batch.records[0].bytes.clone());
    assert!(is_damaged(other_log.last(log_id(2))));
    assert!(other_log.last(log_id(1)).is_ok());
    let swapped_notes = changed(&|batch, _| {
        batch.notes[1].1 = batch.notes[0].1.clone();
    });
    assert!(swapped_notes.note(log_id(1)).is_ok());
    assert!(is_damaged(swapped_notes.note(log_id(2))));
    let note_as_record = changed(&|batch, _| batch.records[0].bytes = batch.notes[0].1.clone());
    assert!(is_damaged(note_as_record.read(log_id(1), 0, ALL)));
    let swapped_values = changed(&|_, values| values.changes[1].1 = values.changes[0].1.clone());
    assert!(swapped_values.get(b"a", 0).is_ok());
    assert!(is_damaged(swapped_values.get(b"b", 0)));
    let lengthened = changed(&|_, _| {});
    assert!(lengthened.get(b"b", 9).unwrap().is_some());
    assert!(is_damaged(lengthened.get(b"b", 10)), "its life had ended");
}

#[test]
fn every_edited_bit_and_every_cut_is_damage() {
    let key = key();
    let store = Encrypted::new(MemoryStore::new(), &key);
    fill(&store);
    let check = |change: &dyn Fn(&mut Vec<u8>)| {
        let edit = |bytes: &Bytes| {
            let mut bytes = bytes.to_vec();
            change(&mut bytes);
            Bytes::from(bytes)
        };
        let edited = moved(store.inner(), |batch, values| {
            batch.records[0].bytes = edit(&batch.records[0].bytes);
            batch.notes[0].1 = edit(&batch.notes[0].1);
            if let Change::Put { value, .. } = &mut values.changes[0].1 {
                *value = edit(value);
            }
        });
        let edited = Encrypted::new(edited, &key);
        assert!(is_damaged(edited.read(log_id(1), 0, ALL)));
        assert!(is_damaged(edited.note(log_id(1))));
        assert!(is_damaged(edited.get(b"a", 0)));
    };
    for at in 0..SECRET.len() + 17 {
        for bit in 0..8 {
            check(&|bytes| bytes[at] ^= 1 << bit);
        }
        check(&|bytes| bytes.truncate(at));
    }
    check(&|bytes| bytes.push(0));
}

#[test]
fn the_same_value_is_encrypted_differently_each_time() {
    let store = Encrypted::new(MemoryStore::new(), &key());
    fill(&store);
    let (note, value) =
        (store.inner().note(log_id(1)).unwrap(), store.inner().get(b"a", 0).unwrap());
    fill_values(&store);
    assert_ne!(store.inner().note(log_id(1)).unwrap(), note);
    assert_ne!(store.inner().get(b"a", 0).unwrap(), value);
    let records = store.inner().read(log_id(1), 0, ALL).unwrap();
    assert_ne!(records[0].bytes, records[1].bytes);
}

fn fill_values(store: &(impl Log + Kv)) {
    let notes = vec![(log_id(1), Bytes::from_static(SECRET))];
    store.commit(&Batch { notes, ..Batch::default() }).unwrap();
    store.write(&put("a", None), 0).unwrap();
}

#[test]
fn conditions_are_met_by_what_a_value_says() {
    use handback_store::Condition;
    let store = Encrypted::new(MemoryStore::new(), &key());
    fill(&store);
    let compare = |value: &'static [u8]| {
        let conditions = vec![("a".into(), Condition::Is(Bytes::from_static(value)))];
        store.write(&KvBatch { conditions, ..put("a", None) }, 0)
    };
    compare(SECRET).unwrap();
    compare(SECRET).unwrap();
    assert!(matches!(compare(b"else"), Err(KvError::Unmet(0))));
}

#[test]
fn keys_do_not_print() {
    let key = DataKey::from_bytes(&[0x5a; 32]);
    assert_eq!(format!("{key:?}"), "DataKey(..)");
    let store = Encrypted::new(MemoryStore::new(), &key);
    assert!(!format!("{store:?}").contains("5a"));
}
