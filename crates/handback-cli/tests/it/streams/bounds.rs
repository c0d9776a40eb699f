//! Who may ask, and how much.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::server::{Server, read, request};
use crate::support::Sandbox;

#[test]
fn foreign_hosts_and_origins_are_turned_away_on_every_route() {
    let sandbox = Sandbox::new();
    let more = ["--allow-origin", "https://app.example"];
    let server = Server::start_with(&sandbox, &sandbox.path("data"), &more);
    server.create("s");
    let own = format!("http://{}", server.address);
    for route in ["/v1/stream/s", "/v1/stream/__ds/jwks.json", "/v1/keys", "/healthz", "/readyz"] {
        let line = format!("GET {route}");
        let status = |name, value: &str| server.ask(&line, &[(name, value)], b"").status;
        assert_eq!(status("origin", &own), 200, "{route}");
        assert_eq!(status("origin", "https://app.example"), 200, "{route}");
        assert_eq!(status("host", "localhost"), 200, "{route}");
        for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
            assert_eq!(status("origin", origin), 403, "{route} {origin}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example"] {
            assert_eq!(status("host", host), 421, "{route} {host}");
        }
    }
    let preflight = [("origin", "https://evil.example"), ("access-control-request-method", "PUT")];
    let answer = server.ask("OPTIONS /v1/stream/s", &preflight, b"");
    assert_eq!(answer.status, 204);
    assert!(answer.headers["access-control-allow-headers"].contains("producer-seq"));
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let allowed = [("origin", "https://app.example")];
    let answer = server.ask("GET /v1/stream/s", &allowed, b"");
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
}

#[test]
fn a_host_in_the_first_line_counts_as_well() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let status = |host: &str| server.ask(&format!("GET http://{host}/healthz"), &[], b"").status;
    assert_eq!(status(&server.address.to_string()), 200);
    assert_eq!(status("localhost"), 200);
    for host in ["evil.example", "localhost.evil.example:80", "10.0.0.1", "user@evil.example"] {
        assert_eq!(status(host), 421, "{host}");
    }
}

#[test]
fn bad_requests_get_an_answer_and_change_nothing() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    let text = ("content-type", "text/plain");
    let long = "x".repeat(300);
    let check = |line: &str, headers: &[(&str, &str)], body: &[u8], expected: u16| {
        let answer = server.ask(line, headers, body);
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).take(9).collect();
        assert_eq!(answer.status, expected, "{line} {names:?}: {answer:?}");
    };
    let post = "POST /v1/stream/s";
    check(post, &[text], b"", 400);
    check(post, &[], b"x", 400);
    check(post, &[("content-type", "application/json")], b"{}", 409);
    check(post, &[text, ("producer-id", "p")], b"x", 400);
    for (id, epoch, seq) in [
        ("", "0", "0"),
        (&long, "0", "0"),
        ("p", "-1", "0"),
        ("p", "0", "1e3"),
        ("p", "0", "9007199254740992"),
    ] {
        let tag = [text, ("producer-id", id), ("producer-epoch", epoch), ("producer-seq", seq)];
        check(post, &tag, b"x", 400);
    }
    let minted = [text, ("producer-id", "hb:x"), ("producer-epoch", "0"), ("producer-seq", "0")];
    check(post, &minted, b"x", 403);
    check(post, &[text, ("stream-seq", &long)], b"x", 400);
    check(post, &[text], &vec![b'x'; (4 << 20) + 1], 413);
    for path in ["../etc", "a/../b", "a//b", "%2e%2e/x", "a%00b", "", "__ds/x", "%5f%5fds/x"] {
        let answer = server.ask(&format!("PUT /v1/stream/{path}"), &[text], b"");
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
    for offset in ["x", "", "1", "../..", "0000000000000000_0000000000000009", "now&offset=now"] {
        check(&format!("GET /v1/stream/s?offset={offset}"), &[], b"", 400);
    }
    check("GET /v1/stream/s?live=sse", &[], b"", 400);
    check("PATCH /v1/stream/s", &[], b"", 405);
    check("GET /nothing", &[], b"", 404);
    let many: Vec<_> = (0..100).map(|_| ("x-many", "y")).collect();
    check("GET /v1/stream/s", &many, b"", 431);
    for length in [16_384, 60_000, 500_000] {
        let huge = "x".repeat(length);
        check("GET /v1/stream/s", &[("x-huge", &huge)], b"", 431);
    }
    assert_eq!(server.read("s"), "");
}

#[test]
fn readers_that_do_not_read_hold_up_nobody() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    let stalled: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = server.connect();
            let line = "GET /v1/stream/s?offset=-1&live=sse";
            stream.write_all(&request(server.address, line, &[], b"")).unwrap();
            stream
        })
        .collect();
    let big = "x".repeat(1 << 20);
    for seq in 0..16 {
        assert_eq!(server.produce("s", 0, seq, &big).status, 200);
    }
    // A page is bounded, whatever there is.
    let page = server.ask("GET /v1/stream/s", &[], b"");
    assert!(page.body.len() <= 5 << 20, "{}", page.body.len());
    assert!(!page.headers.contains_key("stream-up-to-date"));
    let kib = resident_kib(&server);
    assert!(kib < 700 << 10, "{kib} KiB");
    drop(stalled);
}

/// What a server has in memory.
fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    resident.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn only_loopback_addresses_are_listened_on_without_identities() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_words(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("loopback"), "{}", ran.stderr);
}

#[test]
fn half_a_request_is_given_up() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    let mut half = server.connect();
    half.write_all(
        b"POST /v1/stream/s HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n",
    )
    .unwrap();
    half.write_all(b"content-length: 10\r\n\r\nabc").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = read(&mut half);
    assert!(matches!(answer.status, 0 | 400), "{answer:?}");
    assert_eq!(server.read("s"), "");
}

/// Connections that say nothing.
const SILENT: usize = 10_000;

/// Raises what this process may have open, for its own ends of the connections.
fn raise_files() {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    assert!(maximum >= SILENT as u64 + 500, "a process may have only {maximum} files here");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

#[test]
fn ten_thousand_that_say_nothing_hold_up_nobody() {
    raise_files();
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    let mut silent = Vec::with_capacity(SILENT);
    for number in 1..=SILENT {
        silent.push(std::net::TcpStream::connect(server.address).unwrap());
        if number % 1_000 == 0 {
            let start = Instant::now();
            assert_eq!(server.ask("GET /healthz", &[], b"").status, 200, "beside {number}");
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        }
    }
    let text = [("content-type", "text/plain")];
    assert_eq!(server.ask("POST /v1/stream/s", &text, b"x").status, 204);
    let kib = resident_kib(&server);
    assert!(kib < 300 << 10, "{kib} KiB");
    // Nobody is kept who never says anything: they are left, one after the other.
    let mut last = silent.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(last.read(&mut [0; 1]), Ok(0)));
    drop(silent);
    assert_eq!(server.read("s"), "x");
}

#[test]
fn connections_leave_the_store_its_files() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    server.kill();
    // 60 files for all: connections get half of them.
    let server = Server::start_with_files(&sandbox, &sandbox.path("data"), 60);
    let mut first = server.connect();
    let many: Vec<_> = (0..80).map(|_| server.connect()).collect();
    let post =
        request(server.address, "POST /v1/stream/s", &[("content-type", "text/plain")], b"x");
    first.write_all(&post).unwrap();
    assert_eq!(read(&mut first).status, 204);
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    assert!((30..=54).contains(&open), "{open} of 60 files are open");
    // Those that wait have their turn when others end.
    drop(many);
    assert_eq!(server.read("s"), "x");
}

#[test]
fn a_sequence_that_comes_again_with_other_bytes_is_told_to_the_operator() {
    let sandbox = Sandbox::new();
    let told = sandbox.path("told");
    let server = Server::start_telling(&sandbox, &sandbox.path("data"), &told);
    server.create("s");
    assert_eq!(server.produce("s", 0, 0, "one").status, 200);
    assert_eq!(server.produce("s", 0, 0, "one").status, 204);
    assert_eq!(server.produce("s", 0, 0, "secret").status, 204);
    assert_eq!(server.stop(), 0);
    let told = std::fs::read_to_string(told).unwrap();
    let warnings: Vec<_> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{told}");
    assert!(warnings[0].contains("a sequence came again with other bytes"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}
