use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::chain::{Head, Path};
use crate::name::StreamId;
use crate::sign::KeyId;
use crate::verify::CommitProof;

const FORMATS: [Format; 2] = [Format::Json, Format::Protobuf];

fn texts(chars: &'static str) -> impl Strategy<Value = String> {
    proptest::string::string_regex(chars).unwrap()
}

fn event_ids() -> impl Strategy<Value = String> {
    texts("[!-~]{1,64}")
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from),
        "\\PC{0,40}".prop_map(Bytes::from),
        "[\\x00-\\x1f\"\\\\]{0,40}".prop_map(Bytes::from),
    ]
}

fn hellos() -> impl Strategy<Value = Hello> {
    let key = any::<[u8; 32]>().prop_map(|bytes| KeyText(URL_SAFE_NO_PAD.encode(bytes)));
    (
        texts("[A-Za-z0-9._~-]{1,128}"),
        proptest::option::of(event_ids()),
        proptest::option::of(texts("[A-Za-z0-9_-]{0,512}")),
        proptest::option::of(key),
        any::<bool>(),
    )
        .prop_map(|(idempotency_key, event_id, resume_token, encryption_key, proofs)| Hello {
            idempotency_key,
            event_id,
            resume_token,
            encryption_key,
            proofs,
        })
}

fn client_frames() -> impl Strategy<Value = ClientFrame> {
    prop_oneof![
        hellos().prop_map(ClientFrame::Hello),
        (any::<u32>(), bytes(200)).prop_map(|(seqno, data)| ClientFrame::Chunk { seqno, data }),
        proptest::option::of(event_ids()).prop_map(|event_id| ClientFrame::Ack { event_id }),
        Just(ClientFrame::Close),
        Just(ClientFrame::Abort),
    ]
}

fn tokens() -> impl Strategy<Value = Token> {
    (texts("[A-Za-z0-9_-]{0,512}"), any::<u64>()).prop_map(
        |(resume_token, resume_expires_in_ms)| Token { resume_token, resume_expires_in_ms },
    )
}

fn streams() -> impl Strategy<Value = Option<StreamId>> {
    proptest::option::of(any::<[u8; 24]>().prop_map(StreamId::from_bytes))
}

fn welcomes() -> impl Strategy<Value = Welcome> {
    let modes = prop_oneof![Just(Mode::Durable), Just(Mode::Memory), Just(Mode::ReadOnly)];
    (
        (modes, proptest::option::of("\\PC{0,20}"), "\\PC{0,20}"),
        (any::<u32>(), proptest::option::of(event_ids()), tokens(), any::<u64>()),
        (any::<u32>(), any::<u32>(), proptest::option::of(any::<u64>()), streams(), streams()),
    )
        .prop_map(
            |((mode, reason, message), (next_seqno, event_id, token, generation), rest)| {
                let (credit_events, credit_bytes, retry_after_ms, in_stream, out_stream) = rest;
                Welcome {
                    mode,
                    reason,
                    message,
                    next_seqno,
                    event_id,
                    token,
                    generation,
                    credit_events,
                    credit_bytes,
                    retry_after_ms,
                    in_stream,
                    out_stream,
                }
            },
        )
}

fn proofs() -> impl Strategy<Value = Proof> {
    (
        any::<[u64; 3]>(),
        any::<[u8; 32]>(),
        proptest::collection::vec(any::<(bool, [u8; 32])>(), 0..5),
        any::<[[u8; 32]; 2]>(),
        any::<[u8; 8]>(),
    )
        .prop_map(|([commit, time, number], head, path, signature, key)| Proof {
            commit: CommitProof {
                commit,
                time,
                number,
                head: Head::from_bytes(head),
                path: Path::from_steps(path),
                signature: signature.concat().try_into().unwrap(),
            },
            key: KeyId::from_bytes(key),
        })
}

fn events() -> impl Strategy<Value = Event> {
    let body = prop_oneof![
        bytes(200).prop_map(EventBody::Data),
        (any::<u64>(), bytes(200))
            .prop_map(|(number, record)| EventBody::Record { number, record }),
    ];
    (event_ids(), body).prop_map(|(event_id, body)| Event { event_id, body })
}

fn codes() -> impl Strategy<Value = Code> {
    proptest::sample::select(vec![
        Code::Malformed,
        Code::Invalid,
        Code::Expired,
        Code::TooLarge,
        Code::Gap,
        Code::Conflict,
        Code::Closed,
        Code::Superseded,
        Code::UnknownHandler,
        Code::Busy,
        Code::ReadOnly,
        Code::Stopping,
    ])
}

fn server_frames() -> impl Strategy<Value = ServerFrame> {
    prop_oneof![
        welcomes().prop_map(|welcome| ServerFrame::Welcome(Box::new(welcome))),
        any::<u32>().prop_map(|seqno| ServerFrame::Ack { seqno }),
        events().prop_map(ServerFrame::Event),
        proofs().prop_map(|proof| ServerFrame::Proof(Box::new(proof))),
        tokens().prop_map(ServerFrame::Token),
        (proptest::option::of(event_ids()), any::<bool>())
            .prop_map(|(event_id, aborted)| ServerFrame::End { event_id, aborted }),
        (codes(), "\\PC{0,20}", proptest::option::of(any::<u64>())).prop_map(
            |(code, message, retry_after_ms)| ServerFrame::Error { code, message, retry_after_ms }
        ),
    ]
}

proptest! {
    #[test]
    fn client_frames_come_back(frame in client_frames()) {
        for format in FORMATS {
            let message = frame.encode(format);
            prop_assert_eq!(ClientFrame::decode(format, &message), Ok(frame.clone()));
            if format == Format::Json {
                prop_assert!(std::str::from_utf8(&message).is_ok());
            }
        }
    }

    #[test]
    fn server_frames_come_back(frame in server_frames()) {
        for format in FORMATS {
            let message = frame.encode(format);
            prop_assert_eq!(ServerFrame::decode(format, &message), Ok(frame.clone()));
        }
    }

    /// A cut JSON object is none. Cut protobuf may be a frame, and is then another one.
    #[test]
    fn cut_frames_are_refused_or_others(client in client_frames(), server in server_frames()) {
        for format in FORMATS {
            let message = client.encode(format);
            for length in 0..message.len() {
                let cut = ClientFrame::decode(format, &message.slice(..length));
                prop_assert!(cut.is_err() || (format == Format::Protobuf && cut != Ok(client.clone())));
            }
            let message = server.encode(format);
            for length in 0..message.len() {
                let cut = ServerFrame::decode(format, &message.slice(..length));
                prop_assert!(cut.is_err() || (format == Format::Protobuf && cut != Ok(server.clone())));
            }
        }
    }

    #[test]
    fn other_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        for format in FORMATS {
            // What was taken is written as a message that is taken for the same.
            if let Ok(frame) = ClientFrame::decode(format, &bytes) {
                prop_assert_eq!(ClientFrame::decode(format, &frame.encode(format)), Ok(frame));
            }
            if let Ok(frame) = ServerFrame::decode(format, &bytes) {
                prop_assert_eq!(ServerFrame::decode(format, &frame.encode(format)), Ok(frame));
            }
        }
    }

    #[test]
    fn edited_frames_do_not_panic(
        client in client_frames(),
        server in server_frames(),
        place in any::<proptest::sample::Index>(),
        bits in 1..=255_u8,
    ) {
        for format in FORMATS {
            let mut message = client.encode(format).to_vec();
            if let Some(byte) = message.get_mut(place.index(usize::MAX) % 50) {
                *byte ^= bits;
            }
            let _ = ClientFrame::decode(format, &message.into());
            let mut message = server.encode(format).to_vec();
            if let Some(byte) = message.get_mut(place.index(usize::MAX) % 50) {
                *byte ^= bits;
            }
            let _ = ServerFrame::decode(format, &message.into());
        }
    }
}

fn hex(text: &str) -> Bytes {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect::<Vec<_>>()
        .into()
}

/// The frame is written so, and what is written so is the frame.
fn client(frame: &ClientFrame, json: &str, protobuf: &str) {
    for (format, message) in FORMATS.into_iter().zip([Bytes::from(json.to_owned()), hex(protobuf)])
    {
        assert_eq!(frame.encode(format), message, "{frame:?} as {format:?}");
        assert_eq!(ClientFrame::decode(format, &message).as_ref(), Ok(frame));
    }
}

fn server(frame: &ServerFrame, json: &str, protobuf: &str) {
    for (format, message) in FORMATS.into_iter().zip([Bytes::from(json.to_owned()), hex(protobuf)])
    {
        assert_eq!(frame.encode(format), message, "{frame:?} as {format:?}");
        assert_eq!(ServerFrame::decode(format, &message).as_ref(), Ok(frame));
    }
}

#[test]
fn what_clients_say_is_pinned() {
    client(
        &ClientFrame::Hello(Hello { idempotency_key: "k".to_owned(), ..Hello::default() }),
        r#"{"type":"hello","idempotency_key":"k"}"#,
        "82010022016b",
    );
    client(
        &ClientFrame::Hello(Hello {
            idempotency_key: "k".to_owned(),
            event_id: Some("e".to_owned()),
            resume_token: Some("t".to_owned()),
            encryption_key: Some(KeyText(URL_SAFE_NO_PAD.encode([0; 32]))),
            proofs: true,
        }),
        concat!(
            r#"{"type":"hello","idempotency_key":"k","event_id":"e","resume_token":"t","#,
            r#""encryption_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","proofs":true}"#
        ),
        &format!("82012e820101658a010174920120{}98010122016b", "00".repeat(32)),
    );
    client(
        &ClientFrame::Chunk { seqno: 0, data: Bytes::from_static(b"hello") },
        r#"{"type":"chunk","seqno":0,"data":"hello"}"#,
        "0a070a0568656c6c6f2800",
    );
    client(
        &ClientFrame::Chunk { seqno: 300, data: Bytes::from_static(b"\xff") },
        r#"{"type":"chunk","seqno":300,"base64":"/w=="}"#,
        "0a030a01ff28ac02",
    );
    client(&ClientFrame::Ack { event_id: None }, r#"{"type":"ack"}"#, "8a0100");
    client(
        &ClientFrame::Ack { event_id: Some("e".to_owned()) },
        r#"{"type":"ack","event_id":"e"}"#,
        "8a010482010165",
    );
    client(&ClientFrame::Close, r#"{"type":"close"}"#, "1a00");
    client(&ClientFrame::Abort, r#"{"type":"abort"}"#, "1200");
}

#[test]
fn what_servers_say_is_pinned() {
    let welcome = Welcome {
        mode: Mode::ReadOnly,
        reason: Some("r".to_owned()),
        message: "m".to_owned(),
        next_seqno: 2,
        event_id: Some("e".to_owned()),
        token: Token { resume_token: "t".to_owned(), resume_expires_in_ms: 3 },
        generation: 4,
        credit_events: 5,
        credit_bytes: 6,
        retry_after_ms: Some(7),
        in_stream: None,
        out_stream: Some(StreamId::from_bytes([0xab; 24])),
    };
    let out_stream = "ab".repeat(24);
    server(
        &ServerFrame::Welcome(Box::new(welcome)),
        &format!(
            concat!(
                r#"{{"type":"welcome","mode":"readonly","reason":"r","is_degraded_mode":true,"#,
                r#""message":"m","next_seqno":2,"event_id":"e","resume_token":"t","#,
                r#""resume_expires_in_ms":3,"generation":4,"credit_events":5,"credit_bytes":6,"#,
                r#""retry_after_ms":7,"out_stream":"{}"}}"#
            ),
            out_stream
        ),
        &format!(
            "1a610a016d1001 820108726561646f6e6c79 8a010172 900102 9a010165 a2010174 a80103 b00104 \
             b80105 c00106 c80107 da0130{}",
            hex_of(out_stream.as_bytes())
        )
        .replace(' ', ""),
    );
    server(&ServerFrame::Ack { seqno: 0 }, r#"{"type":"ack","seqno":0}"#, "2000");
    server(
        &ServerFrame::Event(Event {
            event_id: "e".to_owned(),
            body: EventBody::Data(Bytes::from_static(b"hi")),
        }),
        r#"{"type":"event","event_id":"e","data":"hi"}"#,
        "0a070a026869120165",
    );
    server(
        &ServerFrame::Event(Event {
            event_id: "e".to_owned(),
            body: EventBody::Record { number: 0, record: Bytes::from_static(&[1, 2]) },
        }),
        r#"{"type":"event","event_id":"e","number":0,"record":"AQI="}"#,
        "0a0b1201658201020102880100",
    );
    server(
        &ServerFrame::Token(Token { resume_token: "t".to_owned(), resume_expires_in_ms: 1 }),
        r#"{"type":"token","resume_token":"t","resume_expires_in_ms":1}"#,
        "8a010782010174880101",
    );
    server(
        &ServerFrame::End { event_id: None, aborted: true },
        r#"{"type":"end","aborted":true}"#,
        "920103880101",
    );
    server(
        &ServerFrame::Error { code: Code::Gap, message: "m".to_owned(), retry_after_ms: Some(1) },
        r#"{"type":"error","code":"GAP","message":"m","retry_after_ms":1}"#,
        "9a010d 8201034741508a01016d900101".replace(' ', "").as_str(),
    );
    server(
        &ServerFrame::Proof(Box::new(Proof {
            commit: CommitProof {
                commit: 1,
                time: 2,
                number: 3,
                head: Head::from_bytes([4; 32]),
                path: Path::from_steps([(true, [5; 32])]),
                signature: [0; 64],
            },
            key: KeyId::from_bytes([7; 8]),
        })),
        &format!(
            concat!(
                r#"{{"type":"proof","commit":1,"time":2,"number":3,"head":"{}","#,
                r#""path":[{{"left":true,"node":"{}"}}],"signature":"{}","#,
                r#""key":"0707070707070707"}}"#
            ),
            "04".repeat(32),
            "05".repeat(32),
            "A".repeat(86)
        ),
        &format!(
            "8201a301 800101 880102 900103 9a0120{} a20126 800101 8a0120{} aa0140{} b20108{}",
            "04".repeat(32),
            "05".repeat(32),
            "00".repeat(64),
            "07".repeat(8)
        )
        .replace(' ', ""),
    );
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn any_chunk_fits_in_a_frame() {
    for byte in [0, 1, b'"', b'a', 0xff] {
        let data = Bytes::from(vec![byte; CHUNK_BYTES_MAX]);
        for format in FORMATS {
            let frame = ClientFrame::Chunk { seqno: u32::MAX, data: data.clone() };
            let message = frame.encode(format);
            assert!(message.len() <= FRAME_BYTES_MAX, "{byte} as {format:?}");
            assert_eq!(ClientFrame::decode(format, &message), Ok(frame));
        }
    }
}

#[test]
fn a_chunk_that_is_too_large_is_a_frame_and_a_frame_that_is_too_large_is_none() {
    for format in FORMATS {
        let data = Bytes::from(vec![b'a'; CHUNK_BYTES_MAX + 1]);
        let frame = ClientFrame::Chunk { seqno: 0, data };
        assert_eq!(ClientFrame::decode(format, &frame.encode(format)), Ok(frame));
        let data = Bytes::from(vec![b'a'; FRAME_BYTES_MAX]);
        let message = ClientFrame::Chunk { seqno: 0, data }.encode(format);
        assert_eq!(ClientFrame::decode(format, &message), Err(FrameError::TooLarge));
        assert_eq!(ServerFrame::decode(format, &message), Err(FrameError::TooLarge));
    }
}

#[test]
fn what_is_said_to_people_is_cut() {
    let frame =
        ServerFrame::Error { code: Code::Busy, message: "é".repeat(1024), retry_after_ms: None };
    for format in FORMATS {
        let Ok(ServerFrame::Error { message, .. }) =
            ServerFrame::decode(format, &frame.encode(format))
        else {
            panic!("no error");
        };
        assert_eq!(message, "é".repeat(512));
    }
}

#[test]
fn a_text_that_is_no_key_stays_none() {
    let hello = Hello { encryption_key: Some(KeyText("#".to_owned())), ..Hello::default() };
    let message = ClientFrame::Hello(hello).encode(Format::Protobuf);
    let Ok(ClientFrame::Hello(hello)) = ClientFrame::decode(Format::Protobuf, &message) else {
        panic!("no hello");
    };
    assert!(crate::StreamKey::parse(&hello.encryption_key.unwrap().0).is_err());
}

fn vectors() -> Value {
    // Tests run in the folder of their crate. Where it was when they were built may be gone.
    let path = "../../vectors/duplex-frames.json";
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What a frame is, in words: both sides have the same type then.
fn decoded(side: &str, format: Format, message: &Bytes) -> Result<String, FrameError> {
    match side {
        "client" => ClientFrame::decode(format, message).map(|frame| format!("{frame:?}")),
        _ => ServerFrame::decode(format, message).map(|frame| format!("{frame:?}")),
    }
}

fn message(case: &Value) -> (Format, Bytes) {
    let text = case["message"].as_str().unwrap();
    match case["format"].as_str().unwrap() {
        "json" => (Format::Json, text.to_owned().into()),
        _ => (Format::Protobuf, hex(text)),
    }
}

#[test]
fn vectors_are_read_and_written() {
    let vectors = vectors();
    let frames = vectors["frames"].as_array().unwrap();
    assert!(frames.len() >= 25);
    for case in frames {
        let side = case["side"].as_str().unwrap();
        let json = Bytes::from(case["json"].to_string());
        let protobuf = hex(case["protobuf"].as_str().unwrap());
        let frame = decoded(side, Format::Json, &json);
        assert!(frame.is_ok(), "{case}: {frame:?}");
        assert_eq!(decoded(side, Format::Protobuf, &protobuf), frame, "{case}");
        let written = |format| match side {
            "client" => ClientFrame::decode(format, &json).unwrap().encode(Format::Protobuf),
            _ => ServerFrame::decode(format, &json).unwrap().encode(Format::Protobuf),
        };
        assert_eq!(written(Format::Json), protobuf, "{case}");
        let rewritten = match side {
            "client" => {
                ClientFrame::decode(Format::Protobuf, &protobuf).unwrap().encode(Format::Json)
            }
            _ => ServerFrame::decode(Format::Protobuf, &protobuf).unwrap().encode(Format::Json),
        };
        assert_eq!(serde_json::from_slice::<Value>(&rewritten).unwrap(), case["json"]);
    }
    for case in vectors["also"].as_array().unwrap() {
        let (format, message) = message(case);
        let other = frames.iter().find(|frame| frame["name"] == case["same_as"]).unwrap();
        let json = Bytes::from(other["json"].to_string());
        let side = case["side"].as_str().unwrap();
        assert_eq!(decoded(side, format, &message), decoded(side, Format::Json, &json), "{case}");
    }
}

#[test]
fn vectors_are_refused() {
    let vectors = vectors();
    let refused = vectors["refused"].as_array().unwrap();
    assert!(refused.len() >= 70);
    for case in refused {
        let (format, message) = message(case);
        let frame = decoded(case["side"].as_str().unwrap(), format, &message);
        assert!(matches!(frame, Err(FrameError::Malformed(_))), "{case}: {frame:?}");
    }
}
