//! The server over TLS, with a client that checks its certificate.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use handback_server::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::{Running, ask_over, config};

/// An authority for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate and its key.
    fn issue(&self, folder: &Path) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let files =
            TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Takes connections with a certificate of this authority.
    pub(crate) fn acceptor(&self, folder: &Path) -> TlsAcceptor {
        let TlsFiles { certificate, key } = self.issue(folder);
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_file(certificate).unwrap()],
                PrivateKeyDer::from_pem_file(key).unwrap(),
            );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }

    fn connector(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, server: &Running) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        self.connector().connect(name, server.connect().await).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_served_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = Running::start(config().tls(authority.issue(folder.path()))).await;
    let host = format!("localhost:{}", server.address.port());
    for (line, body, status) in [
        ("PUT /v1/stream/a", "", 201),
        ("POST /v1/stream/a", "hello", 204),
        ("GET /v1/stream/a", "", 200),
    ] {
        let stream = authority.connect(&server).await.unwrap();
        let answer = ask_over(stream, &host, line, &[], body).await;
        assert_eq!(answer.status, status, "{line} {answer:?}");
    }
    // A large body, both ways.
    let large = "x".repeat(1 << 20);
    let stream = authority.connect(&server).await.unwrap();
    assert_eq!(ask_over(stream, &host, "POST /v1/stream/a", &[], &large).await.status, 204);
    let stream = authority.connect(&server).await.unwrap();
    let read = ask_over(stream, &host, "GET /v1/stream/a", &[], "").await;
    assert!(read.body.len() > large.len());
    // Without TLS, nothing is answered.
    let plain = server.ask("GET /healthz", None, "").await;
    assert_eq!(plain.status, 0, "{plain:?}");
    // Somebody else's authority does not vouch for it.
    assert!(Authority::new().connect(&server).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    let files = first.issue(folder.path());
    let server = Running::start(config().tls(files.clone())).await;
    assert!(first.connect(&server).await.is_ok());
    second.issue(folder.path());
    server.reload.now();
    assert!(first.connect(&server).await.is_err());
    assert!(second.connect(&server).await.is_ok());
    fs::write(&files.certificate, "nonsense").unwrap();
    server.reload.now();
    assert!(second.connect(&server).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_go_on_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = Running::start(config().tls(authority.issue(folder.path()))).await;
    let mut stream = server.connect().await;
    stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    let closed = tokio::time::timeout(Duration::from_secs(15), stream.read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
}

#[tokio::test]
async fn a_server_without_its_key_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (tempfile::tempdir().unwrap(), Authority::new());
    let good = second.issue(folder.path());
    let other = second.issue(first.path());
    let missing = TlsFiles { key: folder.path().join("none"), ..good.clone() };
    assert!(Running::try_start(config().tls(missing)).await.is_err());
    let mixed = TlsFiles { key: other.key, ..good };
    assert!(Running::try_start(config().tls(mixed)).await.is_err());
}
