//! A stage that asks a service over HTTP.
//!
//! One request per call: no redirects, no proxies from the environment, no tries of its own. Of an answer no more is
//! read than may be kept. Dropping the call's future closes its connection.

mod poll;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::classify;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind, MAX_MESSAGE};
use redrive_core::item::Payload;
use redrive_core::secret::Secret;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use redrive_engine::tap::Tap;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::outbound::Reach;
use crate::protocol::{self, Defer};
use crate::service::{self, Fault, Now, Service, ServiceSpec};
use crate::usage;
use crate::webhook::{self, Signer};
use poll::{Poll, names_results};

/// The status of what is begun with and not done.
const ACCEPTED: u16 = 202;
/// Headers by which a handler that gets the bare payload is told what an answer names, and where it goes.
const TOKEN: HeaderName = HeaderName::from_static("redrive-answer-token");
const URL: HeaderName = HeaderName::from_static("redrive-answer-url");

/// The header that says which trace a call is a part of.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyForm {
    /// The handler protocol.
    #[default]
    Protocol,
    /// The payload of the one item; the answer's body is its output.
    Payload,
    /// The payload of the one item, which stays as it is: a success is all that is asked for.
    Webhook,
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
    pub secret_headers: Vec<(String, Secret)>,
    /// What webhooks are signed with, as Standard Webhooks writes it; `None`: they are not.
    pub signing_secret: Option<Secret>,
    /// Most bytes of an answer.
    pub max_answer: usize,
    /// Where in the payload the output is put: a JSON pointer. `None`: in place of the payload.
    pub output: Option<String>,
    /// Where in the output the verdict stands: a JSON pointer. `None`: nowhere.
    pub verdict: Option<String>,
    /// How answers that come later are waited for; `None`: none does.
    pub defer: Option<Defer>,
    /// Where answers are asked for by GET: `{id}` stands for the work, `{ticket}` for what the service gave.
    pub poll: Option<String>,
    /// How many calls may be open at once, and so how many connections are worth keeping.
    pub concurrency: usize,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// Whom it may call.
    pub reach: Reach,
    /// Where somebody looks on.
    pub tap: Option<Arc<Tap>>,
}

impl HttpSpec {
    /// Asks this address, with everything else as usual: answers of up to 16 MiB, ten seconds to connect.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            body: BodyForm::Protocol,
            headers: Vec::new(),
            secret_headers: Vec::new(),
            signing_secret: None,
            max_answer: 16 << 20,
            output: None,
            verdict: None,
            defer: None,
            poll: None,
            concurrency: 1,
            connect_timeout: Duration::from_secs(10),
            reach: Reach::default(),
            tap: None,
        }
    }
}

/// Asks a service over HTTP.
pub struct HttpHandler {
    service: Service,
    body: BodyForm,
    poll: Option<Poll>,
    signer: Option<Signer>,
    now: Now,
}

impl HttpHandler {
    /// Prepares the calls; connects to nothing.
    ///
    /// # Errors
    /// Says which part of the specification cannot be used; shows no secret.
    pub fn new(spec: HttpSpec, now: Now) -> Result<Self, String> {
        let service = |url| ServiceSpec {
            url,
            headers: &spec.headers,
            secret_headers: &spec.secret_headers,
            secret: spec.signing_secret.as_ref(),
            max_answer: spec.max_answer,
            output: spec.output.clone(),
            verdict: spec.verdict.clone(),
            defer: spec.defer.clone(),
            concurrency: spec.concurrency,
            connect_timeout: spec.connect_timeout,
            reach: spec.reach.clone(),
            tap: spec.tap.clone(),
        };
        let signer = spec.signing_secret.as_ref().map(Signer::new).transpose()?;
        let asked = service(service::address("url", &spec.url)?);
        let poll = spec.poll.as_deref().map(|template| {
            let host = Service::new(service(poll::address(template, "0", "0")?), now.clone())?;
            Ok::<_, String>(Poll {
                template: template.to_owned(),
                bare: spec.body == BodyForm::Payload,
                service: host,
            })
        });
        let (service, poll) = (Service::new(asked, now.clone())?, poll.transpose()?);
        Ok(Self { service, body: spec.body, poll, signer, now })
    }

    /// What a handler that gets the bare payload needs to answer later.
    fn answer_headers(&self, item: &Input) -> HeaderMap {
        let Some(defer) = &self.service.decoder.defer else { return HeaderMap::new() };
        let all = [(TOKEN, Some(item.token.to_string())), (URL, defer.answer_url(item))];
        let given =
            all.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value?).ok()?)));
        given.collect()
    }

    async fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        let body = match (self.body, request.items.as_slice()) {
            (BodyForm::Protocol, _) => protocol::encode_with(request, self.service.decoder.defer.as_ref()),
            (BodyForm::Payload | BodyForm::Webhook, [item]) => item.payload.to_vec(),
            (BodyForm::Payload | BodyForm::Webhook, items) => {
                let text = format!("such a body takes one item, not {}; set batch = 1", items.len());
                return Err(Failure::new(Class::Final, Kind::Input, text));
            }
        };
        let mut more = match (self.body, request.items.as_slice()) {
            (BodyForm::Webhook, [item]) => webhook::headers(item, (self.now)(), &body, self.signer.as_ref()),
            (BodyForm::Payload, [item]) => self.answer_headers(item),
            _ => HeaderMap::new(),
        };
        // A call for several items is a part of several traces: then each has its own in the body.
        if let [item] = request.items.as_slice()
            && let Some(told) = item.traceparent.as_deref().map(HeaderValue::from_str)
            && let Ok(told) = told
        {
            more.insert(TRACEPARENT, told);
        }
        let items = request.items.iter().collect::<Vec<_>>();
        let exchange = self.service.post_with(body, &items, more).await;
        let decoder = &self.service.decoder;
        let deferred = decoder.defer.as_ref().filter(|_| exchange.status == Some(ACCEPTED));
        let (reply, usage) = match (exchange.result, self.body, request.items.as_slice()) {
            (Ok(bytes), ..) if deferred.is_some_and(|_| !names_results(&bytes)) => {
                let over =
                    request.items.iter().filter_map(|_| deferred.map(|defer| defer.hand_over(None, None)));
                (Reply::Items(over.collect()), None)
            }
            (Ok(bytes), BodyForm::Payload, [item]) => (decoder.read_bare(&bytes, item), None),
            (Ok(_), BodyForm::Webhook, _) => (Reply::Items(vec![ItemReply::Output(None)]), None),
            (Ok(bytes), ..) => {
                let decoded = decoder.read(&bytes, &request.items);
                (decoded.reply, decoded.usage)
            }
            (Err(Fault::Failed(failure)), ..) => (Reply::Whole(failure), None),
            (Err(Fault::Refused { status, body, hint, resets }), ..) => {
                // Longer than any message, so that nothing is cut before what is kept of it is clean.
                let text = decoder.secrets.clean(&body, body.len().max(MAX_MESSAGE));
                (Reply::Whole(classify::from_status(status, text.as_bytes(), hint.or(resets))), None)
            }
        };
        Ok(Answer { reply, usage, limits: exchange.limits, receipt: None })
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn call(&self, request: Request) -> Answer {
        if let ([item], Some(poll)) = (request.items.as_slice(), &self.poll)
            && let Some(handed) = &item.handed
        {
            return poll.ask(item, handed).await;
        }
        self.ask(&request).await.unwrap_or_else(|failure| Reply::Whole(failure).into())
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        usage::of_bytes(payload)
    }

    fn asks_every(&self) -> Option<Duration> {
        self.service.decoder.defer.as_ref().and_then(|defer| defer.every)
    }
}
