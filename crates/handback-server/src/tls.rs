//! TLS on the listener: a certificate and its key from files, read again when asked to.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto};
use tokio_rustls::TlsAcceptor;

use crate::files::{self, PEM_BYTES_MAX};

/// Where the certificate and its key are, both in PEM.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "configurations write it as a literal")]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has not in it what it should.
    #[error("cannot use {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why. It says nothing of a key.
        #[source]
        source: io::Error,
    },
    /// The key is not the certificate's, or neither is any good.
    #[error("cannot use the certificate {path} with its key")]
    Pair {
        /// Which certificate.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// The TLS of a listener.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let current = RwLock::new(load(&files)?);
        Ok(Self { files, current })
    }

    /// What accepts the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)).into()
    }

    /// Reads the files again. If they are no good, those before stay in use.
    pub(crate) fn reload(&self) {
        match load(&self.files) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
            }
            Err(error) => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let why = why.unwrap_or_default();
                tracing::warn!(%error, why, "the certificate stays as it was");
            }
        }
    }
}

fn load(paths: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |path: &PathBuf, source| TlsError::File { path: path.clone(), source };
    let read =
        |path: &PathBuf| files::read(path, PEM_BYTES_MAX).map_err(|source| file(path, source));
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(&paths.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|error| file(&paths.certificate, io::Error::other(error)))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&paths.key)?)
        .map_err(|error| file(&paths.key, io::Error::other(error)))?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let pair = |source| TlsError::Pair { path: paths.certificate.clone(), source };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
