//! Webhooks on the wire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::target::{Target, TargetError, WebhookTargets};

/// Time for one delivery, with the lookup of the host and the response.
const DELIVERY_TIME: Duration = Duration::from_secs(10);

/// Bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Sends a body to a URL, after the checks. Returns the body of a successful response. Redirects are no
/// success: they would lead past the checks.
pub(super) async fn post(
    targets: &WebhookTargets,
    url: &str,
    body: Bytes,
    signature: &str,
) -> Option<Bytes> {
    let delivery = async {
        let target = targets.parse(url)?;
        let address = targets.address(&target).await?;
        Ok(connect(targets, &target, address, body, signature).await)
    };
    match tokio::time::timeout(DELIVERY_TIME, delivery).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let error: TargetError = error;
            tracing::warn!(%error, "a webhook was not delivered");
            None
        }
        Err(_) => None,
    }
}

async fn connect(
    targets: &WebhookTargets,
    target: &Target,
    address: SocketAddr,
    body: Bytes,
    signature: &str,
) -> Option<Bytes> {
    let stream = TcpStream::connect(address).await.ok()?;
    if !target.is_tls {
        return send(stream, target, body, signature).await;
    }
    let connector = TlsConnector::from(Arc::clone(targets.tls.as_ref()?));
    let name = ServerName::try_from(target.server_name()).ok()?;
    send(connector.connect(name, stream).await.ok()?, target, body, signature).await
}

async fn send<S>(stream: S, target: &Target, body: Bytes, signature: &str) -> Option<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
    let connection = AbortOnDrop(tokio::spawn(connection));
    let request = Request::builder()
        .method(Method::POST)
        .uri(&target.path_and_query)
        .header(HOST, &target.authority)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-signature", signature)
        .body(Full::new(body))
        .ok()?;
    let response = sender.send_request(request).await.ok()?;
    let body = match response.status().is_success() {
        true => Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.ok(),
        false => None,
    };
    drop(connection);
    body.map(http_body_util::Collected::to_bytes)
}

/// Ends a connection with its delivery, also one that timed out.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
