//! Ids of events, as tokens of their owner.
//!
//! ```text
//! event id = cursor token; operation duplex, name "mcp:" and the id of the session
//! payload  = the id that the store of events gave
//! ```
//!
//! A cursor says where a walk goes on, and so does the id of an event. No other cursor is bound to
//! the operation duplex and a name with a colon.

use std::sync::Arc;

use handback_identity::VerifiedPrincipal;
use handback_token::{
    Bound, Context, Cursor, Opened, Operation, Reason, Refused, Sealer, UnixTime,
};

use crate::Clock;

/// Seals and opens the ids of events.
#[derive(Clone)]
pub(crate) struct EventIds {
    sealer: Arc<Sealer>,
    clock: Clock,
}

impl EventIds {
    pub(crate) const fn new(sealer: Arc<Sealer>, clock: Clock) -> Self {
        Self { sealer, clock }
    }

    /// The id as the client gets it; `None` if it can not be sealed, and then it gets none.
    pub(crate) fn seal(
        &self,
        owner: &VerifiedPrincipal,
        session: &str,
        id: &str,
    ) -> Option<String> {
        let sealed = self
            .with(owner, session, |bound, now| bound.seal(&mut rand::rng(), now, id.as_bytes()));
        match sealed? {
            Ok(token) => Some(token.into_string()),
            Err(error) => {
                tracing::error!(%error, "the id of an event could not be sealed");
                None
            }
        }
    }

    /// Opens an id, whose payload is what the store of events knows, if it was given to this caller in this session.
    pub(crate) fn open(
        &self,
        caller: &VerifiedPrincipal,
        session: &str,
        id: &str,
    ) -> Result<Opened<Cursor>, Refused> {
        let opened = self.with(caller, session, |bound, now| bound.open(id, now));
        // Nothing that is too long to be bound was ever bound.
        opened.unwrap_or_else(|| Err(Reason::NotOpened.into()))
    }

    /// What seals them.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// `None` if the id of the session is too long to be one.
    fn with<T>(
        &self,
        caller: &VerifiedPrincipal,
        session: &str,
        then: impl FnOnce(&Bound<'_, Cursor>, UnixTime) -> T,
    ) -> Option<T> {
        let name = format!("mcp:{session}");
        let context = Context::new(caller.caller(), Operation::Duplex).name(&name);
        let bound = self.sealer.bind(&context).ok()?;
        Some(then(&bound, UnixTime::from_secs((self.clock)() / 1000)))
    }
}

impl std::fmt::Debug for EventIds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventIds(..)")
    }
}
