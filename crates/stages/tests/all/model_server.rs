//! What the tests of model stages share: a service that answers once, and items with texts.

use std::sync::Arc;
use std::time::Duration;

use redrive_engine::handler::{Answer, Handler, Request};
use redrive_stages::{ChatHandler, ChatSpec, EmbedHandler, EmbedSpec, ModelSpec};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::server::{NOW, once, receive};
use crate::support::item;
use redrive_core::id::RunId;
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;

/// A request with an item for each payload; they are called `a`, `b`, ….
pub fn batch(payloads: &[&str]) -> Request {
    let key = |at: usize| char::from(b'a' + u8::try_from(at).unwrap()).to_string();
    let items = payloads.iter().enumerate().map(|(at, payload)| item(&key(at), payload)).collect();
    Request {
        run: RunId(1),
        rank: Rank::new(0, Timestamp(0), RunId(1)),
        stage: Arc::from("test"),
        items,
        timeout: Duration::from_secs(60),
    }
}

/// A request with an item for each text.
pub fn texts(texts: &[&str]) -> Request {
    let payloads: Vec<_> = texts.iter().map(|text| format!(r#"{{"text":"{text}"}}"#)).collect();
    batch(&payloads.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A service that answers one request with these bytes; its address ends with `/v1`.
pub async fn service(answer: impl Into<Vec<u8>>) -> (ModelSpec, JoinHandle<String>) {
    let (spec, server) = once(answer).await;
    (ModelSpec::new(base(&spec.url), "m-1"), server)
}

/// A service that nobody may ask: the listener must not be connected to.
pub async fn nobody() -> (ModelSpec, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = ModelSpec::new(format!("http://{}/v1", listener.local_addr().unwrap()), "m-1");
    (spec, listener)
}

/// What a call brings that must not ask anybody.
pub async fn unasked(handler: &impl Handler, listener: &TcpListener, request: Request) -> Answer {
    tokio::select! {
        answer = handler.call(request) => answer,
        _ = listener.accept() => panic!("the service was asked"),
    }
}

pub fn base(url: &str) -> String {
    url.split("/work").next().unwrap().to_owned() + "/v1"
}

pub fn embedder(spec: EmbedSpec) -> EmbedHandler {
    EmbedHandler::new(spec, Arc::new(|| NOW)).unwrap()
}

pub fn chatter(spec: ChatSpec) -> ChatHandler {
    ChatHandler::new(spec, Arc::new(|| NOW)).unwrap()
}

/// What comes of embedding these texts when the service answers so.
pub async fn embedded(answer: impl Into<Vec<u8>>, request: Request) -> Answer {
    let (model, _server) = service(answer).await;
    embedder(EmbedSpec::new(model)).call(request).await
}

/// What comes of a chat about one text when the service answers so.
pub async fn chatted(answer: impl Into<Vec<u8>>) -> Answer {
    let (model, _server) = service(answer).await;
    chatter(ChatSpec::new(model, "About {/text}")).call(texts(&["x"])).await
}

/// An answer with a status and a body.
pub fn refusal(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The body of a request that was received.
pub fn sent(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Waits for a request, and keeps its connection open.
pub async fn received(listener: &TcpListener) -> tokio::net::TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    receive(&mut stream).await;
    stream
}
