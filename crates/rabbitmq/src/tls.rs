//! TLS to the broker: by the same `rustls` with `ring` as everything else.
//!
//! The stream is opened here and handed to the library, whose own way would bring dozens of crates. A broker is believed when its
//! certificate leads to an authority of the system, or to one that the user named instead.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_compat::Compat;
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use lapin::tcp::AsyncTcpStream;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::link::Result;

/// Authorities that are trusted in place of the system's.
pub(crate) type Authorities = Vec<CertificateDer<'static>>;

/// Reads certificates of authorities from a file of PEM.
pub(crate) fn authorities(file: &Path) -> Result<Authorities> {
    let unusable = |why: String| format!("cannot use {}: {why}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let read: Authorities = read.map_err(|error| unusable(error.to_string()))?;
    if read.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    roots(&read).map_err(unusable)?;
    Ok(read)
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Opens a connection that is encrypted from its first byte on.
pub(crate) async fn connect(
    uri: AMQPUri,
    authorities: Option<&Authorities>,
    properties: ConnectionProperties,
) -> Result<Connection> {
    let stream = open(&uri, authorities).await?;
    let stream = Mutex::new(Some(Compat::new(stream)));
    // A connection is never mended, so there is one stream and no other.
    let once = async move |_: AMQPUri, _: Runtime<Kit>| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.map(AsyncTcpStream::Plain).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())
    };
    let kit = RuntimeParts::new(Tokio::current(), Encrypted(Tokio::current()));
    Connection::connector(uri, Runtime::new(kit), once, properties).await.map_err(|error| error.to_string())
}

/// Opens an encrypted stream to a broker that is believed.
pub(crate) async fn open(uri: &AMQPUri, authorities: Option<&Authorities>) -> Result<TlsStream<TcpStream>> {
    let (host, port) = (uri.authority.host.as_str(), uri.authority.port);
    let name = ServerName::try_from(host.to_owned()).map_err(|_| "the machine's name is none".to_owned())?;
    let config = config(authorities)?;
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| words(host, &error))
}

fn config(authorities: Option<&Authorities>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = verifier(authorities, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Who says whether a certificate is believed: never nobody.
fn verifier(
    authorities: Option<&Authorities>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>> {
    match authorities {
        None => Ok(Arc::new(Verifier::new(provider.clone()).map_err(|error| error.to_string())?)),
        Some(own) => {
            let roots = Arc::new(roots(own)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            Ok(verifier.map_err(|error| error.to_string())?)
        }
    }
}

/// Why there is no connection, and what can be done about it.
fn words(host: &str, error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => {
                "its certificate is of an authority that is not trusted here; name that one by --bus-ca FILE"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is for another machine than {host}")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; is the clock right?".to_owned()
            }
            other => format!("its certificate is not believed: {other}"),
        },
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS at this port".to_owned(),
        _ => format!("TLS: {error}"),
    }
}

/// What the library runs on.
type Kit = RuntimeParts<Tokio, Encrypted>;

/// Tokio, whose streams are encrypted.
#[derive(Debug, Clone)]
struct Encrypted(Tokio);

impl Reactor for Encrypted {
    type TcpStream = Compat<TlsStream<TcpStream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, span: Duration) -> Self::Sleep {
        self.0.sleep(span)
    }

    fn interval(&self, span: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(span)
    }

    /// Refuses: the one stream is opened before, and none in the clear beside it.
    fn tcp_connect_addr(
        &self,
        _: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported)))
    }
}
