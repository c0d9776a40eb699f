//! Input that has begun to arrive and does not end: what it costs, and who pays for it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::streams::server::{Answer, Server, read, request};
use crate::support::Sandbox;

const MIB: usize = 1 << 20;

/// The most that one caller may have: a quarter of `limits.input_bytes`.
const SHARE: u64 = 10 << 20;

/// Connections with a MiB each: many times the share.
const CONNECTIONS: usize = 200;

/// More memory than the share needs with all that is around it, and less than all connections send.
const MEMORY: u64 = 100 << 20;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server with two callers and somebody who reads its metrics.
struct World {
    server: Server,
    sandbox: Sandbox,
    alice: String,
    bob: String,
    operator: String,
}

impl World {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let token = |who: &str| {
            let line = format!("identity add --file identities --subject {who}");
            format!("Bearer {}", sandbox.json(&line)["token"].as_str().unwrap())
        };
        let (alice, bob) = (token("alice"), token("bob"));
        let operator = token("operator --scope handback:metrics");
        let config = "unix_socket = \"h.sock\"\n[limits]\ninput_bytes = 41943040\ncaller_share = 4\n\
                      [identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";
        sandbox.write("handback.toml", config);
        let config = sandbox.path("handback.toml");
        let more = ["--config", config.to_str().unwrap()];
        let server = Server::start_with(&sandbox, &sandbox.path("data"), &more);
        Self { server, sandbox, alice, bob, operator }
    }

    fn ask(&self, line: &str, token: &str, body: &[u8]) -> Answer {
        let headers = [("authorization", token), ("content-type", "text/plain")];
        self.server.ask(line, &headers, body)
    }

    /// Bytes of unfinished input, as the metrics have them.
    fn unfinished(&self) -> u64 {
        let answer = self.ask("GET /metrics", &self.operator, b"");
        let text = String::from_utf8(answer.body).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix("handback_input_bytes_unfinished "));
        let bytes = line.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
        assert!(bytes <= SHARE, "{bytes}");
        bytes
    }

    /// Waits until so many bytes are counted.
    fn until_unfinished(&self, is_enough: impl Fn(u64) -> bool) {
        let start = Instant::now();
        while !is_enough(self.unfinished()) {
            assert!(start.elapsed() < PATIENCE, "{} bytes", self.unfinished());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The most memory that the server has had.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// A request of which a part is sent.
    fn begin(&self, line: &str, token: &str, announced: usize, sent: usize) -> TcpStream {
        let length = announced.to_string();
        let kind = if line.contains("stream") { "text/plain" } else { "application/json" };
        let headers = [
            ("authorization", token),
            ("content-type", kind),
            ("accept", "application/json, text/event-stream"),
            ("content-length", &length),
        ];
        let mut stream = self.server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&request(self.server.address, line, &headers, b"")).unwrap();
        stream.write_all(&vec![b' '; sent]).unwrap();
        stream
    }

    fn socket(&self) -> UnixStream {
        let stream = UnixStream::connect(self.sandbox.path("h.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A WebSocket of a duplex of which the last frame has begun.
    fn duplex(&self, key: &str, announced: usize, sent: usize) -> TcpStream {
        let headers = [
            ("authorization", self.alice.as_str()),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("x-idempotency-key", key),
        ];
        let text = request(self.server.address, "GET /v1/duplex?handler=echo", &headers, b"");
        let text =
            String::from_utf8(text).unwrap().replace("connection: close", "connection: upgrade");
        let mut stream = self.server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        // A text frame with a mask that changes nothing.
        let mut frame = vec![0x81, 0xff];
        frame.extend((announced as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.resize(frame.len() + sent, b' ');
        stream.write_all(&frame).unwrap();
        stream
    }
}

/// Reads answers of many connections at once, in threads that end with the server.
fn answers<S: Send + 'static, T: Send + 'static>(
    all: Vec<S>,
    read: impl Fn(&mut S) -> T + Copy + Send + 'static,
) -> mpsc::Receiver<T> {
    let (sender, answers) = mpsc::channel();
    for mut stream in all {
        let sender = sender.clone();
        thread::spawn(move || sender.send(read(&mut stream)));
    }
    answers
}

/// Everything that comes, as text.
fn heard(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn answered(stream: &mut UnixStream) -> Value {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return Value::Null;
    }
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn wound_a11_unfinished_bodies_count_for_their_caller() {
    let world = World::new();
    for token in [&world.alice, &world.bob] {
        assert_eq!(world.ask("PUT /v1/stream/a", token, b"").status, 201);
    }
    let before = world.memory();
    let mut oldest = world.begin("POST /v1/stream/a", &world.alice, 2 * MIB, MIB);
    world.until_unfinished(|bytes| bytes >= MIB as u64);
    let routes = ["POST /v1/stream/a", "POST /mcp", "POST /v1/tools/a/run"];
    let others: Vec<_> = (1..CONNECTIONS)
        .map(|n| world.begin(routes[n % routes.len()], &world.alice, 2 * MIB, MIB))
        .collect();
    world.until_unfinished(|bytes| bytes > SHARE / 2);
    // Another caller is served meanwhile, with as large a request.
    assert_eq!(world.ask("POST /v1/stream/a", &world.bob, &vec![b'b'; 2 * MIB]).status, 204);
    // What began first comes to its end.
    oldest.write_all(&vec![b' '; MIB]).unwrap();
    assert_eq!(read(&mut oldest).status, 204);
    // The newest of the others are refused, on every route in the same words.
    let answers = answers(others, read);
    let mut bodies = Vec::new();
    while bodies.len() < CONNECTIONS * 9 / 10 {
        let answer = answers.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(answer.status, 429 | 408), "{answer:?}");
        if answer.status == 429 {
            assert_eq!(answer.headers["retry-after"], "20");
            let answer: Value = serde_json::from_slice(&answer.body).unwrap();
            let code = answer["error"]["code"].as_str().unwrap().to_ascii_lowercase();
            bodies.push(format!("{code}: {}", answer["error"]["message"]));
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(bodies[0].contains("too many bytes of unfinished input"), "{bodies:?}");
    let more = world.memory() - before;
    assert!(more < MEMORY, "{} MiB", more >> 20);
    // All of it is given back.
    drop(answers);
    world.until_unfinished(|bytes| bytes == 0);
}

#[test]
fn wound_a11_unfinished_frames_count_for_their_caller() {
    let world = World::new();
    let before = world.memory();
    let frame = |announced: usize| {
        let mut text = format!("{{\"type\":\"ping\",\"pad\":\"{}\"}}", "x".repeat(announced));
        text.insert_str(0, "\0\0\0\0");
        let mut bytes = text.into_bytes();
        let length = u32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes
    };
    let large = frame(2 * MIB);
    let begin = || {
        let mut stream = world.socket();
        stream.write_all(&large[..MIB]).unwrap();
        stream
    };
    let mut oldest = begin();
    world.until_unfinished(|bytes| bytes >= MIB as u64);
    let others: Vec<_> = (1..CONNECTIONS).map(|_| begin()).collect();
    world.until_unfinished(|bytes| bytes > SHARE / 2);
    oldest.write_all(&large[MIB..]).unwrap();
    assert_eq!(answered(&mut oldest), json!({"type": "pong"}));
    // A short frame on a new connection, and a caller over HTTP.
    let mut short = world.socket();
    short.write_all(&frame(10)).unwrap();
    assert_eq!(answered(&mut short), json!({"type": "pong"}));
    assert_eq!(world.ask("PUT /v1/stream/a", &world.bob, &vec![b'b'; MIB]).status, 201);
    let answers = answers(others, answered);
    let mut refused = 0;
    while refused < CONNECTIONS * 9 / 10 {
        let answer = answers.recv_timeout(PATIENCE).unwrap();
        let message = answer["message"].as_str().unwrap();
        assert_eq!((&answer["code"], &answer["retryable"]), (&json!(1002), &json!(true)));
        refused += usize::from(message.contains("too many bytes of unfinished input"));
    }
    let more = world.memory() - before;
    assert!(more < MEMORY, "{} MiB", more >> 20);
}

#[test]
fn wound_a11_unfinished_frames_of_websockets_count_for_their_caller() {
    let world = World::new();
    let sockets = (0..40).map(|n| world.duplex(&format!("k{n}"), MIB, MIB / 2)).collect();
    let answers = answers(sockets, heard);
    let mut refused = 0;
    while refused < 20 {
        let text = answers.recv_timeout(PATIENCE).unwrap();
        assert!(text.contains("\"BUSY\""), "{text}");
        refused += usize::from(text.contains("too many bytes of unfinished input"));
    }
    world.unfinished();
    assert_eq!(world.ask("PUT /v1/stream/a", &world.bob, &vec![b'b'; MIB]).status, 201);
}

#[test]
fn wound_a11_input_that_trickles_is_refused_with_words() {
    let world = World::new();
    assert_eq!(world.ask("PUT /v1/stream/a", &world.alice, b"").status, 201);
    let body = world.begin("POST /v1/stream/a", &world.alice, MIB, 1 << 10);
    let large = world.begin("POST /v1/stream/a", &world.alice, MIB, MIB - 1);
    let duplex = world.duplex("k", MIB / 2, 1 << 10);
    // A connection that has said something: the first frame has its own time.
    let mut socket = world.socket();
    socket.write_all(b"\0\0\0\x0f{\"type\":\"ping\"}").unwrap();
    assert_eq!(answered(&mut socket), json!({"type": "pong"}));
    socket.write_all(b"\0\0\x40\0{").unwrap();
    let start = Instant::now();
    for mut stream in [body, large] {
        let answer = read(&mut stream);
        assert_eq!(answer.status, 408, "{answer:?}");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains("too slow"), "{text}");
    }
    let mut sockets = [duplex];
    let text = heard(&mut sockets[0]);
    assert!(text.contains("\"BUSY\"") && text.contains("too slow"), "{text}");
    let answer = answered(&mut socket);
    assert_eq!((&answer["code"], &answer["retryable"]), (&json!(1002), &json!(true)));
    assert!(answer["message"].as_str().unwrap().contains("too slow"), "{answer}");
    assert!(start.elapsed() < PATIENCE);
    world.until_unfinished(|bytes| bytes == 0);
}
