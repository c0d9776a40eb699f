//! From the questions of clients to the answers of upstreams.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use handback_identity::{Caller, Scopes};
use handback_mcp::Era;
use handback_mcp::server::McpServer;
use handback_mcp::server::tasks::Tasks;
use handback_mcp::wire::Object;
use handback_token::Operation;
use handback_tool::metrics::UpstreamMetrics;
use handback_tool::{Exhausted, Pipeline, QuestionKind, Refusal, Surface};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bridge::{self, Around, Parking};
use crate::catalog::{Catalog, Catalogs, OWN, member};
use crate::eras::{Found, Speaks};
use crate::kept::Kept;
use crate::listening::{self, LISTENING_TIME, Told};
use crate::lists::List;
use crate::once::Cuts;
use crate::options::Options;
use crate::programs::ProgramAccount;
use crate::reference::Places;
use crate::retry::{Delivery, Retries};
use crate::schemas::Schemas;
use crate::slot::{ENDS_AT_ONCE, Greeting, Slot, Source};
use crate::slow::TASKS;
use crate::talk::{Question, Talk, WAITING_MAX};
use crate::tasks::TASK_METHODS;
use crate::upstream::{
    Answer, Ask, Ending, Line, LineError, Opening, Raw, SET_LEVEL, Spec, own_params,
};
use crate::words::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND};

/// Lines of single callers that are kept open, to our own tools and to older upstreams. The one that was
/// not used for longest makes room: what is under way on it goes on, and it comes back when it is wanted.
const LINES_MAX: usize = 256;

/// Identical calls that became tasks and whose results were not read yet: those that are not remembered
/// count as not delivered for a minute.
const DELIVERIES_MAX: usize = 1_024;

/// Questions that wait for a line to one upstream at most, whoever asks.
const OPENING_MAX: usize = 1_024;

/// How long a server may take to say what it is.
const DISCOVERY_TIME: Duration = Duration::from_secs(10);

/// How long one of several upstreams may take where all are asked: after that, it is left out.
pub(crate) const TOGETHER_TIME: Duration = Duration::from_secs(10);

/// Upstreams of one gateway at most: a place in a list has a byte for them.
pub const UPSTREAMS_MAX: usize = 64;

/// Time for a program to end that makes room for another one.
const PROGRAM_END_TIME: Duration = Duration::from_secs(3);

/// Time between two looks whether it has ended.
const ROOM_INTERVAL: Duration = Duration::from_millis(20);

/// Servers that are not ours, and our own tools, as one server. Clones are the same one.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    upstreams: Vec<Arc<Spec>>,
    /// What is counted of each.
    metrics: Vec<Arc<UpstreamMetrics>>,
    /// Lines of the newer era, which all callers share.
    modern: Vec<Slot>,
    /// Which era each upstream speaks, once that is known: the newer, if it speaks both.
    eras: Vec<Found>,
    /// Lines of the older era that all callers share, where that is configured.
    shared: Vec<Option<Arc<Slot>>>,
    /// Lines of the older era for newer clients, by caller and upstream.
    bridges: Mutex<Kept<(String, usize), Bridge>>,
    /// Places for those who wait for a line, by upstream.
    opening: Vec<Arc<Semaphore>>,
    parking: Parking,
    retries: Retries,
    /// Answers of identical calls that became tasks, by the ids of these.
    deliveries: Mutex<Kept<String, Delivery>>,
    /// For those whose arguments name held values.
    resolving: Places,
    /// Our own tools.
    own: McpServer,
    /// Lines to them, by caller, with what the caller was granted: the line has it.
    own_lines: Mutex<Kept<String, (Scopes, Arc<Slot>)>>,
    pipeline: Arc<Pipeline>,
    options: Options,
    catalogs: Catalogs,
    /// The end of all lines to upstreams, those of sessions as well.
    ending: Ending,
    /// Results of tasks that were held.
    cuts: Cuts,
    /// Schemas of upstream tools that were read.
    schemas: Arc<Schemas>,
}

/// A line of the older era for a newer client, and what is said on it.
#[derive(Clone)]
struct Bridge {
    slot: Arc<Slot>,
    told: Told,
    /// Cancelled when it is not kept any more.
    gone: CancellationToken,
    _kept: Arc<DropGuard>,
}

/// Ends the idle line for a newer client that was not used for longest, and waits until there is room for
/// one more program of a caller. For a caller at its share, that is a line of its own. False if there is no
/// such line, or no room in time.
pub(crate) async fn make_room(gateway: &Gateway, caller: &Caller, part: Exhausted) -> bool {
    let binding = caller.principal().binding();
    let ended = {
        let mut bridges = gateway.0.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.take_oldest(|(owner, _), bridge| {
            (part == Exhausted::Total || *owner == binding) && bridge.slot.is_idle()
        })
    };
    if ended.is_none() {
        return false;
    }
    drop(ended);
    let programs = &gateway.0.options.programs;
    let most = programs.limit_of_stored(&binding);
    let has_room =
        || programs.used() < programs.total() && programs.used_by_stored(&binding) < most;
    let freed = async {
        while !has_room() {
            tokio::time::sleep(ROOM_INTERVAL).await;
        }
    };
    tokio::time::timeout(PROGRAM_END_TIME, freed).await.is_ok()
}

/// The reason why an upstream is not there for a client, with the cause of its last start if that failed.
pub(crate) fn cause_of(gateway: &Gateway, talk: &Talk, which: usize) -> LineError {
    let cause = match &talk.session {
        Some(session) => session.cause(which),
        None => gateway.0.modern.get(which).and_then(Slot::cause),
    };
    cause.unwrap_or_else(|| LineError::Unreachable(String::new()))
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.0.upstreams).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway before these upstreams. `own` is the server of our own tools, on the same pipeline;
    /// `retries` is what was tried lately.
    #[must_use]
    pub fn new(
        upstreams: Vec<Spec>,
        own: McpServer,
        pipeline: Arc<Pipeline>,
        options: Options,
        retries: Retries,
    ) -> Self {
        // What stands behind a direct one is Handback, which says who it is itself.
        let passing =
            |spec: Spec| Spec { passes_marks: spec.passes_marks || options.is_direct, ..spec };
        let upstreams = upstreams.into_iter().take(UPSTREAMS_MAX).map(passing);
        let upstreams: Vec<_> = upstreams.map(Arc::new).collect();
        let metrics: Vec<_> =
            upstreams.iter().map(|spec| pipeline.metrics().upstream(&spec.name)).collect();
        let ending = Ending::default();
        let modern = upstreams.iter().zip(&metrics).map(|(spec, metrics)| {
            // Nothing of the newer era belongs to no question.
            let (sender, _) = mpsc::channel(1);
            let source = Source::Upstream(Arc::clone(spec), Arc::clone(metrics), ending.clone());
            let greeting = match (spec.is_program(), spec.is_shared) {
                (false, _) => Greeting::Known(Opening::Modern),
                (true, true) => Greeting::Either { initialize: bridge::shared_greeting() },
                (true, false) => Greeting::Either { initialize: bridge::greeting() },
            };
            Slot::new(source, greeting, sender)
        });
        let modern = modern.collect();
        let shared = upstreams.iter().zip(&metrics).map(|(spec, metrics)| {
            spec.is_shared.then(|| {
                // What belongs to no question is heard by nobody.
                let (sender, _) = mpsc::channel(1);
                let source =
                    Source::Upstream(Arc::clone(spec), Arc::clone(metrics), ending.clone());
                let opening = Opening::Legacy { initialize: bridge::shared_greeting() };
                Arc::new(Slot::new(source, opening, sender))
            })
        });
        let shared = shared.collect();
        let eras = upstreams.iter().map(|_| Found::default()).collect();
        let places = || Arc::new(Semaphore::new(OPENING_MAX));
        let opening = (0..=upstreams.len()).map(|_| places()).collect();
        Self(Arc::new(Inner {
            upstreams,
            metrics,
            modern,
            shared,
            eras,
            bridges: Mutex::new(Kept::new(LINES_MAX)),
            opening,
            parking: Parking::default(),
            retries,
            deliveries: Mutex::new(Kept::new(DELIVERIES_MAX)),
            resolving: Places::default(),
            own,
            own_lines: Mutex::new(Kept::new(LINES_MAX)),
            pipeline,
            options,
            catalogs: Catalogs::default(),
            ending,
            cuts: Cuts::default(),
            schemas: Arc::default(),
        }))
    }

    /// Whether everything is passed on as it is.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.options.is_direct
    }

    /// Ends all lines to upstreams, those of sessions as well: nothing is asked any more. Waits until
    /// the programs behind have ended and the sessions there were taken leave of, and not for longer
    /// than programs have that do not want to end. Once `hurry` resolves, those have less time.
    pub async fn close(&self, hurry: impl Future<Output = ()>) {
        self.0.ending.end(hurry).await;
    }

    /// Whether a server was started, or connected to, and none ever came up.
    #[must_use]
    pub fn never_came_up(&self) -> bool {
        self.0.ending.never_came_up()
    }

    pub(crate) fn pipeline(&self) -> &Arc<Pipeline> {
        &self.0.pipeline
    }

    /// Waits until no call is under way that is recorded, and what is recorded is on the disk.
    pub async fn settled(&self) {
        self.pipeline().settled().await;
        let retries = self.retries().clone();
        let flushed = tokio::task::spawn_blocking(move || retries.flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("what was tried without a key is not known after a restart");
        }
    }

    /// Answers of identical calls that became tasks.
    pub(crate) fn deliveries(&self) -> MutexGuard<'_, Kept<String, Delivery>> {
        self.0.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schemas of upstream tools.
    pub(crate) fn schemas(&self) -> &Arc<Schemas> {
        &self.0.schemas
    }

    /// Places for those who have held values put into arguments.
    pub(crate) fn resolving(&self) -> &Places {
        &self.0.resolving
    }

    /// What was tried lately.
    #[must_use]
    pub fn retries(&self) -> &Retries {
        &self.0.retries
    }

    pub(crate) fn cuts(&self) -> &Cuts {
        &self.0.cuts
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The number of our own tools among upstreams: the last one.
    pub(crate) fn own(&self) -> usize {
        self.0.upstreams.len()
    }

    /// The name of an upstream.
    pub(crate) fn name_of(&self, which: usize) -> &str {
        self.0.upstreams.get(which).map_or(OWN, |spec| spec.name.as_str())
    }

    /// The number of the upstream of this name.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        let known = self.0.upstreams.iter().position(|spec| spec.name == name);
        known.or_else(|| (name == OWN).then(|| self.own()))
    }

    /// What a session has lines to.
    pub(crate) fn sources(&self, caller: &Caller) -> Vec<Source> {
        let upstreams = (0..self.own()).filter_map(|which| self.source(which));
        let own = (!self.0.options.is_direct).then(|| self.own_source(caller));
        upstreams.chain(own).collect()
    }

    /// Whether an upstream is a program that is started here.
    pub(crate) fn is_program(&self, which: usize) -> bool {
        self.0.upstreams.get(which).is_some_and(|spec| spec.is_program())
    }

    /// The line that all callers share, if they do.
    pub(crate) fn shared(&self, which: usize) -> Option<&Arc<Slot>> {
        self.0.shared.get(which)?.as_ref()
    }

    /// Whether what an upstream lists for this client is for all whom its catalog is for: that of a
    /// session is its own, and newer callers are on one line, unless the upstream is of the older era
    /// and not shared.
    pub(crate) fn lists_for_all(&self, talk: &Talk, which: usize) -> bool {
        talk.session.is_some() || self.shared(which).is_some() || self.is_newer(which)
    }

    fn source(&self, which: usize) -> Option<Source> {
        let (spec, metrics) = (self.0.upstreams.get(which)?, self.0.metrics.get(which)?);
        Some(Source::Upstream(Arc::clone(spec), Arc::clone(metrics), self.0.ending.clone()))
    }

    /// What is counted of an upstream; nothing of our own tools, which the pipeline counts.
    pub(crate) fn metrics_of(&self, which: usize) -> Option<&Arc<UpstreamMetrics>> {
        self.0.metrics.get(which)
    }

    fn own_source(&self, caller: &Caller) -> Source {
        Source::Own(self.0.own.for_session(), caller.clone())
    }

    /// The line to an upstream for this client. One that is not there yet comes about in a task of
    /// its own: who stops waiting for it does not undo it.
    pub(crate) async fn line(&self, talk: &Talk, which: usize) -> Result<Line, LineError> {
        if let Some(session) = &talk.session {
            return session.line(which).await;
        }
        if self.is_newer(which)
            && let Some(line) = self.0.modern.get(which).and_then(Slot::open_line)
        {
            return Ok(line);
        }
        if let Some(line) = self.open_line(talk, which) {
            return Ok(line);
        }
        let places = self.0.opening.get(which).ok_or(LineError::Era)?;
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            return Err(LineError::Busy);
        };
        let (gateway, talk) = (self.clone(), talk.without_client());
        let found = tokio::spawn(async move {
            let found = gateway.find_line(&talk, which).await;
            drop(place);
            found
        });
        found.await.unwrap_or(Err(LineError::Lost))
    }

    /// Whether an upstream is known to speak the newer era.
    fn is_newer(&self, which: usize) -> bool {
        let is_modern = |found: &Found| found.known().is_some_and(|it| it.era == Era::Modern);
        self.0.eras.get(which).is_some_and(is_modern)
    }

    /// The line of this caller alone, if it is there.
    fn open_line(&self, talk: &Talk, which: usize) -> Option<Line> {
        let binding = talk.caller.principal().binding();
        if which == self.own() {
            let mut lines = self.0.own_lines.lock().unwrap_or_else(PoisonError::into_inner);
            let known = lines.get(&binding).filter(|(scopes, _)| scopes == talk.caller.scopes());
            return known.and_then(|(_, slot)| slot.open_line());
        }
        let is_older = |found: &Found| found.known() == Some(Speaks::OLDER);
        self.0.eras.get(which).filter(|found| is_older(found))?;
        if let Some(shared) = self.shared(which) {
            return shared.open_line();
        }
        let mut bridges = self.0.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.get(&(binding, which)).and_then(|bridge| bridge.slot.open_line())
    }

    async fn find_line(&self, talk: &Talk, which: usize) -> Result<Line, LineError> {
        if let Some(found) = self.0.eras.get(which) {
            let known = found.known();
            let line = match self.speaks(which).await?.era {
                Era::Modern => self.modern_line(which).await,
                _ => self.bridge(&talk.caller, which).await,
            };
            if known == Some(Speaks::OLDER) && self.is_program(which) && did_not_start(&line) {
                // It may be another program than it was, which ends over `initialize`. Connections that are
                // open go on in the era that they have.
                let slot = self.0.modern.get(which).ok_or(LineError::Era)?;
                let Ok(newer) = slot.line().await else { return line };
                if newer.era() == Era::Modern {
                    found.learn(spoken(&newer));
                    return Ok(newer);
                }
                return self.bridge(&talk.caller, which).await;
            }
            let Some(known) = known.filter(|_| matches!(line, Err(LineError::Era))) else {
                return line;
            };
            // It is another server than it was.
            found.forget();
            let speaks = self.speaks(which).await.inspect_err(|_| {
                // It does not start now. Connections that are open go on in the era that they have.
                found.learn(known);
            })?;
            return match speaks.era {
                Era::Modern => self.modern_line(which).await,
                _ => self.bridge(&talk.caller, which).await,
            };
        }
        let binding = talk.caller.principal().binding();
        let slot = {
            let mut lines = self.0.own_lines.lock().unwrap_or_else(PoisonError::into_inner);
            let granted = talk.caller.scopes();
            match lines.get(&binding).filter(|(scopes, _)| scopes == granted) {
                Some((_, slot)) => slot,
                None => {
                    let (sender, _) = mpsc::channel(1);
                    let source = self.own_source(&talk.caller);
                    let slot = Arc::new(Slot::new(source, Opening::Modern, sender));
                    lines.put(binding, (granted.clone(), Arc::clone(&slot)));
                    slot
                }
            }
        };
        slot.line().await
    }

    /// The line of the newer era to an upstream.
    pub(crate) async fn modern_line(&self, which: usize) -> Result<Line, LineError> {
        let line = self.0.modern.get(which).ok_or(LineError::Era)?.line().await?;
        // A program may turn out to be of the older era.
        if line.era() == Era::Modern { Ok(line) } else { Err(LineError::Era) }
    }

    /// Whether an upstream makes tasks itself. One that cannot be asked makes none now.
    pub(crate) async fn has_tasks(&self, which: usize) -> bool {
        self.speaks(which).await.is_ok_and(|speaks| speaks.has_tasks)
    }

    /// The same, as far as it is known already.
    pub(crate) fn is_known_for_tasks(&self, which: usize) -> bool {
        let known = self.0.eras.get(which).and_then(Found::known);
        known.is_some_and(|speaks| speaks.has_tasks)
    }

    /// What an upstream speaks. It is asked once, unless the answer is not certain.
    async fn speaks(&self, which: usize) -> Result<Speaks, LineError> {
        let Some(found) = self.0.eras.get(which) else {
            return Ok(Speaks { era: Era::Modern, has_tasks: true });
        };
        if let Some(known) = found.known() {
            return Ok(known);
        }
        let _asking = found.asking().await;
        if let Some(known) = found.known() {
            return Ok(known);
        }
        if let Some(slot) = self.0.modern.get(which).filter(|_| self.is_program(which)) {
            if self.shared(which).is_some_and(|shared| shared.open_line().is_some()) {
                // One that is shared has one process, and that of older clients is there.
                found.learn(Speaks::OLDER);
                return Ok(Speaks::OLDER);
            }
            let speaks = spoken(&slot.line().await?);
            found.learn(speaks);
            return Ok(speaks);
        }
        if found.was_unclear() {
            return Ok(Speaks::OLDER);
        }
        let answer = self.modern_line(which).await?.ask(discovery()).await;
        if let Ok(Answer::Result(raw)) = &answer {
            let speaks = Speaks { era: Era::Modern, has_tasks: says_tasks(raw) };
            raw.in_memory().iter().for_each(|hello| self.0.catalogs.handbacks.note(which, hello));
            found.learn(speaks);
            return Ok(speaks);
        }
        if let Err(error @ (LineError::Unreachable(_) | LineError::Busy)) = answer {
            return Err(error);
        }
        // It did not understand the question.
        if let Some(slot) = self.0.modern.get(which) {
            slot.drop_line();
        }
        // One that was slow or broke down, or something between that did, may speak either: the
        // handshake will tell.
        let is_unclear = matches!(
            answer,
            Err(LineError::Lost | LineError::TimedOut | LineError::Refused(500..))
        );
        if !is_unclear {
            found.learn(Speaks::OLDER);
        } else if matches!(answer, Err(LineError::TimedOut)) {
            // Others who wait do not wait as long as this one once more.
            found.is_unclear();
        }
        Ok(Speaks::OLDER)
    }

    /// The line of the older era to an upstream, for a caller of the newer one.
    async fn bridge(&self, caller: &Caller, which: usize) -> Result<Line, LineError> {
        let Some(source) = self.source(which) else { return Err(LineError::Era) };
        let slot = if let Some(shared) = self.shared(which) {
            Arc::clone(shared)
        } else {
            let mut bridges = self.0.bridges.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (caller.principal().binding(), which);
            let known = bridges.get(&key).map(|bridge| bridge.slot);
            known.unwrap_or_else(|| {
                let (sender, heard) = mpsc::channel(WAITING_MAX);
                let opening = Opening::Bridged { initialize: bridge::greeting() };
                let slot = Slot::new(source, opening, sender);
                let (programs, gate) = (&self.0.options.programs, self.0.pipeline.gate());
                let account = ProgramAccount::new(programs, gate, caller);
                let slot = Arc::new(slot.on_account(account));
                let told = Told::new();
                let gateway = Arc::downgrade(&self.0);
                let changed = move || {
                    if let Some(gateway) = gateway.upgrade() {
                        gateway.catalogs.forget();
                    }
                };
                tokio::spawn(listening::pass_on(heard, told.clone(), changed));
                let gone = CancellationToken::new();
                let kept = Arc::new(gone.clone().drop_guard());
                bridges.put(key, Bridge { slot: Arc::clone(&slot), told, gone, _kept: kept });
                slot
            })
        };
        // The program that was started to find its era is as good as another one.
        if slot.open_line().is_none()
            && let Some(modern) = self.0.modern.get(which)
            && let Some((line, heard)) = modern.take_older().await
        {
            slot.take_over(line, heard).await;
        }
        let mut line = slot.line().await;
        if let Err(LineError::OverQuota(part)) = line
            && make_room(self, caller, part).await
        {
            line = slot.line().await;
        }
        let hello = line.as_ref().ok().and_then(Line::hello);
        hello.into_iter().for_each(|hello| self.0.catalogs.handbacks.note(which, hello));
        if let Some(found) = self.0.eras.get(which) {
            match &line {
                Ok(_) if found.known().is_none() => found.learn(Speaks::OLDER),
                // It is another server than it was.
                Err(LineError::Era) => found.forget(),
                _ => {}
            }
        }
        line
    }

    /// What an older upstream says to this caller without being asked, and until when it is heard;
    /// nothing, where it is shared.
    pub(crate) fn told_by_older(
        &self,
        talk: &Talk,
        which: usize,
    ) -> Option<(Told, CancellationToken)> {
        let key = (talk.caller.principal().binding(), which);
        let mut bridges = self.0.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        bridges.get(&key).map(|bridge| (bridge.told, bridge.gone))
    }

    /// What an older client is greeted with by an upstream that speaks the newer era only.
    pub(crate) async fn welcome_by_newer(&self, which: usize, initialize: &[u8]) -> Option<Bytes> {
        let line = self.modern_line(which).await.ok()?;
        let Ok(Answer::Result(raw)) = line.ask(discovery()).await else { return None };
        let hello = raw.in_memory()?;
        self.0.catalogs.handbacks.note(which, hello);
        bridge::welcomed(hello, initialize)
    }

    /// Asks an upstream, whatever the eras of the two are.
    pub(crate) async fn asked(
        &self,
        talk: &Talk,
        which: usize,
        ask: Ask,
    ) -> Result<Answer, LineError> {
        let Some(name) = bridge::comes_back(talk.era, &ask) else {
            return self.asked_anew(talk, which, ask).await;
        };
        // What is parked goes on where it is, whether or not there is another line now. It has begun:
        // that it cannot go on does not mean that nothing happened.
        let listeners = |method, params| self.tell_listeners(talk, which, method, params);
        let around = Around { parking: &self.0.parking, listeners: &listeners };
        let gone_on = bridge::gone_on(talk.clone(), &name, &ask, around);
        match Box::pin(gone_on).await {
            Some(answered) => noted(self.metrics_of(which), answered),
            // It is the server's own, which only looks like it.
            None if self.is_newer(which) => self.asked_anew(talk, which, ask).await,
            None => self.asked_anew(talk, which, ask).await.map_err(bridge::begun),
        }
    }

    /// Asks on the line that there is. One that is found gone, so that nothing was asked, is opened once
    /// more.
    async fn asked_anew(&self, talk: &Talk, which: usize, ask: Ask) -> Result<Answer, LineError> {
        // Until there is a line, nothing is asked.
        let unreached = |error: LineError| match error {
            LineError::Unreachable(why) => LineError::Unreachable(why),
            error => LineError::Unreachable(error.to_string()),
        };
        // The other half of the time is to ask.
        let limit = ask.time_limit.map_or(Duration::MAX, |limit| limit / 2);
        let opening = Box::pin(tokio::time::timeout(limit, self.line(talk, which)));
        let message = format!("the server `{}` is starting", self.name_of(which));
        let params = ask.params.as_deref();
        let line = talk.waiting(params, &message, opening).await;
        let line = line.unwrap_or(Err(LineError::TimedOut)).map_err(unreached)?;
        if line.is_shared() && words::is_for_all(&ask.method) {
            return Ok(words::for_all_callers());
        }
        if !self.is_direct()
            && let Some(answer) = set_level_here(talk, &line, &ask)
        {
            return Ok(answer);
        }
        let answered = match self.asked_on(talk.clone(), which, line.clone(), ask.clone()).await {
            Err(LineError::Unreachable(_)) if line.is_closed() => {
                let line = self.line(talk, which).await.map_err(unreached)?;
                self.asked_on(talk.clone(), which, line, ask).await
            }
            answered => answered,
        };
        noted(self.metrics_of(which), answered)
    }

    async fn asked_on(
        &self,
        talk: Talk,
        which: usize,
        line: Line,
        ask: Ask,
    ) -> Result<Answer, LineError> {
        if talk.era == line.era() {
            return self.relayed(talk, (which, line), ask).await;
        }
        let of_caller = talk.clone();
        let listeners = |method, params| self.tell_listeners(&of_caller, which, method, params);
        let around = Around { parking: &self.0.parking, listeners: &listeners };
        Box::pin(bridge::asked(talk, (which, line), ask, around)).await
    }

    /// An older upstream says beside a call of this caller that something has changed.
    fn tell_listeners(&self, talk: &Talk, which: usize, method: String, params: Option<Bytes>) {
        if method.ends_with("/list_changed") {
            self.forget(talk);
        }
        if let Some((told, _)) = self.told_by_older(talk, which) {
            told.say(method, params);
        }
    }

    /// What is known of upstreams for all sessions.
    pub(crate) fn common_catalogs(&self) -> &Catalogs {
        &self.0.catalogs
    }

    fn catalogs<'a>(&'a self, talk: &'a Talk) -> &'a Catalogs {
        talk.session.as_ref().map_or(&self.0.catalogs, |session| &session.catalogs)
    }

    /// What there is, under which names.
    pub(crate) async fn catalog(&self, talk: &Talk) -> Arc<Catalog> {
        Box::pin(self.catalogs(talk).current(self, talk)).await
    }

    /// The same, as far as it is known already.
    pub(crate) fn known_catalog(&self, talk: &Talk) -> Option<Arc<Catalog>> {
        self.catalogs(talk).now()
    }

    /// What there is under a name.
    pub(crate) async fn found<T>(
        &self,
        talk: &Talk,
        find: impl Fn(&Catalog) -> Option<T>,
    ) -> Option<T> {
        Box::pin(self.catalogs(talk).find(self, talk, find)).await
    }

    /// The same for lists.
    pub(crate) async fn catalog_of_lists(&self, talk: &Talk) -> Arc<Catalog> {
        Box::pin(self.catalogs(talk).unless_outdated(self, talk)).await
    }

    /// The same, before something is said to be unknown.
    pub(crate) async fn recent_catalog(&self, talk: &Talk) -> Arc<Catalog> {
        Box::pin(self.catalogs(talk).recent(self, talk)).await
    }

    /// The same, after something turned out to be otherwise than it is known.
    pub(crate) async fn catalog_anew(&self, talk: &Talk) -> Arc<Catalog> {
        Box::pin(self.catalogs(talk).anew(self, talk)).await
    }

    /// Looks at what there is, unless somebody did within this time.
    pub(crate) async fn look_again(&self, talk: &Talk, age: Duration) {
        self.catalogs(talk).looked_at(self, talk, age).await;
    }

    /// Forgets what there is: it has changed.
    pub(crate) fn forget(&self, talk: &Talk) {
        self.catalogs(talk).forget();
    }

    /// Answers a question.
    pub async fn ask(
        &self,
        talk: &Talk,
        question: Question<'_>,
        cancel: CancellationToken,
    ) -> Answer {
        if self.0.options.is_direct {
            return self.straight(talk, question, cancel).await;
        }
        let kind = match question.method {
            // The pipeline lets calls in itself.
            "tools/call" => return self.call_tool(talk, question, cancel).await,
            "prompts/get" => return self.call(talk, question, Operation::Prompt, cancel).await,
            "resources/read" => return self.call(talk, question, Operation::Read, cancel).await,
            "ping" if talk.era == Era::Legacy => return words::result(&json!({})),
            "subscriptions/listen" if talk.era == Era::Modern => QuestionKind::Listening,
            method if is_known(method) => QuestionKind::Short,
            _ => QuestionKind::Unknown,
        };
        let pipeline = &self.0.pipeline;
        match pipeline.let_in_question(&talk.caller, Surface::Mcp, question.method, kind) {
            Ok(let_in) => {
                let answer = tokio::select! {
                    answer = self.answer(talk, question) => answer,
                    () = cancel.cancelled() => words::refusal(talk.era, &Refusal::Cancelled),
                };
                let_in.answered(matches!(answer, Answer::Error(_)));
                answer
            }
            Err(refusal) => {
                let data = json!({"reason": refusal.reason()});
                words::refused(INTERNAL_ERROR, &refusal.to_string(), Some(data))
            }
        }
    }

    /// Answers a question that is no call, and that was let in.
    async fn answer(&self, talk: &Talk, question: Question<'_>) -> Answer {
        if let Some(list) = List::of_method(question.method) {
            return Box::pin(self.list(talk, &question, list)).await;
        }
        match question.method {
            "resources/subscribe" | "resources/unsubscribe" => {
                self.about_resource(talk, question).await
            }
            "completion/complete" => self.complete(talk, question).await,
            "server/discover" => self.discover(talk, question).await,
            "subscriptions/listen" if talk.era == Era::Modern => {
                // It is large, and made rarely.
                Box::pin(self.listen(talk, question)).await
            }
            SET_LEVEL => {
                let level = question.params.and_then(|params| text_of(params, "level"));
                let answer = self.everywhere(talk, question).await;
                note_level(talk, level, &answer);
                answer
            }
            method if method.starts_with("tasks/") => self.task(talk, question).await,
            _ if self.own() == 1 => self.pass(talk, 0, &question, question.params_bytes()).await,
            method => {
                let message = format!("no server behind this one was asked: `{method}`");
                words::refused(METHOD_NOT_FOUND, &message, None)
            }
        }
    }

    /// Passes a question on as it is: what stands behind has checks, limits and seals of its own.
    async fn straight(
        &self,
        talk: &Talk,
        question: Question<'_>,
        cancel: CancellationToken,
    ) -> Answer {
        let listens = question.method == "subscriptions/listen";
        let is_level = question.method == SET_LEVEL;
        let level =
            question.params.filter(|_| is_level).and_then(|params| text_of(params, "level"));
        let ask = Ask {
            method: question.method.to_owned(),
            params: question.params_bytes(),
            headers: question.headers.clone(),
            heard: None,
            // It knows how long its tools may take.
            time_limit: Some(LISTENING_TIME),
            subscription: listens.then(|| Bytes::copy_from_slice(question.id.as_bytes())),
            owner: None,
        };
        tokio::select! {
            answered = self.asked(talk, 0, ask) => {
                let failed = |error| words::unanswered(self.name_of(0), &error);
                let answer = answered.unwrap_or_else(failed);
                note_level(talk, level, &answer);
                answer
            }
            () = cancel.cancelled() => words::refusal(talk.era, &Refusal::Cancelled),
        }
    }

    /// Asks an upstream, and passes on what comes before the answer.
    pub(crate) async fn pass(
        &self,
        talk: &Talk,
        which: usize,
        question: &Question<'_>,
        params: Option<Bytes>,
    ) -> Answer {
        let ask = Ask {
            method: question.method.to_owned(),
            params,
            headers: question.headers.clone(),
            heard: None,
            time_limit: None,
            subscription: None,
            owner: None,
        };
        // It is large.
        let answered = Box::pin(self.asked(talk, which, ask)).await;
        answered.unwrap_or_else(|error| words::unanswered(self.name_of(which), &error))
    }

    /// The same where others are asked too: one that is slow does not keep them all waiting.
    pub(crate) async fn pass_soon(
        &self,
        talk: &Talk,
        which: usize,
        question: &Question<'_>,
        params: Option<Bytes>,
    ) -> Answer {
        let passed = self.pass(talk, which, question, params);
        if self.own() <= 1 {
            return passed.await;
        }
        let is_remembered = question.method != SET_LEVEL;
        let passed = match is_remembered {
            true => self.soon(talk, which, question.method, passed).await,
            // What is told is told in any case.
            false => tokio::time::timeout(TOGETHER_TIME, passed).await.ok(),
        };
        passed.unwrap_or_else(|| words::unanswered(self.name_of(which), &LineError::TimedOut))
    }

    async fn about_resource(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let uri = question.params.and_then(|params| text_of(params, "uri"));
        let Some(which) = self.has_resource(talk, uri.as_deref().unwrap_or_default()).await else {
            if self.unlisted(talk, Operation::Read).await.is_some() {
                return self.unknown(talk, Operation::Read, "").await;
            }
            return words::refused(INVALID_PARAMS, "there is no such resource", None);
        };
        self.pass(talk, which, &question, question.params_bytes()).await
    }

    /// The upstream that has a resource, for who may use it.
    pub(crate) async fn has_resource(&self, talk: &Talk, uri: &str) -> Option<usize> {
        // What is denied is looked for as long as what is not there.
        let may_use = |which: &usize| self.may_use_uri(talk, *which, uri);
        let which = match self.catalog(talk).await.resource(uri).filter(may_use) {
            Some(which) => which,
            None if self.has_unlisted() => 0,
            None => {
                let catalog = self.recent_catalog(talk).await;
                let found = catalog.resource(uri);
                // Of one server, no template is taken for another one's.
                found.or_else(|| (self.own() == 1 && catalog.may_have(0, uri)).then_some(0))?
            }
        };
        self.may_use_uri(talk, which, uri).then_some(which)
    }

    /// Sends a request to all servers. The first good answer is the answer. That of our own server counts
    /// only if no upstream refused because its connection is shared.
    async fn everywhere(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let asked = (0..=self.own())
            .map(|which| self.pass_soon(talk, which, &question, question.params_bytes()));
        let mut answers = join_all(asked).await;
        let own = answers.pop();
        let good = |answer: &Answer| matches!(answer, Answer::Result(_));
        let of_upstream = answers.iter().position(good);
        let refused = || answers.iter().position(words::is_for_all_callers);
        if let Some(which) = of_upstream.or_else(refused) {
            return answers.swap_remove(which);
        }
        let own = own.filter(|own| good(own) || answers.is_empty());
        own.or_else(|| answers.into_iter().next()).unwrap_or_else(|| words::result(&json!({})))
    }

    /// The tasks of our own server, which those of relayed calls are among.
    pub(crate) fn own_tasks(&self) -> &Tasks {
        self.0.own.tasks()
    }

    pub(crate) fn hop<'a>(&'a self, caller: &'a Caller) -> crate::hop::Hop<'a> {
        let pipeline = &self.0.pipeline;
        crate::hop::Hop { pipeline, held: pipeline.held(), caller }
    }
}

/// The era of a program that was started to find it.
fn spoken(line: &Line) -> Speaks {
    match line.era() {
        Era::Modern => {
            let hello = line.hello().cloned().unwrap_or_default();
            Speaks { era: Era::Modern, has_tasks: says_tasks(&Raw::Memory(hello)) }
        }
        _ => Speaks::OLDER,
    }
}

/// Whether a program did not come up. One that comes up and ends soon after has the era that it had.
fn did_not_start(line: &Result<Line, LineError>) -> bool {
    matches!(line, Err(LineError::Unreachable(cause)) if cause != ENDS_AT_ONCE)
}

/// The answer to `logging/setLevel` for an older server that does not have it: its client was told of log
/// messages, since it gets those of the gateway.
fn set_level_here(talk: &Talk, line: &Line, ask: &Ask) -> Option<Answer> {
    let session = talk.session.as_ref()?;
    if ask.method != SET_LEVEL || line.era() != Era::Legacy {
        return None;
    }
    let hello: Value = line.hello().and_then(|hello| serde_json::from_slice(hello).ok())?;
    if hello.pointer("/capabilities/logging").is_some() {
        return None;
    }
    let level = ask.params.as_deref().and_then(|params| member(params, "level"));
    Some(bridge::set_level(session, level.as_deref()))
}

/// Sets the level of the gateway's own log messages, once `logging/setLevel` has succeeded.
fn note_level(talk: &Talk, level: Option<String>, answer: &Answer) {
    if let (Some(session), Some(level), Answer::Result(_)) = (&talk.session, level, answer) {
        session.set_level(&level);
    }
}

/// Counts whether an upstream is there.
fn noted(
    metrics: Option<&Arc<UpstreamMetrics>>,
    answered: Result<Answer, LineError>,
) -> Result<Answer, LineError> {
    if let Some(metrics) = metrics {
        match &answered {
            Ok(_) => metrics.is_up(true),
            Err(
                LineError::Unreachable(_)
                | LineError::Lost
                | LineError::Ended(_)
                | LineError::Protocol(_),
            ) => {
                metrics.is_up(false);
            }
            // It is there.
            Err(_) => {}
        }
    }
    answered
}

/// Whether it is known what a question does.
fn is_known(method: &str) -> bool {
    List::of_method(method).is_some()
        || matches!(
            method,
            "resources/subscribe"
                | "resources/unsubscribe"
                | "completion/complete"
                | "server/discover"
                | SET_LEVEL
        )
        || TASK_METHODS.contains(&method)
}

/// The question what a server is.
fn discovery() -> Ask {
    Ask {
        method: "server/discover".to_owned(),
        params: Some(own_params(Era::Modern, None)),
        headers: Vec::new(),
        heard: None,
        time_limit: Some(DISCOVERY_TIME),
        subscription: None,
        owner: None,
    }
}

/// Whether a server says that it makes tasks.
fn says_tasks(said: &Raw) -> bool {
    let said = said.in_memory().and_then(|json| serde_json::from_slice::<Value>(json).ok());
    let extensions = said.as_ref().and_then(|said| said.get("capabilities")?.get("extensions"));
    extensions.is_some_and(|extensions| extensions.get(TASKS).is_some())
}

/// A text among parameters.
pub(crate) fn text_of(params: &RawValue, member: &str) -> Option<String> {
    Object::read(params).ok()?.text(member).map(std::borrow::Cow::into_owned)
}
