//! A stage that turns texts into vectors.

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::Payload;
use redrive_core::usage::Usage;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request, RunMemory};
use serde_json::{Map, Value, json};

use super::dimension::Dimension;
use super::model::Model;
use super::{ModelSpec, vector};
use crate::protocol::{failed, look_up, place_output};
use crate::service::Now;
use crate::usage;

/// How texts are embedded.
#[derive(Clone)]
pub struct EmbedSpec {
    /// The model.
    pub model: ModelSpec,
    /// Where in the payload the text is: a JSON pointer.
    pub input: String,
    /// Where in the payload the vector is put: a JSON pointer.
    pub output: String,
    /// How many numbers a vector is asked to have. `None`: as many as the model gives, the same for all.
    pub dimensions: Option<usize>,
    /// Whether somebody else sees to it that all vectors have as many numbers, and says it in better words.
    pub judged_elsewhere: bool,
}

impl EmbedSpec {
    /// Embeds the text at `/text` and puts the vector at `/embedding`.
    #[must_use]
    pub fn new(model: ModelSpec) -> Self {
        Self {
            model,
            input: "/text".to_owned(),
            output: "/embedding".to_owned(),
            dimensions: None,
            judged_elsewhere: false,
        }
    }
}

/// Turns texts into vectors: one call for a whole batch.
///
/// A text that cannot be sent fails by itself and the others go. An answer of which anything is wrong is used in no
/// part: a vector at the wrong place would never be noticed.
pub struct EmbedHandler {
    model: Model,
    input: String,
    output: String,
    dimensions: Option<usize>,
    /// How long vectors have to be; `None` when somebody else sees to that.
    dimension: Option<Dimension>,
}

impl EmbedHandler {
    /// Prepares the calls; connects to nothing.
    ///
    /// # Errors
    /// Says which part of the specification cannot be used; shows no secret.
    pub fn new(spec: EmbedSpec, now: Now) -> Result<Self, String> {
        let dimension = Dimension::new(&spec.model.model, spec.dimensions);
        Ok(Self {
            model: Model::new(spec.model, &["embeddings"], &spec.output, None, now)?,
            input: spec.input,
            output: spec.output,
            dimension: (!spec.judged_elsewhere).then_some(dimension),
            dimensions: spec.dimensions,
        })
    }

    async fn ask(&self, request: &Request) -> Answer {
        let texts: Vec<Result<String, Failure>> = request.items.iter().map(|item| self.text(item)).collect();
        let (sent, input): (Vec<&Input>, Vec<&String>) = request
            .items
            .iter()
            .zip(&texts)
            .filter_map(|(item, text)| Some((item, text.as_ref().ok()?)))
            .unzip();
        if sent.is_empty() {
            let replies = texts.into_iter().filter_map(Result::err).map(failed);
            return Reply::Items(replies.collect()).into();
        }
        let asked = self.model.ask(&self.body(&input), &sent).await;
        let (vectors, usage) = match asked.result {
            Ok(bytes) => self.vectors(&bytes, sent.len()).await,
            Err(failure) => (Err(failure), asked.usage),
        };
        let reply = match vectors {
            Ok(vectors) => {
                let mut vectors = vectors.into_iter();
                let replies = request.items.iter().zip(texts).map(|(item, text)| match text {
                    Ok(_) => self.place(item, vectors.next().unwrap_or_default()),
                    Err(failure) => failed(failure),
                });
                Reply::Items(replies.collect())
            }
            Err(failure) => Reply::Whole(failure),
        };
        Answer { reply, usage, limits: asked.limits, receipt: None }
    }

    /// The text of an item, where there is one that can be sent.
    fn text(&self, item: &Input) -> Result<String, Failure> {
        let unusable = |wrong: String| Failure::new(Class::Final, Kind::Input, wrong);
        let at = if self.input.is_empty() { "the payload" } else { self.input.as_str() };
        let raw = look_up(&item.payload, &self.input)
            .map_err(unusable)?
            .ok_or_else(|| unusable(format!("the payload has nothing at {at}")))?;
        let text: String =
            serde_json::from_str(raw.get()).map_err(|_| unusable(format!("{at} is not a text")))?;
        if text.trim().is_empty() {
            return Err(unusable(format!("the text at {at} is empty")));
        }
        self.model.fits(usage::of_text(&text))?;
        Ok(text)
    }

    fn body(&self, input: &[&String]) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), self.model.name.as_str().into());
        body.insert("input".into(), json!(input));
        body.insert("encoding_format".into(), "float".into());
        if let Some(dimensions) = self.dimensions {
            body.insert("dimensions".into(), dimensions.into());
        }
        body.into()
    }

    /// The vectors of an answer, when all of them can be used; and what the call consumed in any case.
    async fn vectors(&self, bytes: &[u8], texts: usize) -> (Result<Vec<Vec<f32>>, Failure>, Option<Usage>) {
        let envelope = match self.model.open(bytes) {
            Ok(envelope) => envelope,
            Err(failure) => return (Err(failure), None),
        };
        let usage = self.model.usage(&envelope);
        let read = |()| {
            let data = envelope.data.ok_or_else(|| "has no \"data\"".to_owned());
            let vectors = data.and_then(|data| vector::read(data, texts));
            vectors.map_err(|wrong| self.model.decoder().broken(&wrong, bytes))
        };
        let vectors = match self.model.reported(&envelope, bytes).and_then(read) {
            Ok(vectors) => self.alike(vectors).await,
            Err(failure) => Err(failure),
        };
        (vectors, usage)
    }

    /// Refuses vectors of another dimension than was asked for, or than the answers before them had.
    async fn alike(&self, vectors: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, Failure> {
        if let (Some(dimension), Some(first)) = (&self.dimension, vectors.first()) {
            dimension.judge(first.len()).await?;
        }
        Ok(vectors)
    }

    fn place(&self, item: &Input, vector: Vec<f32>) -> ItemReply {
        let placed = serde_json::value::to_raw_value(&vector)
            .map_err(|error| error.to_string())
            .and_then(|vector| place_output(&item.payload, Some(&self.output), &vector));
        match placed {
            Ok(payload) => ItemReply::Output(Some(payload)),
            Err(wrong) => failed(Failure::new(Class::Final, Kind::Input, wrong)),
        }
    }
}

#[async_trait]
impl Handler for EmbedHandler {
    async fn call(&self, request: Request) -> Answer {
        self.ask(&request).await
    }

    fn remember(&self, memory: RunMemory) {
        if let Some(dimension) = &self.dimension {
            dimension.keep_in(memory);
        }
    }

    /// An estimate from the text alone; none where no call will be made.
    fn tokens(&self, payload: &Payload) -> u64 {
        let text = look_up(payload, &self.input).ok().flatten();
        text.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
            .filter(|text| !text.trim().is_empty())
            .map_or(0, |text| usage::of_text(&text))
    }
}
