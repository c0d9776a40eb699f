//! Frames as JSON: one object each, whose `type` says what it is.
//!
//! A message is read twice, first for its `type` and then for the members of that type: nothing is
//! kept of members that are not known, however large they are.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::codec::{Decoded, FrameError, cut};
use super::frame::{
    ClientFrame, Code, Event, EventBody, Hello, KeyText, Mode, Proof, ServerFrame, Token, Welcome,
};
use crate::chain::{Head, Path};
use crate::hex;
use crate::name::StreamId;
use crate::sign::{KeyId, SIGNATURE_BYTES};
use crate::verify::CommitProof;

pub(super) fn encode_client(frame: &ClientFrame) -> Bytes {
    match frame {
        ClientFrame::Hello(hello) => tagged(
            "hello",
            HelloWire {
                idempotency_key: hello.idempotency_key.clone(),
                event_id: hello.event_id.clone(),
                resume_token: hello.resume_token.clone(),
                encryption_key: hello.encryption_key.as_ref().map(|key| key.0.clone()),
                proofs: hello.proofs,
            },
        ),
        ClientFrame::Chunk { seqno, data } => {
            let (data, base64) = spelled(data);
            tagged("chunk", ChunkWire { seqno: *seqno, data, base64 })
        }
        ClientFrame::Ack { event_id } => {
            tagged("ack", ClientAckWire { event_id: event_id.clone() })
        }
        ClientFrame::Close => tagged("close", Nothing {}),
        ClientFrame::Abort => tagged("abort", Nothing {}),
    }
}

pub(super) fn decode_client(bytes: &Bytes) -> Decoded<ClientFrame> {
    Ok(match tag(bytes)?.as_str() {
        "hello" => {
            let wire: HelloWire = members(bytes, "hello")?;
            ClientFrame::Hello(Hello {
                idempotency_key: wire.idempotency_key,
                event_id: wire.event_id,
                resume_token: wire.resume_token,
                encryption_key: wire.encryption_key.map(KeyText),
                proofs: wire.proofs,
            })
        }
        "chunk" => {
            let wire: ChunkWire = members(bytes, "chunk")?;
            ClientFrame::Chunk { seqno: wire.seqno, data: unspelled(wire.data, wire.base64)? }
        }
        "ack" => {
            let wire: ClientAckWire = members(bytes, "ack")?;
            ClientFrame::Ack { event_id: wire.event_id }
        }
        "close" => ClientFrame::Close,
        "abort" => ClientFrame::Abort,
        _ => return Err(FrameError::Malformed("type")),
    })
}

pub(super) fn encode_server(frame: &ServerFrame) -> Bytes {
    match frame {
        ServerFrame::Welcome(welcome) => tagged("welcome", WelcomeWire::of(welcome)),
        ServerFrame::Ack { seqno } => tagged("ack", ServerAckWire { seqno: *seqno }),
        ServerFrame::Event(event) => tagged("event", EventWire::of(event)),
        ServerFrame::Proof(proof) => tagged("proof", ProofWire::of(proof)),
        ServerFrame::Token(token) => tagged(
            "token",
            TokenWire {
                resume_token: token.resume_token.clone(),
                resume_expires_in_ms: token.resume_expires_in_ms,
            },
        ),
        ServerFrame::End { event_id, aborted } => {
            tagged("end", EndWire { event_id: event_id.clone(), aborted: *aborted })
        }
        ServerFrame::Error { code, message, retry_after_ms } => tagged(
            "error",
            ErrorWire {
                code: code.name().to_owned(),
                message: cut(message).to_owned(),
                retry_after_ms: *retry_after_ms,
            },
        ),
    }
}

pub(super) fn decode_server(bytes: &Bytes) -> Decoded<ServerFrame> {
    Ok(match tag(bytes)?.as_str() {
        "welcome" => {
            let wire: WelcomeWire = members(bytes, "welcome")?;
            ServerFrame::Welcome(Box::new(wire.read()?))
        }
        "ack" => {
            let wire: ServerAckWire = members(bytes, "ack")?;
            ServerFrame::Ack { seqno: wire.seqno }
        }
        "event" => {
            let wire: EventWire = members(bytes, "event")?;
            ServerFrame::Event(wire.read()?)
        }
        "proof" => {
            let wire: ProofWire = members(bytes, "proof")?;
            ServerFrame::Proof(Box::new(wire.read()))
        }
        "token" => {
            let wire: TokenWire = members(bytes, "token")?;
            ServerFrame::Token(Token {
                resume_token: wire.resume_token,
                resume_expires_in_ms: wire.resume_expires_in_ms,
            })
        }
        "end" => {
            let wire: EndWire = members(bytes, "end")?;
            ServerFrame::End { event_id: wire.event_id, aborted: wire.aborted }
        }
        "error" => {
            let wire: ErrorWire = members(bytes, "error")?;
            ServerFrame::Error {
                code: Code::of_name(&wire.code).ok_or(FrameError::Malformed("code"))?,
                message: wire.message,
                retry_after_ms: wire.retry_after_ms,
            }
        }
        _ => return Err(FrameError::Malformed("type")),
    })
}

#[derive(Serialize)]
struct Tagged<T> {
    r#type: &'static str,
    #[serde(flatten)]
    members: T,
}

fn tagged<T: Serialize>(r#type: &'static str, members: T) -> Bytes {
    serde_json::to_vec(&Tagged { r#type, members })
        .expect("texts, numbers and arrays of them are JSON always")
        .into()
}

#[derive(Deserialize)]
struct Tag {
    r#type: String,
}

fn tag(bytes: &[u8]) -> Decoded<String> {
    serde_json::from_slice(bytes)
        .map(|tag: Tag| tag.r#type)
        .map_err(|_| FrameError::Malformed("no object with a type"))
}

fn members<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &'static str) -> Decoded<T> {
    serde_json::from_slice(bytes).map_err(|_| FrameError::Malformed(what))
}

/// Bytes as text, or in base64: if they are none, or would more than double as text.
fn spelled(bytes: &Bytes) -> (Option<String>, Option<String>) {
    let written = |byte: &u8| match byte {
        b'"' | b'\\' | 8 | 9 | 10 | 12 | 13 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().map(written).sum::<usize>() <= 2 * bytes.len() => {
            (Some(text.to_owned()), None)
        }
        _ => (None, Some(STANDARD.encode(bytes))),
    }
}

fn unspelled(data: Option<String>, base64: Option<String>) -> Decoded<Bytes> {
    match (data, base64) {
        (Some(text), None) => Ok(text.into()),
        (None, Some(text)) => unbased(&text),
        _ => Err(FrameError::Malformed("not one of data and base64")),
    }
}

fn unbased(text: &str) -> Decoded<Bytes> {
    STANDARD.decode(text).map(Bytes::from).map_err(|_| FrameError::Malformed("base64"))
}

const fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize, Deserialize)]
struct HelloWire {
    idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_key: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    proofs: bool,
}

#[derive(Serialize, Deserialize)]
struct ChunkWire {
    seqno: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ClientAckWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct WelcomeWire {
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    is_degraded_mode: bool,
    message: String,
    next_seqno: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    resume_token: String,
    resume_expires_in_ms: u64,
    generation: u64,
    credit_events: u32,
    credit_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_stream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_stream: Option<String>,
}

impl WelcomeWire {
    fn of(welcome: &Welcome) -> Self {
        Self {
            mode: welcome.mode.name().to_owned(),
            reason: welcome.reason.as_deref().map(|reason| cut(reason).to_owned()),
            is_degraded_mode: welcome.mode.is_degraded(),
            message: cut(&welcome.message).to_owned(),
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

/// The stream that a text names, in both formats.
pub(super) fn stream_id(text: Option<&str>, what: &'static str) -> Decoded<Option<StreamId>> {
    text.map(str::parse).transpose().map_err(|_| FrameError::Malformed(what))
}

#[derive(Serialize, Deserialize)]
struct ServerAckWire {
    seqno: u32,
}

#[derive(Serialize, Deserialize)]
struct EventWire {
    event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
}

impl EventWire {
    fn of(event: &Event) -> Self {
        let event_id = event.event_id.clone();
        match &event.body {
            EventBody::Data(bytes) => {
                let (data, base64) = spelled(bytes);
                Self { event_id, data, base64, number: None, record: None }
            }
            EventBody::Record { number, record } => {
                let record = Some(STANDARD.encode(record));
                Self { event_id, data: None, base64: None, number: Some(*number), record }
            }
        }
    }

    fn read(self) -> Decoded<Event> {
        let body = match (self.number, self.record) {
            (None, None) => EventBody::Data(unspelled(self.data, self.base64)?),
            (Some(number), Some(record)) if self.data.is_none() && self.base64.is_none() => {
                EventBody::Record { number, record: unbased(&record)? }
            }
            _ => return Err(FrameError::Malformed("neither data nor a record")),
        };
        Ok(Event { event_id: self.event_id, body })
    }
}

#[derive(Serialize, Deserialize)]
struct TokenWire {
    resume_token: String,
    resume_expires_in_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct EndWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    aborted: bool,
}

#[derive(Serialize, Deserialize)]
struct ErrorWire {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct ProofWire {
    commit: u64,
    time: u64,
    number: u64,
    head: HexWire<32>,
    path: Vec<StepWire>,
    signature: SignatureWire,
    key: HexWire<8>,
}

#[derive(Serialize, Deserialize)]
struct StepWire {
    left: bool,
    node: HexWire<32>,
}

impl ProofWire {
    fn of(proof: &Proof) -> Self {
        let CommitProof { commit, time, number, head, path, signature } = &proof.commit;
        Self {
            commit: *commit,
            time: *time,
            number: *number,
            head: HexWire(*head.as_bytes()),
            path: path
                .steps()
                .map(|(left, node)| StepWire { left, node: HexWire(*node) })
                .collect(),
            signature: SignatureWire(*signature),
            key: HexWire(*proof.key.as_bytes()),
        }
    }

    fn read(self) -> Proof {
        Proof {
            commit: CommitProof {
                commit: self.commit,
                time: self.time,
                number: self.number,
                head: Head::from_bytes(self.head.0),
                path: Path::from_steps(self.path.into_iter().map(|step| (step.left, step.node.0))),
                signature: self.signature.0,
            },
            key: KeyId::from_bytes(self.key.0),
        }
    }
}

struct HexWire<const N: usize>([u8; N]);

impl<const N: usize> Serialize for HexWire<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&hex::Hex(&self.0))
    }
}

impl<'de, const N: usize> Deserialize<'de> for HexWire<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(&text).map(Self).map_err(de::Error::custom)
    }
}

struct SignatureWire([u8; SIGNATURE_BYTES]);

impl Serialize for SignatureWire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for SignatureWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(de::Error::custom)?;
        bytes.try_into().map(Self).map_err(|_| de::Error::custom("no signature"))
    }
}
