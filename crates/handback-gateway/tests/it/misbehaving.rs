//! Programs that do what they should not.

use std::time::Duration;

use handback_gateway::upstream::{Answer, Ask, Line, LineError, Opening, Raw, Spec};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::world::{LONG, World, ask, bytes, ended, is_lost, legacy, peer, process, result};

async fn closed(line: &Line) {
    tokio::time::timeout(LONG, line.closed()).await.unwrap();
}

#[tokio::test]
async fn nonsense_is_passed_over_but_not_for_ever() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    for line in ["{ not json", "", "[]", "17", r#"{"jsonrpc":"1.0"}"#, "\u{7f}"] {
        world.ask("malformed", json!({"times": 60, "line": line})).await.unwrap();
    }
    let why = world.ask("malformed", json!({"times": 100})).await.unwrap_err();
    assert!(is_lost(&why));
    closed(&world.line).await;
    assert!(world.ask("pid", json!({})).await.unwrap_err().nothing_happened());
}

#[tokio::test]
async fn what_a_program_prints_by_the_way_is_passed_over_for_longer() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let printed = |times: u32| json!({"times": times, "line": "Listening on port 8080"});
    for _ in 0..2 {
        world.ask("malformed", printed(9_000)).await.unwrap();
    }
    assert!(is_lost(&world.ask("malformed", printed(10_000)).await.unwrap_err()));
    closed(&world.line).await;
}

#[tokio::test]
async fn who_waits_for_a_broken_answer_is_told_at_once() {
    let spec = Spec { memory_bytes_max: 1 << 16, ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let large = "x".repeat(200_000);
    let large = [
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"text":"{large}"}},}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"text":"{large}{}"}}}}"#, '\u{1}'),
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":"{large}","error":{{}}}}"#),
    ];
    let broken = [
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"text":"a{}b"}}}}"#, '\u{ff}'),
        r#"{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}"#.to_owned(),
        r#"{"result":{"x":[1,]},"jsonrpc":"2.0","id":ID}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":ID}"#.to_owned(),
        r#"{"id":ID,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":99999,"id":ID,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":ID,"result":1}{"jsonrpc":"2.0","id":ID,"result":2}"#.to_owned(),
    ];
    for line in broken.iter().chain(&large) {
        let why = world.ask("broken", json!({"line": line})).await.unwrap_err();
        let name = line.get(..60).unwrap_or(line);
        assert!(matches!(why, LineError::Protocol(_)), "{name}: {why:?}");
        assert!(!why.nothing_happened());
    }
    // What is meant well is an answer.
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"error":null,"result":7}"#,
        "\u{ef}\u{bb}\u{bf}{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":7}",
    ] {
        assert_eq!(world.ask("broken", json!({"line": line})).await, Ok(json!(7)), "{line}");
    }
}

#[tokio::test]
async fn answers_that_nobody_waits_for_are_dropped() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let answer = world.line.ask(ask("twice", json!({}))).await.unwrap();
    assert_eq!(result(answer), br#"{"first":true}"#);
    let answer = world.line.ask(ask("text", json!({"text": "7"}))).await.unwrap();
    assert_eq!(result(answer), b"7");
}

#[tokio::test]
async fn a_program_that_dies_loses_what_is_under_way() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let (held, died) = tokio::join!(world.ask("held", json!({})), world.ask("dies", json!({})));
    assert!(is_lost(&held.unwrap_err()));
    let why = died.unwrap_err();
    assert!(is_lost(&why));
    assert!(!why.nothing_happened());
    closed(&world.line).await;
}

#[tokio::test]
async fn an_endless_line_ends_the_line() {
    let spec = Spec { memory_bytes_max: 1 << 20, answer_bytes_max: 4 << 20, ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    assert_eq!(world.ask("endless", json!({})).await.unwrap_err(), LineError::TooLarge);
    closed(&world.line).await;
}

/// What a program can say for ever without saying anything wrong.
const FLOODS: [&str; 3] = [
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":"s-1","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
];

#[tokio::test]
async fn a_question_in_an_endless_stream_is_given_up() {
    for line in FLOODS {
        let world = World::open(&peer(), Opening::Modern).await.unwrap();
        let asked = ask("floods", json!({"line": line}));
        let asked = Ask { time_limit: Some(Duration::from_millis(500)), ..asked };
        let why = world.line.ask(asked).await.unwrap_err();
        // What is sent in return is not read: that may come first.
        assert!(why == LineError::TimedOut || is_lost(&why), "{line}: {why:?}");
        assert!(!why.nothing_happened());
    }
}

#[tokio::test]
async fn an_endless_stream_is_over_with_its_line() {
    for line in FLOODS {
        let world = World::open(&peer(), Opening::Modern).await.unwrap();
        let pid = process(&world.ask("pid", json!({})).await.unwrap());
        world.ask("floods", json!({"line": line, "answers": true})).await.unwrap();
        // Most of it is dropped: nobody takes more than there is room for.
        drop(world);
        ended(pid).await;
    }
}

#[tokio::test]
async fn large_answers_are_in_files() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    for (size, id_last) in [(100 << 20, false), (5 << 20, true)] {
        let params = json!({"bytes": size, "id_last": id_last});
        let answer = world.line.ask(ask("large", params)).await.unwrap();
        let Answer::Result(raw) = answer else { panic!("a result") };
        assert!(matches!(raw, Raw::File { .. }));
        let bytes = bytes(&raw);
        assert!(bytes.len() > size - 2048 && bytes.len() <= size);
        let rows: Vec<&str> = serde_json::from_slice(&bytes).unwrap();
        assert!(rows.iter().all(|row| row.len() == 1021 && row.bytes().all(|byte| byte == b'y')));
        // And the line goes on.
        world.ask("pid", json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_the_end_of_the_others() {
    let spec = Spec { memory_bytes_max: 1 << 16, answer_bytes_max: 4 << 20, ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    for id_last in [false, true] {
        let params = json!({"bytes": 6 << 20, "id_last": id_last});
        let (large, other) = tokio::join!(world.ask("large", params), world.ask("pid", json!({})));
        assert_eq!(large.unwrap_err(), LineError::TooLarge, "{id_last}");
        other.unwrap();
    }
}

#[tokio::test]
async fn answers_are_stopped_below_what_memory_takes_as_well() {
    let spec = Spec { memory_bytes_max: 8 << 20, answer_bytes_max: 1_000_000, ..peer() };
    for id_last in [false, true] {
        // A little more than it may be, and much more, which ends the line.
        for bytes in [900_000, 1_010_000, 1_500_000, 4_000_000] {
            let world = World::open(&spec, Opening::Modern).await.unwrap();
            let answer = world.ask("large", json!({"bytes": bytes, "id_last": id_last})).await;
            match bytes {
                900_000 => drop(answer.unwrap()),
                _ => assert_eq!(answer.unwrap_err(), LineError::TooLarge, "{bytes} {id_last}"),
            }
        }
    }
}

#[tokio::test]
async fn what_waits_to_be_heard_is_bounded_by_its_bytes() {
    let spec = Spec { memory_bytes_max: 8 << 20, ..peer() };
    let mut world = World::open(&spec, legacy()).await.unwrap();
    let (sender, mut heard) = mpsc::channel(64);
    let much = json!({"_meta": {"progressToken": 1}, "bytes": 1 << 20, "times": 40});
    for _ in 0..2 {
        let asked = Ask { heard: Some(sender.clone()), ..ask("tells_much", much.clone()) };
        // Who does not hear gets the answer.
        world.line.ask(asked).await.unwrap();
        assert_eq!(heard.len(), 15, "what is over 16 MiB is dropped");
        // What belongs to no question has room of its own: as much.
        assert_eq!(world.spontaneous.len(), 15);
        while heard.try_recv().is_ok() && world.spontaneous.try_recv().is_ok() {}
    }
    // A request is refused, and says so.
    let asked = ask("asks_often", json!({"bytes": 7 << 20, "times": 3}));
    let told = world.line.ask(Ask { heard: Some(sender), ..asked }).await.unwrap();
    let told: Value = serde_json::from_slice(&result(told)).unwrap();
    assert_eq!(told["error"]["code"], -32603);
    assert_eq!(heard.len(), 2);
}

#[tokio::test]
async fn who_waits_behind_an_answer_that_does_not_end_is_not_told_of_an_answer() {
    let spec = Spec { memory_bytes_max: 1 << 16, answer_bytes_max: 4 << 20, ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    // More than twice what it may have: nobody reads to its end.
    let params = json!({"bytes": 12 << 20, "id_last": false});
    let (large, held) = tokio::join!(world.ask("large", params), world.ask("held", json!({})));
    assert_eq!(large.unwrap_err(), LineError::TooLarge);
    assert!(is_lost(&held.unwrap_err()));
    closed(&world.line).await;
}

#[tokio::test]
async fn nothing_is_asked_behind_an_answer_that_is_too_large_until_it_has_ended() {
    let spec = Spec { memory_bytes_max: 1 << 16, answer_bytes_max: 4 << 20, ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let large = |bytes: u32| world.ask("large", json!({"bytes": bytes, "id_last": false}));
    assert_eq!(large(6 << 20).await.unwrap_err(), LineError::TooLarge);
    world.ask("pid", json!({})).await.unwrap();
    // This one is not read to its end: whoever asks now asks on another line.
    assert_eq!(large(64 << 20).await.unwrap_err(), LineError::TooLarge);
    let why = world.ask("pid", json!({})).await.unwrap_err();
    assert!(why.nothing_happened() && world.line.is_closed(), "{why}");
}

#[tokio::test]
async fn what_cannot_be_set_aside_is_told_of() {
    let spec = Spec { memory_bytes_max: 1 << 16, spool: "/dev/null/folder".into(), ..peer() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    for id_last in [false, true] {
        let params = json!({"bytes": 1 << 20, "id_last": id_last});
        let why = world.ask("large", params).await.unwrap_err();
        assert_eq!(why, LineError::Disk, "{id_last}");
        world.ask("pid", json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn a_large_request_is_no_answer_to_a_question_with_its_id() {
    let spool = std::env::temp_dir();
    for (spool, answer_bytes_max) in
        [("/dev/null/folder".into(), 4 << 20), (spool.clone(), 4 << 20), (spool, 3 << 18)]
    {
        let spec = Spec { memory_bytes_max: 1 << 16, spool, answer_bytes_max, ..peer() };
        for opening in [legacy(), Opening::Modern] {
            let world = World::open(&spec, opening).await.unwrap();
            for method_last in [false, true] {
                let params = json!({"bytes": 1 << 20, "method_last": method_last});
                let told = world.ask("asks_much", params).await.unwrap();
                assert_eq!(told["error"]["code"], -32603, "{method_last} {:?}", spec.spool);
            }
        }
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_makes_nobody_wait() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    world.ask("deaf", json!({})).await.unwrap();
    let large = json!({"text": "x".repeat(1 << 20)});
    let mut asked = Vec::new();
    let refused = loop {
        let line = world.line.clone();
        let question = ask("text", large.clone());
        let mut answer = Box::pin(async move { line.ask(question).await });
        match futures_util::poll!(answer.as_mut()) {
            std::task::Poll::Ready(outcome) => break outcome.unwrap_err(),
            std::task::Poll::Pending => asked.push(answer),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(refused, LineError::Busy);
    assert!(refused.nothing_happened());
    assert!(asked.len() < 100, "{}", asked.len());
    let asked = Ask { time_limit: Some(Duration::from_millis(1)), ..ask("text", json!({})) };
    assert!(world.line.ask(asked).await.is_err());
}

#[tokio::test]
async fn a_program_that_does_not_end_is_ended() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let pid = process(&world.ask("stubborn", json!({})).await.unwrap());
    drop(world);
    ended(pid).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_ended() {
    for stubborn in [false, true] {
        let world = World::open(&peer(), Opening::Modern).await.unwrap();
        let left = world.ask("leaves", json!({"stubborn": stubborn})).await.unwrap();
        assert!(is_lost(&world.ask("dies", json!({})).await.unwrap_err()));
        closed(&world.line).await;
        ended(process(&left)).await;
        // Also where the program ends because its input did.
        let world = World::open(&peer(), Opening::Modern).await.unwrap();
        let left = world.ask("leaves", json!({"stubborn": stubborn})).await.unwrap();
        drop(world);
        ended(process(&left)).await;
    }
}

#[tokio::test]
async fn a_subscriber_that_does_not_listen_is_told_so() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let (sender, mut heard) = mpsc::channel(1);
    let asked = Ask { heard: Some(sender), ..ask("subscriptions/listen", json!({"open": true})) };
    assert!(is_lost(&world.line.ask(asked).await.unwrap_err()));
    assert!(heard.recv().await.is_some() && heard.recv().await.is_none());
    let history = world.ask("history", json!({})).await.unwrap();
    assert_eq!(history["told"][0]["method"], "notifications/cancelled");
    assert_eq!(history["told"][0]["params"]["requestId"], 1);
}

#[tokio::test]
async fn what_a_program_mutters_is_no_trouble() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    world.ask("mutters", json!({"lines": 500})).await.unwrap();
}
