//! Identical calls that are taken for another try.
//!
//! Where configuration says so, a call without a key gets one of its own: a new one, unless the same
//! caller made the same call within a minute and did not get the answer. Then it is the same call,
//! and the journal does the rest. Who got the answer and calls again wants another one.
//!
//! What was tried is remembered in memory, and written behind with the calls that were made for it
//! ([`handback_store::tries`]): nobody waits for the disk, and what was tried until shortly before a crash
//! is known after it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_identity::VerifiedPrincipal;
use handback_store::journal::{InstanceId, JournalError};
use handback_store::tries::{Tries, Try, TryName};
use handback_store::{Kv, Millis, StoreError};
use handback_token::ArgsFingerprint;
use handback_tool::{CallJournal, Clock, OwnRecord};
use rand::RngExt as _;

/// For how long an identical call is another try.
pub const WINDOW: Duration = Duration::from_secs(60);

const WINDOW_MS: Millis = WINDOW.as_secs() * 1000;

/// Calls of one caller that are remembered at most. Beyond them, a call is a new one. It is far more
/// than a caller has under way, and nobody takes the room of another.
const OF_CALLER_MAX: usize = 1_000;

/// From so many callers on, those who tried nothing lately are forgotten when a new one comes.
const CALLERS_LOOKED_AT: usize = 1_000;

/// Calls whose answers may not have arrived. Clones are the same ones.
#[derive(Clone)]
pub struct Retries(Arc<Shared>);

struct Shared {
    all: Mutex<All>,
    tries: Tries,
    clock: Arc<dyn Clock>,
}

/// By caller, and then by call.
type All = HashMap<[u8; 16], HashMap<TryName, Tried>>;

#[derive(Debug)]
struct Tried {
    tried: Try,
    /// How many wait for its answer.
    waiting: usize,
    shared: Arc<OfAll>,
}

/// What all have in common to whom one call is known: who waits for it, who hands its answer over, and
/// what remembers it. With the last of them the record goes, if it arrived anywhere: nobody can ask for
/// it again.
#[derive(Debug, Default)]
struct OfAll {
    done: Mutex<Option<OwnRecord>>,
}

impl OfAll {
    /// The answer that is recorded here is only for who is at it already.
    fn done_with(&self, record: OwnRecord) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
}

impl Drop for OfAll {
    fn drop(&mut self) {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(record) = done {
            record.forget();
        }
    }
}

impl Tried {
    const fn is_recent(&self, now: Millis) -> bool {
        self.waiting > 0 || now < self.tried.until
    }
}

/// Somebody who waits for the answer of a call.
#[derive(Debug)]
pub(crate) struct Waiting {
    retries: Retries,
    name: TryName,
    number: u128,
    /// Whether others are told of it. Beyond what is remembered of a caller, nobody is.
    is_known: bool,
    /// Whether the time in which it is tried again begins when this one waits no more: it was made here,
    /// or its answer is there. Of a try that was refused it does not, however often that is repeated.
    begins_window: bool,
    shared: Arc<OfAll>,
}

/// An answer that is there, and that nobody may have got yet.
#[derive(Debug)]
pub(crate) struct Undelivered {
    retries: Retries,
    name: TryName,
    number: u128,
    shared: Arc<OfAll>,
    /// Where it is recorded.
    record: Option<OwnRecord>,
}

/// An answer that is being handed over. To whoever calls again it is delivered: that may be who has read
/// it already. If this is dropped before it arrived, it was not.
#[derive(Debug)]
pub(crate) struct Leaving {
    retries: Retries,
    name: TryName,
    /// As it was known, if it still was.
    tried: Option<Try>,
    shared: Arc<OfAll>,
    /// What nobody asks for once it has arrived, but who waits already.
    record: Option<OwnRecord>,
}

/// Hears that the answer to a question was handed over. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Delivery(Arc<Mutex<Option<Undelivered>>>);

impl Delivery {
    /// This answer is on its way.
    pub(crate) fn expect(&self, answer: Undelivered) {
        *self.lock() = Some(answer);
    }

    /// What was to be handed over there is handed over here.
    pub(crate) fn take_over(&self, from: &Self) {
        let answer = from.lock().take();
        if let Some(answer) = answer {
            self.expect(answer);
        }
    }

    /// The answer is about to be handed over.
    pub(crate) fn leaves(&self) -> Option<Leaving> {
        let answer = self.lock().take();
        answer.map(Undelivered::leaves)
    }

    /// The answer was handed over.
    pub fn done(&self) {
        if let Some(answer) = self.leaves() {
            answer.arrived();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Undelivered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retries {
    /// Those of an instance, with what was tried before this start of it. Blocks.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if that cannot be read, or the start cannot be counted.
    pub fn open(
        kv: Arc<dyn Kv>,
        instance: InstanceId,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JournalError> {
        let now = clock.now_ms();
        let tries = Tries::open(kv, instance, now)?;
        let mut all = All::new();
        for (name, tried) in tries.known(now)? {
            let tried = Tried { tried, waiting: 0, shared: Arc::default() };
            all.entry(name.owner()).or_default().insert(name, tried);
        }
        Ok(Self(Arc::new(Shared { all: Mutex::new(all), tries, clock })))
    }

    /// Waits until what was tried so far is on the disk: before the process ends. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn flush(&self) -> Result<(), StoreError> {
        self.0.tries.flush()
    }

    /// Settles calls that nobody is at any more, a bounded piece of them. Blocks.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; what was settled before stays so.
    pub fn sweep(&self, limit: usize) -> Result<(), JournalError> {
        self.0.tries.journal().recover(limit, self.now()).map(drop)
    }

    /// The key of a call without one. It is given up, or made, within `time_limit`.
    pub(crate) fn key(
        &self,
        caller: &VerifiedPrincipal,
        upstream: &str,
        name: &str,
        given: &ArgsFingerprint,
        time_limit: Duration,
    ) -> Waiting {
        let name = TryName::new(caller, upstream, name, given.as_bytes());
        let now = self.now();
        let mut all = self.lock();
        if all.len() >= CALLERS_LOOKED_AT && !all.contains_key(&name.owner()) {
            all.retain(|_, of_caller| of_caller.values().any(|tried| tried.is_recent(now)));
        }
        let of_caller = all.entry(name.owner()).or_default();
        of_caller.retain(|_, tried| tried.is_recent(now));
        let (number, is_known, shared) = match of_caller.get_mut(&name) {
            Some(tried) => {
                tried.waiting += 1;
                (tried.tried.number, true, Arc::clone(&tried.shared))
            }
            None => {
                let (number, shared) = (rand::rng().random(), Arc::<OfAll>::default());
                let is_known = of_caller.len() < OF_CALLER_MAX;
                if is_known {
                    // A process that ends in it does not say when.
                    let longest = Millis::try_from(time_limit.as_millis()).unwrap_or(Millis::MAX);
                    let until = now.saturating_add(longest).saturating_add(WINDOW_MS);
                    let tried = Try { number, until };
                    let entry = Tried { tried, waiting: 1, shared: Arc::clone(&shared) };
                    of_caller.insert(name, entry);
                    self.0.tries.put(name, tried);
                }
                (number, is_known, shared)
            }
        };
        drop(all);
        Waiting { retries: self.clone(), name, number, is_known, begins_window: false, shared }
    }

    fn now(&self) -> Millis {
        self.0.clock.now_ms()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Retries(..)")
    }
}

impl Waiting {
    /// The key.
    pub(crate) fn key(&self) -> String {
        format!("identical:{:032x}", self.number)
    }

    /// Where the call is recorded.
    pub(crate) fn journal(&self) -> &Arc<CallJournal> {
        self.retries.0.tries.journal()
    }

    /// Somebody else who waits for it: the call itself, while it is under way.
    pub(crate) fn beside(&self) -> Self {
        let mut all = self.retries.lock();
        let of_caller = all.get_mut(&self.name.owner());
        let tried = of_caller.and_then(|of_caller| of_caller.get_mut(&self.name));
        if let Some(tried) = tried.filter(|tried| tried.tried.number == self.number) {
            tried.waiting += 1;
        }
        drop(all);
        let (retries, shared) = (self.retries.clone(), Arc::clone(&self.shared));
        let (name, number, is_known) = (self.name, self.number, self.is_known);
        Self { retries, name, number, is_known, begins_window: false, shared }
    }

    /// From now on the call may have its effect.
    pub(crate) const fn makes(&mut self) {
        self.begins_window = true;
    }

    /// The answer is there, and recorded, and this one waits no more.
    pub(crate) fn answered(mut self, mut record: Option<OwnRecord>) -> Undelivered {
        self.begins_window = true;
        // Whether it arrives or not, nobody comes back to what nobody was told of.
        if let Some(record) = record.take_if(|_| !self.is_known) {
            self.shared.done_with(record);
        }
        let (retries, shared) = (self.retries.clone(), Arc::clone(&self.shared));
        Undelivered { retries, name: self.name, number: self.number, shared, record }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let until = self.retries.now().saturating_add(WINDOW_MS);
        let mut all = self.retries.lock();
        let of_caller = all.get_mut(&self.name.owner());
        let tried = of_caller.and_then(|of_caller| of_caller.get_mut(&self.name));
        if let Some(tried) = tried.filter(|tried| tried.tried.number == self.number) {
            tried.waiting = tried.waiting.saturating_sub(1);
            // What was not made is not remembered for as long as it might have taken.
            // As long as it is under way, it is known for as long as it may take.
            let is_over = tried.waiting == 0;
            if self.begins_window || (is_over && until < tried.tried.until) {
                tried.tried.until = until;
                self.retries.0.tries.put(self.name, tried.tried);
            }
        }
    }
}

impl Undelivered {
    /// From now on an identical call is a new one, unless this does not arrive.
    fn leaves(self) -> Leaving {
        let Self { retries, name, number, shared, record } = self;
        let mut all = retries.lock();
        let mut tried = None;
        if let Some(of_caller) = all.get_mut(&name.owner()) {
            if of_caller.get(&name).is_some_and(|tried| tried.tried.number == number) {
                tried = of_caller.remove(&name);
            }
            if of_caller.is_empty() {
                all.remove(&name.owner());
            }
        }
        drop(all);
        Leaving { retries, name, tried: tried.map(|tried| tried.tried), shared, record }
    }
}

impl Leaving {
    /// The answer was handed over.
    pub(crate) fn arrived(mut self) {
        // Who still waits for the same answer takes it from the record, and is the last then.
        if let Some(record) = self.record.take() {
            self.shared.done_with(record);
        }
        if self.tried.take().is_none() {
            return;
        }
        let all = self.retries.lock();
        // Another one may have been begun meanwhile.
        if !all.get(&self.name.owner()).is_some_and(|tried| tried.contains_key(&self.name)) {
            self.retries.0.tries.remove(self.name);
        }
        drop(all);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some(tried) = self.tried.take() else { return };
        let shared = Arc::clone(&self.shared);
        let mut all = self.retries.lock();
        let of_caller = all.entry(self.name.owner()).or_default();
        of_caller.entry(self.name).or_insert(Tried { tried, waiting: 0, shared });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use handback_identity::UnixPeers;
    use handback_store::MemoryStore;
    use handback_token::args_fingerprint;
    use serde_json::json;

    use super::*;

    /// Time that stands still until it is moved.
    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[derive(Default)]
    struct World {
        kv: Arc<MemoryStore>,
        hand: Arc<Hand>,
    }

    impl World {
        fn start(&self) -> Retries {
            let (kv, clock) = (Arc::<MemoryStore>::clone(&self.kv), Arc::<Hand>::clone(&self.hand));
            Retries::open(kv, InstanceId::from_bytes([1; 16]), clock).unwrap()
        }

        fn later(&self, time: Duration) {
            self.hand.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
        }
    }

    fn key(retries: &Retries, caller: u32, arguments: &str) -> Waiting {
        let caller = UnixPeers::new("here").unwrap().principal(caller);
        let given = args_fingerprint(&json!({"a": arguments}));
        retries.key(&caller, "up", "tool", &given, Duration::from_secs(300))
    }

    #[test]
    fn only_what_was_not_delivered_is_tried_again() {
        let retries = World::default().start();
        let first = key(&retries, 1, "x");
        let name = first.key();
        // The client left.
        drop(first);
        let again = key(&retries, 1, "x");
        assert_eq!(again.key(), name);
        assert_ne!(key(&retries, 2, "x").key(), name);
        assert_ne!(key(&retries, 1, "y").key(), name);
        let answer = again.answered(None);
        assert_eq!(key(&retries, 1, "x").key(), name, "it is there, and nobody has it");
        answer.leaves().arrived();
        assert_ne!(key(&retries, 1, "x").key(), name);
    }

    #[test]
    fn what_did_not_arrive_is_tried_again() {
        let world = World::default();
        let retries = world.start();
        let first = key(&retries, 1, "x");
        let name = first.key();
        let leaving = first.answered(None).leaves();
        assert_eq!(retries.lock().len(), 0, "who has read it may call again at once");
        drop(leaving);
        let again = key(&retries, 1, "x");
        assert_eq!(again.key(), name);
        // Another one that was begun meanwhile is the one that counts.
        let leaving = again.answered(None).leaves();
        let other = key(&retries, 1, "x");
        assert_ne!(other.key(), name);
        drop(leaving);
        assert_eq!(key(&retries, 1, "x").key(), other.key());
        // After a crash on the way, it is not known that it arrived.
        let (name, leaving) = (other.key(), other.answered(None).leaves());
        retries.flush().unwrap();
        assert_eq!(key(&world.start(), 1, "x").key(), name);
        drop(leaving);
    }

    #[test]
    fn nobody_takes_the_room_of_another() {
        let retries = World::default().start();
        for number in 0..2 * OF_CALLER_MAX {
            drop(key(&retries, 1, &number.to_string()));
        }
        let name = key(&retries, 2, "x").key();
        assert_eq!(key(&retries, 2, "x").key(), name);
        let beyond = || key(&retries, 1, "beyond").key();
        assert_ne!(beyond(), beyond());
    }

    #[test]
    fn a_call_is_over_when_the_last_who_waits_has_it_or_leaves() {
        let retries = World::default().start();
        let call = |caller| {
            let waiting = key(&retries, caller, "x");
            let shared = Arc::downgrade(&waiting.shared);
            (waiting, move || shared.strong_count() == 0)
        };
        let (first, is_over) = call(1);
        let joined = key(&retries, 1, "x");
        first.answered(None).leaves().arrived();
        assert!(!is_over(), "one still takes it from the record");
        // One that was begun after it has nothing to do with it.
        let other = key(&retries, 1, "x");
        assert_ne!(other.key(), joined.key());
        joined.answered(None).leaves().arrived();
        assert!(is_over());
        let (first, is_over) = call(2);
        let joined = key(&retries, 2, "x");
        first.answered(None).leaves().arrived();
        drop(joined);
        assert!(is_over(), "who left does not come back to it");
        // What is tried again is not over.
        let (first, is_over) = call(3);
        drop(first.answered(None).leaves());
        assert!(!is_over());
        for number in 0..OF_CALLER_MAX {
            drop(key(&retries, 4, &number.to_string()));
        }
        let (beyond, is_over) = call(4);
        assert!(!beyond.is_known);
        drop(beyond.answered(None));
        assert!(is_over(), "nobody was told of it");
    }

    #[test]
    fn after_a_minute_it_is_another_call() {
        let world = World::default();
        let retries = world.start();
        let first = key(&retries, 1, "x");
        let name = first.key();
        drop(first);
        world.later(WINDOW - Duration::from_secs(1));
        let again = key(&retries, 1, "x");
        assert_eq!(again.key(), name);
        // For as long as somebody waits, it is under way.
        world.later(10 * WINDOW);
        assert_eq!(key(&retries, 1, "x").key(), name);
        let answer = again.answered(None);
        world.later(WINDOW + Duration::from_secs(1));
        let another = key(&retries, 1, "x");
        assert_ne!(another.key(), name);
        // What is handed over late says nothing of the other one.
        answer.leaves().arrived();
        assert_eq!(key(&retries, 1, "x").key(), another.key());
    }

    #[test]
    fn a_call_that_goes_on_without_its_client_is_under_way() {
        let world = World::default();
        let retries = world.start();
        let client = key(&retries, 1, "x");
        let (name, mut call) = (client.key(), client.beside());
        call.makes();
        drop(client);
        world.later(5 * WINDOW);
        assert_eq!(key(&retries, 1, "x").key(), name);
        world.later(5 * WINDOW);
        drop(call);
        world.later(WINDOW - Duration::from_secs(1));
        assert_eq!(key(&retries, 1, "x").key(), name, "it has ended, and nobody has the answer");
        world.later(WINDOW + Duration::from_secs(1));
        assert_ne!(key(&retries, 1, "x").key(), name);
    }

    #[test]
    fn who_is_refused_again_and_again_waits_no_longer() {
        let world = World::default();
        let retries = world.start();
        let client = key(&retries, 1, "x");
        let (name, mut call) = (client.key(), client.beside());
        call.makes();
        // Its server went away: what became of it is not known.
        drop((call, client));
        for _ in 0..2 {
            world.later(Duration::from_secs(25));
            let again = key(&retries, 1, "x");
            assert_eq!(again.key(), name);
            // It is refused, with what would have made it.
            drop((again.beside(), again));
        }
        world.later(Duration::from_secs(11));
        assert_ne!(key(&retries, 1, "x").key(), name);
    }

    #[test]
    fn what_was_tried_before_a_restart_is_tried_again_after_it() {
        let world = World::default();
        let retries = world.start();
        let under_way = key(&retries, 1, "x");
        let name = under_way.key();
        let delivered = key(&retries, 1, "y");
        let gone = delivered.key();
        delivered.answered(None).leaves().arrived();
        // Without its end, as in a crash; what waited to be written was.
        retries.flush().unwrap();
        let retries = world.start();
        assert_eq!(key(&retries, 1, "x").key(), name);
        assert_ne!(key(&retries, 1, "y").key(), gone);
        retries.flush().unwrap();
        world.later(WINDOW + Duration::from_secs(1));
        assert_ne!(key(&world.start(), 1, "x").key(), name);
        drop(under_way);
    }
}
