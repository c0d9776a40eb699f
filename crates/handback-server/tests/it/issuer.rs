//! An issuer of access tokens, on this machine: it publishes metadata and keys, and signs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use handback_identity::discovery::{FetchUrl, KeySchedule};
use handback_identity::jwt::JwtPolicy;
use handback_server::IdentityMode;
use handback_server::identity::OidcSettings;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::clock::now;

pub(crate) const RESOURCE: &str = "https://tools.example/mcp";

/// How the issuer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Garbage,
    Huge,
    Redirecting,
    Slow,
    OtherIssuer,
    NoKeys,
    Symmetric,
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Option<JoinHandle<()>>,
}

struct Shared {
    keys: Mutex<Vec<Key>>,
    mood: Mutex<Mood>,
    fetches: AtomicUsize,
}

struct Key {
    id: String,
    secret: Vec<u8>,
    public: Vec<u8>,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            keys: Mutex::new(vec![Key::new("first")]),
            mood: Mutex::new(Mood::Well),
            fetches: AtomicUsize::new(0),
        });
        let mut issuer = Self { url: format!("http://{address}"), address, shared, serving: None };
        issuer.serve(listener);
        issuer
    }

    fn serve(&mut self, listener: TcpListener) {
        let (shared, url) = (Arc::clone(&self.shared), self.url.clone());
        self.serving = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (shared, url) = (Arc::clone(&shared), url.clone());
                tokio::spawn(async move {
                    let service = service_fn(|request| answer(&shared, &url, request));
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }));
    }

    pub(crate) async fn go_down(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.abort();
        let _ = serving.await;
    }

    pub(crate) async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    pub(crate) fn is_now(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Adds a key, and withdraws those before.
    pub(crate) fn rotate(&self, id: &str) {
        *self.shared.keys.lock().unwrap() = vec![Key::new(id)];
    }

    /// How often the keys were fetched.
    pub(crate) fn fetches(&self) -> usize {
        self.shared.fetches.load(Ordering::SeqCst)
    }

    pub(crate) fn mode(&self, min_interval_s: u64) -> IdentityMode {
        IdentityMode::Oidc(Box::new(OidcSettings {
            issuer: self.url.clone(),
            policy: JwtPolicy::new(&self.url, [RESOURCE]).unwrap(),
            resource: FetchUrl::parse(RESOURCE).unwrap(),
            jwks_uri: None,
            ca_file: None,
            scopes: vec!["read".to_owned()],
            schedule: KeySchedule { min_interval_s, refresh_after_s: 900 },
        }))
    }

    /// A token that is good.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.sign(&self.claims(subject), None)
    }

    pub(crate) fn claims(&self, subject: &str) -> Value {
        json!({
            "iss": self.url, "sub": subject, "aud": RESOURCE, "exp": now() + 300, "iat": now(),
            "scope": "read",
        })
    }

    /// Signs with the newest key, under its name or another.
    pub(crate) fn sign(&self, claims: &Value, id: Option<&str>) -> String {
        let keys = self.shared.keys.lock().unwrap();
        let key = keys.last().unwrap();
        let mut header = Header::new(jsonwebtoken::Algorithm::EdDSA);
        header.kid = Some(id.unwrap_or(&key.id).to_owned());
        jsonwebtoken::encode(&header, claims, &EncodingKey::from_ed_der(&key.secret)).unwrap()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

impl Key {
    fn new(id: &str) -> Self {
        let secret = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(secret.as_ref()).unwrap();
        let public = pair.public_key().as_ref().to_vec();
        Self { id: id.to_owned(), secret: secret.as_ref().to_vec(), public }
    }
}

async fn answer(
    shared: &Shared,
    url: &str,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mood = *shared.mood.lock().unwrap();
    let is_keys = request.uri().path() == "/keys";
    if is_keys {
        shared.fetches.fetch_add(1, Ordering::SeqCst);
    } else if request.uri().path() != "/.well-known/openid-configuration" {
        return Ok(with_status(StatusCode::NOT_FOUND));
    }
    let text = match (mood, is_keys) {
        (Mood::Garbage, _) => "<html>It works!</html>".to_owned(),
        (Mood::Huge, _) => " ".repeat(8 << 20),
        (Mood::Redirecting, _) => {
            let mut response = with_status(StatusCode::FOUND);
            let elsewhere = format!("{url}/elsewhere").parse().unwrap();
            response.headers_mut().insert(hyper::header::LOCATION, elsewhere);
            return Ok(response);
        }
        (Mood::Slow, true) => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            String::new()
        }
        (Mood::OtherIssuer, false) => {
            json!({"issuer": "https://id.example", "jwks_uri": format!("{url}/keys")}).to_string()
        }
        (_, false) => json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string(),
        (Mood::NoKeys, true) => json!({"keys": []}).to_string(),
        (Mood::Symmetric, true) => {
            json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}).to_string()
        }
        (_, true) => {
            let keys = shared.keys.lock().unwrap();
            let keys: Vec<_> = keys
                .iter()
                .map(|key| {
                    let x = URL_SAFE_NO_PAD.encode(&key.public);
                    json!({"kty": "OKP", "crv": "Ed25519", "kid": key.id, "x": x})
                })
                .collect();
            json!({"keys": keys}).to_string()
        }
    };
    Ok(Response::new(Full::new(text.into())))
}

fn with_status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
