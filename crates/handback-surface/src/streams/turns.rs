//! Whose turn it is to write.
//!
//! A thread that writes is a hop on the way of every append. So whoever brings a command while nobody
//! is on the way to the queue has a turn: takes what waits, commits it on the worker itself, and
//! answers. A task goes on with what has come meanwhile, and with the signature, until nothing waits.
//!
//! If commands come in crowds, the hop costs less than a worker that waits for the disk: then all
//! turns are those of the clerk, a thread that commits what waits as soon as the commit before is
//! done. It has the answers given by a worker, all in one go: to wake many tasks from outside of the
//! runtime would take longer than the commit.
//!
//! Outside of crowds, a commit blocks its worker for as long as a sync takes. No more than one is
//! blocked, because only one has the writer, and nobody but the keeper, the clerk and
//! [`Turns::stop`] waits for that. If a sync takes long, the keeper sees to it that another worker
//! looks after the sockets.
//!
//! The keeper is a thread for what nobody asks for: it sweeps, looks after the store, and brings it
//! back after a failure.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use handback_store::Log;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::channels::Shown;
use super::driver::{Clock, Mode};
use super::queue::{Duty, PANICKED, Queue};
use super::writer::{Answers, Writer};

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
    /// The keeper would have swept, but did not get the writer.
    is_sweep_due: AtomicBool,
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
            is_sweep_due: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            runtime: OnceLock::new(),
        }
    }

    /// Sees to it that what waits is taken.
    pub(super) fn attend(self: &Arc<Self>) {
        if self.is_crowded() && self.queue.call_clerk() {
            return;
        }
        // Before anything else: should a turn panic, somebody still has to leave the queue.
        let attendance = Attendance(Some(Arc::clone(self)));
        self.turn();
        // Without a runtime, all is done here and now.
        if let Ok(runtime) = Handle::try_current() {
            // Nobody may drive one that has no threads of its own.
            if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
                self.runtime.get_or_init(|| runtime.clone());
            }
            runtime.spawn(attendance.run());
        }
    }

    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Takes what waits, commits and answers it. False if nothing waits.
    fn turn(&self) -> bool {
        self.commit().is_some()
    }

    /// Takes what waits, and commits it. Nothing if nothing waits; no answers if those who wait were
    /// told that it failed.
    fn commit(&self) -> Option<Option<Answers>> {
        let mut writer = self.writer();
        writer.sign();
        let commands = self.queue.take()?;
        self.is_crowded.store(commands.len() > 1, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        let done = writer.round(commands, (self.clock)());
        let done = done.inspect_err(|reason| self.queue.refuse(reason));
        self.steps.fetch_add(1, Ordering::Relaxed);
        Some(done.ok())
    }

    /// What the clerk does until there is nothing to do any more.
    pub(super) fn serve_crowds(&self) {
        while self.queue.wait_for_crowd() {
            while self.caught(Self::crowd_turn).unwrap_or(true) {}
        }
    }

    /// What a thread of ours does must not end it. Whoever finds the writer after a panic sees to it.
    fn caught<R>(&self, work: impl FnOnce(&Self) -> R) -> Option<R> {
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| work(self))).ok();
        if done.is_none() {
            // Should it panic every time, others have the processor at least.
            self.queue.pause(LOOK_EVERY);
        }
        done
    }

    /// As [`Turns::turn`], but for who gives the answers.
    fn crowd_turn(&self) -> bool {
        let Some(answers) = self.commit() else { return false };
        if let Some(answers) = answers.filter(Answers::is_crowd)
            && let Some(runtime) = self.runtime.get()
        {
            drop(runtime.spawn(async move { drop(answers) }));
        }
        // The keeper may never find the writer free.
        if self.is_sweep_due.load(Ordering::Relaxed) {
            self.sweep_with(&mut self.writer());
        }
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
        self.writer.clear_poison();
        self.steps.fetch_add(self.steps.load(Ordering::Relaxed) & 1, Ordering::Relaxed);
        let mut writer = poisoned.into_inner();
        self.queue.refuse(PANICKED);
        writer.fail(PANICKED);
        writer
    }

    /// Takes no more commands, and does those that wait.
    pub(super) fn stop(&self) {
        self.queue.stop();
        while self.caught(Self::turn).unwrap_or(true) {}
    }

    /// What the keeper does until it is to stop.
    pub(super) fn keep(&self) {
        let mut swept = Instant::now();
        let mut seen = 0;
        let mut wait = SWEEP_EVERY;
        loop {
            match self.queue.wait(wait) {
                Duty::Stop => return,
                Duty::Recover => {
                    self.caught(Self::recover);
                }
                Duty::Routine => {
                    let step = self.steps.load(Ordering::Relaxed);
                    if step % 2 == 1 && step == seen {
                        self.relieve();
                    }
                    let is_calm = step == seen && step.is_multiple_of(2);
                    // Whoever was on the way may be a task that nobody runs.
                    if is_calm && self.queue.has_waiting() {
                        self.queue.call_clerk();
                    }
                    wait = if is_calm { SWEEP_EVERY } else { LOOK_EVERY };
                    seen = step;
                    let is_due = self.is_sweep_due.load(Ordering::Relaxed);
                    if is_due || swept.elapsed() >= SWEEP_EVERY {
                        swept = Instant::now();
                        self.caught(Self::sweep);
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

    /// Ends what has outlived its time, and looks after the store. If somebody else writes, it is
    /// done by the clerk, or the next time.
    fn sweep(&self) {
        match self.writer.try_lock() {
            Ok(mut writer) => self.sweep_with(&mut writer),
            Err(TryLockError::Poisoned(poisoned)) => drop(self.after_panic(poisoned)),
            Err(TryLockError::WouldBlock) => self.is_sweep_due.store(true, Ordering::Relaxed),
        }
    }

    fn sweep_with(&self, writer: &mut Writer) {
        self.is_sweep_due.store(false, Ordering::Relaxed);
        // Others write to the store as well, and may have broken it.
        if let Err(error) = self.log.recover() {
            self.shown.mode.send_replace(Mode::ReadOnly(error.to_string()));
        }
        if let Err(reason) = writer.sweep((self.clock)()) {
            self.queue.refuse(&reason);
        }
        writer.sign();
    }

    /// Tries once to bring the store back, and waits if that fails.
    fn recover(&self) {
        let mut writer = self.writer();
        match writer.reopen() {
            Ok(()) => {
                // Who hears of it is not refused any more.
                self.queue.accept();
                writer.announce();
            }
            Err(error) => {
                drop(writer);
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
struct Attendance(Option<Arc<Turns>>);

impl Attendance {
    async fn run(mut self) {
        while let Some(turns) = &self.0 {
            if turns.is_crowded() && turns.queue.call_clerk() {
                self.0 = None;
            } else if turns.turn() {
                // Those that were answered are served before the signature is made.
                tokio::task::yield_now().await;
            } else {
                self.0 = None;
            }
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        while self.0.as_ref().is_some_and(|turns| turns.turn()) {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use bytes::Bytes;
    use handback_store::{Batch, LogId, MemoryStore, ReadLimit, Record, StoreError};
    use handback_stream::{Append, Command, Create, Life, Payload, Reply, SigningKey, StreamName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::driver::{NotTaken, Streams};
    use super::*;

    const WORKS: u8 = 0;
    const FAILS: u8 = 1;
    const PANICS: u8 = 2;
    const STALLS: u8 = 3;

    /// So long it stalls at most, if nobody tells it to go on.
    const STALL_MAX: Duration = Duration::from_secs(30);

    /// A log that does what it is told to.
    #[derive(Debug, Default)]
    struct Moody {
        inner: MemoryStore,
        mood: AtomicU8,
    }

    impl Log for Moody {
        fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
            match self.mood.load(Ordering::SeqCst) {
                FAILS => return Err(StoreError::Broken("as told".to_owned())),
                PANICS => panic!("as told"),
                STALLS => {
                    let start = Instant::now();
                    while self.mood.load(Ordering::SeqCst) == STALLS && start.elapsed() < STALL_MAX
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                _ => {}
            }
            self.inner.commit(batch)
        }

        fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
            self.inner.read(log, from, limit)
        }

        fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
            self.inner.last(log)
        }

        fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
            self.inner.note(log)
        }

        fn noted(
            &self,
            after: Option<LogId>,
            limit: usize,
        ) -> Result<Vec<(LogId, Bytes)>, StoreError> {
            self.inner.noted(after, limit)
        }

        fn recover(&self) -> Result<(), StoreError> {
            match self.mood.load(Ordering::SeqCst) {
                FAILS => Err(StoreError::Broken("as told".to_owned())),
                _ => self.inner.recover(),
            }
        }
    }

    fn open() -> (Arc<Streams>, Arc<Moody>) {
        let log = Arc::new(Moody::default());
        let key = Arc::new(SigningKey::from_seed(&[7; 32]).unwrap());
        let clock: Clock = Arc::new(|| 1000);
        let streams = Streams::open(Arc::clone(&log) as _, Some(key), clock, Mode::Memory);
        (streams.unwrap(), log)
    }

    fn name() -> StreamName {
        StreamName::new("owner", "s").unwrap()
    }

    async fn create(streams: &Streams) {
        let create = Create {
            name: name(),
            content_type: Some("text/plain".to_owned()),
            life: Life::Unlimited,
            closed: false,
            payload: None,
            fork: None,
            key: None,
            incarnation: 1,
        };
        streams.command(Command::Create(Box::new(create)), 0).await.unwrap();
    }

    async fn append(streams: &Streams) -> Result<u64, NotTaken> {
        let payload = Payload::parse(Bytes::from_static(b"x"), false).unwrap();
        let append = Append::new(name().id(), Some(payload), false, 1000);
        match streams.command(Command::Append(append), 1).await? {
            Reply::Appended(appended) => Ok(appended.number),
            other => panic!("{other:?}"),
        }
    }

    async fn until_taken(streams: &Streams) -> u64 {
        for _ in 0..100 {
            if let Ok(number) = append(streams).await {
                return number;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the store did not come back")
    }

    #[tokio::test]
    async fn after_a_failure_nothing_is_taken_until_the_store_is_back() {
        let (streams, log) = open();
        create(&streams).await;
        assert_eq!(append(&streams).await, Ok(1));
        log.mood.store(FAILS, Ordering::SeqCst);
        for _ in 0..3 {
            assert!(matches!(append(&streams).await, Err(NotTaken::ReadOnly(_))));
            assert!(matches!(*streams.mode().borrow(), Mode::ReadOnly(_)));
            // Nothing of it is shown.
            assert_eq!(streams.view(name().id()).unwrap().number, 1);
        }
        log.mood.store(WORKS, Ordering::SeqCst);
        assert_eq!(until_taken(&streams).await, 2);
        assert_eq!(*streams.mode().borrow(), Mode::Memory);
        assert_eq!(streams.view(name().id()).unwrap().number, 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_hears_that_the_store_is_back_is_taken() {
        let (streams, log) = open();
        create(&streams).await;
        let mut mode = streams.mode();
        for number in 1..=3 {
            log.mood.store(FAILS, Ordering::SeqCst);
            assert!(append(&streams).await.is_err());
            log.mood.store(WORKS, Ordering::SeqCst);
            mode.wait_for(|mode| *mode == Mode::Memory).await.unwrap();
            assert_eq!(append(&streams).await, Ok(number));
        }
    }

    #[tokio::test]
    async fn a_sweep_that_fails_is_a_failure() {
        let (streams, log) = open();
        create(&streams).await;
        log.mood.store(FAILS, Ordering::SeqCst);
        let is_read_only = |mode: &Mode| matches!(mode, Mode::ReadOnly(_));
        let mut mode = streams.mode();
        let failed = tokio::time::timeout(Duration::from_secs(5), mode.wait_for(is_read_only));
        assert!(failed.await.is_ok());
        log.mood.store(WORKS, Ordering::SeqCst);
        assert_eq!(until_taken(&streams).await, 1);
    }

    #[tokio::test]
    async fn a_panic_while_writing_is_a_failure() {
        let (streams, log) = open();
        create(&streams).await;
        log.mood.store(PANICS, Ordering::SeqCst);
        let panicked = {
            let streams = Arc::clone(&streams);
            tokio::spawn(async move { append(&streams).await }).await
        };
        assert!(panicked.is_err());
        log.mood.store(WORKS, Ordering::SeqCst);
        assert_eq!(until_taken(&streams).await, 1);
    }

    /// How many of many at once were taken.
    async fn crowd(streams: &Arc<Streams>) -> u64 {
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let streams = Arc::clone(streams);
                tokio::spawn(async move { append(&streams).await })
            })
            .collect();
        let mut taken = 0;
        for task in tasks {
            // The one whose turn panics does so, too.
            let answer = task.await.unwrap_or(Err(NotTaken::Busy));
            assert_ne!(answer, Err(NotTaken::Stopping));
            taken += u64::from(answer.is_ok());
        }
        taken
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_crowd_is_told_of_failures_and_taken_afterwards() {
        let (streams, log) = open();
        create(&streams).await;
        let mut taken = 0;
        for mood in [PANICS, FAILS, PANICS] {
            // Until the clerk has the turns.
            while !streams.turns.is_crowded() {
                taken += crowd(&streams).await;
            }
            log.mood.store(mood, Ordering::SeqCst);
            assert_eq!(crowd(&streams).await, 0);
            log.mood.store(WORKS, Ordering::SeqCst);
            taken += 1;
            assert_eq!(until_taken(&streams).await, taken);
        }
        taken += crowd(&streams).await;
        assert_eq!(streams.view(name().id()).unwrap().number, taken);
    }

    /// The task that goes on after the first command is never run.
    #[test]
    fn a_runtime_that_nobody_drives_holds_nobody_up() {
        let (streams, _) = open();
        let idle = tokio::runtime::Builder::new_current_thread().build().unwrap();
        idle.block_on(create(&streams));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let taken = runtime.block_on(async {
            let crowd = crowd(&streams);
            tokio::time::timeout(STALL_MAX, crowd).await.unwrap()
        });
        assert_eq!(taken, 64);
    }

    /// The clerk has nobody to give its answers, and gives them itself.
    #[test]
    fn a_crowd_is_answered_after_the_end_of_a_runtime() {
        let (streams, _) = open();
        let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let first = runtime();
        first.block_on(create(&streams));
        drop(first);
        let taken = runtime().block_on(async {
            let mut taken = 0;
            while !streams.turns.is_crowded() {
                taken += crowd(&streams).await;
            }
            taken + crowd(&streams).await
        });
        assert_eq!(taken % 64, 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_at_once_are_all_answered_and_signed() {
        let (streams, _) = open();
        create(&streams).await;
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let streams = Arc::clone(&streams);
                tokio::spawn(async move {
                    for _ in 0..50 {
                        append(&streams).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let view = streams.view(name().id()).unwrap();
        assert_eq!(view.number, 64 * 50);
        let last = streams.record(&view, view.number).unwrap().unwrap();
        let streams = Arc::clone(&streams);
        tokio::task::spawn_blocking(move || {
            for number in 1..=last.commit {
                assert!(streams.commit(number).unwrap().is_some(), "{number}");
            }
        })
        .await
        .unwrap();
    }

    #[test]
    fn commands_are_done_without_a_runtime() {
        let (streams, _) = open();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(create(&streams));
        drop(runtime);
        let append = std::pin::pin!(append(&streams));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(append.poll(&mut context), std::task::Poll::Ready(Ok(1)));
    }

    #[tokio::test]
    async fn what_waits_is_done_when_it_stops() {
        let (streams, _) = open();
        create(&streams).await;
        let (answer, _) = streams.push_for_tests(Command::Delete(name().id()));
        streams.stop();
        assert_eq!(answer.await.unwrap(), Ok(Reply::Deleted));
        assert_eq!(append(&streams).await, Err(NotTaken::Stopping));
    }

    /// The worker that commits looked after the sockets; the other one has to be woken for that.
    #[test]
    fn sockets_are_served_while_a_commit_takes_long() {
        let (streams, log) = open();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(create(&streams));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        // A byte has it append, another one is echoed.
        let appending = Arc::clone(&streams);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                let streams = Arc::clone(&appending);
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        if byte == b'a' {
                            append(&streams).await.unwrap();
                        }
                        stream.write_u8(byte).await.unwrap();
                    }
                });
            }
        });
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let ask = |stream: &mut std::net::TcpStream, byte: u8| {
            use std::io::{Read as _, Write as _};
            stream.write_all(&[byte]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        };
        let (mut one, mut other) = (connect(), connect());
        ask(&mut one, b'a');
        ask(&mut other, b'e');
        log.mood.store(STALLS, Ordering::SeqCst);
        let stalled = std::thread::spawn(move || ask(&mut one, b'a'));
        std::thread::sleep(Duration::from_millis(100));
        ask(&mut other, b'e');
        assert!(!stalled.is_finished());
        log.mood.store(WORKS, Ordering::SeqCst);
        stalled.join().unwrap();
        drop(runtime);
    }
}
