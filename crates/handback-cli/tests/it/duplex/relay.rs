//! Relays: the other end is a program that reads and appends by plain HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_stream::duplex::{CHUNK_BYTES_MAX, ClientFrame, Format, Hello, KeyText};

use super::client::{Client, hello, texts};
use crate::streams::server::Server;
use crate::support::Sandbox;

const OCTETS: (&str, &str) = ("content-type", "application/octet-stream");

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

#[test]
fn the_other_end_reads_appends_and_closes() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    // It is the handler when none is named.
    for (key, handler) in [("named", "relay"), ("default", "relay&x=")] {
        let (mut client, _) = Client::open(&server, handler, Format::Json, hello(key));
        client.chunk(0, "ques");
        client.chunk(1, "tion");
        client.acked(1);
        let (input, output) =
            (format!("__duplex/relay/{key}/in"), format!("__duplex/relay/{key}/out"));
        assert_eq!(server.read(&input), "question");
        let line = format!("POST /v1/stream/{output}");
        assert_eq!(server.ask(&line, &[OCTETS], b"an").status, 204);
        assert_eq!(texts(&client.events(1)), ["an"]);
        let producer = [
            OCTETS,
            ("producer-id", "p"),
            ("producer-epoch", "0"),
            ("producer-seq", "0"),
            ("stream-closed", "true"),
        ];
        assert_eq!(server.ask(&line, &producer, b"swer").status, 200);
        let rest = client.rest();
        assert_eq!((rest.texts(), rest.ends.len()), (vec!["swer".to_owned()], 1));
        assert!(!rest.ends[0].0);
        // Nothing reads chunks any more.
        let answer = server.ask(&format!("HEAD /v1/stream/{input}"), &[], b"");
        assert_eq!(answer.headers["stream-closed"], "true");
    }
}

#[test]
fn nothing_else_of_a_duplex_is_written_by_plain_requests() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (_echo, _) = Client::open(&server, "echo", Format::Json, hello("k"));
    let (_relay, _) = Client::open(&server, "relay", Format::Json, hello("k"));
    let reserved = [
        "POST /v1/stream/__duplex/relay/k/in",
        "PUT /v1/stream/__duplex/relay/k/in",
        "PUT /v1/stream/__duplex/relay/k/out",
        "PUT /v1/stream/__duplex/relay/new/out",
        "DELETE /v1/stream/__duplex/relay/k/in",
        "DELETE /v1/stream/__duplex/relay/k/out",
        "POST /v1/stream/__duplex/echo/k/in",
        "POST /v1/stream/__duplex/echo/k/out",
        "DELETE /v1/stream/__duplex/echo/k/out",
        "PUT /v1/stream/__duplex",
        "PUT /v1/stream/__duplex/x",
        "PUT /v1/stream/%5f%5fduplex/echo/k/out",
        "PUT /v1/stream/__duplex%2Fecho%2Fk%2Fout",
        "POST /v1/stream/__duplex/echo/k%2Fout",
        "POST /v1/stream/__dup%6Cex/echo/k/in",
    ];
    for line in reserved {
        let answer = server.ask(line, &[OCTETS], b"x");
        assert_eq!(answer.status, 403, "{line}");
        let body = String::from_utf8(answer.body).unwrap();
        assert!(body.contains("\"RESERVED\""), "{line}: {body}");
    }
    // Not by a way around, either.
    for line in [
        "POST /v1/stream/x/../__duplex/echo/k/in",
        "POST /v1/stream/./__duplex/echo/k/in",
        "POST /v1/stream//__duplex/echo/k/in",
        "POST /v1/stream/__duplex/relay/k/in/../out",
        "POST /v1/stream/__duplex/relay/..%2F..%2F__duplex/echo/k/out",
    ] {
        let answer = server.ask(line, &[OCTETS], b"x");
        assert!(matches!(answer.status, 400 | 403 | 404), "{line}: {answer:?}");
    }
    for path in ["relay/k/in", "relay/k/out", "echo/k/in", "echo/k/out"] {
        assert_eq!(server.read(&format!("__duplex/{path}")), "");
    }
    // The other end appends to what there is, as no one that the server speaks for.
    let nothing = server.ask("POST /v1/stream/__duplex/relay/new/out", &[OCTETS], b"x");
    assert_eq!(nothing.status, 404);
    let minted =
        [OCTETS, ("producer-id", "hb:handler"), ("producer-epoch", "9"), ("producer-seq", "0")];
    let answer = server.ask("POST /v1/stream/__duplex/relay/k/out", &minted, b"x");
    assert_eq!(answer.status, 403);
    assert_eq!(server.ask("PUT /v1/stream/__duplexes", &[OCTETS], b"x").status, 201);
}

#[test]
fn the_other_end_needs_the_stream_key() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let key = URL_SAFE_NO_PAD.encode([5; 32]);
    let hello = Hello { encryption_key: Some(KeyText(key.clone())), ..hello("k") };
    let (mut client, _) = Client::open(&server, "relay", Format::Json, hello);
    client.chunk(0, "question");
    client.acked(0);
    let key = ("x-idempotent-encryption-key", key.as_str());
    let wrong = URL_SAFE_NO_PAD.encode([6; 32]);
    let wrong = ("x-idempotent-encryption-key", wrong.as_str());
    let (read, append) =
        ("GET /v1/stream/__duplex/relay/k/in", "POST /v1/stream/__duplex/relay/k/out");
    for headers in [&[OCTETS][..], &[OCTETS, wrong][..]] {
        assert_eq!(server.ask(read, headers, b"").status, 403);
        assert_eq!(server.ask(append, headers, b"x").status, 403);
        let close = [headers, &[("stream-closed", "true")]].concat();
        assert_eq!(server.ask(append, &close, b"").status, 403);
    }
    assert_eq!(server.ask(read, &[key], b"").body, b"question");
    assert_eq!(server.ask(append, &[OCTETS, key], b"answer").status, 204);
    assert_eq!(texts(&client.events(1)), ["answer"]);
    assert_eq!(server.ask(append, &[key, ("stream-closed", "true")], b"").status, 204);
    assert_eq!(client.rest().ends.len(), 1);
}

#[test]
fn an_event_of_the_other_end_is_not_larger_than_a_client_takes() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for format in [Format::Json, Format::Protobuf] {
        let key = format!("{format:?}");
        let (mut client, _) = Client::open(&server, "relay", format, hello(&key));
        let line = format!("POST /v1/stream/__duplex/relay/{key}/out");
        for bytes in [CHUNK_BYTES_MAX + 1, 3 << 20] {
            let answer = server.ask(&line, &[OCTETS], &vec![0xfe; bytes]);
            assert_eq!(answer.status, 413, "{bytes}");
        }
        let largest = vec![0xfe; CHUNK_BYTES_MAX];
        assert_eq!(server.ask(&line, &[OCTETS], &largest).status, 204);
        assert!(client.events(1)[0].1 == largest);
    }
}

#[test]
fn an_abort_ends_a_relay_whatever_sequences_the_other_end_uses() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for seq in ["0001", "abort", "zzz"] {
        let (mut client, _) = Client::open(&server, "relay", Format::Json, hello(seq));
        let line = format!("POST /v1/stream/__duplex/relay/{seq}/out");
        assert_eq!(server.ask(&line, &[OCTETS, ("stream-seq", seq)], b"x").status, 204);
        assert_eq!(texts(&client.events(1)), ["x"]);
        client.say(&ClientFrame::Abort);
        let rest = client.rest();
        assert_eq!((rest.ends.len(), rest.errors), (1, vec![]), "{seq}");
        assert!(rest.ends[0].0, "{seq}");
        let again = server.ask(&line, &[OCTETS], b"late");
        assert_eq!(again.status, 409, "{seq}");
    }
}
