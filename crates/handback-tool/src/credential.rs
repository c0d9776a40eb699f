//! On whose strength something stays open.
//!
//! A request is checked when it comes. What it opens may stay open for hours: duplexes, streams of events,
//! subscriptions. The credential that it came with may end before, and what a caller has may be taken back.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use handback_identity::{Caller, VerifiedPrincipal};
use handback_store::revocations::Subject;
use handback_token::Reason;

use crate::gate::Gate;

/// Asks again whether the credential of a request is good. A router puts it among the extensions of
/// the requests whose connections outlast them.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "it is what it holds")]
pub struct Again(pub Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>);

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again(..)")
    }
}

/// On whose strength something stays open, after it was let in.
#[derive(Clone, Debug)]
#[must_use]
pub struct Credential {
    principal: VerifiedPrincipal,
    /// In seconds since 1970.
    ends: Option<u64>,
    /// When it was shown, in milliseconds since 1970.
    shown_ms: u64,
    session: Option<String>,
    again: Option<Again>,
}

impl Credential {
    /// That of a caller, which was shown at this time. Without `again`, it is good until it ends.
    pub fn new(caller: &Caller, shown_ms: u64, again: Option<Again>) -> Self {
        let principal = caller.principal().clone();
        Self { principal, ends: caller.expires_at(), shown_ms, session: None, again }
    }

    /// The same for something of this session, which can be revoked with it. `born_ms` is when that began.
    pub fn of_session(self, session: &str, born_ms: u64) -> Self {
        Self { session: Some(session.to_owned()), shown_ms: born_ms, ..self }
    }

    /// Who showed it.
    #[must_use]
    pub const fn principal(&self) -> &VerifiedPrincipal {
        &self.principal
    }

    /// Why it is not good any more at this time, as far as that is known here: it has expired, or was
    /// revoked. Costs little.
    pub async fn ended(&self, gate: Option<&Gate>, now_ms: u64) -> Option<&'static str> {
        if self.ends.is_some_and(|ends| ends.saturating_mul(1000) <= now_ms) {
            return Some("credential_expired");
        }
        let subject = Subject::of(&self.principal).born(self.shown_ms);
        let subject = match &self.session {
            Some(session) => subject.session(session),
            None => subject,
        };
        match gate {
            Some(gate) if gate.is_revoked(&subject).await => Some(Reason::Revoked.as_str()),
            _ => None,
        }
    }

    /// Why it would not be let in any more. Costs as much as to let it in.
    pub async fn gone(&self) -> Option<&'static str> {
        let is_good = match &self.again {
            Some(again) => (again.0)().await,
            None => true,
        };
        (!is_good).then_some("credential_gone")
    }
}
