//! Servers that are killed or stopped under open duplexes.

use std::time::{Duration, Instant};

use handback_stream::duplex::{ClientFrame, Code, Format, Hello, ServerFrame};

use super::client::{Client, Heard, PATIENCE, again, hello, plain, texts};
use crate::streams::server::Server;
use crate::support::Sandbox;

/// How often a server is killed.
const KILLS: u32 = 40;

#[test]
fn every_chunk_is_echoed_once_however_often_the_server_dies() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut next: Hello = hello("k");
    let mut sent = Vec::new();
    let mut kept = Vec::new();
    for round in 0..KILLS {
        let server = Server::start(&sandbox, &data);
        let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, next);
        let acked = u32::try_from(sent.len()).unwrap();
        assert!(welcome.next_seqno >= acked, "round {round}: an acknowledged chunk is lost");
        // What was not acknowledged may be there or not.
        assert!(welcome.next_seqno <= acked + 1, "round {round}");
        let more = 3 + round % 3;
        for seqno in acked..acked + more {
            let text = format!("chunk {seqno}");
            if seqno >= welcome.next_seqno {
                client.chunk(seqno, text.clone());
            }
            sent.push(text);
        }
        // The last one is not waited for.
        sent.pop();
        let last_acked = acked + more - 2;
        let mut is_acked = welcome.next_seqno > last_acked;
        // Some rounds wait for events, some do not.
        let wanted = if round % 2 == 0 { 0 } else { sent.len() };
        while !is_acked || kept.len() < wanted {
            match client.frame() {
                ServerFrame::Ack { seqno } => is_acked |= seqno == last_acked,
                ServerFrame::Event(event) => {
                    client.ack(Some(&event.event_id));
                    kept.push(plain(event));
                }
                other => panic!("{other:?}"),
            }
        }
        server.kill();
        // What was on its way may still be read.
        while let Heard::Frame(frame) = client.hear() {
            if let ServerFrame::Event(event) = frame {
                kept.push(plain(event));
            }
        }
        let last = kept.last().map(|(id, _)| id.as_str());
        next = again("k", &welcome.token, last);
    }
    let server = Server::start(&sandbox, &data);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, next);
    if welcome.next_seqno as usize > sent.len() {
        sent.push(format!("chunk {}", sent.len()));
    }
    client.say(&ClientFrame::Close);
    let rest = loop {
        match client.frame() {
            ServerFrame::Event(event) => {
                client.ack(Some(&event.event_id));
                kept.push(plain(event));
            }
            ServerFrame::End { aborted, .. } => break aborted,
            other => panic!("{other:?}"),
        }
    };
    assert!(!rest);
    assert_eq!(texts(&kept), sent);
    assert_eq!(server.read("__duplex/echo/k/out"), sent.concat());
}

#[test]
fn a_handler_goes_on_after_a_restart_without_any_connection() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut expected = Vec::new();
    for round in 0..10 {
        let server = Server::start(&sandbox, &data);
        let key = format!("k{round}");
        let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        for seqno in 0..40 {
            client.chunk(seqno, format!("{seqno};"));
        }
        client.acked(39);
        server.kill();
        expected.push(key);
    }
    // Nobody connects.
    let server = Server::start(&sandbox, &data);
    let all: String = (0..40).map(|seqno| format!("{seqno};")).collect();
    let deadline = Instant::now() + PATIENCE;
    for key in expected {
        let path = format!("__duplex/echo/{key}/out");
        while server.read(&path) != all {
            assert!(Instant::now() < deadline, "{key}: {}", server.read(&path));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_close_that_was_not_consumed_is_after_a_restart() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    for round in 0..10u64 {
        let server = Server::start(&sandbox, &data);
        let key = format!("k{round}");
        let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        client.chunk(0, "x");
        let last = if round % 2 == 0 { ClientFrame::Close } else { ClientFrame::Abort };
        client.say(&last);
        std::thread::sleep(Duration::from_micros(round * 300));
        server.kill();
        let server = Server::start(&sandbox, &data);
        let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        if welcome.next_seqno == 0 {
            let _ = client.try_say(&ClientFrame::Chunk { seqno: 0, data: "x".into() });
        }
        let _ = client.try_say(&last);
        let rest = client.rest();
        if rest.errors == [Code::Closed] {
            assert_eq!(welcome.next_seqno, 0);
            continue;
        }
        assert_eq!(rest.ends.len(), 1, "round {round}: {rest:?}");
        assert_eq!(rest.ends[0].0, last == ClientFrame::Abort);
        assert!(rest.events.len() <= 1);
    }
}

#[test]
fn what_was_acknowledged_while_the_server_stopped_is_there() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut sent = 0;
    let mut next = hello("k");
    for round in 0..6u64 {
        let server = Server::start(&sandbox, &data);
        let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, next);
        assert!(welcome.next_seqno >= sent, "round {round}: an acknowledged chunk is lost");
        sent = welcome.next_seqno;
        let address = server.address;
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 + 10 * round));
            server.stop()
        });
        let mut seqno = sent;
        loop {
            let data = format!("{seqno};").into();
            if client.try_say(&ClientFrame::Chunk { seqno, data }).is_err() {
                break;
            }
            seqno += 1;
            match client.hear() {
                Heard::Frame(ServerFrame::Ack { seqno }) => sent = seqno + 1,
                Heard::Frame(ServerFrame::Event(event)) => {
                    let event_id = Some(event.event_id);
                    let _ = client.try_say(&ClientFrame::Ack { event_id });
                }
                _ => break,
            }
        }
        let rest = client.rest();
        sent = rest.acks.last().map_or(sent, |seqno| seqno + 1);
        // Who comes now is turned away, or not answered.
        let _ = std::net::TcpStream::connect(address);
        assert_eq!(stopper.join().unwrap(), 0);
        next = again("k", &welcome.token, None);
    }
    let server = Server::start(&sandbox, &data);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, next);
    assert!(welcome.next_seqno >= sent && sent > 10);
    client.say(&ClientFrame::Close);
    let all: String = (0..welcome.next_seqno).map(|seqno| format!("{seqno};")).collect();
    let mut events = String::new();
    while let ServerFrame::Event(event) = client.frame() {
        client.ack(Some(&event.event_id));
        events.push_str(std::str::from_utf8(&plain(event).1).unwrap());
    }
    assert_eq!(events, all);
}

#[test]
fn a_server_that_stops_says_so_and_ends_soon() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let mut open: Vec<_> = (0..10)
        .map(|n| {
            let key = format!("k{n}");
            let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello(&key));
            client.chunk(0, "x");
            let events = client.events(1);
            (key, client, welcome, events)
        })
        .collect();
    // One that has not said hello yet, and one that reads nothing.
    let mut silent = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
    let headers = [("x-idempotency-key", "deaf")];
    let mut deaf = Client::connect(&server, "echo", Format::Json, &headers).unwrap();
    for seqno in 0..8 {
        deaf.chunk(seqno, vec![b'x'; 200_000]);
    }
    let start = Instant::now();
    assert_eq!(server.stop(), 0);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(silent.rest().errors, [Code::Stopping]);
    for (_, client, ..) in &mut open {
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Stopping], Some(4503)));
    }
    let server = Server::start(&sandbox, &data);
    for (key, _, welcome, events) in open {
        let hello = again(&key, &welcome.token, Some(&events[0].0));
        let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello);
        assert_eq!(welcome.next_seqno, 1);
        client.chunk(1, "y");
        assert_eq!(texts(&client.events(1)), ["y"]);
    }
}

#[test]
fn a_restart_adds_nothing_to_what_has_nothing_left() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello("used"));
    client.chunk(0, "x");
    client.events(1);
    client.cut();
    let (client, _) = Client::open(&server, "echo", Format::Json, hello("new"));
    client.cut();
    server.stop();
    let ends = |server: &Server| {
        ["used", "new"].map(|key| {
            let line = format!("HEAD /v1/stream/__duplex/echo/{key}/out");
            server.ask(&line, &[], b"").headers["stream-next-offset"].clone()
        })
    };
    let server = Server::start(&sandbox, &data);
    let before = ends(&server);
    server.stop();
    for round in 0..3 {
        let server = Server::start(&sandbox, &data);
        // What the start left to do is done before this is answered.
        let key = format!("other{round}");
        let (mut client, _) = Client::open(&server, "echo", Format::Json, hello(&key));
        client.chunk(0, "x");
        client.events(1);
        assert_eq!(ends(&server), before);
        server.stop();
    }
}
