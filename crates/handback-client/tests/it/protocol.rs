//! What a client does on a connection, and when it breaks.

use std::time::Duration;

use handback_client::duplex::{Duplex, DuplexError, Phase};
use handback_stream::duplex::{
    CHUNK_BYTES_MAX, ClientFrame, Code, Format, Mode, ServerFrame, Token,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use crate::script::{MOMENT, Script, end, error, event, read_only, welcome};

#[tokio::test]
async fn chunks_are_sent_again_after_a_cut_from_where_the_server_is() {
    for format in [Format::Json, Format::Protobuf] {
        let script = Script::start().await;
        let duplex = Duplex::open(script.options().format(format)).await.unwrap();
        for text in ["a", "b", "c"] {
            duplex.send(text).await.unwrap();
        }
        let (mut peer, hello) = script.welcome(0, 1).await;
        assert_eq!((hello.idempotency_key.as_str(), hello.event_id), ("key", None));
        assert_eq!((hello.resume_token, hello.proofs), (None, false));
        for seqno in 0..3 {
            assert_eq!(peer.chunk().await.0, seqno);
        }
        peer.say(ServerFrame::Ack { seqno: 0 }).await;
        peer.say(event("e1", "A")).await;
        let given = duplex.next_event().await.unwrap().unwrap();
        assert_eq!((given.id(), given.data().as_ref()), ("e1", &b"A"[..]));
        peer.say(event("e2", "B")).await;
        assert_eq!(duplex.next_event().await.unwrap().unwrap().id(), "e2");
        duplex.ack(&given).await.unwrap();
        assert_eq!(peer.hear().await, Some(ClientFrame::Ack { event_id: Some("e1".to_owned()) }));
        drop(peer);
        // The server has one more than it could say.
        let (mut peer, hello) = script.welcome(2, 2).await;
        assert_eq!(hello.resume_token.as_deref(), Some("token-1"));
        assert_eq!(hello.event_id.as_deref(), Some("e1"));
        assert_eq!(peer.chunk().await, (2, "c".to_owned()));
        // What was handed out and not acknowledged comes again on the wire, and not to the application.
        peer.say(event("e2", "B")).await;
        peer.say(event("e3", "C")).await;
        let given = duplex.next_event().await.unwrap().unwrap();
        assert_eq!(given.id(), "e3");
        duplex.ack(&given).await.unwrap();
        assert_eq!(peer.hear().await, Some(ClientFrame::Ack { event_id: Some("e3".to_owned()) }));
        duplex.close().await.unwrap();
        assert_eq!(peer.hear().await, Some(ClientFrame::Close));
        peer.say(end()).await;
        assert!(duplex.next_event().await.unwrap().is_none());
        assert!(!duplex.finished().await.unwrap().aborted);
        assert!(matches!(duplex.send("d").await, Err(DuplexError::AlreadyEnded)));
    }
}

#[tokio::test]
async fn no_more_than_the_credit_is_on_its_way() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    for number in 0..70 {
        duplex.send(number.to_string()).await.unwrap();
    }
    let (mut peer, _) = script.welcome(0, 1).await;
    for seqno in 0..64 {
        assert_eq!(peer.chunk().await.0, seqno);
    }
    assert!(peer.is_silent().await);
    peer.say(ServerFrame::Ack { seqno: 1 }).await;
    assert_eq!(peer.chunk().await.0, 64);
    assert_eq!(peer.chunk().await.0, 65);
    assert!(peer.is_silent().await);
}

#[tokio::test]
async fn no_more_bytes_than_the_credit_are_on_their_way() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    let large = vec![b'x'; CHUNK_BYTES_MAX];
    for _ in 0..2 {
        duplex.send(large.clone()).await.unwrap();
    }
    assert!(matches!(
        duplex.send([&large[..], b"x"].concat()).await,
        Err(DuplexError::ChunkTooLarge)
    ));
    let (mut peer, _) = script.welcome(0, 1).await;
    assert_eq!(peer.chunk().await.0, 0);
    assert!(peer.is_silent().await);
    peer.say(ServerFrame::Ack { seqno: 0 }).await;
    assert_eq!(peer.chunk().await.0, 1);
}

#[tokio::test]
async fn sending_waits_while_the_outbox_is_full() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options().outbox(2, 1000)).await.unwrap();
    duplex.send("a").await.unwrap();
    duplex.send("b").await.unwrap();
    assert!(timeout(MOMENT, duplex.send("c")).await.is_err());
    let (mut peer, _) = script.welcome(0, 1).await;
    peer.chunk().await;
    peer.say(ServerFrame::Ack { seqno: 0 }).await;
    assert_eq!(duplex.send("c").await.unwrap(), 2);
    assert_eq!((peer.chunk().await.0, peer.chunk().await.0), (1, 2));
}

#[tokio::test]
async fn many_chunks_are_sent_together_in_order() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options().outbox(100, 1 << 20)).await.unwrap();
    let chunks = |count: u32| (0..count).map(|number| number.to_string().into()).collect();
    assert!(matches!(duplex.send_all(Vec::new()).await, Err(DuplexError::Options(_))));
    let answer = async {
        let (mut peer, _) = script.welcome(0, 1).await;
        for seqno in 0..300 {
            assert_eq!(peer.chunk().await, (seqno, seqno.to_string()));
            peer.say(ServerFrame::Ack { seqno }).await;
        }
    };
    let (sent, ()) = tokio::join!(duplex.send_all(chunks(300)), answer);
    assert_eq!(sent.unwrap(), 299);
}

#[tokio::test]
async fn an_abort_does_not_wait_and_is_repeated() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    duplex.send("a").await.unwrap();
    duplex.abort().await.unwrap();
    duplex.close().await.unwrap();
    assert!(matches!(duplex.send("b").await, Err(DuplexError::AlreadyClosed)));
    let (mut peer, _) = script.welcome(0, 1).await;
    assert_eq!(peer.hear().await, Some(ClientFrame::Abort));
    drop(peer);
    let (mut peer, _) = script.welcome(0, 2).await;
    assert_eq!(peer.hear().await, Some(ClientFrame::Abort));
    peer.say(ServerFrame::End { event_id: None, aborted: true }).await;
    assert!(duplex.finished().await.unwrap().aborted);
}

#[tokio::test]
async fn a_fresh_token_is_presented() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    let token = Token { resume_token: "fresh".to_owned(), resume_expires_in_ms: 1 };
    peer.say(ServerFrame::Token(token)).await;
    peer.say(event("e1", "A")).await;
    duplex.next_event().await.unwrap();
    drop(peer);
    let (_, hello) = script.welcome(0, 2).await;
    assert_eq!(hello.resume_token.as_deref(), Some("fresh"));
}

#[tokio::test]
async fn what_is_final_stops_it_and_has_a_type() {
    for (code, expected) in [
        (Code::Superseded, "Superseded"),
        (Code::Expired, "Expired"),
        (Code::Invalid, "Invalid"),
        (Code::Gap, "Refused"),
        (Code::UnknownHandler, "Refused"),
    ] {
        let script = Script::start().await;
        let duplex = Duplex::open(script.options()).await.unwrap();
        let mut peer = script.accept().await;
        peer.hello().await;
        peer.say(error(code, None)).await;
        let why = duplex.finished().await.unwrap_err();
        assert!(format!("{why:?}").starts_with(expected), "{why:?}");
        assert!(duplex.next_event().await.is_err());
        assert!(duplex.send("a").await.is_err());
        assert_eq!(duplex.status().phase, Phase::Failed);
        assert!(script.is_left_alone().await, "{code:?}");
    }
}

#[tokio::test]
async fn a_close_code_says_so_too() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    let (peer, _) = script.welcome(0, 1).await;
    peer.close(Code::Superseded.close_code()).await;
    assert!(matches!(duplex.finished().await, Err(DuplexError::Superseded)));
}

#[tokio::test]
async fn what_passes_is_tried_again_not_before_the_hint() {
    for code in [Code::Busy, Code::Stopping, Code::ReadOnly] {
        let script = Script::start().await;
        let duplex = Duplex::open(script.options()).await.unwrap();
        duplex.send("a").await.unwrap();
        let (mut peer, _) = script.welcome(0, 1).await;
        peer.chunk().await;
        let start = Instant::now();
        peer.say(error(code, Some(300))).await;
        let mut status = duplex.watch();
        status.wait_for(|status| status.phase == Phase::Waiting).await.unwrap();
        assert_eq!(duplex.status().is_degraded(), code == Code::ReadOnly);
        let (mut peer, _) = script.welcome(0, 2).await;
        assert!(start.elapsed() >= Duration::from_millis(300), "{code:?}");
        assert_eq!(peer.chunk().await.0, 0, "nothing is dropped");
    }
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    duplex.send("a").await.unwrap();
    // Nothing at all, then a status with a hint.
    drop(script.tcp().await);
    let mut stream = script.tcp().await;
    let mut buffer = [0; 4096];
    let _ = stream.read(&mut buffer).await.unwrap();
    let start = Instant::now();
    let answer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(answer.as_bytes()).await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(peer.chunk().await.0, 0);
}

#[tokio::test]
async fn a_status_that_does_not_pass_stops_it() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    let mut stream = script.tcp().await;
    let mut buffer = [0; 4096];
    let _ = stream.read(&mut buffer).await.unwrap();
    let body = r#"{"error":{"code":"UNKNOWN_HANDLER","message":"no"}}"#;
    let answer = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    let why = duplex.finished().await.unwrap_err();
    assert!(matches!(why, DuplexError::Refused { code: Code::UnknownHandler, .. }), "{why:?}");
}

#[tokio::test]
async fn degraded_mode_keeps_everything_and_is_told() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    duplex.send("a").await.unwrap();
    let mut peer = script.accept().await;
    peer.hello().await;
    let start = Instant::now();
    peer.say(read_only(400)).await;
    peer.say(event("e1", "A")).await;
    // Events come, chunks wait.
    assert_eq!(duplex.next_event().await.unwrap().unwrap().id(), "e1");
    let status = duplex.status();
    assert!(status.is_degraded());
    assert_eq!(status.mode, Some(Mode::ReadOnly));
    assert_eq!(status.reason.as_deref(), Some("the disk is full"));
    assert!(peer.is_silent().await);
    // After the hint the server is asked again.
    let (mut peer, _) = script.welcome(0, 2).await;
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert_eq!(peer.chunk().await, (0, "a".to_owned()));
    assert!(!duplex.status().is_degraded());
}

#[tokio::test]
async fn an_operation_that_is_not_idempotent_is_not_resumed() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options().idempotent(false)).await.unwrap();
    // Nothing was sent yet: another attempt is harmless.
    drop(script.accept().await);
    let (peer, _) = script.welcome(0, 1).await;
    drop(peer);
    assert!(matches!(duplex.finished().await, Err(DuplexError::Cut(_))));
    assert!(script.is_left_alone().await);
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_is_left() {
    let frames: [(&str, ServerFrame); 5] = [
        ("an ack of nothing", ServerFrame::Ack { seqno: 0 }),
        ("a second welcome", welcome(0, 2)),
        ("more chunks than there are", welcome(1, 1)),
        ("a proof", crate::proofs::any_proof()),
        ("a record", crate::proofs::any_record()),
    ];
    for (name, frame) in frames {
        let script = Script::start().await;
        let duplex = Duplex::open(script.options()).await.unwrap();
        match name {
            "more chunks than there are" => {
                let mut peer = script.accept().await;
                peer.hello().await;
                peer.say(frame).await;
            }
            _ => script.welcome(0, 1).await.0.say(frame).await,
        }
        let why = duplex.finished().await.unwrap_err();
        assert!(matches!(why, DuplexError::Misbehaved(_)), "{name}: {why:?}");
    }
}

#[tokio::test]
async fn a_server_that_lost_acknowledged_chunks_is_left() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options()).await.unwrap();
    duplex.send("a").await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    peer.chunk().await;
    peer.say(ServerFrame::Ack { seqno: 0 }).await;
    peer.say(event("e1", "A")).await;
    duplex.next_event().await.unwrap();
    drop(peer);
    let mut peer = script.accept().await;
    peer.hello().await;
    peer.say(welcome(0, 2)).await;
    assert!(matches!(duplex.finished().await, Err(DuplexError::Misbehaved(_))));
}

#[tokio::test]
async fn events_are_acknowledged_by_asking_for_more() {
    let script = Script::start().await;
    let duplex = Duplex::open(script.options().auto_ack(true)).await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    peer.say(event("e1", "A")).await;
    assert_eq!(duplex.next_event().await.unwrap().unwrap().id(), "e1");
    assert!(peer.is_silent().await, "the application still has it in hand");
    let (next, heard) = tokio::join!(timeout(MOMENT, duplex.next_event()), peer.hear());
    assert!(next.is_err());
    assert_eq!(heard, Some(ClientFrame::Ack { event_id: Some("e1".to_owned()) }));
}
