//! Streams over HTTP, with a server that breaks off.

use std::time::Duration;

use handback_client::Backoff;
use handback_client::streams::{
    AppendOptions, CreateOptions, From, KeptHead, Producer, Streams, StreamsError,
};
use handback_stream::{Head, StreamId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::script::Script;

fn streams(script: &Script) -> Streams {
    let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
    Streams::new(&script.url).unwrap().retry(backoff, 4)
}

/// Reads a request, and answers, or breaks off without an answer.
async fn answer(script: &Script, answer: &str) -> String {
    let mut stream = script.tcp().await;
    let mut buffer = vec![0; 8192];
    let length = stream.read(&mut buffer).await.unwrap();
    stream.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).to_lowercase()
}

const APPENDED: &str = "HTTP/1.1 200 OK\r\nStream-Next-Offset: 7\r\nProducer-Epoch: 2\r\n\
                        Connection: close\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const FENCED: &str = "HTTP/1.1 403 Forbidden\r\nProducer-Epoch: 9\r\nConnection: close\r\n\
                      Content-Length: 0\r\n\r\n";

#[tokio::test]
async fn a_producer_tries_again_under_the_same_number() {
    let script = Script::start().await;
    let streams = streams(&script);
    let mut producer = Producer { id: "p".to_owned(), epoch: 2, seq: 5 };
    let options = AppendOptions::new("text/plain");
    let answers = async {
        for text in ["", BUSY, APPENDED] {
            let request = answer(&script, text).await;
            assert!(request.starts_with("post /v1/stream/a%20b/c http/1.1"), "{request}");
            for header in ["producer-id: p", "producer-epoch: 2", "producer-seq: 5"] {
                assert!(request.contains(header), "{request}");
            }
        }
    };
    let (appended, ()) =
        tokio::join!(streams.produce("a b/c", "x", &mut producer, &options), answers);
    assert_eq!(appended.unwrap().next_offset, "7");
    assert_eq!(producer.seq, 6);
    let (fenced, _) =
        tokio::join!(streams.produce("a", "x", &mut producer, &options), answer(&script, FENCED));
    assert!(matches!(fenced, Err(StreamsError::Fenced { epoch: 9 })));
    assert_eq!(producer.seq, 6, "it can be tried again");
}

#[tokio::test]
async fn an_append_without_a_producer_is_tried_once() {
    let script = Script::start().await;
    let streams = streams(&script);
    let options = AppendOptions::new("text/plain");
    let (appended, _) = tokio::join!(streams.append("a", "x", &options), answer(&script, ""));
    assert!(matches!(appended, Err(StreamsError::Http(_))));
    assert!(script.is_left_alone().await);
}

#[tokio::test]
async fn attempts_come_to_an_end() {
    let script = Script::start().await;
    let streams = streams(&script);
    let answers = async {
        for _ in 0..4 {
            answer(&script, BUSY).await;
        }
    };
    let options = CreateOptions::new("text/plain");
    let (created, ()) = tokio::join!(streams.create("a", &options), answers);
    assert!(matches!(created, Err(StreamsError::Refused { status: 503, .. })));
    assert!(script.is_left_alone().await);
}

#[tokio::test]
async fn what_cannot_be_asked_is_not() {
    assert!(matches!(Streams::new("nowhere"), Err(StreamsError::Url(_))));
    let script = Script::start().await;
    let read = streams(&script).read("../a", &From::Start, None).await;
    assert!(matches!(read, Err(StreamsError::Path(_))));
}

#[test]
fn a_kept_head_comes_back_and_nothing_else_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head");
    assert_eq!(KeptHead::load(&path).unwrap(), None);
    let stream = StreamId::from_bytes([1; 24]);
    let kept = KeptHead { stream, number: 7, head: Head::from_bytes([2; 32]) };
    kept.save(&path).unwrap();
    assert_eq!(KeptHead::load(&path).unwrap(), Some(kept));
    let text = std::fs::read_to_string(&path).unwrap();
    for bad in ["", "{}", &text.replace("01", "0G"), &"x".repeat(5000)] {
        std::fs::write(&path, bad).unwrap();
        assert!(matches!(KeptHead::load(&path), Err(StreamsError::NoHead(_))), "{bad}");
    }
}
