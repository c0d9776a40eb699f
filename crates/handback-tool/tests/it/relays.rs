//! Calls of what is not ours, in the pieces that a gateway makes them in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_store::MemoryStore;
use handback_store::held::NewValue;
use handback_store::journal::{InstanceId, Journal};
use handback_token::{Operation, Reason, args_fingerprint};
use handback_tool::{
    CallJournal, Candidates, Claim, Entered, Refusal, Relay, Relayed, Request, Surface, ToolClass,
};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, START_MS, alice, asked, bob};

/// Longer than a state is good for, and shorter than its whole life.
const LONG: Duration = Duration::from_secs(6 * 60);

async fn enter(bench: &Bench, caller: Caller) -> Entered {
    let relay = Relay {
        caller,
        surface: Surface::Mcp,
        operation: Operation::Call,
        name: "ask".to_owned(),
        own_name: "ask".to_owned(),
        upstream: "up".to_owned(),
        key: None,
        state: None,
        cancel: CancellationToken::new(),
    };
    bench.pipeline.enter(relay).await.unwrap()
}

/// Makes a call under a key, and gives whether it was made before.
async fn make(
    entered: &mut Entered,
    key: &str,
    journal: Option<&Arc<CallJournal>>,
) -> Result<bool, Refusal> {
    entered.keyed(key.to_owned());
    let claim = Claim {
        given: args_fingerprint(&json!({})),
        round: None,
        is_single_use: false,
        class: ToolClass::Unknown,
        journal: journal.cloned(),
    };
    claimed(entered, claim).await
}

/// The same, for a round that is good for one use, without a key.
async fn redeem(entered: &mut Entered, round: [u8; 16]) -> Result<bool, Refusal> {
    let claim = Claim {
        given: args_fingerprint(&json!({})),
        round: Some(round),
        is_single_use: true,
        class: ToolClass::Unknown,
        journal: None,
    };
    claimed(entered, claim).await
}

async fn claimed(entered: &mut Entered, claim: Claim) -> Result<bool, Refusal> {
    let relayed =
        Relayed { json: Bytes::from_static(b"{}"), is_error: false, round: None, reason: None };
    let work = Box::pin(std::future::ready(Ok(relayed)));
    Ok(entered.make(Some(claim), LONG, work).await?.is_replay)
}

#[tokio::test]
async fn the_record_under_a_key_of_the_gateway_can_be_taken_away() {
    let bench = Bench::new();
    let kv = Arc::new(MemoryStore::new());
    let journal = Journal::open(kv as _, InstanceId::from_bytes([1; 16]), START_MS).unwrap();
    let journal = Arc::new(journal);
    assert_eq!(make(&mut enter(&bench, alice()).await, "k", Some(&journal)).await, Ok(false));
    let mut again = enter(&bench, alice()).await;
    assert_eq!(make(&mut again, "k", Some(&journal)).await, Ok(true));
    again.take_record().unwrap().forget();
    // It goes beside what happens meanwhile.
    for _ in 0..1_000 {
        if make(&mut enter(&bench, alice()).await, "k", Some(&journal)).await == Ok(false) {
            let mut of_client = enter(&bench, alice()).await;
            assert_eq!(make(&mut of_client, "k", None).await, Ok(false));
            assert!(of_client.take_record().is_none(), "a key of the client is the client's");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is still there");
}

#[tokio::test]
async fn a_call_is_found_wherever_it_was_made() {
    let bench = Bench::new();
    make(&mut enter(&bench, alice()).await, "k", None).await.unwrap();
    let candidates = |caller: Caller, key: &str, places: &[(&str, &str)]| Candidates {
        principal: caller.principal().clone(),
        operation: Operation::Call,
        key: key.to_owned(),
        given: args_fingerprint(&json!({})),
        places: places.iter().map(|(up, name)| ((*up).to_owned(), (*name).to_owned())).collect(),
    };
    let first = async |candidates| bench.pipeline.first_recorded(&candidates).await;
    let places = [("vp", "ask"), ("up", "other"), ("up", "ask"), ("up", "ask")];
    assert_eq!(first(candidates(alice(), "k", &places)).await, Ok(Some(2)));
    assert_eq!(first(candidates(alice(), "k", &places[..2])).await, Ok(None));
    assert_eq!(first(candidates(alice(), "l", &places)).await, Ok(None));
    assert_eq!(first(candidates(bob(), "k", &places)).await, Ok(None));
    let given = args_fingerprint(&json!({"with": "others"}));
    let other = Candidates { given, ..candidates(alice(), "k", &places) };
    assert_eq!(first(other).await, Ok(None), "it is another call");
    // One that is under way is found as well.
    let mut entered = enter(&bench, alice()).await;
    entered.keyed("m".to_owned());
    let claim = Claim {
        given: args_fingerprint(&json!({})),
        round: None,
        is_single_use: false,
        class: ToolClass::Unknown,
        journal: None,
    };
    let (begins, begun) = oneshot::channel();
    let (goes_on, waits) = oneshot::channel::<()>();
    let work = async move {
        begins.send(()).unwrap();
        waits.await.unwrap();
        let json = Bytes::from_static(b"{}");
        Ok(Relayed { json, is_error: false, round: None, reason: None })
    };
    let looks = async {
        begun.await.unwrap();
        assert_eq!(first(candidates(alice(), "m", &places)).await, Ok(Some(2)));
        goes_on.send(()).unwrap();
    };
    let (made, ()) = tokio::join!(entered.make(Some(claim), LONG, Box::pin(work)), looks);
    assert!(!made.unwrap().is_replay);
}

#[tokio::test]
async fn who_has_too_much_kept_makes_no_more_calls_that_are_recorded() {
    let bench = Bench::holding(10_000);
    assert_eq!(make(&mut enter(&bench, alice()).await, "before", None).await, Ok(false));
    let new = NewValue::new("outcome").fixed_life(60_000).owed();
    let (held, owner) = (bench.pipeline.held(), alice().principal().clone());
    held.spill(&owner, new, &[0; 20_000], &mut rand::rng(), START_MS).unwrap();
    let too_much = make(&mut enter(&bench, alice()).await, "other", None).await;
    assert_eq!(too_much, Err(Refusal::Quota));
    assert!(!Refusal::Quota.is_retryable(), "it lasts until something ends");
    // An exchange that has begun goes on.
    assert_eq!(redeem(&mut enter(&bench, alice()).await, [9; 16]).await, Ok(false));
    // What was made has its answer, others have their own room, and it comes back.
    assert_eq!(make(&mut enter(&bench, alice()).await, "before", None).await, Ok(true));
    assert_eq!(make(&mut enter(&bench, bob()).await, "other", None).await, Ok(false));
    bench.pass(Duration::from_secs(61));
    assert_eq!(make(&mut enter(&bench, alice()).await, "other", None).await, Ok(false));
}

#[tokio::test]
async fn what_took_long_is_sealed_when_it_is_there() {
    let bench = Bench::new();
    let arguments = args_fingerprint(&json!({}));
    let entered = enter(&bench, alice()).await;
    bench.pass(LONG);
    let state = entered.seal(Some(&arguments), None, [7; 16], b"the upstream's").unwrap();
    let opened = enter(&bench, alice()).await.open(Some(&arguments), &state).unwrap();
    assert_eq!((opened.id(), opened.memory()), ([7; 16], &b"the upstream's"[..]));
    bench.pass(LONG);
    let late = enter(&bench, alice()).await.open(Some(&arguments), &state).unwrap_err();
    let expired = Reason::Expired;
    assert_eq!(late, Refusal::Continuation { outside: expired.outside(), reason: expired });
}

#[tokio::test]
async fn so_is_what_a_tool_of_ours_asks() {
    let bench = Bench::new();
    let arguments = json!({"how": "wait_and_ask"});
    let call = Request::call(alice(), Surface::Library, "act", arguments.clone());
    let waits = async {
        bench.effects.entered().await;
        bench.pass(LONG);
        bench.effects.go_on();
    };
    let (answer, ()) = tokio::join!(bench.pipeline.call(call), waits);
    let (_, state) = asked(answer.unwrap());
    bench.effects.go_on();
    let sure = json!({"sure": {"action": "accept", "content": {"confirm": true}}});
    let again = bench.answer(alice(), "act", arguments, &state, sure).await.unwrap();
    assert_eq!(asked(again).0, ["sure"]);
}

#[tokio::test]
async fn wound_a7_recorded_answers_of_any_size_count_for_their_caller() {
    let bench = Bench::holding(1 << 20);
    let made = async |who: Caller, number: usize| {
        let mut entered = enter(&bench, who).await;
        entered.keyed(format!("k{number}"));
        let claim = Claim {
            given: args_fingerprint(&json!({})),
            round: None,
            is_single_use: false,
            class: ToolClass::Unknown,
            journal: None,
        };
        // Short enough for a row of the journal.
        let work = async {
            let json = Bytes::from(format!("\"{}\"", "x".repeat(90_000)));
            Ok(Relayed { json, is_error: false, round: None, reason: None })
        };
        entered.make(Some(claim), LONG, Box::pin(work)).await.map(drop)
    };
    let mut calls = 0;
    let refused = loop {
        match made(alice(), calls).await {
            Ok(()) => calls += 1,
            Err(refused) => break refused,
        }
        assert!(calls < 100, "there is no limit");
    };
    assert_eq!(refused, Refusal::Quota);
    // Twice what may be held.
    assert!((20..40).contains(&calls), "{calls}");
    assert_eq!(made(alice(), 0).await, Ok(()), "what was made is given again");
    assert_eq!(made(bob(), 0).await, Ok(()), "others have their own room");
    bench.pass(Duration::from_secs(24 * 60 * 60 + 1));
    assert_eq!(made(alice(), calls).await, Ok(()), "it comes back");
}
