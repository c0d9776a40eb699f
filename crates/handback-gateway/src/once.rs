//! Results of tasks of upstreams that are over a budget, so that each is held once, however often it is
//! read.
//!
//! A task that is done is asked for as often as its client likes, and each time the upstream gives the
//! whole result. What was made of it the first time is remembered here, and given again for as long as
//! what it names is held. Reading it again prolongs that, as every use does.
//!
//! Remembered in this process only: after a restart, it is held once more. Rejected: handles that follow
//! from the id of the task. They would outlive a restart, but a handle is random everywhere else, its name
//! could not be used again for a day after its value ended, and each read would still be cut.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handback_page::json::ByteSource as _;
use handback_store::held::LookUp;
use sha2::{Digest as _, Sha256};

use crate::bound::Keep as _;
use crate::gateway::Gateway;
use crate::hold::{Holding, NotHeld};
use crate::replay;
use crate::talk::Talk;
use crate::upstream::Raw;

/// Results that are remembered at most, of all callers. Who is crowded out is held once more.
const CUTS_MAX: usize = 1_024;

/// Their bytes at most: four hundred of the default budget.
const CUTS_BYTES_MAX: usize = 16 << 20;

/// Bytes of a result that are hashed at a time.
const PIECE_BYTES: u64 = 64 << 10;

/// Results that were cut, the one that was not used for longest first.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Mutex<VecDeque<(Key, Bytes)>>);

/// Whose task it is, which one, what it came to, and for how much room that was cut: hashed.
///
/// What it came to is in it because ids of tasks are an upstream's own. Two processes of one upstream, for
/// two sessions of one caller, may have the same for two tasks.
type Key = [u8; 32];

impl Cuts {
    fn get(&self, key: &Key) -> Option<Bytes> {
        let mut all = self.lock();
        let at = all.iter().position(|(known, _)| known == key)?;
        let found = all.remove(at)?;
        let result = found.1.clone();
        all.push_back(found);
        Some(result)
    }

    fn put(&self, key: Key, result: Bytes) {
        let mut all = self.lock();
        all.retain(|(known, _)| *known != key);
        all.push_back((key, result));
        let mut bytes: usize = all.iter().map(|(_, result)| result.len()).sum();
        while all.len() > CUTS_MAX || bytes > CUTS_BYTES_MAX {
            let Some((_, oldest)) = all.pop_front() else { break };
            bytes -= oldest.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// Holds the result of a task, unless that was done before and is still held; gives the one that takes
    /// its place.
    pub(crate) async fn held_once(
        &self,
        talk: &Talk,
        holding: &Holding,
        task: &str,
        raw: Raw,
    ) -> Result<Bytes, NotHeld> {
        let Some(key) = key_of(holding.clone(), task.to_owned(), raw.clone()).await else {
            return Ok(self.held_instead(talk, holding, raw).await?.json);
        };
        if let Some(known) = self.known_cut(holding, &key).await {
            return Ok(known);
        }
        let within = self.held_instead(talk, holding, raw).await?;
        let result = within.json;
        if within.is_as_given {
            return Ok(result);
        }
        // Somebody may have read it at the same time.
        if let Some(known) = self.known_cut(holding, &key).await {
            let mut keep = holding.clone();
            let handles = replay::handles(&result).unwrap_or_default();
            let forget = move || handles.into_iter().for_each(|handle| keep.forget(handle));
            // What is not given up now is held until it ends.
            let _ = tokio::task::spawn_blocking(forget).await;
            return Ok(known);
        }
        self.cuts().put(key, result.clone());
        Ok(result)
    }

    /// What was made of a result before, if all that it names is still held.
    async fn known_cut(&self, holding: &Holding, key: &Key) -> Option<Bytes> {
        let known = self.cuts().get(key)?;
        let handles = replay::handles(&known)?;
        let holding = holding.clone();
        let are_held = move || {
            let now_ms = holding.clock.now_ms();
            handles.into_iter().all(|handle| {
                let found = holding.held.look_up(handle, &holding.owner, now_ms);
                matches!(found, Ok(LookUp::Found(_)))
            })
        };
        let are_held = tokio::task::spawn_blocking(are_held).await.unwrap_or(false);
        are_held.then_some(known)
    }
}

/// Nothing, if the result cannot be read any more.
async fn key_of(holding: Holding, task: String, raw: Raw) -> Option<Key> {
    let hashed = move || {
        let mut hash = Sha256::new();
        let owner = holding.owner.binding();
        for field in [&owner, &holding.upstream, &holding.tool, &task] {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field);
        }
        hash.update((holding.budget.as_bytes() as u64).to_be_bytes());
        hash.update((holding.media.as_bytes() as u64).to_be_bytes());
        let size = raw.size_bytes();
        let mut at = 0;
        while at < size {
            let next = size.min(at + PIECE_BYTES);
            hash.update(raw.read(at..next).ok()?);
            at = next;
        }
        Some(hash.finalize().into())
    };
    tokio::task::spawn_blocking(hashed).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let cuts = Cuts::default();
        let large = Bytes::from(vec![b'x'; CUTS_BYTES_MAX / 2]);
        cuts.put([1; 32], large.clone());
        cuts.put([2; 32], large.clone());
        assert!(cuts.get(&[1; 32]).is_some());
        cuts.put([3; 32], Bytes::from_static(b"y"));
        assert!([1, 3].into_iter().all(|number| cuts.get(&[number; 32]).is_some()));
        assert!(cuts.get(&[2; 32]).is_none());
        cuts.put([1; 32], Bytes::from_static(b"z"));
        assert_eq!(cuts.get(&[1; 32]).unwrap(), "z");
        // More than is remembered at all.
        cuts.put([4; 32], vec![b'x'; CUTS_BYTES_MAX + 1].into());
        assert!(cuts.lock().is_empty());
    }

    #[test]
    fn not_more_than_so_many_are_remembered() {
        let cuts = Cuts::default();
        for number in 0..2 * CUTS_MAX as u64 {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            cuts.put(key, Bytes::from_static(b"x"));
        }
        assert_eq!(cuts.lock().len(), CUTS_MAX);
    }
}
