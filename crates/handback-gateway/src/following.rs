//! What older clients follow at servers of the newer era.
//!
//! An older client subscribes to one resource after another, and hears of changed lists without asking. A
//! newer server tells those who listen, with one question that names all that they want to hear of. So a
//! session has one subscription at each such server, and has another one when something is added to it or
//! taken from it. That one is there before the other ends: something may be heard twice, and nothing is
//! missed.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use handback_wire::meta::SUBSCRIPTION;
use rand::RngExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::catalog::member;
use crate::listening::{ACKNOWLEDGED, LISTENING_TIME, LISTS, RESOURCES, UPDATED};
use crate::session::Session;
use crate::talk::ToClient;
use crate::upstream::{Answer, Ask, HEARD_MAX, Heard, LineError, REVISION};
use crate::words::{self, INVALID_PARAMS};

/// Resources that one session follows at one server at most, as at our own.
const FOLLOWED_MAX: usize = 1_000;

/// Wishes of one client that wait at most.
const WISHES_MAX: usize = 16;

/// How long a server may take to acknowledge.
const ACKNOWLEDGING_TIME: Duration = Duration::from_secs(10);

/// How long it is not listened to a server after that ended, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a server is left alone that was not there so many times before. Not all who wait for it come
/// back at once.
pub(crate) fn pause_after(times: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << times.min(10)).min(LONGEST_PAUSE);
    longest.mul_f64(rand::rng().random_range(0.5..=1.0))
}

/// What an older client follows at one server. It ends with this.
#[derive(Debug)]
pub(crate) struct Following {
    wishes: mpsc::Sender<Wish>,
}

/// What a client wants to follow, or not any more.
#[derive(Debug)]
struct Wish {
    uri: String,
    is_wanted: bool,
    answer: oneshot::Sender<Answer>,
}

impl Following {
    /// Begins to listen to a server that says this of itself; nothing, if it has nothing to tell.
    pub(crate) fn begin(session: &Arc<Session>, which: usize, hello: &[u8]) -> Option<Self> {
        let said: Value = serde_json::from_slice(hello).ok()?;
        let can = |part: &str, what: &str| {
            said.get("capabilities").and_then(|all| all.get(part)?.get(what))
                == Some(&Value::Bool(true))
        };
        let lists: Vec<_> =
            LISTS.into_iter().filter(|(_, part, _)| can(part, "listChanged")).collect();
        if lists.is_empty() && !can("resources", "subscribe") {
            return None;
        }
        let (sender, wishes) = mpsc::channel(WISHES_MAX);
        let (out, session) = (session.out().clone(), Arc::downgrade(session));
        let follower = Follower { session, which, out, lists, uris: BTreeSet::new() };
        tokio::spawn(follower.run(wishes));
        Some(Self { wishes: sender })
    }

    /// Follows a resource, or does not any more.
    pub(crate) async fn follow(&self, uri: String, is_wanted: bool) -> Answer {
        let (answer, answered) = oneshot::channel();
        let lost = || words::refused(words::INTERNAL_ERROR, "the session has ended", None);
        if self.wishes.send(Wish { uri, is_wanted, answer }).await.is_err() {
            return lost();
        }
        answered.await.unwrap_or_else(|_| lost())
    }
}

/// Listens to one server for one session.
struct Follower {
    session: Weak<Session>,
    which: usize,
    /// Where it is told.
    out: mpsc::Sender<ToClient>,
    /// Those that the server tells of: the wish, the part, and the notification.
    lists: Vec<(&'static str, &'static str, &'static str)>,
    uris: BTreeSet<String>,
}

/// A subscription that was acknowledged.
struct Listening {
    heard: mpsc::Receiver<Heard>,
    asked: JoinHandle<Result<Answer, LineError>>,
    /// The resources that the server tells of.
    accepted: Value,
}

/// Nobody listens any more: the server is told so.
impl Drop for Listening {
    fn drop(&mut self) {
        self.asked.abort();
    }
}

impl Follower {
    async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        let mut listening: Option<Listening> = None;
        let (mut pause, mut next_try) = (FIRST_PAUSE, Instant::now());
        let mut was_lost = false;
        loop {
            let is_wanted = !self.lists.is_empty() || !self.uris.is_empty();
            tokio::select! {
                biased;
                heard = next(&mut listening), if listening.is_some() => match heard {
                    Some(heard) => {
                        pause = FIRST_PAUSE;
                        self.tell(heard).await;
                    }
                    None => {
                        (listening, was_lost, next_try) = (None, true, Instant::now() + pause);
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                },
                wish = wishes.recv() => {
                    let Some(wish) = wish else { return };
                    if let Some(new) = self.fulfil(wish).await {
                        // What the old one still has to say was said before.
                        while let Some(heard) = listening.as_mut().and_then(|old| old.heard.try_recv().ok()) {
                            self.tell(heard).await;
                        }
                        listening = new;
                    }
                }
                () = sleep_until(next_try), if listening.is_none() && is_wanted => {
                    listening = self.listen(&self.uris).await.ok();
                    if listening.is_none() {
                        next_try = Instant::now() + pause;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    } else if std::mem::take(&mut was_lost) {
                        self.tell_all().await;
                    }
                }
            }
        }
    }

    /// Does what the client wants, and says so; gives what is to be listened to from now on, if that is
    /// something else.
    async fn fulfil(&mut self, wish: Wish) -> Option<Option<Listening>> {
        let Wish { uri, is_wanted, answer } = wish;
        let mut uris = self.uris.clone();
        let is_new = if is_wanted { uris.insert(uri.clone()) } else { uris.remove(&uri) };
        let done = words::result(&json!({}));
        let (told, listening) = if !is_new {
            (done, None)
        } else if uris.len() > FOLLOWED_MAX {
            (words::refused(INVALID_PARAMS, "too many resources are followed", None), None)
        } else if uris.is_empty() && self.lists.is_empty() {
            self.uris = uris;
            (done, Some(None))
        } else {
            match self.listen(&uris).await {
                Ok(new) if is_wanted && !new.accepts(&uri) => {
                    (words::refused(INVALID_PARAMS, "this resource is not followed", None), None)
                }
                Ok(new) => {
                    self.uris = uris;
                    (done, Some(Some(new)))
                }
                // What comes of it is not told any more.
                Err(_) if !is_wanted => {
                    self.uris = uris;
                    (done, None)
                }
                Err(why) => (self.unanswered(&why), None),
            }
        };
        // The client may have left.
        let _ = answer.send(told);
        listening
    }

    fn unanswered(&self, why: &LineError) -> Answer {
        let session = self.session.upgrade();
        let name = session.as_ref().map(|session| session.gateway().name_of(self.which));
        words::unanswered(name.unwrap_or_default(), why)
    }

    /// Listens to what changes, and waits until the server says that it tells.
    async fn listen(&self, uris: &BTreeSet<String>) -> Result<Listening, LineError> {
        let session = self.session.upgrade().ok_or(LineError::Lost)?;
        let (gateway, meta) = (session.gateway().clone(), session.meta(REVISION));
        // It may end meanwhile.
        drop(session);
        let line = gateway.modern_line(self.which).await?;
        let mut wanted: Map<String, Value> =
            self.lists.iter().map(|(wish, ..)| ((*wish).to_owned(), true.into())).collect();
        if !uris.is_empty() {
            wanted.insert(RESOURCES.to_owned(), json!(uris));
        }
        let params = json!({"_meta": meta, "notifications": wanted});
        let (sender, mut heard) = mpsc::channel(HEARD_MAX);
        let ask = Ask {
            method: "subscriptions/listen".to_owned(),
            params: Some(params.to_string().into()),
            headers: Vec::new(),
            heard: Some(sender),
            time_limit: Some(LISTENING_TIME),
            subscription: None,
            owner: None,
        };
        let asked = tokio::spawn(async move { line.ask(ask).await });
        let first = timeout(ACKNOWLEDGING_TIME, heard.recv()).await;
        let mut listening = Listening { heard, asked, accepted: Value::Null };
        match first {
            Ok(Some(Heard::Notification { method, params })) if method == ACKNOWLEDGED => {
                let said: Option<Value> =
                    params.and_then(|params| serde_json::from_slice(&params).ok());
                let accepted = said.and_then(|mut said| {
                    Some(said.get_mut("notifications")?.get_mut(RESOURCES)?.take())
                });
                listening.accepted = accepted.unwrap_or_default();
                Ok(listening)
            }
            Err(_) => Err(LineError::TimedOut),
            Ok(_) => Err(LineError::Protocol("it does not say that it tells of changes")),
        }
    }

    /// Tells the client what changed, as it knows it.
    async fn tell(&self, heard: Heard) {
        let Heard::Notification { method, params } = heard else { return };
        let params = if method == UPDATED {
            let uri = params.as_ref().and_then(|params| member(params, "uri"));
            // It may be a part of what is followed.
            let is_followed = |uri: &String| self.uris.iter().any(|known| uri.starts_with(known));
            if !uri.as_ref().is_some_and(is_followed) {
                return;
            }
            params.and_then(|params| without_subscription(&params))
        } else if self.lists.iter().any(|(.., told)| *told == method) {
            if let Some(session) = self.session.upgrade() {
                session.catalogs.forget();
            }
            None
        } else {
            return;
        };
        // The client may have left.
        let _ = self.out.send(ToClient::Notification { method, params }).await;
    }

    /// Tells the client that everything may have changed: nobody listened for a while.
    async fn tell_all(&self) {
        for (.., method) in &self.lists {
            self.tell(Heard::Notification { method: (*method).to_owned(), params: None }).await;
        }
        for uri in &self.uris {
            let params = Some(Bytes::from(json!({"uri": uri}).to_string()));
            self.tell(Heard::Notification { method: UPDATED.to_owned(), params }).await;
        }
    }
}

impl Listening {
    fn accepts(&self, uri: &str) -> bool {
        let accepted = self.accepted.as_array();
        accepted.is_some_and(|all| all.iter().any(|known| known.as_str() == Some(uri)))
    }
}

/// What is heard next; nothing, if it has ended.
async fn next(listening: &mut Option<Listening>) -> Option<Heard> {
    listening.as_mut()?.heard.recv().await
}

/// Parameters that do not name the subscription, of which older clients know nothing.
fn without_subscription(params: &[u8]) -> Option<Bytes> {
    let mut params: Map<String, Value> = serde_json::from_slice(params).ok()?;
    if let Some(Value::Object(meta)) = params.get_mut("_meta") {
        meta.remove(SUBSCRIPTION);
        if meta.is_empty() {
            params.remove("_meta");
        }
    }
    Some(Value::Object(params).to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_left_alone_for_longer_and_longer() {
        for (times, longest) in [(0, FIRST_PAUSE), (3, FIRST_PAUSE * 8), (u32::MAX, LONGEST_PAUSE)]
        {
            let pause = pause_after(times);
            assert!((longest / 2..=longest).contains(&pause), "{times}: {pause:?}");
        }
    }
}
