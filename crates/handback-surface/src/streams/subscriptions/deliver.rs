//! Webhooks: where they may go, and how they are sent.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long a webhook may take.
const DELIVERY_TIME: Duration = Duration::from_secs(10);

/// Bytes of its answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bytes of a webhook's URL.
const URL_BYTES_MAX: usize = 2048;

/// Where a webhook may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Targets {
    /// To this machine only: callers have no identities, so that anyone on this machine may ask for
    /// deliveries.
    Loopback,
}

/// The URL of a webhook, of which only the name is known to be one. The address that it leads to is
/// checked when it is connected to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    host: String,
    port: u16,
    path: String,
}

impl Target {
    /// Checks a URL.
    pub(super) fn parse(url: &str, targets: Targets) -> Option<Self> {
        if url.len() > URL_BYTES_MAX {
            return None;
        }
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        // Nobody needs a name and a password in a URL, but some look like hosts.
        if uri.scheme_str() != Some("http") || authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let allowed = match targets {
            Targets::Loopback => {
                host == "localhost"
                    || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        allowed.then(|| Self { host, port: authority.port_u16().unwrap_or(80), path })
    }

    /// The address to connect to: one that is allowed, whatever the name leads to by now.
    async fn address(&self) -> Option<SocketAddr> {
        let mut found = tokio::net::lookup_host((self.host.as_str(), self.port)).await.ok()?;
        found.find(|address| address.ip().is_loopback())
    }

    /// Sends a body, and gives the answer's, if it was taken.
    pub(super) async fn post(&self, body: Bytes, signature: &str) -> Option<Bytes> {
        tokio::time::timeout(DELIVERY_TIME, self.send(body, signature)).await.ok()?
    }

    async fn send(&self, body: Bytes, signature: &str) -> Option<Bytes> {
        let stream = TcpStream::connect(self.address().await?).await.ok()?;
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-signature", signature)
            .body(Full::new(body))
            .ok()?;
        let response = sender.send_request(request).await.ok()?;
        // A redirect is no answer: it would lead past the check.
        let answer = match response.status().is_success() {
            true => Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.ok(),
            false => None,
        };
        drop(sender);
        connection.abort();
        answer.map(http_body_util::Collected::to_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_target() {
        for url in ["http://127.0.0.1:9/x?y", "http://localhost/", "http://[::1]:80/a"] {
            assert!(Target::parse(url, Targets::Loopback).is_some(), "{url}");
        }
        for url in [
            "http://10.0.0.1/hook",
            "http://169.254.169.254/latest",
            "http://192.168.1.1/",
            "https://127.0.0.1/",
            "http://localhost.evil.example/",
            "http://127.0.0.1@evil.example/",
            "http://user@127.0.0.1/",
            "http://2130706433/",
            "ftp://127.0.0.1/",
            "/x",
            "",
        ] {
            assert!(Target::parse(url, Targets::Loopback).is_none(), "{url}");
        }
    }
}
