//! A server that is written out byte by byte, and a handler that asks it.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_stages::{HttpHandler, HttpSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub const NOW: Timestamp = Timestamp(784_111_777_000);

/// A handler at a fixed time.
pub fn handler(spec: HttpSpec) -> HttpHandler {
    HttpHandler::new(spec, Arc::new(|| NOW)).unwrap()
}

/// A socket, and how to ask it; the address has a secret in it.
pub async fn listen() -> (TcpListener, HttpSpec) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec =
        HttpSpec::new(format!("http://{}/work?api_key=hunter2hunter2", listener.local_addr().unwrap()));
    (listener, spec)
}

/// Reads a request: the head, and as much body as it announces.
pub async fn receive(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return text;
            }
        }
        assert!(
            stream.read_buf(&mut bytes).await.unwrap() > 0,
            "closed before the request was whole: {text}"
        );
    }
}

/// A server that answers one request with these bytes and closes the connection; returns the request.
pub async fn once(answer: impl Into<Vec<u8>>) -> (HttpSpec, JoinHandle<String>) {
    let (listener, spec) = listen().await;
    let answer = answer.into();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = receive(&mut stream).await;
        stream.write_all(&answer).await.unwrap();
        request
    });
    (spec, server)
}

/// A well-formed answer with this body.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
