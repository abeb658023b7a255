//! One request and its answer.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::failure::Class;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::pointer::Found;
use super::{NO_WORDS, VectorFormat, WorkerLimits};
use crate::embedder::{EmbedError, Embedder};

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// What becomes of an item.
enum End {
    Output(Vec<f32>),
    Filtered(&'static str),
    Failed(Class, String),
}

/// An answer without results, which fails the call as a whole.
pub(super) fn refused(why: &str) -> Vec<u8> {
    let mut line = Vec::new();
    push(&mut line, &json!({ "error": why }));
    line.push(b'\n');
    line
}

/// Answers a request.
pub(super) fn answer(request: &[u8], embedder: &dyn Embedder, limits: &WorkerLimits) -> Vec<u8> {
    let request: Request<'_> = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(error) => return refused(&format!("the request cannot be read: {error}")),
    };
    let texts: Vec<Result<Cow<'_, str>, End>> = request.items.iter().map(|item| text(item, limits)).collect();
    let usable: Vec<&str> = texts.iter().filter_map(|text| text.as_deref().ok()).collect();
    let (vectors, tokens) = embedder.embed_counted(&usable);
    let mut vectors = vectors.into_iter();
    // A vector in base64, and a little around it.
    let mut line = Vec::with_capacity(request.items.len() * (embedder.dimensions() * 6 + 64) + 128);
    line.extend_from_slice(b"{\"results\":[");
    for (at, (item, text)) in request.items.iter().zip(texts).enumerate() {
        if at > 0 {
            line.push(b',');
        }
        let end = text.map_or_else(|end| end, |_| end(vectors.next()));
        push_result(&mut line, &item.id, &end, limits.format());
    }
    line.extend_from_slice(b"],\"usage\":");
    push(&mut line, &json!({ "prompt_tokens": tokens, "completion_tokens": 0, "usd": 0 }));
    line.extend_from_slice(b"}\n");
    line
}

/// The text of an item, or why it has none.
fn text<'a>(item: &Item<'a>, limits: &WorkerLimits) -> Result<Cow<'a, str>, End> {
    let at = limits.text();
    let text = match at.look(item.payload) {
        Found::Text(text) => text,
        Found::NotText => return Err(End::Failed(Class::Final, format!("{at} is not a text"))),
        Found::Nothing => return Err(End::Failed(Class::Final, format!("the payload has nothing at {at}"))),
    };
    if text.len() > limits.max_text() {
        let (long, most) = (text.len(), limits.max_text());
        let message = format!("the text at {at} has {long} bytes; {most} is the most");
        return Err(End::Failed(Class::Oversized, message));
    }
    Ok(text)
}

fn end(vector: Option<Result<Vec<f32>, EmbedError>>) -> End {
    match vector {
        Some(Ok(vector)) => End::Output(vector),
        Some(Err(EmbedError::Empty { .. })) => End::Filtered(NO_WORDS),
        Some(Err(error)) => End::Failed(error.class(), error.to_string()),
        None => End::Failed(Class::Retryable, "the model gave too few vectors".to_owned()),
    }
}

fn push_result(line: &mut Vec<u8>, id: &str, end: &End, format: VectorFormat) {
    line.extend_from_slice(b"{\"id\":");
    push(line, id);
    match (end, format) {
        (End::Output(vector), VectorFormat::Base64) => {
            line.extend_from_slice(b",\"output\":\"");
            push_base64(line, vector);
            line.push(b'"');
        }
        (End::Output(vector), VectorFormat::Numbers) => {
            line.extend_from_slice(b",\"output\":");
            push(line, vector);
        }
        (End::Filtered(reason), _) => {
            line.extend_from_slice(b",\"filtered\":");
            push(line, reason);
        }
        (End::Failed(class, message), _) => {
            line.extend_from_slice(b",\"error\":");
            push(line, &json!({ "class": class.name(), "message": message }));
        }
    }
    line.push(b'}');
}

fn push_base64(line: &mut Vec<u8>, vector: &[f32]) {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    let start = line.len();
    line.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The room is exactly what base64 with padding takes.
    let written = STANDARD.encode_slice(&bytes, &mut line[start..]).unwrap_or(0);
    line.truncate(start + written);
}

fn push(line: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Strings and finite numbers only, written to memory: nothing here can fail.
    let _ = serde_json::to_writer(line, value);
}
