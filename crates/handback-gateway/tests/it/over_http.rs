//! Lines over HTTP to a server on rmcp.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use handback_gateway::upstream::{Answer, Ask, Heard, LineError, Opening, Place};
use handback_mcp::Era;
use serde_json::{Value, json};

use crate::plain_rmcp::{Seen, Server};
use crate::world::{World, ask, ask_heard, legacy, notification, result, spec};

/// Parameters of the newer era.
fn modern(mut params: Value) -> Value {
    let meta = params["_meta"].take();
    let mut meta = if meta.is_null() { json!({}) } else { meta };
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
    params["_meta"] = meta;
    params
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn the_newer_era_needs_no_handshake() {
    for is_json in [false, true] {
        let server = Server::start(is_json).await;
        let world = World::open(&server.spec(), Opening::Modern).await.unwrap();
        let found = world.ask("server/discover", modern(json!({}))).await.unwrap();
        assert_eq!(found["capabilities"]["tools"], json!({"listChanged": true}));
        let list = world.ask("tools/list", modern(json!({}))).await.unwrap();
        assert_eq!(list["tools"][0]["name"], "échö");
        // The name of the tool goes into a header, too.
        let params = modern(json!({"name": "échö", "arguments": {"a": [1, "x"]}}));
        for _ in 0..20 {
            let answer = world.ask("tools/call", params.clone()).await.unwrap();
            assert_eq!(text(&answer), r#"{"a":[1,"x"]}"#);
        }
        // The end of a stream may come a moment after the answer, when the next question is on its
        // way over another connection.
        let connections = server.seen.connections.load(Ordering::SeqCst);
        let connections_max = if is_json { 1 } else { 21 };
        assert!(connections <= connections_max, "connections are used again: {connections}");
    }
}

#[tokio::test]
async fn errors_are_answers_whatever_their_status() {
    let server = Server::start(true).await;
    let world = World::open(&server.spec(), Opening::Modern).await.unwrap();
    for (method, params, code) in
        [("no/such/method", json!({}), "-32601"), ("tools/call", json!({"name": "none"}), "-32602")]
    {
        let answer = world.line.ask(ask(method, modern(params))).await.unwrap();
        let Answer::Error(error) = answer else { panic!("an error") };
        assert!(String::from_utf8(error.to_vec()).unwrap().contains(code));
    }
    // A header that says something else than the message.
    let params = modern(json!({"name": "échö"}));
    let mut asked = ask("tools/call", params);
    asked.headers.push(("Mcp-Name".to_owned(), "another".to_owned()));
    // Such a question was not looked at any further.
    let answer = world.line.ask(asked).await;
    let Err(LineError::Mismatch(error)) = answer else { panic!("no mismatch: {answer:?}") };
    assert!(String::from_utf8(error.to_vec()).unwrap().contains("-32020"));
}

#[tokio::test]
async fn progress_comes_on_the_stream_of_the_question() {
    let server = Server::start(false).await;
    for opening in [Opening::Modern, legacy()] {
        let world = World::open(&server.spec(), opening).await.unwrap();
        let params = json!({"name": "échö", "_meta": {"progressToken": "t\u{e9}"}});
        let params = match world.line.era() {
            Era::Modern => modern(params),
            _ => params,
        };
        let (asked, mut heard) = ask_heard("tools/call", params);
        world.line.ask(asked).await.unwrap();
        for step in [1.0, 2.0] {
            let (method, params) = notification(heard.recv().await);
            assert_eq!(method, "notifications/progress");
            assert_eq!(params, json!({"progressToken": "t\u{e9}", "progress": step}));
        }
        assert!(heard.recv().await.is_none());
    }
}

#[tokio::test]
async fn whoever_drops_a_question_cancels_it() {
    let server = Server::start(false).await;
    for (number, opening) in [(1, Opening::Modern), (2, legacy())] {
        let world = World::open(&server.spec(), opening).await.unwrap();
        let params = match world.line.era() {
            Era::Modern => modern(json!({"name": "wait"})),
            _ => json!({"name": "wait"}),
        };
        let dropped = tokio::spawn({
            let line = world.line.clone();
            async move { line.ask(ask("tools/call", params)).await }
        });
        Seen::reaches(&server.seen.started, number).await;
        dropped.abort();
        Seen::reaches(&server.seen.cancelled, number).await;
    }
}

#[tokio::test]
async fn subscriptions_hear_by_the_name_that_their_caller_gave() {
    let server = Server::start(false).await;
    let world = World::open(&server.spec(), Opening::Modern).await.unwrap();
    let params = modern(json!({"notifications": {"toolsListChanged": true}}));
    let (asked, mut heard) = ask_heard("subscriptions/listen", params);
    let asked = Ask { subscription: Some(Bytes::from("\"mine\"")), ..asked };
    let answer = world.line.ask(asked).await.unwrap();
    let answer: Value = serde_json::from_slice(&result(answer)).unwrap();
    let id = |value: &Value| value["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(id(&answer), "mine");
    for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        let (heard, params) = notification(heard.recv().await);
        assert_eq!((heard.as_str(), id(&params)), (method, json!("mine")));
    }
    // And one that stays open until nobody listens.
    let params =
        json!({"notifications": {"toolsListChanged": true}, "_meta": {"progressToken": 1}});
    let (asked, mut heard) = ask_heard("subscriptions/listen", modern(params));
    let line = world.line.clone();
    let listening = tokio::spawn(async move { line.ask(asked).await });
    notification(heard.recv().await);
    listening.abort();
    Seen::reaches(&server.seen.cancelled, 1).await;
}

#[tokio::test]
async fn the_older_era_has_a_session() {
    let server = Server::start(false).await;
    let mut world = World::open(&server.spec(), legacy()).await.unwrap();
    assert_eq!(world.line.era(), Era::Legacy);
    let hello: Value = serde_json::from_slice(world.line.hello().unwrap()).unwrap();
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(server.sessions.sessions.read().await.len(), 1);
    let answer =
        world.ask("tools/call", json!({"name": "échö", "arguments": {"a": 1}})).await.unwrap();
    assert_eq!(text(&answer), r#"{"a":1}"#);
    let (asked, mut heard) = ask_heard("tools/call", json!({"name": "changes"}));
    world.line.ask(asked).await.unwrap();
    // On the stream of the question, or on the standing one: servers differ.
    let said = match heard.try_recv() {
        Ok(said) => said,
        Err(_) => world.next().await,
    };
    assert_eq!(notification(Some(said)).0, "notifications/tools/list_changed");
    drop(world);
    let ended = async {
        while !server.sessions.sessions.read().await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::world::LONG, ended).await.unwrap();
}

#[tokio::test]
async fn requests_inside_of_a_call_are_heard_and_answered() {
    let server = Server::start(false).await;
    let world = World::open(&server.spec(), legacy()).await.unwrap();
    let (asked, mut heard) = ask_heard("tools/call", json!({"name": "asks"}));
    let answer = async {
        let Some(Heard::Request { id, method, .. }) = heard.recv().await else {
            panic!("a request")
        };
        assert_eq!(method, "roots/list");
        let roots = Bytes::from(r#"{"roots":[{"uri":"file:///given"}]}"#);
        world.line.answer(id, Ok(roots)).await.unwrap();
    };
    let (answered, ()) = tokio::join!(world.line.ask(asked), answer);
    let answered: Value = serde_json::from_slice(&result(answered.unwrap())).unwrap();
    assert!(text(&answered).starts_with("true Ok("), "{answered}");
    assert!(text(&answered).contains("file:///given"));
    // If nobody hears, they are refused.
    let answered = world.ask("tools/call", json!({"name": "asks"})).await.unwrap();
    assert!(text(&answered).contains("-32601"), "{answered}");
}

#[tokio::test]
async fn a_session_that_is_gone_closes_the_line() {
    let server = Server::start(false).await;
    let world = World::open(&server.spec(), legacy()).await.unwrap();
    server.sessions.sessions.write().await.clear();
    let why = world.ask("tools/list", json!({})).await.unwrap_err();
    // It says so before it looks at the question.
    assert!(matches!(why, LineError::Unreachable(_)), "{why:?}");
    assert!(world.line.is_closed());
    tokio::time::timeout(crate::world::LONG, world.line.closed()).await.unwrap();
    let why = world.ask("tools/list", json!({})).await.unwrap_err();
    assert!(why.nothing_happened());
}

#[tokio::test]
async fn addresses_that_are_none_were_not_reached() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unused = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for url in [unused.as_str(), "http://u:p@127.0.0.1/", "ftp://127.0.0.1/", "x", "", "http:///a"]
    {
        let spec = spec(Place::Http { url: url.to_owned(), headers: Vec::new() });
        for opening in [Opening::Modern, legacy()] {
            let why = match World::open(&spec, opening).await {
                Ok(world) => world.ask("tools/list", modern(json!({}))).await.unwrap_err(),
                Err(why) => why,
            };
            assert!(matches!(why, LineError::Unreachable(_)), "{url}: {why:?}");
            assert!(why.nothing_happened());
        }
    }
}
