//! A client that says exactly what it is told to, and keeps nothing by itself.

use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use handback_stream::duplex::{
    ClientFrame, Code, Event, EventBody, Format, Hello, ServerFrame, Token, Welcome,
};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::HandshakeError;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error, Message, WebSocket};

use crate::streams::server::Server;

/// How long an answer may take: many times what it does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Client {
    pub(crate) socket: WebSocket<TcpStream>,
    pub(crate) format: Format,
}

/// What was heard.
#[derive(Debug)]
pub(crate) enum Heard {
    Frame(ServerFrame),
    /// The other side closed, and said why.
    Closed(u16),
    /// It just ended.
    Cut,
}

impl Client {
    /// A WebSocket, and nothing said on it; or the status that was answered.
    pub(crate) fn connect(
        server: &Server,
        handler: &str,
        format: Format,
        headers: &[(&str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("ws://{}/v1/duplex?handler={handler}", server.address);
        let mut request = url.into_client_request().unwrap();
        let protocol = HeaderValue::from_static(format.subprotocol());
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        match tungstenite::client::client_with_config(request, stream, Some(config)) {
            Ok((socket, response)) => {
                assert_eq!(response.headers()["sec-websocket-protocol"], format.subprotocol());
                Ok(Self { socket, format })
            }
            Err(HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// A connection that has said hello and was welcomed.
    pub(crate) fn open(
        server: &Server,
        handler: &str,
        format: Format,
        hello: Hello,
    ) -> (Self, Welcome) {
        match Self::try_open(server, handler, format, hello) {
            Ok(opened) => opened,
            Err((code, message)) => panic!("{code:?}: {message}"),
        }
    }

    /// The same, unless it is refused.
    pub(crate) fn try_open(
        server: &Server,
        handler: &str,
        format: Format,
        hello: Hello,
    ) -> Result<(Self, Welcome), (Code, String)> {
        let mut client = Self::connect(server, handler, format, &[]).unwrap();
        client.say(&ClientFrame::Hello(hello));
        match client.frame() {
            ServerFrame::Welcome(welcome) => Ok((client, *welcome)),
            ServerFrame::Error { code, message, .. } => {
                assert_eq!(client.closed(), code.close_code());
                Err((code, message))
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn say(&mut self, frame: &ClientFrame) {
        self.try_say(frame).unwrap();
    }

    /// Says something that may be too late.
    pub(crate) fn try_say(&mut self, frame: &ClientFrame) -> Result<(), Error> {
        let bytes = frame.encode(self.format);
        self.socket.send(match self.format {
            Format::Json => Message::Text(bytes.try_into().unwrap()),
            Format::Protobuf => Message::Binary(bytes),
        })
    }

    pub(crate) fn chunk(&mut self, seqno: u32, data: impl Into<Bytes>) {
        self.say(&ClientFrame::Chunk { seqno, data: data.into() });
    }

    pub(crate) fn ack(&mut self, event_id: Option<&str>) {
        self.say(&ClientFrame::Ack { event_id: event_id.map(str::to_owned) });
    }

    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            let bytes = match self.socket.read() {
                Ok(Message::Text(text)) => Bytes::from(text),
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Close(close)) => {
                    // The answer to it is written by this only.
                    let _ = self.socket.flush();
                    return Heard::Closed(close.map_or(0, |close| close.code.into()));
                }
                Ok(_) => continue,
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("nothing was heard for too long")
                }
                Err(
                    Error::Io(_)
                    | Error::ConnectionClosed
                    | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => return Heard::Cut,
                Err(error) => panic!("{error}"),
            };
            return Heard::Frame(ServerFrame::decode(self.format, &bytes).unwrap());
        }
    }

    #[track_caller]
    pub(crate) fn frame(&mut self) -> ServerFrame {
        match self.hear() {
            Heard::Frame(frame) => frame,
            other => panic!("{other:?}"),
        }
    }

    /// With what code the other side closes, which must come next.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> u16 {
        match self.hear() {
            Heard::Closed(code) => code,
            other => panic!("{other:?}"),
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Rest {
        let mut rest = Rest::default();
        loop {
            match self.hear() {
                Heard::Frame(ServerFrame::Ack { seqno }) => rest.acks.push(seqno),
                Heard::Frame(ServerFrame::Event(event)) => rest.events.push(plain(event)),
                Heard::Frame(ServerFrame::End { aborted, event_id }) => {
                    rest.ends.push((aborted, event_id));
                }
                Heard::Frame(ServerFrame::Error { code, .. }) => rest.errors.push(code),
                Heard::Frame(ServerFrame::Token(Token { .. })) => {}
                Heard::Frame(frame) => panic!("{frame:?}"),
                Heard::Closed(code) => {
                    rest.close = Some(code);
                    return rest;
                }
                Heard::Cut => return rest,
            }
        }
    }

    /// The next so many events, each with its id. Acks between them are left out.
    #[track_caller]
    pub(crate) fn events(&mut self, count: usize) -> Vec<(String, Bytes)> {
        let mut events = Vec::new();
        while events.len() < count {
            match self.frame() {
                ServerFrame::Event(event) => events.push(plain(event)),
                ServerFrame::Ack { .. } => {}
                other => panic!("{other:?} after {} events", events.len()),
            }
        }
        events
    }

    /// Hears acks up to this one, and nothing else but events.
    #[track_caller]
    pub(crate) fn acked(&mut self, upto: u32) {
        loop {
            match self.frame() {
                ServerFrame::Ack { seqno } if seqno == upto => return,
                ServerFrame::Ack { .. } | ServerFrame::Event(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Ends the connection as a cable does that is pulled.
    pub(crate) fn cut(self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
    }
}

/// What came before the end of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) acks: Vec<u32>,
    pub(crate) events: Vec<(String, Bytes)>,
    /// Whether it was aborted, and the last event.
    pub(crate) ends: Vec<(bool, Option<String>)>,
    pub(crate) errors: Vec<Code>,
    pub(crate) close: Option<u16>,
}

impl Rest {
    pub(crate) fn texts(&self) -> Vec<String> {
        texts(&self.events)
    }
}

pub(crate) fn texts(events: &[(String, Bytes)]) -> Vec<String> {
    events.iter().map(|(_, data)| String::from_utf8(data.to_vec()).unwrap()).collect()
}

pub(crate) fn hello(key: &str) -> Hello {
    Hello { idempotency_key: key.to_owned(), ..Hello::default() }
}

/// The bytes of an event that came without a proof.
#[track_caller]
pub(crate) fn plain(event: Event) -> (String, Bytes) {
    match event.body {
        EventBody::Data(data) => (event.event_id, data),
        EventBody::Record { .. } => panic!("a record"),
    }
}

/// Goes on with what a welcome or a token frame gave.
pub(crate) fn again(key: &str, token: &Token, event_id: Option<&str>) -> Hello {
    Hello {
        resume_token: Some(token.resume_token.clone()),
        event_id: event_id.map(str::to_owned),
        ..hello(key)
    }
}
