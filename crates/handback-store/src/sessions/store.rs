//! What can be done with sessions.

use std::fmt;

use bytes::Bytes;
use handback_identity::{VerifiedPrincipal, binding};

use super::row::{
    Names, Row, entries, entry_value, entry_written, next_turn, row_of_entry, turn_key,
};
use crate::owner::{owner_tag, owner_tag_of};
use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

/// Bytes of a session's id at most. Ours and those of MCP are UUIDs; nothing longer is hashed.
pub const MAX_SESSION_ID_BYTES: usize = 256;

/// Bytes of a session's value at most: it is read at every request.
pub const MAX_SESSION_BYTES: usize = 64 << 10;

/// How long a session lives without being used: what ToolHive has, and clients expect.
const IDLE_MS: Millis = 30 * 60 * 1_000;

/// How long a session lives at most.
const LONGEST_MS: Millis = 24 * 60 * 60 * 1_000;

/// Sessions of one principal: more than any client opens, few enough to count.
const PER_PRINCIPAL: usize = 1_000;

/// Which part of the idle life passes before it is written down that a session was used.
const USED_PART: Millis = 8;

/// How long an entry may be there before its session: whoever makes both needs two writes.
const ENTRY_GRACE_MS: Millis = 60 * 1_000;

/// How often a row is looked at again that others keep changing.
const MAX_TRIES: usize = 64;

/// How long sessions live, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct SessionOptions {
    idle_ms: Millis,
    longest_ms: Millis,
    per_principal: usize,
}

impl SessionOptions {
    /// 30 minutes without use, 24 hours at most, 1,000 of one principal.
    pub const fn new() -> Self {
        Self { idle_ms: IDLE_MS, longest_ms: LONGEST_MS, per_principal: PER_PRINCIPAL }
    }

    /// How long a session lives without being used; at least 1 ms.
    pub const fn idle_ms(mut self, idle_ms: Millis) -> Self {
        self.idle_ms = if idle_ms == 0 { 1 } else { idle_ms };
        self
    }

    /// How long a session lives at most; at least 1 ms.
    pub const fn longest_ms(mut self, longest_ms: Millis) -> Self {
        self.longest_ms = if longest_ms == 0 { 1 } else { longest_ms };
        self
    }

    /// How many sessions one principal may have.
    pub const fn per_principal(mut self, per_principal: usize) -> Self {
        self.per_principal = per_principal;
        self
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Sessions in a store.
#[derive(Debug)]
pub struct Sessions<S> {
    kv: S,
    options: SessionOptions,
}

/// A session that was found.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// What is remembered.
    pub value: Bytes,
    /// When it was made.
    pub created: Millis,
    /// When it ends if it is not used any more.
    pub until: Millis,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("bytes", &self.value.len())
            .field("created", &self.created)
            .field("until", &self.until)
            .finish()
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is none with this id, or none of this caller.
    #[error("there is no such session")]
    Absent,
    /// There is one with this id already.
    #[error("there is a session with this id")]
    Exists,
    /// The principal has as many as it may.
    #[error("too many sessions")]
    Quota,
    /// The id is longer than [`MAX_SESSION_ID_BYTES`] or empty, or the value longer than
    /// [`MAX_SESSION_BYTES`].
    #[error("a session's id or value has no allowed length")]
    Length,
    /// The store. Whether there is such a session, nobody knows.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Kv> Sessions<S> {
    /// Sessions in this store.
    pub const fn new(kv: S, options: SessionOptions) -> Self {
        Self { kv, options }
    }

    /// Makes a session, if there is none with this id.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn create(
        &self,
        id: &str,
        principal: &VerifiedPrincipal,
        value: Bytes,
        now: Millis,
    ) -> Result<(), SessionError> {
        check_lengths(id, &value)?;
        let names = Names::of(id);
        if self.kv.get(&names.row(), now)?.is_some() {
            return Err(SessionError::Exists);
        }
        let owner = owner_tag(principal);
        let is_added = self.add_entry(&names, &owner, now)?;
        let row = Row { binding: principal.binding(), created: now, used: now, value };
        match self.replace(&names, Condition::Absent, &row, now) {
            Ok(()) => Ok(()),
            Err(KvError::Unmet(_)) => {
                // Somebody was faster. If it was this principal, the entry is theirs.
                let is_theirs = self
                    .read(&names, now)?
                    .is_none_or(|(_, row)| !binding::stored_matches(&row.binding, principal));
                if is_added && is_theirs {
                    self.remove_entry(&names, &owner, now)?;
                }
                Err(SessionError::Exists)
            }
            Err(KvError::Store(error)) => Err(error.into()),
        }
    }

    /// A session of this caller, which is thereby used.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn load(
        &self,
        id: &str,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<Session, SessionError> {
        self.load_if(id, |binding| binding::stored_matches(binding, principal), now)
    }

    /// A session, whoever asks: for interfaces that do not know who does.
    ///
    /// # Security
    ///
    /// Whoever calls this has checked with [`load`](Self::load), for the same request, that the
    /// session is the caller's.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn dangerous_load_of_anybody(
        &self,
        id: &str,
        now: Millis,
    ) -> Result<Session, SessionError> {
        self.load_if(id, |_| true, now)
    }

    /// Gives a session of this caller another value, if it is there.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn update(
        &self,
        id: &str,
        principal: &VerifiedPrincipal,
        value: Bytes,
        now: Millis,
    ) -> Result<(), SessionError> {
        self.update_if(id, |binding| binding::stored_matches(binding, principal), value, now)
    }

    /// As [`update`](Self::update), for interfaces that do not know who asks.
    ///
    /// # Security
    ///
    /// As [`dangerous_load_of_anybody`](Self::dangerous_load_of_anybody).
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn dangerous_update_of_anybody(
        &self,
        id: &str,
        value: Bytes,
        now: Millis,
    ) -> Result<(), SessionError> {
        self.update_if(id, |_| true, value, now)
    }

    /// Ends a session of this caller, for good.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn delete(
        &self,
        id: &str,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<(), SessionError> {
        self.delete_if(id, |binding| binding::stored_matches(binding, principal), now)
    }

    /// As [`delete`](Self::delete), for interfaces that do not know who asks.
    ///
    /// # Security
    ///
    /// As [`dangerous_load_of_anybody`](Self::dangerous_load_of_anybody).
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn dangerous_delete_of_anybody(&self, id: &str, now: Millis) -> Result<(), SessionError> {
        self.delete_if(id, |_| true, now)
    }

    /// Whether a session is there, whosever it is, for who writes down why another was refused.
    /// Nothing is used by it, and nobody outside may learn of the answer.
    ///
    /// # Errors
    ///
    /// [`SessionError::Store`].
    pub fn is_there(&self, id: &str, now: Millis) -> Result<bool, SessionError> {
        Ok(check_lengths(id, &[]).is_ok() && self.read(&Names::of(id), now)?.is_some())
    }

    /// How many sessions a principal has, about: some of them may have ended since.
    ///
    /// # Errors
    ///
    /// [`SessionError::Store`].
    pub fn count(&self, principal: &VerifiedPrincipal, now: Millis) -> Result<usize, SessionError> {
        let prefix = entries(&owner_tag(principal));
        Ok(self.kv.scan(prefix.as_bytes(), None, usize::MAX, now)?.len())
    }

    fn load_if(
        &self,
        id: &str,
        is_allowed: impl Fn(&str) -> bool,
        now: Millis,
    ) -> Result<Session, SessionError> {
        check_lengths(id, &[]).map_err(|_| SessionError::Absent)?;
        let names = Names::of(id);
        let (stored, mut row) = self
            .read(&names, now)?
            .filter(|(_, row)| is_allowed(&row.binding))
            .ok_or(SessionError::Absent)?;
        let unwritten = now.saturating_sub(row.used);
        if unwritten >= (self.options.idle_ms / USED_PART).max(1) {
            row.used = now;
            match self.replace(&names, Condition::Is(stored), &row, now) {
                // Whoever changed it has used it; whoever deleted it did so after it was read.
                Ok(()) | Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(Session { until: self.until(&row), created: row.created, value: row.value })
    }

    fn update_if(
        &self,
        id: &str,
        is_allowed: impl Fn(&str) -> bool,
        value: Bytes,
        now: Millis,
    ) -> Result<(), SessionError> {
        if value.len() > MAX_SESSION_BYTES {
            return Err(SessionError::Length);
        }
        check_lengths(id, &[]).map_err(|_| SessionError::Absent)?;
        let names = Names::of(id);
        for _ in 0..MAX_TRIES {
            let (stored, row) = self
                .read(&names, now)?
                .filter(|(_, row)| is_allowed(&row.binding))
                .ok_or(SessionError::Absent)?;
            let row = Row { used: now.max(row.used), value: value.clone(), ..row };
            match self.replace(&names, Condition::Is(stored), &row, now) {
                Ok(()) => return Ok(()),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(contended().into())
    }

    fn delete_if(
        &self,
        id: &str,
        is_allowed: impl Fn(&str) -> bool,
        now: Millis,
    ) -> Result<(), SessionError> {
        check_lengths(id, &[]).map_err(|_| SessionError::Absent)?;
        let names = Names::of(id);
        for _ in 0..MAX_TRIES {
            let (stored, row) = self
                .read(&names, now)?
                .filter(|(_, row)| is_allowed(&row.binding))
                .ok_or(SessionError::Absent)?;
            let key = names.row();
            let batch = KvBatch {
                conditions: vec![(key.clone(), Condition::Is(stored))],
                changes: vec![(key, Change::Remove)],
            };
            match self.kv.write(&batch, now) {
                Ok(()) => {
                    // It has ended, whatever becomes of its entry: that is found without a session.
                    return self.remove_entry(&names, &owner_tag_of(&row.binding), now);
                }
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(contended().into())
    }

    fn read(&self, names: &Names, now: Millis) -> Result<Option<(Bytes, Row)>, StoreError> {
        let Some(stored) = self.kv.get(&names.row(), now)? else { return Ok(None) };
        let row = Row::decode(stored.clone())?;
        // The options may have been made stricter since.
        Ok((now < self.until(&row)).then_some((stored, row)))
    }

    fn replace(
        &self,
        names: &Names,
        condition: Condition,
        row: &Row,
        now: Millis,
    ) -> Result<(), KvError> {
        let key = names.row();
        let change = Change::Put { value: row.encode(), until: Some(self.until(row)) };
        let batch =
            KvBatch { conditions: vec![(key.clone(), condition)], changes: vec![(key, change)] };
        self.kv.write(&batch, now)
    }

    fn until(&self, row: &Row) -> Millis {
        let idle = row.used.saturating_add(self.options.idle_ms);
        idle.min(row.created.saturating_add(self.options.longest_ms))
    }

    /// Counts a session that is about to be made. Gives whether it was not counted before.
    fn add_entry(&self, names: &Names, owner: &str, now: Millis) -> Result<bool, SessionError> {
        let (entry, turn) = (names.entry(owner), turn_key(owner));
        for _ in 0..MAX_TRIES {
            let seen = self.kv.get(&turn, now)?;
            if self.kv.get(&entry, now)?.is_some() {
                return Ok(false);
            }
            self.check_quota(owner, now)?;
            let until = Some(now.saturating_add(self.options.longest_ms));
            let batch = KvBatch {
                changes: vec![
                    (turn.clone(), Change::Put { value: next_turn(seen.as_ref()), until }),
                    (entry.clone(), Change::Put { value: entry_value(now), until }),
                ],
                conditions: vec![(turn.clone(), seen.map_or(Condition::Absent, Condition::Is))],
            };
            match self.kv.write(&batch, now) {
                Ok(()) => return Ok(true),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(contended().into())
    }

    /// Whether one more session fits. If not, entries of sessions that have ended make room.
    fn check_quota(&self, owner: &str, now: Millis) -> Result<(), SessionError> {
        let prefix = entries(owner);
        let limit = self.options.per_principal;
        let found = self.kv.scan(prefix.as_bytes(), None, limit.saturating_add(1), now)?;
        if found.len() < limit {
            return Ok(());
        }
        let mut left = found.len();
        let mut changes = Vec::new();
        for (entry, value) in found {
            if now.saturating_sub(entry_written(&value)) < ENTRY_GRACE_MS {
                continue;
            }
            let row = row_of_entry(&entry, owner);
            if row.map_or(Ok(None), |row| self.kv.get(&row, now))?.is_none() {
                changes.push((entry, Change::Remove));
                left -= 1;
            }
        }
        if !changes.is_empty() {
            self.write_alone(changes, now)?;
        }
        if left < limit { Ok(()) } else { Err(SessionError::Quota) }
    }

    fn remove_entry(&self, names: &Names, owner: &str, now: Millis) -> Result<(), SessionError> {
        Ok(self.write_alone(vec![(names.entry(owner), Change::Remove)], now)?)
    }

    fn write_alone(&self, changes: Vec<(Bytes, Change)>, now: Millis) -> Result<(), StoreError> {
        match self.kv.write(&KvBatch { conditions: Vec::new(), changes }, now) {
            Ok(()) => Ok(()),
            Err(KvError::Store(error)) => Err(error),
            Err(KvError::Unmet(_)) => unreachable!("there are no conditions"),
        }
    }
}

fn check_lengths(id: &str, value: &[u8]) -> Result<(), SessionError> {
    let is_allowed =
        (1..=MAX_SESSION_ID_BYTES).contains(&id.len()) && value.len() <= MAX_SESSION_BYTES;
    if is_allowed { Ok(()) } else { Err(SessionError::Length) }
}

fn contended() -> StoreError {
    StoreError::Unavailable("too many others write the same session".to_owned())
}
