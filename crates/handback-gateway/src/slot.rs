//! Where a line is, or will be again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handback_identity::Caller;
use handback_mcp::server::McpServer;
use handback_tool::Charge;
use handback_tool::metrics::UpstreamMetrics;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use crate::programs::ProgramAccount;
use crate::upstream::{Ending, HEARD_MAX, Line, LineError, Opening, Spec, Spontaneous};

/// How long a new try waits after the first one that failed; each one after that twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long it waits at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A program whose line lived for less than this is one that ends at once. The first time it is started
/// anew without a pause: it may have been asked what ended it.
const SHORT_LIFE: Duration = Duration::from_secs(10);

/// How long whoever asks waits for such a pause to be over. After a longer one, they are told.
const WAITED_MAX: Duration = Duration::from_millis(500);

/// How long a line may take to come about: some programs are fetched before they start.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// Those who wait for one line at most: who asks may leave, and is still one of them.
const PLACES: usize = 256;

/// What a line leads to.
#[derive(Clone)]
pub(crate) enum Source {
    /// A server that is not ours, what is counted of it, and the end of all lines.
    Upstream(Arc<Spec>, Arc<UpstreamMetrics>, Ending),
    /// Our own tools, for one caller.
    Own(McpServer, Caller),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(spec, ..) => f.debug_tuple("Upstream").field(&spec.name).finish(),
            Self::Own(..) => f.write_str("Own"),
        }
    }
}

/// Where a line is, or will be again: one that is gone is opened anew when it is wanted, and not
/// before the pause after a failure is over.
#[derive(Debug)]
pub(crate) struct Slot {
    source: Source,
    opening: Opening,
    spontaneous: mpsc::Sender<OnLine>,
    line: RwLock<Option<(u64, Line)>>,
    failed: Mutex<Failed>,
    /// The number of the line that was opened last.
    last: AtomicU64,
    /// Places for those who wait for the line.
    places: Arc<Semaphore>,
    /// The account of the caller whose line it is; none, if callers share it.
    account: Option<ProgramAccount>,
}

/// What belongs to no question, with the number of the line that it came on: of a line that is gone, it
/// cannot be answered any more.
pub(crate) type OnLine = (u64, Spontaneous);

#[derive(Debug, Default)]
struct Failed {
    times: u32,
    last: Option<(Instant, LineError)>,
    /// When the line of a program came about that nobody has missed yet.
    opened: Option<Instant>,
    /// How many lines of a program in a row lived for a short time.
    short_lives: u32,
}

impl Failed {
    /// How long nobody tries again.
    fn pause(&self) -> Duration {
        FIRST_PAUSE.saturating_mul(1 << self.times.min(10)).min(LONGEST_PAUSE)
    }

    /// How long that is from now on, and why.
    fn left(&self) -> Option<(Duration, &LineError)> {
        let (when, error) = self.last.as_ref()?;
        let left = self.pause().checked_sub(when.elapsed()).filter(|left| !left.is_zero())?;
        Some((left, error))
    }

    /// The line is gone, or was given up.
    fn missed(&mut self) {
        let Some(opened) = self.opened.take() else { return };
        if opened.elapsed() >= SHORT_LIFE {
            self.short_lives = 0;
            return;
        }
        self.short_lives = self.short_lives.saturating_add(1);
        if self.short_lives > 1 {
            self.times = self.short_lives - 1;
            let why = "it ends as soon as it was started".to_owned();
            self.last = Some((Instant::now(), LineError::Unreachable(why)));
        }
    }

    /// A line came about.
    fn is_over(&mut self, is_program: bool) {
        *self = Self {
            opened: is_program.then(Instant::now),
            short_lives: self.short_lives,
            ..Self::default()
        };
    }
}

impl Slot {
    pub(crate) fn new(source: Source, opening: Opening, spontaneous: mpsc::Sender<OnLine>) -> Self {
        let (line, failed, last) = (RwLock::default(), Mutex::default(), AtomicU64::default());
        let places = Arc::new(Semaphore::new(PLACES));
        let account = None;
        Self { source, opening, spontaneous, line, failed, last, places, account }
    }

    /// The slot of one caller, on whose account its programs are counted.
    pub(crate) fn on_account(mut self, account: ProgramAccount) -> Self {
        self.account = Some(account);
        self
    }

    /// The line.
    pub(crate) async fn line(&self) -> Result<Line, LineError> {
        if let Some(line) = self.open_line() {
            return Ok(line);
        }
        let mut failed = self.failed.lock().await;
        if let Some(line) = self.open_line() {
            return Ok(line);
        }
        if matches!(&self.source, Source::Upstream(.., ending) if ending.is_over()) {
            return Err(LineError::closed());
        }
        failed.missed();
        if let Some((left, error)) = failed.left() {
            // One that comes about and goes is worth a moment; one that does not is not there.
            if failed.short_lives < 2 || left > WAITED_MAX {
                return Err(error.clone());
            }
            sleep(left).await;
        }
        // Nothing has failed at the upstream: the next try need not wait.
        let program = self.charge()?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let opened = tokio::time::timeout(OPENING_TIME, self.open(number, program)).await;
        match opened.unwrap_or(Err(LineError::TimedOut)) {
            Ok(line) => {
                failed.is_over(self.is_program());
                let mut place = self.line.write().unwrap_or_else(PoisonError::into_inner);
                if let Source::Upstream(_, metrics, _) = &self.source {
                    metrics.connections.increment();
                    if place.is_some() {
                        metrics.reconnections.increment();
                    }
                }
                *place = Some((number, line.clone()));
                Ok(line)
            }
            Err(error) => {
                if let Source::Upstream(_, metrics, _) = &self.source
                    && error != LineError::Era
                {
                    metrics.failed_connections.increment();
                    metrics.is_up(false);
                }
                failed.times = failed.times.saturating_add(1);
                failed.last = Some((Instant::now(), error.clone()));
                // It does not even come about.
                failed.short_lives = 0;
                Err(error)
            }
        }
    }

    /// Whether the line leads to a program that is started for it.
    fn is_program(&self) -> bool {
        matches!(&self.source, Source::Upstream(spec, ..) if spec.is_program())
    }

    /// A place for one more who waits for the line, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Gives the line up: it is of no use.
    pub(crate) fn drop_line(&self) {
        self.line.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The line, if it is there.
    pub(crate) fn open_line(&self) -> Option<Line> {
        let (_, line) = self.line.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        (!line.is_closed()).then_some(line)
    }

    /// The line of this number, if it is there; if one comes about, after that: it may be heard from
    /// before.
    pub(crate) async fn numbered(&self, number: u64) -> Option<Line> {
        drop(self.failed.lock().await);
        let known = self.line.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|(known, _)| *known == number).map(|(_, line)| line)
    }

    /// Counts the program that is about to be started, if one is.
    fn charge(&self) -> Result<Option<Charge>, LineError> {
        let account = self.account.as_ref().filter(|_| self.is_program());
        account.map(ProgramAccount::charge).transpose()
    }

    async fn open(&self, number: u64, program: Option<Charge>) -> Result<Line, LineError> {
        let (opening, spontaneous) = (self.opening.clone(), self.heard_on(number));
        match &self.source {
            Source::Upstream(spec, _, ending) => {
                Line::open_under(spec, opening, spontaneous, ending, program).await
            }
            Source::Own(server, caller) => {
                Line::open_own(server, caller, opening, spontaneous).await
            }
        }
    }

    /// Where what belongs to no question goes on the line of this number.
    fn heard_on(&self, number: u64) -> mpsc::Sender<Spontaneous> {
        let (sender, mut heard) = mpsc::channel(HEARD_MAX);
        let out = self.spontaneous.clone();
        // Where nobody hears it, the upstream is told so.
        if !out.is_closed() {
            tokio::spawn(async move {
                while let Some(heard) = heard.recv().await {
                    if out.send((number, heard)).await.is_err() {
                        return;
                    }
                }
            });
        }
        sender
    }
}
