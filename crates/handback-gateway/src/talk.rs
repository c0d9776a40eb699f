//! One question of a client, and whom it hears from before the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::retry::Delivery;
use crate::session::Session;

/// Messages that are on their way to a client at most. Those after it wait in the room of their question,
/// or with their upstream.
pub const WAITING_MAX: usize = 64;

/// Time until a client is told that its request waits. Most servers are there before.
const FIRST_PROGRESS: Duration = Duration::from_secs(1);

/// Time between two notifications after that: clients that wait for progress give up after 60 s or more.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Progress of one notification. The server counts its own work from 0 or 1, and progress may only grow.
const STEP: f64 = 0.001;

/// What a client is told besides answers.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no third")]
pub enum ToClient {
    /// Something to be heard.
    Notification {
        /// What is said.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
    /// Something to be answered: of older clients only.
    Request {
        /// What the answer is told by.
        id: u64,
        /// What is asked.
        method: String,
        /// The JSON of its parameters.
        params: Option<Bytes>,
    },
}

/// Who asks, and how.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "fronts write it as a literal")]
pub struct Talk {
    /// Who.
    pub caller: Caller,
    /// In which era.
    pub era: Era,
    /// Where what comes before the answer goes.
    pub out: mpsc::Sender<ToClient>,
    /// The session of an older client.
    pub session: Option<Arc<Session>>,
    /// Who hears that the answer was handed over.
    pub delivery: Delivery,
    /// Whether the client says in headers what the protocol wants there of arguments, as the newer era does
    /// over HTTP. If not, those headers are made of the arguments.
    pub has_headers: bool,
}

impl Talk {
    /// True if the client knows content blocks of the type `resource_link`, which came with 2025-06-18.
    pub(crate) fn knows_links(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.knows_links())
    }

    /// The same for what is asked beside the client's question: nobody hears what comes of it.
    pub(crate) fn without_client(&self) -> Self {
        let (out, _) = mpsc::channel(1);
        Self { out, ..self.clone() }
    }

    /// Waits for an upstream to be there. Where the parameters of the request have a progress token, the
    /// client gets progress with this message meanwhile.
    pub(crate) async fn waiting<T>(
        &self,
        params: Option<&[u8]>,
        message: &str,
        opening: impl Future<Output = T>,
    ) -> T {
        let mut opening = std::pin::pin!(opening);
        let Some(token) = params.and_then(progress_token) else { return opening.await };
        let mut pause = FIRST_PROGRESS;
        let mut steps = 0_u32;
        loop {
            tokio::select! {
                biased;
                opened = &mut opening => return opened,
                () = sleep(pause) => {}
            }
            (pause, steps) = (PROGRESS_EVERY, steps.saturating_add(1));
            let progress = f64::from(steps) * STEP;
            let params = json!({"progressToken": token, "progress": progress, "message": message});
            let method = "notifications/progress".to_owned();
            let params = Some(params.to_string().into());
            // A client that takes nothing is not waited for.
            let _ = self.out.try_send(ToClient::Notification { method, params });
        }
    }
}

/// A question, in slices of the message that it came in.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "fronts write it as a literal")]
pub struct Question<'a> {
    /// The JSON of its id.
    pub id: &'a str,
    /// What is asked.
    pub method: &'a str,
    /// About what.
    pub params: Option<&'a RawValue>,
    /// The whole message.
    pub message: &'a Bytes,
    /// Headers that say more about the parameters: `Mcp-Param-*`.
    pub headers: Vec<(String, String)>,
    /// The idempotency key, if it came in a header.
    pub key: Option<String>,
}

impl Question<'_> {
    /// The parameters, as a part of the message.
    pub(crate) fn params_bytes(&self) -> Option<Bytes> {
        Some(self.message.slice_ref(self.params?.get().as_bytes()))
    }
}

/// The progress token among the parameters of a request.
pub(crate) fn progress_token(params: &[u8]) -> Option<Value> {
    let raw: &RawValue = serde_json::from_slice(params).ok()?;
    let params = Object::read(raw).ok()?;
    let meta: &RawValue = serde_json::from_str(params.get("_meta")?).ok()?;
    serde_json::from_str(Object::read(meta).ok()?.get("progressToken")?).ok()
}
