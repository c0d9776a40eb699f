//! `/v1/stream/__ds/…`.

use std::sync::Arc;

use bytes::Bytes;
use handback_stream::Offset;
use hyper::body::Body;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::book::{Book, Full};
use super::making::{Made, NotMade};
use super::manager::{Subscriptions, acks, random};
use super::state::{
    BAD_PATH, Claim, Config, Fault, Kind, Link, MAX_LINKS, Subscription, TOO_MANY_LINKS, is_path,
    normal_path,
};
use super::tails::{position, tails};
use crate::body::ReplyBody;
use crate::streams::answer;
use crate::streams::params::decoded;
use crate::streams::routes::body;

/// What control paths start with, behind the route of streams.
pub(crate) const CONTROL: &str = "__ds/";

/// Bytes of a subscription's id.
const MAX_ID_BYTES: usize = 256;

/// The token of a wake, where `Authorization` has the credential of the caller.
const WAKE_TOKEN: HeaderName = HeaderName::from_static("stream-wake-token");

type Answered = Result<Response<ReplyBody>, Box<Response<ReplyBody>>>;

impl Subscriptions {
    /// Answers a request for a control path.
    pub(crate) async fn handle<B>(
        self: &Arc<Self>,
        request: Request<B>,
        path: &str,
        owner: &str,
    ) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answered = match path {
            "jwks.json" if request.method() == Method::GET => Ok(self.key_set()),
            path => match path.strip_prefix("subscriptions/") {
                Some(rest) => self.subscription(request, rest, owner).await,
                None => Err(not_found()),
            },
        };
        answered.unwrap_or_else(|response| *response)
    }

    async fn subscription<B>(
        self: &Arc<Self>,
        request: Request<B>,
        rest: &str,
        owner: &str,
    ) -> Answered
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
        let id = decoded(id)?;
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains('/') {
            return Err(bad("not the id of a subscription"));
        }
        let (parts, incoming) = request.into_parts();
        let this = self;
        match (&parts.method, action) {
            (&Method::PUT, "") => this.create(owner, id, json_body(incoming).await?).await,
            (&Method::GET, "") => {
                let shown = this.with_book(owner, move |this, book| {
                    let found = book.get(&id).ok_or_else(not_found)?;
                    Ok(json_response(StatusCode::OK, &this.shown(found)))
                });
                shown.await.unwrap_or_else(|| Err(not_found()))
            }
            (&Method::DELETE, "") => this.delete(owner, id).await,
            (&Method::POST, "streams") => this.add(owner, id, json_body(incoming).await?).await,
            (&Method::DELETE, action) if action.starts_with("streams/") => {
                let path = decoded(action.strip_prefix("streams/").unwrap_or_default())?;
                this.take_away(owner, id, normal_path(&path)).await
            }
            (&Method::POST, "claim") => this.claimed(owner, id, json_body(incoming).await?).await,
            (&Method::POST, "ack" | "callback") => {
                let is_callback = action == "callback";
                let asked = json_body(incoming).await?;
                this.processed(owner, id, asked, parts.headers, is_callback).await
            }
            (&Method::POST, "release") => {
                let asked = json_body(incoming).await?;
                this.released(owner, id, asked, parts.headers).await
            }
            _ => Err(not_found()),
        }
    }

    async fn create(self: &Arc<Self>, owner: &str, id: String, asked: Value) -> Answered {
        let config: Config =
            serde_json::from_value(asked).map_err(|_| bad("not a subscription"))?;
        let config = config.checked().map_err(bad)?;
        if let Some(webhook) = &config.webhook
            && let Err(error) = self.targets.check(&webhook.url).await
        {
            tracing::warn!(%error, id, "a webhook was refused");
            let text = "this URL may not be delivered to";
            return Err(refusal(StatusCode::BAD_REQUEST, "WEBHOOK_URL_REJECTED", text));
        }
        let status = match self.make(owner.to_owned(), id.clone(), config).await {
            Ok(Made::New) => StatusCode::CREATED,
            Ok(Made::Known) => StatusCode::OK,
            Err(NotMade::Exists) => {
                return Err(refusal(StatusCode::CONFLICT, "EXISTS", "there is another one"));
            }
            Err(NotMade::Exhausted(part)) => return Err(answer::full(part)),
            Err(NotMade::Links(why)) => return Err(bad(why)),
            Err(NotMade::Store(error)) => return Err(unstored(error)),
            Err(NotMade::Stopping) => return Err(stopping()),
        };
        let shown = self.with_book(owner, move |this, book| {
            let found = book.get(&id).ok_or_else(not_found)?;
            Ok(json_response(status, &this.shown(found)))
        });
        shown.await.unwrap_or_else(|| Err(not_found()))
    }

    async fn delete(self: &Arc<Self>, owner: &str, id: String) -> Answered {
        let found = self.owners.get_or_new(owner);
        let removed = {
            let _making = found.making.lock().await;
            let owner = owner.to_owned();
            let remove = move |this: &Arc<Self>, book: &mut Book| {
                this.rows.remove(&owner, &id, this.streams.now())?;
                book.remove(&id);
                this.agenda.set((owner.as_str().into(), id), None);
                Ok(())
            };
            self.with_book(found.namespace.owner(), remove).await
        };
        self.owners.retire(found);
        match removed {
            Some(Ok(())) => Ok(answer::status(StatusCode::NO_CONTENT)),
            Some(Err(error)) => Err(unstored(error)),
            None => Err(stopping()),
        }
    }

    async fn add(self: &Arc<Self>, owner: &str, id: String, asked: Value) -> Answered {
        let paths = asked.get("streams").and_then(Value::as_array);
        let paths = paths.ok_or_else(|| bad("streams must be there"))?;
        if paths.len() > MAX_LINKS {
            return Err(bad(TOO_MANY_LINKS));
        }
        let paths: Option<Vec<_>> =
            paths.iter().map(|path| path.as_str().map(normal_path)).collect();
        let paths = paths.ok_or_else(|| bad("streams are paths"))?;
        if !paths.iter().all(|path| is_path(path)) {
            return Err(bad(BAD_PATH));
        }
        let add = move |this: &Arc<Self>, book: &mut Book| this.added(book, &id, &paths);
        self.with_book(owner, add).await.unwrap_or_else(|| Err(not_found()))
    }

    fn added(&self, book: &mut Book, id: &str, paths: &[String]) -> Answered {
        let before = book.get(id).ok_or_else(not_found)?.links.clone();
        let linked = {
            let owner = book.get(id).map(|subscription| subscription.owner.clone());
            let owner = owner.ok_or_else(not_found)?;
            paths.iter().try_for_each(|path| {
                let position = position(&self.streams, &owner, path);
                book.link(id, path, Link::from_end(true, position))
            })
        };
        let stored = match linked {
            Err(Full::Links) => Err(bad(TOO_MANY_LINKS)),
            Err(Full::Quota(part)) => Err(answer::full(part)),
            Ok(()) => match book.get(id) {
                Some(subscription) => {
                    self.rows.store(subscription, self.streams.now()).map_err(unstored)
                }
                None => Err(not_found()),
            },
        };
        if let Err(answer) = stored {
            for path in paths {
                match (before.get(path), book.get_mut(id)) {
                    (Some(link), Some(subscription)) => {
                        subscription.links.insert(path.clone(), *link);
                    }
                    _ => book.unlink(id, path),
                }
            }
            return Err(answer);
        }
        Ok(answer::status(StatusCode::NO_CONTENT))
    }

    async fn take_away(self: &Arc<Self>, owner: &str, id: String, path: String) -> Answered {
        if !is_path(&path) {
            return Err(bad(BAD_PATH));
        }
        let take = move |this: &Arc<Self>, book: &mut Book| {
            let entry = book.entry(&id).ok_or_else(not_found)?;
            // The pattern covers streams that are there.
            let is_covered = entry.pattern.as_ref().is_some_and(|pattern| pattern.matches(&path))
                && position(&this.streams, &entry.subscription.owner, &path).is_some();
            let mut next = book.get(&id).ok_or_else(not_found)?.clone();
            match next.links.get_mut(&path) {
                Some(link) if is_covered => link.explicit = false,
                _ => {
                    next.links.remove(&path);
                }
            }
            this.rows.store(&next, this.streams.now()).map_err(unstored)?;
            match book.get_mut(&id).and_then(|subscription| subscription.links.get_mut(&path)) {
                Some(link) if is_covered => link.explicit = false,
                _ => book.unlink(&id, &path),
            }
            Ok(answer::status(StatusCode::NO_CONTENT))
        };
        self.with_book(owner, take).await.unwrap_or_else(|| Err(not_found()))
    }

    async fn claimed(self: &Arc<Self>, owner: &str, id: String, asked: Value) -> Answered {
        let worker = asked.get("worker").and_then(Value::as_str).unwrap_or_default().to_owned();
        if worker.is_empty() || worker.len() > MAX_ID_BYTES {
            return Err(bad("worker must be there"));
        }
        self.catch_up(owner).await;
        let claim = move |this: &Arc<Self>, book: &mut Book| {
            let subscription = book.get_mut(&id).ok_or_else(not_found)?;
            if subscription.config.kind != Kind::PullWake {
                return Err(bad("this subscription is delivered by webhook"));
            }
            let mut next = subscription.clone();
            let (now, token) = (this.streams.now(), random());
            let tails = tails(&this.streams, &next.owner);
            match next.claim_next(&worker, (format!("w_{}", random()), &token), now, &*tails) {
                Ok(()) => {}
                Err(Claim::Nothing) => {
                    let text = "there is nothing to do";
                    return Err(refusal(StatusCode::CONFLICT, "NO_PENDING_WORK", text));
                }
                Err(Claim::Held(holder)) => return Err(held(&holder, next.generation)),
            }
            this.rows.store(&next, this.streams.now()).map_err(unstored)?;
            *subscription = next;
            this.agenda.plan(subscription, now, None);
            let wake_id = subscription.wake.as_ref().map(|wake| wake.id.clone());
            let claimed = json!({
                "wake_id": wake_id,
                "generation": subscription.generation,
                "token": token,
                "streams": subscription.progress(&*tails),
                "lease_ttl_ms": subscription.config.lease_ms(),
            });
            Ok(json_response(StatusCode::OK, &claimed))
        };
        self.with_book(owner, claim).await.unwrap_or_else(|| Err(not_found()))
    }

    async fn processed(
        self: &Arc<Self>,
        owner: &str,
        id: String,
        asked: Value,
        headers: HeaderMap,
        is_callback: bool,
    ) -> Answered {
        let acks =
            acks(asked.get("acks")).ok_or_else(|| bad("acks have a stream and an offset"))?;
        let done = asked.get("done") == Some(&Value::Bool(true));
        let process = move |this: &Arc<Self>, book: &mut Book| {
            let subscription = book.get_mut(&id).ok_or_else(not_found)?;
            if (subscription.config.kind == Kind::Webhook) != is_callback {
                return Err(not_found());
            }
            let mut next = subscription.clone();
            next.expire(this.streams.now());
            check(&next, &asked, &headers)?;
            let (now, tails) = (this.streams.now(), tails(&this.streams, &next.owner));
            let has_more = next.finish(&acks, done, now, &*tails).map_err(faulty)?;
            this.rows.store(&next, this.streams.now()).map_err(unstored)?;
            *subscription = next;
            this.agenda.plan_after(subscription, this.streams.now());
            Ok(json_response(StatusCode::OK, &json!({"ok": true, "next_wake": has_more})))
        };
        self.with_book(owner, process).await.unwrap_or_else(|| Err(not_found()))
    }

    async fn released(
        self: &Arc<Self>,
        owner: &str,
        id: String,
        asked: Value,
        headers: HeaderMap,
    ) -> Answered {
        let release = move |this: &Arc<Self>, book: &mut Book| {
            let subscription = book.get_mut(&id).ok_or_else(not_found)?;
            let mut next = subscription.clone();
            next.expire(this.streams.now());
            check(&next, &asked, &headers)?;
            next.wake = None;
            this.rows.store(&next, this.streams.now()).map_err(unstored)?;
            *subscription = next;
            this.agenda.plan_after(subscription, this.streams.now());
            Ok(answer::status(StatusCode::NO_CONTENT))
        };
        self.with_book(owner, release).await.unwrap_or_else(|| Err(not_found()))
    }

    fn shown(&self, subscription: &Subscription) -> Value {
        let config = &subscription.config;
        let streams: Vec<_> = subscription
            .links
            .iter()
            .map(|(path, link)| {
                json!({
                    "path": path,
                    "link_type": link.kind(),
                    "acked_offset": Offset::after(link.acked).to_string(),
                })
            })
            .collect();
        let webhook = config.webhook.as_ref().map(|webhook| {
            json!({
                "url": webhook.url,
                "signing": {
                    "alg": "ed25519",
                    "kid": self.signer.key_id(),
                    "jwks_url": self.signer.key_set_url(),
                },
            })
        });
        let created = i64::try_from(subscription.created_ms).unwrap_or_default();
        let created = jiff::Timestamp::from_millisecond(created).unwrap_or_default();
        json!({
            "id": subscription.id,
            "subscription_id": subscription.id,
            "type": config.kind,
            "pattern": config.pattern,
            "streams": streams,
            "webhook": webhook,
            "wake_stream": config.wake_stream,
            "lease_ttl_ms": config.lease_ms(),
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            "status": if subscription.failures > 0 { "failed" } else { "active" },
            "is_complete": !subscription.is_incomplete,
            "description": config.description,
        })
    }

    fn key_set(&self) -> Response<ReplyBody> {
        let mut response = json_response(StatusCode::OK, &self.signer.key_set());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        response
    }
}

/// Checks that a request is about the current wake, by who has it.
fn check(
    subscription: &Subscription,
    asked: &Value,
    headers: &HeaderMap,
) -> Result<(), Box<Response<ReplyBody>>> {
    // Where callers have credentials of their own, these are in the header of the protocol.
    let own = headers.get(WAKE_TOKEN).and_then(|value| value.to_str().ok());
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let token = own.or(bearer).unwrap_or_default();
    let wake_id = asked.get("wake_id").and_then(Value::as_str);
    let generation = asked.get("generation").and_then(Value::as_u64);
    let (Some(wake_id), Some(generation)) = (wake_id, generation) else {
        return Err(bad("wake_id and generation must be there"));
    };
    subscription.check(wake_id, generation, token).map_err(faulty)
}

fn faulty(fault: Fault) -> Box<Response<ReplyBody>> {
    match fault {
        Fault::Fenced => refusal(StatusCode::CONFLICT, "FENCED", "this wake is over"),
        Fault::Token => refusal(StatusCode::UNAUTHORIZED, "TOKEN", "this token is not the wake's"),
        Fault::Unknown => bad("a stream is not part of the subscription"),
        Fault::Offset => bad("an offset is behind the end of its stream"),
    }
}

async fn json_body<B>(incoming: B) -> Result<Value, Box<Response<ReplyBody>>>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let bytes = body(incoming).await?;
    serde_json::from_slice(&bytes).map_err(|_| bad("the body is not JSON"))
}

fn json_response(status: StatusCode, value: &Value) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn held(holder: &str, generation: u64) -> Box<Response<ReplyBody>> {
    let error = json!({"error": {
        "code": "ALREADY_CLAIMED",
        "current_holder": holder,
        "generation": generation,
    }});
    Box::new(json_response(StatusCode::CONFLICT, &error))
}

fn stopping() -> Box<Response<ReplyBody>> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "STOPPING", "the server is stopping")
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Box<Response<ReplyBody>> {
    Box::new(answer::error(status, code, message))
}

fn bad(message: &str) -> Box<Response<ReplyBody>> {
    refusal(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
}

fn not_found() -> Box<Response<ReplyBody>> {
    refusal(StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such subscription")
}

fn unstored(why: handback_store::StoreError) -> Box<Response<ReplyBody>> {
    tracing::error!(%why, "a subscription was not stored");
    let text = "writes are not taken at the moment";
    refusal(StatusCode::SERVICE_UNAVAILABLE, "READ_ONLY", text)
}
