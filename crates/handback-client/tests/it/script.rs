//! A server that says what a test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use handback_client::Backoff;
use handback_client::duplex::DuplexOptions;
use handback_stream::StreamId;
use handback_stream::duplex::{
    ClientFrame, Code, Event, EventBody, Format, Hello, Mode, ServerFrame, Token, Welcome,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a test waits for what must not come.
pub(crate) const MOMENT: Duration = Duration::from_millis(150);

pub(crate) struct Script {
    listener: TcpListener,
    pub(crate) url: String,
}

impl Script {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Options with short waits.
    pub(crate) fn options(&self) -> DuplexOptions {
        let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
        DuplexOptions::new(&self.url).handler("echo").idempotency_key("key").backoff(backoff)
    }

    /// The next connection, before it is a WebSocket.
    pub(crate) async fn tcp(&self) -> TcpStream {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        accepted.expect("nobody connects").unwrap().0
    }

    /// The next connection. One that was left before it was accepted does not count.
    pub(crate) async fn accept(&self) -> Peer {
        loop {
            if let Some(peer) = self.upgraded().await {
                return peer;
            }
        }
    }

    #[expect(clippy::result_large_err, reason = "the library's type")]
    async fn upgraded(&self) -> Option<Peer> {
        let stream = self.tcp().await;
        let mut format = Format::Json;
        let upgrade = |request: &Request, mut response: Response| {
            assert_eq!(request.uri().to_string(), "/v1/duplex?handler=echo");
            let name = request.headers().get("sec-websocket-protocol").unwrap().clone();
            format = Format::of_subprotocol(name.to_str().unwrap()).unwrap();
            response.headers_mut().insert("sec-websocket-protocol", name);
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, upgrade).await.ok()?;
        Some(Peer { socket, format })
    }

    /// Whether nobody connects for a moment.
    pub(crate) async fn is_left_alone(&self) -> bool {
        tokio::time::timeout(MOMENT, self.listener.accept()).await.is_err()
    }

    /// A connection that was welcomed.
    pub(crate) async fn welcome(&self, next_seqno: u32, generation: u64) -> (Peer, Hello) {
        let (mut peer, hello) = loop {
            let mut peer = self.accept().await;
            match peer.hear().await {
                Some(ClientFrame::Hello(hello)) => break (peer, hello),
                None => {}
                other => panic!("no hello: {other:?}"),
            }
        };
        peer.say(welcome(next_seqno, generation)).await;
        assert_eq!(peer.hear().await, Some(ClientFrame::Ack { event_id: None }));
        (peer, hello)
    }
}

pub(crate) fn welcome(next_seqno: u32, generation: u64) -> ServerFrame {
    ServerFrame::Welcome(Box::new(Welcome {
        mode: Mode::Durable,
        reason: None,
        message: String::new(),
        next_seqno,
        event_id: None,
        token: Token { resume_token: format!("token-{generation}"), resume_expires_in_ms: 900_000 },
        generation,
        credit_events: 64,
        credit_bytes: 262_144,
        retry_after_ms: None,
        in_stream: None,
        out_stream: Some(StreamId::from_bytes([7; 24])),
    }))
}

/// A welcome by a server whose store takes no writes.
pub(crate) fn read_only(retry_after_ms: u64) -> ServerFrame {
    let ServerFrame::Welcome(mut frame) = welcome(0, 1) else { unreachable!() };
    frame.mode = Mode::ReadOnly;
    frame.reason = Some("the disk is full".to_owned());
    frame.retry_after_ms = Some(retry_after_ms);
    ServerFrame::Welcome(frame)
}

pub(crate) fn event(id: &str, data: &'static str) -> ServerFrame {
    let body = EventBody::Data(Bytes::from_static(data.as_bytes()));
    ServerFrame::Event(Event { event_id: id.to_owned(), body })
}

pub(crate) fn error(code: Code, retry_after_ms: Option<u64>) -> ServerFrame {
    ServerFrame::Error { code, message: "because".to_owned(), retry_after_ms }
}

pub(crate) fn end() -> ServerFrame {
    ServerFrame::End { event_id: None, aborted: false }
}

pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    format: Format,
}

impl Peer {
    pub(crate) async fn say(&mut self, frame: ServerFrame) {
        let bytes = frame.encode(self.format);
        let message = match self.format {
            Format::Json => Message::Text(bytes.try_into().unwrap()),
            Format::Protobuf => Message::Binary(bytes),
        };
        self.socket.send(message).await.unwrap();
    }

    /// The next frame; nothing when the connection is over.
    pub(crate) async fn hear(&mut self) -> Option<ClientFrame> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let bytes = match message.expect("nothing is said")?.ok()? {
                Message::Text(text) => Bytes::from(text),
                Message::Binary(bytes) => bytes,
                Message::Close(_) => return None,
                _ => continue,
            };
            return Some(ClientFrame::decode(self.format, &bytes).unwrap());
        }
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.hear().await {
            Some(ClientFrame::Hello(hello)) => hello,
            other => panic!("no hello: {other:?}"),
        }
    }

    /// The number of the next chunk, which must come now.
    pub(crate) async fn chunk(&mut self) -> (u32, String) {
        match self.hear().await {
            Some(ClientFrame::Chunk { seqno, data }) => {
                (seqno, String::from_utf8(data.to_vec()).unwrap())
            }
            other => panic!("no chunk: {other:?}"),
        }
    }

    /// Closes with a code, without an error frame.
    pub(crate) async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        self.socket.send(Message::Close(Some(frame))).await.unwrap();
        while self.hear().await.is_some() {}
    }

    /// Whether nothing is said for a moment.
    pub(crate) async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(MOMENT, self.hear()).await.is_err()
    }
}

/// A clock that a test sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl handback_client::Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
