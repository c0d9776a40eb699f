//! A server in this process, and a client of it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use handback_identity::Caller;
use handback_store::Log;
use handback_stream::duplex::{
    ClientFrame, Code, EventBody, Format, Hello, ServerFrame, Token, Welcome,
};
use handback_surface::duplex::{DuplexRoutes, DuplexSettings};
use handback_surface::streams::{Mode, Streams};
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime, ring};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// When the clock starts.
pub(crate) const START: u64 = 1_800_000_000_000;

pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const HOUR: u64 = 60 * MINUTE;

/// How long an answer may take: many times what it does.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(crate) streams: Arc<Streams>,
    time: Arc<AtomicU64>,
    address: SocketAddr,
}

impl World {
    pub(crate) async fn new(log: Arc<dyn Log>) -> Self {
        Self::with(log, DuplexSettings::default()).await
    }

    pub(crate) async fn with(log: Arc<dyn Log>, settings: DuplexSettings) -> Self {
        let time = Arc::new(AtomicU64::new(START));
        let clock = {
            let time = Arc::clone(&time);
            Arc::new(move || time.load(Ordering::Relaxed))
        };
        let streams = Streams::open(log, None, clock, Mode::Durable).unwrap();
        let now = UnixTime::from_secs(START / 1000);
        let ring = KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, now);
        let sealer = Sealer::new(&ring, SealerConfig::default()).unwrap();
        let routes = DuplexRoutes::new(Arc::clone(&streams), Arc::new(sealer), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let routes = routes.clone();
                let service = service_fn(move |request| {
                    let response = routes.handle(request, &Caller::unauthenticated());
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection.with_upgrades());
            }
        });
        Self { streams, time, address }
    }

    /// Sets the clock forward.
    pub(crate) fn pass(&self, millis: u64) {
        self.time.fetch_add(millis, Ordering::Relaxed);
    }

    /// A WebSocket, and nothing said on it.
    pub(crate) async fn connect(&self, headers: &[(&'static str, &str)]) -> Client {
        let url = format!("ws://{}/v1/duplex?handler=echo", self.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        Client(socket)
    }

    pub(crate) async fn try_open(&self, hello: Hello) -> Result<(Client, Welcome), Code> {
        let mut client = self.connect(&[]).await;
        client.say(ClientFrame::Hello(hello)).await;
        match client.frame().await {
            Some(ServerFrame::Welcome(welcome)) => Ok((client, *welcome)),
            Some(ServerFrame::Error { code, .. }) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn open(&self, hello: Hello) -> (Client, Welcome) {
        self.try_open(hello).await.unwrap()
    }
}

pub(crate) struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Says something, if that is not too late.
    pub(crate) async fn say(&mut self, frame: ClientFrame) {
        let bytes = frame.encode(Format::Json);
        let _ = self.0.send(Message::Text(bytes.try_into().unwrap())).await;
    }

    pub(crate) async fn chunk(&mut self, seqno: u32, text: &str) {
        let data = Bytes::copy_from_slice(text.as_bytes());
        self.say(ClientFrame::Chunk { seqno, data }).await;
    }

    /// The next frame; nothing at the end.
    pub(crate) async fn frame(&mut self) -> Option<ServerFrame> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
            match next.expect("nothing was heard for too long")?.ok()? {
                Message::Text(text) => {
                    return Some(ServerFrame::decode(Format::Json, &text.into()).unwrap());
                }
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// The next event, as text, with its id.
    pub(crate) async fn event(&mut self) -> (String, String) {
        loop {
            match self.frame().await {
                Some(ServerFrame::Event(event)) => {
                    let EventBody::Data(data) = event.body else { panic!("a record") };
                    return (event.event_id, String::from_utf8(data.to_vec()).unwrap());
                }
                Some(ServerFrame::Ack { .. } | ServerFrame::Token(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The error that ends the connection, with when to try again.
    pub(crate) async fn error(&mut self) -> (Code, Option<u64>) {
        loop {
            match self.frame().await {
                Some(ServerFrame::Error { code, retry_after_ms, .. }) => {
                    return (code, retry_after_ms);
                }
                Some(ServerFrame::Ack { .. } | ServerFrame::Token(_) | ServerFrame::Event(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next token that comes by itself.
    pub(crate) async fn token(&mut self) -> Token {
        loop {
            match self.frame().await {
                Some(ServerFrame::Token(token)) => return token,
                Some(ServerFrame::Ack { .. } | ServerFrame::Event(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn hello(key: &str) -> Hello {
    Hello { idempotency_key: key.to_owned(), ..Hello::default() }
}

pub(crate) fn again(key: &str, token: &Token) -> Hello {
    Hello { resume_token: Some(token.resume_token.clone()), ..hello(key) }
}
