//! `/v1/revocations`: how an operator takes back what was handed out, while the server runs.
//!
//! It is for callers whose credential names the scope [`SCOPE`]; to everybody else there is nothing
//! here. A caller in mode `none` has all scopes, but nobody named one: whoever is not identified can
//! not revoke.

use bytes::Bytes;
use handback_identity::{Caller, binding};
use handback_store::Millis;
use handback_store::revocations::{Revocation, RevocationError};
use handback_surface::body::ReplyBody;
use handback_token::{Operation, SlotNumber};
use handback_tool::gate::Back;
use handback_tool::{Gate, Surface};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::router::{error, json_response};
use crate::tools::Time;

/// What a credential has to name.
pub const SCOPE: &str = "handback:revoke";

/// Where it is.
const PATH: &str = "/v1/revocations";

/// Bytes of a body: an issuer, a subject and some words.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Whether a path is answered here.
pub(crate) fn is_ours(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is to be revoked: one of these, or a principal and a moment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    principal: Option<Person>,
    session: Option<String>,
    key: Option<u8>,
    before_ms: Option<Millis>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    issuer: String,
    subject: String,
}

impl Wanted {
    fn revocation(self) -> Option<Revocation> {
        let Self { principal, session, key, before_ms } = self;
        let bound = match principal {
            Some(Person { issuer, subject }) => Some(binding::format(&issuer, &subject).ok()?),
            None => None,
        };
        Some(match (bound, session, key, before_ms) {
            (Some(bound), None, None, None) => Revocation::bound(&bound),
            (Some(bound), None, None, Some(moment)) => Revocation::bound_before(&bound, moment),
            (None, Some(session), None, None) => Revocation::session(&session),
            (None, None, Some(slot), None) => Revocation::slot(SlotNumber::new(slot)?),
            (None, None, None, Some(moment)) => Revocation::before(moment),
            _ => return None,
        })
    }
}

/// Answers a request whose path [`is_ours`].
pub(crate) async fn handle<B>(
    request: Request<B>,
    caller: &Caller,
    gate: &Gate,
    time: &Time,
) -> Response<ReplyBody>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !caller.scopes().name(SCOPE) {
        return nothing_here();
    }
    let number = request.uri().path().strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/'));
    let number = number.map(str::parse::<u64>);
    match (request.method(), number) {
        (&Method::GET, None) => list(gate, time()).await,
        (&Method::POST, None) => add(request, caller, gate, time).await,
        (&Method::DELETE, Some(Ok(number))) => lift(number, caller, gate, time()).await,
        (_, Some(Err(_))) => nothing_here(),
        _ => error(StatusCode::METHOD_NOT_ALLOWED, "METHOD", "this is not asked for so"),
    }
}

async fn list(gate: &Gate, now: Millis) -> Response<ReplyBody> {
    let known = gate.revocations().current(now).await;
    let entry = |(number, revocation): (u64, Revocation)| {
        let (what, before_ms) = revocation.summary();
        let mut entry = json!({"number": number, "what": what});
        if let (Some(entry), Some(moment)) = (entry.as_object_mut(), before_ms) {
            entry.insert("before_ms".to_owned(), moment.into());
        }
        entry
    };
    let all: Vec<Value> = known.list().into_iter().map(entry).collect();
    json_response(StatusCode::OK, &json!({"revocations": all}))
}

async fn add<B>(
    request: Request<B>,
    caller: &Caller,
    gate: &Gate,
    time: &Time,
) -> Response<ReplyBody>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let wanted = body.ok().map(http_body_util::Collected::to_bytes);
    let wanted = wanted.and_then(|body| serde_json::from_slice::<Wanted>(&body).ok());
    let Some(revocation) = wanted.and_then(Wanted::revocation) else {
        let message = "the body names a principal, a session, a key or a moment, and no more";
        return error(StatusCode::BAD_REQUEST, "BAD_REQUEST", message);
    };
    // Now that all of the body is here, for which the caller may have taken its time.
    match gate.revocations().revoke(revocation, time()).await {
        Ok(number) => {
            gate.changed(&changed(caller, revocation.summary().0), "revoked");
            json_response(StatusCode::CREATED, &json!({"number": number}))
        }
        Err(why) => failed(&why),
    }
}

async fn lift(number: u64, caller: &Caller, gate: &Gate, now: Millis) -> Response<ReplyBody> {
    match gate.revocations().lift(number, now).await {
        Ok(true) => {
            gate.changed(&changed(caller, &number.to_string()), "lifted");
            json_response(StatusCode::OK, &json!({"number": number}))
        }
        Ok(false) => nothing_here(),
        Err(why) => failed(&why),
    }
}

fn changed<'a>(caller: &'a Caller, name: &'a str) -> Back<'a> {
    let (surface, operation) = (Surface::Http, Operation::Call);
    let principal = caller.principal();
    Back { surface, operation, name, continuation: "revocation", principal, text: "" }
}

fn failed(why: &RevocationError) -> Response<ReplyBody> {
    match why {
        RevocationError::TooMany => error(StatusCode::CONFLICT, "TOO_MANY", why),
        _ => {
            tracing::error!(error = %why, "what is revoked cannot be written");
            let message = "this cannot be written down now";
            error(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
        }
    }
}

/// What every path gets that leads nowhere.
fn nothing_here() -> Response<ReplyBody> {
    error(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing here")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::stream;
    use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
    use handback_identity::{Bearer, Roster};
    use handback_store::MemoryStore;
    use handback_store::revocations::{REVOCATION_LIFE_MS, Subject};
    use handback_tool::audit::NoAudit;
    use handback_tool::{Clock, RevocationWatch};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    const HOUR_MS: Millis = 3_600_000;

    #[derive(Debug)]
    struct Hands(AtomicU64);

    impl Clock for Hands {
        fn now_ms(&self) -> Millis {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn operator() -> Caller {
        let token = NewToken::generate(&mut rand::rng());
        let entry = Entry::new(&token, "operator", &[SCOPE], None).unwrap();
        let roster = Roster::parse(format!("{FIRST_LINE}\n{entry}\n").as_bytes(), "s").unwrap();
        let header = format!("Bearer {}", token.dangerous_text());
        roster.identify(Bearer::find([header.as_bytes()]).unwrap(), 0).unwrap()
    }

    #[tokio::test]
    async fn a_revocation_is_made_when_all_of_it_has_come() {
        let clock = Arc::new(Hands(AtomicU64::new(HOUR_MS)));
        let watch = RevocationWatch::new(Arc::new(MemoryStore::new()), HOUR_MS).unwrap();
        let hands = Arc::clone(&clock);
        let time: Time = Arc::new(move || hands.now_ms());
        let gate =
            Gate::new(watch.clone(), Arc::new(NoAudit), Arc::clone(&clock) as Arc<dyn Clock>);
        // Its caller takes an hour for it.
        let hands = Arc::clone(&clock);
        let body = stream::once(async move {
            hands.0.fetch_add(HOUR_MS, Ordering::SeqCst);
            let body = Bytes::from_static(br#"{"session": "s"}"#);
            Ok::<_, std::io::Error>(Frame::data(body))
        });
        let request = Request::post(PATH).body(StreamBody::new(body)).unwrap();
        let response = handle(request, &operator(), &gate, &time).await;
        assert_eq!(response.status(), StatusCode::CREATED);
        let caller = operator();
        let subject = Subject::of(caller.principal()).session("s");
        let last = 2 * HOUR_MS + REVOCATION_LIFE_MS - 1;
        assert!(watch.current(last).await.is_revoked(&subject));
        assert!(!watch.current(last + 1_000).await.is_revoked(&subject));
    }
}
