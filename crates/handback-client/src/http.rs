//! Requests and answers over HTTP, bounded in time and size.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use crate::bearer::BearerToken;
use crate::tls;

/// Until a connection is there.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A text that is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a server (http://HOST:PORT or https://HOST): {0}")]
#[non_exhaustive]
pub struct UrlError(pub String);

/// Where a server is: a scheme and a host, without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) is_tls: bool,
    pub(crate) authority: String,
}

impl Base {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        let bad = || UrlError(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?.to_string();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.contains('@') {
            return Err(bad());
        }
        Ok(Self { is_tls, authority })
    }

    pub(crate) fn http(&self, target: &str) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{target}", self.authority)
    }

    pub(crate) fn websocket(&self, target: &str) -> String {
        let scheme = if self.is_tls { "wss" } else { "ws" };
        format!("{scheme}://{}{target}", self.authority)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The connection was not made: nothing was asked.
    #[error("the server was not reached: {0}")]
    Unreached(String),
    /// The connection broke: what was asked may have been done.
    #[error("the server did not answer: {0}")]
    Unanswered(String),
    /// It took too long.
    #[error("the server did not answer in time")]
    Late,
    /// The answer is larger than expected.
    #[error("the answer is too large")]
    TooLarge,
    /// The certificate authorities of this machine cannot be read.
    #[error("failed to read the certificate authorities")]
    Tls(#[source] Arc<io::Error>),
    /// The request cannot be written: a header that is none.
    #[error("the request has a value that cannot be sent")]
    Request,
}

/// An answer, all of it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header that is text.
    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a header says `true`.
    pub(crate) fn says(&self, name: &HeaderName) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The code and message of an error.
    pub(crate) fn error(&self) -> (String, String) {
        error_of(&self.body)
    }

    /// When to try again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers)
    }
}

/// When to try again, if it is told in seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

/// The code and message of an error answer.
pub(crate) fn error_of(body: &[u8]) -> (String, String) {
    #[derive(Deserialize)]
    struct Wire {
        error: Told,
    }
    #[derive(Deserialize)]
    struct Told {
        code: String,
        #[serde(default)]
        message: String,
    }
    match serde_json::from_slice(body) {
        Ok(Wire { error }) => (error.code, error.message),
        Err(_) => {
            let text = String::from_utf8_lossy(body).chars().take(200).collect();
            (String::new(), text)
        }
    }
}

/// Asks one server.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) base: Base,
    /// Who asks.
    bearer: Option<HeaderValue>,
}

impl Http {
    pub(crate) fn new(base: Base) -> Result<Self, HttpError> {
        let tls = tls::config(base.is_tls).map_err(|why| HttpError::Tls(Arc::new(why)))?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*tls).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, base, bearer: None })
    }

    /// Asks as whoever has this token.
    pub(crate) fn set_bearer(&mut self, token: Option<&BearerToken>) {
        self.bearer = token.and_then(BearerToken::header);
    }

    /// Asks, and waits for all of the answer.
    pub(crate) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        body_max: usize,
        timeout: Duration,
    ) -> Result<Answer, HttpError> {
        let asked = async { whole(self.open(request).await?, body_max).await };
        tokio::time::timeout(timeout, asked).await.map_err(|_| HttpError::Late)?
    }

    /// Asks, and waits for the head of the answer.
    pub(crate) async fn open(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, HttpError> {
        self.client.request(request).await.map_err(|why| match why.is_connect() {
            true => HttpError::Unreached(chain(&why)),
            false => HttpError::Unanswered(chain(&why)),
        })
    }

    /// A request to this server.
    pub(crate) fn request(&self, method: &str, target: &str) -> hyper::http::request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(self.base.http(target))
            .header(HOST, &self.base.authority);
        match &self.bearer {
            Some(bearer) => request.header(AUTHORIZATION, bearer),
            None => request,
        }
    }
}

/// All of an answer.
pub(crate) async fn whole(
    answer: Response<Incoming>,
    body_max: usize,
) -> Result<Answer, HttpError> {
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, body_max).collect().await.map_err(|why| match why
        .is::<LengthLimitError>()
    {
        true => HttpError::TooLarge,
        false => HttpError::Unanswered(chain(why.as_ref())),
    })?;
    Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
}

/// An error with its causes: the first alone says nothing.
pub(crate) fn chain(why: &(dyn std::error::Error + 'static)) -> String {
    let mut text = why.to_string();
    let mut source = why.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_scheme_and_a_host() {
        let base = Base::parse("http://127.0.0.1:8420").unwrap();
        assert_eq!(base.http("/v1/keys"), "http://127.0.0.1:8420/v1/keys");
        assert_eq!(base.websocket("/v1/duplex"), "ws://127.0.0.1:8420/v1/duplex");
        let base = Base::parse("https://example.org/").unwrap();
        assert_eq!(base.websocket("/"), "wss://example.org/");
        for bad in ["", "x", "ftp://a", "http://", "http://a/b", "http://a?b", "http://u:p@a", "/a"]
        {
            assert!(Base::parse(bad).is_err(), "{bad}");
        }
    }
}
