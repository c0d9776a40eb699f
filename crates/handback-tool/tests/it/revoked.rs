//! What is revoked stays so, whatever the clock and the store do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use handback_store::revocations::{
    Revocation, RevocationStore, Revocations, STALE_AFTER_MS, Subject,
};
use handback_store::{Kv, KvBatch, KvError, MemoryStore, Millis, StoreError};
use handback_tool::RevocationWatch;

use crate::bench::{START_MS, alice, bob};

const HOUR_MS: Millis = 3_600_000;

/// A store that can be down, be another one, or hold one read before it returns.
#[derive(Debug, Default)]
struct Shaky {
    store: Mutex<Arc<MemoryStore>>,
    is_down: AtomicBool,
    held: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

impl Shaky {
    fn store(&self) -> Result<Arc<MemoryStore>, StoreError> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("down".to_owned())),
            false => Ok(Arc::clone(&self.store.lock().unwrap())),
        }
    }
}

impl Kv for Shaky {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let found = self.store()?.get(key, now);
        let held = self.held.lock().unwrap().take();
        if let Some((is_there, goes_on)) = held {
            is_there.send(()).unwrap();
            goes_on.recv().unwrap();
        }
        found
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.store()?.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        self.store()?.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.store()?.sweep(now, limit)
    }
}

fn watch() -> (Arc<Shaky>, RevocationWatch) {
    let store = Arc::new(Shaky::default());
    let watch = RevocationWatch::new(Arc::clone(&store) as Arc<dyn Kv>, START_MS).unwrap();
    (store, watch)
}

fn of_alice() -> Revocation {
    Revocation::principal(alice().principal())
}

fn has_alice(known: &Revocations) -> bool {
    known.is_revoked(&Subject::of(alice().principal()))
}

#[tokio::test]
async fn a_clock_that_goes_back_hides_no_revocation() {
    for back in [1, 500, HOUR_MS] {
        let now = START_MS - back;
        let (_, watch) = watch();
        watch.revoke(of_alice(), now).await.unwrap();
        let known = watch.current(now).await;
        assert!(has_alice(&known) && !known.is_stale(now), "made here, {back}");

        let (store, watch) = self::watch();
        RevocationStore::new(&*store).revoke(of_alice(), now).unwrap();
        let known = watch.current(now).await;
        assert!(has_alice(&known) && !known.is_stale(now), "made elsewhere, {back}");
        // And it is looked at again after a second of the clock as it is now.
        assert!(RevocationStore::new(&*store).lift(1, now).unwrap());
        assert!(!has_alice(&watch.current(now + 1_000).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_makes_nothing_younger() {
    for now in [START_MS - HOUR_MS, START_MS, START_MS + 1_000] {
        let (store, watch) = watch();
        store.is_down.store(true, Ordering::SeqCst);
        tokio::time::advance(Duration::from_millis(STALE_AFTER_MS)).await;
        assert!(!watch.current(now).await.is_stale(now), "{now}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(watch.current(now).await.is_stale(now), "{now}");
        store.is_down.store(false, Ordering::SeqCst);
        assert!(!watch.current(now).await.is_stale(now), "{now}");
    }
}

#[tokio::test]
async fn a_clock_that_goes_on_makes_it_old_as_well() {
    let (store, watch) = watch();
    store.is_down.store(true, Ordering::SeqCst);
    let now = START_MS + STALE_AFTER_MS + 1;
    assert!(watch.current(now).await.is_stale(now));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_a_revocation_does_not_hide_it() {
    let (store, watch) = watch();
    let ((is_there, there), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    *store.held.lock().unwrap() = Some((is_there, goes_on));
    // It asks later than the revocation by the clock, and has read the store before it.
    let now = START_MS + 2_000;
    let slow = tokio::spawn({
        let watch = watch.clone();
        async move { watch.current(now).await }
    });
    tokio::task::spawn_blocking(move || there.recv()).await.unwrap().unwrap();
    watch.revoke(of_alice(), START_MS + 1_000).await.unwrap();
    go_on.send(()).unwrap();
    assert!(has_alice(&slow.await.unwrap()));
    assert!(has_alice(&watch.current(now).await));
}

#[tokio::test]
async fn a_store_that_goes_back_is_believed() {
    let (store, watch) = watch();
    watch.revoke(of_alice(), START_MS).await.unwrap();
    watch.revoke(of_alice(), START_MS).await.unwrap();
    let restored = Arc::new(MemoryStore::new());
    *store.store.lock().unwrap() = Arc::clone(&restored);
    let of_bob = Revocation::principal(bob().principal());
    RevocationStore::new(&*restored).revoke(of_bob, START_MS).unwrap();
    let known = watch.current(START_MS + 1_000).await;
    assert!(known.is_revoked(&Subject::of(bob().principal())) && !has_alice(&known));
}
