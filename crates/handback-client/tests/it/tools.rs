//! Tools of servers that do not keep to the protocol, or to any measure.

use std::time::Duration;

use handback_client::Backoff;
use handback_client::tools::{Answer, Arguments, Call, Event, Limits, Tools, ToolsError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::script::Script;

/// What is taken of an answer.
const RESPONSE_MAX: usize = 10_000;

const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn tools(url: &str) -> Tools {
    let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
    let tools = Tools::new(&url.parse().unwrap()).unwrap();
    tools.response_bytes(RESPONSE_MAX).retry(backoff, 3)
}

fn call() -> Call {
    Call::new("t", Arguments::default())
}

/// Answers one request with a text, and then with another without end, if there is one.
async fn answer(script: &Script, text: &str, endless: Option<&str>) {
    let mut stream = script.tcp().await;
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        stream.read_buf(&mut request).await.unwrap();
    }
    stream.write_all(text.as_bytes()).await.unwrap();
    while let Some(more) = endless {
        if stream.write_all(more.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// What a call comes to at a server that answers so.
async fn answered(path: &str, text: &str, endless: Option<&str>) -> Result<Answer, ToolsError> {
    let script = Script::start().await;
    let tools = tools(&format!("{}{path}", script.url));
    let call = call();
    let (answered, ()) = tokio::join!(tools.call(&call), answer(&script, text, endless));
    answered
}

/// Why a call has no answer there.
async fn called(path: &str, text: &str, endless: Option<&str>) -> ToolsError {
    answered(path, text, endless).await.unwrap_err()
}

/// An answer with a body that is said to be JSON.
fn short(body: &str) -> String {
    format!("{JSON}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let endless = format!("{JSON}transfer-encoding: chunked\r\n\r\n");
    for path in ["", "/mcp"] {
        for (head, more) in
            [(endless.as_str(), "5\r\n11111\r\n"), (EVENTS, "data: 1\n"), (EVENTS, "more")]
        {
            let error = called(path, head, Some(more)).await;
            assert!(matches!(error, ToolsError::TooLarge(RESPONSE_MAX)), "{path} {more}: {error}");
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_not_taken_for_one() {
    for (path, text) in [
        ("", short("{}")),
        ("", short("[1]")),
        ("", short(r#"{"result":1,"#)),
        ("", format!("{EVENTS}event: result\ndata: {{\"x\":1}}\n\n")),
        ("/mcp", format!("{EVENTS}data: nothing\n\n")),
        ("/mcp", short(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}"#)),
    ] {
        let error = called(path, &text, None).await;
        assert!(matches!(error, ToolsError::Misbehaved(_)), "{path} {text}: {error}");
    }
    // A stream that ends before its result: nobody knows.
    for path in ["", "/mcp"] {
        let error = called(path, &format!("{EVENTS}: hello\n\n"), None).await;
        assert!(matches!(error, ToolsError::Lost(_)), "{path}: {error}");
    }
}

/// The result of a tool, and the error of a request.
const RESULT: &str = r#""result":{"content":[{"type":"text","text":"x"}]}"#;
const ERROR: &str = r#""error":{"code":-32602,"message":"x","data":{"reason":"not_found"}}"#;

#[tokio::test]
async fn an_answer_to_another_request_is_not_taken() {
    let ways = [short as fn(&str) -> String, |message| format!("{EVENTS}data: {message}\n\n")];
    let message = |id: &str, what: &str| format!(r#"{{"jsonrpc":"2.0",{id}{what}}}"#);
    for way in ways {
        let ids = [r#""id":2,"#, r#""id":"1","#, r#""id":[1],"#];
        let others = ids.iter().flat_map(|id| [message(id, RESULT), message(id, ERROR)]);
        // An error may have none, where nobody could read it.
        for other in others.chain([message("", RESULT), message(r#""id":null,"#, RESULT)]) {
            let error = called("/mcp", &way(&other), None).await;
            let is_another = error.to_string().contains("another request");
            assert!(matches!(error, ToolsError::Misbehaved(_)) && is_another, "{other}: {error}");
        }
        let own = answered("/mcp", &way(&message(r#""id":1,"#, RESULT)), None).await;
        assert!(matches!(own, Ok(Answer::Given(_))), "{own:?}");
        for id in [r#""id":1,"#, r#""id":null,"#, ""] {
            let error = called("/mcp", &way(&message(id, ERROR)), None).await;
            assert!(matches!(&error, ToolsError::Refused(refused) if refused.code == "not_found"));
        }
    }
}

#[tokio::test]
async fn what_stands_before_a_server_refuses_for_it() {
    let body = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#;
    let head = "HTTP/1.1 400 x\r\ncontent-type: application/json\r\n";
    let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let error = called("/mcp", &text, None).await;
    assert!(matches!(&error, ToolsError::Refused(refused) if refused.message == "no"), "{error}");
}

/// Answers that say that all is well, and nothing else.
fn no_messages() -> Vec<String> {
    let page = "<html>welcome</html>";
    let html = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let empty = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned();
    let bodies = ["", "{}", "[]", "null", "{\"jsonrpc\":", r#"{"jsonrpc":"2.0","id":1}"#, "\u{1}"];
    bodies.into_iter().map(short).chain([html, empty]).collect()
}

#[tokio::test]
async fn after_a_success_that_is_no_message_nobody_knows() {
    for text in no_messages() {
        let error = called("/mcp", &text, None).await;
        assert!(matches!(error, ToolsError::Lost(_)), "{text}: {error}");
        // With a key it is asked again.
        let script = Script::start().await;
        let tools = tools(&format!("{}/mcp", script.url));
        let keyed = call().idempotency_key("k");
        let good = short(&format!(r#"{{"jsonrpc":"2.0","id":1,{RESULT}}}"#));
        let answers = async {
            answer(&script, &text, None).await;
            answer(&script, &good, None).await;
        };
        let (answered, ()) = tokio::join!(tools.call(&keyed), answers);
        assert!(matches!(answered, Ok(Answer::Given(_))), "{text}: {answered:?}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_long_pause_is_left_alone() {
    let busy = r#"{"error":{"code":"busy","message":"later"}}"#;
    for path in ["", "/mcp"] {
        for (pause_s, is_waited_for) in [(0, true), (60, true), (61, false), (86_400, false)] {
            let script = Script::start().await;
            let (sender, mut heard) = mpsc::unbounded_channel();
            let tools = tools(&format!("{}{path}", script.url));
            let tools = tools.hear(move |event| drop(sender.send(event)));
            let text = format!(
                "HTTP/1.1 429 x\r\nretry-after: {pause_s}\r\ncontent-length: {}\r\n\r\n{busy}",
                busy.len()
            );
            // It was not made, so that it needs no key.
            let plain = call();
            let called = async { tokio::join!(tools.call(&plain), answer(&script, &text, None)).0 };
            tokio::select! {
                ended = called => {
                    let Err(ToolsError::Refused(refused)) = ended else { panic!("{ended:?}") };
                    assert_eq!(refused.retry_after, Some(Duration::from_secs(pause_s)));
                    assert!(!is_waited_for, "{path} {pause_s}");
                }
                Some(event) = heard.recv() => {
                    assert!(matches!(event, Event::Again { .. }), "{event:?}");
                    assert!(is_waited_for, "{path} {pause_s}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_frame_that_is_too_long_is_refused_by_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let tools = tools(&format!("unix:{}", path.display()));
    let call = call();
    let answered = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        // It is left at once.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    };
    let (error, ()) = tokio::join!(tools.call(&call), answered);
    assert!(matches!(error, Err(ToolsError::Misbehaved(_))), "{error:?}");
}

#[tokio::test]
async fn a_call_with_a_key_is_tried_so_often_and_no_more() {
    let script = Script::start().await;
    let tools = tools(&script.url);
    let keyed = call().idempotency_key("k");
    let busy = "HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n";
    let answers = async {
        for _ in 0..3 {
            answer(&script, busy, None).await;
        }
    };
    let (error, ()) = tokio::join!(tools.call(&keyed), answers);
    assert!(matches!(error, Err(ToolsError::Refused(_))), "{error:?}");
    // Without a key, what may have been made is not tried again.
    let plain = call();
    let (error, ()) = tokio::join!(tools.call(&plain), answer(&script, busy, None));
    assert!(matches!(error, Err(ToolsError::Refused(_))), "{error:?}");
}

#[tokio::test]
async fn a_server_whose_pages_never_end_is_left_at_the_limit() {
    let script = Script::start().await;
    let tools = tools(&script.url);
    let body = r#"{"result":[1],"nextCursor":"again"}"#;
    let page = format!("{JSON}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let call = call();
    let mut walk = tools.walk(&call, Limits { pages: 5, ..Limits::default() });
    for _ in 0..5 {
        let (given, ()) = tokio::join!(walk.next(), answer(&script, &page, None));
        assert!(given.unwrap().is_some());
    }
    assert!(walk.next().await.unwrap().is_none());
    assert!(walk.stopped().is_some());
    assert_eq!(walk.cursor(), Some("again"));
}
