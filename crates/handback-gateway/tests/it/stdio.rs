//! Lines to programs.

use std::time::Duration;

use bytes::Bytes;
use handback_gateway::upstream::{Answer, Ask, Heard, LineError, Opening, Place};
use handback_mcp::Era;
use serde_json::json;

use crate::world::{
    LONG, PEER, World, ask, ask_heard, ended, is_lost, legacy, notification, peer, process, result,
    spec,
};

#[tokio::test]
async fn results_are_the_bytes_of_the_upstream() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    assert_eq!(world.line.era(), Era::Modern);
    assert_eq!(world.line.hello(), None);
    for text in [
        r#"{ "b" : 1.50,"a":[ 1e2 , 2 ],"é":"\u00e9\/" }"#,
        r#""just a text""#,
        "null",
        "[]",
        "17.0",
    ] {
        let answer = world.line.ask(ask("text", json!({"text": text}))).await.unwrap();
        assert_eq!(String::from_utf8(result(answer)).unwrap(), text);
    }
    let answer = world.line.ask(ask("error", json!({}))).await.unwrap();
    let Answer::Error(error) = answer else { panic!("an error") };
    assert_eq!(error, r#"{"code":-32000, "message":"no","data":[1.0]}"#);
}

#[tokio::test]
async fn the_older_era_begins_with_a_handshake() {
    let world = World::open(&peer(), legacy()).await.unwrap();
    assert_eq!(world.line.era(), Era::Legacy);
    let hello = world.line.hello().unwrap();
    assert!(hello.starts_with(br#"{"protocolVersion":"2025-11-25","cap"#));
    let history = world.ask("history", json!({})).await.unwrap();
    assert_eq!(history["told"][0]["method"], "notifications/initialized");
}

#[tokio::test]
async fn what_is_asked_at_once_is_told_apart() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let held = || world.line.ask(ask("held", json!({})));
    let (first, second, third, _) = tokio::join!(held(), held(), held(), async {
        world.ask("release", json!({})).await.unwrap();
    });
    for (number, answer) in [(1, first), (2, second), (3, third)] {
        assert_eq!(result(answer.unwrap()), format!("{{\"released\":{number}}}").into_bytes());
    }
}

#[tokio::test]
async fn progress_finds_the_caller_whatever_token_it_chose() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let params = json!({"_meta": {"progressToken": "same"}});
    let (one, mut heard_one) = ask_heard("progress", params.clone());
    let (two, mut heard_two) = ask_heard("progress", params);
    let (one, two) = tokio::join!(world.line.ask(one), world.line.ask(two));
    assert_ne!(result(one.unwrap()), result(two.unwrap()), "the upstream saw two tokens");
    for heard in [&mut heard_one, &mut heard_two] {
        for step in [1, 2] {
            let (method, params) = notification(heard.recv().await);
            assert_eq!(method, "notifications/progress");
            assert_eq!(params, json!({"progressToken": "same", "progress": step}));
        }
        assert!(heard.recv().await.is_none());
    }
}

#[tokio::test]
async fn progress_of_what_is_over_is_dropped() {
    for opening in [legacy(), Opening::Modern] {
        let mut world = World::open(&peer(), opening).await.unwrap();
        let params = json!({"_meta": {"progressToken": "mine"}});
        let (asked, mut heard) = ask_heard("late", params);
        world.line.ask(asked).await.unwrap();
        let (method, _) = notification(Some(world.next().await));
        assert_eq!(method, "notifications/tools/list_changed");
        assert!(heard.recv().await.is_none());
    }
}

#[tokio::test]
async fn progress_of_a_task_is_heard_until_it_ends() {
    let mut world = World::open(&peer(), legacy()).await.unwrap();
    world.ask("chore", json!({"_meta": {"progressToken": "mine"}})).await.unwrap();
    for _ in 0..2 {
        let (method, params) = notification(Some(world.next().await));
        assert_eq!(method, "notifications/progress");
        assert_eq!(params, json!({"progressToken": "mine", "progress": 1}));
        assert_eq!(notification(Some(world.next().await)).0, "notifications/tasks/status");
    }
    let (method, _) = notification(Some(world.next().await));
    assert_eq!(method, "notifications/tools/list_changed", "its last progress is for nobody");
}

#[tokio::test]
async fn a_question_with_an_unclear_token_is_not_asked() {
    for opening in [legacy(), Opening::Modern] {
        let world = World::open(&peer(), opening).await.unwrap();
        let params = r#"{"_meta":{"progressToken":7,"progressToken":7},"text":"1"}"#;
        let asked = Ask { params: Some(Bytes::from(params)), ..ask("text", json!({})) };
        let Answer::Error(error) = world.line.ask(asked).await.unwrap() else { panic!("an error") };
        let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
        assert_eq!(error["code"], -32602);
        // And the next one is.
        world.ask("pid", json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn a_request_belongs_to_the_only_question() {
    let world = World::open(&peer(), legacy()).await.unwrap();
    let (asked, mut heard) = ask_heard("asks", json!({}));
    let answer = async {
        let Some(Heard::Request { id, method, params }) = heard.recv().await else {
            panic!("a request")
        };
        assert_eq!(method, "sampling/createMessage");
        assert_eq!(params.unwrap(), r#"{"n": 1}"#);
        world.line.answer(id, Ok(Bytes::from("{\n\"x\":1.0}"))).await.unwrap();
    };
    let (answered, ()) = tokio::join!(world.line.ask(asked), answer);
    let answered = String::from_utf8(result(answered.unwrap())).unwrap();
    assert!(answered.contains(r#""result": {"x": 1.0}"#), "{answered}");
}

#[tokio::test]
async fn a_request_that_may_belong_to_several_belongs_to_none() {
    let mut world = World::open(&peer(), legacy()).await.unwrap();
    let line = world.line.clone();
    let (held, mut heard_held) = ask_heard("held", json!({}));
    let held = line.ask(held);
    let (asked, mut heard) = ask_heard("asks", json!({}));
    let asked = line.ask(asked);
    let answer = async {
        let Heard::Request { id, .. } = world.next().await else { panic!("a request") };
        line.answer(id, Err(Bytes::from(r#"{"code":1,"message":"m"}"#))).await.unwrap();
    };
    let release = async {
        let (asked, ()) = tokio::join!(asked, answer);
        assert!(String::from_utf8(result(asked.unwrap())).unwrap().contains(r#""error""#));
        line.ask(ask("release", json!({}))).await.unwrap();
    };
    let (held, ()) = tokio::join!(held, release);
    held.unwrap();
    assert!(heard.recv().await.is_none());
    assert!(heard_held.recv().await.is_none());
}

#[tokio::test]
async fn pings_are_answered_and_what_nobody_hears_is_refused() {
    let world = World::open(&peer(), legacy()).await.unwrap();
    let answered = world.ask("asks", json!({"method": "ping"})).await.unwrap();
    assert_eq!(answered["result"], json!({}));
    let answered = world.ask("asks", json!({})).await.unwrap();
    assert_eq!(answered["error"]["code"], -32601);
}

#[tokio::test]
async fn what_belongs_to_no_question_goes_to_whoever_opened_the_line() {
    let mut world = World::open(&peer(), Opening::Modern).await.unwrap();
    world.ask("spontaneous", json!({})).await.unwrap();
    let (method, _) = notification(Some(world.next().await));
    assert_eq!(method, "notifications/tools/list_changed");
}

#[tokio::test]
async fn subscriptions_hear_by_the_name_that_their_caller_gave() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let (asked, mut heard) = ask_heard("subscriptions/listen", json!({}));
    let asked = Ask { subscription: Some(Bytes::from("\"mine\"")), ..asked };
    let answer = world.line.ask(asked).await.unwrap();
    let meta = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": "mine"}});
    let answered: serde_json::Value = serde_json::from_slice(&result(answer)).unwrap();
    assert_eq!(answered, meta);
    for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        assert_eq!(notification(heard.recv().await), (method.to_owned(), meta.clone()));
    }
    let (asked, _heard) = ask_heard("subscriptions/listen", json!({"taken_back": true}));
    assert!(is_lost(&world.line.ask(asked).await.unwrap_err()));
}

#[tokio::test]
async fn what_takes_too_long_or_is_not_wanted_is_cancelled() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let limit = Some(Duration::from_millis(1));
    let asked = Ask { time_limit: limit, ..ask("held", json!({})) };
    assert_eq!(world.line.ask(asked).await.unwrap_err(), LineError::TimedOut);
    {
        let dropped = world.line.ask(ask("held", json!({})));
        tokio::pin!(dropped);
        let first = futures_util::poll!(dropped.as_mut());
        assert!(first.is_pending());
    }
    let history = world.ask("history", json!({})).await.unwrap();
    let told = history["told"].as_array().unwrap();
    let cancelled: Vec<_> = told.iter().map(|told| told["params"]["requestId"].clone()).collect();
    assert_eq!(cancelled, [1, 2]);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_was_not_reached() {
    let place = |program: &str, args: &[&str]| Place::Command {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![("SECRET".to_owned(), "x".to_owned())],
    };
    for place in [place("/nonexistent/program", &[]), place("python3", &["-c", "exit(3)"])] {
        let why = World::open(&spec(place), legacy()).await.err().unwrap();
        assert!(matches!(why, LineError::Unreachable(_)), "{why:?}");
        assert!(why.nothing_happened());
    }
}

#[tokio::test]
async fn with_the_program_the_line_ends() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let pid = process(&world.ask("pid", json!({})).await.unwrap());
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    tokio::time::timeout(LONG, world.line.closed()).await.unwrap();
    let why = world.ask("pid", json!({})).await.unwrap_err();
    assert!(why.nothing_happened(), "{why:?}");
}

#[tokio::test]
async fn with_the_line_the_program_ends() {
    let world = World::open(&peer(), Opening::Modern).await.unwrap();
    let pid = process(&world.ask("pid", json!({})).await.unwrap());
    // What is said last is still written, and what is written last is still read.
    world.line.tell("notifications/last", Some(Bytes::from("{}"))).await.unwrap();
    drop(world.line.clone());
    drop(world);
    ended(pid).await;
}

#[tokio::test]
async fn a_program_whose_output_others_hold_open_is_gone() {
    // The shell ends, and the program that it left behind does not write anything.
    let script = "sleep 3 & exec python3 -u \"$0\"";
    let place = Place::Command {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned(), PEER.to_owned()],
        env: Vec::new(),
    };
    let world = World::open(&spec(place), Opening::Modern).await.unwrap();
    assert!(is_lost(&world.ask("dies", json!({})).await.unwrap_err()));
    tokio::time::timeout(LONG, world.line.closed()).await.unwrap();
}
