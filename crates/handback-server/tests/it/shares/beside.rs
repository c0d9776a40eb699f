//! One caller at all of its limits at once, and another one that works.
//!
//! The server is in a process of its own: nothing else is in the processor time that is measured.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use handback_server::Limits;
use serde_json::Value;

use super::stage::{ADA, BOB, Held, PATIENCE, Stage, configured, quarters};
use crate::config;
use crate::killed::process::{self, Process};

/// The least rounds of each caller beside the other one.
const ROUNDS: u32 = 50;

/// Processor time of a measurement at least: twenty times its unit.
const MEASURED: Duration = Duration::from_millis(200);

/// The most that a refused request costs, in calls that are answered.
const REFUSAL_COST: u32 = 2;

/// The most that requests cost beside those of another caller, in the same requests alone.
const BESIDE_COST: u32 = 2;

/// Statuses of the requests that Ada is refused at her limits, by kind.
const REFUSALS: [u16; 6] = [507, 507, 429, 429, 429, 404];

/// The server: nothing unless a test started it in a process of its own.
#[test]
fn serves() {
    let Some(folder) = config::directory() else { return };
    let limits = Limits {
        websockets: 32,
        event_streams: 32,
        streams: 32,
        stream_bytes: 400_000,
        sessions: 32,
        audit_refusals: 32,
        ..quarters()
    };
    process::serve(configured(&folder).limits(limits));
}

/// Everything that Bob does, once. All of it has to be answered.
async fn work(stage: &Stage, round: u32) {
    let stream = format!("/v1/stream/work-{round}");
    assert_eq!(stage.ask(BOB, &format!("PUT {stream}"), "").await.status, 201);
    assert_eq!(stage.ask(BOB, &format!("POST {stream}"), "event").await.status, 204);
    let events = stage.hold(BOB, &format!("GET {stream}?live=sse&offset=-1"), &[]).await;
    assert_eq!(events.status, 200);
    assert_eq!(stage.web_socket(BOB).await.status, 101);
    assert_eq!(stage.call(BOB, "echo").await.status, 200);
    let begun = stage.begin(BOB).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    assert!(stage.end(BOB, &begun.headers["mcp-session-id"]).await.status < 300);
    assert_eq!(stage.ask(BOB, &format!("DELETE {stream}"), "").await.status, 204);
}

/// Sends a request of Ada's. Gives its status, and what she holds if it was let in.
async fn ask(stage: &Stage, kind: usize, stream: &str) -> (u16, Option<Held>) {
    let held = match kind {
        0 => return (stage.ask(ADA, &format!("PUT /v1/stream/{stream}"), "").await.status, None),
        1 => {
            let piece = "x".repeat(10_000);
            return (stage.ask(ADA, "POST /v1/stream/0", &piece).await.status, None);
        }
        2 => return (stage.begin(ADA).await.status, None),
        3 => stage.web_socket(ADA).await,
        4 => stage.hold(ADA, "GET /v1/stream/0?live=sse&offset=now", &[]).await,
        _ => return (stage.call(ADA, "none").await.status, None),
    };
    (held.status, Some(held))
}

/// Ada takes all that she may of everything. Gives what she holds, and the requests that were refused.
async fn fill(stage: &Stage) -> (Vec<Held>, u64) {
    let (mut taken, mut refused) = (Vec::new(), 0);
    for (kind, expected) in REFUSALS.into_iter().enumerate() {
        // More often than any of the limits.
        for number in 0..100 {
            let (status, held) = ask(stage, kind, &number.to_string()).await;
            if status == expected {
                refused += 1;
                break;
            }
            assert!(status < 300, "{kind}: {status}");
            assert!(number < 99, "{kind} is never refused");
            taken.extend(held);
        }
    }
    (taken, refused)
}

/// One more request of a kind for Ada. It has to be refused.
async fn press(stage: &Stage, kind: usize) {
    assert_eq!(ask(stage, kind, "more").await.0, REFUSALS[kind], "{kind}");
}

/// Processor time of the server for each of many requests, and their number.
async fn cost<F: Future<Output = ()>>(
    server: &Process,
    mut request: impl FnMut(u32) -> F,
) -> (Duration, u32) {
    let start = server.cpu();
    for number in 1.. {
        request(number).await;
        let used = server.cpu() - start;
        if used >= MEASURED {
            return (used / number, number);
        }
    }
    unreachable!("there is no end of numbers");
}

/// Both callers at once, until each has done enough. Gives the rounds of each.
async fn both(stage: &Stage, first: u32) -> (u32, u32) {
    let (worked, pressed) = (AtomicU32::new(0), AtomicU32::new(0));
    let enough = || {
        let least = worked.load(Ordering::Relaxed).min(pressed.load(Ordering::Relaxed));
        least >= ROUNDS
    };
    let pressing = async {
        while !enough() {
            for kind in 0..REFUSALS.len() {
                press(stage, kind).await;
            }
            pressed.fetch_add(1, Ordering::Relaxed);
        }
    };
    let working = async {
        while !enough() {
            work(stage, first + worked.load(Ordering::Relaxed)).await;
            worked.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::join!(pressing, working);
    (worked.into_inner(), pressed.into_inner())
}

/// The refused requests that the audit has lines of or has counted: all of them are Ada's.
fn refusals(stage: &Stage) -> u64 {
    let lines = stage.audit();
    assert!(!lines.iter().any(|line| line["subject"] == "bob" && line["decision"] == "refused"));
    let adas = lines.iter().filter(|line| line["subject"] == "ada");
    let count = |line: &Value| match line["left_out"].as_u64() {
        Some(left_out) => left_out,
        None => u64::from(line["decision"] == "refused"),
    };
    adas.map(count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_all_of_its_limits_costs_another_one_no_answer() {
    let (stage, server) = Stage::apart("shares::beside::serves");
    let stage = &stage;
    let (per_call, calls) = cost(&server, async |_| {
        assert_eq!(stage.call(BOB, "echo").await.status, 200);
    })
    .await;
    let (per_round, rounds) = cost(&server, async |round| work(stage, round).await).await;
    let (_held, mut refused) = fill(stage).await;
    for kind in 0..REFUSALS.len() {
        let (per_refusal, count) = cost(&server, async |_| press(stage, kind).await).await;
        refused += u64::from(count);
        let bound = REFUSAL_COST * per_call;
        assert!(per_refusal <= bound, "kind {kind}: {per_refusal:?}, a call has {per_call:?}");
    }
    let start = server.cpu();
    let (worked, pressed) = both(stage, rounds + 1).await;
    let used = server.cpu() - start;
    let requests = pressed * u32::try_from(REFUSALS.len()).unwrap();
    refused += u64::from(requests);
    let bound = BESIDE_COST * worked * per_round + REFUSAL_COST * requests * per_call;
    assert!(used <= bound, "{used:?} for {worked} rounds and {requests} refusals, not {bound:?}");
    // Each refusal has its lines or is counted, and none of them was Bob's.
    let counted = tokio::time::timeout(PATIENCE, async {
        loop {
            let counted = refusals(stage);
            assert!(counted <= refused, "{counted} of {refused}");
            if counted == refused {
                break;
            }
            // With the next token, the count of those before is written.
            press(stage, 5).await;
            refused += 1;
        }
    });
    assert!(counted.await.is_ok(), "refusals are missing in the audit");
    // Nothing of Bob's was buried by Ada's refusals.
    let lines = stage.audit();
    let bobs = lines.iter().filter(|line| line["subject"] == "bob" && line["event"] == "end");
    let bobs_calls = calls + rounds + worked;
    assert_eq!(bobs.count(), usize::try_from(bobs_calls).unwrap(), "each call of Bob's has a line");
}
