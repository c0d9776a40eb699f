//! Who is believed to be the server: the certificate authorities of the machine.

use std::io;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore, crypto};

/// The settings of TLS. For a server without it: settings that trust nobody.
pub(crate) fn config(is_used: bool) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match is_used {
        true => builder.with_native_roots()?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(Arc::new(builder.with_no_client_auth()))
}
