//! One WebSocket: connecting, and frames instead of messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use handback_stream::duplex::{ClientFrame, Code, FRAME_BYTES_MAX, Format, ServerFrame};
use hyper::Uri;
use hyper::header::AUTHORIZATION;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::{ClientRequestBuilder, IntoClientRequest as _};
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use super::DuplexError;
use crate::bearer::BearerToken;
use crate::http::{CONNECT_TIMEOUT, error_of, retry_after};

/// Frames that wait to be written: chunks and acknowledgements within the credit, and some more.
const OUTGOING_MAX: usize = 1024;

/// How long what was written last may take, when a connection ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

type Ws = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another one may do better.
    Again {
        /// Not before.
        after: Option<Duration>,
        /// For people.
        why: String,
    },
    /// No other one will.
    Fatal(DuplexError),
}

impl Trouble {
    pub(super) fn again(why: impl Into<String>) -> Self {
        Self::Again { after: None, why: why.into() }
    }
}

impl From<DuplexError> for Trouble {
    fn from(why: DuplexError) -> Self {
        match why {
            // The server that has the keys may be back in a moment.
            DuplexError::Keys(crate::KeysError::Http(_) | crate::KeysError::Status(500..)) => {
                Self::again(why.to_string())
            }
            why => Self::Fatal(why),
        }
    }
}

/// What the server said is wrong: whether it is worth another attempt.
pub(super) fn of_code(code: Code, message: String, after: Option<Duration>) -> Trouble {
    match code {
        Code::Busy | Code::ReadOnly | Code::Stopping => {
            Trouble::Again { after, why: format!("{} {message}", code.name()) }
        }
        Code::Superseded => Trouble::Fatal(DuplexError::Superseded),
        Code::Expired => Trouble::Fatal(DuplexError::Expired),
        Code::Invalid => Trouble::Fatal(DuplexError::Invalid),
        code => Trouble::Fatal(DuplexError::Refused { code, message }),
    }
}

/// A connection.
pub(super) struct Socket {
    format: Format,
    outgoing: mpsc::Sender<Message>,
    writer: JoinHandle<()>,
    incoming: SplitStream<Ws>,
}

impl Socket {
    pub(super) async fn connect(
        url: &str,
        format: Format,
        tls: Arc<ClientConfig>,
        bearer: Option<&BearerToken>,
    ) -> Result<Self, Trouble> {
        let uri: Uri = url.parse().map_err(|_| DuplexError::Options("the handler is no name"))?;
        let request = ClientRequestBuilder::new(uri).with_sub_protocol(format.subprotocol());
        let mut request = request.into_client_request().map_err(refused)?;
        if let Some(value) = bearer.and_then(BearerToken::header) {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(FRAME_BYTES_MAX);
        config.max_frame_size = Some(FRAME_BYTES_MAX);
        let connecting = connect_async_tls_with_config(
            request,
            Some(config),
            true,
            Some(Connector::Rustls(tls)),
        );
        let (socket, _) = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| Trouble::again("the server did not answer in time"))?
            .map_err(refused)?;
        let (sink, incoming) = socket.split();
        let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
        let writer = tokio::spawn(write(sink, messages));
        Ok(Self { format, outgoing, writer, incoming })
    }

    /// Queues a frame. It is written while frames are read: none of both ends waits for the other.
    pub(super) fn send(&self, frame: &ClientFrame) -> Result<(), Trouble> {
        let bytes = frame.encode(self.format);
        self.queue(match self.format {
            Format::Json => {
                let text = Utf8Bytes::try_from(bytes);
                Message::Text(text.map_err(|_| DuplexError::Misbehaved("JSON is text"))?)
            }
            Format::Protobuf => Message::Binary(bytes),
        })
    }

    /// Asks for a sign of life.
    pub(super) fn ping(&self) -> Result<(), Trouble> {
        self.queue(Message::Ping(Bytes::new()))
    }

    fn queue(&self, message: Message) -> Result<(), Trouble> {
        self.outgoing.try_send(message).map_err(|_| Trouble::again("the connection broke"))
    }

    /// The next frame; nothing if it was only a sign of life. Nothing is lost if it is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<ServerFrame>, Trouble> {
        let message = match self.incoming.next().await {
            Some(Ok(message)) => message,
            Some(Err(WsError::Capacity(_))) => {
                return Err(DuplexError::Misbehaved("a frame that is too large").into());
            }
            Some(Err(why)) => return Err(Trouble::again(format!("the connection broke: {why}"))),
            None => return Err(Trouble::again("the connection was closed")),
        };
        let bytes = match (message, self.format) {
            (Message::Text(text), Format::Json) => Bytes::from(text),
            (Message::Binary(bytes), Format::Protobuf) => bytes,
            (Message::Ping(_) | Message::Pong(_), _) => return Ok(None),
            (Message::Close(frame), _) => return Err(closed(frame)),
            _ => return Err(DuplexError::Misbehaved("a message of the other kind").into()),
        };
        let frame = ServerFrame::decode(self.format, &bytes);
        frame.map(Some).map_err(|_| DuplexError::Misbehaved("a frame that is none").into())
    }

    /// Writes what is left, and says good-bye.
    pub(super) async fn finish(self) {
        drop(self.outgoing);
        let mut writer = self.writer;
        if tokio::time::timeout(FLUSH_TIMEOUT, &mut writer).await.is_err() {
            writer.abort();
        }
    }
}

async fn write(mut sink: SplitSink<Ws, Message>, mut messages: mpsc::Receiver<Message>) {
    while let Some(message) = messages.recv().await {
        if sink.feed(message).await.is_err() {
            return;
        }
        // What came meanwhile goes with it.
        if messages.is_empty() && sink.flush().await.is_err() {
            return;
        }
    }
    let _ = sink.send(Message::Close(None)).await;
}

/// A close frame says the reason if the error frame got lost.
fn closed(frame: Option<CloseFrame>) -> Trouble {
    let Some(frame) = frame else { return Trouble::again("the connection was closed") };
    let code = u16::from(frame.code);
    let known =
        [Code::Superseded, Code::Expired].into_iter().find(|known| known.close_code() == code);
    match known {
        Some(known) => of_code(known, frame.reason.to_string(), None),
        None => Trouble::again(format!("the connection was closed: {code} {}", frame.reason)),
    }
}

fn refused(why: WsError) -> Trouble {
    match why {
        WsError::Http(answer) => answered(&answer),
        WsError::Url(_) | WsError::HttpFormat(_) => {
            Trouble::Fatal(DuplexError::Options("the address is not one of a WebSocket"))
        }
        why => Trouble::again(why.to_string()),
    }
}

/// The server did not upgrade.
fn answered(answer: &Response<Option<Vec<u8>>>) -> Trouble {
    let (code, message) = error_of(answer.body().as_deref().unwrap_or_default());
    let after = retry_after(answer.headers());
    if let Some(code) = Code::of_name(&code) {
        return of_code(code, message, after);
    }
    match answer.status().as_u16() {
        429 | 500.. => Trouble::Again { after, why: format!("{} {message}", answer.status()) },
        status => Trouble::Fatal(DuplexError::Status { status, message }),
    }
}
