use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_surface::tools;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::HeaderMap;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{Bench, Numbers, alice, bob};

/// How long an answer may take: many times what it does.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server in this process, where callers say who they are.
struct Place {
    bench: Bench,
    address: SocketAddr,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Place {
    async fn new() -> Self {
        Self::over(Bench::new()).await
    }

    async fn over(bench: Bench) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pipeline = Arc::clone(&bench.pipeline);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let pipeline = Arc::clone(&pipeline);
                let service = service_fn(move |request: Request<Incoming>| {
                    let pipeline = Arc::clone(&pipeline);
                    async move {
                        let caller =
                            match request.headers().get("x-caller").map(|who| who.as_bytes()) {
                                Some(b"alice") => alice(),
                                Some(b"bob") => bob(),
                                _ => Caller::unauthenticated(),
                            };
                        Ok::<_, Infallible>(tools::handle(request, &caller, &pipeline).await)
                    }
                });
                tokio::spawn(
                    server::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { bench, address }
    }

    /// A response whose body was not read, on a connection of its own.
    async fn open(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        let response = response.expect("no answer").unwrap();
        // The connection lives as long as its sender.
        tokio::spawn(async move { sender.ready().await });
        response
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Got {
        let (head, body) = self.open(request).await.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap().unwrap();
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        Got { status: head.status.as_u16(), headers: head.headers, text }
    }

    async fn get(&self, path: &str) -> Got {
        self.send(request(Method::GET, path, &[("x-caller", "alice")], "")).await
    }

    async fn post(&self, path: &str, body: &Value) -> Got {
        self.send(post(path, body, &[])).await
    }

    async fn run(&self, tool: &str, arguments: Value) -> Got {
        self.post(&format!("/v1/tools/{tool}/run"), &json!({ "arguments": arguments })).await
    }

    async fn keyed(&self, arguments: Value, key: &str) -> Got {
        let body = json!({ "arguments": arguments });
        self.send(post("/v1/tools/act/run", &body, &[("idempotency-key", key)])).await
    }
}

fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

fn post(path: &str, body: &Value, more: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut headers = vec![("content-type", "application/json")];
    if !more.iter().any(|(name, _)| *name == "x-caller") {
        headers.push(("x-caller", "alice"));
    }
    headers.extend_from_slice(more);
    request(Method::POST, path, &headers, &body.to_string())
}

const INVALID: &str = r#"{"error":{"code":"invalid","message":"invalid continuation"}}"#;
const EXPIRED: &str = r#"{"error":{"code":"expired","message":"expired continuation: make the call again from the start"}}"#;

#[tokio::test]
async fn a_call_is_answered_to_the_byte() {
    let place = Place::new().await;
    let got = place.run("act", json!({})).await;
    assert_eq!((got.status, got.text.as_str()), (200, r#"{"result":1}"#));
    assert_eq!(got.headers["content-type"], "application/json");
    assert_eq!(got.headers["cache-control"], "no-store");
    let got = place.run("act", json!({"how": "fail"})).await;
    let failed = r#"{"isError":true,"error":{"code":"tool_failed","data":{"number":2},"message":"it failed"}}"#;
    assert_eq!((got.status, got.text.as_str()), (200, failed));
    let got = place.run("act", json!({"how": "raw"})).await;
    assert_eq!(got.text, "{\"result\":{\"b\":1.0,\r\n \"a\":2}}");
    assert_eq!(place.post("/v1/tools/act/run", &json!({})).await.text, r#"{"result":4}"#);
}

#[tokio::test]
async fn a_walk_meets_every_item_once() {
    let place = Place::new().await;
    let padding = "x".repeat(2000);
    let mut got = place
        .run("more%2Fnumbers", json!({"from": 5, "below": 15, "padding": padding}))
        .await
        .json();
    let mut all = Vec::new();
    loop {
        all.extend(got["result"].as_array().unwrap().clone());
        let Some(cursor) = got["nextCursor"].as_str() else { break };
        let body = json!({ "cursor": cursor });
        got = place.post("/v1/tools/more%2Fnumbers/continue", &body).await.json();
    }
    assert_eq!(all, (5..15).map(Value::from).collect::<Vec<_>>());
    assert!(got.get("nextCursor").is_none());
}

#[tokio::test]
async fn a_cursor_is_of_one_caller_and_one_tool() {
    let place = Place::new().await;
    let got = place.run("numbers", json!({"from": 0, "below": 9})).await.json();
    let cursor = got["nextCursor"].as_str().unwrap().to_owned();
    let mut edited = cursor.clone();
    edited.replace_range(8..9, if &cursor[8..9] == "A" { "B" } else { "A" });
    let go_on = async |who: &str, tool: &str, cursor: &str| {
        let path = format!("/v1/tools/{tool}/continue");
        let got = place.send(post(&path, &json!({ "cursor": cursor }), &[("x-caller", who)])).await;
        (got.status, got.text)
    };
    let invalid = (400, INVALID.to_owned());
    assert_eq!(go_on("alice", "numbers", &edited).await, invalid);
    assert_eq!(place.bench.last_line(), ("refused".into(), "not_opened".into()));
    assert_eq!(go_on("alice", "numbers", "").await, invalid);
    assert_eq!(go_on("alice", "numbers", &"A".repeat(100_000)).await, invalid);
    assert_eq!(go_on("alice", "more%2Fnumbers", &cursor).await, invalid);
    assert_eq!(go_on("alice", "act", &cursor).await, invalid);
    assert_eq!(go_on("bob", "numbers", &cursor).await, invalid);
    assert_eq!(go_on("nobody", "numbers", &cursor).await, invalid);
    let (status, page) = go_on("alice", "numbers", &cursor).await;
    assert_eq!((status, &page[..19]), (200, r#"{"result":[3,4,5],""#));
    place.bench.pass(Duration::from_secs(17 * 60));
    assert_eq!(go_on("alice", "numbers", &cursor).await, (410, EXPIRED.to_owned()));
    assert_eq!(go_on("bob", "numbers", &cursor).await, invalid);
    assert_eq!(go_on("alice", "numbers", &edited).await, invalid);
}

#[tokio::test]
async fn questions_are_answered_once_by_who_was_asked() {
    let place = Place::new().await;
    let asked = place.run("pay", json!({"amount": 7})).await.json();
    let question = &asked["inputRequests"]["sure"];
    assert_eq!((&question["type"], &question["message"]), (&json!("form"), &json!("Pay?")));
    let state = asked["requestState"].as_str().unwrap();
    let answer = |arguments: Value, confirm: Value| {
        json!({
            "arguments": arguments,
            "requestState": state,
            "inputResponses": {"sure": {"action": "accept", "content": {"confirm": confirm}}},
        })
    };
    let path = "/v1/tools/pay/run";
    let good = answer(json!({"amount": 7}), json!(true));
    let foreign = place.send(post(path, &good, &[("x-caller", "bob")])).await;
    assert_eq!((foreign.status, foreign.text.as_str()), (400, INVALID));
    let mutated = place.post(path, &answer(json!({"amount": 8}), json!(true))).await;
    assert_eq!((mutated.status, mutated.text.as_str()), (400, INVALID));
    let strange = place.post(path, &answer(json!({"amount": 7}), json!("perhaps"))).await;
    assert_eq!((strange.status, &strange.json()["error"]["code"]), (400, &json!("bad_answers")));
    let paid = place.post(path, &good).await;
    assert_eq!(paid.text, r#"{"result":{"paid":7}}"#);
    let again = place.post(path, &good).await;
    assert_eq!(again.text, r#"{"result":{"paid":7},"replayed":true}"#);
    let replayed = place.post(path, &answer(json!({"amount": 7}), json!(false))).await;
    assert_eq!((replayed.status, replayed.text.as_str()), (400, INVALID));
    assert_eq!(place.bench.last_line(), ("refused".into(), "replayed".into()));
    assert_eq!(place.bench.effects.count(), 1);
    let late = place.run("pay", json!({"amount": 7})).await.json();
    place.bench.pass(Duration::from_secs(7 * 60));
    let late = json!({"arguments": {"amount": 7}, "requestState": late["requestState"]});
    let late = place.post(path, &late).await;
    assert_eq!((late.status, late.text.as_str()), (410, EXPIRED));
}

#[tokio::test]
async fn a_key_makes_a_retry_the_same_call() {
    let place = Place::new().await;
    assert_eq!(place.keyed(json!({}), "k").await.text, r#"{"result":1}"#);
    assert_eq!(place.keyed(json!({}), "k").await.text, r#"{"result":1,"replayed":true}"#);
    let other = place.keyed(json!({"how": "fail"}), "k").await;
    assert_eq!((other.status, &other.json()["error"]["code"]), (409, &json!("mismatch")));
    let bad = place.keyed(json!({}), "a b").await;
    assert_eq!((bad.status, &bad.json()["error"]["code"]), (400, &json!("bad_key")));
    let body = json!({});
    let x = place.send(post("/v1/tools/act/run", &body, &[("x-idempotency-key", "k")])).await;
    assert_eq!(x.text, r#"{"result":1,"replayed":true}"#);
    assert_eq!(place.bench.effects.count(), 1);
    // Whether it had its effect is not known: it is not made again.
    assert_eq!(place.keyed(json!({"how": "panic"}), "p").await.status, 500);
    let ambiguous = place.keyed(json!({"how": "panic"}), "p").await;
    assert_eq!((ambiguous.status, &ambiguous.json()["error"]["code"]), (409, &json!("ambiguous")));
}

#[tokio::test]
async fn a_call_whose_connection_dies_runs_to_its_end() {
    let place = Place::new().await;
    let body = json!({"arguments": {"how": "wait"}});
    let message = format!(
        "POST /v1/tools/act/run HTTP/1.1\r\nhost: localhost\r\nx-caller: alice\r\n\
         content-type: application/json\r\nidempotency-key: k\r\ncontent-length: {}\r\n\r\n{body}",
        body.to_string().len(),
    );
    let mut stream = TcpStream::connect(place.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, message.as_bytes()).await.unwrap();
    place.bench.effects.entered().await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(50)).await;
    place.bench.effects.go_on();
    let got = place.keyed(json!({"how": "wait"}), "k").await;
    assert_eq!(got.text, r#"{"result":1,"replayed":true}"#);
    assert_eq!(place.bench.effects.count(), 1);
}

#[tokio::test]
async fn what_goes_wrong_has_a_status_of_its_own() {
    let place = Place::new().await;
    let check = async |got: Got, status: u16, code: &str| {
        assert_eq!(
            (got.status, &got.json()["error"]["code"]),
            (status, &json!(code)),
            "{}",
            got.text
        );
        got
    };
    check(place.run("none", json!({})).await, 404, "not_found").await;
    let secret = place.run("secret_numbers", json!({"from": 0, "below": 1})).await;
    let secret = check(secret, 404, "not_found").await;
    assert_eq!(secret.text, place.run("none", json!({})).await.text);
    assert_eq!(place.get("/v1/tools/secret_numbers").await.text, secret.text);
    let bad = place.run("numbers", json!({"from": "x", "below": 1})).await;
    let bad = check(bad, 400, "bad_arguments").await;
    assert!(bad.text.contains("`/from`"), "{}", bad.text);
    check(place.run("act", json!({"how": "panic"})).await, 500, "broken").await;
    check(place.run("act", json!({"how": "not_json"})).await, 500, "broken").await;
    check(place.run("act", json!({"how": "hang"})).await, 504, "timed_out").await;
    check(place.post("/v1/tools/act/run", &json!({"args": {}})).await, 400, "bad_request").await;
    check(place.post("/v1/tools/act/continue", &json!({})).await, 400, "bad_request").await;
    let plain = request(Method::POST, "/v1/tools/act/run", &[("content-type", "text/plain")], "{}");
    check(place.send(plain).await, 415, "content_type").await;
    let large = json!({"arguments": {"a": "x".repeat(4 << 20)}});
    check(place.post("/v1/tools/act/run", &large).await, 413, "too_large").await;
    let deep = (0..33).fold(json!(1), |inner, _| json!([inner]));
    check(place.run("act", deep).await, 400, "bad_request").await;
    let got = check(place.get("/v1/tools/act/run").await, 405, "method").await;
    assert_eq!(got.headers["allow"], "POST");
    let got = check(place.post("/v1/tools", &json!({})).await, 405, "method").await;
    assert_eq!(got.headers["allow"], "GET, HEAD");
    check(place.get("/v1/tools/act/stop").await, 404, "not_found").await;
}

#[tokio::test]
async fn too_many_calls_are_refused_and_may_be_tried_again() {
    let place = Arc::new(Place::new().await);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let there = Arc::clone(&place);
        waiting.push(tokio::spawn(async move { there.run("act", json!({"how": "wait"})).await }));
        place.bench.effects.entered().await;
    }
    let busy = place.run("act", json!({})).await;
    assert_eq!((busy.status, &busy.json()["error"]["code"]), (429, &json!("busy")));
    assert_eq!(busy.headers["retry-after"], "1");
    for one in waiting {
        place.bench.effects.go_on();
        assert_eq!(one.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn the_list_has_what_the_caller_may_use() {
    let place = Place::new().await;
    let got = place.get("/v1/tools").await.json();
    let ids: Vec<_> = got["tools"].as_array().unwrap().iter().map(|tool| &tool["id"]).collect();
    assert_eq!(ids, ["act", "more/numbers", "numbers", "pay"]);
    assert!(got.get("nextCursor").is_none());
    let pay = place.get("/v1/tools/pay").await.json();
    assert_eq!(pay, got["tools"][3]);
    assert_eq!((&pay["title"], &pay["scopes"]), (&json!("Pay"), &json!(["money"])));
    assert_eq!(pay["inputSchema"]["required"], json!(["amount"]));
    assert_eq!(pay["outputSchema"]["required"], json!(["paid"]));
    let numbers = place.get("/v1/tools/more%2Fnumbers").await.json();
    let facts = (&numbers["paginated"], &numbers["class"]);
    assert_eq!(facts, (&json!(true), &json!("read_only")));
    let head = request(Method::HEAD, "/v1/tools", &[], "");
    assert_eq!(place.send(head).await.text, "");
}

#[tokio::test]
async fn a_long_list_is_walked_with_sealed_cursors() {
    let names: Vec<&'static str> =
        (0..250).map(|number| &*Box::leak(format!("t{number:03}").into_boxed_str())).collect();
    let add = |registry: &mut handback_tool::Registry| {
        names.iter().for_each(|name| registry.add(Numbers(name)).unwrap());
    };
    let place = Place::over(Bench::with(add)).await;
    for (limit, pages) in [("", 3), ("limit=7&", 37), ("limit=254&", 1)] {
        let (mut seen, mut cursor, mut count) = (Vec::new(), String::new(), 0);
        loop {
            let got = place.get(&format!("/v1/tools?{limit}{cursor}")).await.json();
            count += 1;
            let tools = got["tools"].as_array().unwrap();
            seen.extend(tools.iter().map(|tool| tool["id"].as_str().unwrap().to_owned()));
            let Some(next) = got["nextCursor"].as_str() else { break };
            cursor = format!("cursor={next}");
        }
        assert_eq!((seen.len(), count), (254, pages), "{limit}");
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 254);
    }
    let got = place.get("/v1/tools?limit=7").await.json();
    let path = format!("/v1/tools?cursor={}", got["nextCursor"].as_str().unwrap());
    let foreign = place.send(request(Method::GET, &path, &[("x-caller", "bob")], "")).await;
    assert_eq!((foreign.status, foreign.text.as_str()), (400, INVALID));
    let edited = place.get("/v1/tools?cursor=AAAA").await;
    assert_eq!((edited.status, edited.text.as_str()), (400, INVALID));
    // The cursor of a tool is none of the list.
    let page = place.run("numbers", json!({"from": 0, "below": 9})).await.json();
    let other = format!("/v1/tools?cursor={}", page["nextCursor"].as_str().unwrap());
    assert_eq!(place.get(&other).await.text, INVALID);
    place.bench.pass(Duration::from_secs(17 * 60));
    let late = place.get(&path).await;
    assert_eq!((late.status, late.text.as_str()), (410, EXPIRED));
    assert_eq!(place.get("/v1/tools?limit=0").await.status, 400);
}

const EVENTS: (&str, &str) = ("accept", "text/event-stream");

#[tokio::test]
async fn events_come_as_they_are_told_and_the_result_last() {
    let place = Place::new().await;
    let body = json!({"arguments": {"how": "talk"}});
    let response = place.open(post("/v1/tools/act/run", &body, &[EVENTS])).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut text = String::new();
    let mut read = async |until: &str| {
        while !text.ends_with(until) {
            let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap();
            text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
        text.clone()
    };
    // The tool still waits, and this is there already.
    let first = "event: progress\ndata: {\"done\":1.0,\"total\":2.0}\n\n\
                 event: log\ndata: {\"data\":\"half\",\"level\":\"info\"}\n\n\
                 event: part\ndata: {\"half\":\"of it\"}\n\n";
    assert_eq!(read("of it\"}\n\n").await, first);
    place.bench.effects.go_on();
    let rest = "event: progress\ndata: {\"done\":2.0,\"total\":2.0}\n\n\
                event: result\ndata: {\"result\":\"all of it\"}\n\n";
    assert_eq!(read("all of it\"}\n\n").await, format!("{first}{rest}"));
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_watched_call_that_is_refused_has_a_status_or_an_event() {
    let place = Place::new().await;
    let run = async |tool: &str, body: Value| {
        place.send(post(&format!("/v1/tools/{tool}/run"), &body, &[EVENTS])).await
    };
    assert_eq!(run("none", json!({})).await.status, 404);
    assert_eq!(run("numbers", json!({"arguments": {}})).await.status, 400);
    let got = run("act", json!({})).await;
    assert_eq!((got.status, got.text.as_str()), (200, "event: result\ndata: {\"result\":1}\n\n"));
    let raw = run("act", json!({"arguments": {"how": "raw"}})).await;
    let lines = "event: result\ndata: {\"result\":{\"b\":1.0,\ndata: \ndata:  \"a\":2}}\n\n";
    assert_eq!(raw.text, lines);
    let hung = run("act", json!({"arguments": {"how": "hang"}})).await;
    let error = "event: error\ndata: {\"error\":{\"code\":\"timed_out\",\
                 \"message\":\"the call took longer than it may\"}}\n\n";
    assert_eq!((hung.status, hung.text.as_str()), (200, error));
}

#[tokio::test]
async fn a_watched_call_goes_on_when_nobody_watches() {
    let place = Place::new().await;
    let body = json!({"arguments": {"how": "talk"}});
    let headers = [EVENTS, ("idempotency-key", "k")];
    let response = place.open(post("/v1/tools/act/run", &body, &headers)).await;
    place.bench.effects.entered().await;
    drop(response);
    place.bench.effects.go_on();
    let got = place.keyed(json!({"how": "talk"}), "k").await;
    assert_eq!(got.text, r#"{"result":"all of it","replayed":true}"#);
}

#[tokio::test]
async fn the_document_is_as_it_was() {
    let place = Place::new().await;
    let document = place.get("/v1/openapi.json").await.json();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let expected = include_str!("openapi.json");
    if text != expected {
        let made = concat!(env!("CARGO_TARGET_TMPDIR"), "/openapi.json");
        std::fs::write(made, &text).unwrap();
        panic!("the document differs from tests/it/openapi.json: it is in {made}");
    }
    let (mut references, mut missing) = (0, Vec::new());
    each_reference(&document, &mut |to| {
        references += 1;
        if document.pointer(to.strip_prefix('#').unwrap()).is_none() {
            missing.push(to.to_owned());
        }
    });
    assert_eq!((references > 10, missing), (true, Vec::new()));
}

fn each_reference(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, visit)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(to) if name == "$ref" => visit(to),
                    value => each_reference(value, visit),
                }
            }
        }
        _ => {}
    }
}
