//! TLS by certificate files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_operate::{Code, Error, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Where a certificate and its key are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those above it.
    pub chain: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Certificate {
    /// Reads both.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor> {
        let chain = CertificateDer::pem_file_iter(&self.chain).and_then(Iterator::collect);
        let chain: Vec<CertificateDer<'static>> = chain.map_err(|error| unreadable(&self.chain, &error))?;
        if chain.is_empty() {
            return Err(unreadable(&self.chain, &"there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unreadable(&self.chain, &error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn unreadable(file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::wrong(format!("cannot use {} for TLS: {why}", file.display()))
        .code(Code::UnreadableFile)
        .hint("--tls-cert and --tls-key name PEM files that belong together and that the user which runs this may read")
}
