//! [`Log`] against a model.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::log::{ALL, commit, log_id, read};
use super::{Engine, runner};
use crate::{Batch, Log, LogId, ReadLimit, Record};

/// What a store holds, as simply as it can be said.
#[derive(Default)]
struct Model {
    records: BTreeMap<(LogId, u64), Bytes>,
    notes: BTreeMap<LogId, Bytes>,
}

impl Model {
    fn of(&self, log: LogId) -> Vec<Record> {
        let range = (log, 0)..=(log, u64::MAX);
        let record = |(&(log, number), bytes): (&(LogId, u64), &Bytes)| Record {
            log,
            number,
            bytes: bytes.clone(),
        };
        self.records.range(range).map(record).collect()
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Vec<Record> {
        let mut total = 0;
        let all = self.of(log).into_iter().filter(|record| record.number >= from);
        all.take(limit.records)
            .take_while(|record| {
                let before = total;
                total += record.bytes.len();
                before <= limit.bytes
            })
            .collect()
    }

    fn commit(&mut self, batch: &Batch) {
        self.records.retain(|(log, _), _| !batch.removed.contains(log));
        self.notes.retain(|log, _| !batch.removed.contains(log));
        for record in &batch.records {
            self.records.insert((record.log, record.number), record.bytes.clone());
        }
        self.notes.extend(batch.notes.iter().cloned());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Commit { appended: Vec<(u8, Vec<u8>)>, noted: Vec<(u8, Vec<u8>)>, removed: Vec<u8>, first: u64 },
    Read { log: u8, from: u64, records: usize, bytes: usize },
    Look { log: u8 },
    List { after: Option<u8>, limit: usize },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let log = || 0_u8..4;
    let bytes = || vec(any::<u8>(), 0..40);
    let commit = (
        vec((log(), bytes()), 0..6),
        vec((log(), bytes()), 0..3),
        prop_oneof![3 => Just(Vec::new()), 1 => vec(log(), 1..3)],
        prop_oneof![3 => Just(0), 1 => Just(1_000)],
    );
    let step = prop_oneof![
        8 => commit.prop_map(|(appended, noted, removed, first)| Step::Commit {
            appended, noted, removed, first
        }),
        4 => (log(), 0_u64..20, 0_usize..9, 0_usize..200).prop_map(|(log, from, records, bytes)| {
            Step::Read { log, from, records, bytes }
        }),
        4 => log().prop_map(|log| Step::Look { log }),
        2 => (proptest::option::of(log()), 0_usize..5)
            .prop_map(|(after, limit)| Step::List { after, limit }),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..40)
}

/// Makes a batch that follows the rules out of what was drawn.
fn batch(model: &Model, step: &Step) -> Option<Batch> {
    let Step::Commit { appended, noted, removed, first } = step else { return None };
    let mut batch =
        Batch { removed: removed.iter().copied().map(log_id).collect(), ..Batch::default() };
    let is_removed = |log: &u8| removed.contains(log);
    let mut next: BTreeMap<LogId, u64> = BTreeMap::new();
    for (log, bytes) in appended.iter().filter(|(log, _)| !is_removed(log)) {
        let log = log_id(*log);
        let number = next
            .entry(log)
            .or_insert_with(|| model.of(log).last().map_or(*first, |record| record.number + 1));
        batch.records.push(Record { log, number: *number, bytes: bytes.clone().into() });
        *number += 1;
    }
    for (log, bytes) in noted.iter().filter(|(log, _)| !is_removed(log)) {
        batch.notes.push((log_id(*log), bytes.clone().into()));
    }
    Some(batch)
}

/// Operations at random are answered alike.
pub fn answers_as_the_model<E: Engine>()
where
    E::Store: Log,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model = Model::default();
        for step in &steps {
            if let Some(batch) = batch(&model, step) {
                commit(engine.store(), &batch);
                model.commit(&batch);
            }
            let store = engine.store();
            match *step {
                Step::Commit { .. } => {}
                Step::Read { log, from, records, bytes } => {
                    let (log, limit) = (log_id(log), ReadLimit { records, bytes });
                    prop_assert_eq!(read(store, log, from, limit), model.read(log, from, limit));
                }
                Step::Look { log } => {
                    let log = log_id(log);
                    let last = store.last(log).expect("a read succeeds");
                    prop_assert_eq!(last, model.of(log).pop());
                    let note = store.note(log).expect("a read succeeds");
                    prop_assert_eq!(note, model.notes.get(&log).cloned());
                }
                Step::List { after, limit } => {
                    let after = after.map(log_id);
                    let noted = store.noted(after, limit).expect("a read succeeds");
                    let expected: Vec<_> = model
                        .notes
                        .iter()
                        .filter(|(log, _)| after.is_none_or(|after| **log > after))
                        .take(limit)
                        .map(|(log, note)| (*log, note.clone()))
                        .collect();
                    prop_assert_eq!(noted, expected);
                }
                Step::Reopen => engine.reopen(),
            }
        }
        engine.reopen();
        for log in (0..4).map(log_id) {
            prop_assert_eq!(read(engine.store(), log, 0, ALL), model.of(log));
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the engine answers as the model");
}
