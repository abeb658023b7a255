//! A stage that asks a chat model about each item.

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::Payload;
use redrive_core::usage::Usage;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::end::{self, End, Said};
use super::model::Model;
use super::{ModelSpec, Prompt};
use crate::protocol::failed;
use crate::service::Now;
use crate::usage;

/// What a chat model is asked.
#[derive(Clone)]
pub struct ChatSpec {
    /// The model.
    pub model: ModelSpec,
    /// What the user says: a template, see [`Prompt`].
    pub prompt: String,
    /// What the system says before that: a template too.
    pub system: Option<String>,
    /// How freely it answers.
    pub temperature: Option<f64>,
    /// Most tokens of an answer.
    pub max_tokens: Option<u64>,
    /// Asks for the same answer to the same question, where the service can.
    pub seed: Option<i64>,
    /// Asks for JSON, and reads the answer as JSON.
    pub json: bool,
    /// Takes an answer that was cut off at the most tokens.
    pub allow_truncated: bool,
    /// Where in the payload the answer is put: a JSON pointer.
    pub output: String,
    /// Where in the answer the verdict stands: a JSON pointer. `None`: nowhere.
    pub verdict: Option<String>,
}

impl ChatSpec {
    /// Asks this, and puts the answer at `/answer`.
    pub fn new(model: ModelSpec, prompt: impl Into<String>) -> Self {
        Self {
            model,
            prompt: prompt.into(),
            system: None,
            temperature: None,
            max_tokens: None,
            seed: None,
            json: false,
            allow_truncated: false,
            output: "/answer".to_owned(),
            verdict: None,
        }
    }
}

/// Asks a chat model about each item: one item a call.
pub struct ChatHandler {
    model: Model,
    prompt: Prompt,
    system: Option<Prompt>,
    /// What every request has besides the conversation.
    fixed: Map<String, Value>,
    max_tokens: u64,
    json: bool,
    allow_truncated: bool,
}

impl ChatHandler {
    /// Prepares the calls; connects to nothing.
    ///
    /// # Errors
    /// Says which part of the specification cannot be used; shows no secret.
    pub fn new(spec: ChatSpec, now: Now) -> Result<Self, String> {
        let model = Model::new(spec.model, &["chat", "completions"], &spec.output, spec.verdict, now)?;
        let mut fixed = Map::new();
        let mut set =
            |name: &str, value: Option<Value>| value.map(|value| fixed.insert(name.to_owned(), value));
        set("model", Some(model.name.as_str().into()));
        set("temperature", spec.temperature.map(Value::from));
        // OpenAI's newer models know the newer name only; other services the older one.
        let most = if model.is_openai { "max_completion_tokens" } else { "max_tokens" };
        set(most, spec.max_tokens.map(Value::from));
        set("seed", spec.seed.map(Value::from));
        set("response_format", spec.json.then(|| json!({"type": "json_object"})));
        let template = |key: &str, text: &str| Prompt::parse(text).map_err(|wrong| format!("{key}: {wrong}"));
        Ok(Self {
            prompt: template("prompt", &spec.prompt)?,
            system: spec.system.map(|text| template("system", &text)).transpose()?,
            model,
            fixed,
            max_tokens: spec.max_tokens.unwrap_or(0),
            json: spec.json,
            allow_truncated: spec.allow_truncated,
        })
    }

    async fn ask(&self, request: &Request) -> Answer {
        let [item] = request.items.as_slice() else {
            let text =
                format!("a chat stage takes one item a call, not {}; set batch = 1", request.items.len());
            return Reply::Whole(Failure::new(Class::Final, Kind::Input, text)).into();
        };
        let body = match self.conversation(&item.payload) {
            Ok(messages) => {
                let mut body = self.fixed.clone();
                body.insert("messages".to_owned(), messages);
                Value::from(body)
            }
            Err(failure) => return Reply::Items(vec![failed(failure)]).into(),
        };
        let asked = self.model.ask(&body, &[item]).await;
        let (reply, usage) = match asked.result {
            Ok(bytes) => self.answer(&bytes, item),
            Err(failure) => (Reply::Whole(failure), asked.usage),
        };
        Answer { reply, usage, limits: asked.limits, receipt: None }
    }

    /// What is said to the model about an item.
    fn conversation(&self, payload: &[u8]) -> Result<Value, Failure> {
        let (system, prompt) =
            self.render(payload).map_err(|wrong| Failure::new(Class::Final, Kind::Input, wrong))?;
        if prompt.trim().is_empty() {
            return Err(Failure::new(Class::Final, Kind::Input, "the prompt is empty for this item"));
        }
        self.model.fits(estimate(system.as_deref(), &prompt))?;
        let mut messages: Vec<Value> = Vec::new();
        messages.extend(system.map(|text| json!({"role": "system", "content": text})));
        messages.push(json!({"role": "user", "content": prompt}));
        Ok(messages.into())
    }

    fn render(&self, payload: &[u8]) -> Result<(Option<String>, String), String> {
        let system = self.system.as_ref().map(|system| system.render(payload)).transpose()?;
        Ok((system, self.prompt.render(payload)?))
    }

    /// What an answer means for its item, and what the call consumed in any case.
    fn answer(&self, bytes: &[u8], item: &Input) -> (Reply, Option<Usage>) {
        let envelope = match self.model.open(bytes) {
            Ok(envelope) => envelope,
            Err(failure) => return (Reply::Whole(failure), None),
        };
        let usage = self.model.usage(&envelope);
        let broken = |wrong: &str| self.model.decoder().broken(wrong, bytes);
        let choice =
            self.model.reported(&envelope, bytes).and_then(|()| end::first(envelope.choices).map_err(broken));
        let choice = match choice {
            Ok(choice) => choice,
            Err(failure) => return (Reply::Whole(failure), usage),
        };
        let text = end::read(choice).map_err(|wrong| broken(&wrong)).and_then(|said| self.text(said, bytes));
        let reply = match text {
            Ok(text) => self.place(&text, item),
            Err(failure) => failed(failure),
        };
        (Reply::Items(vec![reply]), usage)
    }

    /// The text of an answer, when it is whole.
    fn text(&self, said: Said, bytes: &[u8]) -> Result<String, Failure> {
        let decoder = self.model.decoder();
        let refused = |text: String| Err(decoder.failure(Class::Final, Kind::Answer, text));
        if let End::Filtered(word) = said.end {
            return refused(format!("the service filtered the answer ({word})"));
        }
        if let Some(refusal) = said.refusal {
            return refused(format!("the model refused: {refusal}"));
        }
        match said.end {
            End::Cut if !self.allow_truncated => {
                let text = "the answer was cut off at the most tokens; raise max_tokens or set allow_truncated = true";
                return Err(decoder.failure(Class::Retryable, Kind::Answer, text));
            }
            End::Unknown(word) => {
                let text = format!(
                    "the answer ended with {word:?}, which is not known to be the end of a whole one"
                );
                return Err(decoder.failure(Class::Retryable, Kind::Answer, text));
            }
            End::Whole | End::Cut | End::Filtered(_) => {}
        }
        said.text.filter(|text| !text.trim().is_empty()).ok_or_else(|| decoder.broken("has no text", bytes))
    }

    fn place(&self, text: &str, item: &Input) -> ItemReply {
        let decoder = self.model.decoder();
        if self.json {
            return match serde_json::from_str::<&RawValue>(text.trim()) {
                Ok(output) => decoder.passed(output, item),
                Err(error) => failed(decoder.broken(&format!("is not JSON ({error})"), text.as_bytes())),
            };
        }
        match serde_json::value::to_raw_value(text) {
            Ok(output) => decoder.passed(&output, item),
            Err(error) => failed(decoder.broken(&error.to_string(), text.as_bytes())),
        }
    }
}

fn estimate(system: Option<&str>, prompt: &str) -> u64 {
    system.map_or(0, usage::of_text).saturating_add(usage::of_text(prompt))
}

#[async_trait]
impl Handler for ChatHandler {
    async fn call(&self, request: Request) -> Answer {
        self.ask(&request).await
    }

    /// An estimate of what is said, and the most that may be answered; none where no call will be made.
    fn tokens(&self, payload: &Payload) -> u64 {
        self.render(payload).map_or(0, |(system, prompt)| {
            estimate(system.as_deref(), &prompt).saturating_add(self.max_tokens)
        })
    }
}
