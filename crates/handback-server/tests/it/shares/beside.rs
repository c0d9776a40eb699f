//! One caller at all of its limits at once, and another one that works.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use handback_server::Limits;

use super::stage::{ADA, BOB, Held, Stage, quarters};

/// The rounds of the caller that works.
const ROUNDS: u64 = 50;

/// The processor time of this process so far: of the server and of both callers.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // The 14th and 15th field: in user and in system mode, in hundredths of a second.
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// What Bob does: every kind of thing once. Each has to be answered.
async fn work(stage: &Stage, round: u64) {
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

/// The statuses of a stream, a session, a socket and an event stream for a caller at its share.
const FULL: [u16; 4] = [507, 429, 429, 429];

/// Ada takes what she may of everything.
async fn fill(stage: &Stage) -> Vec<Held> {
    let (mut held, mut is_full) = (Vec::new(), [0; 4]);
    // More often than any of the limits.
    for _ in 0..40 {
        let stream = stage.ask(ADA, &format!("PUT /v1/stream/{}", held.len()), "").await.status;
        let session = stage.begin(ADA).await.status;
        let socket = stage.web_socket(ADA).await;
        let events = stage.hold(ADA, "GET /v1/stream/0?live=sse&offset=now", &[]).await;
        is_full = [stream, session, socket.status, events.status];
        held.extend([socket, events].into_iter().filter(|held| held.status < 300));
        if is_full == FULL {
            break;
        }
    }
    assert_eq!(is_full, FULL, "all of it is refused at some time");
    let piece = "x".repeat(10_000);
    while stage.ask(ADA, "POST /v1/stream/0", &piece).await.status == 204 {}
    held
}

/// One more of everything for Ada. Each has to be refused.
async fn press(stage: &Stage) {
    let more = [
        stage.ask(ADA, "PUT /v1/stream/more", "").await.status,
        stage.ask(ADA, "POST /v1/stream/0", &"x".repeat(10_000)).await.status,
        stage.begin(ADA).await.status,
        stage.web_socket(ADA).await.status,
        stage.hold(ADA, "GET /v1/stream/0?live=sse&offset=now", &[]).await.status,
        stage.call(ADA, "none").await.status,
    ];
    assert_eq!(more, [507, 507, 429, 429, 429, 404]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_all_of_its_limits_costs_another_one_no_answer() {
    let limits = Limits {
        websockets: 32,
        event_streams: 32,
        streams: 32,
        stream_bytes: 400_000,
        sessions: 32,
        audit_refusals: 32,
        ..quarters()
    };
    let stage = Stage::new(limits).await;
    let start = cpu();
    for round in 0..ROUNDS {
        work(&stage, round).await;
    }
    let alone = cpu() - start;
    let _held = fill(&stage).await;
    let (is_over, pressed) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = cpu();
    let pressing = async {
        while !is_over.load(Ordering::Relaxed) {
            press(&stage).await;
            pressed.fetch_add(1, Ordering::Relaxed);
        }
    };
    let working = async {
        for round in 0..ROUNDS {
            work(&stage, ROUNDS + round).await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(pressing, working);
    let beside = cpu() - start;
    // All that Bob asked for was answered, and all that Ada asked for refused: `work` and `press` say so.
    let refusals = 6 * pressed.load(Ordering::Relaxed);
    assert!(refusals >= 6);
    // A refusal costs less than a round of work, which is eight answers.
    let per_refusal = beside.saturating_sub(alone) / u32::try_from(refusals).unwrap();
    let per_round = alone / u32::try_from(ROUNDS).unwrap();
    assert!(per_refusal < per_round, "{per_refusal:?} for a refusal, {per_round:?} for a round");
    // Nothing of Bob's was buried by Ada's refusals.
    let lines = stage.audit();
    let bobs = lines.iter().filter(|line| line["subject"] == "bob" && line["event"] == "end");
    assert_eq!(bobs.count() as u64, 2 * ROUNDS, "every call of Bob's has its line");
}
