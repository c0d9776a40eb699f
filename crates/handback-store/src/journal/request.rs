//! What a call is filed under.

use handback_identity::VerifiedPrincipal;
use handback_token::{ArgsFingerprint, Operation};

use super::{COMMITTED_LIFE_MS, REDEEMED_LIFE_MS};
use crate::Millis;
use crate::coding::{FieldHash, HASH_BYTES};

/// What an idempotency key is good for: (principal, operation, upstream, name, key, step).
///
/// Two calls with the same scope are the same call.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct JournalScope {
    hash: [u8; HASH_BYTES],
}

impl JournalScope {
    /// `name` is that of the tool, prompt, resource or collection. `step` is the position of the
    /// cursor or the id of the state that was opened, and empty for the first step, so that page two
    /// and round two are calls of their own.
    pub fn new(
        principal: &VerifiedPrincipal,
        operation: Operation,
        upstream: Option<&str>,
        name: &str,
        key: Option<&str>,
        step: &[u8],
    ) -> Self {
        let hash = FieldHash::new("handback/v1/journal/scope")
            .field(principal.binding().as_bytes())
            .field(operation.as_str().as_bytes())
            .optional(upstream.map(str::as_bytes))
            .field(name.as_bytes())
            .optional(key.map(str::as_bytes))
            .field(step)
            .finish();
        Self { hash }
    }
}

impl std::fmt::Debug for JournalScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalScope").finish_non_exhaustive()
    }
}

/// What a single-use token is redeemed for: (id, principal, operation, name, fingerprint of
/// arguments and answers).
///
/// The same redemption joins or replays; another one of the same id is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Redemption {
    id: [u8; 16],
    what: [u8; HASH_BYTES],
}

impl Redemption {
    /// `id` is that of a token that was opened. `given` is the fingerprint of the arguments and the
    /// answers together.
    pub fn new(
        id: [u8; 16],
        principal: &VerifiedPrincipal,
        operation: Operation,
        upstream: Option<&str>,
        name: &str,
        given: &[u8; 32],
    ) -> Self {
        let what = FieldHash::new("handback/v1/journal/redemption")
            .field(principal.binding().as_bytes())
            .field(operation.as_str().as_bytes())
            .optional(upstream.map(str::as_bytes))
            .field(name.as_bytes())
            .field(given)
            .finish();
        Self { id, what }
    }
}

impl std::fmt::Debug for Redemption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redemption").finish_non_exhaustive()
    }
}

/// What a tool promises of being called twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever calls tools treats each of them")]
pub enum ToolClass {
    /// It does all or nothing, and records the [`CallId`](super::CallId) with what it does.
    Transactional,
    /// It takes the [`CallId`](super::CallId) as a key, and does a thing once per key.
    TakesKey,
    /// It changes nothing.
    ReadOnly,
    /// It promises nothing: it is started at most once.
    Unknown,
}

impl ToolClass {
    /// Whether it may be called again when nobody knows how a call ended.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// A call that is to be made once: by idempotency key, by single-use token, or by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct CallRequest {
    pub(super) name: RowName,
    pub(super) what: [u8; HASH_BYTES],
    pub(super) class: ToolClass,
    pub(super) starts_at_once: bool,
}

/// Where a row is. Two kinds of names never meet: both are hashes under different labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowName {
    pub(super) kind: RowKind,
    pub(super) hash: [u8; NAME_BYTES],
}

impl std::fmt::Debug for RowName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RowName").field(&self.kind).finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowKind {
    Keyed = 1,
    SingleUse = 2,
}

impl RowKind {
    /// How long an outcome is kept after its commit.
    pub(super) const fn committed_life(self) -> Millis {
        match self {
            Self::Keyed => COMMITTED_LIFE_MS,
            Self::SingleUse => REDEEMED_LIFE_MS,
        }
    }
}

/// Bytes of a hash that name a row: 2^64 calls before two meet.
pub(super) const NAME_BYTES: usize = 16;

impl CallRequest {
    /// A call with an idempotency key.
    pub fn keyed(scope: JournalScope, arguments: &ArgsFingerprint, class: ToolClass) -> Self {
        let name = RowName { kind: RowKind::Keyed, hash: cut(&scope.hash) };
        Self { name, what: *arguments.as_bytes(), class, starts_at_once: false }
    }

    /// A call that redeems a single-use token, with an idempotency key or without: the step of its
    /// scope is the id of the token, so that the redemption says it all.
    pub fn single_use(redemption: Redemption, class: ToolClass) -> Self {
        let hash = FieldHash::new("handback/v1/journal/id").field(&redemption.id).finish();
        let name = RowName { kind: RowKind::SingleUse, hash: cut(&hash) };
        Self { name, what: redemption.what, class, starts_at_once: false }
    }

    /// The reservation counts as started at once. That saves a sync for whoever has nothing left
    /// to check; a crash between the two is then taken for one within the call.
    pub const fn starting_at_once(mut self) -> Self {
        self.starts_at_once = true;
        self
    }
}

fn cut(hash: &[u8; HASH_BYTES]) -> [u8; NAME_BYTES] {
    let [name, _] = hash.as_chunks::<NAME_BYTES>().0 else {
        unreachable!("a hash is two names long")
    };
    *name
}

const _: () = assert!(HASH_BYTES == 2 * NAME_BYTES, "a name is half a hash");
