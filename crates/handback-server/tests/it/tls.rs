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

/// A FIFO into which nobody writes.
fn block(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn wound_a12_a_certificate_that_blocks_stops_no_later_reload_and_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    let files = first.issue(folder.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (sender, ended) = std::sync::mpsc::channel();
    let path = folder.path().to_owned();
    // In a thread of its own: without bounds, this does not end.
    std::thread::spawn(move || {
        runtime.block_on(async {
            let server = Running::start(config().tls(files.clone())).await;
            block(&files.certificate);
            block(&files.key);
            server.reload.clone().apart().await;
            assert!(first.connect(&server).await.is_ok(), "the certificate stays as it was");
            fs::remove_file(&files.certificate).unwrap();
            fs::remove_file(&files.key).unwrap();
            second.issue(&path);
            server.reload.clone().apart().await;
            assert!(second.connect(&server).await.is_ok());
            block(&files.key);
            tokio::spawn(server.reload.clone().apart());
            // A start with it is an error, with the path and the reason.
            let Err(error) = Running::try_start(config().tls(files.clone())).await else {
                panic!("it started");
            };
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(error.to_string().contains("key.pem"), "{error}");
            assert!(why.contains("not read within 5 s"), "{why}");
        });
        drop(runtime);
        sender.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a12_a_certificate_has_a_size_bound() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path());
    let server = Running::start(config().tls(files.clone())).await;
    let mut text = fs::read(&files.certificate).unwrap();
    text.resize((1 << 20) + 1, b'\n');
    fs::write(&files.certificate, &text).unwrap();
    let Err(error) = Running::try_start(config().tls(files)).await else { panic!("it started") };
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("more than 1048576 bytes"), "{why}");
    server.reload.now();
    assert!(authority.connect(&server).await.is_ok());
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
