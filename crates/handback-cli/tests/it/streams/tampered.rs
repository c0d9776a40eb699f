//! Streams that someone changes on their way, and a reader who proves them.

use std::sync::{Arc, Mutex};

use handback_client::Keys;
use handback_client::streams::{KeptHead, Streams, VerifyOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::server::Server;
use crate::support::Sandbox;

/// What a server says: the answer to `?records=1`, and its keys.
struct Said {
    records: Vec<u8>,
    is_closed: bool,
    keys: Vec<u8>,
}

/// Says what it was given to whoever asks.
struct Liar {
    said: Arc<Mutex<Said>>,
    url: String,
}

impl Liar {
    async fn start(said: Said) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let said = Arc::new(Mutex::new(said));
        let shared = Arc::clone(&said);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let said = Arc::clone(&shared);
                tokio::spawn(async move {
                    let mut request = vec![0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut request).await {
                        let is_keys = request[..read].starts_with(b"GET /v1/keys");
                        let answer = answer(&said.lock().unwrap(), is_keys);
                        if stream.write_all(&answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { said, url }
    }
}

fn answer(said: &Said, is_keys: bool) -> Vec<u8> {
    let body = if is_keys { &said.keys } else { &said.records };
    let closed = if said.is_closed { "stream-closed: true\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nstream-next-offset: 0000000000000000_0000000000000001\r\n\
         stream-up-to-date: true\r\n{closed}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

struct Case {
    liar: Liar,
    streams: Streams,
    options: VerifyOptions,
    honest: Vec<String>,
}

impl Case {
    /// What is proved when these bytes come: the data, if it is accepted.
    async fn accepted(&self, records: Vec<u8>) -> Option<Vec<String>> {
        self.liar.said.lock().unwrap().records = records;
        let mut data = Vec::new();
        let verified = self.streams.verify("s", &self.options, |_, number, record| {
            let bytes = record.payload().map(|payload| payload.bytes.to_vec());
            data.push(format!("{number} {bytes:?} {:?} {}", record.producer(), record.time()));
        });
        let verified = verified.await.ok()?;
        (verified.unproved == 0 && verified.is_closed).then_some(data)
    }

    /// Refused, or the same comes of it.
    async fn check(&self, records: Vec<u8>, what: &str) {
        if let Some(data) = self.accepted(records).await {
            assert_eq!(data, self.honest, "{what} was not noticed");
        }
    }
}

fn records(server: &Server, path: &str) -> Vec<u8> {
    let answer = server.ask(&format!("GET /v1/stream/{path}?records=1"), &[], b"");
    assert_eq!(answer.status, 200);
    answer.body
}

fn fill(server: &Server, path: &str, texts: &[&str]) {
    server.create(path);
    for (seq, text) in (0..).zip(texts) {
        assert_eq!(server.produce(path, 0, seq, text).status, 200);
    }
    let close = [("stream-closed", "true")];
    assert_eq!(server.ask(&format!("POST /v1/stream/{path}"), &close, b"").status, 204);
}

fn lines(records: &[u8]) -> Vec<Vec<u8>> {
    records.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn every_change_on_the_way_is_noticed() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    fill(&server, "s", &["one", "two", "three"]);
    fill(&server, "t", &["one", "two", "four"]);
    let (true_records, foreign) = (records(&server, "s"), records(&server, "t"));
    let keys = server.ask("GET /v1/keys", &[], b"").body;
    // Another server, with other keys, which says the same of a stream of the same name.
    let other = Server::start(&sandbox, &sandbox.path("other"));
    fill(&other, "s", &["one", "two", "three"]);
    let forged = records(&other, "s");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let said = Said { records: true_records.clone(), is_closed: true, keys };
        let liar = Liar::start(said).await;
        let streams = Streams::new(&liar.url).unwrap();
        let options = VerifyOptions::new().keys(Keys::Server);
        let mut case = Case { liar, streams, options, honest: Vec::new() };
        let honest = case.accepted(true_records.clone()).await;
        case.honest = honest.expect("what is true is accepted");
        assert_eq!(case.honest.len(), 5, "genesis, three appends, the end");
        for place in 0..true_records.len() {
            for bit in [0x01, 0x20, 0x80] {
                let mut edited = true_records.clone();
                edited[place] ^= bit;
                case.check(edited, &format!("bit {bit:x} of byte {place}")).await;
            }
        }
        let all = lines(&true_records);
        for first in 0..all.len() {
            let mut dropped = all.clone();
            dropped.remove(first);
            case.check(dropped.concat(), &format!("without line {first}")).await;
            case.check(all[..first].concat(), &format!("cut at line {first}")).await;
            let mut doubled = all.clone();
            doubled.insert(first, all[first].clone());
            case.check(doubled.concat(), &format!("line {first} twice")).await;
            for second in first + 1..all.len() {
                let mut swapped = all.clone();
                swapped.swap(first, second);
                case.check(swapped.concat(), &format!("{first} and {second} swapped")).await;
            }
            for (number, line) in lines(&foreign).into_iter().enumerate() {
                let mut spliced = all.clone();
                spliced[first] = line.clone();
                case.check(spliced.concat(), &format!("{first} is {number} of another")).await;
                let mut inserted = all.clone();
                inserted.insert(first, line);
                case.check(inserted.concat(), &format!("{number} of another at {first}")).await;
            }
        }
        assert_eq!(case.accepted(foreign).await, None, "another stream");
        assert_eq!(case.accepted(forged).await, None, "another server");
    });
}

#[test]
fn a_tail_that_was_cut_off_shows_by_the_head_that_was_kept() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    server.create("s");
    for seq in 0..4 {
        assert_eq!(server.produce("s", 0, seq, "x").status, 200);
    }
    let records = records(&server, "s");
    let keys = server.ask("GET /v1/keys", &[], b"").body;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let liar = Liar::start(Said { records: records.clone(), is_closed: false, keys }).await;
        let streams = Streams::new(&liar.url).unwrap();
        let verified = streams.verify("s", &VerifyOptions::new(), |_, _, _| {}).await.unwrap();
        let kept: KeptHead = verified.proved.unwrap();
        assert_eq!(kept.number, 4);
        // An older state, with all of its proofs: whole for who has kept nothing.
        let older = lines(&records)[..6].concat();
        liar.said.lock().unwrap().records = older;
        let fooled = streams.verify("s", &VerifyOptions::new(), |_, _, _| {}).await.unwrap();
        assert!(fooled.proved.unwrap().number < 4);
        let options = VerifyOptions::new().kept(kept);
        assert!(streams.verify("s", &options, |_, _, _| {}).await.is_err());
        liar.said.lock().unwrap().records = records;
        assert_eq!(streams.verify("s", &options, |_, _, _| {}).await.unwrap().proved, Some(kept));
    });
}

#[test]
fn records_that_come_without_a_proof_are_told_by_the_exit_code() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    for (path, texts) in [("s", ["one", "two"]), ("t", ["one", "six"])] {
        server.create(path);
        for (seq, text) in (0..).zip(texts) {
            assert_eq!(server.produce(path, 0, seq, text).status, 200);
        }
    }
    let (all, foreign) = (lines(&records(&server, "s")), lines(&records(&server, "t")));
    assert_eq!(all.len(), 6, "three records, each with its proof");
    let id = |line: &[u8]| -> String {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        line["stream"].as_str().unwrap().to_owned()
    };
    let renamed = |line: &[u8], number: u64| {
        let text = String::from_utf8(line.to_vec()).unwrap().replace(&id(line), &id(&all[0]));
        text.replace("\"number\":2", &format!("\"number\":{number}")).into_bytes()
    };
    let edited = [&all[..4], &[renamed(&foreign[4], 2)]].concat();
    let more = [&all[..], &[renamed(&foreign[4], 3), renamed(&foreign[4], 4)]].concat();
    let keys = server.ask("GET /v1/keys", &[], b"").body;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let said = Said { records: all.concat(), is_closed: false, keys };
    let liar = runtime.block_on(Liar::start(said));
    let verify = |lines: &[Vec<u8>]| {
        liar.said.lock().unwrap().records = lines.concat();
        sandbox.run_words(&["--output", "json", "stream", "verify", "s", "--url", &liar.url])
    };
    assert_eq!(verify(&all).code, 0);
    for (lines, unproved) in [(edited, 1), (more, 2), (all[..5].to_vec(), 1)] {
        let ran = verify(&lines);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.stdout.contains(&format!("\"unproved\":{unproved}")), "{ran:?}");
    }
}

#[test]
fn a_server_that_does_not_sign_proves_nothing() {
    let sandbox = Sandbox::new();
    let server = Server::start_with(&sandbox, &sandbox.path("data"), &["--no-signing"]);
    server.create("s");
    let url = format!("http://{}", server.address);
    let ran = sandbox.run_words(&["stream", "verify", "s", "--url", &url]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("--no-signing"), "{ran:?}");
}
