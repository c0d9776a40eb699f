//! A large answer is never in memory. This has a process to itself, because memory has no owner.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use handback_gateway::upstream::{
    Answer, Ask, Line, LineError, Opening, Place, Raw, Spec, StartLimits, StderrUse,
};
use handback_page::json::ByteSource as _;
use tokio::sync::mpsc;

/// Bytes of an answer.
const LARGE: u64 = 128 << 20;

/// One that is larger than answers may be.
const GIGABYTE: u64 = 1 << 30;

/// Bytes that the process may grow by meanwhile: those that an answer may have in memory, and a few
/// buffers, threads and the like.
const GROWTH_MAX: u64 = 24 << 20;

fn spec(place: Place) -> Spec {
    Spec {
        name: "large".to_owned(),
        place,
        time_limit: Duration::from_secs(300),
        answer_bytes_max: 2 * LARGE,
        memory_bytes_max: 4 << 20,
        spool: std::env::temp_dir(),
        is_shared: false,
        withheld: Vec::new(),
        passes_marks: false,
        start: StartLimits::default(),
        stderr: StderrUse::default(),
    }
}

/// Forgets how much memory this process ever had.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may forget its peak");
}

/// The most memory that this process had since.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it has a peak");
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    1024 * kilobytes.expect("it is a number")
}

/// A server that answers with one text that does not end soon.
fn serve(head: &'static str, tail: &'static str) -> String {
    serve_with(head, move |write| {
        write(br#"{"jsonrpc":"2.0","id":1,"result":""#);
        let chunk = vec![b'z'; 64 << 10];
        for _ in 0..LARGE / (64 << 10) {
            write(&chunk);
        }
        write(b"\"}");
        write(tail.as_bytes());
    })
}

/// Bytes of a comment between two lines of an event.
const COMMENT: usize = 256 << 10;

/// A server that answers with an event that does not fit into memory, and has little data in many comments
/// behind that.
fn serve_comments() -> String {
    serve_with("content-type: text/event-stream\r\n\r\ndata: ", |write| {
        write(br#"{"jsonrpc":"2.0","id":1,"result":["z"#);
        write(&vec![b'z'; 5 << 20]);
        write(b"\"\n");
        let comment = [b":".as_slice(), &vec![b'c'; COMMENT], b"\n"].concat();
        for _ in 0..LARGE / COMMENT as u64 {
            write(b"data: ,1\n");
            write(&comment);
        }
        write(b"data: ]}\n\n");
    })
}

/// A server that answers once, with what this writes behind the head.
fn serve_with(
    head: &'static str,
    answer: impl FnOnce(&mut dyn FnMut(&[u8])) + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).expect("somebody asks");
        let mut write = |bytes: &[u8]| stream.write_all(bytes).expect("somebody reads");
        write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n");
        write(head.as_bytes());
        answer(&mut write);
    });
    format!("http://{address}/")
}

fn ask(method: &str, bytes: u64) -> Ask {
    Ask {
        method: method.to_owned(),
        params: Some(Bytes::from(format!("{{\"bytes\":{bytes}}}"))),
        headers: Vec::new(),
        heard: None,
        subscription: None,
        time_limit: None,
        owner: None,
    }
}

async fn open(place: Place) -> Line {
    let (sender, _spontaneous) = mpsc::channel(1);
    Line::open(&spec(place), Opening::Modern, sender).await.expect("a line")
}

/// What is between the lines of an event is not kept with them.
async fn check_comments(place: Place) {
    let line = open(place).await;
    forget_peak();
    let before = peak();
    let answer = line.ask(ask("large", LARGE)).await.expect("an answer");
    let growth = peak() - before;
    let Answer::Result(raw @ Raw::File { .. }) = answer else { panic!("a result in a file") };
    let size = raw.size_bytes();
    let end = raw.read(size - 8..size).expect("it is there");
    assert_eq!(*end, *b"\n,1\n,1\n]");
    assert!(growth < GROWTH_MAX, "comments grew by {} KiB", growth >> 10);
}

async fn check(name: &str, place: Place, quotes: u64) {
    let line = open(place).await;
    forget_peak();
    let before = peak();
    let answer = line.ask(ask("large", LARGE)).await.expect("an answer");
    let growth = peak() - before;
    let Answer::Result(raw @ Raw::File { .. }) = answer else { panic!("a result in a file") };
    let size = raw.size_bytes();
    assert!(size > LARGE - 4096 && size <= LARGE + quotes, "{name}: {size}");
    let ends = [raw.read(0..2), raw.read(size - 2..size)].map(|end| end.expect("it is there"));
    assert!(ends[0].ends_with(b"\"z") || ends[0].ends_with(b"[\""), "{name}");
    assert!(growth < GROWTH_MAX, "{name} grew by {} KiB", growth >> 10);
}

/// A line of a gigabyte is refused, and is nowhere. So much is not read to its end: of what was asked
/// beside it, nothing is known.
async fn check_gigabyte(place: Place) {
    let line = open(place).await;
    forget_peak();
    let before = peak();
    let (large, other) = tokio::join!(line.ask(ask("large", GIGABYTE)), line.ask(ask("pid", 0)));
    let growth = peak() - before;
    assert_eq!(large.err(), Some(LineError::TooLarge));
    assert!(matches!(other, Err(LineError::Ended(_))), "{other:?}");
    assert!(growth < GROWTH_MAX, "a gigabyte grew by {} KiB", growth >> 10);
}

#[tokio::test]
async fn large_answers_are_never_in_memory() {
    let peer = "tests/it/peers/peer.py".to_owned();
    let args = vec!["-u".to_owned(), peer];
    let program = Place::Command { program: "python3".to_owned(), args, env: Vec::new() };
    check("a program", program.clone(), 0).await;
    check_gigabyte(program).await;
    let http = |url: String| Place::Http { url, headers: Vec::new() };
    let json = serve("content-type: application/json\r\n\r\n", "");
    check("JSON", http(json), 2).await;
    let events = serve("content-type: text/event-stream\r\n\r\ndata: ", "\n\n");
    check("events", http(events), 2).await;
    check_comments(http(serve_comments())).await;
}
