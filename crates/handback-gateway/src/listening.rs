//! Subscriptions of newer clients: what changes at any of the servers, as one stream.
//!
//! Newer servers are asked to tell, each of them. Older ones tell without being asked, on the line that
//! is their caller's alone: of that, the client hears what it wants to. One that is not there is tried
//! again for as long as the client listens. Once it is, the client is told that what it follows may have
//! changed, names of other servers' tools among it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use handback_wire::meta::SUBSCRIPTION;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, broadcast, mpsc};
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use crate::catalog::{OWN, member};
use crate::following::pause_after;
use crate::gateway::Gateway;
use crate::relay::relayed;
use crate::slot::OnLine;
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Ask, Heard, Line, LineError};
use crate::wishes::{Wishes, is_asked_for};
use crate::words::{self, INVALID_PARAMS};

/// How long a client may listen to changes: it is for as long as it wants, and it comes back.
pub(crate) const LISTENING_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What a server says first to who listens.
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// How long those who acknowledge a subscription are waited for. What others accept is not told.
const ACKNOWLEDGING_TIME: Duration = Duration::from_secs(2);

/// How long an older server may take to follow one resource.
const FOLLOWING_TIME: Duration = Duration::from_secs(5);

/// What a client can be told of, and how: by the member of its wish, the part of a server that says
/// whether it does, and the notification.
pub(crate) const LISTS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", "tools", "notifications/tools/list_changed"),
    ("promptsListChanged", "prompts", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "resources", "notifications/resources/list_changed"),
];

pub(crate) const RESOURCES: &str = "resourceSubscriptions";
pub(crate) const UPDATED: &str = "notifications/resources/updated";

/// What waits for those who listen to a line of the older era. Who is further behind has missed something,
/// and listens anew.
const SAID_MAX: usize = 1_024;

/// What an older server says on the line of one caller, and what is followed there. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    said: broadcast::Sender<(String, Option<Bytes>)>,
    followed: Arc<Mutex<Followed>>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let (said, _) = broadcast::channel(SAID_MAX);
        Self { said, followed: Arc::default() }
    }

    /// Tells those who listen. There may be nobody.
    pub(crate) fn say(&self, method: String, params: Option<Bytes>) {
        let _ = self.said.send((method, params));
    }
}

/// Which resources are followed on a line, and by how many listeners. It is locked while the server is told:
/// what one ends to follow and another one begins to, it hears in that order.
#[derive(Debug, Default)]
struct Followed {
    /// What another line was asked for is forgotten.
    line: Option<Line>,
    listeners: HashMap<String, usize>,
}

impl Followed {
    /// One more follows a resource on this line.
    fn begin(&mut self, line: &Line, uri: &str) {
        if !self.is_on(line) {
            (self.line, self.listeners) = (Some(line.clone()), HashMap::new());
        }
        *self.listeners.entry(uri.to_owned()).or_default() += 1;
    }

    /// One does not any more; says whether nobody does.
    fn end(&mut self, line: &Line, uri: &str) -> bool {
        if !self.is_on(line) {
            return false;
        }
        let Some(count) = self.listeners.get_mut(uri) else { return false };
        *count -= 1;
        *count == 0 && self.listeners.remove(uri).is_some()
    }

    fn is_on(&self, line: &Line) -> bool {
        self.line.as_ref().is_some_and(|known| known.is(line))
    }
}

/// The resources that one listener follows on a line. With it, the server is told that it does not.
struct Follows {
    followed: Arc<Mutex<Followed>>,
    line: Line,
    uris: Vec<String>,
}

impl Follows {
    /// Follows a resource, if the server lets it.
    async fn begin(&mut self, uri: &str) -> bool {
        let mut followed = self.followed.lock().await;
        // Before it is asked: who leaves meanwhile may have been heard.
        followed.begin(&self.line, uri);
        self.uris.push(uri.to_owned());
        let asked = self.line.ask(follow_ask("resources/subscribe", uri)).await;
        let is_followed = matches!(asked, Ok(Answer::Result(_)));
        if !is_followed {
            followed.end(&self.line, uri);
            self.uris.pop();
        }
        is_followed
    }
}

impl Drop for Follows {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        if uris.is_empty() || self.line.is_closed() {
            return;
        }
        // Without a runtime, the line ends as well.
        let Ok(runtime) = Handle::try_current() else { return };
        let (followed, line) = (Arc::clone(&self.followed), self.line.clone());
        runtime.spawn(async move {
            let mut followed = followed.lock().await;
            for uri in uris {
                if followed.end(&line, &uri) {
                    // It is gone, or it does.
                    let _ = line.ask(follow_ask("resources/unsubscribe", &uri)).await;
                }
            }
        });
    }
}

/// Asks an older server to follow a resource, or not to.
fn follow_ask(method: &str, uri: &str) -> Ask {
    Ask {
        method: method.to_owned(),
        params: Some(Bytes::from(json!({"uri": uri}).to_string())),
        headers: Vec::new(),
        heard: None,
        time_limit: Some(FOLLOWING_TIME),
        subscription: None,
        owner: None,
    }
}

/// Passes on what an older server says and belongs to no question, for as long as its line may be opened.
pub(crate) async fn pass_on(mut heard: mpsc::Receiver<OnLine>, told: Told, changed: impl Fn()) {
    while let Some((_, heard)) = heard.recv().await {
        // Nobody can be asked here, and the line refuses it.
        let Heard::Notification { method, params } = heard else { continue };
        if method.ends_with("/list_changed") {
            changed();
        }
        // Nobody listens to anything else, and it would be in the way.
        if method == UPDATED || LISTS.iter().any(|(.., told)| *told == method) {
            told.say(method, params);
        }
    }
}

/// What a client asked, and what it wants to hear of.
struct Listener<'a> {
    question: &'a Question<'a>,
    wishes: &'a Wishes<'a>,
    /// Where it is told what each of the servers says.
    all: mpsc::Sender<(usize, ToClient)>,
}

/// How listening to one server ended.
struct Ended {
    which: usize,
    /// How often it was not there before.
    missed: u32,
    is_acknowledged: bool,
    /// It is not there, and may be again.
    is_missing: bool,
    with: Result<Answer, LineError>,
}

/// What all servers together accept, until the client is told.
struct Acknowledging {
    /// The JSON of the id of the subscription.
    id: Bytes,
    accepted: Map<String, Value>,
    /// Those who are waited for.
    open: BTreeSet<usize>,
    waiting: Vec<ToClient>,
    until: Instant,
    is_told: bool,
}

impl Acknowledging {
    /// A server accepts something. If it is one that was not waited for, gives the resources among it: it
    /// was not there, or it is slow.
    fn accept(&mut self, which: usize, params: Option<&Bytes>) -> Option<Vec<String>> {
        let is_late = !self.open.remove(&which) || self.is_told;
        let said: Option<Value> = params.and_then(|params| serde_json::from_slice(params).ok());
        let said = said.and_then(|said| said.get("notifications").cloned());
        let Some(Value::Object(more)) = said else { return is_late.then(Vec::new) };
        let uris = more.get(RESOURCES).and_then(Value::as_array).into_iter().flatten();
        let uris: Vec<_> = uris.filter_map(Value::as_str).map(str::to_owned).collect();
        for (name, value) in more {
            match (self.accepted.get_mut(&name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => {
                    let new = more.into_iter().filter(|uri| !known.contains(uri));
                    let new: Vec<_> = new.collect();
                    known.extend(new);
                }
                (Some(Value::Bool(known)), Value::Bool(more)) => *known |= more,
                (Some(_), _) => {}
                (None, value) => drop(self.accepted.insert(name, value)),
            }
        }
        is_late.then_some(uris)
    }

    /// The client is told that these may have changed: lists by how that is told, and resources. Nobody
    /// listened to a server of them.
    fn tell_again(&mut self, lists: impl Iterator<Item = &'static str>, uris: &[String]) {
        let lists = lists.map(|method| (method, None));
        let told_of = |uri: &String| Bytes::from(json!({"uri": uri}).to_string());
        let uris = uris.iter().map(|uri| (UPDATED, Some(told_of(uri))));
        for (method, params) in lists.chain(uris) {
            let params = with_subscription(params.as_ref(), &self.id);
            self.waiting.push(ToClient::Notification { method: method.to_owned(), params });
        }
    }

    /// What the client is to be told now: the acknowledgement, and what came before it.
    fn ready(&mut self) -> Vec<ToClient> {
        if self.is_told {
            return std::mem::take(&mut self.waiting);
        }
        let is_time = self.open.is_empty()
            || self.waiting.len() >= WAITING_MAX
            || Instant::now() >= self.until;
        if !is_time {
            return Vec::new();
        }
        self.is_told = true;
        let id: Value = serde_json::from_slice(&self.id).unwrap_or_default();
        let params = json!({"_meta": {SUBSCRIPTION: id}, "notifications": self.accepted});
        let params = Some(Bytes::from(params.to_string()));
        let told = ToClient::Notification { method: ACKNOWLEDGED.to_owned(), params };
        std::iter::once(told).chain(self.waiting.drain(..)).collect()
    }
}

impl Gateway {
    /// What changes, of all upstreams, as it happens.
    pub(crate) async fn listen(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let Some(wishes) = self.wishes(talk, &question).await else {
            return words::refused(INVALID_PARAMS, "`notifications` cannot be read", None);
        };
        let (all, mut told) = mpsc::channel(WAITING_MAX);
        let listener = Listener { question: &question, wishes: &wishes, all };
        let asked = (0..=self.own()).map(|which| self.listen_to(talk, &listener, which, 0));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut last = None;
        let begun = Instant::now();
        let mut acknowledging = Acknowledging {
            id: Bytes::copy_from_slice(question.id.as_bytes()),
            accepted: Map::new(),
            open: (0..=self.own()).collect(),
            waiting: Vec::new(),
            until: begun + ACKNOWLEDGING_TIME,
            is_told: false,
        };
        loop {
            for told in acknowledging.ready() {
                drop(talk.out.send(told).await);
            }
            tokio::select! {
                biased;
                Some(told) = told.recv() => {
                    self.heard_of(talk, &wishes, told, &mut acknowledging);
                }
                ended = asked.next() => match ended {
                    // Who listens believes to hear everything: it comes back.
                    Some(Ended { which, is_acknowledged: true, with, .. }) => {
                        while let Ok(told) = told.try_recv() {
                            self.heard_of(talk, &wishes, told, &mut acknowledging);
                        }
                        acknowledging.until = Instant::now();
                        for told in acknowledging.ready() {
                            drop(talk.out.send(told).await);
                        }
                        let lost = |error| words::unanswered(self.name_of(which), &error);
                        return with.unwrap_or_else(lost);
                    }
                    // Nobody waits for it, and it is tried again.
                    Some(Ended { which, missed, is_missing: true, .. })
                        if begun.elapsed() < LISTENING_TIME =>
                    {
                        acknowledging.open.remove(&which);
                        let missed = missed.saturating_add(1);
                        asked.push(self.listen_to(talk, &listener, which, missed));
                    }
                    // One that has nothing to tell.
                    Some(Ended { which, missed, is_missing, with, .. }) => {
                        acknowledging.open.remove(&which);
                        // What it has is there now.
                        if missed > 0 && !is_missing {
                            self.forget(talk);
                            acknowledging.tell_again(wishes.lists(), &[]);
                        }
                        last = with.ok().or(last);
                    }
                    None => break,
                },
                () = sleep_until(acknowledging.until), if !acknowledging.is_told => {}
            }
        }
        last.unwrap_or_else(|| words::unanswered(OWN, &LineError::Lost))
    }

    /// Something was said by one of them.
    fn heard_of(
        &self,
        talk: &Talk,
        wishes: &Wishes<'_>,
        (which, told): (usize, ToClient),
        acknowledging: &mut Acknowledging,
    ) {
        let ToClient::Notification { method, params } = &told else { return };
        if method.ends_with("/list_changed") {
            self.forget(talk);
        }
        if method != ACKNOWLEDGED {
            acknowledging.waiting.push(told);
        } else if let Some(uris) = acknowledging.accept(which, params.as_ref()) {
            self.forget(talk);
            acknowledging.tell_again(wishes.lists(), &uris);
        }
    }

    /// Listens to one server, which was not there so often before.
    async fn listen_to(
        &self,
        talk: &Talk,
        listener: &Listener<'_>,
        which: usize,
        missed: u32,
    ) -> Ended {
        let Listener { question, wishes, all } = listener;
        if missed > 0 {
            sleep(pause_after(missed - 1)).await;
        }
        let ended = |is_acknowledged, is_missing, with| Ended {
            which,
            missed,
            is_acknowledged,
            is_missing,
            with,
        };
        let line = match self.line(talk, which).await {
            Ok(line) => line,
            Err(error) => return ended(false, true, Err(error)),
        };
        if missed > 0 && wishes.has_resources() {
            // What it has may not be known yet.
            self.forget(talk);
            drop(self.catalog_anew(talk).await);
        }
        let uris = self.resources_of(talk, wishes, which).await;
        let ask = Ask {
            method: question.method.to_owned(),
            params: Some(wishes.params(which, &uris)),
            headers: question.headers.clone(),
            heard: None,
            // For as long as the client wants it.
            time_limit: Some(LISTENING_TIME),
            subscription: Some(Bytes::copy_from_slice(question.id.as_bytes())),
            owner: None,
        };
        if line.era() == Era::Legacy {
            let is_acknowledged = self.listen_to_older(talk, which, &line, &ask, all).await;
            let lost = LineError::Lost;
            let is_missing = line.is_closed() && self.may_come_back(which, &lost);
            return ended(is_acknowledged, is_missing, Err(lost));
        }
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let mut asked = std::pin::pin!(relayed(Talk { out, ..talk.clone() }, line, ask));
        let its = (which, uris.as_slice());
        let mut is_acknowledged = false;
        let with = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => {
                    is_acknowledged |= self.hear(talk, listener, its, (told, is_acknowledged)).await;
                }
                ended = &mut asked => break ended,
            }
        };
        // It may have said so with its last words.
        while let Ok(told) = told.try_recv() {
            is_acknowledged |= self.hear(talk, listener, its, (told, is_acknowledged)).await;
        }
        let is_gone = with.as_ref().is_err_and(|error| self.may_come_back(which, error));
        // Where there is nothing to be told of, nobody misses it.
        let is_missed = is_acknowledged && !wishes.is_nothing(which, &uris);
        ended(is_missed, is_gone && !is_acknowledged, with)
    }

    /// Passes on what a server says, of which these resources are wanted. Says whether it is that it tells;
    /// it says so once.
    async fn hear(
        &self,
        talk: &Talk,
        listener: &Listener<'_>,
        (which, uris): (usize, &[String]),
        (told, is_acknowledged): (ToClient, bool),
    ) -> bool {
        let is_ack =
            matches!(&told, ToClient::Notification { method, .. } if method == ACKNOWLEDGED);
        if is_ack && is_acknowledged {
            return false;
        }
        for told in self.as_wished(talk, listener.wishes, (which, uris), told).await {
            drop(listener.all.send((which, told)).await);
        }
        is_ack
    }

    /// Whether a server that was asked is only not there now. One that says that it does not tell is not
    /// asked again, and a program that ends over the question is not started again for it.
    fn may_come_back(&self, which: usize, error: &LineError) -> bool {
        match error {
            LineError::Unreachable(_) | LineError::Busy | LineError::OverQuota(_) => true,
            LineError::Refused(status) => matches!(*status, 408 | 429 | 502..=504),
            // A program that ended over the request is not started again for it.
            LineError::Lost => !self.is_program(which),
            _ => false,
        }
    }

    /// Listens to an older server, which tells of its lists by itself, and of resources if it is asked to.
    /// Says whether it told of anything.
    async fn listen_to_older(
        &self,
        talk: &Talk,
        which: usize,
        line: &Line,
        ask: &Ask,
        all: &mpsc::Sender<(usize, ToClient)>,
    ) -> bool {
        let Some((told, gone)) = self.told_by_older(talk, which) else { return false };
        let (followed, line_of) = (Arc::clone(&told.followed), line.clone());
        let mut follows = Follows { followed, line: line_of, uris: Vec::new() };
        let mut told = told.said.subscribe();
        let told_of = |method: String, params| ToClient::Notification { method, params };
        // Over HTTP it needs a stream for that, which it may not have, or not yet.
        if timeout(ACKNOWLEDGING_TIME / 2, line.hears(true)).await.is_err() {
            // It is there, and nobody waits for more.
            drop(all.send((which, told_of(ACKNOWLEDGED.to_owned(), None))).await);
            tokio::select! {
                () = line.hears(true) => {}
                () = line.closed() => return false,
                () = gone.cancelled() => return false,
            }
        }
        let accepted = accepted(line, ask, &mut follows).await;
        if accepted.is_empty() {
            return false;
        }
        let wants = |method: &str, params: Option<&Bytes>| {
            if method == UPDATED {
                let uri = params.and_then(|params| member(params, "uri"));
                return uri.is_some_and(|uri| {
                    is_asked_for(&follows.uris, &uri) && self.may_use_uri(talk, which, &uri)
                });
            }
            LISTS.iter().any(|(wish, _, told)| *told == method && accepted.contains_key(*wish))
        };
        let subscription = ask.subscription.as_deref().unwrap_or_default();
        let params = json!({"notifications": accepted}).to_string();
        let named = with_subscription(Some(&Bytes::from(params)), subscription);
        drop(all.send((which, told_of(ACKNOWLEDGED.to_owned(), named))).await);
        loop {
            tokio::select! {
                heard = told.recv() => match heard {
                    Ok((method, params)) if wants(&method, params.as_ref()) => {
                        let params = with_subscription(params.as_ref(), subscription);
                        drop(all.send((which, told_of(method, params))).await);
                    }
                    Ok(_) => {}
                    // Something was missed, or the line is given up.
                    Err(_) => return true,
                },
                () = line.hears(false) => return true,
                () = line.closed() => return true,
                () = gone.cancelled() => return true,
            }
        }
    }
}

/// What an older server does of what a client wants.
async fn accepted(line: &Line, ask: &Ask, follows: &mut Follows) -> Map<String, Value> {
    let read = |json: Option<&Bytes>| -> Value {
        json.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
    };
    let (hello, wanted) = (read(line.hello()), read(ask.params.as_ref()));
    let can = |part: &str, what: &str| {
        let said = hello.get("capabilities").and_then(|all| all.get(part)?.get(what));
        said == Some(&Value::Bool(true))
    };
    let wish = |name: &str| wanted.get("notifications").and_then(|wanted| wanted.get(name));
    let mut accepted = Map::new();
    for (name, part, _) in LISTS {
        if wish(name) == Some(&Value::Bool(true)) && can(part, "listChanged") {
            accepted.insert(name.to_owned(), true.into());
        }
    }
    let resources = wish(RESOURCES).and_then(Value::as_array);
    if let Some(resources) = resources.filter(|_| can("resources", "subscribe")) {
        let mut followed = Vec::new();
        for uri in resources.iter().filter_map(Value::as_str) {
            if follows.begin(uri).await {
                followed.push(Value::from(uri));
            }
        }
        if !followed.is_empty() {
            accepted.insert(RESOURCES.to_owned(), followed.into());
        }
    }
    accepted
}

/// Parameters that name a subscription, whose JSON this is.
fn with_subscription(params: Option<&Bytes>, subscription: &[u8]) -> Option<Bytes> {
    let empty = Bytes::from_static(b"{}");
    let raw: &RawValue = serde_json::from_slice(params.unwrap_or(&empty)).ok()?;
    let mut params = Object::read(raw).ok()?;
    let mut meta: Map<String, Value> =
        params.get("_meta").and_then(|meta| serde_json::from_str(meta).ok()).unwrap_or_default();
    meta.insert(SUBSCRIPTION.to_owned(), serde_json::from_slice(subscription).ok()?);
    params.set("_meta", Value::Object(meta).to_string());
    Some(params.to_json().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(told: Vec<ToClient>) -> Vec<String> {
        let method = |told| match told {
            ToClient::Notification { method, .. } | ToClient::Request { method, .. } => method,
        };
        told.into_iter().map(method).collect()
    }

    #[test]
    fn who_accepts_late_may_have_changed_before() {
        let changed = "notifications/tools/list_changed";
        let mut acknowledging = Acknowledging {
            id: Bytes::from_static(b"7"),
            accepted: Map::new(),
            open: [0, 1, 2].into(),
            waiting: Vec::new(),
            until: Instant::now() + LISTENING_TIME,
            is_told: false,
        };
        let accepted = |wanted: Value| Bytes::from(json!({"notifications": wanted}).to_string());
        let said = accepted(json!({"toolsListChanged": true}));
        assert_eq!(acknowledging.accept(0, Some(&said)), None, "it was waited for");
        assert!(acknowledging.ready().is_empty());
        // One that is not there is not waited for.
        acknowledging.open.remove(&1);
        let said = accepted(json!({"resourceSubscriptions": ["x:mine"]}));
        let uris = acknowledging.accept(1, Some(&said)).unwrap();
        assert_eq!(uris, ["x:mine"]);
        acknowledging.tell_again([changed].into_iter(), &uris);
        assert!(acknowledging.ready().is_empty(), "another one is waited for");
        assert_eq!(acknowledging.accept(2, None), None);
        let told = acknowledging.ready();
        for told in &told {
            let ToClient::Notification { params: Some(params), .. } = told else { panic!() };
            let params: Value = serde_json::from_slice(params).unwrap();
            assert_eq!(params["_meta"][SUBSCRIPTION], 7, "{params}");
        }
        assert_eq!(methods(told), [ACKNOWLEDGED, changed, UPDATED]);
        assert_eq!(acknowledging.accept(2, None), Some(Vec::new()), "the client was told");
    }
}
