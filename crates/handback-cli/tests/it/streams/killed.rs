//! Servers that are killed right after they answered, or before.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::server::{Server, producer, read, request};
use crate::config;
use crate::support::Sandbox;

#[test]
fn what_was_acknowledged_is_there_once_and_stale_epochs_are_refused() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut expected = String::new();
    let (mut epoch, mut seq) = (5, 0);
    for round in 0..config::kills() {
        let server = Server::start(&sandbox, &data);
        if round == 0 {
            server.create("s");
        }
        let text = format!("{round};");
        let first = server.produce("s", epoch, seq, &text);
        assert_eq!(first.status, 200, "round {round}: {first:?}");
        server.kill();
        expected.push_str(&text);

        let server = Server::start(&sandbox, &data);
        let again = server.produce("s", epoch, seq, &text);
        assert_eq!(again.status, 204, "round {round}: the retry is not known: {again:?}");
        let stale = server.produce("s", epoch - 1, 0, "zombie;");
        assert_eq!(stale.status, 403, "round {round}: {stale:?}");
        assert_eq!(stale.headers["producer-epoch"], epoch.to_string());
        assert_eq!(server.read("s"), expected, "round {round}");
        if round % 3 == 0 {
            (epoch, seq) = (epoch + 1, 0);
        } else {
            seq += 1;
        }
        server.kill();
    }
}

#[test]
fn an_append_that_was_cut_off_is_there_once_after_a_retry() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut expected = String::new();
    for round in 0..config::kills() / 2 {
        let server = Server::start(&sandbox, &data);
        if round == 0 {
            server.create("s");
        }
        let (text, seq) = (format!("{round};"), round.to_string());
        let headers = producer("0", &seq);
        let bytes = request(server.address, "POST /v1/stream/s", &headers, text.as_bytes());
        let mut stream = server.connect();
        stream.write_all(&bytes).unwrap();
        // Some die before they have read it, some after they have written it.
        std::thread::sleep(std::time::Duration::from_micros(round % 20 * 150));
        server.kill();
        let told = read(&mut stream).status;
        assert!(matches!(told, 0 | 200), "{told}");

        let server = Server::start(&sandbox, &data);
        let again = server.produce("s", 0, round, &text);
        assert!(matches!(again.status, 200 | 204), "{again:?}");
        assert!(told == 0 || again.status == 204, "round {round}: an acknowledged append is lost");
        expected.push_str(&text);
        assert_eq!(server.read("s"), expected, "round {round}");
        server.kill();
    }
}

/// Those whose commands are committed together.
const CROWD: usize = 16;

#[test]
fn a_crowd_that_was_cut_off_is_there_once_after_retries() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    // What each is to send next, for the first time or again.
    let mut next = [0_u64; CROWD];
    for round in 0..config::kills() / 4 {
        let server = Server::start(&sandbox, &data);
        if round == 0 {
            server.create("s");
        }
        let address = server.address;
        let crowd: Vec<_> = (0..CROWD)
            .zip(next)
            .map(|(who, next)| std::thread::spawn(move || append_until_cut(address, who, next)))
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(15 + round % 11 * 3));
        server.kill();
        for (next, one) in next.iter_mut().zip(crowd) {
            *next = one.join().unwrap();
        }
        let server = Server::start(&sandbox, &data);
        let mut there = [0_u64; CROWD];
        for event in server.read("s").split_terminator(';') {
            let (who, number) = event.split_once('.').unwrap();
            let there = &mut there[who.parse::<usize>().unwrap()];
            assert_eq!(number, there.to_string(), "round {round}: of {who}");
            *there += 1;
        }
        for (who, (there, next)) in there.into_iter().zip(next).enumerate() {
            let is_kept = there == next || there == next + 1;
            assert!(is_kept, "round {round}: {there} of {who} are there, {next} acknowledged");
        }
    }
    assert!(next.iter().all(|next| *next > 0), "{next:?}");
}

/// Gives the number that was not acknowledged.
fn append_until_cut(address: std::net::SocketAddr, who: usize, mut next: u64) -> u64 {
    loop {
        let (id, seq) = (format!("p{who}"), next.to_string());
        let mut headers = producer("0", &seq);
        headers[1].1 = &id;
        let body = format!("{who}.{next};");
        let bytes = request(address, "POST /v1/stream/s", &headers, body.as_bytes());
        let Ok(mut stream) = std::net::TcpStream::connect(address) else { return next };
        if stream.write_all(&bytes).is_err() {
            return next;
        }
        match read(&mut stream).status {
            200 | 204 => next += 1,
            0 => return next,
            other => panic!("{other}"),
        }
    }
}

#[test]
fn what_a_reader_saw_is_never_taken_back() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let mut seen = String::new();
    for round in 0..10 {
        let server = Arc::new(Server::start(&sandbox, &data));
        if round == 0 {
            server.create("s");
        }
        let there = server.read("s");
        assert!(there.starts_with(&seen), "round {round}: a reader saw more than is there");
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("{round}.{number};");
                    let headers = [("content-type", "text/plain")];
                    let mut stream = server.connect();
                    let bytes =
                        request(server.address, "POST /v1/stream/s", &headers, text.as_bytes());
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                    read(&mut stream);
                    number += 1;
                }
            }
        });
        // A loaded machine may need more reads until one meets a write.
        for reads in 0.. {
            seen = server.read("s");
            if reads >= 8 && seen.len() >= there.len() + 10 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        Arc::into_inner(server).unwrap().kill();
    }
    assert!(seen.len() > 50);
}

#[test]
fn a_server_that_is_stopped_ends_what_is_under_way_and_goes_on_later() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    server.create("s");
    assert_eq!(server.produce("s", 0, 0, "a").status, 200);
    // A long poll is under way.
    let mut waiting = server.connect();
    let line = "GET /v1/stream/s?offset=now&live=long-poll";
    waiting.write_all(&request(server.address, line, &[], b"")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(server.stop(), 0);
    assert_eq!(read(&mut waiting).status, 204);
    let server = Server::start(&sandbox, &data);
    assert_eq!(server.produce("s", 0, 0, "a").status, 204);
    assert_eq!(server.produce("s", 0, 1, "b").status, 200);
    assert_eq!(server.read("s"), "ab");
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let _server = Server::start(&sandbox, &data);
    let folder = data.to_str().unwrap();
    let ran =
        sandbox.run_words(&["serve", "--no-demo", "--listen", "127.0.0.1:0", "--data", folder]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("in use"), "{}", ran.stderr);
}
