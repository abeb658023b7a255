//! The stage that turns chunks into vectors of the index, each text once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::ContentHash;
use redrive_core::index::{Effect, KeptVector, ModelNo, VectorKey};
use redrive_core::item::Payload;
use redrive_core::usage::Usage;
use redrive_core::vector::{Quantised, normalise};
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use redrive_ingest::payload::ChunkPayload;
use redrive_store::Index;

use crate::flights::{Flight, Flights, Standing};

/// Embeds chunks through another handler, and has their vectors kept by model and text.
///
/// The other handler gets `{"text": …}` and answers with a vector: a list of numbers, or base64 of little-endian `f32`.
pub struct IndexEmbed {
    inner: Arc<dyn Handler>,
    index: Arc<dyn Index>,
    model: ModelNo,
    /// How many numbers a vector has; the first answer tells where nobody knows.
    dimensions: OnceLock<usize>,
    flights: Flights,
    /// Chunks that went on without a vector.
    words_only: Arc<AtomicU64>,
}

/// What became of one text.
#[derive(Clone)]
enum Outcome {
    Vector(Arc<KeptVector>),
    /// The model has nothing to say about it: it can be found by its words only.
    Nothing,
    Other(ItemReply),
}

/// A text of a call, and the items that have it.
struct Text {
    hash: ContentHash,
    items: Vec<usize>,
    outcome: Option<Outcome>,
}

impl IndexEmbed {
    /// Keeps the vectors that `inner` makes as those of `model`.
    pub fn new(inner: Arc<dyn Handler>, index: Arc<dyn Index>, model: ModelNo, dimensions: u32) -> Self {
        let known = OnceLock::new();
        if dimensions > 0 {
            known.get_or_init(|| dimensions as usize);
        }
        Self {
            inner,
            index,
            model,
            dimensions: known,
            flights: Flights::default(),
            words_only: Arc::default(),
        }
    }

    /// Counts here the chunks that go on without a vector, because the model could make none of them.
    #[must_use]
    pub fn counting(self, words_only: Arc<AtomicU64>) -> Self {
        Self { words_only, ..self }
    }

    async fn embed(&self, request: &Request) -> Answer {
        let inputs: Vec<Option<String>> = request.items.iter().map(|item| input(&item.payload)).collect();
        let mut texts = distinct(&inputs);
        let mut usage: Option<Usage> = None;
        let mut limits = redrive_core::gate::Limits::default();
        // Each turn embeds what nobody else does, then waits for one of the others; what they gave up is taken over.
        loop {
            let mut flight = self.flights.depart();
            let mut bells = Vec::new();
            let mut ours = Vec::new();
            for (at, text) in texts.iter_mut().enumerate().filter(|(_, text)| text.outcome.is_none()) {
                match flight.take(text.hash) {
                    Standing::Landed(vector) => text.outcome = Some(Outcome::Vector(vector)),
                    Standing::Away(bell) => bells.push(bell),
                    Standing::Ours => ours.push(at),
                }
            }
            if !ours.is_empty() {
                let asked = self.ask(request, &inputs, &texts, &ours).await;
                usage = sum(usage, asked.usage);
                limits = asked.limits;
                match asked.reply {
                    Reply::Items(replies) if replies.len() == ours.len() => {
                        let settled = match self.learn(&replies).await {
                            Ok(dimensions) => self.settle(&flight, &mut texts, &ours, replies, dimensions),
                            Err(failure) => Err(failure),
                        };
                        if let Err(failure) = settled {
                            return Answer { reply: Reply::Whole(failure), usage, limits, receipt: None };
                        }
                    }
                    Reply::Items(replies) => {
                        let text = format!("{} replies for {} texts", replies.len(), ours.len());
                        let failure = Failure::new(Class::Retryable, Kind::Answer, text);
                        return Answer { reply: Reply::Whole(failure), usage, limits, receipt: None };
                    }
                    Reply::Part { begun, .. } => {
                        let replies = vec![None; request.items.len()];
                        let reply = Reply::Part { replies, begun };
                        return Answer { reply, usage, limits, receipt: None };
                    }
                    Reply::Whole(failure) => {
                        return Answer { reply: Reply::Whole(failure), usage, limits, receipt: None };
                    }
                }
            }
            drop(flight);
            let Some(bell) = bells.first_mut() else { break };
            // The end of the other flight closes its bell.
            let _ = bell.changed().await;
        }
        Answer { reply: Reply::Items(self.replies(&request.items, texts)), usage, limits, receipt: None }
    }

    /// Has the texts embedded that are this call's own.
    async fn ask(
        &self,
        request: &Request,
        inputs: &[Option<String>],
        texts: &[Text],
        ours: &[usize],
    ) -> Answer {
        let items = ours.iter().filter_map(|at| {
            let first = *texts[*at].items.first()?;
            let text = inputs[first].as_ref()?;
            let payload = serde_json::to_vec(&serde_json::json!({ "text": text })).unwrap_or_default();
            Some(Input { payload: payload.into(), ..request.items[first].clone() })
        });
        let request = Request {
            run: request.run,
            rank: request.rank,
            stage: request.stage.clone(),
            items: items.collect(),
            timeout: request.timeout,
        };
        self.inner.call(request).await
    }

    /// How many numbers the vectors of the index have.
    async fn learn(&self, replies: &[ItemReply]) -> Result<usize, Failure> {
        if let Some(known) = self.dimensions.get() {
            return Ok(*known);
        }
        let vector = replies.iter().find_map(|reply| match reply {
            ItemReply::Output(Some(output)) => numbers(output).ok(),
            _ => None,
        });
        // Without a vector there is nothing to compare.
        let Some(answered) = vector.and_then(|vector| u32::try_from(vector.len()).ok()) else { return Ok(0) };
        let learnt = self
            .index
            .learn_dimensions(self.model, answered)
            .await
            .map_err(|error| Failure::new(Class::Retryable, Kind::Database, error.to_string()))?;
        Ok(*self.dimensions.get_or_init(|| learnt as usize))
    }

    /// Takes replies in. An answer with a vector of the wrong size says that the model is another one: nothing of it is
    /// used.
    fn settle(
        &self,
        flight: &Flight<'_>,
        texts: &mut [Text],
        ours: &[usize],
        replies: Vec<ItemReply>,
        dimensions: usize,
    ) -> Result<(), Failure> {
        let mut made = Vec::with_capacity(ours.len());
        for (at, reply) in ours.iter().zip(replies) {
            made.push(match reply {
                ItemReply::Output(Some(output)) | ItemReply::Reused(output, _) => {
                    match self.vector(texts[*at].hash, &output, dimensions)? {
                        Ok(vector) => Outcome::Vector(Arc::new(vector)),
                        Err(failure) => Outcome::Other(ItemReply::Failed { failure, shared: false }),
                    }
                }
                // A model leaves out what it knows no word of. The text is no worse for that.
                ItemReply::Filtered(_) => Outcome::Nothing,
                other => Outcome::Other(other),
            });
        }
        for (at, outcome) in ours.iter().zip(made) {
            if let Outcome::Vector(vector) = &outcome {
                flight.land(vector.clone());
            }
            texts[*at].outcome = Some(outcome);
        }
        Ok(())
    }

    /// The vector of an answer: the outer error is everybody's, the inner one the text's own.
    fn vector(
        &self,
        text: ContentHash,
        output: &[u8],
        dimensions: usize,
    ) -> Result<Result<KeptVector, Failure>, Failure> {
        let unusable = |wrong: &str| Failure::new(Class::Retryable, Kind::Answer, wrong);
        let mut numbers = match numbers(output) {
            Ok(numbers) => numbers,
            Err(wrong) => return Ok(Err(unusable(&wrong))),
        };
        if numbers.len() != dimensions {
            let text = format!(
                "the model answered with vectors of {} dimensions, the index has {}; it is another model. Use the \
                 one the index was made with, or have everything embedded anew with --reembed",
                numbers.len(),
                dimensions
            );
            return Err(Failure::new(Class::Quota, Kind::Answer, text));
        }
        if !normalise(&mut numbers) {
            return Ok(Err(unusable("a vector without a direction: zero, or not finite")));
        }
        let key = VectorKey { model: self.model, text };
        Ok(Ok(KeptVector { key, vector: Quantised::new(&numbers) }))
    }

    /// The reply for every item of a call.
    fn replies(&self, items: &[Input], texts: Vec<Text>) -> Vec<ItemReply> {
        let unusable = Failure::new(Class::Final, Kind::Input, "the payload is not a chunk");
        let mut replies = vec![ItemReply::Failed { failure: unusable, shared: false }; items.len()];
        for text in texts {
            for item in text.items {
                replies[item] = match &text.outcome {
                    Some(Outcome::Vector(vector)) => ItemReply::Indexed(Effect::Keep(vector.clone()), None),
                    Some(Outcome::Nothing) => {
                        self.words_only.fetch_add(1, Ordering::Relaxed);
                        ItemReply::Output(without_vector(&items[item].payload))
                    }
                    Some(Outcome::Other(reply)) => reply.clone(),
                    None => continue,
                };
            }
        }
        replies
    }
}

#[async_trait]
impl Handler for IndexEmbed {
    async fn call(&self, request: Request) -> Answer {
        self.embed(&request).await
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        let Some(text) = input(payload) else { return 0 };
        let payload = serde_json::to_vec(&serde_json::json!({ "text": text })).unwrap_or_default();
        self.inner.tokens(&payload.into())
    }

    fn remembers(&self) -> bool {
        true
    }

    async fn recall(&self, payloads: &[Payload]) -> Vec<bool> {
        let key = |payload: &Payload| {
            let text = input(payload).map_or(ContentHash([0; 16]), |text| hash_of(&text));
            VectorKey { model: self.model, text }
        };
        // Without an answer the texts are embedded: that is dearer, not wrong.
        self.index.known(payloads.iter().map(key).collect()).await.unwrap_or_default()
    }

    fn deaths(&self) -> u64 {
        self.inner.deaths()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// The name of a text among those of a model.
pub(crate) fn hash_of(text: &str) -> ContentHash {
    ContentHash::of(&[text.as_bytes()])
}

/// What is embedded for a chunk.
fn input(payload: &Payload) -> Option<String> {
    serde_json::from_slice::<ChunkPayload<'_>>(payload).ok().map(|chunk| chunk.input())
}

/// A chunk that goes on without a vector.
fn without_vector(payload: &Payload) -> Option<Payload> {
    let chunk = serde_json::from_slice::<ChunkPayload<'_>>(payload).ok()?;
    let chunk = ChunkPayload { words_only: true, ..chunk };
    serde_json::to_vec(&chunk).ok().map(Payload::from)
}

/// The texts of a call, each once.
fn distinct(inputs: &[Option<String>]) -> Vec<Text> {
    let mut places: HashMap<ContentHash, usize> = HashMap::new();
    let mut texts: Vec<Text> = Vec::new();
    for (item, input) in inputs.iter().enumerate() {
        let Some(input) = input else { continue };
        let hash = hash_of(input);
        let at = *places.entry(hash).or_insert(texts.len());
        match texts.get_mut(at) {
            Some(text) => text.items.push(item),
            None => texts.push(Text { hash, items: vec![item], outcome: None }),
        }
    }
    texts
}

/// A vector as a handler answers with it.
fn numbers(output: &[u8]) -> Result<Vec<f32>, String> {
    if !output.trim_ascii_start().starts_with(b"\"") {
        return serde_json::from_slice(output).map_err(|_| "the output is no vector".to_owned());
    }
    let text: Cow<'_, str> = serde_json::from_slice(output).map_err(|error| format!("no vector: {error}"))?;
    let bytes = STANDARD.decode(text.as_bytes()).map_err(|error| format!("no vector: {error}"))?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("no vector: its bytes are not a multiple of four".to_owned());
    }
    Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn sum(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(b)),
        (a, b) => a.or(b),
    }
}
