//! A collector of OpenTelemetry: OTLP over HTTP, with bodies in JSON.
//!
//! It tries once. Of an answer no more is read than tells how much was taken, and nothing of it is repeated: a collector that
//! means no good, or means too well, may answer with the headers that it was sent.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::secret::Secret;
use redrive_engine::collector::{Collector, Sent, Signal};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;

use crate::service::{Now, address, hint, install_tls};

/// Most bytes of an answer that are read.
const MOST_READ: usize = 64 << 10;

/// How a collector is reached.
pub struct OtlpSpec {
    /// Where spans go; `None`: nowhere.
    pub traces: Option<Target>,
    /// Where metrics go; `None`: nowhere.
    pub metrics: Option<Target>,
}

/// Where one kind of signal goes.
pub struct Target {
    /// The whole address.
    pub url: String,
    /// Headers of every request; their values are secret.
    pub headers: Vec<(String, Secret)>,
    /// How long a request may take, with its answer.
    pub timeout: Duration,
}

/// A collector that is reached by OTLP.
pub struct OtlpCollector {
    traces: Option<Endpoint>,
    metrics: Option<Endpoint>,
    now: Now,
}

struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

impl OtlpCollector {
    /// Prepares for sending; connects to nothing.
    ///
    /// # Errors
    /// Says what cannot be used, and shows neither the address nor a header's value.
    pub fn new(spec: OtlpSpec, now: Now) -> Result<Self, String> {
        install_tls();
        let traces = spec.traces.map(Endpoint::new).transpose()?;
        let metrics = spec.metrics.map(Endpoint::new).transpose()?;
        Ok(Self { traces, metrics, now })
    }

    async fn answered(&self, response: Response) -> Sent {
        let status = response.status();
        if status.is_success() {
            return Sent::Taken { rejected: rejected(response).await };
        }
        let why = format!("it answered {}", status.as_u16());
        let passing = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        match passing.contains(&status) {
            true => Sent::Later { why, after: hint(response.headers(), (self.now)()) },
            false => Sent::Refused { why },
        }
    }
}

#[async_trait]
impl Collector for OtlpCollector {
    async fn send(&self, signal: Signal, body: Vec<u8>) -> Sent {
        let endpoint = match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
        };
        let Some(endpoint) = endpoint else { return Sent::Taken { rejected: 0 } };
        let post = endpoint.client.post(endpoint.url.clone()).headers(endpoint.headers.clone()).body(body);
        match post.send().await {
            Ok(response) => self.answered(response).await,
            Err(error) => Sent::Later { why: fault(&error).to_owned(), after: None },
        }
    }
}

impl Endpoint {
    fn new(target: Target) -> Result<Self, String> {
        let url = address("the address", &target.url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| "a header has no name that can be sent".to_owned())?;
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| format!("the value of header {name} cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let builder = Client::builder()
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .timeout(target.timeout)
            .pool_max_idle_per_host(1);
        let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
        let client = builder.build().map_err(|error| error.without_url().to_string())?;
        Ok(Self { client, url, headers })
    }
}

/// How many of what was sent were not taken, as far as a bounded part of the answer tells.
async fn rejected(mut response: Response) -> u64 {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > MOST_READ {
            return 0;
        }
        body.extend_from_slice(&chunk);
    }
    let answer: Answer = serde_json::from_slice(&body).unwrap_or_default();
    let part = answer.partial_success.unwrap_or_default();
    let told = [part.rejected_spans, part.rejected_data_points];
    told.into_iter().flatten().map(|Whole(told)| told).max().unwrap_or(0)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    partial_success: Option<PartialSuccess>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    rejected_spans: Option<Whole>,
    rejected_data_points: Option<Whole>,
}

/// A number of 64 bits: text, as the encoding has it, or a number, as some write it.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Value")]
struct Whole(u64);

impl TryFrom<serde_json::Value> for Whole {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Self, Self::Error> {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.map(Self).ok_or("no number")
    }
}

/// Why nothing was answered. What the library says may have the address in it, and that a password.
fn fault(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "it did not answer in time"
    } else if error.is_connect() {
        "it cannot be reached"
    } else {
        "the connection broke"
    }
}
