//! A rehearsal with a clock that only moves when it is told, and a small client.
#![expect(dead_code, reason = "no test file uses all of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::env::{Clock, Env, Seeded};
use redrive_rehearse::{Plan, Rehearsal, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A clock that only moves when it is told.
pub struct Manual(watch::Sender<i64>);

impl Manual {
    /// Lets time pass.
    pub fn pass(&self, ms: i64) {
        self.0.send_modify(|now| *now += ms);
    }
}

#[async_trait]
impl Clock for Manual {
    fn now(&self) -> Timestamp {
        Timestamp(*self.0.borrow())
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.now().0.unsigned_abs())
    }

    async fn sleep(&self, span: Duration) {
        let end = self.now().0.saturating_add(millis(span));
        // The sender lives as long as this clock.
        let _ = self.0.subscribe().wait_for(|now| *now >= end).await;
    }
}

/// A provider under test.
pub struct Stage {
    pub running: Running,
    pub clock: Arc<Manual>,
    client: reqwest::Client,
}

/// What came back; `body` is `None` when it broke off.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Option<String>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let body = self.body.as_deref().expect("a whole body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

impl Stage {
    /// Plays this plan.
    pub async fn play(plan: &str) -> Self {
        Self::with(Plan::parse(plan, "test.toml").unwrap_or_else(|error| panic!("{error}"))).await
    }

    pub async fn with(plan: Plan) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(Manual(watch::channel(1_700_000_000_000).0));
        let env = Env { clock: clock.clone(), dice: Arc::new(Seeded::new(1)), ..Env::system() };
        let running = Rehearsal::start(plan, env, "127.0.0.1:0".parse().expect("an address"));
        let running = running.await.expect("a free port");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { running, clock, client }
    }

    pub fn addr(&self) -> SocketAddr {
        self.running.addr()
    }

    /// Asks; `None` when there was no answer at all.
    pub async fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        self.post_as(path, body, None).await
    }

    pub async fn post_as(&self, path: &str, body: &Value, key: Option<&str>) -> Option<Answer> {
        let mut request = self.client.post(format!("{}{path}", self.running.url())).body(body.to_string());
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = request.send().await.ok()?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Some(Answer { status, headers, body: answer.text().await.ok() })
    }

    pub async fn get(&self, path: &str) -> Answer {
        let answer =
            self.client.get(format!("{}{path}", self.running.url())).send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.text().await.ok() }
    }

    /// Embeds texts.
    pub async fn embed(&self, texts: &[&str]) -> Option<Answer> {
        self.post("/v1/embeddings", &json!({"model": "m", "input": texts})).await
    }

    /// Hands items over in the handler protocol, with their numbers as keys.
    pub async fn work(&self, payloads: &[Value]) -> Option<Answer> {
        self.post("/work", &work(payloads)).await
    }

    /// The statuses of so many calls, 0 for none.
    pub async fn statuses(&self, calls: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for n in 0..calls {
            let answer = self.work(&[json!({"n": n})]).await;
            statuses.push(answer.map_or(0, |answer| answer.status));
        }
        statuses
    }

    /// Waits until so many calls are open.
    pub async fn until_open(&self, calls: u64) {
        while self.running.report().open != calls {
            tokio::task::yield_now().await;
        }
    }

    /// Sends a call over a connection of its own.
    pub async fn raw(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr()).await.expect("a connection");
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
        stream
    }
}

/// A call in the handler protocol.
pub fn work(payloads: &[Value]) -> Value {
    let item = |(n, payload): (usize, &Value)| json!({"id": format!("id{n}"), "key": format!("k{n}"), "attempt": 1, "payload": payload});
    json!({"stage": "s", "items": payloads.iter().enumerate().map(item).collect::<Vec<_>>()})
}

/// Reads until the other side closes.
pub async fn drain(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
