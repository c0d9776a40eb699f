//! Where a line is, or will be again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::server::McpServer;
use handback_tool::Charge;
use handback_tool::metrics::UpstreamMetrics;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep};

use crate::programs::ProgramAccount;
use crate::upstream::{
    Ending, HEARD_MAX, LOG_MESSAGE, Line, LineError, Opening, Order, RequestedLevel, Spec,
    Spontaneous,
};

/// How long a new try waits after the first one that failed; each one after that twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long it waits at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A program whose line lived for less than this is one that ends at once. The first time it is started
/// anew without a pause: it may have been asked what ended it.
const SHORT_LIFE: Duration = Duration::from_secs(10);

/// How long whoever asks waits for such a pause to be over. After a longer one, they are told.
const WAITED_MAX: Duration = Duration::from_millis(500);

/// Time of the opening of a line beyond the start of its upstream, which ends by itself.
const OPENING_MARGIN: Duration = Duration::from_secs(5);

/// Time to open a line to our own tools.
const OWN_OPENING_TIME: Duration = Duration::from_secs(60);

/// The cause where a program starts, and ends soon after.
pub(crate) const ENDS_AT_ONCE: &str = "it ends as soon as it was started";

/// The text for clients of a server that has another process, or another session, than before.
const RESTARTED: &str = "began anew, since it ended or forgot the session: what it had in its memory for this client is gone";

/// The level of that text as a log message.
const RESTARTED_LEVEL: &str = "warning";

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

/// The beginning of a line.
#[derive(Clone, Debug)]
pub(crate) enum Greeting {
    /// In a known era.
    Known(Opening),
    /// In the era that a program accepts, with these parameters of `initialize`.
    Either { initialize: Bytes },
}

impl From<Opening> for Greeting {
    fn from(opening: Opening) -> Self {
        Self::Known(opening)
    }
}

/// Where a line is, or will be again: one that is gone is opened anew when it is wanted, and not
/// before the pause after a failure is over.
#[derive(Debug)]
pub(crate) struct Slot {
    source: Source,
    greeting: Greeting,
    spontaneous: mpsc::Sender<OnLine>,
    /// Messages of a program that turned out to be of the older era, until the line is taken over.
    unheard: Mutex<Option<mpsc::Receiver<Spontaneous>>>,
    line: RwLock<Option<(u64, Line)>>,
    failed: Mutex<Failed>,
    /// The number of the line that was opened last.
    last: AtomicU64,
    /// Places for those who wait for the line.
    places: Arc<Semaphore>,
    /// The account of the caller whose line it is; none, if callers share it.
    account: Option<ProgramAccount>,
    /// The level of log messages that the client of the slot has requested.
    log_level: RequestedLevel,
    /// True if the client was told of log messages, whatever the server declares.
    declares_logging: bool,
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

    /// Starts in a row that failed. A program that starts and ends soon after has not failed to start: its
    /// era is that of its last line.
    fn failed_starts(&self) -> u32 {
        if self.short_lives > 1 { 0 } else { self.times }
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
            let why = LineError::Unreachable(ENDS_AT_ONCE.to_owned());
            self.last = Some((Instant::now(), why));
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
    pub(crate) fn new(
        source: Source,
        greeting: impl Into<Greeting>,
        spontaneous: mpsc::Sender<OnLine>,
    ) -> Self {
        let (line, failed, last) = (RwLock::default(), Mutex::default(), AtomicU64::default());
        let (places, unheard) = (Arc::new(Semaphore::new(PLACES)), Mutex::default());
        Self {
            source,
            greeting: greeting.into(),
            spontaneous,
            unheard,
            line,
            failed,
            last,
            places,
            account: None,
            log_level: RequestedLevel::default(),
            declares_logging: false,
        }
    }

    /// The slot of a session with this level of log messages. `is_declared` is true if its client was told of
    /// log messages, whatever the server declares.
    pub(crate) fn logging_at(mut self, level: RequestedLevel, is_declared: bool) -> Self {
        (self.log_level, self.declares_logging) = (level, is_declared);
        self
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
        let limit = match &self.source {
            Source::Upstream(spec, _, ending) => {
                ending.wants();
                spec.start.total + OPENING_MARGIN
            }
            Source::Own(..) => OWN_OPENING_TIME,
        };
        let order = (failed.failed_starts(), failed.times == 0);
        let opened = self.open(number, order, program);
        let opened = tokio::time::timeout(limit, opened).await;
        match opened.unwrap_or(Err(LineError::TimedOut)) {
            Ok(line) => {
                failed.is_over(self.is_program());
                let mut place = self.line.write().unwrap_or_else(PoisonError::into_inner);
                self.came_up(place.as_ref().map(|(_, before)| before), (number, &line));
                *place = Some((number, line.clone()));
                Ok(line)
            }
            Err(error) => {
                failed.times = failed.times.saturating_add(1);
                self.did_not_come_up(failed.times, &error);
                failed.last = Some((Instant::now(), error.clone()));
                // It does not even come about.
                failed.short_lives = 0;
                Err(error)
            }
        }
    }

    /// Counts a line that came about, after the one before.
    fn came_up(&self, before: Option<&Line>, (number, line): (u64, &Line)) {
        let Source::Upstream(spec, metrics, ending) = &self.source else { return };
        ending.came_up();
        metrics.connections.increment();
        if let Some(before) = before {
            metrics.reconnections.increment();
            if before.era() == Era::Legacy {
                self.notify_of_restart(&spec.name, number, line);
            }
        }
    }

    /// Counts a line that did not come about, so many times in a row.
    fn did_not_come_up(&self, times: u32, error: &LineError) {
        let Source::Upstream(spec, metrics, _) = &self.source else { return };
        if *error == LineError::Era {
            return;
        }
        metrics.failed_connections.increment();
        metrics.is_up(false);
        // Ever more rarely: it may be tried for days.
        if times.is_power_of_two() {
            tracing::warn!(upstream = %spec.name, times, %error, "an upstream does not start");
        }
    }

    /// Whether the line leads to a program that is started for it.
    fn is_program(&self) -> bool {
        matches!(&self.source, Source::Upstream(spec, ..) if spec.is_program())
    }

    /// The cause of the last start, if it failed and no line has come about since.
    pub(crate) fn cause(&self) -> Option<LineError> {
        // Held while the upstream is started.
        let failed = self.failed.try_lock().ok()?;
        failed.last.as_ref().map(|(_, why)| why.clone())
    }

    /// Whether the line is for several callers.
    pub(crate) const fn is_shared(&self) -> bool {
        self.account.is_none()
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

    /// True if the line is there, and no request or subscription uses it.
    pub(crate) fn is_idle(&self) -> bool {
        // The slot has it, and this.
        self.open_line().is_some_and(|line| line.users() <= 2)
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

    async fn open(
        &self,
        number: u64,
        (failed_starts, may_restart): (u32, bool),
        program: Option<Charge>,
    ) -> Result<Line, LineError> {
        match (&self.source, &self.greeting) {
            (Source::Upstream(spec, _, ending), Greeting::Known(opening)) => {
                let (opening, spontaneous) = (opening.clone(), self.heard_on(number));
                Line::open_under(spec, opening, spontaneous, ending, program).await
            }
            (Source::Upstream(spec, _, ending), Greeting::Either { initialize }) => {
                let order = (self.order(spec, failed_starts), may_restart);
                let (sender, heard) = mpsc::channel(HEARD_MAX);
                let program = program.map(Arc::new);
                let under = (ending, program);
                let line = Line::open_either(spec, initialize, order, sender, under).await?;
                let is_older = line.era() == Era::Legacy;
                // In the newer era, nothing belongs to no request.
                *self.unheard.lock().await = is_older.then_some(heard);
                Ok(line)
            }
            (Source::Own(server, caller), Greeting::Known(opening)) => {
                let (opening, spontaneous) = (opening.clone(), self.heard_on(number));
                Line::open_own(server, caller, opening, spontaneous).await
            }
            (Source::Own(..), Greeting::Either { .. }) => Err(LineError::Era),
        }
    }

    /// The order of the first requests to a program, after so many failures in a row.
    fn order(&self, spec: &Spec, failures: u32) -> Order {
        if failures % 2 == 1 {
            return Order::Initialize;
        }
        let last = self.line.read().unwrap_or_else(PoisonError::into_inner).clone();
        let was_newer = last.is_some_and(|(_, line)| line.era() == Era::Modern);
        // One that spoke the newer era is given more time before it is asked to speak the older one.
        Order::Discover(if was_newer { spec.start.total / 2 } else { spec.start.discovery })
    }

    /// Takes the line away, if it is there and of the older era, with what is said on it.
    pub(crate) async fn take_older(&self) -> Option<(Line, mpsc::Receiver<Spontaneous>)> {
        let heard = self.unheard.lock().await.take()?;
        let line = self.line.write().unwrap_or_else(PoisonError::into_inner).take();
        let (_, line) = line.filter(|(_, line)| line.era() == Era::Legacy && !line.is_closed())?;
        Some((line, heard))
    }

    /// Takes over the line of another slot, unless there is one.
    pub(crate) async fn take_over(&self, line: Line, mut heard: mpsc::Receiver<Spontaneous>) {
        let mut failed = self.failed.lock().await;
        if self.open_line().is_some() {
            return;
        }
        failed.is_over(self.is_program());
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = Some((number, line));
        let out = self.heard_on(number);
        tokio::spawn(async move {
            while let Some(heard) = heard.recv().await {
                if out.send(heard).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Tells the client of the older era that the server on its connection is another one: a log message,
    /// unless the client has requested higher levels only, and a notification of each list that may have
    /// changed.
    fn notify_of_restart(&self, upstream: &str, number: u64, line: &Line) {
        let hello = line.hello().and_then(|hello| serde_json::from_slice(hello).ok());
        let hello: Value = hello.unwrap_or_default();
        let can =
            |what: &str| hello.pointer(what).is_some_and(|value| *value != Value::Bool(false));
        let mut told = Vec::new();
        let may_log = self.declares_logging || can("/capabilities/logging");
        if may_log && self.log_level.admits(RESTARTED_LEVEL) {
            let data = format!("the server `{upstream}` {RESTARTED}");
            let params = json!({"level": RESTARTED_LEVEL, "logger": "handback", "data": data});
            let params = Some(Bytes::from(params.to_string()));
            told.push(Spontaneous::Notification { method: LOG_MESSAGE.to_owned(), params });
        }
        for list in ["tools", "prompts", "resources"] {
            if can(&format!("/capabilities/{list}/listChanged")) {
                let method = format!("notifications/{list}/list_changed");
                told.push(Spontaneous::Notification { method, params: None });
            }
        }
        for told in told {
            // A client that takes nothing does not keep the request that waits for the line.
            let _ = self.spontaneous.try_send((number, told));
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
