//! Upstreams that did not answer lately, where several are asked at once: nobody waits for them again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::gateway::{Gateway, TOGETHER_TIME};
use crate::lists::List;
use crate::talk::Talk;

/// How long after a question that was not answered in time nobody waits for one of its kind.
const PAUSE: Duration = Duration::from_secs(30);

/// Those that are remembered at most. For who is not, one is waited for.
const LATE_MAX: usize = 1_024;

/// How an older client is greeted.
const GREETING: &str = "initialize";

/// Who did not answer what.
#[derive(Debug, Default)]
pub(crate) struct Late(Mutex<HashMap<Key, Mark>>, Mutex<HashSet<usize>>);

/// The upstream, the kind of question, and whose line it is if it is one caller's.
type Key = (usize, String, Option<String>);

#[derive(Clone, Copy, Debug)]
struct Mark {
    since: Instant,
    /// Somebody asks, beside the questions of clients.
    is_asked: bool,
}

impl Late {
    fn marks(&self) -> MutexGuard<'_, HashMap<Key, Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it did not answer lately; and whether it is to be asked beside, by who hears this.
    fn was(&self, key: &Key) -> (bool, bool) {
        let mut marks = self.marks();
        let Some(mark) = marks.get_mut(key) else { return (false, false) };
        if mark.since.elapsed() >= PAUSE && !mark.is_asked {
            return (false, false);
        }
        (true, !std::mem::replace(&mut mark.is_asked, true))
    }

    fn answered(&self, key: &Key) {
        self.marks().remove(key);
    }

    /// An upstream is there again, whatever it did not answer.
    pub(crate) fn forget(&self, which: usize) {
        self.marks().retain(|(of, ..), _| *of != which);
        self.unstarted().remove(&which);
    }

    /// Upstreams whose start was waited for in vain: calls of unknown names do not wait for them again.
    pub(crate) fn unstarted(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the questions that an upstream did not answer before its line came about. Returns whether
    /// there was one.
    fn forget_before(&self, which: usize, opened: Instant) -> bool {
        let mut marks = self.marks();
        let before = marks.len();
        marks.retain(|(of, ..), mark| *of != which || mark.since > opened);
        let is_fewer = marks.len() < before;
        drop(marks);
        if is_fewer {
            self.unstarted().remove(&which);
        }
        is_fewer
    }

    fn did_not_answer(&self, key: Key) {
        let mut marks = self.marks();
        if marks.len() >= LATE_MAX {
            marks.retain(|_, mark| mark.is_asked || mark.since.elapsed() < PAUSE);
        }
        if marks.len() < LATE_MAX || marks.contains_key(&key) {
            marks.insert(key, Mark { since: Instant::now(), is_asked: false });
        }
    }
}

impl Gateway {
    /// What comes of a question to one of several upstreams, if it comes soon. Where it did not lately, it
    /// is not waited for, and the upstream is asked beside whether it answers again.
    pub(crate) async fn soon<T>(
        &self,
        talk: &Talk,
        which: usize,
        kind: &str,
        asked: impl Future<Output = T>,
    ) -> Option<T> {
        let key = self.late_key(talk, which, kind);
        let late = self.late(talk, which);
        let (mut was_late, mut is_to_ask) = late.was(&key);
        if was_late && started_since(self, talk, which).await {
            (was_late, is_to_ask) = (false, false);
        }
        if is_to_ask {
            self.ask_beside(talk, &key);
        }
        if was_late {
            return None;
        }
        let answered = tokio::time::timeout(TOGETHER_TIME, asked).await.ok();
        match answered {
            Some(_) => late.answered(&key),
            None => late.did_not_answer(key),
        }
        answered
    }

    /// Asks an upstream for something that it has, and notes whether it answers.
    fn ask_beside(&self, talk: &Talk, key: &Key) {
        let (gateway, talk, key) = (self.clone(), talk.without_client(), key.clone());
        tokio::spawn(async move {
            let list = List::of_method(&key.1).unwrap_or(List::Tools);
            let listed = gateway.items(&talk, key.0, list);
            let answered = tokio::time::timeout(TOGETHER_TIME, listed).await;
            let late = gateway.late(&talk, key.0);
            match answered {
                Ok(_) => {
                    late.answered(&key);
                    gateway.forget(&talk);
                }
                Err(_) => late.did_not_answer(key),
            }
        });
    }

    fn late_key(&self, talk: &Talk, which: usize, kind: &str) -> Key {
        let is_for_all = self.lists_for_all(talk, which);
        let of_caller = (!is_for_all).then(|| talk.caller.principal().binding());
        (which, kind.to_owned(), of_caller)
    }

    /// A program that is a session's own says nothing of those of others.
    fn late<'a>(&'a self, talk: &'a Talk, which: usize) -> &'a Late {
        let is_own = self.is_program(which) && self.shared(which).is_none();
        match talk.session.as_ref().filter(|_| is_own) {
            Some(session) => &session.catalogs.late,
            None => &self.common_catalogs().late,
        }
    }

    /// Whether an upstream that all sessions have in common did not greet lately.
    pub(crate) fn was_late_to_greet(&self, which: usize) -> bool {
        let key = (which, GREETING.to_owned(), None);
        let marks = self.common_catalogs().late.marks();
        marks.get(&key).is_some_and(|mark| mark.since.elapsed() < PAUSE)
    }

    /// An upstream greets, or did not in time.
    pub(crate) fn greets(&self, which: usize, is_in_time: bool) {
        let key = (which, GREETING.to_owned(), None);
        let late = &self.common_catalogs().late;
        // A program is started for each session, and the only server is waited for.
        if is_in_time {
            late.answered(&key);
        } else if !self.is_program(which) && which < self.own() && self.own() > 1 {
            late.did_not_answer(key);
        }
    }
}

/// Forgets the questions that a starting upstream did not answer, if its line came about after them.
/// Returns whether there was one. A line that is not there is not waited for.
pub(crate) async fn started_since(gateway: &Gateway, talk: &Talk, which: usize) -> bool {
    let mut line = std::pin::pin!(gateway.line(talk, which));
    let Poll::Ready(Ok(line)) = futures_util::poll!(&mut line) else { return false };
    let session = talk.session.as_ref().map(|session| &session.catalogs.late);
    let all = [Some(&gateway.common_catalogs().late), session];
    let forgot = all.map(|late| late.is_some_and(|it| it.forget_before(which, line.opened())));
    forgot.contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_did_not_answer_is_asked_beside_and_not_waited_for() {
        let key = |which| (which, "tools/list".to_owned(), None);
        let late = Late::default();
        assert_eq!(late.was(&key(0)), (false, false));
        late.did_not_answer(key(0));
        assert_eq!(late.was(&key(0)), (true, true), "the first one asks beside");
        assert_eq!(late.was(&key(0)), (true, false), "and no other");
        assert_eq!(late.was(&key(1)), (false, false));
        // While somebody asks, nobody waits, however long that takes.
        tokio::time::advance(2 * PAUSE).await;
        assert_eq!(late.was(&key(0)), (true, false));
        late.did_not_answer(key(0));
        assert_eq!(late.was(&key(0)), (true, true));
        late.answered(&key(0));
        assert_eq!(late.was(&key(0)), (false, false));
        // Where nobody wanted anything for a while, it is waited for again.
        late.did_not_answer(key(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!(late.was(&key(0)), (false, false));
        late.did_not_answer(key(1));
        late.forget(1);
        assert_eq!(late.was(&key(1)), (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let late = Late::default();
        let key = |which| (which, String::new(), None);
        (0..LATE_MAX).for_each(|which| late.did_not_answer(key(which)));
        late.did_not_answer(key(LATE_MAX));
        assert_eq!(late.was(&key(LATE_MAX)), (false, false));
        tokio::time::advance(PAUSE).await;
        late.did_not_answer(key(LATE_MAX));
        assert_eq!(late.was(&key(LATE_MAX)), (true, true));
        assert_eq!(late.marks().len(), 1);
    }
}
