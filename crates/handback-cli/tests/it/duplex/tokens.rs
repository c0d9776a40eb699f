//! Resume tokens that are good, were good, or never were.

use std::collections::BTreeSet;

use handback_stream::duplex::{Code, Format, Hello, ServerFrame, Token};

use super::client::{Client, again, hello};
use crate::streams::server::Server;
use crate::support::Sandbox;

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

fn refusal(server: &Server, handler: &str, hello: Hello) -> Option<(Code, String)> {
    match Client::try_open(server, handler, Format::Protobuf, hello) {
        Ok((client, _)) => {
            client.cut();
            None
        }
        Err(refused) => Some(refused),
    }
}

/// How far the stream of chunks goes: a connection that is opened makes it longer.
fn end(server: &Server, path: &str) -> String {
    let answer = server.ask(&format!("HEAD /v1/stream/{path}"), &[], b"");
    answer.headers["stream-next-offset"].clone()
}

#[test]
fn a_token_is_good_until_a_later_one_was_presented() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let open = |hello: Hello| {
        let (client, welcome) = Client::open(&server, "echo", Format::Json, hello);
        client.cut();
        welcome.token
    };
    let is_good = |token: &Token| refusal(&server, "echo", again("k", token, None)).is_none();
    // As long as nothing was acknowledged, the key alone is enough, and every token is good.
    let first = open(hello("k"));
    let second = open(hello("k"));
    assert!(is_good(&first) && is_good(&first) && is_good(&second));
    // The second one was presented.
    assert!(!is_good(&first) && is_good(&second));
    assert_eq!(refusal(&server, "echo", hello("k")).unwrap().0, Code::Invalid);
    let third = open(again("k", &second, None));
    assert!(is_good(&second), "its answer may be lost");
    assert!(is_good(&third) && !is_good(&second) && is_good(&third));
}

#[test]
fn a_token_is_good_until_a_later_one_was_received() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, first) = Client::open(&server, "echo", Format::Json, hello("k"));
    client.ack(None);
    client.chunk(0, "x");
    // The ack is durable some time after it was sent: a later ack tells when.
    client.events(1);
    client.cut();
    let deadline = std::time::Instant::now() + super::client::PATIENCE;
    while refusal(&server, "echo", hello("k")).is_none() {
        assert!(std::time::Instant::now() < deadline, "the key alone is good for ever");
    }
    let (mut client, second) =
        Client::open(&server, "echo", Format::Json, again("k", &first.token, None));
    assert!(second.generation > first.generation);
    client.ack(None);
    client.chunk(1, "y");
    client.acked(1);
    client.cut();
    while refusal(&server, "echo", again("k", &first.token, None)).is_none() {
        assert!(std::time::Instant::now() < deadline, "the first token is good for ever");
    }
    assert_eq!(refusal(&server, "echo", again("k", &second.token, None)), None);
}

#[test]
fn a_token_too_long_to_be_one_is_no_frame() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let long = Hello { resume_token: Some("A".repeat(513)), ..hello("k") };
    assert_eq!(refusal(&server, "echo", long).unwrap().0, Code::Malformed);
    assert_eq!(refusal(&server, "echo", hello(&"k".repeat(129))).unwrap().0, Code::Malformed);
    assert_eq!(refusal(&server, "echo", hello(&"k".repeat(128))), None);
}

#[test]
fn a_token_of_a_duplex_that_is_gone_does_not_make_another() {
    let sandbox = Sandbox::with_ring();
    let server = Server::start_in_memory(&sandbox);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello("k"));
    assert_eq!(welcome.mode, handback_stream::duplex::Mode::Memory);
    assert!(welcome.mode.is_degraded() && welcome.reason.is_some());
    client.chunk(0, "x");
    assert_eq!(client.frame(), ServerFrame::Ack { seqno: 0 });
    server.kill();
    let server = Server::start_in_memory(&sandbox);
    let (code, _) = refusal(&server, "echo", again("k", &welcome.token, None)).unwrap();
    assert_eq!(code, Code::Expired);
    let answer = server.ask("HEAD /v1/stream/__duplex/echo/k/in", &[], b"");
    assert_eq!(answer.status, 404);
}

#[test]
fn every_other_token_is_invalid_and_has_no_effect() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello("k"));
    client.chunk(0, "x");
    client.acked(0);
    let (_, foreign) = Client::open(&server, "echo", Format::Json, hello("other"));
    let (_, relayed) = Client::open(&server, "relay", Format::Json, hello("k"));
    let elsewhere = Sandbox::new();
    let other = Server::start(&elsewhere, &elsewhere.path("data"));
    let (_, ringed) = Client::open(&other, "echo", Format::Json, hello("k"));
    let good = welcome.token.resume_token;
    let mut bad = vec![
        String::new(),
        "x".to_owned(),
        format!("{good}A"),
        format!(" {good}"),
        "A".repeat(512),
        foreign.token.resume_token,
        relayed.token.resume_token,
        ringed.token.resume_token,
    ];
    bad.extend((0..good.len()).map(|length| good[..length].to_owned()));
    for (place, char) in good.char_indices() {
        let other = if char == 'A' { "B" } else { "A" };
        bad.push(format!("{}{other}{}", &good[..place], &good[place + 1..]));
    }
    let before = end(&server, "__duplex/echo/k/in");
    let mut messages = BTreeSet::new();
    for token in &bad {
        let hello = Hello { resume_token: Some(token.clone()), ..hello("k") };
        let (code, message) = refusal(&server, "echo", hello).expect(token);
        assert_eq!(code, Code::Invalid, "{token}");
        messages.insert(message);
    }
    assert_eq!(end(&server, "__duplex/echo/k/in"), before);
    // The connection is still the one that drives it.
    client.chunk(1, "y");
    client.acked(1);
    // What else is not right is told in the same words.
    let event_id = Some("0000000000000000_0000000000000099".to_owned());
    let key = handback_stream::duplex::KeyText("A".repeat(43));
    for hello in [
        Hello { event_id: Some("x".to_owned()), ..hello("k") },
        Hello { event_id, ..hello("k") },
        Hello { encryption_key: Some(key), ..hello("k") },
        hello(""),
        hello(".."),
        hello("a/b"),
        hello(&"k".repeat(128)[..0]),
    ] {
        let (code, message) = refusal(&server, "echo", hello).unwrap();
        assert_eq!(code, Code::Invalid);
        messages.insert(message);
    }
    assert_eq!(messages.len(), 1, "{messages:?}");
    client.chunk(2, "z");
    client.acked(2);
}
