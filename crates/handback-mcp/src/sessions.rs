//! Who owns a session, and how it began.
//!
//! rmcp keeps the live sessions in memory, and asks a `SessionStore` for those that it does not have:
//! of another process, or of an earlier one. Its records name no owner. Ours do, and rmcp is asked
//! only after the owner was found to be the caller.
//!
//! ```text
//! key   = "mcp/session/{" || base64url(SHA-256(session id)) || "}"
//! value = 01 || born u64be || seen u64be || u32be(len) || binding || the params of `initialize`, JSON
//! ```
//!
//! A session is created only if it is new, and changed only as it was read: one that was ended does
//! not come back. Being used by its owner prolongs its life, up to an absolute end.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use handback_identity::{VerifiedPrincipal, binding};
use handback_store::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use sha2::{Digest as _, Sha256};

use crate::Clock;

const FORMAT: u8 = 1;

/// A life is prolonged when this part of it is over: most uses only read.
const PROLONG_AFTER: u64 = 8;

/// Longer ids are nobody's: rmcp's have 36 characters.
pub const MAX_SESSION_ID_BYTES: usize = 128;

tokio::task_local! {
    /// rmcp calls the store from the future that handles the request, and tells it nothing of it.
    static CALLER: VerifiedPrincipal;
}

/// How long sessions live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct Lives {
    /// Without being used.
    pub idle_ms: Millis,
    /// At most.
    pub total_ms: Millis,
}

impl Default for Lives {
    fn default() -> Self {
        Self { idle_ms: 3_600_000, total_ms: 24 * 3_600_000 }
    }
}

/// The sessions of a server.
#[derive(Clone)]
pub struct Sessions {
    kv: Arc<dyn Kv>,
    clock: Clock,
    lives: Lives,
}

impl Sessions {
    /// Sessions in a store.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, clock: Clock, lives: Lives) -> Self {
        Self { kv, clock, lives }
    }

    /// Whether a session is there and is the caller's. If so, its life is prolonged; if not, nothing
    /// changes, and nobody learns which of the two it was.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store can not say.
    pub async fn is_owned(&self, id: &str, caller: &VerifiedPrincipal) -> Result<bool, StoreError> {
        if id.len() > MAX_SESSION_ID_BYTES {
            return Ok(false);
        }
        let (this, key, caller) = (self.clone(), key(id), caller.clone());
        blocking(move || this.find(&key, &caller)).await
    }

    /// Runs what calls rmcp, so that the store knows whose sessions begin.
    pub(crate) async fn on_behalf_of<T>(
        caller: &VerifiedPrincipal,
        call: impl Future<Output = T>,
    ) -> T {
        CALLER.scope(caller.clone(), call).await
    }

    fn find(&self, key: &Bytes, caller: &VerifiedPrincipal) -> Result<bool, StoreError> {
        let now = (self.clock)();
        let Some(value) = self.kv.get(key, now)? else { return Ok(false) };
        let record = Record::read(&value)?;
        if !binding::stored_matches(record.owner, caller) {
            return Ok(false);
        }
        if now.saturating_sub(record.seen) < self.lives.idle_ms / PROLONG_AFTER {
            return Ok(true);
        }
        let change = self.put(&Record { seen: now, ..record });
        let conditions = vec![(key.clone(), Condition::Is(value))];
        match self.kv.write(&KvBatch { conditions, changes: vec![(key.clone(), change)] }, now) {
            // Somebody else prolonged or ended it at the same time.
            Ok(()) | Err(KvError::Unmet(_)) => Ok(true),
            Err(error) => Err(store_error(error)),
        }
    }

    fn create(&self, id: &str, owner: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let now = (self.clock)();
        let params = serde_json::to_vec(&state.initialize_params)?;
        let change = self.put(&Record { born: now, seen: now, owner, params: &params });
        let key = key(id);
        let conditions = vec![(key.clone(), Condition::Absent)];
        self.kv.write(&KvBatch { conditions, changes: vec![(key, change)] }, now)?;
        Ok(())
    }

    fn put(&self, record: &Record<'_>) -> Change {
        let until = record.seen.saturating_add(self.lives.idle_ms);
        let until = until.min(record.born.saturating_add(self.lives.total_ms));
        Change::Put { value: record.write(), until: Some(until) }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("lives", &self.lives).finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let (this, key) = (self.clone(), key(session_id));
        let value = blocking(move || this.kv.get(&key, (this.clock)())).await?;
        let Some(value) = value else { return Ok(None) };
        let params = serde_json::from_slice(Record::read(&value)?.params)?;
        Ok(Some(SessionState::new(params)))
    }

    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        // Without a caller there is no owner, and without an owner no session.
        let owner = CALLER.try_with(VerifiedPrincipal::binding)?;
        let (this, id, state) = (self.clone(), session_id.to_owned(), state.clone());
        let created = blocking(move || Ok(this.create(&id, &owner, &state)));
        created.await?
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        let (this, key) = (self.clone(), key(session_id));
        let batch = KvBatch { conditions: Vec::new(), changes: vec![(key, Change::Remove)] };
        let removed = blocking(move || this.kv.write(&batch, (this.clock)()).map_err(store_error));
        Ok(removed.await?)
    }
}

/// A session as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record<'a> {
    born: Millis,
    seen: Millis,
    owner: &'a str,
    params: &'a [u8],
}

impl<'a> Record<'a> {
    fn read(value: &'a [u8]) -> Result<Self, StoreError> {
        let read = || {
            let (&format, rest) = value.split_first()?;
            let (born, rest) = rest.split_first_chunk()?;
            let (seen, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (owner, params) = rest.split_at_checked(length)?;
            (format == FORMAT).then_some(())?;
            Some(Self {
                born: Millis::from_be_bytes(*born),
                seen: Millis::from_be_bytes(*seen),
                owner: std::str::from_utf8(owner).ok()?,
                params,
            })
        };
        read().ok_or_else(|| StoreError::Unavailable("a session can not be read".to_owned()))
    }

    fn write(&self) -> Bytes {
        // A binding has a few thousand bytes at most.
        let length = u32::try_from(self.owner.len()).unwrap_or(u32::MAX);
        let parts: [&[u8]; 6] = [
            &[FORMAT],
            &self.born.to_be_bytes(),
            &self.seen.to_be_bytes(),
            &length.to_be_bytes(),
            self.owner.as_bytes(),
            self.params,
        ];
        parts.concat().into()
    }
}

/// The id is as good as the session, so the store does not get it.
fn key(id: &str) -> Bytes {
    let id = URL_SAFE_NO_PAD.encode(Sha256::digest(id.as_bytes()));
    format!("mcp/session/{{{id}}}").into()
}

/// Stores block, and wait for disks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError::Unavailable("the store broke down".to_owned())))
}

pub(crate) fn store_error(error: KvError) -> StoreError {
    match error {
        KvError::Store(error) => error,
        other => StoreError::Unavailable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use rmcp::model::InitializeRequestParams;

    use super::*;

    const LIVES: Lives = Lives { idle_ms: 8_000, total_ms: 20_000 };

    fn sessions() -> (Sessions, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let clock = Arc::clone(&time);
        let clock: Clock = Arc::new(move || clock.load(Ordering::SeqCst));
        (Sessions::new(Arc::new(MemoryStore::new()), clock, LIVES), time)
    }

    fn user(uid: u32) -> VerifiedPrincipal {
        UnixPeers::new("test").unwrap().principal(uid)
    }

    async fn begin(sessions: &Sessions, id: &str, owner: &VerifiedPrincipal) -> bool {
        let state = SessionState::new(InitializeRequestParams::default());
        Sessions::on_behalf_of(owner, sessions.store(id, &state)).await.is_ok()
    }

    #[tokio::test]
    async fn a_session_is_its_owners() {
        let (sessions, _) = sessions();
        let (alice, bob) = (user(1), user(2));
        assert!(begin(&sessions, "s", &alice).await);
        assert!(sessions.is_owned("s", &alice).await.unwrap());
        assert!(!sessions.is_owned("s", &bob).await.unwrap());
        assert!(!sessions.is_owned("s", &VerifiedPrincipal::unauthenticated()).await.unwrap());
        assert!(!sessions.is_owned("t", &alice).await.unwrap());
        assert!(sessions.load("s").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn nobodys_session_is_not_somebodys() {
        let (sessions, _) = sessions();
        let nobody = VerifiedPrincipal::unauthenticated();
        assert!(begin(&sessions, "s", &nobody).await);
        assert!(sessions.is_owned("s", &nobody).await.unwrap());
        assert!(!sessions.is_owned("s", &user(1)).await.unwrap());
    }

    #[tokio::test]
    async fn a_session_without_a_caller_does_not_begin() {
        let (sessions, _) = sessions();
        let state = SessionState::new(InitializeRequestParams::default());
        assert!(sessions.store("s", &state).await.is_err());
        assert!(sessions.load("s").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_session_begins_once() {
        let (sessions, _) = sessions();
        assert!(begin(&sessions, "s", &user(1)).await);
        assert!(!begin(&sessions, "s", &user(2)).await);
        assert!(sessions.is_owned("s", &user(1)).await.unwrap());
    }

    #[tokio::test]
    async fn use_prolongs_a_life_up_to_its_end() {
        let (sessions, time) = sessions();
        assert!(begin(&sessions, "s", &user(1)).await);
        for _ in 0..6 {
            time.fetch_add(3_000, Ordering::SeqCst);
            assert!(sessions.is_owned("s", &user(1)).await.unwrap());
        }
        time.fetch_add(2_000, Ordering::SeqCst);
        assert!(!sessions.is_owned("s", &user(1)).await.unwrap());
        assert!(sessions.load("s").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn use_by_another_prolongs_nothing() {
        let (sessions, time) = sessions();
        assert!(begin(&sessions, "s", &user(1)).await);
        time.fetch_add(7_000, Ordering::SeqCst);
        assert!(!sessions.is_owned("s", &user(2)).await.unwrap());
        time.fetch_add(1_000, Ordering::SeqCst);
        assert!(!sessions.is_owned("s", &user(1)).await.unwrap());
    }

    #[tokio::test]
    async fn an_ended_session_does_not_come_back() {
        let (sessions, time) = sessions();
        assert!(begin(&sessions, "s", &user(1)).await);
        sessions.delete("s").await.unwrap();
        time.fetch_add(5_000, Ordering::SeqCst);
        assert!(!sessions.is_owned("s", &user(1)).await.unwrap());
    }

    #[tokio::test]
    async fn an_endless_id_is_nobodys() {
        let (sessions, _) = sessions();
        assert!(!sessions.is_owned(&"s".repeat(100_000), &user(1)).await.unwrap());
    }

    #[test]
    fn a_record_reads_back_and_its_parts_do_not() {
        let record = Record { born: 1, seen: 2, owner: "a\0b", params: b"{}" };
        let bytes = record.write();
        assert_eq!(Record::read(&bytes).unwrap(), record);
        for length in 0..bytes.len() - record.params.len() {
            assert!(Record::read(&bytes[..length]).is_err(), "{length}");
        }
    }
}
