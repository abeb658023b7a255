//! A small HTTP client that keeps its connection, as loops that people write do.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Failure;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    headers: HeaderMap,
}

impl Answer {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }
}

/// A client with at most one connection.
pub struct Client {
    address: String,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// For an address such as `127.0.0.1:9000`; it connects with the first call.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), connection: None }
    }

    /// Sends JSON and reads the whole answer. After an error the next call connects anew.
    pub async fn post(&mut self, path: &str, body: &str) -> Result<Answer, Failure> {
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection.ready().await?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.address)
            .header(CONTENT_TYPE, "application/json")
            .header("authorization", "Bearer sk-rehearse")
            .body(Full::new(Bytes::from(body.to_owned())))?;
        let answer = connection.send_request(request).await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        answer.into_body().collect().await?;
        self.connection = Some(connection);
        Ok(Answer { status, headers })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends when the sender is dropped or the other side closes it, which the next call finds out.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}
