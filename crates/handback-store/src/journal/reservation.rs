//! Who is at a call.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand_core::CryptoRng;

use super::request::RowName;
use super::row::Row;
use crate::coding::hex;

/// The number of a call: random, and the same however often the call is tried. It is the key that a
/// tool of class [`TakesKey`](super::ToolClass::TakesKey) is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub(super) [u8; 16]);

impl CallId {
    pub(super) fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        Self(id)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallId({self})")
    }
}

/// Which replica: random, kept with its configuration or its data, and the same after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(pub(super) [u8; 16]);

impl InstanceId {
    /// A new random one.
    pub fn generate<R: CryptoRng + ?Sized>(rng: &mut R) -> Self {
        Self(CallId::generate(rng).0)
    }

    /// The one with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The right to make a call, and the duty to say how it ended.
///
/// If it is dropped before that, the call is settled as after a crash, by whoever asks for it next.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    pub(super) name: RowName,
    /// The row as it was last written.
    pub(super) row: Row,
    pub(super) is_settled: bool,
    pub(super) lost: Lost,
}

impl Reservation {
    /// The number of the call.
    #[must_use]
    pub const fn call_id(&self) -> CallId {
        self.row.call_id
    }

    /// Whether the call may have been made before, under the same [`CallId`], without anybody
    /// knowing how it ended.
    #[must_use]
    pub const fn is_again(&self) -> bool {
        self.row.attempt > 0
    }

    /// Whether it is recorded that the call was started.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        matches!(self.row.state, super::row::State::Started)
    }
}

impl Reservation {
    /// A step was written.
    pub(super) fn advance(&mut self, next: Option<Row>) {
        match next {
            Some(next) if next.is_open() => self.row = next,
            _ => self.is_settled = true,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_settled {
            self.lost.insert(&self.row);
        }
    }
}

/// Calls of this process that nobody is at any more, although their rows say so.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost(Arc<Mutex<HashSet<(CallId, u32)>>>);

impl Lost {
    pub(super) fn insert(&self, row: &Row) {
        self.lock().insert((row.call_id, row.attempt));
    }

    pub(super) fn remove(&self, row: &Row) {
        self.lock().remove(&(row.call_id, row.attempt));
    }

    pub(super) fn contains(&self, row: &Row) -> bool {
        self.lock().contains(&(row.call_id, row.attempt))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(CallId, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row on its way to the store. While it is, its writer is alive: others may see it before the
/// store has said so. If the store never says what became of it, nobody is at it.
pub(super) struct Limbo<'a> {
    lost: &'a Lost,
    row: &'a Row,
    is_over: bool,
}

impl<'a> Limbo<'a> {
    pub(super) const fn of(lost: &'a Lost, row: &'a Row) -> Self {
        Self { lost, row, is_over: false }
    }

    /// The store has said it.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Limbo<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.lost.insert(self.row);
        }
    }
}
