//! Streams under a key that their client keeps.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::server::{Answer, Server};
use crate::support::Sandbox;

const KEY: [u8; 32] = *b"a key that is easy to find again";
const KEY_HEADER: &str = "x-idempotent-encryption-key";

fn text(key: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

fn ask(server: &Server, line: &str, key: Option<&str>, body: &str) -> Answer {
    let mut headers = vec![("content-type", "text/plain")];
    headers.extend(key.map(|key| (KEY_HEADER, key)));
    server.ask(line, &headers, body.as_bytes())
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 403 && String::from_utf8_lossy(&answer.body).contains("\"KEY\"")
}

/// Where in a folder some bytes are.
pub(crate) fn find(folder: &Path, wanted: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find(&path, wanted));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        // Journals are made larger than what is in them.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let bytes = &bytes[..end];
        if bytes.windows(wanted.len()).any(|window| window == wanted) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn only_who_has_the_key_appends_and_reads() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let key = text(KEY);
    let right = Some(key.as_str());
    let other = text([9; 32]);
    let stream = "/v1/stream/secret";
    assert_eq!(ask(&server, &format!("PUT {stream}"), right, "first ").status, 201);
    assert_eq!(ask(&server, &format!("PUT {stream}"), right, "").status, 200);
    assert_eq!(ask(&server, &format!("POST {stream}"), right, "second").status, 204);
    let reads = ["", "?offset=-1&live=long-poll", "?offset=-1&live=sse", "?offset=now"];
    for wrong in [None, Some(other.as_str())] {
        assert!(is_refused(&ask(&server, &format!("POST {stream}"), wrong, "x")));
        assert!(is_refused(&ask(&server, &format!("PUT {stream}"), wrong, "")));
        for read in reads {
            assert!(is_refused(&ask(&server, &format!("GET {stream}{read}"), wrong, "")), "{read}");
        }
        let close = [("stream-closed", "true"), (KEY_HEADER, wrong.unwrap_or_default())];
        let close = &close[..1 + usize::from(wrong.is_some())];
        assert!(is_refused(&server.ask(&format!("POST {stream}"), close, b"")));
    }
    assert_eq!(ask(&server, &format!("GET {stream}"), Some("no key"), "").status, 400);
    assert_eq!(ask(&server, &format!("HEAD {stream}"), None, "").status, 200);
    let read = ask(&server, &format!("GET {stream}"), right, "");
    assert_eq!(String::from_utf8(read.body).unwrap(), "first second");
    assert_eq!(read.headers["cache-control"], "no-store");
    let poll = ask(&server, &format!("GET {stream}?offset=-1&live=long-poll"), right, "");
    assert_eq!(String::from_utf8(poll.body).unwrap(), "first second");
    // A stream without a key does not take one.
    server.create("plain");
    assert!(is_refused(&ask(&server, "POST /v1/stream/plain", right, "x")));
    assert!(is_refused(&ask(&server, "GET /v1/stream/plain", right, "")));
    // Records are shown as they are stored.
    let records = ask(&server, &format!("GET {stream}?records=1"), None, "");
    assert_eq!(records.status, 200);
    let lines = String::from_utf8(records.body).unwrap();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let record = STANDARD.decode(line["record"].as_str().unwrap_or_default()).unwrap();
        assert!(!record.windows(6).any(|window| window == b"second" || window == b"first "));
    }
    assert!(is_refused(&ask(&server, &format!("GET {stream}?records=1"), Some(&other), "")));
    server.stop();
    let server = Server::start(&sandbox, &data);
    let read = ask(&server, &format!("GET {stream}"), right, "");
    assert_eq!(String::from_utf8(read.body).unwrap(), "first second");
}

#[test]
fn a_retry_is_one_also_when_it_was_encrypted() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let key = text(KEY);
    ask(&server, "PUT /v1/stream/s", Some(&key), "");
    let append = |server: &Server, body: &str| {
        let headers = [
            ("content-type", "text/plain"),
            ("producer-id", "p"),
            ("producer-epoch", "0"),
            ("producer-seq", "0"),
            (KEY_HEADER, key.as_str()),
        ];
        server.ask("POST /v1/stream/s", &headers, body.as_bytes()).status
    };
    assert_eq!(append(&server, "once"), 200);
    assert_eq!(append(&server, "once"), 204);
    server.kill();
    let server = Server::start(&sandbox, &data);
    assert_eq!(append(&server, "once"), 204);
    assert_eq!(ask(&server, "GET /v1/stream/s", Some(&key), "").body, b"once");
}

#[test]
fn a_fork_has_the_key_of_what_it_was_forked_from() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let (key, other) = (text(KEY), text([9; 32]));
    ask(&server, "PUT /v1/stream/s", Some(&key), "one ");
    ask(&server, "POST /v1/stream/s", Some(&key), "two three");
    let fork = |path: &str, key: Option<&str>| {
        let mut headers = vec![
            ("stream-forked-from", "/v1/stream/s"),
            ("stream-fork-offset", "0000000000000000_0000000000000001"),
            ("stream-fork-sub-offset", "4"),
        ];
        headers.extend(key.map(|key| (KEY_HEADER, key)));
        server.ask(&format!("PUT /v1/stream/{path}"), &headers, b"")
    };
    assert!(is_refused(&fork("f", None)));
    assert!(is_refused(&fork("f", Some(&other))));
    assert_eq!(fork("f", Some(&key)).status, 201);
    ask(&server, "POST /v1/stream/f", Some(&key), "four");
    assert_eq!(ask(&server, "GET /v1/stream/f", Some(&key), "").body, b"one two four");
    assert!(is_refused(&ask(&server, "GET /v1/stream/f", None, "")));
}

#[test]
fn neither_key_nor_plaintext_is_on_the_disk() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let key = text(KEY);
    let plain = "these words are nowhere to be found";
    ask(&server, "PUT /v1/stream/s", Some(&key), plain);
    for _ in 0..20 {
        ask(&server, "POST /v1/stream/s", Some(&key), plain);
    }
    server.stop();
    for wanted in [plain.as_bytes(), &KEY, key.as_bytes(), STANDARD.encode(KEY).as_bytes()] {
        assert_eq!(find(&data, wanted), Vec::<String>::new());
    }
    // The search finds what is there.
    assert_ne!(find(&data, b"FJL"), Vec::<String>::new());
}
