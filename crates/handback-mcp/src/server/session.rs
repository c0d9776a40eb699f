//! What an older client has said in its session, and every request of it goes by.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Resources that one session follows at most.
pub(super) const RESOURCES_MAX: usize = 1_000;

/// Every level is at least this important.
const EVERYTHING: usize = 0;

/// How important a level of the log is.
pub(super) fn rank(level: &str) -> usize {
    const LEVELS: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len())
}

/// A session of an older client. It lives as long as the process: one that comes back after a restart
/// has to say these things again.
#[derive(Debug, Default)]
pub(super) struct Session {
    lowest_rank: AtomicUsize,
    resources: Mutex<BTreeSet<String>>,
    is_told: AtomicBool,
}

impl Session {
    /// From this level on, the client wants messages.
    pub(super) fn set_level(&self, level: &str) {
        self.lowest_rank.store(rank(level), Ordering::Relaxed);
    }

    /// Whether the client wants messages of this level. Who has said nothing gets all.
    pub(super) fn wants(&self, level: &str) -> bool {
        let lowest = self.lowest_rank.load(Ordering::Relaxed);
        lowest == EVERYTHING || rank(level) >= lowest
    }

    /// The client wants to hear of a resource. Says whether there was room.
    pub(super) fn follow(&self, uri: String) -> bool {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        resources.contains(&uri) || (resources.len() < RESOURCES_MAX && resources.insert(uri))
    }

    /// The client does not want to hear of it any more.
    pub(super) fn unfollow(&self, uri: &str) {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    pub(super) fn follows(&self, uri: &str) -> bool {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// Whether this is the first time that the client is to be told of changes.
    pub(super) fn begins(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_a_floor() {
        let session = Session::default();
        assert!(session.wants("debug"));
        session.set_level("warning");
        assert!(!session.wants("notice"));
        assert!(session.wants("warning") && session.wants("emergency"));
        session.set_level("debug");
        assert!(session.wants("debug"));
    }

    #[test]
    fn as_many_resources_as_there_is_room_for() {
        let session = Session::default();
        for number in 0..RESOURCES_MAX {
            assert!(session.follow(format!("r:{number}")));
        }
        assert!(session.follow("r:0".to_owned()), "it is followed already");
        assert!(!session.follow("r:more".to_owned()));
        session.unfollow("r:0");
        assert!(!session.follows("r:0"));
        assert!(session.follow("r:more".to_owned()) && session.follows("r:more"));
    }
}
