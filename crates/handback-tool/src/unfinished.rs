//! A budget for input that has begun to arrive and is not complete.
//!
//! A message is limited in size, and a connection in number. Their product is more memory than a server
//! has: 10,000 connections with 4 MiB each. So the bytes of all incomplete messages are counted together,
//! on the account of their caller, as they arrive. The length that a message announces counts nothing.
//!
//! - **Over the budget, the newest input is refused.** Older input is closer to its end. A caller over its
//!   share loses its own newest input. If the total is reached, the caller with the most bytes does.
//! - **Input has a floor of speed.** Each [`PROGRESS_TIME`] has to bring [`PROGRESS_BYTES`] of an
//!   incomplete message. Otherwise a few bytes a minute would hold the rest for as long as a message may
//!   take.
//! - **Short messages are not counted**, up to [`UNCOUNTED_INPUT_BYTES`]. Connections bound their sum, and
//!   most requests never touch the lock.
//!
//! Rejected: a [`Quota`](crate::Quota), which refuses the input that grows next. That is often the one
//! that is nearly complete.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use handback_identity::VerifiedPrincipal;
use tokio::time::{Instant, Sleep};

use crate::Share;
use crate::metrics::Counter;

/// Bytes of incomplete input of all callers: many of the largest messages, and a part of the memory of a
/// small machine.
pub const INPUT_BYTES: u64 = 256 << 20;

/// Bytes of a message up to which it is not counted: one read buffer.
pub const UNCOUNTED_INPUT_BYTES: u64 = 16 << 10;

/// Bytes of an incomplete message that have to arrive within each [`PROGRESS_TIME`]: 1 KiB/s, a quarter of
/// a telephone modem. An honest client is faster on any connection.
pub const PROGRESS_BYTES: u64 = 20 << 10;

/// Period of the floor of speed: TCP on a bad connection repeats lost packets for 15 s.
pub const PROGRESS_TIME: Duration = Duration::from_secs(20);

/// Reason for which incomplete input is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "each surface has an answer to all of them")]
pub enum InputRefusal {
    /// The caller's share is used up by its incomplete input.
    #[error("too many bytes of unfinished input: finish other requests first")]
    CallerShare,
    /// The total is used up by the incomplete input of all callers.
    #[error("the server has too many bytes of unfinished input: try again later")]
    Total,
    /// The input is slower than the floor.
    #[error(
        "the input is too slow: less than {} KiB arrived within {} s",
        PROGRESS_BYTES >> 10,
        PROGRESS_TIME.as_secs()
    )]
    TooSlow,
}

impl InputRefusal {
    /// Label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallerShare => "caller_share",
            Self::Total => "total",
            Self::TooSlow => "too_slow",
        }
    }
}

/// Counts the bytes of incomplete input, for all callers and for each.
///
/// Clones count together.
#[derive(Clone, Debug)]
pub struct InputBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Mutex<Ledger>,
    total: u64,
    per_caller: u64,
    refused: [(InputRefusal, Counter); 3],
}

/// Everything that is counted. Accounts are there as long as they have input.
#[derive(Debug, Default)]
struct Ledger {
    sum: u64,
    /// Number of the input that begins next.
    next: u64,
    accounts: HashMap<String, Account>,
}

#[derive(Debug, Default)]
struct Account {
    sum: u64,
    /// Counted bytes of each input, by its number. The newest is the last.
    inputs: BTreeMap<u64, (u64, Arc<Verdict>)>,
}

/// Set once, by the input that needed the bytes of this one.
#[derive(Debug, Default)]
struct Verdict {
    refusal: OnceLock<InputRefusal>,
    waker: AtomicWaker,
}

impl Default for InputBudget {
    fn default() -> Self {
        Self::new(INPUT_BYTES, Share::default())
    }
}

impl InputBudget {
    /// A budget of `total` bytes, of which an identified caller may use its share.
    #[must_use]
    pub fn new(total: u64, share: Share) -> Self {
        let refused = [InputRefusal::CallerShare, InputRefusal::Total, InputRefusal::TooSlow];
        Self(Arc::new(Shared {
            ledger: Mutex::default(),
            total,
            per_caller: share.of(total),
            refused: refused.map(|refusal| (refusal, Counter::default())),
        }))
    }

    /// Input of a caller of which nothing has arrived yet.
    pub fn input(&self, caller: &VerifiedPrincipal) -> UnfinishedInput {
        UnfinishedInput {
            budget: self.clone(),
            caller: caller.clone(),
            received: 0,
            recent: 0,
            counted: None,
            since: None,
            timer: None,
        }
    }

    /// Bytes that are counted now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().sum
    }

    /// Inputs that were refused so far, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (InputRefusal, u64)> {
        self.0.refused.iter().map(|(refusal, counter)| (*refusal, counter.get()))
    }

    fn count_refusal(&self, refusal: InputRefusal) {
        if let Some((_, counter)) = self.0.refused.iter().find(|(of, _)| *of == refusal) {
            counter.increment();
        }
    }

    /// A panic elsewhere cannot leave counts half changed: each change ends before anything can panic.
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `bytes` for an input, which is made if there is none yet. Refuses others, or this one, if
    /// that is too much.
    fn grow(
        &self,
        caller: &VerifiedPrincipal,
        counted: &mut Option<Counted>,
        bytes: u64,
    ) -> Result<(), InputRefusal> {
        let mut ledger = self.lock();
        let counted = counted.get_or_insert_with(|| {
            ledger.next += 1;
            Counted { account: caller.binding(), number: ledger.next, verdict: Arc::default() }
        });
        if let Some(refusal) = counted.verdict.refusal.get() {
            return Err(*refusal);
        }
        ledger.sum += bytes;
        let account = ledger.accounts.entry(counted.account.clone()).or_default();
        account.sum += bytes;
        let new = || (0, Arc::clone(&counted.verdict));
        account.inputs.entry(counted.number).or_insert_with(new).0 += bytes;
        if !caller.is_unauthenticated() {
            while ledger.sum_of(&counted.account) > self.0.per_caller {
                self.refuse_newest(&mut ledger, &counted.account, InputRefusal::CallerShare);
            }
        }
        while ledger.sum > self.0.total {
            let Some(largest) = ledger.largest() else { break };
            self.refuse_newest(&mut ledger, &largest, InputRefusal::Total);
        }
        counted.verdict.refusal.get().map_or(Ok(()), |refusal| Err(*refusal))
    }

    fn refuse_newest(&self, ledger: &mut Ledger, account: &str, refusal: InputRefusal) {
        let newest = ledger.accounts.get(account).and_then(|of| of.inputs.keys().next_back());
        let Some(number) = newest.copied() else { return };
        if let Some(verdict) = ledger.release(account, number) {
            self.count_refusal(refusal);
            let _ = verdict.refusal.set(refusal);
            verdict.waker.wake();
        }
    }
}

impl Ledger {
    fn sum_of(&self, account: &str) -> u64 {
        self.accounts.get(account).map_or(0, |account| account.sum)
    }

    /// The account with the most bytes.
    fn largest(&self) -> Option<String> {
        let largest = self.accounts.iter().max_by_key(|(_, account)| account.sum);
        largest.map(|(name, _)| name.clone())
    }

    /// Takes an input out, unless that was done before.
    fn release(&mut self, name: &str, number: u64) -> Option<Arc<Verdict>> {
        let account = self.accounts.get_mut(name)?;
        let (bytes, verdict) = account.inputs.remove(&number)?;
        account.sum -= bytes;
        self.sum -= bytes;
        if account.inputs.is_empty() {
            self.accounts.remove(name);
        }
        Some(verdict)
    }
}

/// Input that arrives: one message after another on a connection, or the body of a request. Its bytes
/// count until the message is complete or this is dropped.
#[derive(Debug)]
#[must_use = "input that is dropped counts nothing"]
pub struct UnfinishedInput {
    budget: InputBudget,
    caller: VerifiedPrincipal,
    /// Bytes of the message.
    received: u64,
    /// Of these, bytes since the last time that [`PROGRESS_BYTES`] were complete.
    recent: u64,
    counted: Option<Counted>,
    /// Start of the current period of the floor.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Place of an input in the ledger.
#[derive(Debug)]
struct Counted {
    account: String,
    number: u64,
    verdict: Arc<Verdict>,
}

impl UnfinishedInput {
    /// Counts bytes of the message that have just arrived.
    ///
    /// # Errors
    ///
    /// The input is refused, now or since an earlier call. Its bytes do not count any more.
    pub fn received(&mut self, bytes: usize) -> Result<(), InputRefusal> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.received = self.received.saturating_add(bytes);
        self.recent = self.recent.saturating_add(bytes);
        if self.recent >= PROGRESS_BYTES {
            self.recent = 0;
            self.since = None;
        }
        if self.received <= UNCOUNTED_INPUT_BYTES {
            return Ok(());
        }
        let more = if self.counted.is_some() { bytes } else { self.received };
        self.budget.grow(&self.caller, &mut self.counted, more)
    }

    /// Begins the next message, after the last one was handed on. `rest` bytes of the next one are there
    /// already.
    ///
    /// # Errors
    ///
    /// The next message is refused.
    pub fn complete(&mut self, rest: usize) -> Result<(), InputRefusal> {
        self.release();
        (self.received, self.recent) = (0, 0);
        self.since = None;
        self.received(rest)
    }

    /// Takes back bytes of something between the parts of a message that has come whole, such as a ping.
    pub fn forget(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.received = self.received.saturating_sub(bytes);
        self.recent = self.recent.saturating_sub(bytes);
        if self.received == 0 {
            self.release();
            self.since = None;
        }
    }

    /// Starts the period of the floor anew: for the time in which nobody read.
    pub const fn restart_period(&mut self) {
        self.since = None;
        self.recent = 0;
    }

    /// True if a part of a message has arrived.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.received > 0
    }

    /// Waits until the input is refused: because others need the bytes, or because it is too slow. To be
    /// polled while a message is incomplete and nothing of it arrives.
    pub fn poll_refused(&mut self, context: &mut Context<'_>) -> Poll<InputRefusal> {
        if let Some(counted) = &self.counted {
            counted.verdict.waker.register(context.waker());
            if let Some(refusal) = counted.verdict.refusal.get() {
                return Poll::Ready(*refusal);
            }
        }
        let deadline = *self.since.get_or_insert_with(Instant::now) + PROGRESS_TIME;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // Set for an earlier period, it is set again when it ends: less work than at each progress.
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= deadline {
                self.release();
                self.budget.count_refusal(InputRefusal::TooSlow);
                return Poll::Ready(InputRefusal::TooSlow);
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// [`UnfinishedInput::poll_refused`] as a future.
    pub fn refused(&mut self) -> impl Future<Output = InputRefusal> {
        std::future::poll_fn(|context| self.poll_refused(context))
    }

    fn release(&mut self) {
        if let Some(counted) = self.counted.take() {
            self.budget.lock().release(&counted.account, counted.number);
        }
    }
}

impl Drop for UnfinishedInput {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use handback_identity::UnixPeers;

    use super::*;

    const MIB: usize = 1 << 20;

    fn caller(uid: u32) -> VerifiedPrincipal {
        UnixPeers::new("test").unwrap().principal(uid)
    }

    /// 8 MiB, and 4 MiB for each caller.
    fn budget() -> InputBudget {
        InputBudget::new(8 << 20, Share::one_in(2))
    }

    #[tokio::test]
    async fn wound_a11_the_newest_input_of_a_caller_over_its_share_is_refused() {
        let budget = budget();
        let (mut old, mut new) = (budget.input(&caller(1)), budget.input(&caller(1)));
        let mut other = budget.input(&caller(2));
        old.received(MIB).unwrap();
        new.received(3 * MIB).unwrap();
        other.received(3 * MIB).unwrap();
        assert_eq!(budget.bytes(), 7 << 20);
        // The older one goes on to its end, though it is the one that needs more.
        old.received(2 * MIB).unwrap();
        assert_eq!(new.refused().await, InputRefusal::CallerShare);
        assert_eq!(new.received(1), Err(InputRefusal::CallerShare));
        assert_eq!(budget.bytes(), 6 << 20);
        old.complete(0).unwrap();
        drop((new, other));
        assert_eq!(budget.bytes(), 0);
        assert!(budget.lock().accounts.is_empty());
        let refused: Vec<_> = budget.refused().map(|(_, count)| count).collect();
        assert_eq!(refused, [1, 0, 0]);
    }

    #[tokio::test]
    async fn wound_a11_over_the_total_the_caller_with_the_most_bytes_is_refused() {
        let budget = InputBudget::new(8 << 20, Share::WHOLE);
        let (mut large, mut small) = (budget.input(&caller(1)), budget.input(&caller(2)));
        large.received(7 * MIB).unwrap();
        small.received(MIB).unwrap();
        small.received(1).unwrap();
        assert_eq!(large.refused().await, InputRefusal::Total);
        // Without identities there is one caller, who may use all.
        let budget = self::budget();
        let mut anyone = budget.input(&VerifiedPrincipal::unauthenticated());
        anyone.received(8 * MIB).unwrap();
        assert_eq!(anyone.received(1), Err(InputRefusal::Total));
    }

    #[tokio::test]
    async fn short_messages_are_not_counted() {
        let budget = InputBudget::new(1, Share::WHOLE);
        let mut input = budget.input(&caller(1));
        input.received(16 << 10).unwrap();
        assert_eq!(budget.bytes(), 0);
        assert_eq!(input.received(1), Err(InputRefusal::CallerShare));
    }

    #[tokio::test(start_paused = true)]
    async fn wound_a11_input_below_the_floor_of_speed_is_refused() {
        let budget = budget();
        let mut input = budget.input(&caller(1));
        // A mebibyte at once buys no time.
        input.received(MIB).unwrap();
        let start = Instant::now();
        assert_eq!(input.refused().await, InputRefusal::TooSlow);
        assert_eq!((start.elapsed(), budget.bytes()), (PROGRESS_TIME, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn input_at_the_floor_of_speed_goes_on() {
        let budget = budget();
        let mut input = budget.input(&caller(1));
        let step = Duration::from_secs(1);
        let mut late = std::pin::pin!(tokio::time::sleep(PROGRESS_TIME * 10));
        loop {
            tokio::select! {
                refusal = input.refused() => panic!("refused: {refusal}"),
                () = tokio::time::sleep(step) => input.received(2 << 10).unwrap(),
                () = late.as_mut() => break,
            }
        }
        assert!(budget.bytes() >= 300 << 10);
    }
}
