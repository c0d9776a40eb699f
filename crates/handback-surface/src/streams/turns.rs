//! Whose turn it is to write.
//!
//! There is no thread that writes: it would be a hop on the way of every append. Whoever brings a
//! command while nobody is on the way to the queue has a turn: takes what waits, commits it on the
//! worker itself, and answers. A task goes on with what has come meanwhile, and with the signature,
//! until nothing waits. If commands come in crowds, that task has all turns, and lets go before each,
//! so that all that is ready on its worker comes along.
//!
//! A commit blocks its worker for as long as a sync takes. No more than one is blocked, because only
//! one has the writer, and nobody but the keeper and [`Turns::stop`] waits for that. If a sync takes
//! long, the keeper sees to it that another worker looks after the sockets.
//!
//! The keeper is a thread for what nobody asks for: it sweeps, looks after the store, and brings it
//! back after a failure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use handback_store::Log;
use tokio::runtime::Handle;

use super::channels::Shown;
use super::driver::{Clock, Mode};
use super::queue::{Duty, Queue};
use super::writer::Writer;

/// How often the keeper looks for what has outlived its time.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// How often the keeper looks whether a commit takes long, while there are any.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often a store that failed is tried again.
const RECOVER_EVERY: Duration = Duration::from_millis(500);

/// What those share who write.
pub(super) struct Turns {
    pub(super) queue: Queue,
    log: Arc<dyn Log>,
    shown: Arc<Shown>,
    writer: Mutex<Writer>,
    clock: Clock,
    /// Whether there was more than one command in the last turn.
    is_crowded: AtomicBool,
    /// Counts where a turn begins and where it ends: odd within one.
    steps: AtomicU64,
    /// Where turns are taken.
    runtime: OnceLock<Handle>,
}

impl Turns {
    pub(super) fn new(log: Arc<dyn Log>, shown: Arc<Shown>, writer: Writer, clock: Clock) -> Self {
        Self {
            queue: Queue::default(),
            log,
            shown,
            writer: Mutex::new(writer),
            clock,
            is_crowded: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            runtime: OnceLock::new(),
        }
    }

    /// Sees to it that what waits is taken.
    pub(super) fn attend(self: &Arc<Self>) {
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        if !is_crowded {
            self.turn();
        }
        let attendance = Attendance(Arc::clone(self));
        // Without a runtime, all is done here and now.
        if let Ok(runtime) = Handle::try_current() {
            self.runtime.get_or_init(|| runtime.clone());
            runtime.spawn(attendance.run(is_crowded));
        }
    }

    /// Takes what waits, commits and answers it. False if nothing waits.
    fn turn(&self) -> bool {
        let mut writer = self.writer();
        writer.sign();
        let Some(commands) = self.queue.take() else { return false };
        self.is_crowded.store(commands.len() > 1, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        if let Err(reason) = writer.round(commands, (self.clock)()) {
            self.queue.refuse(&reason);
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(|poisoned| self.after_panic(poisoned))
    }

    /// Somebody panicked while writing. What the hub holds is then half of something: it is made
    /// again from the log.
    fn after_panic<'a>(
        &self,
        poisoned: PoisonError<MutexGuard<'a, Writer>>,
    ) -> MutexGuard<'a, Writer> {
        const REASON: &str = "the writer panicked";
        self.writer.clear_poison();
        self.steps.fetch_add(self.steps.load(Ordering::Relaxed) & 1, Ordering::Relaxed);
        let mut writer = poisoned.into_inner();
        writer.fail(REASON);
        self.queue.refuse(REASON);
        writer
    }

    /// Takes no more commands, and does those that wait.
    pub(super) fn stop(&self) {
        self.queue.stop();
        while self.turn() {}
    }

    /// What the keeper does until it is to stop.
    pub(super) fn keep(&self) {
        let mut swept = Instant::now();
        let mut seen = 0;
        let mut wait = SWEEP_EVERY;
        loop {
            match self.queue.wait(wait) {
                Duty::Stop => return,
                Duty::Recover => self.recover(),
                Duty::Routine => {
                    let step = self.steps.load(Ordering::Relaxed);
                    if step % 2 == 1 && step == seen {
                        self.relieve();
                    }
                    let is_calm = step == seen && step % 2 == 0;
                    wait = if is_calm { SWEEP_EVERY } else { LOOK_EVERY };
                    seen = step;
                    if swept.elapsed() >= SWEEP_EVERY && self.sweep() {
                        swept = Instant::now();
                    }
                }
            }
        }
    }

    /// Wakes another worker. The one that commits may be the one that looked after the sockets, and
    /// the others sleep until there is something to do.
    fn relieve(&self) {
        if let Some(runtime) = self.runtime.get() {
            drop(runtime.spawn(async {}));
        }
    }

    /// Ends what has outlived its time, and looks after the store. False if somebody else writes.
    fn sweep(&self) -> bool {
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => {
                drop(self.after_panic(poisoned));
                return false;
            }
            Err(TryLockError::WouldBlock) => return false,
        };
        // Others write to the store as well, and may have broken it.
        if let Err(error) = self.log.recover() {
            self.shown.mode.send_replace(Mode::ReadOnly(error.to_string()));
        }
        if let Err(reason) = writer.sweep((self.clock)()) {
            self.queue.refuse(&reason);
        }
        writer.sign();
        true
    }

    /// Tries once to bring the store back, and waits if that fails.
    fn recover(&self) {
        let reopened = self.writer().reopen();
        match reopened {
            Ok(()) => self.queue.accept(),
            Err(error) => {
                let reason = error.to_string();
                tracing::debug!(%reason, "the store still does not take writes");
                let mode = Mode::ReadOnly(reason.clone());
                self.shown.mode.send_if_modified(|shown| {
                    let differs = *shown != mode;
                    *shown = mode;
                    differs
                });
                self.queue.refuse(&reason);
                self.queue.pause(RECOVER_EVERY);
            }
        }
    }
}

/// Somebody on the way to the queue. Who is dropped on the way, because the runtime ends, does there
/// what was to be done.
struct Attendance(Arc<Turns>);

impl Attendance {
    async fn run(self, lets_go: bool) {
        if lets_go {
            tokio::task::yield_now().await;
        }
        while self.0.turn() {
            // Those that are ready come along; and those that were answered are served before the
            // signature is made.
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        while self.0.turn() {}
    }
}
