//! The states of calls, and who may change them.

use std::mem::discriminant;

use bytes::Bytes;
use rand_core::CryptoRng;

use super::error::JournalError;
use super::request::{CallRequest, RowKind};
use super::reservation::{CallId, InstanceId, Limbo, Lost, Reservation};
use super::row::{
    MAX_INLINE_OUTCOME_BYTES, Outcome, Row, State, epoch_key, open_key, open_prefix,
    parse_open_key, row_key,
};
use crate::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};

/// How often a row is looked at again that others keep changing. Each change of a row is a step of a
/// call, and a call has few.
const MAX_TRIES: usize = 32;

/// The record of calls of one instance.
#[derive(Debug)]
pub struct Journal<S> {
    pub(super) kv: S,
    instance: InstanceId,
    epoch: u64,
    lost: Lost,
}

/// What to do with a call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "whoever calls tools treats each of them")]
#[must_use]
pub enum Reserved {
    /// Make it.
    New(Reservation),
    /// Somebody is at it.
    InFlight {
        /// Which call.
        call_id: CallId,
        /// Whether it is made by this process, where one can wait for it.
        is_here: bool,
    },
    /// It was made, and this came out.
    Committed {
        /// Which call.
        call_id: CallId,
        /// What came out.
        outcome: Outcome,
    },
    /// The key was used for a call with other arguments.
    Mismatch,
    /// The single-use token was redeemed for something else.
    Replayed,
    /// It was started, and nobody knows how it ended.
    Ambiguous {
        /// Which call.
        call_id: CallId,
    },
}

/// What is known of a call, for whoever does not want to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "as `Reserved`")]
pub enum Status {
    /// Nothing: it may be made.
    Absent,
    /// As [`Reserved::InFlight`].
    InFlight {
        /// Which call.
        call_id: CallId,
        /// Whether it is made by this process.
        is_here: bool,
    },
    /// As [`Reserved::Committed`].
    Committed {
        /// Which call.
        call_id: CallId,
        /// What came out.
        outcome: Outcome,
    },
    /// As [`Reserved::Mismatch`].
    Mismatch,
    /// As [`Reserved::Replayed`].
    Replayed,
    /// As [`Reserved::Ambiguous`].
    Ambiguous {
        /// Which call.
        call_id: CallId,
    },
    /// Nobody knows how it ended, but it may be made again.
    Retryable {
        /// Which call.
        call_id: CallId,
    },
}

/// What recovery did with calls that nobody is at any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Nothing had been started.
    pub freed: usize,
    /// Nobody knows how they ended.
    pub ambiguous: usize,
    /// They may be made again.
    pub retryable: usize,
    /// There may be more of them: call again.
    pub has_more: bool,
}

/// What is to become of a call that nobody is at any more.
enum Settled {
    Freed,
    Ambiguous(Row),
    Retryable(Row),
}

impl<S: Kv> Journal<S> {
    /// Opens the journal for one start of an instance, and counts that start. Whatever an earlier
    /// start left open is dead from now on; [`recover`](Self::recover) settles it.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the start cannot be counted.
    pub fn open(kv: S, instance: InstanceId, now: Millis) -> Result<Self, JournalError> {
        let key = epoch_key(instance);
        for _ in 0..MAX_TRIES {
            let stored = kv.get(&key, now)?;
            let last = stored.as_ref().map_or(Ok(0), epoch_of)?;
            let epoch = last.checked_add(1).ok_or_else(unreadable_epoch)?;
            let condition = stored.map_or(Condition::Absent, Condition::Is);
            let value = Bytes::copy_from_slice(&epoch.to_be_bytes());
            let batch = KvBatch {
                conditions: vec![(key.clone(), condition)],
                changes: vec![(key.clone(), Change::Put { value, until: None })],
            };
            match kv.write(&batch, now) {
                Ok(()) => return Ok(Self { kv, instance, epoch, lost: Lost::default() }),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
        }
        Err(JournalError::Contended)
    }

    /// Which instance this is.
    #[must_use]
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The number of this start of the instance.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Reserves a call, or says why not: one atomic, synced write.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; then the call must not be made. If nobody knows whether the reservation was
    /// written, it is settled by whoever asks for it next.
    pub fn reserve<R: CryptoRng + ?Sized>(
        &self,
        request: &CallRequest,
        rng: &mut R,
        now: Millis,
    ) -> Result<Reserved, JournalError> {
        let fresh = self.fresh(request, CallId::generate(rng), now);
        // Nearly all calls are new: no look beforehand.
        let mut old: Option<(Bytes, Row)> = None;
        for _ in 0..MAX_TRIES {
            let next = match &old {
                None => fresh.clone(),
                Some((_, row)) if row.what != request.what => return Ok(refused(request)),
                Some((_, row)) => match self.answer(row) {
                    Answer::Reserved(reserved) => return Ok(reserved),
                    Answer::Free => fresh.clone(),
                    Answer::Again => Row {
                        call_id: row.call_id,
                        attempt: row.attempt.saturating_add(1),
                        ..fresh.clone()
                    },
                },
            };
            let replaced = old.as_ref().map(|(stored, row)| (stored, row));
            if self.place(request, replaced, &next, now)? {
                let lost = self.lost.clone();
                let reservation =
                    Reservation { name: request.name, row: next, is_settled: false, lost };
                return Ok(Reserved::New(reservation));
            }
            old = self.read(request, now)?;
        }
        Err(JournalError::Contended)
    }

    /// Records that the call is being started. Only then may the tool be called.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; then the tool must not be called.
    pub fn start(&self, reservation: &mut Reservation, now: Millis) -> Result<(), JournalError> {
        if reservation.is_started() {
            return Ok(());
        }
        let started = Row { state: State::Started, since: now, ..reservation.row.clone() };
        self.step(reservation, Some(started), now)
    }

    /// Records what came out. The reservation has ended.
    ///
    /// # Errors
    ///
    /// [`JournalError`]. Unless it is [`JournalError::Superseded`], it may be tried again.
    pub fn commit(
        &self,
        reservation: &mut Reservation,
        outcome: Outcome,
        now: Millis,
    ) -> Result<(), JournalError> {
        if matches!(&outcome, Outcome::Bytes(bytes) if bytes.len() > MAX_INLINE_OUTCOME_BYTES) {
            return Err(JournalError::TooLong);
        }
        let state = State::Committed(outcome);
        let committed = Row { state, since: now, ..reservation.row.clone() };
        self.step(reservation, Some(committed), now)
    }

    /// Nothing happened: the tool said so, or it was not called. Frees the key and the token.
    ///
    /// If the call may have been made before ([`Reservation::is_again`]), that nothing happened
    /// *this time* frees nothing: it may be made once more.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn release(&self, reservation: &mut Reservation, now: Millis) -> Result<(), JournalError> {
        let next = reservation.is_again().then(|| Row {
            state: State::Retryable,
            since: now,
            ..reservation.row.clone()
        });
        self.step(reservation, next, now)
    }

    /// Nobody knows how the call ended: a panic, a time-out.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn abandon(&self, reservation: &mut Reservation, now: Millis) -> Result<(), JournalError> {
        let ambiguous = Row { state: State::Ambiguous, since: now, ..reservation.row.clone() };
        self.step(reservation, Some(ambiguous), now)
    }

    /// The call was cut off, as by a crash: what becomes of it depends on how far it was, and on the
    /// class of the tool.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn interrupt(
        &self,
        reservation: &mut Reservation,
        now: Millis,
    ) -> Result<(), JournalError> {
        let next = match settle(&reservation.row, now) {
            Settled::Freed => None,
            Settled::Ambiguous(row) | Settled::Retryable(row) => Some(row),
        };
        self.step(reservation, next, now)
    }

    /// What is known of a call. Writes nothing.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if the store cannot be read.
    pub fn status(&self, request: &CallRequest, now: Millis) -> Result<Status, JournalError> {
        let Some((_, row)) = self.read(request, now)? else { return Ok(Status::Absent) };
        if row.what != request.what {
            return Ok(match refused(request) {
                Reserved::Replayed => Status::Replayed,
                _ => Status::Mismatch,
            });
        }
        let call_id = row.call_id;
        Ok(match self.answer(&row) {
            Answer::Free => Status::Absent,
            Answer::Again => Status::Retryable { call_id },
            Answer::Reserved(Reserved::InFlight { is_here, .. }) => {
                Status::InFlight { call_id, is_here }
            }
            Answer::Reserved(Reserved::Committed { outcome, .. }) => {
                Status::Committed { call_id, outcome }
            }
            Answer::Reserved(_) => Status::Ambiguous { call_id },
        })
    }

    /// Removes a call that was committed, and gives what came out.
    pub(super) fn remove_committed(
        &self,
        request: &CallRequest,
        now: Millis,
    ) -> Result<Option<Outcome>, JournalError> {
        let found = self.read(request, now)?.filter(|(_, row)| row.what == request.what);
        let Some((stored, Row { state: State::Committed(outcome), .. })) = found else {
            return Ok(None);
        };
        let key = row_key(&request.name);
        let batch = KvBatch {
            conditions: vec![(key.clone(), Condition::Is(stored))],
            changes: vec![(key, Change::Remove)],
        };
        match self.kv.write(&batch, now) {
            Ok(()) => Ok(Some(outcome)),
            Err(KvError::Unmet(_)) => Ok(None),
            Err(KvError::Store(error)) => Err(error.into()),
        }
    }

    /// Settles what earlier starts of this instance left open, and what this one lost; at most
    /// `limit` calls. Call it at start, until it has no more, and now and then.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; what was settled before stays so.
    pub fn recover(&self, limit: usize, now: Millis) -> Result<Recovered, JournalError> {
        self.recover_instance(self.instance, limit, now)
    }

    /// As [`recover`](Self::recover), for another instance.
    ///
    /// If that instance lives, its calls that have not started will not start, and what the others
    /// did cannot be recorded: nothing is made twice, but answers are lost.
    ///
    /// # Errors
    ///
    /// As [`recover`](Self::recover).
    pub fn recover_gone(
        &self,
        instance: InstanceId,
        limit: usize,
        now: Millis,
    ) -> Result<Recovered, JournalError> {
        self.recover_instance(instance, limit, now)
    }

    fn recover_instance(
        &self,
        instance: InstanceId,
        limit: usize,
        now: Millis,
    ) -> Result<Recovered, JournalError> {
        let prefix = open_prefix(instance);
        let mut recovered = Recovered::default();
        let mut after: Option<Bytes> = None;
        let mut settled = 0;
        while settled < limit {
            let page = (limit - settled).min(RECOVERY_PAGE);
            let entries = self.kv.scan(prefix.as_bytes(), after.as_deref(), page, now)?;
            let Some((last, _)) = entries.last() else { return Ok(recovered) };
            after = Some(last.clone());
            for (entry, _) in &entries {
                settled += usize::from(self.recover_entry(entry, instance, &mut recovered, now)?);
            }
        }
        recovered.has_more = true;
        Ok(recovered)
    }

    /// Settles one open call if it is dead. Gives whether it was.
    fn recover_entry(
        &self,
        entry: &Bytes,
        instance: InstanceId,
        recovered: &mut Recovered,
        now: Millis,
    ) -> Result<bool, JournalError> {
        let (epoch, kind, key) = parse_open_key(entry, &open_prefix(instance))
            .ok_or_else(|| StoreError::Damaged("an open call has no such name".to_owned()))?;
        let Some(stored) = self.kv.get(&key, now)? else {
            // Somebody settled it since the entry was read.
            return Ok(false);
        };
        let row = Row::decode(stored.clone())?;
        // Since the entry was read, somebody may have settled it, and somebody else begun.
        let is_it = row.instance == instance && row.epoch == epoch && row.is_open();
        if !is_it || (instance == self.instance && self.is_alive(&row)) {
            return Ok(false);
        }
        let settled = settle(&row, now);
        let change = match &settled {
            Settled::Freed => Change::Remove,
            Settled::Ambiguous(row) | Settled::Retryable(row) => put(row, kind),
        };
        let batch = KvBatch {
            conditions: vec![(key.clone(), Condition::Is(stored))],
            changes: vec![(key, change), (entry.clone(), Change::Remove)],
        };
        match self.kv.write(&batch, now) {
            Ok(()) => {}
            Err(KvError::Unmet(_)) => return Ok(false),
            Err(KvError::Store(error)) => return Err(error.into()),
        }
        self.lost.remove(&row);
        let count = match settled {
            Settled::Freed => &mut recovered.freed,
            Settled::Ambiguous(_) => &mut recovered.ambiguous,
            Settled::Retryable(_) => &mut recovered.retryable,
        };
        *count += 1;
        Ok(true)
    }

    fn fresh(&self, request: &CallRequest, call_id: CallId, now: Millis) -> Row {
        Row {
            state: if request.starts_at_once { State::Started } else { State::Reserved },
            class: request.class,
            attempt: 0,
            call_id,
            instance: self.instance,
            epoch: self.epoch,
            since: now,
            what: request.what,
        }
    }

    /// Writes a new row in the place of nothing, or of one that nobody is at. Gives whether nobody
    /// was faster.
    fn place(
        &self,
        request: &CallRequest,
        old: Option<(&Bytes, &Row)>,
        next: &Row,
        now: Millis,
    ) -> Result<bool, JournalError> {
        let key = row_key(&request.name);
        let condition = old.map_or(Condition::Absent, |(stored, _)| Condition::Is(stored.clone()));
        let mut changes = vec![(key.clone(), put(next, request.name.kind))];
        if let Some((_, row)) = old
            && row.is_open()
        {
            let entry = open_key(&request.name, row.instance, row.epoch);
            changes.push((entry, Change::Remove));
        }
        // Last, as it may be the entry that was removed.
        let entry = open_key(&request.name, next.instance, next.epoch);
        changes.retain(|(key, _)| *key != entry);
        changes.push((entry, Change::Put { value: Bytes::new(), until: None }));
        let limbo = Limbo::of(&self.lost, next);
        let batch = KvBatch { conditions: vec![(key, condition)], changes };
        match self.kv.write(&batch, now) {
            Ok(()) => {
                limbo.end();
                // An earlier try to write the same row may have been in limbo.
                self.lost.remove(next);
                if let Some((_, row)) = old {
                    self.lost.remove(row);
                }
                Ok(true)
            }
            Err(KvError::Unmet(_)) => {
                limbo.end();
                Ok(false)
            }
            Err(KvError::Store(error)) => {
                if error.is_unwritten() {
                    limbo.end();
                }
                Err(error.into())
            }
        }
    }

    /// Writes the next row of a call that is ours, or removes it.
    fn step(
        &self,
        reservation: &mut Reservation,
        next: Option<Row>,
        now: Millis,
    ) -> Result<(), JournalError> {
        if reservation.is_settled {
            return Err(JournalError::Superseded);
        }
        let key = row_key(&reservation.name);
        let stays_open = next.as_ref().is_some_and(Row::is_open);
        let kind = reservation.name.kind;
        let change = next.as_ref().map_or(Change::Remove, |next| put(next, kind));
        let mut changes = vec![(key.clone(), change)];
        if !stays_open {
            let row = &reservation.row;
            let entry = open_key(&reservation.name, row.instance, row.epoch);
            changes.push((entry, Change::Remove));
        }
        let mut stored = reservation.row.encode();
        let mut batch = KvBatch { conditions: Vec::new(), changes };
        // It ends: each time the row is another, and a reservation has two that are open.
        loop {
            batch.conditions = vec![(key.clone(), Condition::Is(stored))];
            match self.kv.write(&batch, now) {
                Ok(()) => break,
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error.into()),
            }
            // An earlier step may have been written although the store said that it broke.
            let found = self.kv.get(&key, now)?;
            let row = found.clone().map(Row::decode).transpose()?;
            match (found, row) {
                (_, row) if is_result(row.as_ref(), &reservation.row, next.as_ref()) => {
                    break;
                }
                (Some(found), Some(row)) if row.is_open() && row.is_same_try(&reservation.row) => {
                    stored = found;
                }
                _ => {
                    reservation.is_settled = true;
                    return Err(JournalError::Superseded);
                }
            }
        }
        reservation.advance(next);
        Ok(())
    }

    fn read(
        &self,
        request: &CallRequest,
        now: Millis,
    ) -> Result<Option<(Bytes, Row)>, JournalError> {
        let Some(stored) = self.kv.get(&row_key(&request.name), now)? else { return Ok(None) };
        let row = Row::decode(stored.clone())?;
        Ok(Some((stored, row)))
    }

    /// What a row says to somebody who wants to make the same call.
    fn answer(&self, row: &Row) -> Answer {
        let call_id = row.call_id;
        match &row.state {
            State::Reserved | State::Started if self.is_alive(row) => {
                let is_here = row.instance == self.instance;
                Answer::Reserved(Reserved::InFlight { call_id, is_here })
            }
            State::Reserved if row.attempt == 0 => Answer::Free,
            State::Reserved | State::Retryable => Answer::Again,
            State::Started if row.class.is_retryable() => Answer::Again,
            State::Started | State::Ambiguous => Answer::Reserved(Reserved::Ambiguous { call_id }),
            State::Committed(outcome) => {
                Answer::Reserved(Reserved::Committed { call_id, outcome: outcome.clone() })
            }
        }
    }

    /// Whether somebody is at an open row. Of other instances nobody here knows.
    fn is_alive(&self, row: &Row) -> bool {
        row.instance != self.instance || (row.epoch >= self.epoch && !self.lost.contains(row))
    }
}

enum Answer {
    Reserved(Reserved),
    Free,
    Again,
}

/// Whether a row is what a step would have made of it. The time of that step may have been another,
/// and a call that was released may be somebody else's by now.
fn is_result(found: Option<&Row>, before: &Row, next: Option<&Row>) -> bool {
    match (found, next) {
        // A try is committed once, whatever the blob is called that has its outcome.
        (Some(found), Some(next)) => {
            found.is_same_try(next) && discriminant(&found.state) == discriminant(&next.state)
        }
        (Some(found), None) => found.call_id != before.call_id,
        (None, next) => next.is_none(),
    }
}

/// What becomes of an open call that nobody is at any more.
fn settle(row: &Row, now: Millis) -> Settled {
    match row.state {
        State::Reserved if row.attempt == 0 => Settled::Freed,
        State::Started if !row.class.is_retryable() => {
            Settled::Ambiguous(Row { state: State::Ambiguous, since: now, ..row.clone() })
        }
        _ => Settled::Retryable(Row { state: State::Retryable, since: now, ..row.clone() }),
    }
}

const fn refused(request: &CallRequest) -> Reserved {
    match request.name.kind {
        RowKind::Keyed => Reserved::Mismatch,
        RowKind::SingleUse => Reserved::Replayed,
    }
}

fn put(row: &Row, kind: RowKind) -> Change {
    Change::Put { value: row.encode(), until: row.until(kind) }
}

fn epoch_of(stored: &Bytes) -> Result<u64, StoreError> {
    stored.as_ref().try_into().map(u64::from_be_bytes).map_err(|_| unreadable_epoch())
}

fn unreadable_epoch() -> StoreError {
    StoreError::Damaged("the number of an instance's starts cannot be read".to_owned())
}

/// Entries of the index that are read at once.
const RECOVERY_PAGE: usize = 256;
