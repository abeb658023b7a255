//! A service that is asked by POST: what the stages that speak HTTP share.
//!
//! One request per call: no redirects, no proxies from the environment, no tries of its own. Of an answer no more is
//! read than may be kept. Dropping the call's future closes its connection.

mod answer;
mod fault;
mod headers;

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::Limits;
use redrive_core::id::ContentHash;
use redrive_core::redact::REDACTED;
use redrive_core::secret::Secret;
use redrive_core::time::Timestamp;
use redrive_engine::handler::Input;
use redrive_engine::tap::{Came, MOST_SHOWN, Tap, Wire};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, Url};

use crate::outbound::{Looking, Reach, Refused};
use crate::protocol::{self, Decoder, Defer};
use crate::secrets::Secrets;

pub(crate) use headers::{span, wait as hint};

/// Most bytes of an error's body that are read: one more than is ever shown of it, so that it can be seen that it was cut.
const ERROR_BODY: usize = 64 * 1024 + 1;
/// Name of the header by which a service recognises a repetition.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Reads the clock; needed for `Retry-After` dates only.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Installs the process's TLS provider. Calling it again changes nothing.
pub fn install_tls() {
    // An error says that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Reads an address.
pub(crate) fn address(key: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{key}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("{key}: {}: is not allowed; http and https are", url.scheme()));
    }
    Ok(url)
}

/// How a service is reached.
pub(crate) struct ServiceSpec<'a> {
    pub(crate) url: Url,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) secret_headers: &'a [(String, Secret)],
    /// What must not be seen in messages besides the secret headers.
    pub(crate) secret: Option<&'a Secret>,
    pub(crate) max_answer: usize,
    pub(crate) output: Option<String>,
    pub(crate) verdict: Option<String>,
    pub(crate) defer: Option<Defer>,
    pub(crate) concurrency: usize,
    pub(crate) connect_timeout: Duration,
    /// Whom it may call.
    pub(crate) reach: Reach,
    /// Where somebody looks on.
    pub(crate) tap: Option<Arc<Tap>>,
}

/// A service.
pub(crate) struct Service {
    client: Client,
    url: Url,
    /// The address as messages show it: without user, password and query.
    target: String,
    headers: HeaderMap,
    max_answer: usize,
    pub(crate) decoder: Decoder,
    now: Now,
    tap: Option<Arc<Tap>>,
    /// Why it is not called, where its address says so.
    refused: Option<Refused>,
}

/// What came of asking.
pub(crate) struct Exchange {
    /// What the service said about its limits.
    pub(crate) limits: Limits,
    /// The status, where there was one.
    pub(crate) status: Option<u16>,
    /// The body of a success, or what went wrong.
    pub(crate) result: Result<Vec<u8>, Fault>,
}

/// Why there is no answer to read.
pub(crate) enum Fault {
    /// No whole answer came, or one that means the same whoever sent it.
    Failed(Failure),
    /// The service said no; what that means depends on the service.
    Refused {
        /// The status.
        status: u16,
        /// The beginning of the body, as it came: it may repeat a secret, and gets into a failure by way of a
        /// [`Decoder`] only.
        body: Vec<u8>,
        /// How long it asks to be left alone.
        hint: Option<Duration>,
        /// When a limit that was hit is whole again.
        resets: Option<Duration>,
    },
}

impl Exchange {
    /// Nothing came back.
    fn none(failure: Failure) -> Self {
        Self { limits: Limits::default(), status: None, result: Err(Fault::Failed(failure)) }
    }
}

impl Service {
    /// Prepares the calls; connects to nothing.
    pub(crate) fn new(spec: ServiceSpec<'_>, now: Now) -> Result<Self, String> {
        install_tls();
        let url = spec.url.clone();
        let values = spec.secret_headers.iter().map(|(_, value)| value);
        let values = values.chain(spec.secret).map(Secret::expose);
        let secrets = Secrets::new(values.chain(url.password()));
        let mut target = url.clone();
        let _ = target.set_username("");
        let _ = target.set_password(None);
        target.set_query(None);
        target.set_fragment(None);
        Ok(Self {
            client: client(&spec)?,
            refused: spec.reach.check_literal(&url).err(),
            target: target.to_string(),
            headers: header_map(&spec)?,
            max_answer: spec.max_answer,
            decoder: Decoder { secrets, output: spec.output, verdict: spec.verdict, defer: spec.defer },
            url,
            now,
            tap: spec.tap,
        })
    }

    /// Sends a body on behalf of these items, and reads what comes back.
    pub(crate) async fn post(&self, body: Vec<u8>, items: &[&Input]) -> Exchange {
        self.post_with(body, items, HeaderMap::new()).await
    }

    /// The same with headers of this call alone.
    pub(crate) async fn post_with(&self, body: Vec<u8>, items: &[&Input], more: HeaderMap) -> Exchange {
        self.send(Method::POST, self.url.clone(), body, items, more).await
    }

    /// Asks at an address of the same host, and reads what comes back.
    pub(crate) async fn get(&self, url: Url, item: &Input) -> Exchange {
        self.send(Method::GET, url, Vec::new(), &[item], HeaderMap::new()).await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Vec<u8>,
        items: &[&Input],
        more: HeaderMap,
    ) -> Exchange {
        if let Some(why) = &self.refused {
            let failure = fault::of_reach(why, &self.target, &self.decoder);
            return Exchange::none(failure);
        }
        let key = idempotency_key(items);
        if let Some(tap) = &self.tap {
            tap.sent(self.shown(&method, &body, &key));
        }
        let post = self
            .client
            .request(method, url)
            .headers(self.headers.clone())
            .headers(more)
            .header(IDEMPOTENCY_KEY, key)
            .body(body);
        let response = match post.send().await {
            Ok(response) => response,
            Err(error) => {
                let failure = fault::of_sending(error, &self.target, &self.decoder);
                return Exchange::none(failure);
            }
        };
        let limits = headers::limits(response.headers(), (self.now)());
        let status = response.status().as_u16();
        let result = if response.status().is_success() {
            self.read(response).await.map_err(Fault::Failed)
        } else {
            Err(self.refused(response).await)
        };
        if let Some(tap) = &self.tap {
            tap.came(self.came(status, &result));
        }
        Exchange { limits, status: Some(status), result }
    }

    /// What is sent, as it may be shown.
    fn shown(&self, method: &Method, body: &[u8], key: &HeaderValue) -> Wire {
        let hidden = |value: &HeaderValue| match value.is_sensitive() {
            true => REDACTED.to_owned(),
            false => self.decoder.secrets.clean(value.as_bytes(), MOST_SHOWN),
        };
        let mut headers: Vec<(String, String)> =
            self.headers.iter().map(|(name, value)| (name.to_string(), hidden(value))).collect();
        headers.push((IDEMPOTENCY_KEY.to_string(), hidden(key)));
        // A query may hold anything.
        let query = if self.url.query().is_some() { "?…" } else { "" };
        Wire {
            to: format!("{method} {}{query}", self.target),
            headers,
            body: self.decoder.secrets.clean(body, MOST_SHOWN),
            bytes: body.len(),
            answer: None,
        }
    }

    /// What came back, as it may be shown.
    fn came(&self, status: u16, result: &Result<Vec<u8>, Fault>) -> Came {
        let body: &[u8] = match result {
            Ok(body) | Err(Fault::Refused { body, .. }) => body,
            Err(Fault::Failed(_)) => &[],
        };
        let shown = self.decoder.secrets.clean(body, MOST_SHOWN);
        Came { status: Some(status), body: shown, bytes: body.len() }
    }

    /// The body of a success.
    async fn read(&self, response: Response) -> Result<Vec<u8>, Failure> {
        let (status, encoding) = (response.status().as_u16(), encoding(response.headers()));
        let read = answer::read(response, self.max_answer).await;
        let body = read.map_err(|stop| fault::of_reading(stop, &self.target, self.max_answer, &self.decoder));
        match (body, encoding) {
            (Ok(_), Some(how)) => Err(self.decoder.broken(&protocol::compressed(&how), &[])),
            (body, _) => body,
        }
        .map_err(|failure| failure.with_status(status))
    }

    /// What a status that is no success says.
    async fn refused(&self, response: Response) -> Fault {
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).map_or(&b"nowhere"[..], HeaderValue::as_bytes);
            let mut text = format!(
                "HTTP {}: redirects are not followed; set url to the final address: ",
                status.as_u16()
            );
            text.push_str(&String::from_utf8_lossy(to));
            let failure = self.decoder.failure(Class::Final, Kind::Answer, text);
            return Fault::Failed(failure.with_status(status.as_u16()));
        }
        let now = (self.now)();
        let hint = headers::wait(response.headers(), now);
        let resets = headers::resets(response.headers(), status.as_u16(), now);
        let encoding = encoding(response.headers());
        let mut body = answer::beginning(response, ERROR_BODY).await;
        if let Some(how) = encoding.or_else(|| protocol::compression(&body).map(str::to_owned)) {
            body = format!("its body {}", protocol::compressed(&how)).into_bytes();
        }
        Fault::Refused { status: status.as_u16(), body, hint, resets }
    }
}

/// How an answer says that it is compressed. Nothing of the kind is ever asked for.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(CONTENT_ENCODING)?.to_str().ok()?.trim();
    let known =
        said.len() <= 40 && said.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-, ".contains(&byte));
    let how = if known { said.to_ascii_lowercase() } else { "in an unknown way".to_owned() };
    (!matches!(how.as_str(), "" | "identity")).then_some(how)
}

fn client(spec: &ServiceSpec<'_>) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(spec.connect_timeout)
        .pool_max_idle_per_host(spec.concurrency.max(1));
    // The name is looked up for every connection, and nothing is connected to that was not looked at.
    let builder = match spec.reach.is_free() {
        true => builder,
        false => builder.dns_resolver(Looking {
            reach: spec.reach.clone(),
            port: spec.url.port_or_known_default().unwrap_or(0),
        }),
    };
    // The system's root certificates are loaded only where they are needed: plain HTTP works without any.
    let builder = if spec.url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| format!("the HTTP client cannot be set up: {}", fault::chain(&error)))
}

fn header_map(spec: &ServiceSpec<'_>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let plain = spec.headers.iter().map(|(name, value)| (name, value.as_str(), false));
    let secret = spec.secret_headers.iter().map(|(name, value)| (name, value.expose(), true));
    for (name, value, secret) in plain.chain(secret) {
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
fn idempotency_key(items: &[&Input]) -> HeaderValue {
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
