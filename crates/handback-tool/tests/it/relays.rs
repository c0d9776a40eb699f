//! Calls of what is not ours, in the pieces that a gateway makes them in.

use std::time::Duration;

use handback_identity::Caller;
use handback_token::{Operation, Reason, args_fingerprint};
use handback_tool::{Entered, Refusal, Relay, Request, Surface};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, alice, asked};

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
