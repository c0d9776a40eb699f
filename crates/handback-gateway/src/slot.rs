//! Where a line is, or will be again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handback_identity::Caller;
use handback_mcp::server::McpServer;
use handback_tool::metrics::UpstreamMetrics;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::upstream::{Ending, Line, LineError, Opening, Spec, Spontaneous};

/// How long a new try waits after the first one that failed; each one after that twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long it waits at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a line may take to come about: some programs are fetched before they start.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// Those who wait for one line at most: who asks may leave, and is still one of them.
const PLACES: usize = 256;

/// Messages of a line that wait to be numbered.
const WAITING_MAX: usize = 16;

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
}

/// What belongs to no question, with the number of the line that it came on: of a line that is gone, it
/// cannot be answered any more.
pub(crate) type OnLine = (u64, Spontaneous);

#[derive(Debug, Default)]
struct Failed {
    times: u32,
    last: Option<(Instant, LineError)>,
}

impl Slot {
    pub(crate) fn new(source: Source, opening: Opening, spontaneous: mpsc::Sender<OnLine>) -> Self {
        let (line, failed, last) = (RwLock::default(), Mutex::default(), AtomicU64::default());
        let places = Arc::new(Semaphore::new(PLACES));
        Self { source, opening, spontaneous, line, failed, last, places }
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
        if let Some((when, error)) = &failed.last {
            let pause = FIRST_PAUSE.saturating_mul(1 << failed.times.min(10)).min(LONGEST_PAUSE);
            if when.elapsed() < pause {
                return Err(error.clone());
            }
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let opened = tokio::time::timeout(OPENING_TIME, self.open(number)).await;
        match opened.unwrap_or(Err(LineError::TimedOut)) {
            Ok(line) => {
                *failed = Failed::default();
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
                Err(error)
            }
        }
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

    async fn open(&self, number: u64) -> Result<Line, LineError> {
        let (opening, spontaneous) = (self.opening.clone(), self.heard_on(number));
        match &self.source {
            Source::Upstream(spec, _, ending) => {
                Line::open_under(spec, opening, spontaneous, ending).await
            }
            Source::Own(server, caller) => {
                Line::open_own(server, caller, opening, spontaneous).await
            }
        }
    }

    /// Where what belongs to no question goes on the line of this number.
    fn heard_on(&self, number: u64) -> mpsc::Sender<Spontaneous> {
        let (sender, mut heard) = mpsc::channel(WAITING_MAX);
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
