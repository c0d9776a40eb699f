//! A store that is written behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{
    CallRequest, InstanceId, Journal, JournalScope, MAX_INLINE_OUTCOME_BYTES, Reserved, ToolClass,
};
use handback_store::{
    Behind, Change, Condition, Kv, KvBatch, KvError, MemoryStore, Millis, StoreError,
};
use handback_token::{ArgsFingerprint, Operation};

/// A store that counts its writes, and fails while it is told to.
#[derive(Debug, Default)]
struct Watched {
    inner: MemoryStore,
    writes: AtomicUsize,
    fails: AtomicBool,
}

impl Kv for Watched {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.inner.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Full.into());
        }
        self.inner.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(now, limit)
    }
}

fn put(key: &str, value: impl Into<Bytes>) -> KvBatch {
    let change = Change::Put { value: value.into(), until: None };
    let key = Bytes::copy_from_slice(key.as_bytes());
    KvBatch { conditions: vec![(key.clone(), Condition::Absent)], changes: vec![(key, change)] }
}

#[test]
fn many_writes_are_few_behind() {
    let watched = Arc::new(Watched::default());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    for number in 0..1_000 {
        store.write(&put(&number.to_string(), "v"), 0).unwrap();
        assert!(store.get(number.to_string().as_bytes(), 0).unwrap().is_some());
    }
    store.flush().unwrap();
    assert_eq!(watched.scan(b"", None, usize::MAX, 0).unwrap().len(), 1_000);
    let writes = watched.writes.load(Ordering::SeqCst);
    assert!(writes < 500, "{writes} batches for 1,000");
}

#[test]
fn what_is_written_goes_behind_without_being_asked_to() {
    let watched = Arc::new(Watched::default());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    store.write(&put("k", "v"), 0).unwrap();
    while watched.get(b"k", 0).unwrap().is_none() {
        std::thread::yield_now();
    }
    drop(store);
}

#[test]
fn what_fails_behind_is_there_all_the_same_and_tried_again() {
    let watched = Arc::new(Watched::default());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    watched.fails.store(true, Ordering::SeqCst);
    store.write(&put("k", "v"), 0).unwrap();
    assert!(matches!(store.flush(), Err(StoreError::Full)));
    assert_eq!(store.get(b"k", 0).unwrap().unwrap(), "v");
    assert!(matches!(store.write(&put("k", "w"), 0), Err(KvError::Unmet(0))));
    assert!(matches!(store.scan(b"", None, 1, 0), Err(StoreError::Full)));
    watched.fails.store(false, Ordering::SeqCst);
    store.flush().unwrap();
    assert_eq!(watched.get(b"k", 0).unwrap().unwrap(), "v");
}

#[test]
fn what_waits_is_bounded() {
    let watched = Arc::new(Watched::default());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    watched.fails.store(true, Ordering::SeqCst);
    let large = Bytes::from(vec![0; 1 << 20]);
    let mut written = 0;
    let refused = loop {
        match store.write(&put(&written.to_string(), large.clone()), 0) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written <= 17, "{written} megabytes wait");
    };
    assert!(matches!(refused, KvError::Store(StoreError::Full)));
    watched.fails.store(false, Ordering::SeqCst);
    store.write(&put("then", large), 0).unwrap();
    drop(store);
    assert_eq!(watched.scan(b"", None, usize::MAX, 0).unwrap().len(), written + 1);
}

#[test]
fn dropping_it_writes_what_waits_and_ends_even_if_that_fails() {
    let watched = Arc::new(Watched::default());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    store.write(&put("k", "v"), 0).unwrap();
    drop(store);
    assert!(watched.get(b"k", 0).unwrap().is_some());
    let store = Behind::new(Arc::clone(&watched)).unwrap();
    watched.fails.store(true, Ordering::SeqCst);
    store.write(&put("l", "v"), 0).unwrap();
    drop(store);
    assert!(watched.get(b"l", 0).unwrap().is_none());
}

#[test]
fn a_long_outcome_goes_after_its_row() {
    let watched = Arc::new(Watched::default());
    let store = Arc::new(Behind::new(Arc::clone(&watched)).unwrap());
    let journal = Journal::open(Arc::clone(&store), InstanceId::from_bytes([1; 16]), 0).unwrap();
    let held = HeldStore::new(MemoryStore::new(), HeldOptions::new()).unwrap();
    let person = VerifiedPrincipal::unauthenticated();
    let used = || held.used_bytes(&person, 0).unwrap();
    let rows = || watched.scan(b"j/r/", None, usize::MAX, 0).unwrap().len();
    let made = |key: &str| {
        let scope = JournalScope::new(&person, Operation::Call, None, "t", Some(key), b"");
        let given = ArgsFingerprint::from_bytes([0; 32]);
        let request = CallRequest::keyed(scope, &given, ToolClass::Unknown).starting_at_once();
        let rng = &mut rand::rng();
        let Reserved::New(mut call) = journal.reserve(&request, rng, 0).unwrap() else {
            panic!("it is new")
        };
        let outcome = Bytes::from(vec![0; MAX_INLINE_OUTCOME_BYTES + 1]);
        journal.commit_any(&mut call, &person, outcome, &held, rng, 0).unwrap();
        store.settle().unwrap();
        request
    };
    let request = made("a");
    assert_eq!(rows(), 1);
    journal.forget(&request, &person, &held, 0).unwrap();
    assert_eq!((rows(), used()), (0, 0), "no crash finds the row without its outcome");
    let request = made("b");
    let before = used();
    watched.fails.store(true, Ordering::SeqCst);
    assert!(journal.forget(&request, &person, &held, 0).is_err());
    assert_eq!((rows(), used()), (1, before), "and none does where the row stays");
}
