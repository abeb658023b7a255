//! One model of one service, asked for one operation.

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::Limits;
use redrive_core::secret::Secret;
use redrive_core::usage::Usage;
use redrive_engine::handler::Input;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::profile::{self, Refusal};
use super::{ModelSpec, OPENAI_HOST, Price};
use crate::protocol::{self, Decoder};
use crate::service::{self, Fault, Now, Service, ServiceSpec};
use crate::usage;

/// A model.
pub(super) struct Model {
    service: Service,
    /// Its name.
    pub(super) name: String,
    /// Whether it is OpenAI's own service that is asked.
    pub(super) is_openai: bool,
    price: Option<Price>,
    max_item_tokens: Option<u64>,
    /// What to do when the key is refused.
    remedy: Option<String>,
}

/// What came of asking.
pub(super) struct Asked {
    pub(super) limits: Limits,
    pub(super) result: Result<Vec<u8>, Failure>,
    /// What a refusal says that it consumed.
    pub(super) usage: Option<Usage>,
}

/// The parts of an answer that are looked at.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Model {
    /// Prepares calls of `operation`, a path below the base address; connects to nothing.
    pub(super) fn new(
        spec: ModelSpec,
        operation: &[&str],
        output: &str,
        verdict: Option<String>,
        now: Now,
    ) -> Result<Self, String> {
        let mut url = service::address("base_url", &spec.base_url)?;
        let is_openai = url.host_str() == Some(OPENAI_HOST);
        url.path_segments_mut()
            .map_err(|()| "base_url: it cannot be extended".to_owned())?
            .pop_if_empty()
            .extend(operation);
        let mut secret_headers = spec.secret_headers;
        let key = spec.api_key.map(|key| Secret::from(key.expose().trim()));
        let bearer = key.as_ref().map(|key| Secret::from(format!("Bearer {}", key.expose())));
        secret_headers.extend(bearer.map(|bearer| ("Authorization".to_owned(), bearer)));
        let service = ServiceSpec {
            defer: None,
            url,
            headers: &spec.headers,
            secret_headers: &secret_headers,
            secret: key.as_ref(),
            max_answer: spec.max_answer,
            output: Some(output.to_owned()),
            verdict,
            concurrency: spec.concurrency,
            connect_timeout: spec.connect_timeout,
            reach: spec.reach,
            tap: spec.tap,
        };
        Ok(Self {
            service: Service::new(service, now)?,
            is_openai,
            price: spec.price.or_else(|| Price::published(is_openai, &spec.model)),
            name: spec.model,
            max_item_tokens: spec.max_item_tokens,
            remedy: spec.remedy,
        })
    }

    /// Sends a body on behalf of these items.
    pub(super) async fn ask(&self, body: &serde_json::Value, items: &[&Input]) -> Asked {
        let exchange = self.service.post(body.to_string().into_bytes(), items).await;
        let mut usage = None;
        let result = exchange.result.map_err(|fault| match fault {
            Fault::Failed(failure) => failure,
            Fault::Refused { status, body, hint, resets } => {
                usage = protocol::object(&body).ok().and_then(|envelope| self.usage(&envelope));
                self.refused(profile::refusal(status, &body, hint, resets))
            }
        });
        Asked { limits: exchange.limits, result, usage }
    }

    /// Takes an answer apart, as far as the envelope.
    pub(super) fn open<'a>(&self, bytes: &'a [u8]) -> Result<Envelope<'a>, Failure> {
        protocol::object(bytes).map_err(|wrong| self.decoder().broken(&wrong, bytes))
    }

    /// The error that an answer is. Some services report one with a status of success.
    pub(super) fn reported(&self, envelope: &Envelope<'_>, bytes: &[u8]) -> Result<(), Failure> {
        match envelope.error {
            Some(error) if error.get() != "null" => Err(self.refused(profile::reported(bytes))),
            _ => Ok(()),
        }
    }

    /// The failure that a refusal is, without secrets.
    fn refused(&self, refusal: Refusal) -> Failure {
        let remedy = self.remedy.as_ref().filter(|_| refusal.of_key);
        let text = match remedy {
            Some(remedy) => format!("{} ({remedy})", refusal.text),
            None => refusal.text,
        };
        let failure = self.decoder().failure(refusal.class, refusal.kind, text).with_hint(refusal.hint);
        match refusal.status {
            Some(status) => failure.with_status(status),
            None => failure,
        }
    }

    /// What a call consumed, and what that cost.
    pub(super) fn usage(&self, envelope: &Envelope<'_>) -> Option<Usage> {
        let usage = usage::read(envelope.usage?)?;
        Some(Usage { nano_usd: self.price.and_then(|price| price.of(&usage)), ..usage })
    }

    /// Refuses what is longer than one item may be.
    pub(super) fn fits(&self, tokens: u64) -> Result<(), Failure> {
        match self.max_item_tokens {
            Some(max) if tokens > max => {
                let text = format!("the text has about {tokens} tokens, more than max_item_tokens = {max}");
                Err(Failure::new(Class::Oversized, Kind::Input, text))
            }
            _ => Ok(()),
        }
    }

    /// What words failures and places outputs.
    pub(super) fn decoder(&self) -> &Decoder {
        &self.service.decoder
    }
}
