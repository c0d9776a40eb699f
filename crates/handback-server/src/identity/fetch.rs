//! Documents of an issuer, fetched over HTTP: bounded in size and time, and never from elsewhere than
//! where they were asked for.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::discovery::FetchUrl;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto};

use crate::files;

/// How long a document may take, from the connection to its last byte.
const FETCH_TIME: Duration = Duration::from_secs(5);

/// Bytes of a file of certificate authorities: the authorities of all the world have a quarter of a MiB.
const AUTHORITIES_BYTES_MAX: usize = 4 << 20;

/// Why a document was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The certificate authorities cannot be read.
    #[error("cannot read the certificate authorities of {place}")]
    Authorities {
        /// The file, or the machine.
        place: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There was no answer.
    #[error("there was no answer: {0}")]
    Unanswered(String),
    /// It took too long.
    #[error("it took more than {} s", FETCH_TIME.as_secs())]
    Late,
    /// The answer was something else than the document. Redirections are not followed.
    #[error("the answer was {0}")]
    Status(StatusCode),
    /// It is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
}

/// What fetches.
#[derive(Debug)]
pub(super) struct Fetcher {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Fetcher {
    /// Believes the authorities of a file, or those of the machine.
    pub(super) fn new(ca_file: Option<&PathBuf>) -> Result<Self, FetchError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(FETCH_TIME));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(client_config(ca_file)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        // Documents are fetched seldom: a connection is not kept for the next one.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { client })
    }

    /// Fetches a document of at most so many bytes.
    pub(super) async fn fetch(&self, url: &FetchUrl, bytes: usize) -> Result<Bytes, FetchError> {
        let fetched = tokio::time::timeout(FETCH_TIME, self.ask(url, bytes)).await;
        fetched.map_err(|_| FetchError::Late)?
    }

    async fn ask(&self, url: &FetchUrl, bytes: usize) -> Result<Bytes, FetchError> {
        let unanswered =
            |why: &(dyn std::error::Error + 'static)| FetchError::Unanswered(chain(why));
        let request = Request::get(url.as_str())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static("handback"))
            .body(Empty::new())
            .map_err(|why| unanswered(&why))?;
        let answer = self.client.request(request).await.map_err(|why| unanswered(&why))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        let body = Limited::new(answer.into_body(), bytes).collect().await;
        let body = body.map_err(|why| match why.is::<LengthLimitError>() {
            true => FetchError::TooLarge(bytes),
            false => unanswered(why.as_ref()),
        })?;
        Ok(body.to_bytes())
    }
}

/// TLS with the certificate authorities of a file, or with those of the machine.
pub(crate) fn client_config(ca_file: Option<&PathBuf>) -> Result<ClientConfig, FetchError> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let place = || ca_file.map_or_else(|| "this machine".into(), |f| f.display().to_string());
    let failed = |source| FetchError::Authorities { place: place(), source };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(io::Error::other(error)))?;
    let builder = match ca_file {
        Some(file) => builder.with_root_certificates(authorities(file).map_err(failed)?),
        // A machine without any can still ask itself, over plain HTTP.
        None => match builder.clone().with_native_roots() {
            Ok(builder) => builder,
            Err(error) => {
                tracing::warn!(%error, "there are no certificate authorities");
                builder.with_root_certificates(RootCertStore::empty())
            }
        },
    };
    Ok(builder.with_no_client_auth())
}

fn authorities(file: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let text = files::read(file, AUTHORITIES_BYTES_MAX)?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        return Err(io::Error::other("there is no certificate in it"));
    }
    Ok(roots)
}

/// An error with its causes: the first alone says nothing.
fn chain(why: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(why), |why| why.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
