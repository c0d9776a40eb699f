//! Schemas of upstream tools: read when a check needs them, and never while listing.
//!
//! Reading and checking run on blocking threads, with a bounded number for each upstream and for all. A
//! caller that leaves ends its check; a reading that takes too long is given up, and so is a check that has
//! no turn in time. A turn is for the check alone, and not for the work around it on the same thread.

use std::cell::Cell;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use handback_wire::schema::{BoundedValidator, ForeignSchema, SCHEMA_BYTES_MAX, Unusable};
use serde_json::Value;

use crate::kept::Kept;
use crate::logged::LoggedFaults;
use crate::reference::Places;

/// Schemas that stay in memory after they were read: a hostile one takes some 10 MiB.
const SCHEMAS_MAX: usize = 32;

/// Time to wait for a schema to be read: a large one takes some 20 ms.
const READ_TIME: Duration = Duration::from_secs(2);

/// Checks that run at a time.
const CHECKS_MAX: usize = 8;

/// The same for one upstream. The places are taken in the order of the requests, and a check takes half a
/// second at most: another upstream has its turn soon.
const CHECKS_OF_UPSTREAM_MAX: usize = 4;

/// Time that the checks of one call wait for their turns, all of them together. Without a turn, a check has
/// no result.
const TURN_TIME: Duration = Duration::from_secs(5);

/// Schemas that are read at a time. They do not wait for checks: [`READ_TIME`] is for readings alone.
const READINGS_MAX: usize = 4;

/// The same for one upstream.
const READINGS_OF_UPSTREAM_MAX: usize = 2;

/// Characters of a tool's name in the log.
const LOGGED_CHARS_MAX: usize = 128;

/// A schema in the definition of a tool. Nothing of it was read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ToolSchema {
    item: Bytes,
    member: &'static str,
}

impl ToolSchema {
    /// The schema for arguments in a listed tool.
    pub(crate) fn input(item: &Bytes) -> Self {
        Self { item: item.clone(), member: "inputSchema" }
    }

    /// The schema for structured results in a listed tool.
    pub(crate) fn output(item: &Bytes) -> Self {
        Self { item: item.clone(), member: "outputSchema" }
    }

    /// Reads the schema; nothing if the tool has none.
    fn read(&self, stop: &AtomicBool) -> Result<Option<ForeignSchema>, Unusable> {
        if self.item.is_empty() {
            return Ok(None);
        }
        let item: Value = serde_json::from_slice(&self.item).map_err(|_| Unusable::Malformed)?;
        match item.get(self.member) {
            None | Some(Value::Null) => Ok(None),
            Some(schema) => ForeignSchema::of(schema, stop).map(Some),
        }
    }
}

impl fmt::Debug for ToolSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSchema").field("member", &self.member).finish_non_exhaustive()
    }
}

type ReadSchema = Result<Option<Arc<ForeignSchema>>, Unusable>;

/// The schemas of all upstream tools.
pub(crate) struct Schemas {
    known: Mutex<Kept<ToolSchema, ReadSchema>>,
    checks: Places,
    readings: Places,
    /// As [`TURN_TIME`].
    turn_time: Duration,
    /// Readings so far.
    read: AtomicU64,
    logged: LoggedFaults,
}

impl Default for Schemas {
    fn default() -> Self {
        Self {
            known: Mutex::new(Kept::new(SCHEMAS_MAX)),
            checks: Places::new(CHECKS_MAX, CHECKS_OF_UPSTREAM_MAX),
            readings: Places::new(READINGS_MAX, READINGS_OF_UPSTREAM_MAX),
            turn_time: TURN_TIME,
            read: AtomicU64::new(0),
            logged: LoggedFaults::default(),
        }
    }
}

impl Schemas {
    /// The schema of a tool, for checks of one call. Nothing if the tool has none.
    pub(crate) async fn checking(
        self: &Arc<Self>,
        (upstream, tool): (&str, &str),
        schema: &ToolSchema,
    ) -> Option<Checking> {
        let found = self.found(upstream, schema).await;
        let about = About {
            schemas: Arc::clone(self),
            upstream: upstream.to_owned(),
            tool: tool.to_owned(),
            member: schema.member,
        };
        if let Err(unusable) = &found {
            about.log(&unusable.to_string());
        }
        let schema = found.transpose()?.ok();
        Some(Checking { schema, about, stop: Stop::default() })
    }

    /// Reads a schema, unless that was done before.
    async fn found(&self, upstream: &str, schema: &ToolSchema) -> ReadSchema {
        // It is not remembered: the memory is for small ones, and finding it there reads all of it.
        if schema.item.len() > SCHEMA_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(schema);
        if let Some(before) = before {
            return before;
        }
        let reading = async {
            let place = self.readings.take(upstream.to_owned()).await;
            // Another call may have read it meanwhile.
            let before = known().get(schema);
            if let Some(before) = before {
                return before;
            }
            let (schema, stop) = (schema.clone(), Stop::default());
            let flag = stop.flag();
            self.read.fetch_add(1, Ordering::Relaxed);
            let read = tokio::task::spawn_blocking(move || {
                let read = schema.read(&flag);
                drop(place);
                read
            });
            // An engine that panics is a fault of the schema.
            read.await.unwrap_or(Err(Unusable::Malformed)).map(|read| read.map(Arc::new))
        };
        let read = tokio::time::timeout(READ_TIME, reading).await.unwrap_or(Err(Unusable::Stopped));
        if read.as_ref().err() != Some(&Unusable::Stopped) {
            known().put(schema.clone(), read.clone());
        }
        read
    }

    /// Readings so far.
    #[cfg(test)]
    pub(crate) fn read_count(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").field("read", &self.read).finish_non_exhaustive()
    }
}

/// A tool's schema for the checks of one call. Dropping it ends them.
pub(crate) struct Checking {
    schema: Option<Arc<ForeignSchema>>,
    about: About,
    stop: Stop,
}

impl Checking {
    pub(crate) const fn is_usable(&self) -> bool {
        self.schema.is_some()
    }

    /// The part that goes to the thread of a check.
    pub(crate) fn job(&self) -> CheckingJob {
        let (schema, about) = (self.schema.clone(), self.about.clone());
        CheckingJob { schema, about, flag: self.stop.flag() }
    }
}

/// A tool's schema on the thread of a check.
pub(crate) struct CheckingJob {
    schema: Option<Arc<ForeignSchema>>,
    about: About,
    flag: Arc<AtomicBool>,
}

impl CheckingJob {
    /// The validator; no value fits a schema that cannot be used. A check blocks its thread until it has its
    /// turn.
    pub(crate) fn validator(&self) -> BoundedValidator {
        let Some(schema) = self.schema.clone() else { return BoundedValidator::unusable() };
        let turns = Turns::new(&self.about);
        BoundedValidator::new(schema)
            .stopped_by(Arc::clone(&self.flag))
            .admitted_by(move || turns.next())
    }

    /// Logs that a check took more than its budget.
    pub(crate) fn finish(&self, validator: &BoundedValidator) {
        if validator.is_over() && !self.flag.load(Ordering::Relaxed) {
            self.about.log("a check takes more steps than it may take, or has no turn in time");
        }
    }
}

/// The turns of the checks of one call.
struct Turns {
    schemas: Arc<Schemas>,
    upstream: String,
    /// Time that is left to wait for them.
    left: Cell<Duration>,
}

impl Turns {
    fn new(about: &About) -> Self {
        let schemas = Arc::clone(&about.schemas);
        let left = Cell::new(schemas.turn_time);
        Self { schemas, upstream: about.upstream.clone(), left }
    }

    /// A place among all checks, until it is dropped. None if there is none in time.
    fn next(&self) -> Option<Box<dyn Send>> {
        let began = Instant::now();
        let place = self.schemas.checks.take(self.upstream.clone());
        let place = wait(place, began + self.left.get());
        self.left.set(self.left.get().saturating_sub(began.elapsed()));
        place.map(|place| Box::new(place) as Box<dyn Send>)
    }
}

/// Blocks the thread until a future has ended, or until this time. No runtime is needed, and so the end of
/// one does not matter.
fn wait<T>(future: impl Future<Output = T>, until: Instant) -> Option<T> {
    struct Unparks(Thread);

    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        thread::park_timeout(left);
    }
}

/// The tool that a schema belongs to.
#[derive(Clone)]
struct About {
    schemas: Arc<Schemas>,
    upstream: String,
    tool: String,
    member: &'static str,
}

impl About {
    /// Logs a fault of the schema, the first time.
    fn log(&self, why: &str) {
        if !self.schemas.logged.is_first(&self.upstream, &self.tool, self.member) {
            return;
        }
        let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let tool: String = self.tool.chars().map(plain).take(LOGGED_CHARS_MAX).collect();
        let (upstream, member) = (&self.upstream, self.member);
        tracing::warn!(upstream, tool, member, why, "a schema cannot be used");
    }
}

/// Stops the work for a call when the call is over.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
