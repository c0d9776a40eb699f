//! Calls of tools, prompts and resources that are not ours.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::server::{BUDGET_META, KEY_META};
use handback_mcp::wire::{Object, ObjectError};
use handback_page::json::ByteSource as _;
use handback_token::{ArgsFingerprint, Operation, args_fingerprint_of_text};
use handback_tool::metrics::{UpstreamMetrics, UpstreamOutcome};
use handback_tool::{
    Candidates, Claim, Entered, Failure, Made, Passing, Refusal, Relay, Relayed, RoundOpened,
    Surface, ToolClass,
};
use memchr::memmem;
use rand::RngExt as _;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::bound::Budget;
use crate::gateway::Gateway;
use crate::hold::{
    Cutting, Holding, NOT_HELD, NotHeld, PASSED_BYTES_MAX, READER, RETRIED_FOR, Within,
};
use crate::hop::{HopTask, with_text};
use crate::mirror::{Headers, arguments_of};
use crate::names::{Target, WAITS, target_of_call};
use crate::options::Options;
use crate::reference::{Call, HeldValues, ReferenceError, Rules, mentions_held, resolve};
use crate::replay::{self, Again};
use crate::retry::{WINDOW, Waiting};
use crate::schemas::{Checking, CheckingJob};
use crate::slow::named_by_who_knows_tasks;
use crate::talk::{Question, Talk};
use crate::upstream::{Answer, Ask, LineError, Raw};
use crate::words::{self, INVALID_PARAMS, Refused};

/// The first byte of what is remembered of a round: the upstream gave no state, or this one.
const NO_STATE: u8 = 0;
const STATE: u8 = 1;

/// Why held values are not put into arguments that nobody can check.
const UNCHECKED: &str = "the arguments: held values are checked by the input schema of the tool, and that \
     of this one cannot be used: pass them as they are";

/// What is told of a call that is at another server as well, or may be.
const ELSEWHERE: &str =
    "the same call is under way at another server that has this name: try again";

/// A call, as the client asked for it.
struct Asked<'a> {
    operation: Operation,
    /// The name that the client knows.
    name: String,
    target: Target,
    params: Object<'a>,
    /// Whether something was left out of them.
    is_changed: bool,
    is_single_use: bool,
    arguments: Option<&'a str>,
    key: Option<String>,
    /// Who waits for an answer to an identical call, if the key is none of the client's.
    waiting: Option<Waiting>,
    state: Option<String>,
}

impl Asked<'_> {
    /// The name at the upstream, which is the same whatever it is shown under.
    fn own_name(&self) -> &str {
        self.target.own_name(&self.name)
    }

    /// What has it made once more.
    const fn again(&self) -> Again {
        if self.waiting.is_some() { Again::Identical } else { Again::OtherKey }
    }

    /// What the state of its exchange is bound to.
    fn fingerprint(&self) -> Result<ArgsFingerprint, Refusal> {
        let text = self.arguments.unwrap_or("null");
        args_fingerprint_of_text(text.as_bytes(), &[])
            .map_err(|error| Refusal::BadArguments(error.to_string()))
    }

    /// What a call under the same key has to be equal in.
    fn given(&self) -> Result<ArgsFingerprint, Refusal> {
        given(self.arguments, &self.params)
    }
}

fn given(arguments: Option<&str>, params: &Object<'_>) -> Result<ArgsFingerprint, Refusal> {
    let arguments = arguments.unwrap_or("null");
    let answers = params.get("inputResponses").unwrap_or("null");
    let text = format!(r#"{{"arguments":{arguments},"answers":{answers}}}"#);
    args_fingerprint_of_text(text.as_bytes(), &[])
        .map_err(|error| Refusal::BadArguments(error.to_string()))
}

impl Gateway {
    /// A call, from its checks to its answer.
    pub(crate) async fn call(
        &self,
        talk: &Talk,
        question: Question<'_>,
        operation: Operation,
        cancel: CancellationToken,
    ) -> Answer {
        self.call_telling(talk, question, operation, cancel, None).await
    }

    /// The same, which tells when it was let in: its caller may make it, and has room for it.
    pub(crate) async fn call_telling(
        &self,
        talk: &Talk,
        question: Question<'_>,
        operation: Operation,
        cancel: CancellationToken,
        is_in: Option<&Notify>,
    ) -> Answer {
        let begun = Instant::now();
        let read = question.params.map(Object::read);
        let Some(Ok(params)) = read else {
            return words::refused(INVALID_PARAMS, "the parameters are no object", None);
        };
        let member = if operation == Operation::Read { "uri" } else { "name" };
        let Some(name) = params.text(member).map(Cow::into_owned) else {
            return words::refused(INVALID_PARAMS, &format!("`{member}` is missing"), None);
        };
        let key = match key_of(&params, question.key.as_deref()) {
            Ok(key) => key,
            Err(message) => return words::refused(INVALID_PARAMS, message, None),
        };
        let arguments = question.params.and_then(|params| arguments_of(params.get()));
        let wanted = key.as_deref().map(|key| (key, || given(arguments, &params)));
        let about = (arguments, params.get("requestState").is_some());
        let finding = Box::pin(target_of_call(self, talk, (operation, &name), about, wanted));
        let params_text = question.params.map(|params| params.get().as_bytes());
        let target = match talk.waiting(params_text, WAITS, finding).await {
            Ok(target) => target,
            Err(refusal) => return words::refusal(talk.era, &refusal),
        };
        let state = match (params.get("requestState"), params.text("requestState")) {
            // Of a name that nobody has as well: what is denied is refused no sooner.
            (Some(_), None) if target.as_ref().is_none_or(|it| it.which != self.own()) => {
                return words::refused(INVALID_PARAMS, "`requestState` is a string", None);
            }
            (_, state) => state.map(Cow::into_owned),
        };
        let Some(target) = target else {
            return Box::pin(self.unknown(talk, operation, &name)).await;
        };
        if target.which == self.own() {
            return self.call_own(talk, &question, (&name, &target), &params, cancel).await;
        }
        let mut params = params;
        let is_single_use = self.options().is_single_use(target.names(self, &name));
        // What is answered once is answered with its state, which says what was asked.
        let is_changed =
            is_single_use && state.is_none() && params.remove("inputResponses").is_some();
        let mut asked = Asked {
            operation,
            name,
            target,
            params,
            is_changed,
            is_single_use,
            arguments,
            key,
            waiting: None,
            state,
        };
        let relay = Relay {
            caller: talk.caller.clone(),
            surface: Surface::Mcp,
            operation,
            name: asked.name.clone(),
            own_name: asked.own_name().to_owned(),
            upstream: self.name_of(asked.target.which).to_owned(),
            key: asked.key.clone(),
            state: asked.state.clone(),
            cancel,
        };
        let mut entered = match self.pipeline().enter(relay).await {
            Ok(entered) => entered,
            Err(Refusal::NotFound) => {
                return Box::pin(self.unknown(talk, operation, &asked.name)).await;
            }
            Err(refusal) => return words::refusal(talk.era, &refusal),
        };
        is_in.into_iter().for_each(Notify::notify_one);
        asked.waiting = match self.tried(talk, &asked) {
            Ok(waiting) => waiting,
            Err(refusal) => {
                entered.end(Err(&refusal));
                return words::refusal(talk.era, &refusal);
            }
        };
        if let Some(waiting) = &asked.waiting {
            asked.key = Some(waiting.key());
            entered.keyed(waiting.key());
        }
        let elsewhere = Elsewhere::default();
        let ended = self.entered(talk, &question, &asked, &mut entered, &elsewhere).await;
        let again = asked.again();
        // Who hands the answer over says so. That there is none is no answer: the next identical call
        // is another try. That it is too large is one.
        let is_answer =
            ended.as_ref().map_or_else(|why| why.refusal == Refusal::TooLarge, |_| true);
        if let Some(waiting) = asked.waiting.take().filter(|_| is_answer) {
            talk.delivery.expect(waiting.answered(entered.take_record()));
        }
        match ended {
            Ok((made, minted, answer)) => {
                entered.end(Ok((&made, minted.as_deref())));
                if let Some(away) = elsewhere.time() {
                    let time = begun.elapsed().saturating_sub(away);
                    self.pipeline().metrics().overhead.observe(time);
                }
                answer
            }
            Err(refused) => {
                let is_replay = entered.is_replay();
                entered.end(Err(&refused.refusal));
                let told = refused.told_of(talk.era, again);
                if is_replay { replay::refusal(told, again) } else { told }
            }
        }
    }

    /// A call of what is ours, which has its own checks, limits and records.
    async fn call_own(
        &self,
        talk: &Talk,
        question: &Question<'_>,
        (name, target): (&str, &Target),
        params: &Object<'_>,
        cancel: CancellationToken,
    ) -> Answer {
        let client = self.client_name(talk, params);
        let budget = self.options().budget(client.as_deref(), target.names(self, name));
        let Ok(params) = for_own(params, target, budget, question.key.as_deref()) else {
            return words::refused(INVALID_PARAMS, "`_meta` is no object", None);
        };
        let params = params.or_else(|| question.params_bytes());
        let answer = tokio::select! {
            answer = self.pass(talk, target.which, question, params) => answer,
            // That nobody asks any more is told to our own server, which knows what runs on.
            () = cancel.cancelled() => words::refusal(talk.era, &Refusal::Cancelled),
        };
        if let Answer::Result(raw) = &answer {
            self.pipeline().metrics().read_bytes.add(raw.size_bytes());
        }
        answer
    }

    /// What a call without a key is taken for, where identical ones are tries of one.
    fn tried(&self, talk: &Talk, asked: &Asked<'_>) -> Result<Option<Waiting>, Refusal> {
        let is_wanted = asked.key.is_none()
            && asked.operation == Operation::Call
            && self.options().retries_identical(asked.target.names(self, &asked.name));
        if !is_wanted {
            return Ok(None);
        }
        let upstream = self.name_of(asked.target.which);
        let (caller, given) = (talk.caller.principal(), asked.given()?);
        let time_limit = self.options().time_limit(asked.target.names(self, &asked.name));
        Ok(Some(self.retries().key(caller, upstream, asked.own_name(), &given, time_limit)))
    }

    /// A call that was let in.
    async fn entered(
        &self,
        talk: &Talk,
        question: &Question<'_>,
        asked: &Asked<'_>,
        entered: &mut Entered,
        elsewhere: &Elsewhere,
    ) -> Result<(Made, Option<String>, Answer), Refused> {
        let opened = match &asked.state {
            Some(state) => Some(entered.open(Some(&asked.fingerprint()?), state)?),
            None => None,
        };
        let outgoing = self.outgoing(talk, question, asked, opened.as_ref(), entered).await;
        let is_single_use = asked.is_single_use;
        let redeems = is_single_use && opened.is_some();
        let is_claimed = asked.key.is_some() || redeems;
        let tool = match &asked.target.tool {
            Some(tool) => Some(tool.clone()),
            // What it promises matters only where it is recorded.
            None if is_claimed && asked.operation == Operation::Call => {
                let catalog = self.catalog(talk).await;
                catalog.tool_of(asked.target.which, asked.own_name()).cloned()
            }
            None => None,
        };
        let claim = match is_claimed {
            false => None,
            true => Some(Claim {
                given: asked.given()?,
                round: opened.as_ref().map(RoundOpened::id),
                is_single_use,
                class: tool.as_ref().map_or(ToolClass::Unknown, |tool| tool.class),
                // What is redeemed once is synced, whoever gave the key.
                journal: match &asked.waiting {
                    Some(waiting) if !redeems => Some(Arc::clone(waiting.journal())),
                    _ => None,
                },
            }),
        };
        let names = asked.target.names(self, &asked.name);
        let time_limit = self.options().time_limit(names);
        let (params, headers, passing) = match (outgoing, &claim) {
            (Ok(outgoing), _) => outgoing,
            // Made before, it has its answer, although what it refers to is gone by now.
            (Err(refused), Some(_)) if matches!(refused.refusal, Refusal::BadArguments(_)) => {
                let told = relayed_of(refused.told(talk.era));
                let work = std::future::ready(Err(Failure::NothingHappened(told)));
                let made = entered.make(claim, time_limit, Box::pin(work)).await?;
                if !made.is_replay {
                    return Err(refused);
                }
                let (minted, answer) =
                    self.sealed(talk, asked, opened.as_ref(), entered, &made).await?;
                return Ok((made, minted, answer));
            }
            (Err(refused), _) => return Err(refused),
        };
        // The name of a task that is begun there is kept. Where the call is recorded, that is asked with
        // its record; of a server that nobody asked anything yet it is not known what it makes.
        if claim.is_none()
            && self.is_known_for_tasks(asked.target.which)
            && asked.operation == Operation::Call
            && named_by_who_knows_tasks(talk, question).is_some()
        {
            self.hop(&talk.caller).may_owe().await?;
        }
        let ask = Ask {
            method: question.method.to_owned(),
            params: Some(params),
            headers,
            heard: None,
            time_limit: Some(time_limit),
            subscription: None,
            owner: None,
        };
        let client = self.client_name(talk, &asked.params);
        let work = Work {
            gateway: self.clone(),
            talk: talk.clone(),
            which: asked.target.which,
            holding: (asked.operation == Operation::Call).then(|| Holding {
                budget: self.options().budget(client.as_deref(), names),
                media: self.options().media_budget(client.as_deref(), names),
                knows_links: talk.knows_links(),
                held: entered.held().clone(),
                owner: talk.caller.principal().clone(),
                clock: Arc::clone(self.pipeline().clock()),
                upstream: self.name_of(asked.target.which).to_owned(),
                tool: asked.name.clone(),
                retried_for: match &claim {
                    None => Duration::ZERO,
                    // From when the answer is there, which may be a moment later.
                    Some(_) if asked.waiting.is_some() => 2 * WINDOW,
                    Some(_) => RETRIED_FOR,
                },
            }),
            is_recorded: claim.is_some(),
            is_single_use,
            is_recorded_only: asked.target.is_recorded_only,
            others: self.others(talk, asked, opened.is_some())?,
            elsewhere: elsewhere.clone(),
            lost: Arc::default(),
            waits: asked.waiting.as_ref().map(Waiting::beside),
        };
        entered.passes(passing);
        let lost = Arc::clone(&work.lost);
        let made = entered.make(claim, time_limit, Box::pin(work.run(ask))).await;
        let made = made.map_err(|refusal| Refused::because(refusal, lost.get().cloned()))?;
        let (minted, answer) = self.sealed(talk, asked, opened.as_ref(), entered, &made).await?;
        Ok((made, minted, answer))
    }

    /// Where else a call with a key of its client may be recorded.
    fn others(
        &self,
        talk: &Talk,
        asked: &Asked<'_>,
        has_round: bool,
    ) -> Result<Option<Candidates>, Refusal> {
        let of_client = asked.key.as_deref().filter(|_| asked.waiting.is_none() && !has_round);
        let Some(key) = of_client else { return Ok(None) };
        let what = (asked.operation, asked.name.as_str());
        Ok(self.elsewhere(talk, what, (key, asked.given()?), &asked.target))
    }

    /// The parameters as the upstream gets them, the headers that the client said of them, and what is in
    /// them by reference.
    async fn outgoing(
        &self,
        talk: &Talk,
        question: &Question<'_>,
        asked: &Asked<'_>,
        opened: Option<&RoundOpened>,
        entered: &Entered,
    ) -> Result<(Bytes, Headers, Vec<Passing>), Refused> {
        let mut params = asked.params.clone();
        let mut passing = Vec::new();
        let mut headers = question.headers.clone();
        let mut is_changed = asked.is_changed;
        if let Some(renamed) = &asked.target.renamed {
            params.set("name", Value::from(renamed.as_str()).to_string());
            is_changed = true;
        }
        if let Some(opened) = opened {
            is_changed = true;
            match opened.memory() {
                [STATE, state @ ..] => {
                    let state = std::str::from_utf8(state).map_err(|_| Refusal::Broken)?;
                    params.set("requestState", Value::from(state).to_string());
                }
                _ => drop(params.remove("requestState")),
            }
        }
        if asked.operation == Operation::Call
            && let Some(arguments) = asked.arguments
            && let Some((resolved, passed)) = self.resolved(talk, asked, arguments, entered).await?
        {
            passing = passed;
            if talk.has_headers
                && let Some(tool) =
                    self.catalog(talk).await.tool_of(asked.target.which, asked.own_name())
            {
                let moved = tool.mirrored.moved(headers, (arguments, &resolved));
                headers = moved.map_err(|error| Refusal::BadArguments(error.to_string()))?;
            }
            params.set("arguments", resolved);
            is_changed = true;
        }
        match question.params_bytes() {
            Some(bytes) if !is_changed => Ok((bytes, headers, passing)),
            _ => Ok((params.to_json().into(), headers, passing)),
        }
    }

    /// The arguments with what they refer to in its place, and what that is, if they refer to anything.
    async fn resolved(
        &self,
        talk: &Talk,
        asked: &Asked<'_>,
        arguments: &str,
        entered: &Entered,
    ) -> Result<Option<(String, Vec<Passing>)>, Refused> {
        if !mentions_held(arguments) {
            return Ok(None);
        }
        let catalog = self.catalog(talk).await;
        let tool = catalog.tool_of(asked.target.which, asked.own_name());
        let own_name = (self.name_of(asked.target.which), asked.own_name());
        let checking = match tool {
            Some(tool) => self.schemas().checking(own_name, &tool.input).await,
            None => None,
        };
        let is_unusable = checking.as_ref().is_some_and(|checking| !checking.is_usable());
        let check = checking.as_ref().filter(|_| !is_unusable).map(Checking::job);
        let options = self.options();
        let (owner, held) = (talk.caller.principal().clone(), entered.held().clone());
        let (revocations, now_ms) = (entered.revocations().clone(), entered.now_ms());
        let (upstream, tool) = (self.name_of(asked.target.which).to_owned(), asked.name.clone());
        let rules =
            Rules { allowed: options.directions.clone(), bytes_max: options.reference_bytes_max };
        let text = arguments.to_owned();
        let resolve = move || {
            let validator = check.as_ref().map(CheckingJob::validator);
            let schema = validator.as_ref();
            let call = Call { upstream: &upstream, tool: &tool, rules: &rules, schema };
            let mut held = HeldValues::of(&owner, &held, &revocations, now_ms);
            let resolution = resolve(&text, &call, &mut held);
            if let (Some(check), Some(validator)) = (&check, &validator) {
                check.finish(validator);
            }
            let resolution = resolution?;
            Ok::<_, ReferenceError>((resolution.arguments.into_owned(), resolution.resolved))
        };
        let place = self.resolving().take(talk.caller.principal().binding()).await;
        let resolved = tokio::task::spawn_blocking(move || {
            let resolved = resolve();
            drop(place);
            resolved
        });
        let resolved = resolved.await;
        let (arguments, resolved) = resolved.map_err(|_| Refusal::Broken)?.map_err(|error| {
            entered.note_reason(error.reason());
            Refused::from(error)
        })?;
        if is_unusable && !resolved.is_empty() {
            return Err(Refusal::BadArguments(UNCHECKED.to_owned()).into());
        }
        let passing: Vec<_> = resolved
            .iter()
            .map(|one| Passing {
                bytes: one.bytes,
                what: serde_json::to_value(one).unwrap_or_default(),
            })
            .collect();
        Ok((!passing.is_empty()).then_some((arguments, passing)))
    }

    /// Holds what is over a budget in a result of a tool; gives the one that takes its place.
    pub(crate) async fn held_instead(
        &self,
        talk: &Talk,
        holding: &Holding,
        raw: Raw,
    ) -> Result<Within, NotHeld> {
        let catalog = self.catalog(talk).await;
        let cutting = Cutting {
            reader: READER.to_owned(),
            output: match catalog.tool(&holding.tool) {
                Some(tool) => {
                    let own_name = (self.name_of(tool.which), tool.name.as_str());
                    self.schemas().checking(own_name, &tool.output).await
                }
                None => None,
            },
        };
        let bytes = raw.size_bytes();
        let within = holding.hold(raw, cutting).await?;
        if within.is_as_given {
            return Ok(within);
        }
        let (metrics, given) = (self.pipeline().metrics(), within.json.len() as u64);
        metrics.held_results.increment();
        metrics.held_result_bytes.add(bytes);
        metrics.given_bytes.add(given);
        metrics.saved_tokens.add(bytes.saturating_sub(given) / Budget::BYTES_PER_TOKEN as u64);
        Ok(within)
    }

    /// The name that the client gives itself.
    pub(crate) fn client_name(&self, talk: &Talk, params: &Object<'_>) -> Option<String> {
        if let Some(session) = &talk.session {
            return session.client().map(str::to_owned);
        }
        let Options { client_budgets, client_media_budgets, .. } = self.options();
        if client_budgets.is_empty() && client_media_budgets.is_empty() {
            return None;
        }
        let meta: Value = serde_json::from_str(params.get("_meta")?).ok()?;
        let info = meta.get("io.modelcontextprotocol/clientInfo")?;
        info.get("name").and_then(Value::as_str).map(str::to_owned)
    }

    /// What the upstream gave, for this client: what comes back later is sealed, and a replay says
    /// that it is one.
    async fn sealed(
        &self,
        talk: &Talk,
        asked: &Asked<'_>,
        opened: Option<&RoundOpened>,
        entered: &Entered,
        made: &Made,
    ) -> Result<(Option<String>, Answer), Refusal> {
        let Made { relayed: Relayed { json, is_error, round, .. }, is_replay, .. } = made;
        if *is_error {
            let json = if *is_replay { replay::error(json, asked.again()) } else { json.clone() };
            return Ok((None, Answer::Error(json)));
        }
        let mut json = json.clone();
        let mut minted = None;
        if let Some(round) = round {
            let raw: &RawValue = serde_json::from_slice(&json).map_err(|_| Refusal::Broken)?;
            let mut result = Object::read(raw).map_err(|_| Refusal::Broken)?;
            let memory = match result.text("requestState") {
                Some(state) => [&[STATE], state.as_bytes()].concat(),
                None => vec![NO_STATE],
            };
            let state = entered.seal(Some(&asked.fingerprint()?), opened, *round, &memory)?;
            result.set("requestState", Value::from(state.as_str()).to_string());
            json = result.to_json().into();
            minted = Some(state);
        } else if talk.era == Era::Modern && says(&json, b"taskId") {
            json = self.with_task(talk, asked, json).await?;
        } else if let Some(session) = talk.session.as_ref().filter(|_| says(&json, b"taskId")) {
            session.remember_task(&asked.name, &json);
        }
        if *is_replay {
            json = replay::answer(json, talk.caller.principal(), entered, asked.again()).await;
        }
        Ok((minted, Answer::Result(Raw::Memory(json))))
    }

    /// A task of an upstream, under an id of this client.
    async fn with_task(
        &self,
        talk: &Talk,
        asked: &Asked<'_>,
        json: Bytes,
    ) -> Result<Bytes, Refusal> {
        let raw: &RawValue = serde_json::from_slice(&json).map_err(|_| Refusal::Broken)?;
        let result = Object::read(raw).map_err(|_| Refusal::Broken)?;
        let (Some("task"), Some(id)) =
            (result.text("resultType").as_deref(), result.text("taskId"))
        else {
            return Ok(json.clone());
        };
        let upstream = self.name_of(asked.target.which).to_owned();
        let (tool, own_name) = (asked.name.clone(), asked.own_name().to_owned());
        let task = HopTask { upstream, task: id.into_owned(), tool, own_name };
        // The task is at work: refused now, it might be begun again.
        let id = self.hop(&talk.caller).seal_task(&task).await.map_err(|_| Refusal::Ambiguous)?;
        with_text(&json, "taskId", &id).ok_or(Refusal::Broken)
    }
}

/// How long a call was at its upstream, in nanoseconds, from when it has been there.
#[derive(Clone, Default)]
struct Elsewhere(Arc<AtomicU64>);

impl Elsewhere {
    fn was(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos.max(1), Ordering::Relaxed);
    }

    /// Nothing, if this call was not made there: another one was waited for.
    fn time(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

/// A call at an upstream, which is counted however it ends.
struct AtUpstream {
    metrics: Option<Arc<UpstreamMetrics>>,
    since: Instant,
}

impl AtUpstream {
    /// How long it took.
    fn ended(mut self, outcome: UpstreamOutcome) -> Duration {
        let time = self.since.elapsed();
        if let Some(metrics) = self.metrics.take() {
            metrics.called(outcome, time);
        }
        time
    }
}

/// Nobody waits for it any more.
impl Drop for AtUpstream {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics.take() {
            metrics.called(UpstreamOutcome::Cancelled, self.since.elapsed());
        }
    }
}

const fn outcome_of(answered: &Result<Answer, LineError>) -> UpstreamOutcome {
    match answered {
        Ok(Answer::Result(_)) => UpstreamOutcome::Answered,
        Ok(Answer::Error(_)) => UpstreamOutcome::Error,
        Err(LineError::TooLarge) => UpstreamOutcome::TooLarge,
        Err(error) if error.nothing_happened() => UpstreamOutcome::NotAsked,
        Err(LineError::TimedOut) => UpstreamOutcome::TimedOut,
        Err(_) => UpstreamOutcome::Lost,
    }
}

/// What asks the upstream, and may outlive the client.
struct Work {
    gateway: Gateway,
    talk: Talk,
    which: usize,
    holding: Option<Holding>,
    is_recorded: bool,
    is_single_use: bool,
    is_recorded_only: bool,
    /// Where else it may be recorded.
    others: Option<Candidates>,
    elsewhere: Elsewhere,
    /// Why the result of the call is not known.
    lost: Arc<OnceLock<String>>,
    /// Whatever becomes of the client, an identical call is the same one while this is under way.
    waits: Option<Waiting>,
}

impl Work {
    async fn run(mut self, ask: Ask) -> Result<Relayed, Failure> {
        if self.is_recorded_only {
            let why = LineError::Unreachable(String::new());
            return Err(Failure::NothingHappened(self.unanswered(&why)));
        }
        if let Some(others) = &self.others
            && !matches!(self.gateway.pipeline().first_recorded(others).await, Ok(None))
        {
            return Err(Failure::NothingHappened(self.instead(ELSEWHERE, "in_flight")));
        }
        self.waits.iter_mut().for_each(Waiting::makes);
        let metrics = self.gateway.metrics_of(self.which).cloned();
        let there = AtUpstream { metrics, since: Instant::now() };
        let answered = self.gateway.asked(&self.talk, self.which, ask).await;
        self.elsewhere.was(there.ended(outcome_of(&answered)));
        let failed = |json| {
            let json = match &self.holding {
                Some(holding) => holding.error(json),
                None => json,
            };
            Relayed { json, is_error: true, round: None, reason: None }
        };
        match answered {
            Ok(Answer::Result(raw)) => self.taken(raw).await,
            Ok(Answer::Error(json)) => Ok(failed(json)),
            Err(LineError::TooLarge) => Err(Failure::TooLarge),
            // The answer was there.
            Err(LineError::Disk) => Ok(self.instead(NOT_HELD, "not_held")),
            // In the words of the server: it may be made again, with other headers.
            Err(LineError::Mismatch(json)) => Err(Failure::NothingHappened(failed(json))),
            Err(error) if error.nothing_happened() => {
                Err(Failure::NothingHappened(self.unanswered(&error)))
            }
            // Nobody asks for it again by a key.
            Err(error) if !self.is_recorded => Ok(self.unanswered(&error)),
            Err(LineError::TimedOut) => Err(Failure::TimedOut),
            Err(error) => {
                let (cause, _) = words::unanswered_words(self.gateway.name_of(self.which), &error);
                // There is one request, and so one cause.
                let _ = self.lost.set(cause);
                Err(Failure::Lost)
            }
        }
    }

    async fn taken(self, raw: Raw) -> Result<Relayed, Failure> {
        // What the client is to answer is no result: a part of it would be of no use.
        let asks = raw.in_memory().is_some_and(|json| asks(json));
        let handbacks = &self.gateway.common_catalogs().handbacks;
        let is_exempt = handbacks.exempt(self.which, raw.size_bytes());
        let json = match &self.holding {
            Some(holding) if holding.is_over(&raw) && !asks && !is_exempt => {
                match self.gateway.held_instead(&self.talk, holding, raw).await {
                    Ok(within) => within.json,
                    Err(NotHeld::Failed(failure)) => return Err(failure),
                    Err(NotHeld::Refused(why)) => return Ok(self.instead(&why, "not_held")),
                    Err(NotHeld::Asks) => {
                        let why = "the server asks more than can be passed on";
                        return Ok(self.instead(why, "too_large"));
                    }
                }
            }
            _ if raw.size_bytes() > PASSED_BYTES_MAX => return Err(Failure::TooLarge),
            _ => match raw {
                Raw::Memory(json) => json,
                file => {
                    let read = tokio::task::spawn_blocking(move || file.whole()).await;
                    read.ok().flatten().ok_or(Failure::Lost)?
                }
            },
        };
        let asks = says(&json, b"requestState") || says(&json, b"input_required");
        let round = asks.then(|| self.round(&json)).flatten();
        Ok(Relayed { json, is_error: false, round, reason: None })
    }

    /// The id of the round that a result asks for.
    fn round(&self, json: &[u8]) -> Option<[u8; 16]> {
        let raw: &RawValue = serde_json::from_slice(json).ok()?;
        let result = Object::read(raw).ok()?;
        let has_state = result.get("requestState").is_some();
        let asks = result.text("resultType").is_some_and(|kind| kind == "input_required");
        (has_state || (asks && self.is_single_use)).then(|| rand::rng().random())
    }

    fn unanswered(&self, error: &LineError) -> Relayed {
        let (mut message, reason) =
            words::unanswered_words(self.gateway.name_of(self.which), error);
        if !error.nothing_happened() {
            message.push_str(": whether it did what was asked is not known");
        }
        self.instead(&message, reason)
    }

    /// What the client is told in the place of an answer.
    fn instead(&self, message: &str, reason: &'static str) -> Relayed {
        let answer = match self.holding {
            Some(_) => words::tool_error(self.talk.era, message, reason),
            None => {
                let data = serde_json::json!({"reason": reason});
                words::refused(words::INTERNAL_ERROR, message, Some(data))
            }
        };
        Relayed { reason: Some(reason.to_owned()), ..relayed_of(answer) }
    }
}

/// Whether a result asks the client something.
pub(crate) fn asks(json: &[u8]) -> bool {
    let read = || {
        let raw: &RawValue = serde_json::from_slice(json).ok()?;
        Some(Object::read(raw).ok()?.text("resultType")? == "input_required")
    };
    says(json, b"input_required") && read().unwrap_or(false)
}

/// An answer of our own in the place of the upstream's.
fn relayed_of(answer: Answer) -> Relayed {
    match answer {
        Answer::Result(raw) => {
            let json = raw.in_memory().cloned().unwrap_or_default();
            Relayed { json, is_error: false, round: None, reason: None }
        }
        Answer::Error(json) => Relayed { json, is_error: true, round: None, reason: None },
    }
}

/// Whether a text may have this word in it as a name or a value: exactly, or written with escapes.
pub(crate) fn says(json: &[u8], word: &[u8]) -> bool {
    memmem::find(json, word).is_some() || memmem::find(json, br"\u").is_some()
}

/// The parameters of a call of our own tools, if they are others than the client's: with the name that we
/// know, with the budget of the client, who may want less, and with the key that came in a header.
fn for_own(
    params: &Object<'_>,
    target: &Target,
    budget: Budget,
    key: Option<&str>,
) -> Result<Option<Bytes>, ObjectError> {
    let mut params = params.clone();
    let renamed = target.renamed.as_deref();
    if let Some(name) = renamed {
        params.set("name", Value::from(name).to_string());
    }
    let budget = (budget != Budget::unlimited()).then_some(budget);
    let meta = match (budget, key) {
        (None, None) => None,
        _ => match meta_for_own(params.get("_meta"), budget, key) {
            Ok(meta) => Some(meta),
            // A call without its key is another one.
            Err(error) if key.is_some() => return Err(error),
            // It is left as it is, and refused later.
            Err(_) => None,
        },
    };
    if renamed.is_none() && meta.is_none() {
        return Ok(None);
    }
    meta.into_iter().for_each(|meta| params.set("_meta", meta));
    Ok(Some(params.to_json().into()))
}

/// The `_meta` of a request, with a budget and a key.
fn meta_for_own(
    meta: Option<&str>,
    budget: Option<Budget>,
    key: Option<&str>,
) -> Result<String, ObjectError> {
    // Some clients write what they leave out.
    let meta = meta.filter(|meta| *meta != "null").unwrap_or("{}");
    let raw: &RawValue = serde_json::from_str(meta).map_err(|_| ObjectError::NotAnObject)?;
    let mut meta = Object::read(raw)?;
    if let Some(budget) = budget {
        let wanted = meta.get(BUDGET_META).and_then(|wanted| wanted.parse::<usize>().ok());
        let bytes = wanted.unwrap_or(usize::MAX).min(budget.as_bytes());
        meta.set(BUDGET_META, bytes.to_string());
    }
    if let Some(key) = key {
        meta.set(KEY_META, Value::from(key).to_string());
    }
    Ok(meta.to_json())
}

/// The idempotency key: of the message, or of its headers. It may be said in both places, but not
/// differently.
fn key_of(params: &Object<'_>, of_header: Option<&str>) -> Result<Option<String>, &'static str> {
    let meta = params.get("_meta").filter(|meta| says(meta.as_bytes(), KEY_META.as_bytes()));
    let of_meta = match meta {
        None => None,
        Some(meta) => {
            let raw: &RawValue = serde_json::from_str(meta).map_err(|_| "`_meta` is no object")?;
            let meta = Object::read(raw).map_err(|_| "`_meta` is no object")?;
            match (meta.get(KEY_META), meta.text(KEY_META)) {
                (None, _) => None,
                (Some(_), Some(key)) => Some(key.into_owned()),
                (Some(_), None) => return Err("the idempotency key is no string"),
            }
        }
    };
    match (of_meta, of_header) {
        (Some(one), Some(other)) if one != other => Err("there are two idempotency keys"),
        (Some(key), _) => Ok(Some(key)),
        (None, key) => Ok(key.map(str::to_owned)),
    }
}
