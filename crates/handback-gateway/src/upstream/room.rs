//! Room for what waits to be heard, in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Heard;

/// Bytes that wait to be heard beside one question at most, and of what belongs to none on one line. That
/// is twice what a message may have in memory by default: a queue has places for far more messages.
const ROOM_BYTES: u32 = 16 << 20;

/// What the smallest message takes: it has an id, a method and a place in a queue beside its parameters.
const LEAST_BYTES: u32 = 1 << 10;

/// Places of a queue of what waits to be heard: the room is full before it is, so that bytes are the bound.
/// What has no parameters takes a place, and nothing else.
pub(crate) const HEARD_MAX: usize = (ROOM_BYTES / LEAST_BYTES) as usize;

/// How long a client may take nothing of what comes before its answer. After that, the rest of it is not
/// for it: the answer is.
pub(crate) const DEAF_AFTER: Duration = Duration::from_secs(5);

/// Room for what waits to be heard. What is in it takes its room until nobody has it any more: all the
/// way to the client. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    /// It was waited for room, and there was none for too long.
    is_deaf: Arc<AtomicBool>,
}

impl Default for Room {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(ROOM_BYTES as usize)), is_deaf: Arc::default() }
    }
}

impl Room {
    /// Puts something into it; gives it back, if there is not so much room.
    pub(super) fn put(&self, heard: Heard) -> Result<Heard, Heard> {
        let Some(bytes) = taken_by(&heard) else { return Ok(heard) };
        match Arc::clone(&self.free).try_acquire_many_owned(bytes) {
            Ok(place) => Ok(placed(heard, place)),
            Err(_) => Err(heard),
        }
    }

    /// Puts something into it, once there is so much room; gives it back, if there is not for too long.
    /// After that nothing is waited for, until all that is in it was taken: the answer is behind it.
    pub(super) async fn wait(&self, heard: Heard) -> Result<Heard, Heard> {
        let Some(bytes) = taken_by(&heard) else { return Ok(heard) };
        // That something small still fits does not mean that anything was taken.
        let has_some = self.free.available_permits() < ROOM_BYTES as usize;
        if has_some && self.is_deaf.load(Ordering::Relaxed) {
            return Err(heard);
        }
        let place = timeout(DEAF_AFTER, Arc::clone(&self.free).acquire_many_owned(bytes)).await;
        self.is_deaf.store(place.is_err(), Ordering::Relaxed);
        match place {
            Ok(Ok(place)) => Ok(placed(heard, place)),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(heard),
        }
    }
}

/// What something takes: one that is larger than all there is takes all of it.
fn taken_by(heard: &Heard) -> Option<u32> {
    let (Heard::Notification { params, .. } | Heard::Request { params, .. }) = heard;
    let bytes = u32::try_from(params.as_ref()?.len()).unwrap_or(ROOM_BYTES);
    Some(bytes.clamp(LEAST_BYTES, ROOM_BYTES))
}

fn placed(heard: Heard, place: OwnedSemaphorePermit) -> Heard {
    let placed = |params: Option<Bytes>| {
        // Copied, so that it does not keep all that was read together with it.
        let bytes = params.map(|params| Placed { bytes: Box::from(&*params), _place: place });
        bytes.map(Bytes::from_owner)
    };
    match heard {
        Heard::Notification { method, params } => {
            Heard::Notification { method, params: placed(params) }
        }
        Heard::Request { id, method, params } => {
            Heard::Request { id, method, params: placed(params) }
        }
    }
}

/// Bytes, and the room that they take.
struct Placed {
    bytes: Box<[u8]>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn heard(bytes: u32) -> Heard {
        let params = Bytes::from(vec![b'x'; bytes as usize]);
        Heard::Notification { method: "m".to_owned(), params: Some(params) }
    }

    fn params(heard: &Heard) -> &Bytes {
        let Heard::Notification { params: Some(params), .. } = heard else { panic!("{heard:?}") };
        params
    }

    #[tokio::test]
    async fn what_nobody_took_takes_room() {
        let room = Room::default();
        let first = room.put(heard(ROOM_BYTES - 2 * LEAST_BYTES)).unwrap();
        // However it goes on, and however many have it.
        let taken = params(&first).clone().slice(5..6);
        drop(first);
        let second = room.clone().put(heard(2 * LEAST_BYTES)).unwrap();
        assert_eq!(params(&room.put(heard(1)).unwrap_err()).len(), 1);
        let nothing = Heard::Notification { method: "m".to_owned(), params: None };
        room.put(nothing).unwrap();
        drop(second);
        room.put(heard(2 * LEAST_BYTES + 1)).unwrap_err();
        drop(taken);
        room.put(heard(2 * LEAST_BYTES + 1)).unwrap();
    }

    #[tokio::test]
    async fn bytes_are_the_bound_and_not_places() {
        let room = Room::default();
        let (sender, _waiting) = tokio::sync::mpsc::channel(HEARD_MAX);
        for _ in 0..HEARD_MAX {
            sender.try_send(room.put(heard(1)).unwrap()).unwrap();
        }
        room.put(heard(1)).unwrap_err();
    }

    #[tokio::test]
    async fn what_is_larger_than_the_room_has_it_alone() {
        let room = Room::default();
        let large = room.wait(heard(ROOM_BYTES + 1)).await.unwrap();
        assert_eq!(params(&large).len(), ROOM_BYTES as usize + 1);
        assert!(futures_util::poll!(std::pin::pin!(room.wait(heard(1)))).is_pending());
        drop(large);
        room.wait(heard(1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_waited_for_once() {
        let room = Room::default();
        let first = room.wait(heard(ROOM_BYTES - LEAST_BYTES)).await.unwrap();
        let began = Instant::now();
        let more = LEAST_BYTES + 1;
        assert_eq!(params(&room.wait(heard(more)).await.unwrap_err()).len(), more as usize);
        for bytes in [more, 1] {
            room.clone().wait(heard(bytes)).await.unwrap_err();
        }
        assert_eq!(began.elapsed().as_secs(), DEAF_AFTER.as_secs());
        // Whoever has taken everything hears again, and is waited for again.
        drop(first);
        let _second = room.wait(heard(ROOM_BYTES)).await.unwrap();
        room.wait(heard(1)).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 2 * DEAF_AFTER.as_secs());
    }
}
