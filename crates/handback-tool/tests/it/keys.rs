use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use handback_store::{Kv, KvBatch, KvError, MemoryStore, Millis, StoreError};
use handback_tool::{Answer, Content, Refusal, Reply, Request, Surface};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::bench::{Bench, alice, asked, bob, items, nested, round};

fn act(name: &str, how: &str, key: &str) -> Request {
    Request::call(alice(), Surface::Library, name, json!({"how": how})).key(key)
}

fn done(answer: Answer) -> (Value, bool) {
    match answer.reply {
        Reply::Done(Content::Value(value)) => (value, answer.is_replay),
        other => panic!("not done: {other:?}"),
    }
}

#[tokio::test]
async fn a_key_makes_one_call_of_many() {
    let bench = Bench::new();
    let call = async |request| done(bench.pipeline.call(request).await.unwrap());
    assert_eq!(call(act("act", "well", "k")).await, (json!(1), false));
    assert_eq!(call(act("act", "well", "k")).await, (json!(1), true));
    assert_eq!(call(act("act", "well", "l")).await, (json!(2), false));
    let other = Request::call(bob(), Surface::Library, "act", json!({"how": "well"})).key("k");
    assert_eq!(call(other).await, (json!(3), false), "another caller's key is another key");
    assert_eq!(call(act("act_takes_key", "well", "k")).await, (json!(4), false));
    let ended = bench.pipeline.call(act("act", "fail", "k")).await;
    assert_eq!(ended.unwrap_err(), Refusal::Mismatch);
    assert_eq!(bench.effects.count(), 4);
}

#[tokio::test]
async fn a_failure_is_an_answer_that_stays() {
    let bench = Bench::new();
    for is_replay in [false, true] {
        let answer = bench.pipeline.call(act("act", "fail", "k")).await.unwrap();
        let failed =
            Reply::Failed { message: "it failed".to_owned(), data: Some(json!(1)), code: None };
        assert_eq!((answer.reply, answer.is_replay), (failed, is_replay));
    }
}

#[tokio::test]
async fn a_tool_that_did_nothing_frees_the_key() {
    let bench = Bench::new();
    for _ in 0..2 {
        let answer = bench.pipeline.call(act("act", "fail_before", "k")).await.unwrap();
        assert!(matches!(answer.reply, Reply::Failed { .. }) && !answer.is_replay);
    }
    let answer = bench.pipeline.call(act("act", "well", "k")).await.unwrap();
    assert_eq!(done(answer), (json!(1), false), "free for anything");
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_ambiguous_or_made_again() {
    for how in ["panic", "hang"] {
        let bench = Bench::new();
        let broken = if how == "panic" { Refusal::Broken } else { Refusal::TimedOut };
        let ended = bench.pipeline.call(act("act", how, "k")).await;
        assert_eq!(ended.unwrap_err(), broken);
        let ended = bench.pipeline.call(act("act", how, "k")).await;
        assert_eq!(ended.unwrap_err(), Refusal::Ambiguous);
        assert_eq!(bench.effects.count(), 1);
        // A tool that takes a key is called again, with the same one.
        for _ in 0..2 {
            let ended = bench.pipeline.call(act("act_takes_key", how, "k")).await;
            assert_eq!(ended.unwrap_err(), broken);
        }
        let keys = bench.effects.keys.lock().unwrap().clone();
        assert_eq!(keys.len(), 3);
        assert!(keys[1].is_some() && keys[1] == keys[2] && keys[0] != keys[1]);
    }
}

#[tokio::test]
async fn whoever_comes_while_it_runs_gets_its_answer() {
    let bench = Bench::new();
    let first = bench.pipeline.call(act("act", "wait", "k"));
    let second = async {
        bench.effects.entered().await;
        let other = bench.pipeline.call(act("act", "well", "k")).await;
        assert_eq!(other.unwrap_err(), Refusal::Mismatch, "at once, without waiting");
        let wake = async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            bench.effects.go_on();
        };
        tokio::join!(bench.pipeline.call(act("act", "wait", "k")), wake).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(done(first.unwrap()), (json!(1), false));
    assert_eq!(done(second.unwrap()), (json!(1), true));
}

#[tokio::test]
async fn a_result_that_is_too_large_is_recorded_as_done() {
    let bench = Bench::new();
    for _ in 0..2 {
        let ended = bench.pipeline.call(act("act", "large", "k")).await;
        assert_eq!(ended.unwrap_err(), Refusal::TooLarge);
    }
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn a_result_is_answered_as_often_as_it_is_asked_for_or_never() {
    let bench = Bench::new();
    for is_replay in [false, true] {
        let answer = bench.pipeline.call(act("act", "deep", "k")).await.unwrap();
        assert_eq!(done(answer), (nested(100), is_replay));
        let ended = bench.pipeline.call(act("act", "too_deep", "l")).await;
        assert_eq!(ended.unwrap_err(), Refusal::TooLarge);
    }
    assert_eq!(bench.effects.count(), 2);
}

#[tokio::test]
async fn bad_keys_are_refused() {
    let bench = Bench::new();
    for key in ["", "with space", "ü", &"k".repeat(256)] {
        let ended = bench.pipeline.call(act("act", "well", key)).await;
        assert_eq!(ended.unwrap_err(), Refusal::BadKey, "{key}");
    }
    assert_eq!(bench.effects.count(), 0);
}

#[tokio::test]
async fn pages_and_rounds_under_one_key_are_steps_of_their_own() {
    let bench = Bench::new();
    let args = json!({"from": 0, "below": 9});
    let numbers = || Request::call(alice(), Surface::Library, "numbers", args.clone()).key("k");
    let (first, next) = items(bench.pipeline.call(numbers()).await.unwrap());
    let cursor = handback_tool::Continuation::Cursor(next.unwrap());
    let (second, _) =
        items(bench.pipeline.call(numbers().continuation(cursor.clone())).await.unwrap());
    assert_eq!((&first[0], &second[0]), (&json!(0), &json!(3)));
    let replay = bench.pipeline.call(numbers().continuation(cursor)).await.unwrap();
    assert!(replay.is_replay);
    assert_eq!(items(replay).0, second);

    let args = json!({"amount": 7});
    let pay = Request::call(alice(), Surface::Library, "pay_late", args.clone()).key("k");
    let (_, state) = asked(bench.pipeline.call(pay).await.unwrap());
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let card = json!({"action": "accept", "content": {"card": "1"}});
    let Value::Object(answers) = json!({"sure": yes, "means": card}) else { unreachable!() };
    for is_replay in [false, true] {
        let request = round(alice(), "pay_late", args.clone(), &state, answers.clone()).key("k");
        let (value, replayed) = done(bench.pipeline.call(request).await.unwrap());
        assert_eq!((value, replayed), (json!({"paid": 7, "number": 1}), is_replay));
    }
}

#[tokio::test]
async fn another_instance_knows_what_was_done() {
    let store = Arc::new(MemoryStore::new());
    let one = Bench::over(Arc::clone(&store) as _, Some("both"));
    let two = Bench::over(store, Some("both"));
    assert_eq!(done(one.pipeline.call(act("act", "well", "k")).await.unwrap()), (json!(1), false));
    assert_eq!(done(two.pipeline.call(act("act", "well", "k")).await.unwrap()), (json!(1), true));
    assert_eq!(two.effects.count(), 0);
}

/// A store whose next write waits.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    is_slow: AtomicBool,
    has_come: Semaphore,
    may_go: (Mutex<bool>, Condvar),
}

impl Kv for Slow {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        self.store.get(key, now)
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.store.scan(prefix, after, limit, now)
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        if self.is_slow.swap(false, Ordering::SeqCst) {
            self.has_come.add_permits(1);
            let may_go = self.may_go.0.lock().unwrap();
            drop(self.may_go.1.wait_while(may_go, |may_go| !*may_go).unwrap());
        }
        self.store.write(batch, now)
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit)
    }
}

/// Who leaves while the call is reserved has not started it.
#[tokio::test]
async fn a_reservation_that_nobody_waits_for_is_free() {
    let kv = Arc::new(Slow {
        store: MemoryStore::new(),
        is_slow: AtomicBool::new(false),
        has_come: Semaphore::new(0),
        may_go: Default::default(),
    });
    let bench = Bench::over(Arc::clone(&kv) as _, None);
    kv.is_slow.store(true, Ordering::SeqCst);
    {
        let call = bench.pipeline.call(act("act", "well", "k"));
        tokio::pin!(call);
        tokio::select! {
            _ = &mut call => panic!("the store waits"),
            come = kv.has_come.acquire() => come.unwrap().forget(),
        }
    }
    *kv.may_go.0.lock().unwrap() = true;
    kv.may_go.1.notify_all();
    let answer = bench.pipeline.call(act("act", "well", "k")).await.unwrap();
    assert_eq!(done(answer), (json!(1), false));
    assert_eq!(bench.effects.count(), 1);
}
