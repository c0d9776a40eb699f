//! Where continuations come back that no call is about: cursors of lists, sessions, ids of events,
//! tasks, resume tokens.
//!
//! Surfaces open these themselves. What they have in common is here: what was revoked is refused,
//! and every refusal is in the audit with its exact reason, whatever the caller is told.

use std::fmt;
use std::sync::Arc;

use handback_identity::{Caller, VerifiedPrincipal};
use handback_store::revocations::Subject;
use handback_token::{Context, Cursor, Opened, Operation, Reason, Sealer, TokenFingerprint};
use rand::RngExt as _;

use crate::audit::{AuditLine, AuditSink, bounded_name};
use crate::clock::Clock;
use crate::pipeline::Pipeline;
use crate::request::Surface;
use crate::revoked::RevocationWatch;
use crate::share::Exhausted;

/// Something that came back, and from whom.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "surfaces write it as a literal")]
pub struct Back<'a> {
    /// Where.
    pub surface: Surface,
    /// What it is for.
    pub operation: Operation,
    /// The name of that: of a list, of a duplex.
    pub name: &'a str,
    /// What kind of continuation it is.
    pub continuation: &'static str,
    /// Who presents it.
    pub principal: &'a VerifiedPrincipal,
    /// What was presented. Only its fingerprint is written down.
    pub text: &'a str,
}

/// Knows what was revoked, and writes down what is refused. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    revocations: RevocationWatch,
    audit: Arc<dyn AuditSink>,
    clock: Arc<dyn Clock>,
}

impl Gate {
    /// A gate of these parts.
    #[must_use]
    pub fn new(
        revocations: RevocationWatch,
        audit: Arc<dyn AuditSink>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { revocations, audit, clock }
    }

    /// What was revoked.
    #[must_use]
    pub const fn revocations(&self) -> &RevocationWatch {
        &self.revocations
    }

    /// The time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Writes down that something was refused, and why.
    pub fn refused(&self, back: &Back<'_>, reason: &'static str) {
        let presented = Some(TokenFingerprint::of(back.text).to_string());
        let noted =
            Noted { event: "refusal", decision: "refused", reason: Some(reason), presented };
        self.note(back, noted);
    }

    /// Writes down that a limit on a resource is used up, and which part of it.
    pub fn refused_by_quota(
        &self,
        surface: Surface,
        resource: &'static str,
        principal: &VerifiedPrincipal,
        part: Exhausted,
    ) {
        let noted = Noted {
            event: "refusal",
            decision: "refused",
            reason: Some(part.reason()),
            presented: None,
        };
        self.line((surface, "quota", resource), principal, None, noted);
    }

    /// Writes down that something was ended that had been let in, and why.
    pub fn ended(&self, back: &Back<'_>, reason: &'static str) {
        let noted =
            Noted { event: "end", decision: "ended", reason: Some(reason), presented: None };
        self.note(back, noted);
    }

    /// Writes down that an operator changed what is revoked.
    pub fn changed(&self, back: &Back<'_>, decision: &'static str) {
        self.note(back, Noted { event: "revocation", decision, reason: None, presented: None });
    }

    /// Whether something was revoked, as far as is known now.
    pub async fn is_revoked(&self, subject: &Subject<'_>) -> bool {
        self.revocations.current(self.clock.now_ms()).await.is_revoked(subject)
    }

    /// Refuses what was revoked.
    ///
    /// # Errors
    ///
    /// [`Reason::Revoked`], which is written down.
    pub async fn check(&self, back: &Back<'_>, subject: &Subject<'_>) -> Result<(), Reason> {
        if !self.is_revoked(subject).await {
            return Ok(());
        }
        self.refused(back, Reason::Revoked.as_str());
        Err(Reason::Revoked)
    }

    /// The same for a cursor that opened, of a session if it is of one.
    ///
    /// # Errors
    ///
    /// [`Reason::Revoked`], which is written down.
    pub async fn check_cursor(
        &self,
        back: &Back<'_>,
        sealer: &Sealer,
        opened: &Opened<Cursor>,
        session: Option<&str>,
    ) -> Result<(), Reason> {
        let born = sealer.cursor_born_after(opened.expires_at()).as_secs().saturating_mul(1000);
        let subject = Subject::of(back.principal).slot(opened.slot()).born(born);
        match session {
            Some(session) => self.check(back, &subject.session(session)).await,
            None => self.check(back, &subject).await,
        }
    }

    fn note(&self, back: &Back<'_>, noted: Noted) {
        let of = (back.surface, back.operation.as_str(), back.name);
        self.line(of, back.principal, Some(back.continuation), noted);
    }

    fn line(
        &self,
        (surface, operation, name): (Surface, &'static str, &str),
        principal: &VerifiedPrincipal,
        continuation: Option<&'static str>,
        noted: Noted,
    ) {
        let Noted { event, decision, reason, presented } = noted;
        let call = format!("{:016x}", rand::rng().random::<u64>());
        let name = bounded_name(name);
        self.audit.write(&AuditLine {
            at_ms: self.clock.now_ms(),
            call: &call,
            event,
            surface: surface.as_str(),
            operation,
            name: &name,
            issuer: principal.issuer(),
            subject: principal.subject(),
            continuation,
            presented,
            key: None,
            decision: Some(decision),
            reason,
            minted: None,
            duration_us: None,
            passed: None,
            left_out: None,
        });
    }
}

/// What a line says beside who and what.
struct Noted {
    event: &'static str,
    decision: &'static str,
    reason: Option<&'static str>,
    presented: Option<String>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Pipeline {
    /// Where continuations come back that no call is about.
    #[must_use]
    pub fn gate(&self) -> Gate {
        let parts = self.parts();
        let (audit, clock) = (Arc::clone(&parts.audit), Arc::clone(&parts.clock));
        Gate::new(parts.revocations.clone(), audit, clock)
    }

    /// Opens the cursor of a list of this name.
    ///
    /// # Errors
    ///
    /// [`Reason`], which is written down.
    pub async fn open_list(
        &self,
        surface: Surface,
        caller: &Caller,
        list: &str,
        cursor: &str,
    ) -> Result<Opened<Cursor>, Reason> {
        let (gate, principal) = (self.gate(), caller.principal());
        let back = list_cursor(surface, principal, list, cursor);
        let context = Context::new(principal.caller(), Operation::List).name(list);
        let bound = self.sealer().bind::<Cursor>(&context);
        let opened = match bound {
            Ok(bound) => bound.open(cursor, self.now()).map_err(|refused| refused.reason()),
            // Nothing that is too long to be bound was ever bound.
            Err(_) => Err(Reason::NotOpened),
        };
        let opened = opened.inspect_err(|reason| gate.refused(&back, reason.as_str()))?;
        gate.check_cursor(&back, self.sealer(), &opened, None).await?;
        Ok(opened)
    }

    /// Refuses the cursor of a list that opened: what it leads to is gone.
    #[must_use]
    pub fn refuse_list(
        &self,
        surface: Surface,
        caller: &Caller,
        list: &str,
        cursor: &str,
    ) -> Reason {
        let back = list_cursor(surface, caller.principal(), list, cursor);
        self.gate().refused(&back, OUTLIVED);
        Reason::Expired
    }
}

/// The reason of what opens, and leads to what is not there any more.
pub const OUTLIVED: &str = "outlived";

const fn list_cursor<'a>(
    surface: Surface,
    principal: &'a VerifiedPrincipal,
    name: &'a str,
    text: &'a str,
) -> Back<'a> {
    let (operation, continuation) = (Operation::List, "cursor");
    Back { surface, operation, name, continuation, principal, text }
}
