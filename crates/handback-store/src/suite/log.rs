//! Tests of [`Log`].

#![expect(missing_docs, reason = "the names of tests say what they show")]

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

pub use super::log_model::answers_as_the_model;

use super::Engine;
use crate::{Batch, LOG_ID_BYTES, Log, LogId, ReadLimit, Record};

pub(super) const ALL: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };

/// One of a few logs whose names differ in the last byte only.
#[must_use]
pub fn log_id(number: u8) -> LogId {
    let mut bytes = [0xa5; LOG_ID_BYTES];
    if let Some(last) = bytes.last_mut() {
        *last = number;
    }
    LogId::from_bytes(bytes)
}

/// A batch of one record.
pub fn append(log: LogId, number: u64, bytes: impl Into<Bytes>) -> Batch {
    let record = Record { log, number, bytes: bytes.into() };
    Batch { records: vec![record], ..Batch::default() }
}

fn removal(log: LogId) -> Batch {
    Batch { removed: vec![log], ..Batch::default() }
}

fn note(log: LogId, note: impl Into<Bytes>) -> Batch {
    Batch { notes: vec![(log, note.into())], ..Batch::default() }
}

pub(super) fn commit(store: &impl Log, batch: &Batch) {
    store.commit(batch).expect("a commit succeeds");
}

pub(super) fn read(store: &impl Log, log: LogId, from: u64, limit: ReadLimit) -> Vec<Record> {
    store.read(log, from, limit).expect("a read succeeds")
}

fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.number).collect()
}

pub fn an_empty_store_has_nothing<E: Engine>()
where
    E::Store: Log,
{
    let engine = E::fresh();
    let store = engine.store();
    commit(store, &Batch::default());
    assert_eq!(read(store, log_id(0), 0, ALL), []);
    assert_eq!(store.last(log_id(0)).expect("a read succeeds"), None);
    assert_eq!(store.note(log_id(0)).expect("a read succeeds"), None);
    assert_eq!(store.noted(None, 10).expect("a read succeeds"), []);
    commit(store, &removal(log_id(0)));
}

pub fn reads_stop_at_their_limits<E: Engine>()
where
    E::Store: Log,
{
    let engine = E::fresh();
    let store = engine.store();
    for number in 0..10 {
        commit(store, &append(log_id(1), number, vec![7; 10]));
    }
    let check = |from, records, bytes, expected: std::ops::Range<u64>| {
        let found = read(store, log_id(1), from, ReadLimit { records, bytes });
        assert_eq!(numbers(&found), expected.collect::<Vec<_>>(), "{from} {records} {bytes}");
    };
    check(0, 0, 100, 0..0);
    check(0, 1, 100, 0..1);
    check(0, 100, 0, 0..1);
    check(0, 100, 9, 0..1);
    check(0, 100, 10, 0..2);
    check(0, 100, 19, 0..2);
    check(0, 100, 20, 0..3);
    check(3, 100, 1_000, 3..10);
    check(9, 100, 1_000, 9..10);
    check(10, 100, 1_000, 0..0);
    check(u64::MAX, 100, 1_000, 0..0);
}

pub fn a_log_may_start_anywhere<E: Engine>()
where
    E::Store: Log,
{
    let mut engine = E::fresh();
    let start = u64::MAX - 10;
    for number in start..start + 3 {
        commit(engine.store(), &append(log_id(2), number, "x"));
    }
    engine.reopen();
    let expected: Vec<u64> = (start..start + 3).collect();
    for from in [0, 1, start] {
        assert_eq!(numbers(&read(engine.store(), log_id(2), from, ALL)), expected);
    }
    let last = engine.store().last(log_id(2)).expect("a read succeeds");
    assert_eq!(last.map(|record| record.number), Some(start + 2));
}

pub fn notes_are_replaced_and_listed_in_order<E: Engine>()
where
    E::Store: Log,
{
    let mut engine = E::fresh();
    for number in [3, 1, 4, 1, 5, 9, 2, 6] {
        commit(engine.store(), &note(log_id(number), vec![number]));
    }
    let twice = Batch {
        notes: vec![(log_id(1), "first".into()), (log_id(1), "second".into())],
        ..Batch::default()
    };
    commit(engine.store(), &twice);
    engine.reopen();
    let store = engine.store();
    let second = store.note(log_id(1)).expect("a read succeeds");
    assert_eq!(second.as_deref(), Some(b"second".as_slice()));
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.noted(after, 2).expect("a read succeeds");
        let Some((log, _)) = page.last() else { break };
        after = Some(*log);
        found.extend(page.into_iter().map(|(log, _)| log));
    }
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 9].map(log_id));
    commit(store, &note(log_id(3), Bytes::new()));
    assert_eq!(store.note(log_id(3)).expect("a read succeeds"), Some(Bytes::new()));
}

pub fn a_removed_log_is_gone_and_may_come_back<E: Engine>()
where
    E::Store: Log,
{
    let mut engine = E::fresh();
    let log = log_id(1);
    let mut batch = append(log, 0, "old");
    batch.notes.push((log, "old".into()));
    commit(engine.store(), &batch);
    commit(engine.store(), &append(log, 1, "old"));
    commit(engine.store(), &removal(log));
    for _ in 0..2 {
        assert_eq!(read(engine.store(), log, 0, ALL), []);
        assert_eq!(engine.store().note(log).expect("a read succeeds"), None);
        assert_eq!(engine.store().noted(None, 9).expect("a read succeeds"), []);
        engine.reopen();
    }
    commit(engine.store(), &append(log, 0, "new"));
    engine.reopen();
    let found = read(engine.store(), log, 0, ALL);
    assert_eq!(found, append(log, 0, "new").records);
}

pub fn dropped_records_leave_gaps<E: Engine>()
where
    E::Store: Log,
{
    let mut engine = E::fresh();
    let (log, other) = (log_id(1), log_id(2));
    for number in 5..15 {
        commit(engine.store(), &append(log, number, "some"));
        commit(engine.store(), &append(other, number, "other"));
    }
    let dropped = vec![(log, 5), (log, 7), (log, 8), (log, 13)];
    let batch = Batch { dropped: dropped.clone(), ..append(log, 15, "next") };
    commit(engine.store(), &batch);
    // What is not there is dropped all the same.
    commit(engine.store(), &Batch { dropped, ..Batch::default() });
    for _ in 0..2 {
        let store = engine.store();
        assert_eq!(numbers(&read(store, log, 0, ALL)), [6, 9, 10, 11, 12, 14, 15]);
        assert_eq!(numbers(&read(store, log, 7, ReadLimit { records: 2, ..ALL })), [9, 10]);
        assert_eq!(numbers(&read(store, log, 13, ALL)), [14, 15]);
        assert_eq!(store.last(log).expect("a read succeeds").map(|last| last.number), Some(15));
        assert_eq!(read(store, other, 0, ALL).len(), 10);
        engine.reopen();
    }
    commit(engine.store(), &append(log, 16, "more"));
    assert_eq!(numbers(&read(engine.store(), log, 14, ALL)), [14, 15, 16]);
}

pub fn long_logs_are_removed_at_once<E: Engine>()
where
    E::Store: Log,
{
    const RECORDS: u64 = 5_000;
    let mut engine = E::fresh();
    let fill = |store: &E::Store, log| {
        for start in (0..RECORDS).step_by(500) {
            let record = |number| Record { log, number, bytes: Bytes::from_static(b"long") };
            let records = (start..start + 500).map(record).collect();
            commit(store, &Batch { records, ..Batch::default() });
        }
    };
    for log in [log_id(1), log_id(2), log_id(3)] {
        fill(engine.store(), log);
    }
    let removed = vec![log_id(1), log_id(3)];
    commit(engine.store(), &Batch { removed, ..Batch::default() });
    for _ in 0..2 {
        let store = engine.store();
        for log in [log_id(1), log_id(3)] {
            assert_eq!(read(store, log, 0, ALL), []);
            assert_eq!(read(store, log, RECORDS - 1, ALL), []);
            assert_eq!(store.last(log).expect("a read succeeds"), None);
        }
        assert_eq!(read(store, log_id(2), 0, ALL).len() as u64, RECORDS);
        engine.reopen();
    }
    // Shorter than before, so that old records would show behind it.
    commit(engine.store(), &append(log_id(1), 0, "new"));
    commit(engine.store(), &append(log_id(1), 1, "new"));
    engine.reopen();
    assert_eq!(numbers(&read(engine.store(), log_id(1), 0, ALL)), [0, 1]);
    assert_eq!(read(engine.store(), log_id(3), 0, ALL), []);
}

pub fn neighbours_are_not_touched<E: Engine>()
where
    E::Store: Log,
{
    let engine = E::fresh();
    let store = engine.store();
    let edges = [[0; LOG_ID_BYTES], [0xff; LOG_ID_BYTES]].map(LogId::from_bytes);
    let logs = [edges.as_slice(), &[log_id(0), log_id(1), log_id(2)]].concat();
    for &log in &logs {
        let mut batch = append(log, 0, "kept");
        batch.notes.push((log, "kept".into()));
        commit(store, &batch);
    }
    commit(store, &removal(log_id(1)));
    for &log in &logs {
        let expected = usize::from(log != log_id(1));
        assert_eq!(read(store, log, 0, ALL).len(), expected, "{log:?}");
        let noted = store.note(log).expect("a read succeeds");
        assert_eq!(noted.is_some(), log != log_id(1), "{log:?}");
    }
}

pub fn large_records_come_back<E: Engine>()
where
    E::Store: Log,
{
    let mut engine = E::fresh();
    let large = |number: u64| {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = (0..400_000_u64).flat_map(|at| seed.wrapping_mul(at).to_be_bytes());
        Bytes::from_iter(bytes)
    };
    for number in 0..3 {
        commit(engine.store(), &append(log_id(1), number, large(number)));
    }
    engine.reopen();
    for record in read(engine.store(), log_id(1), 0, ALL) {
        assert!(record.bytes == large(record.number), "record {}", record.number);
    }
}

pub fn nobody_sees_half_a_batch<E: Engine>()
where
    E::Store: Log,
{
    const BATCHES: u64 = 150;
    const WIDTH: u8 = 40;
    let engine = E::fresh();
    let store = engine.store();
    let written = AtomicBool::new(false);
    let last = |log| {
        let last = store.last(log).expect("a read succeeds");
        last.map_or(0, |record| record.number + 1)
    };
    std::thread::scope(|scope| {
        for (first, second) in [(0, WIDTH - 1), (WIDTH - 1, 0)] {
            let written = &written;
            let last = &last;
            scope.spawn(move || {
                while !written.load(Ordering::Relaxed) {
                    let before = last(log_id(first));
                    let after = last(log_id(second));
                    assert!(before <= after, "log {first} is ahead of log {second}");
                }
            });
        }
        for number in 0..BATCHES {
            let record = |log| Record { log: log_id(log), number, bytes: "x".into() };
            let records = (0..WIDTH).map(record).collect();
            commit(store, &Batch { records, ..Batch::default() });
        }
        written.store(true, Ordering::Relaxed);
    });
}

pub fn recovering_without_trouble_changes_nothing<E: Engine>()
where
    E::Store: Log,
{
    let engine = E::fresh();
    commit(engine.store(), &append(log_id(1), 0, "kept"));
    engine.store().recover().expect("there is no trouble");
    commit(engine.store(), &append(log_id(1), 1, "kept"));
    assert_eq!(numbers(&read(engine.store(), log_id(1), 0, ALL)), [0, 1]);
}
