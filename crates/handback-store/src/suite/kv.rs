//! Tests of [`Kv`].

#![expect(missing_docs, reason = "the names of tests say what they show")]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Engine, runner};
use crate::{Change, Condition, Kv, KvBatch, KvError, MAX_KEY_BYTES, Millis};

fn put(key: &str, value: &str, until: Option<Millis>) -> (Bytes, Change) {
    let value = Bytes::copy_from_slice(value.as_bytes());
    (Bytes::copy_from_slice(key.as_bytes()), Change::Put { value, until })
}

fn removed(key: &str) -> (Bytes, Change) {
    (Bytes::copy_from_slice(key.as_bytes()), Change::Remove)
}

fn absent(key: &str) -> (Bytes, Condition) {
    (Bytes::copy_from_slice(key.as_bytes()), Condition::Absent)
}

fn present(key: &str) -> (Bytes, Condition) {
    (Bytes::copy_from_slice(key.as_bytes()), Condition::Present)
}

fn is(key: &str, value: &str) -> (Bytes, Condition) {
    let value = Bytes::copy_from_slice(value.as_bytes());
    (Bytes::copy_from_slice(key.as_bytes()), Condition::Is(value))
}

fn change<const N: usize>(changes: [(Bytes, Change); N]) -> KvBatch {
    KvBatch { conditions: Vec::new(), changes: changes.into() }
}

fn write(store: &impl Kv, batch: &KvBatch, now: Millis) {
    store.write(batch, now).expect("a write succeeds");
}

fn get(store: &impl Kv, key: &str, now: Millis) -> Option<Bytes> {
    store.get(key.as_bytes(), now).expect("a read succeeds")
}

fn keys(store: &impl Kv, prefix: &str, now: Millis) -> Vec<String> {
    let found = store.scan(prefix.as_bytes(), None, usize::MAX, now).expect("a read succeeds");
    found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
}

/// What a store holds, as simply as it can be said.
#[derive(Default)]
struct Model(BTreeMap<Bytes, (Bytes, Option<Millis>)>);

impl Model {
    fn get(&self, key: &[u8], now: Millis) -> Option<Bytes> {
        let (value, until) = self.0.get(key)?;
        until.is_none_or(|until| now < until).then(|| value.clone())
    }

    fn write(&mut self, batch: &KvBatch, now: Millis) -> Result<(), usize> {
        for (number, (key, condition)) in batch.conditions.iter().enumerate() {
            let value = self.get(key, now);
            let holds = match condition {
                Condition::Absent => value.is_none(),
                Condition::Present => value.is_some(),
                Condition::Is(wanted) => value.as_ref() == Some(wanted),
            };
            if !holds {
                return Err(number);
            }
        }
        for (key, change) in &batch.changes {
            match change {
                Change::Put { value, until } => {
                    self.0.insert(key.clone(), (value.clone(), *until));
                }
                Change::Remove => {
                    self.0.remove(key);
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(KvBatch),
    Get(Bytes),
    Scan { prefix: Bytes, after: Option<Bytes>, limit: usize },
    Sweep(usize),
    Later(Millis),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few keys that are prefixes of each other, the empty one among them.
    let key = || vec(prop_oneof![Just(0_u8), Just(0xff), Just(b'k')], 0..4).prop_map(Bytes::from);
    let value = || vec(0_u8..3, 0..2).prop_map(Bytes::from);
    let condition = prop_oneof![
        Just(Condition::Absent),
        Just(Condition::Present),
        value().prop_map(Condition::Is),
    ];
    let change = prop_oneof![
        4 => (value(), proptest::option::of(0_u64..60))
            .prop_map(|(value, until)| Change::Put { value, until }),
        1 => Just(Change::Remove),
    ];
    let batch = (vec((key(), condition), 0..2), vec((key(), change), 0..5))
        .prop_map(|(conditions, changes)| KvBatch { conditions, changes });
    let step = prop_oneof![
        10 => batch.prop_map(Step::Write),
        4 => key().prop_map(Step::Get),
        4 => (key(), proptest::option::of(key()), 0_usize..6)
            .prop_map(|(prefix, after, limit)| Step::Scan { prefix, after, limit }),
        1 => (0_usize..5).prop_map(Step::Sweep),
        3 => (0_u64..10).prop_map(Step::Later),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..40)
}

pub fn values_answer_as_the_model<E: Engine>()
where
    E::Store: Kv,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model = Model::default();
        let mut now = 0;
        for step in &steps {
            let store = engine.store();
            match step {
                Step::Write(batch) => match (store.write(batch, now), model.write(batch, now)) {
                    (Ok(()), Ok(())) => {}
                    (Err(KvError::Unmet(found)), Err(expected)) => {
                        prop_assert_eq!(found, expected);
                    }
                    (found, expected) => prop_assert!(false, "{:?} not {:?}", found, expected),
                },
                Step::Get(key) => {
                    let value = store.get(key, now).expect("a read succeeds");
                    prop_assert_eq!(value, model.get(key, now));
                }
                Step::Scan { prefix, after, limit } => {
                    let found =
                        store.scan(prefix, after.as_deref(), *limit, now).expect("a read succeeds");
                    let expected: Vec<_> = model
                        .0
                        .keys()
                        .filter(|key| key.starts_with(prefix))
                        .filter(|key| after.as_ref().is_none_or(|after| *key > after))
                        .filter_map(|key| Some((key.clone(), model.get(key, now)?)))
                        .take(*limit)
                        .collect();
                    prop_assert_eq!(found, expected);
                }
                Step::Sweep(limit) => {
                    prop_assert!(store.sweep(now, *limit).expect("a sweep succeeds") <= *limit);
                }
                Step::Later(by) => now += by,
                Step::Reopen => engine.reopen(),
            }
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the engine answers as the model");
}

pub fn an_empty_store_has_no_values<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = engine.store();
    write(store, &KvBatch::default(), 0);
    assert_eq!(get(store, "", 0), None);
    assert_eq!(get(store, "key", 0), None);
    assert_eq!(keys(store, "", 0), Vec::<String>::new());
    assert_eq!(store.sweep(0, 10).expect("a sweep succeeds"), 0);
}

pub fn a_batch_is_written_whole_or_not_at_all<E: Engine>()
where
    E::Store: Kv,
{
    let mut engine = E::fresh();
    let first = KvBatch {
        conditions: vec![absent("{a}1"), absent("{a}2")],
        changes: vec![put("{a}1", "one", None), put("{a}2", "two", None)],
    };
    write(engine.store(), &first, 0);
    let refused = engine.store().write(&first, 0);
    assert!(matches!(refused, Err(KvError::Unmet(0))));
    let second = KvBatch {
        conditions: vec![is("{a}1", "one"), is("{a}2", "three")],
        changes: vec![removed("{a}1"), put("{a}2", "four", None), put("{a}3", "five", None)],
    };
    assert!(matches!(engine.store().write(&second, 0), Err(KvError::Unmet(1))));
    engine.reopen();
    assert_eq!(keys(engine.store(), "{a}", 0), ["{a}1", "{a}2"]);
    let third = KvBatch { conditions: vec![is("{a}1", "one"), is("{a}2", "two")], ..second };
    write(engine.store(), &third, 0);
    engine.reopen();
    assert_eq!(keys(engine.store(), "{a}", 0), ["{a}2", "{a}3"]);
    assert_eq!(get(engine.store(), "{a}2", 0).as_deref(), Some(b"four".as_slice()));
}

pub fn the_first_unmet_condition_is_named<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = engine.store();
    write(store, &change([put("k", "v", None)]), 0);
    let check = |conditions: Vec<(Bytes, Condition)>, expected: Option<usize>| {
        let batch = KvBatch { conditions: conditions.clone(), changes: vec![put("n", "v", None)] };
        let unmet = match store.write(&batch, 0) {
            Ok(()) => None,
            Err(KvError::Unmet(number)) => Some(number),
            Err(KvError::Store(error)) => panic!("{error}"),
        };
        assert_eq!(unmet, expected, "{conditions:?}");
    };
    check(vec![], None);
    check(vec![present("k"), is("k", "v"), absent("other")], None);
    check(vec![absent("k")], Some(0));
    check(vec![present("k"), present("other")], Some(1));
    check(vec![present("k"), is("k", "w"), absent("k")], Some(1));
    check(vec![present("k"), is("k", ""), absent("k")], Some(1));
    check(vec![present("k"), is("other", "v")], Some(1));
}

pub fn what_has_outlived_its_time_is_not_there<E: Engine>()
where
    E::Store: Kv,
{
    let mut engine = E::fresh();
    write(engine.store(), &change([put("a", "1", Some(10)), put("b", "2", None)]), 0);
    for _ in 0..2 {
        let store = engine.store();
        assert!(get(store, "a", 9).is_some());
        assert!(get(store, "a", 10).is_none());
        assert_eq!(keys(store, "", 9), ["a", "b"]);
        assert_eq!(keys(store, "", 10), ["b"]);
        engine.reopen();
    }
    let store = engine.store();
    let fresh = |key, now| {
        let batch =
            KvBatch { conditions: vec![absent(key)], changes: vec![put(key, "new", Some(20))] };
        store.write(&batch, now).is_ok()
    };
    assert!(!fresh("a", 9));
    assert!(fresh("a", 10));
    assert!(!fresh("a", 19));
    assert!(get(store, "a", 19).is_some());
    // A longer life, and one without end, in place of the old one.
    write(store, &change([put("a", "new", Some(30))]), 10);
    assert!(get(store, "a", 29).is_some() && get(store, "a", 30).is_none());
    write(store, &change([put("a", "new", None)]), 10);
    store.sweep(1_000, 100).expect("a sweep succeeds");
    assert!(get(store, "a", 1_000).is_some());
}

pub fn sweeping_leaves_what_lives<E: Engine>()
where
    E::Store: Kv,
{
    let mut engine = E::fresh();
    for number in 0..100 {
        let until = (number % 2 == 0).then_some(10 + number);
        write(engine.store(), &change([put(&format!("k{number:02}"), "v", until)]), 0);
    }
    assert!(engine.store().sweep(60, 7).expect("a sweep succeeds") <= 7);
    while engine.store().sweep(60, 7).expect("a sweep succeeds") > 0 {}
    engine.reopen();
    assert_eq!(keys(engine.store(), "k", 60).len(), 50 + 24);
    while engine.store().sweep(Millis::MAX - 1, 1_000).expect("a sweep succeeds") > 0 {}
    assert_eq!(keys(engine.store(), "k", 0).len(), 50);
}

pub fn keys_have_a_greatest_length<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = engine.store();
    let longest = "k".repeat(MAX_KEY_BYTES);
    write(store, &change([put(&longest, "v", Some(10)), put("", "empty", Some(10))]), 0);
    assert!(get(store, &longest, 0).is_some());
    assert_eq!(keys(store, "", 0), ["", longest.as_str()]);
    for longer in [MAX_KEY_BYTES + 1, 100_000].map(|len| "k".repeat(len)) {
        let both = change([put("other", "v", None), put(&longer, "v", None)]);
        let refused = store.write(&both, 0);
        assert!(matches!(refused, Err(KvError::Store(error)) if error.is_unwritten()));
        assert_eq!(get(store, &longer, 0), None);
        assert_eq!(keys(store, &longer, 0), Vec::<String>::new());
        let behind = store.scan(b"", Some(longer.as_bytes()), 10, 0).expect("a read succeeds");
        assert_eq!(behind, []);
    }
    assert_eq!(get(store, "other", 0), None);
    assert_eq!(store.sweep(10, 10).expect("a sweep succeeds"), 2);
}

pub fn scans_go_on_where_they_stopped<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = engine.store();
    for key in ["a", "b", "b\u{0}", "b/1", "b/2", "b/3", "b0", "c"] {
        write(store, &change([put(key, key, None)]), 0);
    }
    let mut found = Vec::new();
    let mut after: Option<Bytes> = None;
    loop {
        let page = store.scan(b"b", after.as_deref(), 2, 0).expect("a read succeeds");
        let Some((key, _)) = page.last() else { break };
        after = Some(key.clone());
        assert!(page.iter().all(|(key, value)| key == value));
        found.extend(page.into_iter().map(|(key, _)| key));
    }
    assert_eq!(found, ["b", "b\u{0}", "b/1", "b/2", "b/3", "b0"]);
    let outside = store.scan(b"b/", Some(b"c"), 10, 0).expect("a read succeeds");
    assert_eq!(outside, []);
    let before = store.scan(b"b/", Some(b"a"), 10, 0).expect("a read succeeds");
    assert_eq!(before.len(), 3);
}

pub fn one_of_many_writers_wins<E: Engine>()
where
    E::Store: Kv + Sync,
{
    const WRITERS: usize = 4;
    const WINS: u64 = 40;
    let engine = E::fresh();
    let store = engine.store();
    write(store, &change([put("n", "0", None)]), 0);
    let count = || {
        let value = get(store, "n", 0).expect("it is always there");
        String::from_utf8_lossy(&value).parse::<u64>().expect("it is a number")
    };
    let compete = || {
        let mut wins = 0;
        while wins < WINS {
            let seen = count();
            let batch = KvBatch {
                conditions: vec![is("n", &seen.to_string())],
                changes: vec![put("n", &(seen + 1).to_string(), None)],
            };
            match store.write(&batch, 0) {
                Ok(()) => wins += 1,
                Err(KvError::Unmet(0)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(compete);
        }
    });
    assert_eq!(count(), WRITERS as u64 * WINS);
}
