use std::time::Duration;

use handback_tool::{Content, Refusal, Reply, Request, Surface};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, alice};

fn act(how: &str) -> Request {
    Request::call(alice(), Surface::Library, "act", json!({"how": how}))
}

/// A call that is dropped once its tool was entered.
async fn dropped(bench: &Bench, request: Request) {
    tokio::select! {
        ended = bench.pipeline.call(request) => panic!("it ended: {ended:?}"),
        () = bench.effects.entered() => {}
    }
}

#[tokio::test]
async fn a_caller_that_leaves_cancels_a_call_without_a_key() {
    let bench = Bench::new();
    dropped(&bench, act("wait")).await;
    bench.effects.go_on();
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Nobody took what it waits for.
    let wait = tokio::time::timeout(Duration::from_secs(5), bench.effects.take_go_on());
    wait.await.expect("its work was dropped");
}

#[tokio::test]
async fn a_call_with_a_key_runs_to_its_record() {
    let bench = Bench::new();
    dropped(&bench, act("wait").key("k")).await;
    bench.effects.go_on();
    let answer = bench.pipeline.call(act("wait").key("k")).await.unwrap();
    assert_eq!(answer.reply, Reply::Done(Content::Value(json!(1))));
    assert!(answer.is_replay);
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_cancels_before_and_during() {
    let bench = Bench::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    // Often: another thread might be faster than the one that cancels.
    for round in 0..200 {
        for request in [act("wait"), act("wait").key(format!("k{round}"))] {
            let ended = bench.pipeline.call(request.cancel(cancel.clone())).await;
            assert_eq!(ended.unwrap_err(), Refusal::Cancelled);
        }
    }
    assert_eq!(bench.effects.count(), 0, "nothing was started");
    let cancel = CancellationToken::new();
    let call = bench.pipeline.call(act("wait").cancel(cancel.clone()));
    let (ended, ()) = tokio::join!(call, async {
        bench.effects.entered().await;
        cancel.cancel();
    });
    assert_eq!(ended.unwrap_err(), Refusal::Cancelled);
}

#[tokio::test]
async fn a_caller_has_so_many_calls_under_way_and_no_more() {
    let bench = Bench::new();
    let calls: Vec<_> = (0..4).map(|_| Box::pin(bench.pipeline.call(act("wait")))).collect();
    let all = futures_util::future::join_all(calls);
    let others = async {
        for _ in 0..4 {
            bench.effects.entered().await;
        }
        assert_eq!(bench.pipeline.call(act("well")).await.unwrap_err(), Refusal::Busy);
        let other = bench.call(crate::bench::bob(), "act", json!({})).await;
        assert!(other.is_ok(), "another one's places are free");
        for _ in 0..4 {
            bench.effects.go_on();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (ended, ()) = tokio::join!(all, others);
    assert!(ended.iter().all(Result::is_ok));
    assert!(bench.pipeline.call(act("well")).await.is_ok());
}
