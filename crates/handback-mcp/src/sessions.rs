//! Who owns a session, for rmcp.
//!
//! rmcp keeps the live sessions in memory, and asks a `SessionStore` for those that it does not have:
//! of another process, or of an earlier one. It names no owner. But it asks from within the future
//! that handles a request, so the front sets the caller around that future, and every question is
//! asked on the caller's behalf. Without a caller there is no session.
//!
//! The sessions themselves, their lives and quotas, are those of `handback-store`; what is remembered
//! of each is how it began: the params of `initialize`, as JSON.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use handback_identity::VerifiedPrincipal;
use handback_store::sessions::{Session, SessionError, SessionOptions, Sessions};
use handback_store::{Kv, Millis, StoreError};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};

use crate::Clock;

tokio::task_local! {
    static CALLER: VerifiedPrincipal;
}

/// The sessions of a server.
#[derive(Clone)]
pub struct OwnedSessions {
    sessions: Arc<Sessions<Arc<dyn Kv>>>,
    clock: Clock,
}

/// Whose a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The caller's, begun then.
    Own { created: Millis },
    /// Another's: to the caller, nobody's.
    Anothers,
    /// Nobody's.
    Nobodys,
}

impl OwnedSessions {
    /// Sessions in a store.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, clock: Clock, options: SessionOptions) -> Self {
        Self { sessions: Arc::new(Sessions::new(kv, options)), clock }
    }

    /// Whether a session is there and is the caller's. If so, it is thereby used; if not, nothing
    /// changes, and nobody learns which of the two it was.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store can not say.
    pub async fn is_owned(&self, id: &str, caller: &VerifiedPrincipal) -> Result<bool, StoreError> {
        match self.load_of(id, caller).await {
            Ok(_) => Ok(true),
            Err(SessionError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// What is known of a session, for who decides and writes down why. The caller is told of two of
    /// these alike. One that is the caller's is thereby used; of another's nothing changes.
    pub(crate) async fn find(
        &self,
        id: &str,
        caller: &VerifiedPrincipal,
    ) -> Result<Found, StoreError> {
        match self.load_of(id, caller).await {
            Ok(session) => return Ok(Found::Own { created: session.created }),
            Err(SessionError::Store(error)) => return Err(error),
            Err(_) => {}
        }
        let id = id.to_owned();
        match self.ask(move |sessions, now| sessions.is_there(&id, now)).await {
            Ok(true) => Ok(Found::Anothers),
            Ok(false) => Ok(Found::Nobodys),
            Err(SessionError::Store(error)) => Err(error),
            Err(_) => Ok(Found::Nobodys),
        }
    }

    /// Runs what calls rmcp, so that its questions are the caller's.
    pub(crate) async fn on_behalf_of<T>(
        caller: &VerifiedPrincipal,
        call: impl Future<Output = T>,
    ) -> T {
        CALLER.scope(caller.clone(), call).await
    }

    async fn load_of(&self, id: &str, caller: &VerifiedPrincipal) -> Result<Session, SessionError> {
        let (id, caller) = (id.to_owned(), caller.clone());
        self.ask(move |sessions, now| sessions.load(&id, &caller, now)).await
    }

    /// Stores block, and wait for disks.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Sessions<Arc<dyn Kv>>, Millis) -> Result<T, SessionError>
        + Send
        + 'static,
    ) -> Result<T, SessionError> {
        let (sessions, now) = (Arc::clone(&self.sessions), (self.clock)());
        let answer = tokio::task::spawn_blocking(move || question(&sessions, now)).await;
        answer.unwrap_or_else(|_| Err(broke_down().into()))
    }
}

impl fmt::Debug for OwnedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedSessions(..)")
    }
}

#[async_trait]
impl SessionStore for OwnedSessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let caller = CALLER.try_with(VerifiedPrincipal::clone)?;
        match self.load_of(session_id, &caller).await {
            Ok(session) => {
                let params = serde_json::from_slice(&session.value)?;
                Ok(Some(SessionState::new(params)))
            }
            Err(SessionError::Absent) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let caller = CALLER.try_with(VerifiedPrincipal::clone)?;
        let value = serde_json::to_vec(&state.initialize_params)?;
        let id = session_id.to_owned();
        self.ask(move |sessions, now| sessions.create(&id, &caller, value.into(), now)).await?;
        Ok(())
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        let caller = CALLER.try_with(VerifiedPrincipal::clone)?;
        let id = session_id.to_owned();
        match self.ask(move |sessions, now| sessions.delete(&id, &caller, now)).await {
            Ok(()) | Err(SessionError::Absent) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The same for what only the store can refuse.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(broke_down()))
}

fn broke_down() -> StoreError {
    StoreError::Unavailable("the store broke down".to_owned())
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use rmcp::model::InitializeRequestParams;

    use super::*;

    fn sessions() -> OwnedSessions {
        let options = SessionOptions::new().per_principal(2);
        OwnedSessions::new(Arc::new(MemoryStore::new()), Arc::new(|| 1_000_000), options)
    }

    fn user(uid: u32) -> VerifiedPrincipal {
        UnixPeers::new("test").unwrap().principal(uid)
    }

    async fn begin(sessions: &OwnedSessions, id: &str, owner: &VerifiedPrincipal) -> bool {
        let state = SessionState::new(InitializeRequestParams::default());
        OwnedSessions::on_behalf_of(owner, sessions.store(id, &state)).await.is_ok()
    }

    async fn knows(sessions: &OwnedSessions, id: &str, caller: &VerifiedPrincipal) -> bool {
        let state = OwnedSessions::on_behalf_of(caller, sessions.load(id)).await.unwrap();
        assert_eq!(sessions.is_owned(id, caller).await.unwrap(), state.is_some());
        state.is_some()
    }

    #[tokio::test]
    async fn a_session_is_its_owners() {
        let sessions = sessions();
        let nobody = VerifiedPrincipal::unauthenticated();
        for owner in [&user(1), &nobody] {
            let id = owner.binding();
            assert!(begin(&sessions, &id, owner).await);
            assert!(!begin(&sessions, &id, owner).await, "it begins once");
            for caller in [&user(1), &user(2), &nobody] {
                assert_eq!(knows(&sessions, &id, caller).await, caller == owner);
            }
        }
        assert!(!knows(&sessions, "other", &user(1)).await);
    }

    #[tokio::test]
    async fn only_its_owner_ends_a_session() {
        let sessions = sessions();
        assert!(begin(&sessions, "s", &user(1)).await);
        OwnedSessions::on_behalf_of(&user(2), sessions.delete("s")).await.unwrap();
        assert!(knows(&sessions, "s", &user(1)).await);
        OwnedSessions::on_behalf_of(&user(1), sessions.delete("s")).await.unwrap();
        assert!(!knows(&sessions, "s", &user(1)).await);
    }

    #[tokio::test]
    async fn without_a_caller_there_is_no_session() {
        let sessions = sessions();
        let state = SessionState::new(InitializeRequestParams::default());
        assert!(sessions.store("s", &state).await.is_err());
        assert!(begin(&sessions, "s", &user(1)).await);
        assert!(sessions.load("s").await.is_err());
        assert!(sessions.delete("s").await.is_err());
        assert!(knows(&sessions, "s", &user(1)).await);
    }

    #[tokio::test]
    async fn a_caller_has_a_number_of_sessions() {
        let sessions = sessions();
        assert!(begin(&sessions, "1", &user(1)).await);
        assert!(begin(&sessions, "2", &user(1)).await);
        assert!(!begin(&sessions, "3", &user(1)).await);
        assert!(begin(&sessions, "4", &user(2)).await);
    }

    #[tokio::test]
    async fn an_endless_id_is_nobodys() {
        assert!(!knows(&sessions(), &"s".repeat(100_000), &user(1)).await);
    }
}
