//! Subscriptions of newer clients: what changes at any of the servers, as one stream.
//!
//! Newer servers are asked to tell, each of them. Older ones tell without being asked, on the line that
//! is their caller's alone: of that, the client hears what it wants to.

use std::collections::HashMap;
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
use tokio::time::{Duration, Instant, sleep_until, timeout};

use crate::catalog::OWN;
use crate::gateway::Gateway;
use crate::relay::relayed;
use crate::slot::OnLine;
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Ask, Heard, Line, LineError};
use crate::wishes::Wishes;
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

/// What an older server says on the line of one caller, and what is followed there. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    said: broadcast::Sender<(String, Option<Bytes>)>,
    followed: Arc<Mutex<Followed>>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let (said, _) = broadcast::channel(WAITING_MAX);
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
        told.say(method, params);
    }
}

/// How listening to one server ended.
struct Ended {
    which: usize,
    is_acknowledged: bool,
    with: Result<Answer, LineError>,
}

/// What all servers together accept, until the client is told.
struct Acknowledging {
    /// The JSON of the id of the subscription.
    id: Bytes,
    accepted: Map<String, Value>,
    /// Those who may still say something.
    open: usize,
    waiting: Vec<ToClient>,
    until: Instant,
    is_told: bool,
}

impl Acknowledging {
    fn accept(&mut self, params: Option<&Bytes>) {
        self.open = self.open.saturating_sub(1);
        let said: Option<Value> = params.and_then(|params| serde_json::from_slice(params).ok());
        let Some(Value::Object(more)) = said.and_then(|said| said.get("notifications").cloned())
        else {
            return;
        };
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
    }

    /// What the client is to be told now: the acknowledgement, and what came before it.
    fn ready(&mut self) -> Vec<ToClient> {
        if self.is_told {
            return std::mem::take(&mut self.waiting);
        }
        let is_time =
            self.open == 0 || self.waiting.len() >= WAITING_MAX || Instant::now() >= self.until;
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
        let id = Bytes::copy_from_slice(question.id.as_bytes());
        let (all, mut told) = mpsc::channel(WAITING_MAX);
        let Some(wishes) = self.wishes(talk, &question).await else {
            return words::refused(INVALID_PARAMS, "`notifications` cannot be read", None);
        };
        let asked = (0..=self.own()).map(|which| {
            let ask = Ask {
                method: question.method.to_owned(),
                params: Some(wishes.params(self, talk, which)),
                headers: question.headers.clone(),
                heard: None,
                // For as long as the client wants it.
                time_limit: Some(LISTENING_TIME),
                subscription: Some(id.clone()),
            };
            self.listen_to(talk, which, ask, &wishes, all.clone())
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        drop(all);
        let mut last = None;
        let mut acknowledging = Acknowledging {
            id,
            accepted: Map::new(),
            open: self.own() + 1,
            waiting: Vec::new(),
            until: Instant::now() + ACKNOWLEDGING_TIME,
            is_told: false,
        };
        loop {
            for told in acknowledging.ready() {
                drop(talk.out.send(told).await);
            }
            tokio::select! {
                biased;
                Some(told) = told.recv() => {
                    self.heard_of(talk, told, &mut acknowledging);
                }
                ended = asked.next() => match ended {
                    // Who listens believes to hear everything: it comes back.
                    Some(Ended { which, is_acknowledged: true, with }) => {
                        while let Ok(told) = told.try_recv() {
                            self.heard_of(talk, told, &mut acknowledging);
                        }
                        acknowledging.until = Instant::now();
                        for told in acknowledging.ready() {
                            drop(talk.out.send(told).await);
                        }
                        let lost = |error| words::unanswered(self.name_of(which), &error);
                        return with.unwrap_or_else(lost);
                    }
                    // One that has nothing to tell, or is not there.
                    Some(Ended { with, .. }) => {
                        acknowledging.open = acknowledging.open.saturating_sub(1);
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
    fn heard_of(&self, talk: &Talk, told: ToClient, acknowledging: &mut Acknowledging) {
        let ToClient::Notification { method, params } = &told else { return };
        if method.ends_with("/list_changed") {
            self.forget(talk);
        }
        match method == ACKNOWLEDGED {
            true => acknowledging.accept(params.as_ref()),
            false => acknowledging.waiting.push(told),
        }
    }

    /// Listens to one server.
    async fn listen_to(
        &self,
        talk: &Talk,
        which: usize,
        ask: Ask,
        wishes: &Wishes<'_>,
        all: mpsc::Sender<ToClient>,
    ) -> Ended {
        let (out, mut told) = mpsc::channel(WAITING_MAX);
        let line = match self.line(talk, which).await {
            Ok(line) => line,
            Err(error) => return Ended { which, is_acknowledged: false, with: Err(error) },
        };
        if line.era() == Era::Legacy {
            let is_acknowledged = self.listen_to_older(talk, which, &line, &ask, &all).await;
            return Ended { which, is_acknowledged, with: Err(LineError::Lost) };
        }
        let is_ack = |told: &ToClient| matches!(told, ToClient::Notification { method, .. } if method == ACKNOWLEDGED);
        let mut asked = std::pin::pin!(relayed(Talk { out, ..talk.clone() }, line, ask));
        let mut is_acknowledged = false;
        let with = loop {
            tokio::select! {
                biased;
                Some(told) = told.recv() => {
                    is_acknowledged |= is_ack(&told);
                    for told in self.as_wished(talk, wishes, which, told).await {
                        drop(all.send(told).await);
                    }
                }
                ended = &mut asked => break ended,
            }
        };
        // It may have said so with its last words.
        while let Ok(told) = told.try_recv() {
            is_acknowledged |= is_ack(&told);
            for told in self.as_wished(talk, wishes, which, told).await {
                drop(all.send(told).await);
            }
        }
        Ended { which, is_acknowledged, with }
    }

    /// Listens to an older server, which tells of its lists by itself, and of resources if it is asked to.
    /// Says whether it told of anything.
    async fn listen_to_older(
        &self,
        talk: &Talk,
        which: usize,
        line: &Line,
        ask: &Ask,
        all: &mpsc::Sender<ToClient>,
    ) -> bool {
        let Some((told, gone)) = self.told_by_older(talk, which) else { return false };
        let (followed, line_of) = (Arc::clone(&told.followed), line.clone());
        let mut follows = Follows { followed, line: line_of, uris: Vec::new() };
        let mut told = told.said.subscribe();
        // Over HTTP it needs a stream for that, which it may not have.
        if timeout(ACKNOWLEDGING_TIME / 2, line.hears(true)).await.is_err() {
            return false;
        }
        let accepted = accepted(line, ask, &mut follows).await;
        if accepted.is_empty() {
            return false;
        }
        let wants = |method: &str, params: Option<&Bytes>| {
            if method == UPDATED {
                let uri = params.and_then(|params| crate::catalog::member(params, "uri"));
                let uri = uri.map(Value::from);
                let known = accepted.get(RESOURCES).and_then(Value::as_array);
                return known.zip(uri).is_some_and(|(known, uri)| known.contains(&uri));
            }
            LISTS.iter().any(|(wish, _, told)| *told == method && accepted.contains_key(*wish))
        };
        let subscription = ask.subscription.as_deref().unwrap_or_default();
        let params = json!({"notifications": accepted}).to_string();
        let named = with_subscription(Some(&Bytes::from(params)), subscription);
        let told_of = |method: String, params| ToClient::Notification { method, params };
        drop(all.send(told_of(ACKNOWLEDGED.to_owned(), named)).await);
        loop {
            tokio::select! {
                heard = told.recv() => match heard {
                    Ok((method, params)) if wants(&method, params.as_ref()) => {
                        let params = with_subscription(params.as_ref(), subscription);
                        drop(all.send(told_of(method, params)).await);
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
