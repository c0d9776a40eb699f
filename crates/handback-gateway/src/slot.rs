//! Where a line is, or will be again.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use handback_identity::Caller;
use handback_mcp::server::McpServer;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::upstream::{Line, LineError, Opening, Spec, Spontaneous};

/// How long a new try waits after the first one that failed; each one after that twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long it waits at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a line may take to come about: some programs are fetched before they start.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// What a line leads to.
#[derive(Clone)]
pub(crate) enum Source {
    /// A server that is not ours.
    Upstream(Arc<Spec>),
    /// Our own tools, for one caller.
    Own(McpServer, Caller),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(spec) => f.debug_tuple("Upstream").field(&spec.name).finish(),
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
    spontaneous: mpsc::Sender<Spontaneous>,
    line: RwLock<Option<Line>>,
    failed: Mutex<Failed>,
}

#[derive(Debug, Default)]
struct Failed {
    times: u32,
    last: Option<(Instant, LineError)>,
}

impl Slot {
    pub(crate) fn new(
        source: Source,
        opening: Opening,
        spontaneous: mpsc::Sender<Spontaneous>,
    ) -> Self {
        Self { source, opening, spontaneous, line: RwLock::default(), failed: Mutex::default() }
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
        if let Some((when, error)) = &failed.last {
            let pause = FIRST_PAUSE.saturating_mul(1 << failed.times.min(10)).min(LONGEST_PAUSE);
            if when.elapsed() < pause {
                return Err(error.clone());
            }
        }
        let opened = tokio::time::timeout(OPENING_TIME, self.open()).await;
        match opened.unwrap_or(Err(LineError::TimedOut)) {
            Ok(line) => {
                *failed = Failed::default();
                *self.line.write().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                failed.times = failed.times.saturating_add(1);
                failed.last = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Gives the line up: it is of no use.
    pub(crate) fn drop_line(&self) {
        self.line.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn open_line(&self) -> Option<Line> {
        let line = self.line.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        line.closed().now_or_never().is_none().then_some(line)
    }

    async fn open(&self) -> Result<Line, LineError> {
        let (opening, spontaneous) = (self.opening.clone(), self.spontaneous.clone());
        match &self.source {
            Source::Upstream(spec) => Line::open(spec, opening, spontaneous).await,
            Source::Own(server, caller) => {
                Line::open_own(server, caller, opening, spontaneous).await
            }
        }
    }
}
