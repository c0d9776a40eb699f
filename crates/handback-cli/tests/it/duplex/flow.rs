//! How much is on its way at a time, and that nobody pays for others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use handback_stream::duplex::{ClientFrame, Format, ServerFrame};

use super::client::{Client, again, hello, texts};
use crate::streams::server::Server;
use crate::support::Sandbox;

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

/// Hears so many of both, in any order; gives the ids of the events.
fn acks_and_events(client: &mut Client, acks: usize, events: usize) -> Vec<String> {
    let (mut count, mut ids) = (0, Vec::new());
    while count < acks || ids.len() < events {
        match client.frame() {
            ServerFrame::Ack { .. } => count += 1,
            ServerFrame::Event(event) => ids.push(event.event_id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((count, ids.len()), (acks, events));
    ids
}

/// Whether nothing comes any more.
// comes any more.
fn is_held(client: &mut Client) -> bool {
    let before = client.socket.get_ref().read_timeout().unwrap();
    client.socket.get_ref().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let read = client.socket.read();
    client.socket.get_ref().set_read_timeout(before).unwrap();
    match read {
        Err(tokio_tungstenite::tungstenite::Error::Io(error)) => {
            error.kind() == std::io::ErrorKind::WouldBlock
        }
        _ => false,
    }
}

#[test]
fn who_does_not_acknowledge_gets_64_events() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello("k"));
    for seqno in 0..200 {
        client.chunk(seqno, seqno.to_string());
    }
    let events = acks_and_events(&mut client, 200, 64);
    assert_eq!(events.len(), 64);
    assert!(is_held(&mut client));
    // One frees one, ten free ten.
    client.ack(Some(&events[0]));
    assert_eq!(texts(&client.events(1)), ["64"]);
    assert!(is_held(&mut client));
    client.ack(Some(&events[10]));
    assert_eq!(texts(&client.events(10)).last().unwrap(), "74");
    assert!(is_held(&mut client));
    client.ack(None);
    client.ack(Some(&events[5]));
    assert!(is_held(&mut client), "what was acknowledged frees nothing again");
    let mut count = 75;
    let mut last = events[63].clone();
    while count < 200 {
        client.ack(Some(&last));
        let (id, data) = client.events(1).remove(0);
        assert_eq!(data, count.to_string());
        (last, count) = (id, count + 1);
    }
}

/// Memory of a process, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn two_hundred_at_once() {
    let sandbox = Sandbox::new();
    let server = Arc::new(server(&sandbox));
    let before = descriptors(server.pid());
    let threads: Vec<_> = (0..200)
        .map(|n| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                let key = format!("k{n}");
                let format = if n % 2 == 0 { Format::Json } else { Format::Protobuf };
                let (mut client, welcome) = Client::open(&server, "echo", format, hello(&key));
                for seqno in 0..10 {
                    client.chunk(seqno, format!("{n}.{seqno}"));
                }
                let mut kept = client.events(5);
                client.cut();
                let hello = again(&key, &welcome.token, Some(&kept[4].0));
                let (mut client, welcome) = Client::open(&server, "echo", format, hello);
                for seqno in welcome.next_seqno..10 {
                    client.chunk(seqno, format!("{n}.{seqno}"));
                }
                client.say(&ClientFrame::Close);
                let rest = client.rest();
                assert_eq!(rest.ends.len(), 1);
                kept.extend(rest.events);
                let expected: Vec<_> = (0..10).map(|seqno| format!("{n}.{seqno}")).collect();
                assert_eq!(texts(&kept), expected);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let deadline = Instant::now() + super::client::PATIENCE;
    while descriptors(server.pid()) > before + 5 {
        assert!(Instant::now() < deadline, "{} and {before}", descriptors(server.pid()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_does_not_acknowledge_gets_256_kib() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello("k"));
    for seqno in 0..5 {
        client.chunk(seqno, vec![b'x'; 100_000]);
    }
    let events = acks_and_events(&mut client, 5, 2);
    assert!(is_held(&mut client));
    client.ack(Some(&events[0]));
    let third = client.events(1);
    assert!(is_held(&mut client));
    client.ack(Some(&third[0].0));
    client.events(2);
    // One that is larger than what is left comes if nothing is outstanding.
    let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello("large"));
    client.chunk(0, "x");
    client.chunk(1, vec![b'x'; 256 << 10]);
    let small = acks_and_events(&mut client, 2, 1);
    assert!(is_held(&mut client));
    client.ack(Some(&small[0]));
    assert_eq!(client.events(1)[0].1.len(), 256 << 10);
}

#[test]
fn clients_that_read_nothing_cost_little_and_disturb_nobody() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut writer, _) = Client::open(&server, "relay", Format::Json, hello("big"));
    // From here on connections do not take over from each other.
    writer.say(&ClientFrame::Close);
    let line = "POST /v1/stream/__duplex/relay/big/out";
    let octets = [("content-type", "application/octet-stream")];
    let event = vec![b'x'; 256 << 10];
    for _ in 0..64 {
        assert_eq!(server.ask(line, &octets, &event).status, 204);
    }
    let before = memory(server.pid());
    let headers = [("x-idempotency-key", "big")];
    let deaf: Vec<_> = (0..40)
        .map(|_| Client::connect(&server, "relay", Format::Json, &headers).unwrap())
        .collect();
    // Others go on as if nothing was.
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello("other"));
    for seqno in 0..50 {
        client.chunk(seqno, "x");
        let events = client.events(1);
        client.ack(Some(&events[0].0));
    }
    // All of it, for each of them, would be 640 MiB.
    let grown = memory(server.pid()).saturating_sub(before);
    assert!(grown < 250 << 20, "{} MiB", grown >> 20);
    // They were not forgotten.
    let mut late = deaf.into_iter().next().unwrap();
    assert!(matches!(late.frame(), ServerFrame::Welcome(_)));
    assert_eq!(late.events(64).len(), 64);
}
