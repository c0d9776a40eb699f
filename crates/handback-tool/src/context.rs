//! What a tool knows of the call that it serves.

use std::fmt;
use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_store::Millis;
use handback_store::held::{HeldError, NewValue};
use handback_token::{
    ArgsFingerprint, Context, ContextError, Cursor, CursorIssuer, Operation, Sealer,
    TokenFingerprint, UnixTime,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::input::{Answers, Inputs};
use crate::outcome::{Content, Outcome, ToolError};
use crate::pipeline::CallHeld;
use crate::request::Noted;

/// Events that wait for a slow reader at most; those after it wait with their tool.
pub const EVENTS_WAITING_MAX: usize = 64;

/// What a tool tells on its way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// How far it is.
    Progress {
        /// So far.
        done: f64,
        /// Of so much, if that is known.
        total: Option<f64>,
        /// In words.
        message: Option<String>,
    },
    /// A line for the log of the client.
    Log {
        /// How important: a level of syslog, as `info`.
        level: String,
        /// What happened.
        data: Value,
    },
    /// A part of the result, for surfaces that show it as it comes. The outcome has all of it.
    Part(Value),
}

/// Where the events of a call go.
pub type EventSink = mpsc::Sender<Event>;

/// Where an exchange stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a tool must know all of them")]
pub enum Round<T> {
    /// The caller starts.
    First,
    /// The caller came back too late, and the tool said that it wants to know.
    Expired,
    /// The caller came back, and this is what the tool wanted to know again.
    Opened(T),
}

/// What a tool knows of the call that it serves.
pub struct CallContext {
    pub(crate) principal: VerifiedPrincipal,
    pub(crate) operation: Operation,
    pub(crate) name: String,
    pub(crate) fingerprint: ArgsFingerprint,
    pub(crate) now: UnixTime,
    pub(crate) held: CallHeld,
    pub(crate) now_ms: Millis,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) round: Round<Value>,
    pub(crate) answers: Answers,
    pub(crate) effect_key: Option<String>,
    pub(crate) is_again: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Option<EventSink>,
    pub(crate) abilities: Abilities,
    pub(crate) log_level: Option<String>,
    pub(crate) budget_bytes: Option<usize>,
    pub(crate) noted: Noted,
    /// Events that were handed on.
    pub(crate) emitted: AtomicU64,
}

/// What the client at the other end can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "surfaces write it as a literal")]
pub struct Abilities {
    /// It can show forms.
    pub forms: bool,
    /// It can send its user to a page.
    pub urls: bool,
    /// It has a model.
    pub sampling: bool,
    /// It has roots.
    pub roots: bool,
}

impl CallContext {
    /// Keeps a value for the caller, who gets its handle as the result: for what is too large for an
    /// answer, or of use to later calls. `kind` is its media type. Callers read it through the tools
    /// of MCP-AQL.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the caller has as much held as it may have, or the store does not answer.
    pub async fn hold(
        &self,
        kind: impl Into<String>,
        bytes: impl Into<Bytes>,
    ) -> Result<Outcome, ToolError> {
        let (held, principal, now_ms) = (self.held.clone(), self.principal.clone(), self.now_ms);
        let (kind, bytes) = (kind.into(), bytes.into());
        let put =
            move || held.put(&principal, NewValue::new(kind), &bytes, &mut rand::rng(), now_ms);
        let unavailable = || ToolError::new("nothing can be held now").nothing_happened();
        let put = tokio::task::spawn_blocking(put).await.map_err(|_| unavailable())?;
        let value = put.map_err(|error| match error {
            HeldError::Quota { limit } => {
                let why = format!("more than {limit} bytes would be held for this caller");
                ToolError::new(why).nothing_happened()
            }
            error => {
                tracing::error!(%error, "a value was not held");
                unavailable()
            }
        })?;
        let handle = value.handle().ok_or_else(unavailable)?;
        Ok(Outcome::Done(Content::Held(handle.to_string())))
    }

    /// Who calls.
    #[must_use]
    pub const fn principal(&self) -> &VerifiedPrincipal {
        &self.principal
    }

    /// What was called: a tool, a prompt, or a URI.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time of the call.
    #[must_use]
    pub const fn now(&self) -> UnixTime {
        self.now
    }

    /// What the client can do.
    #[must_use]
    pub const fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// Bytes that the client takes in one answer, if that is known: those of a text inside of JSON,
    /// where quotes, backslashes and control characters take more than one. A tool that can go on in
    /// another answer keeps to it.
    #[must_use]
    pub const fn budget_bytes(&self) -> Option<usize> {
        self.budget_bytes
    }

    /// From which level on the caller wants log lines, if it said so.
    #[must_use]
    pub fn log_level(&self) -> Option<&str> {
        self.log_level.as_deref()
    }

    /// A key that is the same for every try of this call, and of no other call: to be written with
    /// the effect, or handed on. There is one if the caller gave an idempotency key or answers what
    /// may be answered once.
    #[must_use]
    pub fn effect_key(&self) -> Option<&str> {
        self.effect_key.as_deref()
    }

    /// Whether an earlier try was cut off. It may have had its effect.
    #[must_use]
    pub const fn is_again(&self) -> bool {
        self.is_again
    }

    /// Where the exchange stands.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the state is of another type: an older version of the tool may have made it.
    pub fn request_state<T: DeserializeOwned>(&self) -> Result<Round<T>, ToolError> {
        Ok(match &self.round {
            Round::First => Round::First,
            Round::Expired => Round::Expired,
            Round::Opened(state) => {
                let read = serde_json::from_value(state.clone());
                let of_old = "the state of the exchange is of another version";
                Round::Opened(read.map_err(|_| ToolError::new(of_old).nothing_happened())?)
            }
        })
    }

    /// The answers to what was asked.
    #[must_use]
    pub const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Asks back; see [`Outcome::needs_input`].
    ///
    /// # Errors
    ///
    /// [`ToolError`] if the state cannot be written as JSON.
    pub fn needs_input<T: Serialize>(
        &self,
        inputs: Inputs,
        state: &T,
    ) -> Result<Outcome, ToolError> {
        Outcome::needs_input(inputs, state)
    }

    /// Cursors for a tool that makes its own: bound to this caller, this tool and these arguments.
    ///
    /// # Errors
    ///
    /// [`ContextError`] if the name of the tool is too long to be bound.
    pub fn cursor_issuer(&self) -> Result<CursorIssuer<'_>, ContextError> {
        let context = Context::new(self.principal.caller(), self.operation)
            .name(&self.name)
            .arguments(&self.fingerprint)
            .client(OWN_CURSORS);
        Ok(CursorIssuer::new(self.sealer.bind::<Cursor>(&context)?, self.now))
    }

    /// Tells something on the way. It waits for a slow reader, and is lost where nobody reads.
    pub async fn emit(&self, event: Event) {
        if let Some(events) = &self.events
            && events.send(event).await.is_ok()
        {
            self.emitted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all events are durable: what is recorded as done has told everything. If nobody
    /// writes them any more, the call is about to be stopped.
    pub(crate) async fn until_written(&self, mut written: watch::Receiver<u64>) {
        let emitted = self.emitted.load(Ordering::Relaxed);
        if written.wait_for(|written| *written >= emitted).await.is_err() {
            future::pending::<()>().await;
        }
    }

    /// Tells how far it is.
    pub async fn progress(&self, done: f64, total: Option<f64>) {
        self.emit(Event::Progress { done, total, message: None }).await;
    }

    /// Tells the audit of this call why something was refused that the tool opens itself. The first
    /// reason counts.
    pub fn note_reason(&self, reason: &'static str) {
        let _ = self.noted.reason.set(reason);
    }

    /// Tells the audit of this call what came back that the tool opens itself: a `cursor` or a
    /// `handle`, of which the audit gets the fingerprint. The first one counts.
    pub fn note_presented(&self, kind: &'static str, text: &str) {
        let _ = self.noted.presented.set((kind, TokenFingerprint::of(text).to_string()));
    }

    /// Becomes ready when the caller does not want the result any more. The work need not watch it:
    /// its future is dropped then, unless the call has a key or cannot be cancelled.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

/// Tells a tool's own cursors from those of the pipeline.
const OWN_CURSORS: &str = "handback:own-cursors";

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("operation", &self.operation)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
