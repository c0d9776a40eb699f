//! Sessions of older clients over HTTP: how many there are, and what is wrong in them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::shared::{SHARED, Served};
use crate::streams::server::request;

/// Sessions of one caller at most: its share, an eighth of 800.
const OF_CALLER_MAX: usize = 100;

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The status of what comes back, and the session that it began.
fn begin(served: &Served, token: &str) -> (u16, Option<String>) {
    let hello: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let answer = served.server.ask("POST /mcp", &headers, hello.to_string().as_bytes());
    (answer.status, answer.headers.get("mcp-session-id").cloned())
}

fn end(served: &Served, token: &str, session: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session)];
    assert_eq!(served.server.ask("DELETE /mcp", &headers, b"").status, 202);
}

#[test]
fn sessions_have_their_place_before_they_are_begun() {
    let served = Served::before("older gated", SHARED);
    served.world.sandbox.write("record.gate", "");
    let beyond = 5;
    let ids = thread::scope(|scope| {
        let (sender, begun) = mpsc::channel();
        for _ in 0..OF_CALLER_MAX + beyond {
            let (sender, served) = (sender.clone(), &served);
            scope.spawn(move || sender.send(begin(served, &served.alice)).unwrap());
        }
        let other = scope.spawn(|| begin(&served, &served.bob).0);
        // The upstream has greeted nobody yet.
        for _ in 0..beyond {
            assert_eq!(begun.recv_timeout(LONG).unwrap().0, 429);
        }
        std::fs::remove_file(served.world.sandbox.path("record.gate")).unwrap();
        assert_eq!(other.join().unwrap(), 200, "a place of another is nobody else's");
        let rest = (0..OF_CALLER_MAX).map(|_| begun.recv_timeout(LONG).unwrap().1);
        rest.collect::<Option<Vec<_>>>().expect("each of them begins a session")
    });
    assert_eq!(begin(&served, &served.alice).0, 429);
    end(&served, &served.alice, &ids[0]);
    assert_eq!(begin(&served, &served.alice).0, 200);
    assert_eq!(begin(&served, &served.alice).0, 429);
}

/// A message in a session; `more` comes in place of the usual headers of the same name. Gives the status,
/// and the code of the error, if there is one.
fn say(
    served: &Served,
    (token, session): (&str, &str),
    more: &[(&str, &str)],
    message: &str,
) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let usual = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let mut headers = vec![("authorization", bearer.as_str()), ("mcp-session-id", session)];
    headers.extend(usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name)));
    headers.extend(more);
    let answer = served.server.ask("POST /mcp", &headers, message.as_bytes());
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status, told["error"]["code"].clone())
}

const PING: &str = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;

/// More headers, a body, and what it is answered with: a status, and the code of an error.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, u16, Value);

#[test]
fn what_is_wrong_in_a_session_is_not_that_there_is_none() {
    let served = Served::before("older", SHARED);
    let session = begin(&served, &served.alice).1.unwrap();
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"look"}}"#;
    let twice = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":
        {"name":"look","arguments":{"text":"a","text":"b"}}}"#;
    let batch = format!("[{PING}]");
    let two_keys: &[_] = &[("idempotency-key", "a"), ("x-idempotency-key", "b")];
    let cases: [Case<'_>; 12] = [
        (&[], &batch, 400, json!(-32600)),
        (&[], r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, json!(-32600)),
        (&[], r#"{"jsonrpc":"2.0","id":1}"#, 400, json!(-32600)),
        (&[], twice, 400, json!(-32600)),
        (&[], "no JSON", 400, json!(-32700)),
        (two_keys, call, 400, json!(-32602)),
        (&[("accept", "application/json")], PING, 406, Value::Null),
        (&[("accept", "text/event-stream")], PING, 406, Value::Null),
        (&[("content-type", "text/plain")], PING, 415, Value::Null),
        (&[("mcp-protocol-version", "2025-01-01")], PING, 400, json!(-32600)),
        (&[("mcp-protocol-version", "never")], PING, 400, json!(-32600)),
        (&[("mcp-protocol-version", "2025-06-18")], PING, 200, Value::Null),
    ];
    for (headers, message, status, code) in cases {
        let own = say(&served, (&served.alice, &session), headers, message);
        assert_eq!(own, (status, code), "{headers:?} {message}");
        // To another one there is no such session, unless it is not even looked at.
        let other = say(&served, (&served.bob, &session), headers, message);
        let expected = if message == twice { 400 } else { 404 };
        assert_eq!(other.0, expected, "{headers:?} {message}");
    }
    assert!(served.world.effects("look").is_empty());
    assert_eq!(say(&served, (&served.alice, &session), &[], PING), (200, Value::Null));
    // Other methods have no body that could be wrong.
    let ask = |line: &str, headers: &[(&str, &str)]| {
        let bearer = format!("Bearer {}", served.alice);
        let mut all = vec![("authorization", bearer.as_str()), ("mcp-session-id", &*session)];
        all.extend(headers);
        served.server.ask(line, &all, b"").status
    };
    assert_eq!(ask("GET /mcp", &[("accept", "application/json")]), 406);
    let never = ("mcp-protocol-version", "never");
    assert_eq!(ask("GET /mcp", &[("accept", "text/event-stream"), never]), 400);
    assert_eq!(ask("PUT /mcp", &[]), 405);
    assert_eq!(ask("DELETE /mcp", &[never]), 400);
    assert_eq!(ask("DELETE /mcp", &[]), 202);
}

#[test]
fn what_has_a_member_twice_is_refused_in_both_eras() {
    let served = Served::before("both", "");
    let message = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"look",
        "arguments":{"text":"a","text":"b"},"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let bearer = format!("Bearer {}", served.alice);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "look"),
    ];
    let ask = |message: &str| served.server.ask("POST /mcp", &headers, message.as_bytes());
    let refused = ask(message);
    let told: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!((refused.status, &told["error"]["code"]), (400, &json!(-32600)), "{told}");
    assert!(served.world.effects("look").is_empty());
    assert_eq!(ask(&message.replace(r#","text":"b""#, "")).status, 200);
    assert_eq!(served.world.effects("look").len(), 1);
}

/// A request whose answer stays open.
fn open(served: &Served, line: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let bearer = format!("Bearer {}", served.alice);
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend(headers);
    let mut stream = served.server.connect();
    let request = request(served.server.address, line, &all, body.as_bytes());
    stream.write_all(&request).unwrap();
    stream
}

/// What comes until there is this in it.
fn until(stream: &mut TcpStream, wanted: &str) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&all).contains(wanted) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "no {wanted} in {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..count]);
    }
}

/// All that still comes of an answer that ends soon.
fn rest(stream: &mut TcpStream) -> String {
    // Sooner than something is said because nothing happens.
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("it does not end");
    rest
}

fn revoke(served: &Served, what: &Value) {
    let bearer = format!("Bearer {}", served.operator);
    let headers = [("authorization", bearer.as_str())];
    let revoked = served.server.ask("POST /v1/revocations", &headers, what.to_string().as_bytes());
    assert_eq!(revoked.status, 201, "{revoked:?}");
}

#[test]
fn a_stream_ends_when_its_session_is_revoked() {
    let served = Served::before("older", SHARED);
    let session = begin(&served, &served.alice).1.unwrap();
    let headers = [("mcp-session-id", session.as_str()), ("accept", "text/event-stream")];
    let mut stream = open(&served, "GET /mcp", &headers, "");
    until(&mut stream, "retry: ");
    revoke(&served, &json!({"session": session}));
    rest(&mut stream);
    let (status, _) = say(&served, (&served.alice, &session), &[], PING);
    assert_eq!(status, 404);
    assert_eq!(begin(&served, &served.alice).0, 200, "with another one the caller goes on");
}

#[test]
fn who_listens_is_sent_away_when_it_is_revoked() {
    let served = Served::before("both", "");
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let mut stream = open(&served, "POST /mcp", &headers, &message.to_string());
    until(&mut stream, "acknowledged");
    revoke(&served, &json!({"principal": {"issuer": "static:test", "subject": "alice"}}));
    let told = rest(&mut stream);
    assert!(told.contains("the credential has ended"), "{told}");
}
