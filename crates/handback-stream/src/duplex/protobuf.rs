//! Frames as protobuf: the messages of `docs/spec/duplex.md`, section 3.2.
//!
//! Numbers up to 15 are those that clients of this kind of protocol know; ours are above.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use prost::{Message, Oneof};

use super::codec::{Decoded, FrameError, PATH_STEPS_MAX, cut};
use super::frame::{
    ClientFrame, Code, Event, EventBody, Hello, KeyText, Mode, Proof, ServerFrame, Token, Welcome,
};
use super::json::stream_id;
use crate::chain::{Head, Path};
use crate::sign::{KeyId, SIGNATURE_BYTES};
use crate::verify::CommitProof;

/// Bytes of a stream key.
const KEY_BYTES: usize = 32;

pub(super) fn encode_client(frame: &ClientFrame) -> Bytes {
    let plain = |request| Request { request: Some(request), idempotency_key: None, seqno: None };
    let request = match frame {
        ClientFrame::Hello(hello) => Request {
            request: Some(RequestCase::Hello(HelloWire {
                event_id: hello.event_id.clone(),
                resume_token: hello.resume_token.clone(),
                encryption_key: hello.encryption_key.as_ref().map(key_bytes),
                proofs: hello.proofs,
            })),
            idempotency_key: Some(hello.idempotency_key.clone()),
            seqno: None,
        },
        ClientFrame::Chunk { seqno, data } => Request {
            request: Some(RequestCase::ClientChunk(ClientChunk { data: data.clone() })),
            idempotency_key: None,
            seqno: Some(*seqno),
        },
        ClientFrame::Ack { event_id } => {
            plain(RequestCase::Ack(Ack { event_id: event_id.clone() }))
        }
        ClientFrame::Close => plain(RequestCase::Close(Empty {})),
        ClientFrame::Abort => plain(RequestCase::Abort(Empty {})),
    };
    request.encode_to_vec().into()
}

pub(super) fn decode_client(bytes: &Bytes) -> Decoded<ClientFrame> {
    let message = Request::decode(bytes.clone()).map_err(|_| FrameError::Malformed("request"))?;
    let Some(request) = message.request else { return Err(FrameError::Malformed("request")) };
    Ok(match request {
        RequestCase::ClientChunk(chunk) => {
            let seqno = message.seqno.ok_or(FrameError::Malformed("seqno"))?;
            ClientFrame::Chunk { seqno, data: chunk.data }
        }
        RequestCase::Abort(Empty {}) => ClientFrame::Abort,
        RequestCase::Close(Empty {}) => ClientFrame::Close,
        RequestCase::Hello(hello) => ClientFrame::Hello(Hello {
            idempotency_key: message
                .idempotency_key
                .ok_or(FrameError::Malformed("idempotency_key"))?,
            event_id: hello.event_id,
            resume_token: hello.resume_token,
            encryption_key: hello.encryption_key.as_ref().map(key_text).transpose()?,
            proofs: hello.proofs,
        }),
        RequestCase::Ack(ack) => ClientFrame::Ack { event_id: ack.event_id },
    })
}

pub(super) fn encode_server(frame: &ServerFrame) -> Bytes {
    let response = match frame {
        ServerFrame::Welcome(welcome) => {
            ResponseCase::WelcomeMessage(Box::new(WelcomeMessage::of(welcome)))
        }
        ServerFrame::Ack { seqno } => ResponseCase::SeqnoAck(*seqno),
        ServerFrame::Event(event) => ResponseCase::ServerChunk(ServerChunk::of(event)),
        ServerFrame::Proof(proof) => ResponseCase::Proof(Box::new(ProofWire::of(proof))),
        ServerFrame::Token(token) => ResponseCase::Token(TokenWire {
            resume_token: token.resume_token.clone(),
            resume_expires_in_ms: token.resume_expires_in_ms,
        }),
        ServerFrame::End { event_id, aborted } => {
            ResponseCase::End(End { event_id: event_id.clone(), aborted: *aborted })
        }
        ServerFrame::Error { code, message, retry_after_ms } => ResponseCase::Error(ErrorWire {
            code: code.name().to_owned(),
            message: cut(message).to_owned(),
            retry_after_ms: *retry_after_ms,
        }),
    };
    Response { response: Some(response) }.encode_to_vec().into()
}

pub(super) fn decode_server(bytes: &Bytes) -> Decoded<ServerFrame> {
    let message = Response::decode(bytes.clone()).map_err(|_| FrameError::Malformed("response"))?;
    let Some(response) = message.response else { return Err(FrameError::Malformed("response")) };
    Ok(match response {
        ResponseCase::ServerChunk(chunk) => ServerFrame::Event(chunk.read()?),
        ResponseCase::WelcomeMessage(welcome) => ServerFrame::Welcome(Box::new(welcome.read()?)),
        ResponseCase::SeqnoAck(seqno) => ServerFrame::Ack { seqno },
        ResponseCase::Proof(proof) => ServerFrame::Proof(Box::new(proof.read()?)),
        ResponseCase::Token(token) => ServerFrame::Token(Token {
            resume_token: token.resume_token,
            resume_expires_in_ms: token.resume_expires_in_ms,
        }),
        ResponseCase::End(end) => ServerFrame::End { event_id: end.event_id, aborted: end.aborted },
        ResponseCase::Error(error) => ServerFrame::Error {
            code: Code::of_name(&error.code).ok_or(FrameError::Malformed("code"))?,
            message: error.message,
            retry_after_ms: error.retry_after_ms,
        },
    })
}

/// The bytes of a key. Of a text that is none: nothing, which is none either.
fn key_bytes(key: &KeyText) -> Bytes {
    URL_SAFE_NO_PAD.decode(&key.0).unwrap_or_default().into()
}

fn key_text(bytes: &Bytes) -> Decoded<KeyText> {
    if bytes.len() > KEY_BYTES {
        return Err(FrameError::Malformed("encryption_key"));
    }
    Ok(KeyText(URL_SAFE_NO_PAD.encode(bytes)))
}

fn array<const N: usize>(bytes: &Bytes, what: &'static str) -> Decoded<[u8; N]> {
    bytes.as_ref().try_into().map_err(|_| FrameError::Malformed(what))
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Request {
    #[prost(oneof = "RequestCase", tags = "1, 2, 3, 16, 17")]
    request: Option<RequestCase>,
    #[prost(string, optional, tag = "4")]
    idempotency_key: Option<String>,
    #[prost(uint32, optional, tag = "5")]
    seqno: Option<u32>,
}

#[derive(Clone, PartialEq, Oneof)]
#[prost(skip_debug)]
enum RequestCase {
    #[prost(message, tag = "1")]
    ClientChunk(ClientChunk),
    #[prost(message, tag = "2")]
    Abort(Empty),
    #[prost(message, tag = "3")]
    Close(Empty),
    #[prost(message, tag = "16")]
    Hello(HelloWire),
    #[prost(message, tag = "17")]
    Ack(Ack),
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct ClientChunk {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
}

/// Not printable: it has a key.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct HelloWire {
    #[prost(string, optional, tag = "16")]
    event_id: Option<String>,
    #[prost(string, optional, tag = "17")]
    resume_token: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "18")]
    encryption_key: Option<Bytes>,
    #[prost(bool, tag = "19")]
    proofs: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Ack {
    #[prost(string, optional, tag = "16")]
    event_id: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(oneof = "ResponseCase", tags = "1, 3, 4, 16, 17, 18, 19")]
    response: Option<ResponseCase>,
}

#[derive(Clone, PartialEq, Oneof)]
enum ResponseCase {
    #[prost(message, tag = "1")]
    ServerChunk(ServerChunk),
    #[prost(message, boxed, tag = "3")]
    WelcomeMessage(Box<WelcomeMessage>),
    #[prost(uint32, tag = "4")]
    SeqnoAck(u32),
    #[prost(message, boxed, tag = "16")]
    Proof(Box<ProofWire>),
    #[prost(message, tag = "17")]
    Token(TokenWire),
    #[prost(message, tag = "18")]
    End(End),
    #[prost(message, tag = "19")]
    Error(ErrorWire),
}

#[derive(Clone, PartialEq, Message)]
struct ServerChunk {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
    #[prost(string, tag = "2")]
    event_id: String,
    #[prost(bytes = "bytes", optional, tag = "16")]
    record: Option<Bytes>,
    #[prost(uint64, optional, tag = "17")]
    number: Option<u64>,
}

impl ServerChunk {
    fn of(event: &Event) -> Self {
        let event_id = event.event_id.clone();
        match &event.body {
            EventBody::Data(data) => {
                Self { data: data.clone(), event_id, record: None, number: None }
            }
            EventBody::Record { number, record } => Self {
                data: Bytes::new(),
                event_id,
                record: Some(record.clone()),
                number: Some(*number),
            },
        }
    }

    fn read(self) -> Decoded<Event> {
        let body = match (self.number, self.record) {
            (None, None) => EventBody::Data(self.data),
            (Some(number), Some(record)) if self.data.is_empty() => {
                EventBody::Record { number, record }
            }
            _ => return Err(FrameError::Malformed("neither data nor a record")),
        };
        Ok(Event { event_id: self.event_id, body })
    }
}

#[derive(Clone, PartialEq, Message)]
struct WelcomeMessage {
    #[prost(string, tag = "1")]
    message: String,
    #[prost(bool, tag = "2")]
    is_degraded_mode: bool,
    #[prost(string, tag = "16")]
    mode: String,
    #[prost(string, optional, tag = "17")]
    reason: Option<String>,
    #[prost(uint32, tag = "18")]
    next_seqno: u32,
    #[prost(string, optional, tag = "19")]
    event_id: Option<String>,
    #[prost(string, tag = "20")]
    resume_token: String,
    #[prost(uint64, tag = "21")]
    resume_expires_in_ms: u64,
    #[prost(uint64, tag = "22")]
    generation: u64,
    #[prost(uint32, tag = "23")]
    credit_events: u32,
    #[prost(uint32, tag = "24")]
    credit_bytes: u32,
    #[prost(uint64, optional, tag = "25")]
    retry_after_ms: Option<u64>,
    #[prost(string, optional, tag = "26")]
    in_stream: Option<String>,
    #[prost(string, optional, tag = "27")]
    out_stream: Option<String>,
}

impl WelcomeMessage {
    fn of(welcome: &Welcome) -> Self {
        Self {
            message: cut(&welcome.message).to_owned(),
            is_degraded_mode: welcome.mode.is_degraded(),
            mode: welcome.mode.name().to_owned(),
            reason: welcome.reason.as_deref().map(|reason| cut(reason).to_owned()),
            next_seqno: welcome.next_seqno,
            event_id: welcome.event_id.clone(),
            resume_token: welcome.token.resume_token.clone(),
            resume_expires_in_ms: welcome.token.resume_expires_in_ms,
            generation: welcome.generation,
            credit_events: welcome.credit_events,
            credit_bytes: welcome.credit_bytes,
            retry_after_ms: welcome.retry_after_ms,
            in_stream: welcome.in_stream.map(|id| id.to_string()),
            out_stream: welcome.out_stream.map(|id| id.to_string()),
        }
    }

    fn read(self) -> Decoded<Welcome> {
        let mode = Mode::of_name(&self.mode).ok_or(FrameError::Malformed("mode"))?;
        if mode.is_degraded() != self.is_degraded_mode {
            return Err(FrameError::Malformed("is_degraded_mode"));
        }
        Ok(Welcome {
            mode,
            reason: self.reason,
            message: self.message,
            next_seqno: self.next_seqno,
            event_id: self.event_id,
            token: Token {
                resume_token: self.resume_token,
                resume_expires_in_ms: self.resume_expires_in_ms,
            },
            generation: self.generation,
            credit_events: self.credit_events,
            credit_bytes: self.credit_bytes,
            retry_after_ms: self.retry_after_ms,
            in_stream: stream_id(self.in_stream.as_deref(), "in_stream")?,
            out_stream: stream_id(self.out_stream.as_deref(), "out_stream")?,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct ProofWire {
    #[prost(uint64, tag = "16")]
    commit: u64,
    #[prost(uint64, tag = "17")]
    time: u64,
    #[prost(uint64, tag = "18")]
    number: u64,
    #[prost(bytes = "bytes", tag = "19")]
    head: Bytes,
    #[prost(message, repeated, tag = "20")]
    path: Vec<Step>,
    #[prost(bytes = "bytes", tag = "21")]
    signature: Bytes,
    #[prost(bytes = "bytes", tag = "22")]
    key: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Step {
    #[prost(bool, tag = "16")]
    left: bool,
    #[prost(bytes = "bytes", tag = "17")]
    node: Bytes,
}

impl ProofWire {
    fn of(proof: &Proof) -> Self {
        let CommitProof { commit, time, number, head, path, signature } = &proof.commit;
        let step = |(left, node): (bool, &[u8; 32])| Step { left, node: node.to_vec().into() };
        Self {
            commit: *commit,
            time: *time,
            number: *number,
            head: head.as_bytes().to_vec().into(),
            path: path.steps().map(step).collect(),
            signature: signature.to_vec().into(),
            key: proof.key.as_bytes().to_vec().into(),
        }
    }

    fn read(self) -> Decoded<Proof> {
        if self.path.len() > PATH_STEPS_MAX {
            return Err(FrameError::Malformed("path"));
        }
        let step = |step: &Step| Ok((step.left, array(&step.node, "node")?));
        let steps = self.path.iter().map(step).collect::<Decoded<Vec<_>>>()?;
        Ok(Proof {
            commit: CommitProof {
                commit: self.commit,
                time: self.time,
                number: self.number,
                head: Head::from_bytes(array(&self.head, "head")?),
                path: Path::from_steps(steps),
                signature: array::<SIGNATURE_BYTES>(&self.signature, "signature")?,
            },
            key: KeyId::from_bytes(array(&self.key, "key")?),
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct TokenWire {
    #[prost(string, tag = "16")]
    resume_token: String,
    #[prost(uint64, tag = "17")]
    resume_expires_in_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
struct End {
    #[prost(string, optional, tag = "16")]
    event_id: Option<String>,
    #[prost(bool, tag = "17")]
    aborted: bool,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorWire {
    #[prost(string, tag = "16")]
    code: String,
    #[prost(string, tag = "17")]
    message: String,
    #[prost(uint64, optional, tag = "18")]
    retry_after_ms: Option<u64>,
}
