//! Duplexes under a key that the client keeps.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use handback_stream::duplex::{ClientFrame, Code, EventBody, Format, Hello, KeyText, ServerFrame};
use handback_stream::{Record, StreamKey};

use super::client::{Client, again, hello, texts};
use crate::streams::encrypted::find;
use crate::streams::server::Server;
use crate::support::Sandbox;

const KEY: [u8; 32] = *b"another key, easy to find again!";
const HEADER: &str = "x-idempotent-encryption-key";

fn keyed(hello: Hello, key: [u8; 32]) -> Hello {
    Hello { encryption_key: Some(KeyText(URL_SAFE_NO_PAD.encode(key))), ..hello }
}

#[test]
fn only_who_has_the_key_goes_on() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, keyed(hello("k"), KEY));
    client.chunk(0, "secret 0");
    let events = client.events(1);
    assert_eq!(texts(&events), ["secret 0"]);
    let token = again("k", &welcome.token, None);
    let other = KeyText("no key".to_owned());
    for wrong in [
        hello("k"),
        token.clone(),
        keyed(hello("k"), [7; 32]),
        keyed(token.clone(), [7; 32]),
        Hello { encryption_key: Some(other), ..hello("k") },
    ] {
        let refused = Client::try_open(&server, "echo", Format::Json, wrong).err().unwrap();
        assert_eq!(refused.0, Code::Invalid);
    }
    // No one was superseded.
    client.chunk(1, "secret 1");
    assert_eq!(texts(&client.events(1)), ["secret 1"]);
    // Neither does a duplex without a key take one.
    Client::open(&server, "echo", Format::Json, hello("plain"));
    let refused = keyed(hello("plain"), KEY);
    let refused = Client::try_open(&server, "echo", Format::Json, refused).err().unwrap();
    assert_eq!(refused.0, Code::Invalid);
    server.kill();
    // What is encrypted waits for who has the key.
    let server = Server::start(&sandbox, &data);
    let (mut client, _) = Client::open(&server, "echo", Format::Json, keyed(token, KEY));
    client.chunk(2, "secret 2");
    client.say(&ClientFrame::Close);
    assert_eq!(client.rest().texts(), ["secret 0", "secret 1", "secret 2"]);
    let path = "/v1/stream/__duplex/echo/k/out";
    assert_eq!(server.ask(&format!("GET {path}"), &[], b"").status, 403);
    let key = URL_SAFE_NO_PAD.encode(KEY);
    let read = server.ask(&format!("GET {path}"), &[(HEADER, &key)], b"");
    assert_eq!(read.body, b"secret 0secret 1secret 2");
}

#[test]
fn neither_key_nor_plaintext_is_on_the_disk() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let server = Server::start(&sandbox, &data);
    let plain = "these chunks are nowhere to be found";
    for (key, format) in [("json", Format::Json), ("protobuf", Format::Protobuf)] {
        let (mut client, _) = Client::open(&server, "echo", format, keyed(hello(key), KEY));
        for seqno in 0..20 {
            client.chunk(seqno, plain);
        }
        assert_eq!(client.events(20).len(), 20);
    }
    let key = URL_SAFE_NO_PAD.encode(KEY);
    let headers = [("x-idempotency-key", "headers"), (HEADER, key.as_str())];
    let mut client = Client::connect(&server, "echo", Format::Json, &headers).unwrap();
    assert!(matches!(client.frame(), ServerFrame::Welcome(_)));
    client.chunk(0, plain);
    assert_eq!(texts(&client.events(1)), [plain]);
    server.kill();
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let spelled = [STANDARD.encode(KEY), URL_SAFE.encode(KEY), key, hex];
    let spelled = spelled.iter().map(String::as_bytes);
    for wanted in spelled.chain([KEY.as_slice(), plain.as_bytes(), &plain.as_bytes()[..16]]) {
        assert_eq!(find(&data, wanted), Vec::<String>::new());
    }
    // The search finds what is there.
    assert_ne!(find(&data, b"FJL"), Vec::<String>::new());
}

#[test]
fn events_with_proofs_are_decrypted_by_who_has_the_key() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let hello = Hello { proofs: true, ..keyed(hello("k"), KEY) };
    let (mut client, welcome) = Client::open(&server, "echo", Format::Protobuf, hello);
    client.chunk(0, "secret");
    client.say(&ClientFrame::Close);
    let key = StreamKey::from_bytes(&KEY).records(welcome.out_stream.unwrap());
    let mut found = Vec::new();
    loop {
        match client.frame() {
            ServerFrame::Event(event) => {
                let EventBody::Record { number, record } = event.body else { panic!("no record") };
                assert!(!record.windows(6).any(|window| window == b"secret"));
                let record = Record::decode(&record).unwrap();
                if record.payload().is_some() {
                    found.push(record.data(Some(&key), number).unwrap());
                }
            }
            ServerFrame::End { .. } => break,
            ServerFrame::Ack { .. } | ServerFrame::Proof(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, ["secret"]);
}

#[test]
fn a_wrong_key_does_not_spoil_what_was_half_created() {
    let sandbox = Sandbox::new();
    let server = std::sync::Arc::new(Server::start(&sandbox, &sandbox.path("data")));
    for round in 0..30 {
        let key = format!("k{round}");
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(2));
        let threads = [KEY, [7; 32]].map(|secret| {
            let (server, barrier) =
                (std::sync::Arc::clone(&server), std::sync::Arc::clone(&barrier));
            let hello = keyed(hello(&key), secret);
            std::thread::spawn(move || {
                let mut client = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
                barrier.wait();
                client.say(&ClientFrame::Hello(hello));
                matches!(client.frame(), ServerFrame::Welcome(_))
            })
        });
        let opened = threads.map(|thread| thread.join().unwrap());
        assert_ne!(opened[0], opened[1], "round {round}: one of two keys is the duplex's");
    }
}
