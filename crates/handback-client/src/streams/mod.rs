//! Durable streams over HTTP: create, append, close, read, follow, and verify.
//!
//! ```no_run
//! # async fn run() -> Result<(), handback_client::streams::StreamsError> {
//! use handback_client::streams::{AppendOptions, CreateOptions, From, Producer, Streams};
//!
//! let streams = Streams::new("http://127.0.0.1:8420")?;
//! streams.create("log", &CreateOptions::new("text/plain")).await?;
//! let mut producer = Producer::new("worker-1", 0);
//! let options = AppendOptions::new("text/plain");
//! streams.produce("log", "one\n", &mut producer, &options).await?;
//! let page = streams.read("log", &From::Start, None).await?;
//! assert_eq!(page.body, "one\n");
//! # Ok(()) }
//! ```
//!
//! An append by a producer is tried again when the connection breaks, since the server knows it again.
//! An append without one is tried once.

mod append;
mod error;
mod kept;
mod read;
mod verify;

use std::time::Duration;

use bytes::Bytes;
use handback_stream::StreamKey;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use self::append::{AppendOptions, Appended, Producer};
pub use self::error::StreamsError;
pub use self::kept::KeptHead;
pub use self::read::{From, Page, Tail};
pub use self::verify::{Verified, VerifyOptions};
use crate::backoff::Backoff;
use crate::bearer::BearerToken;
use crate::http::{Answer, Base, Http, HttpError};

const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
const TTL: HeaderName = HeaderName::from_static("stream-ttl");
const STREAM_KEY: HeaderName = HeaderName::from_static("x-idempotent-encryption-key");

/// What a path keeps as it is.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Bytes of an answer at most: a page of 4 MiB, one record more, and all of it in base64.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How long an answer may take that does not wait for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Attempts of what can be tried again.
const ATTEMPTS_MAX: u32 = 8;

/// The streams of one server.
#[derive(Clone, Debug)]
pub struct Streams {
    http: Http,
    backoff: Backoff,
    attempts_max: u32,
}

/// How a stream is created.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CreateOptions {
    content_type: String,
    ttl_s: Option<u64>,
    stream_key: Option<StreamKey>,
}

impl CreateOptions {
    /// A stream of this content type, which lives until it is deleted.
    pub fn new(content_type: impl Into<String>) -> Self {
        Self { content_type: content_type.into(), ..Self::default() }
    }

    /// A stream that lives so many seconds after its last use.
    pub const fn ttl_s(mut self, ttl_s: u64) -> Self {
        self.ttl_s = Some(ttl_s);
        self
    }

    /// Encrypts the stream under a key that the server does not keep.
    pub fn stream_key(mut self, key: StreamKey) -> Self {
        self.stream_key = Some(key);
        self
    }
}

/// What came of creating a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Whether it was not there before.
    pub is_new: bool,
    /// Where it ends.
    pub next_offset: String,
}

impl Streams {
    /// The streams of a server.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if the address is none, or the certificate authorities cannot be read.
    pub fn new(url: &str) -> Result<Self, StreamsError> {
        let http = Http::new(Base::parse(url)?)?;
        Ok(Self { http, backoff: Backoff::default(), attempts_max: ATTEMPTS_MAX })
    }

    /// Asks as whoever has this token.
    #[must_use]
    pub fn bearer(mut self, token: &BearerToken) -> Self {
        self.http.set_bearer(Some(token));
        self
    }

    /// How long to wait between attempts, and how many there are.
    #[must_use]
    pub const fn retry(mut self, backoff: Backoff, attempts_max: u32) -> Self {
        self.backoff = backoff;
        self.attempts_max = attempts_max;
        self
    }

    /// Creates a stream. One that is there and the same is fine.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it is not there after that.
    pub async fn create(
        &self,
        path: &str,
        options: &CreateOptions,
    ) -> Result<Created, StreamsError> {
        let answer = self
            .again(Bytes::new(), TIMEOUT, || {
                let mut request = self.request("PUT", path, "", options.stream_key.as_ref())?;
                if !options.content_type.is_empty() {
                    request = request.header(CONTENT_TYPE, &options.content_type);
                }
                if let Some(ttl_s) = options.ttl_s {
                    request = request.header(TTL, ttl_s);
                }
                Ok(request)
            })
            .await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::OK => Ok(Created {
                is_new: answer.status == StatusCode::CREATED,
                next_offset: next_offset(&answer)?,
            }),
            _ => Err(StreamsError::refused(&answer)),
        }
    }

    /// A request about a stream.
    fn request(
        &self,
        method: &str,
        path: &str,
        query: &str,
        key: Option<&StreamKey>,
    ) -> Result<Builder, StreamsError> {
        handback_stream::StreamName::new("", path).map_err(StreamsError::Path)?;
        let target = format!("/v1/stream/{}{query}", utf8_percent_encode(path, PATH));
        let mut request = self.http.request(method, &target);
        if let Some(key) = key {
            let text = key.dangerous_to_text();
            let mut value = hyper::header::HeaderValue::from_str(&text)
                .map_err(|_| StreamsError::Http(HttpError::Request))?;
            value.set_sensitive(true);
            request = request.header(STREAM_KEY, value);
        }
        Ok(request)
    }

    /// Asks once.
    async fn once(
        &self,
        request: Builder,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Answer, StreamsError> {
        let request: Request<Full<Bytes>> =
            request.body(Full::new(body)).map_err(|_| HttpError::Request)?;
        Ok(self.http.ask(request, ANSWER_BYTES_MAX, timeout).await?)
    }

    /// Asks until there is an answer: what is asked is the same however often it is asked.
    async fn again(
        &self,
        body: Bytes,
        timeout: Duration,
        request: impl Fn() -> Result<Builder, StreamsError>,
    ) -> Result<Answer, StreamsError> {
        let mut attempts = 0;
        loop {
            let asked = self.once(request()?, body.clone(), timeout).await;
            let hint = match &asked {
                Ok(answer) if is_busy(answer.status) => answer.retry_after(),
                Err(StreamsError::Http(
                    HttpError::Unreached(_) | HttpError::Unanswered(_) | HttpError::Late,
                )) => None,
                _ => return asked,
            };
            attempts += 1;
            if attempts >= self.attempts_max {
                return asked;
            }
            tokio::time::sleep(self.backoff.wait(attempts - 1, hint, &mut rand::rng())).await;
        }
    }
}

/// Whether another attempt may do better.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

fn next_offset(answer: &Answer) -> Result<String, StreamsError> {
    let offset = answer.text(&NEXT_OFFSET).map(str::to_owned);
    offset.ok_or(StreamsError::Misbehaved("there is no Stream-Next-Offset"))
}
