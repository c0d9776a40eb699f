//! Producers whose epochs the server gives.

use super::server::{Answer, Server};
use crate::support::Sandbox;

struct Producer {
    epoch: String,
    next: u64,
    ticket: String,
}

fn acquire(server: &Server, path: &str, id: &str) -> Producer {
    let headers = [("producer-id", id), ("producer-acquire", "true")];
    let answer = server.ask(&format!("POST /v1/stream/{path}"), &headers, b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    Producer {
        epoch: answer.headers["producer-epoch"].clone(),
        next: answer.headers["producer-expected-seq"].parse().unwrap(),
        ticket: answer.headers["producer-ticket"].clone(),
    }
}

fn append(server: &Server, path: &str, as_whom: (&str, &str, &str, u64), body: &str) -> Answer {
    let (id, epoch, ticket, seq) = as_whom;
    let seq = seq.to_string();
    let mut headers = vec![
        ("content-type", "text/plain"),
        ("producer-id", id),
        ("producer-epoch", epoch),
        ("producer-seq", &seq),
    ];
    if !ticket.is_empty() {
        headers.push(("producer-ticket", ticket));
    }
    server.ask(&format!("POST /v1/stream/{path}"), &headers, body.as_bytes())
}

#[test]
fn who_acquires_goes_on_and_who_had_it_before_is_refused() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    let first = acquire(&server, "s", "hb:p");
    assert_eq!((first.epoch.as_str(), first.next), ("1", 0));
    let by = |who: &Producer, seq, text: &str, server: &Server| {
        append(server, "s", ("hb:p", &who.epoch, &who.ticket, seq), text).status
    };
    assert_eq!(by(&first, 0, "a", &server), 200);
    assert_eq!(by(&first, 1, "b", &server), 200);
    server.kill();
    // The server that comes after knows what was acquired, and its tickets.
    let server = Server::start(&sandbox, &data);
    assert_eq!(by(&first, 1, "b", &server), 204);
    let second = acquire(&server, "s", "hb:p");
    assert_eq!((second.epoch.as_str(), second.next), ("2", 2));
    assert_eq!(by(&first, 2, "zombie", &server), 403);
    assert_eq!(by(&second, 1, "b", &server), 204);
    assert_eq!(by(&second, 2, "c", &server), 200);
    assert_eq!(server.read("s"), "abc");
}

#[test]
fn no_epoch_is_good_without_its_ticket() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    server.create("t");
    assert_eq!(append(&server, "s", ("hb:p", "0", "", 0), "x").status, 403);
    assert_eq!(append(&server, "s", ("hb:p", "1", "", 0), "x").status, 403);
    let producer = acquire(&server, "s", "hb:p");
    let (epoch, ticket) = (producer.epoch.as_str(), producer.ticket.as_str());
    assert_eq!(append(&server, "s", ("hb:p", epoch, "", 0), "x").status, 403);
    // Of another stream, another producer, another epoch.
    assert_eq!(append(&server, "t", ("hb:p", epoch, ticket, 0), "x").status, 400);
    assert_eq!(append(&server, "s", ("hb:q", epoch, ticket, 0), "x").status, 400);
    assert_eq!(append(&server, "s", ("hb:p", "2", ticket, 0), "x").status, 400);
    for place in 0..ticket.len() {
        let mut edited = ticket.to_owned().into_bytes();
        edited[place] = if edited[place] == b'A' { b'B' } else { b'A' };
        let edited = String::from_utf8(edited).unwrap();
        let answer = append(&server, "s", ("hb:p", epoch, &edited, 0), "x");
        assert_eq!(answer.status, 400, "{place}");
        assert!(String::from_utf8_lossy(&answer.body).contains("invalid ticket"));
        let cut = &ticket[..place];
        let status = append(&server, "s", ("hb:p", epoch, cut, 0), "x").status;
        assert!(status == 400 || (cut.is_empty() && status == 403));
    }
    // A stream that has got the name of another one.
    assert_eq!(server.ask("DELETE /v1/stream/s", &[], b"").status, 204);
    server.create("s");
    assert_eq!(append(&server, "s", ("hb:p", epoch, ticket, 0), "x").status, 400);
    assert_eq!(server.read("s"), "");
}

#[test]
fn only_our_producers_are_acquired() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    for headers in [
        &[("producer-acquire", "true")][..],
        &[("producer-acquire", "true"), ("producer-id", "p")],
        &[("producer-acquire", "true"), ("producer-id", "hb:p"), ("producer-epoch", "1")],
    ] {
        assert_eq!(server.ask("POST /v1/stream/s", headers, b"").status, 400);
    }
    let headers = [("producer-acquire", "true"), ("producer-id", "hb:p")];
    assert_eq!(server.ask("POST /v1/stream/none", &headers, b"").status, 404);
}
