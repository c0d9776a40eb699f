//! Lines over HTTP, to the byte, to servers that do what they should not.

use std::time::Duration;

use bytes::Bytes;
use handback_gateway::upstream::{Answer, Ask, Heard, LineError, Opening, Raw, Spec};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::web::{Exchange, Web};
use crate::world::{LONG, World, ask, ask_heard, bytes, legacy, notification, result};

const JSON: &str = "application/json";

/// A line of the newer era to a server.
async fn open(web: &Web) -> World {
    World::open(&web.spec(), Opening::Modern).await.unwrap()
}

/// Asks in the background.
fn asking(world: &World, asked: Ask) -> JoinHandle<Result<Answer, LineError>> {
    let line = world.line.clone();
    tokio::spawn(async move { line.ask(asked).await })
}

fn message(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A line of the older era.
async fn begin(web: &mut Web, spec: &Spec) -> World {
    let opening = World::open(spec, legacy());
    let serving = async {
        hello(web.next().await).await;
        let told = web.next().await;
        assert_eq!(told.message["method"], "notifications/initialized");
        assert_eq!(told.header("mcp-session-id"), Some("s-1"));
        assert_eq!(told.header("mcp-protocol-version"), Some("2025-06-18"));
        told.answer(202, JSON, "").await;
    };
    let (world, ()) = tokio::join!(opening, serving);
    world.unwrap()
}

/// Answers the handshake, with a session.
async fn hello(mut first: Exchange) {
    assert_eq!(first.message["method"], "initialize");
    assert_eq!(first.header("mcp-session-id"), None);
    let hello = message(first.id(), r#"{"protocolVersion":"2025-06-18"}"#);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\nmcp-session-id: s-1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{hello}",
        hello.len()
    );
    first.write(head).await;
}

/// The standing stream that a line of the older era asks for.
async fn standing(web: &mut Web) -> Exchange {
    let request = web.next().await;
    assert_eq!(request.method, "GET");
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    assert_eq!(request.header("mcp-session-id"), Some("s-1"));
    request
}

#[tokio::test]
async fn requests_have_the_headers_of_the_protocol() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let mut asked = ask("tools/call", json!({"name": "tool é"}));
    asked.headers.push(("Mcp-Param-Region".to_owned(), "eu\n".to_owned()));
    let answer = asking(&world, asked);
    let request = web.next().await;
    assert_eq!(request.method, "POST");
    for (name, value) in [
        ("content-type", JSON),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?dG9vbCDDqQ==?="),
        ("mcp-param-region", "=?base64?ZXUK?="),
        ("x-key", "secret"),
        ("host", &web.address.to_string()),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    let body = message(request.id(), "{}");
    request.answer(200, JSON, body).await;
    answer.await.unwrap().unwrap();
    let telling = tokio::spawn({
        let line = world.line.clone();
        async move { line.tell("notifications/x", None).await }
    });
    let request = web.next().await;
    assert_eq!(request.header("mcp-method"), Some("notifications/x"));
    request.answer(202, JSON, "").await;
    telling.await.unwrap().unwrap();
}

#[tokio::test]
async fn results_are_the_bytes_of_the_upstream() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let text = r#"{ "b" : 1.50,"a":[ 1e2 , 2 ],"é":"\u00e9\/" }"#;
    for way in 0..4 {
        let answer = asking(&world, ask("tools/call", json!({})));
        let mut request = web.next().await;
        let all = message(request.id(), text);
        match way {
            0 => request.answer(200, "application/json; charset=utf-8", all).await,
            1 => {
                request.events().await;
                request.write(format!("data: {all}\n\n")).await;
            }
            2 => {
                request.events().await;
                let prime = "\u{feff}: hi\r\n\r\nid: 1\r\nretry: 5\r\ndata:\r\n\r\n";
                let ping = "event: ping\rdata: {}\r\rdata: not json\n\n";
                request.write_slowly(format!("{prime}{ping}event: message\r\ndata: {all}")).await;
                // The end of the stream is the end of the message.
                drop(request);
            }
            _ => {
                // Chunks, of which one is in the middle of the message.
                let (one, two) = all.split_at(30);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                            transfer-encoding: chunked\r\n\r\n";
                let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
                request.write(format!("{head}{}", chunk(one))).await;
                request.write(format!("{}0\r\n\r\n", chunk(two))).await;
            }
        }
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(String::from_utf8(result(answer)).unwrap(), text, "{way}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_none() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let protocol = |why: &LineError| matches!(why, LineError::Protocol(_));
    type Expected = fn(&LineError) -> bool;
    let lost: Expected = |why| *why == LineError::Lost;
    let cases: [(u16, &str, &str, Expected); 12] = [
        (200, JSON, "{", protocol),
        (200, JSON, "", protocol),
        (200, JSON, r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#, protocol),
        (200, JSON, r#"{"jsonrpc":"2.0","method":"x"}"#, protocol),
        (200, "text/html", "<p>", protocol),
        (202, JSON, "", protocol),
        (302, JSON, "", protocol),
        (401, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, |why| {
            *why == LineError::Refused(401) && why.nothing_happened()
        }),
        (404, "text/plain", "?", |why| *why == LineError::Refused(404)),
        (429, JSON, "", |why| *why == LineError::Busy),
        (500, "text/plain", "?", lost),
        (200, "text/event-stream", "data: x\n\n", lost),
    ];
    for (status, kind, body, expected) in cases {
        let answer = asking(&world, ask("x", json!({})));
        web.next().await.answer(status, kind, body).await;
        let why = answer.await.unwrap().unwrap_err();
        assert!(expected(&why), "{status} {kind} {body}: {why:?}");
    }
    // An error is an answer, even if it does not know to what.
    for (status, id) in [(400, "null"), (500, "null"), (200, "null")] {
        let answer = asking(&world, ask("x", json!({})));
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code": 7}}}}"#);
        web.next().await.answer(status, JSON, body).await;
        let Answer::Error(error) = answer.await.unwrap().unwrap() else { panic!("an error") };
        assert_eq!(error, r#"{"code": 7}"#);
    }
    for status in [400, 404, 405] {
        let answer = asking(&world, ask("server/discover", json!({})));
        web.next().await.answer(status, "text/plain", "?").await;
        assert_eq!(answer.await.unwrap().unwrap_err(), LineError::Era);
    }
}

#[tokio::test]
async fn who_waits_for_a_broken_answer_is_told_at_once() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    for broken in [r#"{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}"#, r#"{"id":ID,"result":{}}"#] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        request.events().await;
        let broken = broken.replace("ID", &request.id().to_string());
        // The stream stays open.
        request.write(format!("data: {broken}\n\n")).await;
        let why = answer.await.unwrap().unwrap_err();
        assert!(matches!(why, LineError::Protocol(_)), "{broken}: {why:?}");
        assert!(!why.nothing_happened());
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_may_have_been_asked() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    for sent in
        ["", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"]
    {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        request.write(sent).await;
        drop(request);
        let why = answer.await.unwrap().unwrap_err();
        assert_eq!(why, LineError::Lost);
        assert!(!why.nothing_happened());
    }
}

#[tokio::test]
async fn too_much_nonsense_closes_the_line() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let answer = asking(&world, ask("x", json!({})));
    let mut request = web.next().await;
    request.events().await;
    request.write("data: nonsense\n\n".repeat(100)).await;
    assert!(matches!(answer.await.unwrap(), Err(LineError::Protocol(_))));
    world.line.closed().await;
    assert!(world.ask("x", json!({})).await.unwrap_err().nothing_happened());
}

#[tokio::test]
async fn what_takes_too_long_is_given_up() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let asked = Ask { time_limit: Some(Duration::from_millis(50)), ..ask("x", json!({})) };
    let answer = asking(&world, asked);
    let request = web.next().await;
    assert_eq!(answer.await.unwrap().unwrap_err(), LineError::TimedOut);
    // In the newer era, hanging up is all there is to say.
    request.hung_up().await;
}

/// What an event stream can go on with for ever without saying anything wrong.
const FLOODS: [&str; 6] = [
    ": still here\n\n",
    // One line, which has no end.
    ":",
    "id: 1\nretry: 1\n\n",
    "event: ping\ndata: x\n\n",
    "x",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n",
];

#[tokio::test]
async fn a_question_in_an_endless_stream_is_given_up() {
    for flood in FLOODS {
        let mut web = Web::start().await;
        let world = open(&web).await;
        let asked = Ask { time_limit: Some(Duration::from_millis(500)), ..ask("x", json!({})) };
        let answer = asking(&world, asked);
        let mut request = web.next().await;
        request.events().await;
        // It ends with the connection.
        let flooding = tokio::spawn(request.flood(flood));
        assert_eq!(answer.await.unwrap().unwrap_err(), LineError::TimedOut, "{flood:?}");
        tokio::time::timeout(LONG, flooding).await.unwrap().unwrap();
        // The line is good for the next one.
        let answer = asking(&world, ask("x", json!({})));
        let request = web.next().await;
        let body = message(request.id(), "7");
        request.answer(200, JSON, body).await;
        assert_eq!(result(answer.await.unwrap().unwrap()), b"7");
    }
}

#[tokio::test]
async fn what_goes_on_behind_an_answer_is_not_read_for_ever() {
    for flood in FLOODS {
        let mut web = Web::start().await;
        let world = open(&web).await;
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        request.events().await;
        let (first, second) = (message(request.id(), "1"), message(request.id(), "2"));
        // The same id twice: the first is the answer.
        request.write(format!("data: {first}\n\ndata: {second}\n\n")).await;
        let flooding = tokio::spawn(request.flood(flood));
        assert_eq!(result(answer.await.unwrap().unwrap()), b"1");
        tokio::time::timeout(LONG, flooding).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn answers_that_nobody_waits_for_are_passed_over() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let answer = asking(&world, ask("x", json!({})));
    let mut request = web.next().await;
    request.events().await;
    for other in ["987654", "\"nobody\""] {
        let other = format!(r#"{{"jsonrpc":"2.0","id":{other},"result":0}}"#);
        request.write(format!("data: {other}\n\n")).await;
    }
    let own = message(request.id(), "1");
    request.write(format!("data: {own}\n\n")).await;
    assert_eq!(result(answer.await.unwrap().unwrap()), b"1");
}

#[tokio::test]
async fn a_stream_that_breaks_in_an_answer_loses_it() {
    let mut web = Web::start().await;
    let world = open(&web).await;
    let half = r#"data: {"jsonrpc":"2.0","id":1,"result":{"half":"#;
    for head in ["connection: close\r\n\r\n", "content-length: 9999\r\n\r\n"] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        let kind = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        request.write(format!("{kind}{head}{half}")).await;
        drop(request);
        let why = answer.await.unwrap().unwrap_err();
        assert_eq!(why, LineError::Lost);
        assert!(!why.nothing_happened());
    }
}

#[tokio::test]
async fn large_answers_are_in_files_and_too_large_ones_are_stopped() {
    let mut web = Web::start().await;
    let spec = Spec { memory_bytes_max: 10_000, answer_bytes_max: 5 << 20, ..web.spec() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let text = format!("[{:?} , 1.50]", "é".repeat(1 << 20));
    for is_json in [true, false] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        let all = message(request.id(), &text);
        if is_json {
            request.answer(200, JSON, all).await;
        } else {
            request.events().await;
            request.write(format!("id: 1\ndata: {all}\n\n")).await;
        }
        let Answer::Result(raw) = answer.await.unwrap().unwrap() else { panic!("a result") };
        assert!(matches!(raw, Raw::File { .. }));
        assert!(bytes(&raw) == text.as_bytes());
    }
    for kind in ["length", "json", "events"] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        let id = request.id();
        tokio::spawn(async move {
            let much = "x".repeat(6 << 20);
            let begun = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":""#);
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type:";
            match kind {
                "length" => {
                    request
                        .write(format!("{head} {JSON}\r\ncontent-length: 99999999\r\n\r\n"))
                        .await
                }
                "json" => request.write(format!("{head} {JSON}\r\n\r\n{begun}{much}")).await,
                _ => {
                    request.events().await;
                    request.write(format!("data: {begun}{much}")).await;
                }
            }
            request.hung_up().await;
        });
        assert_eq!(answer.await.unwrap().unwrap_err(), LineError::TooLarge, "{kind}");
    }
}

#[tokio::test]
async fn answers_are_stopped_below_what_memory_takes_as_well() {
    let mut web = Web::start().await;
    let spec = Spec { memory_bytes_max: 8 << 20, answer_bytes_max: 1_000_000, ..web.spec() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    for kind in ["length", "chunked", "events"] {
        for (bytes, is_good) in [(900_000, true), (4_000_000, false)] {
            let answer = asking(&world, ask("x", json!({})));
            let mut request = web.next().await;
            let all = message(request.id(), &format!("{:?}", "x".repeat(bytes)));
            tokio::spawn(async move {
                match kind {
                    "length" => request.answer(200, JSON, all).await,
                    "chunked" => {
                        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type:";
                        let length = all.len();
                        request.write(format!("{head} {JSON}\r\n\r\n{length:x}\r\n")).await;
                        request.write(format!("{all}\r\n0\r\n\r\n")).await;
                    }
                    _ => {
                        request.events().await;
                        request.write(format!("data: {all}\n\n")).await;
                    }
                }
            });
            let answer = answer.await.unwrap();
            match is_good {
                true => assert_eq!(result(answer.unwrap()).len(), bytes + 2, "{kind}"),
                false => assert_eq!(answer.unwrap_err(), LineError::TooLarge, "{kind}"),
            }
        }
    }
}

#[tokio::test]
async fn what_is_too_large_and_no_answer_does_not_end_a_question() {
    let mut web = Web::start().await;
    let spec = Spec { memory_bytes_max: 10_000, answer_bytes_max: 100_000, ..web.spec() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let much = "x".repeat(400_000);
    let others = [
        format!(r#"data: {{"jsonrpc":"2.0","method":"notifications/x","params":"{much}"}}"#),
        format!(r#"data: {{"jsonrpc":"2.0","id":"s","method":"x","params":"{much}"}}"#),
        format!(r#"data: {{"jsonrpc":"2.0","id":987654,"result":"{much}"}}"#),
        format!(r#"data: {{"jsonrpc":"2.0","id":"nobody","result":"{much}"}}"#),
        format!("event: ping\ndata: {much}"),
    ];
    for other in others {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        request.events().await;
        request.write(format!("{other}\n\ndata: {}\n\n", message(request.id(), "7"))).await;
        let name = other.get(..60).unwrap();
        assert_eq!(result(answer.await.unwrap().expect(name)), b"7", "{name}");
        if other.contains(r#""s""#) {
            let told = web.next().await;
            assert_eq!(told.message["error"]["code"], -32603);
            told.answer(202, JSON, "").await;
        }
    }
    // One that may be the answer does.
    for member in ["\"id\":ID,\"result\"", "\"result\"", "\"id\":null,\"error\"", "\"params\""] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        let member = member.replace("ID", &request.id().to_string());
        request.events().await;
        request.write(format!(r#"data: {{"jsonrpc":"2.0",{member}:"{much}"#)).await;
        assert_eq!(answer.await.unwrap().unwrap_err(), LineError::TooLarge, "{member}");
    }
}

#[tokio::test]
async fn what_waits_to_be_heard_is_bounded_by_its_bytes() {
    let mut web = Web::start().await;
    let spec = Spec { memory_bytes_max: 8 << 20, ..web.spec() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let (sender, mut heard) = mpsc::channel(64);
    let answer = asking(&world, Ask { heard: Some(sender), ..ask("x", json!({})) });
    let mut request = web.next().await;
    let told = json!({"jsonrpc": "2.0", "method": "n", "params": {"t": "x".repeat(1 << 20)}});
    let sent = tokio::spawn(async move {
        request.events().await;
        for _ in 0..40 {
            request.write(format!("data: {told}\n\n")).await;
        }
        request.write(format!("data: {}\n\n", message(request.id(), "7"))).await;
        request
    });
    while heard.len() < 15 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(heard.len(), 15, "more than 16 MiB wait");
    // The rest waits at the server, and comes.
    for _ in 0..40 {
        notification(heard.recv().await);
    }
    assert_eq!(result(answer.await.unwrap().unwrap()), b"7");
    drop(sent.await);
}

#[tokio::test]
async fn a_notification_that_is_too_large_for_memory_is_dropped() {
    let mut web = Web::start().await;
    let spec = Spec { memory_bytes_max: 10_000, ..web.spec() };
    let world = World::open(&spec, Opening::Modern).await.unwrap();
    let (asked, mut heard) = ask_heard("x", json!({}));
    let answer = asking(&world, asked);
    let mut request = web.next().await;
    let told = |text: &str| {
        let told = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"t": text}});
        format!("data: {told}\n\n")
    };
    request.events().await;
    request.write(told(&"x".repeat(20_000))).await;
    request.write(told("small")).await;
    request.write(format!("data: {}\n\n", message(request.id(), "[]"))).await;
    assert_eq!(result(answer.await.unwrap().unwrap()), b"[]");
    assert_eq!(notification(heard.recv().await).1["t"], "small");
    assert!(heard.recv().await.is_none());
}

#[tokio::test]
async fn a_session_whose_beginning_failed_is_ended() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let opening = tokio::spawn(async move { World::open(&spec, legacy()).await.err() });
    hello(web.next().await).await;
    web.next().await.answer(403, "text/plain", "").await;
    assert_eq!(opening.await.unwrap(), Some(LineError::Refused(403)));
    let end = web.next().await;
    assert_eq!((end.method.as_str(), end.header("mcp-session-id")), ("DELETE", Some("s-1")));
}

#[tokio::test]
async fn a_server_of_the_newer_era_knows_no_handshake() {
    let mut web = Web::start().await;
    let error = |code: i32| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code}}}}}"#);
    for (status, body, expected) in [
        (400, error(-32000), LineError::Era),
        (404, error(-32601), LineError::Era),
        (405, String::new(), LineError::Era),
        (200, error(-32601), LineError::Era),
        (200, error(-32022), LineError::Era),
        (401, String::new(), LineError::Refused(401)),
    ] {
        let spec = web.spec();
        let opening = tokio::spawn(async move { World::open(&spec, legacy()).await.err() });
        web.next().await.answer(status, JSON, body).await;
        assert_eq!(opening.await.unwrap(), Some(expected), "{status}");
    }
}

#[tokio::test]
async fn the_standing_stream_comes_back() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let mut world = begin(&mut web, &spec).await;
    let mut stream = standing(&mut web).await;
    assert_eq!(stream.header("last-event-id"), None);
    stream.events().await;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    stream.write(format!("retry: 1\nid: e-7\ndata: {told}\n\n")).await;
    assert_eq!(notification(Some(world.next().await)).0, "notifications/tools/list_changed");
    drop(stream);
    let mut stream = standing(&mut web).await;
    assert_eq!(stream.header("last-event-id"), Some("e-7"));
    stream.events().await;
    // What the server asks there, and a progress whose question is under way elsewhere.
    stream.write("data: {\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n\n").await;
    let pong = web.next().await;
    assert_eq!(pong.message, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    pong.answer(202, JSON, "").await;
    let params = json!({"_meta": {"progressToken": "mine"}});
    let (asked, mut heard) = ask_heard("tools/call", params);
    let answer = asking(&world, asked);
    let request = web.next().await;
    let token = request.message["params"]["_meta"]["progressToken"].clone();
    assert_eq!(token, json!(request.id()));
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1}});
    stream.write(format!("data: {progress}\n\n")).await;
    let (_, params) = notification(heard.recv().await);
    assert_eq!(params, json!({"progressToken": "mine", "progress": 1}));
    let body = message(request.id(), "{}");
    request.answer(200, JSON, body).await;
    answer.await.unwrap().unwrap();
    drop(world);
    let end = web.next().await;
    assert_eq!((end.method.as_str(), end.header("mcp-session-id")), ("DELETE", Some("s-1")));
}

#[tokio::test]
async fn a_broken_stream_is_resumed_in_the_older_era() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let world = begin(&mut web, &spec).await;
    standing(&mut web).await.answer(405, "text/plain", "").await;
    let (asked, mut heard) = ask_heard("tools/call", json!({}));
    let answer = asking(&world, asked);
    let mut request = web.next().await;
    let id = request.id();
    request.events().await;
    request.write("retry: 1\nid: a\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"meth").await;
    drop(request);
    let mut again = standing(&mut web).await;
    assert_eq!(again.header("last-event-id"), Some("a"));
    again.events().await;
    again.write("id: b\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n").await;
    drop(again);
    assert_eq!(notification(heard.recv().await).0, "notifications/x");
    let mut again = standing(&mut web).await;
    assert_eq!(again.header("last-event-id"), Some("b"));
    again.events().await;
    again.write(format!("data: {}\n\n", message(id, "[1.0]"))).await;
    assert_eq!(result(answer.await.unwrap().unwrap()), b"[1.0]");
    // Without an id there is nothing to go back to, and in the newer era nobody does.
    let answer = asking(&world, ask("tools/call", json!({})));
    let mut request = web.next().await;
    request.events().await;
    drop(request);
    assert_eq!(answer.await.unwrap().unwrap_err(), LineError::Lost);
    let modern = open(&web).await;
    let answer = asking(&modern, ask("tools/call", json!({})));
    let mut request = web.next().await;
    request.events().await;
    request.write("retry: 1\nid: a\ndata:\n\n").await;
    drop(request);
    assert_eq!(answer.await.unwrap().unwrap_err(), LineError::Lost);
}

#[tokio::test]
async fn the_older_era_cancels_by_saying_so() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let world = begin(&mut web, &spec).await;
    standing(&mut web).await.answer(405, "text/plain", "").await;
    let answer = asking(&world, ask("tools/call", json!({})));
    let request = web.next().await;
    answer.abort();
    let told = web.next().await;
    assert_eq!(told.message["method"], "notifications/cancelled");
    assert_eq!(told.message["params"]["requestId"], json!(request.id()));
    told.answer(202, JSON, "").await;
}

#[tokio::test]
async fn a_request_of_the_server_is_answered_with_the_session() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let mut world = begin(&mut web, &spec).await;
    let mut stream = standing(&mut web).await;
    stream.events().await;
    stream.write("data: {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"roots/list\"}\n\n").await;
    let Heard::Request { id, .. } = world.next().await else { panic!("a request") };
    let line = world.line.clone();
    let answering = tokio::spawn(async move { line.answer(id, Ok(Bytes::from("{}"))).await });
    let answer = web.next().await;
    assert_eq!(answer.message, json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
    answer.answer(202, JSON, "").await;
    answering.await.unwrap().unwrap();
}

/// What servers made with the common libraries say of a session that they do not know.
const NO_SESSION: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;

#[tokio::test]
async fn a_session_that_is_refused_with_400_is_gone() {
    for status in [400, 404] {
        let mut web = Web::start().await;
        let spec = web.spec();
        let world = begin(&mut web, &spec).await;
        standing(&mut web).await.answer(405, "text/plain", "").await;
        let answer = asking(&world, ask("tools/call", json!({})));
        web.next().await.answer(400, JSON, NO_SESSION).await;
        let ping = web.next().await;
        assert_eq!(ping.message["method"], "ping");
        assert_eq!(ping.header("mcp-session-id"), Some("s-1"));
        ping.answer(status, JSON, NO_SESSION).await;
        let why = answer.await.unwrap().unwrap_err();
        assert_eq!(why, LineError::Unreachable("it forgot the session".to_owned()), "{status}");
        assert!(why.nothing_happened() && world.line.is_closed());
        // What is not known is not ended either.
        tokio::time::timeout(LONG, world.line.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_question_that_is_refused_with_400_has_its_answer() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let world = begin(&mut web, &spec).await;
    standing(&mut web).await.answer(405, "text/plain", "").await;
    let answer = asking(&world, ask("tools/call", json!({})));
    web.next().await.answer(400, JSON, NO_SESSION).await;
    let ping = web.next().await;
    let pong = message(ping.id(), "{}");
    ping.answer(200, JSON, pong).await;
    assert!(matches!(answer.await.unwrap().unwrap(), Answer::Error(_)));
    assert!(!world.line.is_closed());
}

#[tokio::test]
async fn a_server_without_a_standing_stream_keeps_its_session() {
    let mut web = Web::start().await;
    let spec = web.spec();
    let world = begin(&mut web, &spec).await;
    standing(&mut web).await.answer(404, "text/plain", "Cannot GET /mcp").await;
    for _ in 0..3 {
        let answer = asking(&world, ask("tools/call", json!({})));
        let request = web.next().await;
        assert_eq!(request.message["method"], "tools/call", "nobody begins anew, nor asks again");
        assert_eq!(request.header("mcp-session-id"), Some("s-1"));
        let body = message(request.id(), "[1]");
        request.answer(200, JSON, body).await;
        assert_eq!(result(answer.await.unwrap().unwrap()), b"[1]");
    }
    assert!(!world.line.is_closed());
    // A question tells that it is gone.
    let answer = asking(&world, ask("tools/call", json!({})));
    web.next().await.answer(404, "text/plain", "").await;
    let why = answer.await.unwrap().unwrap_err();
    assert!(why.nothing_happened() && world.line.is_closed(), "{why:?}");
}

#[tokio::test]
async fn wound_a8_an_encoding_that_nobody_requested_is_named() {
    let mut web = Web::start().await;
    let world = World::open(&web.spec(), Opening::Modern).await.unwrap();
    for kind in [JSON, "text/event-stream"] {
        let answer = asking(&world, ask("x", json!({})));
        let mut request = web.next().await;
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
        );
        request.write(head).await;
        // The start of a stream of gzip.
        request.write([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).await;
        drop(request);
        let why = answer.await.unwrap().unwrap_err();
        assert_eq!(why, LineError::Encoding("gzip".to_owned()), "{kind}");
        assert!(!why.nothing_happened(), "the call may have been made");
    }
}
