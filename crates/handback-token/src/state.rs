//! Request state for servers that are not built on Handback: one line turns it on.
//!
//! ```
//! use handback_token::{
//!     Caller, KeyRing, MasterKey, Operation, RequestState, RequestStateKey, RequestStateScope,
//!     RequestStateSecurity, UnixTime, args_fingerprint, secure_request_state,
//! };
//!
//! let mut rng = rand::rng();
//! let now = UnixTime::from_secs(1_800_000_000);
//! let shared = MasterKey::generate(&mut rng);
//! let codec = secure_request_state(
//!     RequestStateSecurity::new(RequestStateKey::Secret(shared)), &mut rng, now,
//! )?;
//!
//! let arguments = args_fingerprint(&serde_json::json!({"invoice": 7}));
//! let scope = RequestStateScope {
//!     caller: Caller::dangerous_identified("https://id.example", "alice"),
//!     operation: Operation::Call,
//!     name: "pay",
//!     arguments: &arguments,
//! };
//! let text = codec.encode(&mut rng, now, &scope, b"asked: confirm?")?;
//! match codec.decode(Some(&text), &scope, now) {
//!     RequestState::First => unreachable!("some state was sent"),
//!     RequestState::Opened(state) => assert_eq!(state.state(), b"asked: confirm?"),
//!     RequestState::Expired(_) | RequestState::Refused(_) => panic!("it is ours, and fresh"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Signed or encrypted, every state has a random id, so that a server can demand single use, and the
//! time of its first round, so that an exchange ends. The payload is in `docs/spec/tokens.md`,
//! section 7.

use std::time::Duration;

use rand_core::CryptoRng;

use crate::context::{Caller, Context, ContextError, Operation};
use crate::fingerprint::ArgsFingerprint;
use crate::key::MasterKey;
use crate::purpose::{Purpose as _, State, StateHead};
use crate::refusal::{Outside, Reason, Refused};
use crate::ring::{KeyRing, Mode};
use crate::sealer::{Bound, Opened, SealError, Sealer, SealerConfig, SealerError};
use crate::time::UnixTime;

/// How request state is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the two modes of a key slot")]
pub enum RequestStateMode {
    /// Everybody can read it, nobody can change it.
    Signed,
    /// Nobody else can read or change it.
    #[default]
    Encrypted,
}

impl RequestStateMode {
    const fn mode(self) -> Mode {
        match self {
            Self::Signed => Mode::Signed,
            Self::Encrypted => Mode::Sealed,
        }
    }
}

/// What request state is bound to. It opens only where all of that is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the byte in the payload has these values")]
pub enum RequestStateBinding {
    /// Nothing: anybody can redeem it, for anything.
    None,
    /// The caller.
    Subject,
    /// The caller, and the operation with its tool, prompt or resource.
    SubjectAndTool,
    /// All of that, and the arguments.
    #[default]
    SubjectToolAndArguments,
}

impl RequestStateBinding {
    const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Subject => 1,
            Self::SubjectAndTool => 2,
            Self::SubjectToolAndArguments => 3,
        }
    }
}

/// The key of request state.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "an absent key must stay a visible choice")]
pub enum RequestStateKey {
    /// A random key that dies with the process: after a restart, and on every other replica, state
    /// is refused. A warning says so.
    Ephemeral,
    /// A secret that all replicas share.
    Secret(MasterKey),
    /// A ring, which can be rotated. Its active slot must have the mode that is asked for.
    Ring(Box<KeyRing>),
}

/// A random key for [`RequestStateKey::Secret`].
pub fn generate_ephemeral_key<R: CryptoRng + ?Sized>(rng: &mut R) -> MasterKey {
    MasterKey::generate(rng)
}

/// How a server's request state is secured.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct RequestStateSecurity {
    /// The key.
    pub key: RequestStateKey,
    /// Signed or encrypted.
    pub mode: RequestStateMode,
    /// How long one round may take: 1 s to 1 h, in whole seconds.
    pub ttl: Duration,
    /// What state is bound to.
    pub bind_to: RequestStateBinding,
}

impl RequestStateSecurity {
    /// Encrypted, five minutes, bound to caller, tool and arguments.
    #[must_use]
    pub const fn new(key: RequestStateKey) -> Self {
        Self {
            key,
            mode: RequestStateMode::Encrypted,
            ttl: Duration::from_secs(State::DEFAULT_TTL_S as u64),
            bind_to: RequestStateBinding::SubjectToolAndArguments,
        }
    }
}

/// Makes the codec that secures a server's request state.
///
/// # Errors
///
/// [`RequestStateConfigError`] if the TTL is not between a second and an hour, or the ring's active
/// slot has another mode.
pub fn secure_request_state<R: CryptoRng + ?Sized>(
    security: RequestStateSecurity,
    rng: &mut R,
    now: UnixTime,
) -> Result<RequestStateCodec, RequestStateConfigError> {
    let mode = security.mode.mode();
    let is_ephemeral = matches!(security.key, RequestStateKey::Ephemeral);
    let ring = match security.key {
        RequestStateKey::Ephemeral => KeyRing::generate(rng, mode, now),
        RequestStateKey::Secret(secret) => KeyRing::from_secret(&secret, mode),
        RequestStateKey::Ring(ring) => *ring,
    };
    if ring.slot(ring.active()).is_none_or(|slot| slot.mode != mode) {
        return Err(RequestStateConfigError::Mode);
    }
    // A fraction of a second is not rounded away: 0.5 s is not 0 s, and 1 h + 0.5 s is not 1 h.
    let state_ttl_s = match u32::try_from(security.ttl.as_secs()) {
        Ok(seconds) if security.ttl.subsec_nanos() == 0 => seconds,
        _ => return Err(RequestStateConfigError::Ttl),
    };
    let config = SealerConfig { state_ttl_s, ..SealerConfig::default() };
    let sealer = Sealer::new(&ring, config).map_err(|error| match error {
        SealerError::Ttl { .. } => RequestStateConfigError::Ttl,
        SealerError::Audience { .. } => unreachable!("a ring's id is a usable audience"),
    })?;
    if is_ephemeral {
        tracing::warn!(
            "request state is secured by a key that dies with this process: after a restart, and \
             on other replicas, it is refused"
        );
    }
    Ok(RequestStateCodec { sealer, bind_to: security.bind_to, is_ephemeral })
}

/// A configuration that secures nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestStateConfigError {
    /// The TTL is zero, not whole seconds, or above an hour.
    #[error("request state lives 1 to 3600 whole seconds")]
    Ttl,
    /// The ring's active slot has another mode than the one asked for.
    #[error("the active key slot has another mode than the one that is asked for")]
    Mode,
}

/// Whose state, and of what.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct RequestStateScope<'a> {
    /// Who calls.
    pub caller: Caller<'a>,
    /// What the call does.
    pub operation: Operation,
    /// Tool, prompt or resource.
    pub name: &'a str,
    /// The arguments, without the state itself.
    pub arguments: &'a ArgsFingerprint,
}

/// Wraps what a handler must remember, and opens it when it comes back.
#[derive(Debug)]
pub struct RequestStateCodec {
    sealer: Sealer,
    bind_to: RequestStateBinding,
    is_ephemeral: bool,
}

impl RequestStateCodec {
    /// Whether the key dies with this process.
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        self.is_ephemeral
    }

    /// The state of a first round, as text.
    ///
    /// # Errors
    ///
    /// [`EncodeStateError`] if the state does not fit 16 KiB of text.
    pub fn encode<R: CryptoRng + ?Sized>(
        &self,
        rng: &mut R,
        now: UnixTime,
        scope: &RequestStateScope<'_>,
        state: &[u8],
    ) -> Result<String, EncodeStateError> {
        Ok(self.bind(scope)?.seal(rng, now, &self.payload(state))?.into_string())
    }

    /// The state of the round that follows `opened`: with a new id, and the same end of the exchange.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode), or if the exchange is an hour old.
    pub fn encode_after<R: CryptoRng + ?Sized>(
        &self,
        opened: &OpenedState,
        rng: &mut R,
        now: UnixTime,
        scope: &RequestStateScope<'_>,
        state: &[u8],
    ) -> Result<String, EncodeStateError> {
        let bound = self.bind(scope)?;
        Ok(bound.seal_after(&opened.0, rng, now, &self.payload(state))?.into_string())
    }

    /// Opens what a client sent, if it sent something. Whatever is wrong, no state comes out.
    pub fn decode(
        &self,
        text: Option<&str>,
        scope: &RequestStateScope<'_>,
        now: UnixTime,
    ) -> RequestState {
        let Some(text) = text else {
            return RequestState::First;
        };
        match self.open(text, scope, now) {
            Ok(opened) => RequestState::Opened(opened),
            Err(refused) if refused.outside() == Outside::Expired => RequestState::Expired(refused),
            Err(refused) => RequestState::Refused(refused),
        }
    }

    fn open(
        &self,
        text: &str,
        scope: &RequestStateScope<'_>,
        now: UnixTime,
    ) -> Result<OpenedState, Refused> {
        let opened = self.bind(scope).map_err(|_| Reason::NotOpened)?.open(text, now)?;
        match opened.payload() {
            [binding, ..] if *binding == self.bind_to.code() => Ok(OpenedState(opened)),
            _ => Err(Reason::NotOpened.into()),
        }
    }

    fn bind(&self, scope: &RequestStateScope<'_>) -> Result<Bound<'_, State>, ContextError> {
        let context = match self.bind_to {
            RequestStateBinding::None => Context::bare(Caller::UNAUTHENTICATED),
            RequestStateBinding::Subject => Context::bare(scope.caller),
            RequestStateBinding::SubjectAndTool => {
                Context::new(scope.caller, scope.operation).name(scope.name)
            }
            RequestStateBinding::SubjectToolAndArguments => {
                Context::new(scope.caller, scope.operation)
                    .name(scope.name)
                    .arguments(scope.arguments)
            }
        };
        self.sealer.bind(&context)
    }

    fn payload(&self, state: &[u8]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(1 + state.len());
        payload.push(self.bind_to.code());
        payload.extend_from_slice(state);
        payload
    }
}

/// What a call comes with.
#[derive(Debug)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "a handler must tell all four apart")]
pub enum RequestState {
    /// No state was sent: a first round.
    First,
    /// State was sent that was good once.
    Expired(Refused),
    /// State was sent that is not ours, was edited, or belongs to another call or caller.
    Refused(Refused),
    /// State was sent, and this is it.
    Opened(OpenedState),
}

/// State that opened. Only [`RequestStateCodec::decode`] makes one.
#[derive(Clone, Debug)]
#[must_use]
pub struct OpenedState(Opened<State>);

impl OpenedState {
    /// What the handler asked to remember.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        self.0.payload().get(1..).unwrap_or_default()
    }

    /// The id that single use goes by, and when the exchange began.
    #[must_use]
    pub const fn head(&self) -> &StateHead {
        self.0.head()
    }
}

/// State that cannot be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeStateError {
    /// The call cannot be bound.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The state cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
}
