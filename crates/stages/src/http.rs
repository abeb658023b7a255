//! A stage that asks a service over HTTP.
//!
//! One request per call: no redirects, no proxies from the environment, no tries of its own. Of an answer no more is
//! read than may be kept. Dropping the call's future closes its connection.

mod answer;
mod fault;
mod hints;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::classify;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::ContentHash;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Handler, Input, Reply, Request};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};

use crate::protocol::{self, Decoder};
use crate::secrets::Secrets;

/// Most bytes of an error's body that are read.
const ERROR_BODY: usize = 64 * 1024;
/// Name of the header by which a service recognises a repetition.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Reads the clock; needed for `Retry-After` dates only.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyForm {
    /// The handler protocol.
    #[default]
    Protocol,
    /// The payload of the one item; the answer's body is its output.
    Payload,
}

/// How a service is asked.
#[derive(Clone)]
pub struct HttpSpec {
    /// Its address; `http` or `https`.
    pub url: String,
    /// What the body is.
    pub body: BodyForm,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Headers whose values are secret, already read from where they are kept.
    pub secret_headers: Vec<(String, String)>,
    /// Most bytes of an answer.
    pub max_answer: usize,
    /// Where in the payload the output is put: a JSON pointer. `None`: in place of the payload.
    pub output: Option<String>,
    /// How many calls may be open at once, and so how many connections are worth keeping.
    pub concurrency: usize,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
}

impl HttpSpec {
    /// Asks this address, with everything else as usual: answers of up to 16 MiB, ten seconds to connect.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            body: BodyForm::Protocol,
            headers: Vec::new(),
            secret_headers: Vec::new(),
            max_answer: 16 << 20,
            output: None,
            concurrency: 1,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Asks a service over HTTP.
pub struct HttpHandler {
    client: Client,
    url: Url,
    /// The address as messages show it: without user, password and query.
    target: String,
    headers: HeaderMap,
    body: BodyForm,
    max_answer: usize,
    decoder: Decoder,
    now: Now,
}

/// Installs the process's TLS provider. Calling it again changes nothing.
pub fn install_tls() {
    // An error says that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl HttpHandler {
    /// Prepares the calls; connects to nothing.
    ///
    /// # Errors
    /// Says which part of the specification cannot be used; shows no secret.
    pub fn new(spec: HttpSpec, now: Now) -> Result<Self, String> {
        let url = Url::parse(&spec.url).map_err(|error| format!("url: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("url: {}: is not allowed; http and https are", url.scheme()));
        }
        install_tls();
        let secrets = spec.secret_headers.iter().map(|(_, value)| value.as_str()).chain(url.password());
        let decoder = Decoder { secrets: Secrets::new(secrets), output: spec.output.clone() };
        let mut target = url.clone();
        let _ = target.set_username("");
        let _ = target.set_password(None);
        target.set_query(None);
        target.set_fragment(None);
        Ok(Self {
            client: client(&spec, url.scheme() == "https")?,
            target: target.to_string(),
            url,
            headers: headers(&spec)?,
            body: spec.body,
            max_answer: spec.max_answer,
            decoder,
            now,
        })
    }

    async fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        let body = match (self.body, request.items.as_slice()) {
            (BodyForm::Protocol, _) => protocol::encode(request),
            (BodyForm::Payload, [item]) => item.payload.to_vec(),
            (BodyForm::Payload, items) => {
                let text = format!("body = \"payload\" takes one item, not {}; set batch = 1", items.len());
                return Err(Failure::new(Class::Final, Kind::Input, text));
            }
        };
        let post = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(IDEMPOTENCY_KEY, idempotency_key(&request.items))
            .body(body);
        let response =
            post.send().await.map_err(|error| fault::of_sending(error, &self.target, &self.decoder))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let status = response.status().as_u16();
        let bytes = answer::read(response, self.max_answer).await.map_err(|stop| {
            fault::of_reading(stop, &self.target, self.max_answer, &self.decoder).with_status(status)
        })?;
        Ok(match (self.body, request.items.as_slice()) {
            (BodyForm::Payload, [item]) => self.decoder.read_bare(&bytes, item),
            _ => self.decoder.read(&bytes, &request.items).reply,
        })
    }

    /// What a status that is no success means.
    async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).map_or(&b"nowhere"[..], HeaderValue::as_bytes);
            let mut text = format!(
                "HTTP {}: redirects are not followed; set url to the final address: ",
                status.as_u16()
            );
            text.push_str(&String::from_utf8_lossy(to));
            return self.decoder.failure(Class::Final, Kind::Answer, text).with_status(status.as_u16());
        }
        let hint = hints::wait(response.headers(), status.as_u16(), (self.now)());
        let body = answer::beginning(response, ERROR_BODY).await;
        let text = self.decoder.secrets.clean(&body, ERROR_BODY);
        classify::from_status(status.as_u16(), text.as_bytes(), hint)
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn call(&self, request: Request) -> Reply {
        self.ask(&request).await.unwrap_or_else(Reply::Whole)
    }
}

fn client(spec: &HttpSpec, tls: bool) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(spec.connect_timeout)
        .pool_max_idle_per_host(spec.concurrency.max(1));
    // The system's root certificates are loaded only where they are needed: plain HTTP works without any.
    let builder = if tls { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| format!("the HTTP client cannot be set up: {}", fault::chain(&error)))
}

fn headers(spec: &HttpSpec) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let plain = spec.headers.iter().map(|header| (header, false));
    let secret = spec.secret_headers.iter().map(|header| (header, true));
    for ((name, value), secret) in plain.chain(secret) {
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is no header name"))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| format!("the value of header {name} cannot be sent"))?;
        value.set_sensitive(secret);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// The item's own key, or one for the set of items.
fn idempotency_key(items: &[Input]) -> HeaderValue {
    if let [item] = items
        && let Ok(value) = HeaderValue::from_str(&item.idempotency_key)
    {
        return value;
    }
    let mut keys: Vec<&[u8]> = items.iter().map(|item| item.idempotency_key.as_bytes()).collect();
    keys.sort_unstable();
    let hash = ContentHash::of(&keys).to_string();
    HeaderValue::from_str(&hash).unwrap_or_else(|_| HeaderValue::from_static("0"))
}
