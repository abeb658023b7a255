//! A small HTTP client that keeps its connection, as loops that people write do.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Failure;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
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
    token: String,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// For an address such as `127.0.0.1:9000`, with what it shows of itself; it connects with the first call.
    pub fn new(address: &str, token: &str) -> Self {
        Self { address: address.to_owned(), token: token.to_owned(), connection: None }
    }

    /// Sends JSON and reads the whole answer. After an error the next call connects anew.
    pub async fn post(&mut self, path: &str, body: &str) -> Result<Answer, Failure> {
        self.call(Method::POST, path, body).await
    }

    /// Reads the whole answer to a question.
    pub async fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.call(Method::GET, path, "").await
    }

    /// The first bytes of an answer that comes by and by, until `enough` says so.
    pub async fn begin(&mut self, path: &str, mut enough: impl FnMut(&[u8]) -> bool) -> Result<(), Failure> {
        let mut body = self.send(Method::GET, path, "").await?.into_body();
        while let Some(frame) = body.frame().await {
            if frame?.data_ref().is_some_and(|data| enough(data)) {
                break;
            }
        }
        // What is not read ends with the connection.
        self.connection = None;
        Ok(())
    }

    async fn call(&mut self, method: Method, path: &str, body: &str) -> Result<Answer, Failure> {
        let answer = self.send(method, path, body).await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(Answer { status, body, headers })
    }

    async fn send(&mut self, method: Method, path: &str, body: &str) -> Result<Response<Incoming>, Failure> {
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection.ready().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.address)
            .header(CONTENT_TYPE, "application/json")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Full::new(Bytes::from(body.to_owned())))?;
        let answer = connection.send_request(request).await?;
        self.connection = Some(connection);
        Ok(answer)
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
