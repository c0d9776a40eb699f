//! Chunks, events and ends on one connection.

use bytes::Bytes;
use handback_stream::duplex::{
    CHUNK_BYTES_MAX, ClientFrame, Code, EventBody, FRAME_BYTES_MAX, Format, Hello, KeyText, Mode,
    ServerFrame,
};
use handback_stream::{Offset, StreamKey, Verifier};
use tokio_tungstenite::tungstenite::Message;

use super::client::{Client, Heard, again, hello, texts};
use crate::streams::proofs::keys;
use crate::streams::server::Server;
use crate::support::Sandbox;

const FORMATS: [Format; 2] = [Format::Json, Format::Protobuf];

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

#[test]
fn every_chunk_is_acknowledged_and_echoed_once_in_order() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for (key, format) in [("json", Format::Json), ("protobuf", Format::Protobuf)] {
        let (mut client, welcome) = Client::open(&server, "echo", format, hello(key));
        assert_eq!((welcome.mode, welcome.next_seqno, welcome.generation), (Mode::Durable, 0, 1));
        assert_eq!((welcome.event_id, welcome.reason), (None, None));
        assert_eq!((welcome.credit_events, welcome.credit_bytes), (64, 256 << 10));
        assert_eq!(welcome.token.resume_expires_in_ms, 15 * 60 * 1000);
        // Text, bytes that are none, and one that is both.
        let chunks: Vec<Bytes> =
            (0..50u8).map(|n| vec![n, 0xff - n, b'"', n, b'\\'].into()).collect();
        for (seqno, chunk) in (0..).zip(&chunks) {
            client.chunk(seqno, chunk.clone());
        }
        client.say(&ClientFrame::Close);
        let rest = client.rest();
        assert_eq!(rest.acks, (0..50).collect::<Vec<_>>());
        let events: Vec<_> = rest.events.iter().map(|(_, data)| data.clone()).collect();
        assert_eq!(events, chunks);
        let last = rest.events.last().map(|(id, _)| id.clone());
        assert_eq!((rest.ends, rest.errors), (vec![(false, last)], vec![]));
        assert_eq!(rest.close, Some(1000));
    }
}

#[test]
fn an_abort_ends_it_once_however_often_it_is_said() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for format in FORMATS {
        for (place, frames) in [
            vec![ClientFrame::Abort],
            vec![ClientFrame::Abort, ClientFrame::Abort, ClientFrame::Abort],
            vec![ClientFrame::Abort, ClientFrame::Close],
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("abort-{format:?}-{place}");
            let (mut client, welcome) = Client::open(&server, "echo", format, hello(&key));
            client.chunk(0, "x");
            client.events(1);
            for frame in &frames {
                let _ = client.try_say(frame);
            }
            let rest = client.rest();
            assert_eq!(rest.ends.len(), 1, "{rest:?}");
            assert!(rest.ends[0].0, "{frames:?}");
            assert_eq!((rest.errors, rest.close), (vec![], Some(1000)));
            // Also for who comes later.
            let again = again(&key, &welcome.token, None);
            let (mut client, welcome) = Client::open(&server, "echo", format, again);
            assert_eq!(welcome.next_seqno, 1);
            let rest = client.rest();
            assert_eq!((rest.texts(), rest.ends.len()), (vec!["x".to_owned()], 1));
            assert!(rest.ends[0].0);
        }
    }
}

#[test]
fn an_abort_after_a_close_ends_what_has_not_ended() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    // A relay does not end by a close alone.
    let (mut client, _) = Client::open(&server, "relay", Format::Json, hello("r"));
    client.chunk(0, "x");
    client.say(&ClientFrame::Close);
    client.say(&ClientFrame::Close);
    client.acked(0);
    client.say(&ClientFrame::Abort);
    let rest = client.rest();
    assert_eq!((rest.ends, rest.errors), (vec![(true, None)], vec![]));
    // What has ended is not aborted any more.
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello("e"));
    client.say(&ClientFrame::Close);
    assert_eq!(client.rest().ends, [(false, None)]);
    let hello = again("e", &welcome.token, None);
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello);
    let _ = client.try_say(&ClientFrame::Abort);
    assert_eq!(client.rest().ends, [(false, None)]);
}

#[test]
fn chunks_come_in_order_and_only_once() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let open = |key: &str| Client::open(&server, "echo", Format::Protobuf, hello(key)).0;
    // Again, with the same bytes.
    let mut client = open("again");
    for seqno in [0, 0, 1, 0, 1, 1, 2] {
        client.chunk(seqno, format!("chunk {seqno}"));
    }
    client.say(&ClientFrame::Close);
    let rest = client.rest();
    assert_eq!(rest.acks, [0, 0, 1, 0, 1, 1, 2]);
    assert_eq!(rest.texts(), ["chunk 0", "chunk 1", "chunk 2"]);
    // The last one with other bytes.
    let mut client = open("conflict");
    client.chunk(0, "one");
    client.acked(0);
    client.chunk(0, "two");
    let rest = client.rest();
    assert_eq!((rest.errors, rest.close), (vec![Code::Conflict], Some(4409)));
    assert_eq!(server.read("__duplex/echo/conflict/in"), "one");
    // An earlier one with other bytes: on the same connection, at once, on another one, after the
    // end, and of an encrypted duplex.
    let key = StreamKey::from_bytes(&[7; 32]).dangerous_to_text().as_str().to_owned();
    for (name, key) in [("earlier", None), ("encrypted", Some(key))] {
        let hello = || Hello { encryption_key: key.clone().map(KeyText), ..hello(name) };
        let open = || Client::open(&server, "echo", Format::Protobuf, hello()).0;
        let mut client = open();
        for (seqno, text) in [(0, "one"), (1, "two"), (2, "three"), (1, "two"), (1, "twp")] {
            client.chunk(seqno, text);
        }
        let conflict = (vec![Code::Conflict], Some(4409));
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), conflict, "{name}");
        for wrong in [0, 1, 2] {
            let mut client = open();
            client.chunk(3, "four");
            client.chunk(wrong, "other");
            let rest = client.rest();
            assert_eq!((rest.errors, rest.close), conflict, "{name} {wrong}");
        }
        let mut client = open();
        client.say(&ClientFrame::Close);
        client.chunk(0, "one");
        client.acked(0);
        client.chunk(2, "other");
        let rest = client.rest();
        assert!(rest.errors == conflict.0 || rest.errors.is_empty(), "{name}: {:?}", rest.errors);
        assert!(!rest.acks.contains(&2), "{name}");
    }
    assert_eq!(server.read("__duplex/echo/earlier/in"), "onetwothreefour");
    // A gap, at the start and later.
    for (key, first) in [("gap-0", 0), ("gap-1", 1)] {
        let mut client = open(key);
        for seqno in 0..first {
            client.chunk(seqno, "x");
        }
        client.chunk(first + 1, "y");
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Gap], Some(4409)), "{key}");
        assert_eq!(server.read(&format!("__duplex/echo/{key}/in")).len(), first as usize);
    }
    let mut client = open("last");
    client.chunk(u32::MAX, "x");
    assert_eq!(client.rest().errors, [Code::Gap]);
    // After the end.
    let (mut client, _) = Client::open(&server, "relay", Format::Json, hello("closed"));
    client.chunk(0, "x");
    client.say(&ClientFrame::Close);
    client.chunk(1, "y");
    let rest = client.rest();
    assert_eq!((rest.errors, rest.close), (vec![Code::Closed], Some(4409)));
    assert_eq!(server.read("__duplex/relay/closed/in"), "x");
}

#[test]
fn chunks_have_a_size() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for format in FORMATS {
        let open = |key: &str| {
            let key = format!("{key}-{format:?}");
            Client::open(&server, "echo", format, hello(&key)).0
        };
        let mut client = open("largest");
        let largest = Bytes::from(vec![0xfe; CHUNK_BYTES_MAX]);
        for seqno in 0..3 {
            client.chunk(seqno, largest.clone());
            let events = client.events(1);
            assert!(events[0].1 == largest);
            client.ack(Some(&events[0].0));
        }
        let mut client = open("larger");
        client.chunk(0, vec![b'x'; CHUNK_BYTES_MAX + 1]);
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::TooLarge], Some(4413)));
        let mut client = open("empty");
        client.chunk(0, "");
        assert_eq!(client.rest().errors, [Code::Malformed]);
        // A message that is too large ends the connection, and nothing else.
        let mut client = open("frame");
        let bytes = vec![b' '; FRAME_BYTES_MAX + 1];
        let message = match format {
            Format::Json => Message::text(String::from_utf8(bytes).unwrap()),
            Format::Protobuf => Message::binary(bytes),
        };
        let _ = client.socket.send(message);
        assert!(client.rest().events.is_empty());
        let mut client = open("other");
        client.chunk(0, "x");
        assert_eq!(texts(&client.events(1)), ["x"]);
    }
}

#[test]
fn what_is_no_frame_is_malformed() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let json = [
        "",
        "{",
        "null",
        "[]",
        r#""chunk""#,
        r#"{"type":"nothing"}"#,
        r#"{"seqno":0,"data":"x"}"#,
        r#"{"type":"chunk","data":"x"}"#,
        r#"{"type":"chunk","seqno":0}"#,
        r#"{"type":"chunk","seqno":-1,"data":"x"}"#,
        r#"{"type":"chunk","seqno":4294967296,"data":"x"}"#,
        r#"{"type":"chunk","seqno":"0","data":"x"}"#,
        r#"{"type":"chunk","seqno":0,"data":7}"#,
        r#"{"type":"chunk","seqno":0,"data":"x","base64":"eA=="}"#,
        r#"{"type":"chunk","seqno":0,"base64":"eA"}"#,
        r#"{"type":"ack","event_id":7}"#,
        r#"{"type":"welcome"}"#,
    ];
    for (place, text) in json.iter().enumerate() {
        let key = format!("json-{place}");
        let (mut client, _) = Client::open(&server, "echo", Format::Json, hello(&key));
        client.socket.send(Message::text(*text)).unwrap();
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Malformed], Some(4400)), "{text}");
        assert_eq!(server.read(&format!("__duplex/echo/{key}/in")), "");
    }
    let protobuf: [&[u8]; 5] =
        [b"", b"\xff\xff\xff", b"\x0a\x7f", b"\x0a\x03\x0a\x01x", b"\x28\x00"];
    for (place, bytes) in protobuf.iter().enumerate() {
        let key = format!("protobuf-{place}");
        let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        client.socket.send(Message::binary(bytes.to_vec())).unwrap();
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Malformed], Some(4400)), "{bytes:?}");
    }
    // Of the other kind; and hello twice.
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello("binary"));
    client.socket.send(Message::binary(br#"{"type":"close"}"#.to_vec())).unwrap();
    assert_eq!(client.rest().errors, [Code::Malformed]);
    for format in FORMATS {
        let (mut client, _) = Client::open(&server, "echo", format, hello("twice"));
        client.say(&ClientFrame::Hello(hello("twice")));
        assert_eq!(client.rest().errors, [Code::Malformed]);
    }
    // Members that are not known are no matter.
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello("more"));
    let text = r#"{"type":"chunk","x":[{}],"seqno":0,"base64":null,"data":"x"}"#;
    client.socket.send(Message::text(text)).unwrap();
    assert_eq!(texts(&client.events(1)), ["x"]);
}

#[test]
fn with_proofs_every_record_comes_and_can_be_verified() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let hello = Hello { proofs: true, ..hello("p") };
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello);
    client.chunk(0, "first");
    client.chunk(1, "second");
    client.say(&ClientFrame::Close);
    let stream = welcome.out_stream.unwrap();
    let mut verifier = Verifier::from_start(stream, 0, keys(&server));
    let (mut last, mut data, mut proved) = (None, Vec::new(), None);
    loop {
        match client.frame() {
            ServerFrame::Event(event) => {
                let EventBody::Record { number, record } = event.body else { panic!("no record") };
                assert_eq!(event.event_id, Offset::after(number).to_string());
                let record = verifier.record(number, &record, None).unwrap();
                data.extend(record.payload().map(|payload| payload.bytes.clone()));
                last = Some(number);
            }
            ServerFrame::Proof(proof) => {
                verifier.commit(&proof.commit).unwrap();
                proved = Some(proof.commit.number);
            }
            ServerFrame::Ack { .. } => {}
            ServerFrame::End { aborted, .. } => {
                assert!(!aborted);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(data, ["first", "second"]);
    assert_eq!(proved, last, "the end is proved");
    assert!(verifier.is_closed());
}

#[test]
fn a_close_of_the_connection_is_answered_and_is_no_abort() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello("k"));
    client.chunk(0, "x");
    client.acked(0);
    client.socket.close(None).unwrap();
    let closed = loop {
        match client.hear() {
            Heard::Frame(_) => {}
            Heard::Closed(_) => break true,
            Heard::Cut => break false,
        }
    };
    assert!(closed, "the close was not answered");
    let hello = again("k", &welcome.token, None);
    let (mut client, _) = Client::open(&server, "echo", Format::Json, hello);
    assert_eq!(texts(&client.events(1)), ["x"]);
    client.chunk(1, "y");
    assert_eq!(texts(&client.events(1)), ["y"]);
}

#[test]
fn who_is_refused_hears_why_whatever_it_sends_meanwhile() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for round in 0..20 {
        let key = format!("k{round}");
        let (mut client, _) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        client.chunk(7, "x");
        for seqno in 0..200 {
            let data = vec![b'y'; 2000].into();
            if client.try_say(&ClientFrame::Chunk { seqno: 8 + seqno, data }).is_err() {
                break;
            }
        }
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Gap], Some(4409)), "round {round}");
    }
}

#[test]
fn a_chunk_that_is_there_is_acknowledged_also_after_the_close() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, welcome) = Client::open(&server, "relay", Format::Json, hello("k"));
    client.chunk(0, "a");
    client.chunk(1, "b");
    client.say(&ClientFrame::Close);
    client.chunk(0, "a");
    client.chunk(1, "b");
    for seqno in [0, 1, 0, 1] {
        assert_eq!(client.frame(), ServerFrame::Ack { seqno });
    }
    client.cut();
    let hello = again("k", &welcome.token, None);
    let (mut client, welcome) = Client::open(&server, "relay", Format::Json, hello);
    assert_eq!(welcome.next_seqno, 2);
    client.chunk(0, "a");
    assert_eq!(client.frame(), ServerFrame::Ack { seqno: 0 });
    client.say(&ClientFrame::Close);
    client.chunk(1, "b");
    assert_eq!(client.frame(), ServerFrame::Ack { seqno: 1 });
    client.chunk(2, "c");
    assert_eq!(client.rest().errors, [Code::Closed]);
    assert_eq!(server.read("__duplex/relay/k/in"), "ab");
}
