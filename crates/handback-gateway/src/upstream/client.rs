//! Requests over HTTP.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, crypto};

use super::LineError;

/// Until a connection is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Servers close connections that nobody uses, the quickest of the common ones after five seconds. A
/// request that meets that moment is lost, and may have been made: so they are closed here before.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// Connections that are kept for the next request at most: more than callers ask at once.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// When to look whether the other end of a silent connection is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Makes requests, over connections that it keeps.
#[derive(Clone, Debug)]
pub(super) enum Client {
    /// Without TLS, and without what that costs.
    Plain(legacy::Client<HttpConnector, Full<Bytes>>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Client {
    /// One for this address. Over TLS, who is believed are the certificate authorities of this machine.
    pub(super) fn new(uri: &Uri) -> Result<Self, LineError> {
        Self::believing(uri, trusted)
    }

    fn believing(
        uri: &Uri,
        trusted: impl FnOnce() -> Result<Arc<ClientConfig>, LineError>,
    ) -> Result<Self, LineError> {
        let unusable = |why: &str| Err(LineError::Unreachable(why.to_owned()));
        if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return unusable("its address has no host, or has more than one");
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX);
        match uri.scheme_str() {
            Some("http") => Ok(Self::Plain(builder.build(tcp))),
            Some("https") => {
                let connector = HttpsConnectorBuilder::new()
                    .with_tls_config(trusted()?.as_ref().clone())
                    .https_only()
                    .enable_http1()
                    .wrap_connector(tcp);
                Ok(Self::Tls(builder.build(connector)))
            }
            _ => unusable("its address is neither http nor https"),
        }
    }

    /// Makes a request, and waits for the head of the response.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, LineError> {
        let response = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        response.map_err(|why| match why.is_connect() {
            true => LineError::Unreachable(chain(&why)),
            false => LineError::Lost,
        })
    }
}

/// The settings of TLS, with the certificate authorities of this machine. They are read once.
fn trusted() -> Result<Arc<ClientConfig>, LineError> {
    static TRUSTED: Mutex<Option<Arc<ClientConfig>>> = Mutex::new(None);
    let mut trusted = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(trusted) = trusted.as_ref() {
        return Ok(Arc::clone(trusted));
    }
    let failed = |why: &dyn Error| {
        LineError::Unreachable(format!("failed to read the certificate authorities: {why}"))
    };
    let config = ClientConfig::builder_with_provider(crypto::aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|why| failed(&why))?
        .with_native_roots()
        .map_err(|why| failed(&why))?
        .with_no_client_auth();
    Ok(Arc::clone(trusted.insert(Arc::new(config))))
}

/// An error with its causes: the first alone says nothing.
fn chain(why: &(dyn Error + 'static)) -> String {
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
    use rustls::RootCertStore;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server over TLS with a certificate of its own making, and settings that trust it.
    async fn server() -> (Uri, Arc<ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let settings = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let trusting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(settings));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        });
        let uri = format!("https://localhost:{}/", address.port()).parse().unwrap();
        (uri, Arc::new(trusting))
    }

    fn request(uri: &Uri) -> Request<Full<Bytes>> {
        Request::get(uri).body(Full::default()).unwrap()
    }

    #[tokio::test]
    async fn tls_reaches_whom_it_trusts_and_nobody_else() {
        let (uri, trusting) = server().await;
        let client = Client::believing(&uri, || Ok(trusting)).unwrap();
        assert_eq!(client.send(request(&uri)).await.unwrap().status(), 204);
        let nobody =
            ClientConfig::builder_with_provider(crypto::aws_lc_rs::default_provider().into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
        let client = Client::believing(&uri, || Ok(Arc::new(nobody))).unwrap();
        let why = client.send(request(&uri)).await.unwrap_err();
        assert!(matches!(why, LineError::Unreachable(_)), "{why:?}");
    }
}
