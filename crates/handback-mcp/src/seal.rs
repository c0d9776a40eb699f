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
pub struct EventIds {
    sealer: Arc<Sealer>,
    clock: Clock,
}

impl EventIds {
    /// What seals and opens with this.
    #[must_use]
    pub const fn new(sealer: Arc<Sealer>, clock: Clock) -> Self {
        Self { sealer, clock }
    }

    /// The id as the client gets it; `None` if it can not be sealed, and then it gets none.
    #[must_use]
    pub fn seal(&self, owner: &VerifiedPrincipal, session: &str, id: &str) -> Option<String> {
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
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(
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
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
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

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use handback_token::{KeyRing, Mode, SealerConfig};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn ids() -> EventIds {
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(1));
        let sealer = Sealer::new(&ring, SealerConfig::default()).unwrap();
        EventIds::new(Arc::new(sealer), Arc::new(|| 1_900_000_000_000))
    }

    proptest! {
        #[test]
        fn an_id_opens_for_its_owner_and_session_only(
            id in "[0-9a-f/]{1,60}", session in "[a-z0-9-]{1,40}", at: Index, bit in 0_u8..6,
        ) {
            let ids = ids();
            let peers = UnixPeers::new("server").unwrap();
            let (alice, bob) = (peers.caller(1), peers.caller(2));
            let (alice, bob) = (alice.principal(), bob.principal());
            let sealed = ids.seal(alice, &session, &id).unwrap();
            let opened = ids.open(alice, &session, &sealed).unwrap();
            prop_assert_eq!(opened.payload(), id.as_bytes());
            prop_assert!(ids.open(bob, &session, &sealed).is_err());
            let other = format!("{session}x");
            prop_assert!(ids.open(alice, &other, &sealed).is_err());
            let mut edited = sealed.clone().into_bytes();
            let at = at.index(edited.len());
            edited[at] ^= 1 << bit;
            let edited = String::from_utf8(edited).unwrap();
            prop_assert!(ids.open(alice, &session, &edited).is_err(), "{}", at);
        }

        #[test]
        fn nothing_else_opens(text: String) {
            let nobody = VerifiedPrincipal::unauthenticated();
            prop_assert!(ids().open(&nobody, "session", &text).is_err());
        }
    }
}
