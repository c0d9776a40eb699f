//! A rate limit for the audit lines of refused calls.
//!
//! A refusal costs a caller nothing and the server two lines of audit. Without a limit, one caller
//! fills the disk with refusals and buries the lines of everybody else. So each caller, and all callers
//! together, have a token bucket. Past it, the lines of refused calls are left out and counted, and a
//! line `left_out` tells how many.
//!
//! Calls that are made are always written, with their start before their effect. The start of a call is
//! written before anybody knows whether the call is refused. So for a caller whose bucket is empty, the
//! start waits until the call has passed its checks ([`AuditSink::begun`]).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::audit::{AuditLine, AuditSink};
use crate::share::Share;

/// The seconds of refusals that a bucket saves up: a client that starts badly and corrects itself.
const BURST_S: f64 = 10.0;

/// Callers whose buckets are remembered. Those beyond share one bucket.
const CALLERS_MAX: usize = 10_000;

/// Starts that wait for the checks of their calls. Past that, starts are written at once.
const STARTS_MAX: usize = 10_000;

/// The rate of refused calls that the audit has lines of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct RefusalRate {
    /// Refused calls of all callers per second; 0 is 1.
    pub per_second: u32,
    /// The part of them that one identified caller may use.
    pub share: Share,
}

impl RefusalRate {
    /// Refused calls of all callers per second: about 400 KB of audit.
    pub const PER_SECOND: u32 = 800;
}

/// Leaves out the lines of refused calls that come faster than a rate, and counts them.
pub struct LimitedRefusals {
    sink: Arc<dyn AuditSink>,
    total: f64,
    per_caller: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    total: Option<Bucket>,
    callers: HashMap<Name, Caller>,
    /// The text of starts that wait, by call.
    starts: HashMap<String, Start>,
}

/// The issuer and the subject of a caller. Both are empty for unauthenticated callers and for those
/// that find no room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Name {
    issuer: Option<String>,
    subject: Option<String>,
}

impl Name {
    fn of(line: &AuditLine<'_>) -> Self {
        Self { issuer: line.issuer.map(str::to_owned), subject: line.subject.map(str::to_owned) }
    }
}

struct Caller {
    bucket: Bucket,
    /// Refused calls whose lines were left out, and not told of yet.
    left_out: u64,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    rate: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: f64, now: Instant) -> Self {
        Self { tokens: rate * BURST_S, rate, at: now }
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + gained).min(self.rate * BURST_S);
        self.at = now;
    }

    fn is_full(&self) -> bool {
        self.tokens >= self.rate * BURST_S
    }
}

/// The start of a call, as it will be written if the call passes its checks.
struct Start {
    at_ms: u64,
    surface: &'static str,
    operation: &'static str,
    name: String,
    caller: Name,
    continuation: Option<&'static str>,
    presented: Option<String>,
    key: Option<String>,
}

impl Start {
    fn of(line: &AuditLine<'_>) -> Self {
        Self {
            at_ms: line.at_ms,
            surface: line.surface,
            operation: line.operation,
            name: line.name.to_owned(),
            caller: Name::of(line),
            continuation: line.continuation,
            presented: line.presented.clone(),
            key: line.key.clone(),
        }
    }

    fn line<'a>(&'a self, call: &'a str) -> AuditLine<'a> {
        AuditLine {
            at_ms: self.at_ms,
            call,
            event: "start",
            surface: self.surface,
            operation: self.operation,
            name: &self.name,
            issuer: self.caller.issuer.as_deref(),
            subject: self.caller.subject.as_deref(),
            continuation: self.continuation,
            presented: self.presented.clone(),
            key: self.key.clone(),
            decision: None,
            reason: None,
            minted: None,
            duration_us: None,
            passed: None,
            left_out: None,
        }
    }
}

impl LimitedRefusals {
    /// Limits what goes to a sink.
    #[must_use]
    pub fn new(sink: Arc<dyn AuditSink>, rate: RefusalRate) -> Self {
        let total = rate.per_second.max(1);
        let per_caller = u32::try_from(rate.share.of(total.into())).unwrap_or(total);
        Self { sink, total: total.into(), per_caller: per_caller.into(), state: Mutex::default() }
    }

    /// Takes a token of the caller and one of all. Without both, nothing is taken.
    ///
    /// A refused call that finds a token is told after the count of those that found none.
    fn take(&self, line: &AuditLine<'_>, now: Instant) -> bool {
        let (is_taken, left_out) = {
            let mut state = self.state();
            let total = *state.total.get_or_insert_with(|| Bucket::full(self.total, now));
            let mut total = Bucket { ..total };
            total.fill(now);
            let caller = self.caller(&mut state, Name::of(line), now);
            caller.bucket.fill(now);
            let is_taken = caller.bucket.tokens >= 1.0 && total.tokens >= 1.0;
            let mut left_out = 0;
            if is_taken {
                caller.bucket.tokens -= 1.0;
                total.tokens -= 1.0;
                left_out = std::mem::take(&mut caller.left_out);
            }
            state.total = Some(total);
            (is_taken, left_out)
        };
        if left_out > 0 {
            self.write_count(line.at_ms, &Name::of(line), left_out);
        }
        is_taken
    }

    /// Gives a token back: the call was not refused.
    fn give_back(&self, line: &AuditLine<'_>) {
        let mut state = self.state();
        let state = &mut *state;
        let own = Name::of(line);
        // A caller that found no room has taken its token from the shared bucket.
        let name = if state.callers.contains_key(&own) { own } else { Name::default() };
        if let Some(caller) = state.callers.get_mut(&name) {
            caller.bucket.tokens += 1.0;
        }
        if let Some(total) = &mut state.total {
            total.tokens += 1.0;
        }
    }

    fn leave_out(&self, line: &AuditLine<'_>, now: Instant) {
        let mut state = self.state();
        let caller = self.caller(&mut state, Name::of(line), now);
        caller.left_out = caller.left_out.saturating_add(1);
    }

    fn caller<'a>(&self, state: &'a mut State, name: Name, now: Instant) -> &'a mut Caller {
        let callers = &mut state.callers;
        let mut name = name;
        if callers.len() >= CALLERS_MAX && !callers.contains_key(&name) {
            callers.retain(|_, caller| {
                caller.bucket.fill(now);
                !caller.bucket.is_full() || caller.left_out > 0
            });
            if callers.len() >= CALLERS_MAX {
                name = Name::default();
            }
        }
        let rate = if name.issuer.is_some() { self.per_caller } else { self.total };
        let new = || Caller { bucket: Bucket::full(rate, now), left_out: 0 };
        callers.entry(name).or_insert_with(new)
    }

    fn write_count(&self, at_ms: u64, caller: &Name, left_out: u64) {
        self.sink.write(&AuditLine {
            at_ms,
            call: "",
            event: "left_out",
            surface: "audit",
            operation: "refusals",
            name: "",
            issuer: caller.issuer.as_deref(),
            subject: caller.subject.as_deref(),
            continuation: None,
            presented: None,
            key: None,
            decision: None,
            reason: None,
            minted: None,
            duration_us: None,
            passed: None,
            left_out: Some(left_out),
        });
    }

    /// Holds a start back until its call has passed its checks. False if there is no room for it.
    fn hold_start(&self, line: &AuditLine<'_>) -> bool {
        let mut state = self.state();
        if state.starts.len() >= STARTS_MAX {
            return false;
        }
        state.starts.insert(line.call.to_owned(), Start::of(line));
        true
    }

    fn start(&self, line: &AuditLine<'_>) {
        if self.take(line, Instant::now()) || !self.hold_start(line) {
            self.sink.write(line);
        }
    }

    fn end(&self, line: &AuditLine<'_>) {
        let kept = self.state().starts.remove(line.call);
        match (line.decision, kept) {
            // Nobody waited for it any more, and it had not begun.
            (Some("refused" | "cancelled"), Some(_)) => self.leave_out(line, Instant::now()),
            (_, Some(start)) => {
                self.sink.write(&start.line(line.call));
                self.sink.write(line);
            }
            // Of something that was let in, and has no line of its start.
            (Some("refused" | "ended"), None) => self.sink.write(line),
            (_, None) => {
                self.give_back(line);
                self.sink.write(line);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditSink for LimitedRefusals {
    fn write(&self, line: &AuditLine<'_>) {
        match line.event {
            "start" => self.start(line),
            "end" => self.end(line),
            "refusal" if !self.take(line, Instant::now()) => {
                self.leave_out(line, Instant::now());
            }
            _ => self.sink.write(line),
        }
    }

    fn begun(&self, call: &str) {
        let kept = self.state().starts.remove(call);
        if let Some(start) = kept {
            self.sink.write(&start.line(call));
        }
    }

    fn flush(&self, now_ms: u64) {
        let told: Vec<_> = {
            let mut state = self.state();
            let due = state.callers.iter_mut().filter(|(_, caller)| caller.left_out > 0);
            due.map(|(name, caller)| (name.clone(), std::mem::take(&mut caller.left_out))).collect()
        };
        for (name, left_out) in told {
            self.write_count(now_ms, &name, left_out);
        }
        self.sink.flush(now_ms);
    }
}

impl fmt::Debug for LimitedRefusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedRefusals").field("sink", &self.sink).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Written(Mutex<Vec<String>>);

    impl Written {
        fn all(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    impl AuditSink for Written {
        fn write(&self, line: &AuditLine<'_>) {
            let told = line.left_out.map_or_else(|| line.call.to_owned(), |left| left.to_string());
            self.0.lock().unwrap().push(format!("{} {told}", line.event));
        }
    }

    fn line<'a>(event: &'static str, call: &'a str, subject: &'a str) -> AuditLine<'a> {
        let caller = Name { issuer: Some("i".to_owned()), subject: Some(subject.to_owned()) };
        let start = Start {
            at_ms: 1,
            surface: "mcp",
            operation: "call",
            name: String::new(),
            caller,
            continuation: None,
            presented: None,
            key: None,
        };
        let (issuer, subject) = (Some("i"), Some(subject));
        AuditLine { event, issuer, subject, call, name: "", ..start.line("") }.detached(call)
    }

    impl<'a> AuditLine<'a> {
        /// The same line without what it borrows from elsewhere.
        fn detached<'b>(self, call: &'b str) -> AuditLine<'b>
        where
            'a: 'b,
        {
            AuditLine { call, ..self }
        }
    }

    #[test]
    fn refused_calls_are_left_out_past_the_rate_and_counted() {
        let written = Arc::new(Written::default());
        let rate = RefusalRate { per_second: 2, share: Share::one_in(2) };
        let limited = LimitedRefusals::new(Arc::clone(&written) as _, rate);
        for number in 0..100 {
            let call = number.to_string();
            limited.write(&line("start", &call, "ada"));
            let refused = AuditLine { decision: Some("refused"), ..line("end", &call, "ada") };
            limited.write(&refused);
        }
        let lines = written.all();
        assert!(
            (20..=24).contains(&lines.len()),
            "ten pairs, and what a slow test gains: {lines:?}"
        );
        limited.flush(2);
        let left_out: u64 = (100 * 2 - lines.len() as u64) / 2;
        assert_eq!(written.all().last().unwrap(), &format!("left_out {left_out}"));
        // Another caller has tokens of its own.
        limited.write(&line("refusal", "b", "bob"));
        assert_eq!(written.all().last().unwrap(), "refusal b");
    }

    #[test]
    fn calls_that_are_made_refund_the_bucket_that_callers_without_room_share() {
        let rate = RefusalRate { per_second: 8, share: Share::one_in(8) };
        let limited = LimitedRefusals::new(Arc::new(Written::default()), rate);
        for number in 0..CALLERS_MAX + 100 {
            limited.write(&line("refusal", "x", &number.to_string()));
        }
        // A refusal that is counted and not told of keeps the room of its caller.
        limited.state().callers.values_mut().for_each(|caller| caller.left_out = 1);
        limited.state().total = None;
        let shared = |limited: &LimitedRefusals| {
            limited.state().callers.get(&Name::default()).map(|caller| caller.bucket.tokens)
        };
        let before = shared(&limited).unwrap();
        for _ in 0..50 {
            limited.write(&line("start", "made", "zoe"));
            limited.write(&AuditLine { decision: Some("answered"), ..line("end", "made", "zoe") });
        }
        assert!(!limited.state().callers.contains_key(&Name::of(&line("start", "made", "zoe"))));
        assert!(shared(&limited).unwrap() >= before);
    }

    #[test]
    fn calls_that_are_made_are_always_written_with_their_start_first() {
        let written = Arc::new(Written::default());
        let rate = RefusalRate { per_second: 1, share: Share::one_in(8) };
        let limited = LimitedRefusals::new(Arc::clone(&written) as _, rate);
        for _ in 0..20 {
            limited.write(&line("refusal", "x", "ada"));
        }
        let before = written.all().len();
        limited.write(&line("start", "made", "ada"));
        assert_eq!(written.all().len(), before, "nobody knows yet whether it is refused");
        limited.begun("made");
        limited.write(&AuditLine { decision: Some("answered"), ..line("end", "made", "ada") });
        assert_eq!(written.all()[before..], ["start made", "end made"]);
        limited.write(&line("start", "quick", "ada"));
        limited.write(&AuditLine { decision: Some("failed"), ..line("end", "quick", "ada") });
        let all = written.all();
        let tail: Vec<_> = all[before + 2..].iter().filter(|l| !l.starts_with("left")).collect();
        assert_eq!(tail, ["start quick", "end quick"]);
    }
}
