//! A call as it came in: which of the three things is asked for, and its items.

use std::borrow::Cow;

use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::plan::Plan;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Redrive's handler protocol, at any path.
    Handler,
    /// OpenAI's embeddings.
    Embeddings,
    /// OpenAI's chat completions.
    Chat,
}

impl Route {
    /// The route of a path.
    pub(crate) fn of(path: &str) -> Self {
        match path.trim_end_matches('/') {
            path if path.ends_with("/embeddings") => Self::Embeddings,
            path if path.ends_with("/chat/completions") => Self::Chat,
            _ => Self::Handler,
        }
    }
}

/// One item, or one text.
#[derive(Debug)]
pub(crate) struct Unit<'a> {
    /// The text whose tokens count and that may be poison.
    pub text: Cow<'a, str>,
    /// Its tokens.
    pub tokens: u64,
    /// What it is known by: the route, and stage and key, or the text.
    pub mark: u64,
    /// The id that an answer names, and the key that a report shows. Only of the handler protocol.
    pub item: Option<(Cow<'a, str>, Cow<'a, str>)>,
}

/// What is special about a route.
#[derive(Debug)]
pub(crate) enum Asked<'a> {
    /// Handler protocol.
    Handler { stage: Cow<'a, str> },
    /// The payload is the body, and so is the output.
    Bare,
    /// Embeddings.
    Embeddings { model: Cow<'a, str>, dimensions: Option<usize>, base64: bool },
    /// Chat completion.
    Chat { model: Cow<'a, str>, last: String, most: Option<u64> },
}

/// A call as it came in.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The path.
    pub path: &'a str,
    /// What is asked for.
    pub asked: Asked<'a>,
    /// Its items.
    pub units: Vec<Unit<'a>>,
    /// The tokens of all of them.
    pub tokens: u64,
}

#[derive(Deserialize)]
struct Protocol<'a> {
    #[serde(borrow, default)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    items: Vec<ProtocolItem<'a>>,
}

#[derive(Deserialize)]
struct ProtocolItem<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct EmbeddingsBody<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    input: Value,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

#[derive(Deserialize)]
struct ChatBody<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    messages: Vec<ChatLine>,
    #[serde(default)]
    stream: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct ChatLine {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Value,
}

/// Reads a call; an error says what is wrong with it.
pub(crate) fn read<'a>(plan: &Plan, path: &'a str, body: &'a Bytes) -> Result<Call<'a>, String> {
    let (asked, units) = match Route::of(path) {
        Route::Handler => handler(plan, body)?,
        Route::Embeddings => embeddings(plan, body)?,
        Route::Chat => chat(plan, body)?,
    };
    let tokens = units.iter().map(|unit| unit.tokens).sum();
    Ok(Call { path, asked, units, tokens })
}

type Read<'a> = Result<(Asked<'a>, Vec<Unit<'a>>), String>;

fn handler<'a>(plan: &Plan, body: &'a Bytes) -> Read<'a> {
    let Ok(protocol) = serde_json::from_slice::<Protocol<'_>>(body) else {
        // Whatever else is JSON is a payload without the protocol around it.
        let payload: &RawValue =
            serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        let text = payload.get();
        let unit = Unit {
            text: Cow::Borrowed(text),
            tokens: plan.tokens_of(text),
            mark: mark(&["bare", text]),
            item: None,
        };
        return Ok((Asked::Bare, vec![unit]));
    };
    let stage = protocol.stage;
    let units = protocol.items.into_iter().map(|item| {
        let text = item.payload.get();
        let known_by = if item.key.is_empty() { &item.id } else { &item.key };
        Unit {
            text: Cow::Borrowed(text),
            tokens: plan.tokens_of(text),
            mark: mark(&["item", &stage, known_by]),
            item: Some((item.id, item.key)),
        }
    });
    let units = units.collect();
    Ok((Asked::Handler { stage }, units))
}

fn embeddings<'a>(plan: &Plan, body: &'a Bytes) -> Read<'a> {
    let request: EmbeddingsBody<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let texts: Vec<String> = match request.input {
        Value::String(text) => vec![text],
        Value::Array(texts) => {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                _ => Err("`input` must be a string or an array of strings".to_owned()),
            };
            texts.into_iter().map(text).collect::<Result<_, _>>()?
        }
        _ => return Err("`input` must be a string or an array of strings".to_owned()),
    };
    if texts.is_empty() {
        return Err("`input` must not be empty".to_owned());
    }
    let base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err("`encoding_format` must be \"float\" or \"base64\"".to_owned()),
    };
    if request.dimensions.is_some_and(|n| n == 0 || n > 8_192) {
        return Err("`dimensions` must be from 1 to 8192".to_owned());
    }
    let unit = |text: String| Unit {
        tokens: plan.tokens_of(&text),
        mark: mark(&["embedding", &text]),
        text: Cow::Owned(text),
        item: None,
    };
    let units = texts.into_iter().map(unit).collect();
    Ok((Asked::Embeddings { model: request.model, dimensions: request.dimensions, base64 }, units))
}

fn chat<'a>(plan: &Plan, body: &'a Bytes) -> Read<'a> {
    let request: ChatBody<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if request.stream {
        return Err("`stream` is not rehearsed".to_owned());
    }
    let last = request.messages.iter().rev().find(|line| line.role == "user");
    let last = last.map(|line| plain(&line.content)).ok_or("`messages` has none of the user")?;
    // All of the conversation counts and is searched for poison; one call is one text.
    let whole: Vec<String> = request.messages.iter().map(|line| plain(&line.content)).collect();
    let whole = whole.join("\n");
    let unit = Unit {
        tokens: plan.tokens_of(&whole),
        mark: mark(&["chat", &whole]),
        text: Cow::Owned(whole),
        item: None,
    };
    let most = request.max_completion_tokens.or(request.max_tokens);
    Ok((Asked::Chat { model: request.model, last, most }, vec![unit]))
}

/// The text of a content, which is a string or a list of parts.
fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn mark(parts: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bits = [0; 8];
    bits.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(bits)
}
