//! `/v1/stream/__ds/…`.

use std::collections::BTreeMap;

use bytes::Bytes;
use handback_stream::Offset;
use hyper::body::Body;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::deliver::Target;
use super::manager::{Claim, Subscriptions, acks};
use super::state::{Config, Fault, Kind, Link, Subscription, normal_path};
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
        self: &std::sync::Arc<Self>,
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
        self: &std::sync::Arc<Self>,
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
        let key = (owner.to_owned(), id);
        let (parts, incoming) = request.into_parts();
        match (&parts.method, action) {
            (&Method::PUT, "") => {
                let config = json_body(incoming).await?;
                self.create(key, config).await
            }
            (&Method::GET, "") => {
                let all = self.lock().await;
                let found = all.get(&key).ok_or_else(not_found)?;
                Ok(json_response(StatusCode::OK, &self.shown(found)))
            }
            (&Method::DELETE, "") => {
                let mut all = self.lock().await;
                if all.contains_key(&key) {
                    self.remove(&key.0, &key.1).map_err(unstored)?;
                    all.remove(&key);
                }
                Ok(answer::status(StatusCode::NO_CONTENT))
            }
            (&Method::POST, "streams") => {
                let asked = json_body(incoming).await?;
                self.add(key, &asked).await
            }
            (&Method::DELETE, action) if action.starts_with("streams/") => {
                let path = decoded(action.strip_prefix("streams/").unwrap_or_default())?;
                self.take_away(key, &normal_path(&path)).await
            }
            (&Method::POST, "claim") => {
                let asked = json_body(incoming).await?;
                self.claimed(key, &asked).await
            }
            (&Method::POST, "ack" | "callback") => {
                let asked = json_body(incoming).await?;
                self.processed(key, &asked, &parts.headers, action).await
            }
            (&Method::POST, "release") => {
                let asked = json_body(incoming).await?;
                self.released(key, &asked, &parts.headers).await
            }
            _ => Err(not_found()),
        }
    }

    async fn create(&self, key: (String, String), asked: Value) -> Answered {
        let config: Config =
            serde_json::from_value(asked).map_err(|_| bad("not a subscription"))?;
        let config = config.normal().map_err(bad)?;
        if let Some(webhook) = &config.webhook
            && Target::parse(&webhook.url, self.targets).is_none()
        {
            let text = "this URL may not be delivered to";
            return Err(error(StatusCode::BAD_REQUEST, "WEBHOOK_URL_REJECTED", text));
        }
        let mut all = self.lock().await;
        if let Some(known) = all.get(&key) {
            return match known.config == config {
                true => Ok(json_response(StatusCode::OK, &self.shown(known))),
                false => Err(error(StatusCode::CONFLICT, "EXISTS", "there is another one")),
            };
        }
        if !Self::has_room(all.len()) {
            let text = "there are too many subscriptions";
            return Err(error(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY", text));
        }
        let mut subscription = Subscription {
            id: key.1.clone(),
            owner: key.0.clone(),
            config,
            created_ms: self.streams.now(),
            links: BTreeMap::new(),
            generation: 0,
            wake: None,
            failures: 0,
            next_attempt_ms: 0,
        };
        self.link_existing(&mut subscription);
        self.store(&subscription).map_err(unstored)?;
        let shown = self.shown(&subscription);
        all.insert(key, subscription);
        Ok(json_response(StatusCode::CREATED, &shown))
    }

    async fn add(&self, key: (String, String), asked: &Value) -> Answered {
        let paths = asked.get("streams").and_then(Value::as_array);
        let paths = paths.ok_or_else(|| bad("streams must be there"))?;
        let paths: Option<Vec<_>> =
            paths.iter().map(|path| path.as_str().map(normal_path)).collect();
        let paths = paths.ok_or_else(|| bad("streams are paths"))?;
        let mut all = self.lock().await;
        let subscription = all.get_mut(&key).ok_or_else(not_found)?;
        if subscription.links.len() + paths.len() > super::state::MAX_LINKS {
            return Err(bad("too many streams"));
        }
        let before = subscription.clone();
        {
            let tails = self.tails(&key.0);
            for path in paths {
                let acked = tails(&path).unwrap_or(0);
                let link = Link { explicit: true, acked };
                subscription.links.entry(path).or_insert(link).explicit = true;
            }
        }
        self.store(subscription).map_err(|error| {
            *subscription = before;
            unstored(error)
        })?;
        Ok(answer::status(StatusCode::NO_CONTENT))
    }

    async fn take_away(&self, key: (String, String), path: &str) -> Answered {
        let mut all = self.lock().await;
        let subscription = all.get_mut(&key).ok_or_else(not_found)?;
        let before = subscription.clone();
        let covered = subscription.covers(path);
        if let Some(link) = subscription.links.get_mut(path) {
            link.explicit = false;
            if !covered {
                subscription.links.remove(path);
            }
        }
        self.store(subscription).map_err(|error| {
            *subscription = before;
            unstored(error)
        })?;
        Ok(answer::status(StatusCode::NO_CONTENT))
    }

    async fn claimed(&self, key: (String, String), asked: &Value) -> Answered {
        let worker = asked.get("worker").and_then(Value::as_str).unwrap_or_default();
        if worker.is_empty() || worker.len() > MAX_ID_BYTES {
            return Err(bad("worker must be there"));
        }
        let mut all = self.lock().await;
        let subscription = all.get_mut(&key).ok_or_else(not_found)?;
        if subscription.config.kind != Kind::PullWake {
            return Err(bad("this subscription is delivered by webhook"));
        }
        let before = subscription.clone();
        let token = match self.claim(subscription, worker).await {
            Ok(token) => token,
            Err(Claim::Nothing) => {
                let text = "there is nothing to do";
                return Err(error(StatusCode::CONFLICT, "NO_PENDING_WORK", text));
            }
            Err(Claim::Held(holder)) => {
                let said = json!({"error": {
                    "code": "ALREADY_CLAIMED",
                    "current_holder": holder,
                    "generation": subscription.generation,
                }});
                return Err(Box::new(json_response(StatusCode::CONFLICT, &said)));
            }
        };
        self.store(subscription).map_err(|error| {
            *subscription = before;
            unstored(error)
        })?;
        let wake_id = subscription.wake.as_ref().map(|wake| wake.id.clone());
        let said = json!({
            "wake_id": wake_id,
            "generation": subscription.generation,
            "token": token,
            "streams": self.told(subscription),
            "lease_ttl_ms": subscription.config.lease_ms(),
        });
        Ok(json_response(StatusCode::OK, &said))
    }

    async fn processed(
        &self,
        key: (String, String),
        asked: &Value,
        headers: &HeaderMap,
        action: &str,
    ) -> Answered {
        let acks =
            acks(asked.get("acks")).ok_or_else(|| bad("acks have a stream and an offset"))?;
        let done = asked.get("done") == Some(&Value::Bool(true));
        let mut all = self.lock().await;
        let subscription = all.get_mut(&key).ok_or_else(not_found)?;
        let is_webhook = subscription.config.kind == Kind::Webhook;
        if is_webhook != (action == "callback") {
            return Err(not_found());
        }
        subscription.expire(self.streams.now());
        check(subscription, asked, headers)?;
        let before = subscription.clone();
        let next = self.acked(subscription, &acks, done).map_err(faulty)?;
        self.store(subscription).map_err(|error| {
            *subscription = before;
            unstored(error)
        })?;
        Ok(json_response(StatusCode::OK, &json!({"ok": true, "next_wake": next})))
    }

    async fn released(
        &self,
        key: (String, String),
        asked: &Value,
        headers: &HeaderMap,
    ) -> Answered {
        let mut all = self.lock().await;
        let subscription = all.get_mut(&key).ok_or_else(not_found)?;
        subscription.expire(self.streams.now());
        check(subscription, asked, headers)?;
        let before = subscription.clone();
        subscription.wake = None;
        self.store(subscription).map_err(|error| {
            *subscription = before;
            unstored(error)
        })?;
        Ok(answer::status(StatusCode::NO_CONTENT))
    }

    fn shown(&self, subscription: &Subscription) -> Value {
        let config = &subscription.config;
        let streams: Vec<_> = subscription
            .links
            .iter()
            .map(|(path, link)| {
                json!({
                    "path": path,
                    "link_type": if link.explicit { "explicit" } else { "glob" },
                    "acked_offset": Offset::after(link.acked).to_string(),
                })
            })
            .collect();
        let webhook = config.webhook.as_ref().map(|webhook| {
            json!({
                "url": webhook.url,
                "signing": {
                    "alg": "ed25519",
                    "kid": self.key_id(),
                    "jwks_url": format!("{}/v1/stream/__ds/jwks.json", self.base()),
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
            "description": config.description,
        })
    }

    fn key_set(&self) -> Response<ReplyBody> {
        let said = json!({"keys": [{
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": self.key_id(),
            "use": "sig",
            "alg": "EdDSA",
            "x": self.public_key(),
        }]});
        let mut response = json_response(StatusCode::OK, &said);
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
        Fault::Fenced => error(StatusCode::CONFLICT, "FENCED", "this wake is over"),
        Fault::Token => error(StatusCode::UNAUTHORIZED, "TOKEN", "this token is not the wake's"),
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

fn error(status: StatusCode, code: &str, message: &str) -> Box<Response<ReplyBody>> {
    Box::new(answer::error(status, code, message))
}

fn bad(message: &str) -> Box<Response<ReplyBody>> {
    error(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
}

fn not_found() -> Box<Response<ReplyBody>> {
    error(StatusCode::NOT_FOUND, "NOT_FOUND", "there is no such subscription")
}

fn unstored(why: handback_store::StoreError) -> Box<Response<ReplyBody>> {
    tracing::error!(%why, "a subscription was not stored");
    let text = "writes are not taken at the moment";
    error(StatusCode::SERVICE_UNAVAILABLE, "READ_ONLY", text)
}
