//! Keys and values as they are stored.

use bytes::{Buf, Bytes};

use crate::{LOG_ID_BYTES, LogId, Millis, StoreError};

pub(super) const RECORD_KEY_BYTES: usize = LOG_ID_BYTES + 8;

/// Key of a record.
pub(super) fn record_key(log: LogId, number: u64) -> [u8; RECORD_KEY_BYTES] {
    let mut key = [0; RECORD_KEY_BYTES];
    let (head, tail) = key.split_at_mut(LOG_ID_BYTES);
    head.copy_from_slice(log.as_bytes());
    tail.copy_from_slice(&number.to_be_bytes());
    key
}

/// Number of a record, from its key.
pub(super) fn record_number(key: &[u8]) -> Result<u64, StoreError> {
    let key: &[u8; RECORD_KEY_BYTES] = key.try_into().map_err(|_| foreign())?;
    let number = key.last_chunk().ok_or_else(foreign)?;
    Ok(u64::from_be_bytes(*number))
}

/// Log, from a key that is its name.
pub(super) fn log_of(key: &[u8]) -> Result<LogId, StoreError> {
    key.try_into().map(LogId::from_bytes).map_err(|_| foreign())
}

/// First byte of the key of a value.
const VALUE: u8 = 0;
/// First byte of the key that names a key by the end of its life.
const END_OF_LIFE: u8 = 1;
const FOR_EVER: u8 = 0;
const UNTIL: u8 = 1;
const END_OF_LIFE_PREFIX_BYTES: usize = 9;

pub(super) fn value_key(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(VALUE);
    row.extend_from_slice(key);
    row
}

/// Key of a value, from that of its row.
pub(super) fn key_of(row: &[u8]) -> Result<&[u8], StoreError> {
    match row {
        [VALUE, key @ ..] => Ok(key),
        _ => Err(foreign()),
    }
}

pub(super) fn end_of_life_key(until: Millis, key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(END_OF_LIFE_PREFIX_BYTES + key.len());
    row.push(END_OF_LIFE);
    row.extend_from_slice(&until.to_be_bytes());
    row.extend_from_slice(key);
    row
}

/// All keys whose life ends at or before `now`.
pub(super) fn ended(now: Millis) -> (std::ops::Bound<Vec<u8>>, std::ops::Bound<Vec<u8>>) {
    use std::ops::Bound::{Excluded, Included};
    let end =
        now.checked_add(1).map_or_else(|| vec![END_OF_LIFE + 1], |end| end_of_life_key(end, &[]));
    (Included(end_of_life_key(0, &[])), Excluded(end))
}

/// Key whose life ends, from the row that says so.
pub(super) fn ended_key(row: &[u8]) -> Result<&[u8], StoreError> {
    row.get(END_OF_LIFE_PREFIX_BYTES..).ok_or_else(foreign)
}

/// A value with the end of its life.
pub(super) struct Value {
    pub(super) bytes: Bytes,
    pub(super) until: Option<Millis>,
}

impl Value {
    pub(super) fn encode(bytes: &[u8], until: Option<Millis>) -> Vec<u8> {
        let mut row = Vec::with_capacity(END_OF_LIFE_PREFIX_BYTES + bytes.len());
        match until {
            None => row.push(FOR_EVER),
            Some(until) => {
                row.push(UNTIL);
                row.extend_from_slice(&until.to_be_bytes());
            }
        }
        row.extend_from_slice(bytes);
        row
    }

    pub(super) fn decode(row: &[u8]) -> Result<Self, StoreError> {
        let mut bytes = Bytes::copy_from_slice(row);
        let until = match bytes.try_get_u8() {
            Ok(FOR_EVER) => None,
            Ok(UNTIL) => Some(bytes.try_get_u64().map_err(|_| foreign())?),
            _ => return Err(foreign()),
        };
        Ok(Self { bytes, until })
    }

    pub(super) fn is_alive(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// What fjall says when something cannot be read.
pub(super) fn unreadable(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            StoreError::Unavailable(error.to_string())
        }
        fjall::Error::Poisoned => StoreError::Broken("the database gave up".to_owned()),
        other => StoreError::Damaged(other.to_string()),
    }
}

fn foreign() -> StoreError {
    StoreError::Damaged("a row has a strange form".to_owned())
}
