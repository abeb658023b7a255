//! The handler protocol: what is sent, and how an answer is read.
//!
//! Reading is lenient in form (any order, unknown fields, `null` for "not this") and strict in meaning: a result
//! counts only when it names an item of the request and says exactly one thing about it. What can be told apart is
//! judged item by item; an answer in which nothing can be told apart fails the call as a whole.

mod defer;
mod look;
mod place;
mod result;
mod verdict;

use std::collections::HashMap;

use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind, MAX_MESSAGE};
use redrive_core::item::Payload;
use redrive_core::usage::Usage;
use redrive_engine::handler::{Input, Reply, Request};
use serde::Deserialize;
use serde_json::value::RawValue;

pub use defer::Defer;
pub(crate) use look::look_up;
pub use place::place_output;

use crate::secrets::Secrets;
use crate::usage;
use result::Entry;

/// Longest part of an answer that is repeated in a message.
const EXCERPT: usize = 300;

/// Writes a request on one line, without its line feed. Payloads are inserted as they are.
///
/// The `id` a handler gets names the work, not the item: it changes with the stage and the content, so that an item that
/// was edited is not taken for a repetition. `item` is the id that operators know.
#[must_use]
pub fn encode(request: &Request) -> Vec<u8> {
    encode_with(request, None)
}

/// The same, with what each item needs to be answered later.
#[must_use]
pub fn encode_with(request: &Request, defer: Option<&Defer>) -> Vec<u8> {
    let payloads: usize = request.items.iter().map(|item| item.payload.len() + item.key.len() + 144).sum();
    let mut line = Vec::with_capacity(payloads + 64);
    line.extend_from_slice(b"{\"stage\":");
    push_string(&mut line, &request.stage);
    line.extend_from_slice(b",\"items\":[");
    for (place, item) in request.items.iter().enumerate() {
        if place > 0 {
            line.push(b',');
        }
        line.extend_from_slice(b"{\"id\":");
        push_string(&mut line, &item.idempotency_key);
        line.extend_from_slice(format!(",\"item\":\"{}\",\"key\":", item.id).as_bytes());
        push_string(&mut line, &item.key);
        line.extend_from_slice(format!(",\"attempt\":{}", item.attempt).as_bytes());
        if let Some(defer) = defer {
            defer.push(&mut line, item);
        }
        if let Some(traceparent) = &item.traceparent {
            line.extend_from_slice(b",\"traceparent\":");
            push_string(&mut line, traceparent);
        }
        line.extend_from_slice(b",\"payload\":");
        // Inside a JSON string a line feed is escaped, so a bare one is only space between tokens.
        line.extend(item.payload.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        line.push(b'}');
    }
    line.extend_from_slice(b"]}");
    line
}

fn push_string(line: &mut Vec<u8>, text: &str) {
    line.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

/// Reads an answer to these items, with the output in place of the payload.
#[must_use]
pub fn decode(bytes: &[u8], items: &[Input]) -> Reply {
    Decoder::default().read(bytes, items).reply
}

/// Reads answers.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// What must not be seen in messages.
    pub secrets: Secrets,
    /// Where in the payload the output is put: a JSON pointer. `None`: in place of the payload.
    pub output: Option<String>,
    /// Where in the output the verdict stands: a JSON pointer. `None`: nowhere.
    pub verdict: Option<String>,
    /// How answers that come later are waited for; `None`: none does.
    pub defer: Option<Defer>,
}

/// An answer that was read.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// What it says.
    pub reply: Reply,
    /// Whether it can only be the answer to this request. A partner that is out of step must not be asked again.
    pub in_step: bool,
    /// What the call consumed, where the answer says so.
    pub usage: Option<Usage>,
}

impl Decoder {
    /// Reads an answer to these items.
    #[must_use]
    pub fn read(&self, bytes: &[u8], items: &[Input]) -> Decoded {
        let (results, usage) = match object::<Envelope<'_>>(bytes) {
            Ok(envelope) => (envelope.results(), envelope.usage.and_then(usage::read)),
            Err(wrong) => (Err(wrong), None),
        };
        let (reply, in_step) = match results {
            Ok(results) => self.assign(&results, items),
            Err(wrong) => (Reply::Whole(self.broken(&wrong, bytes)), false),
        };
        Decoded { reply, in_step, usage }
    }

    /// Reads an answer that is nothing but the output of one item.
    #[must_use]
    pub fn read_bare(&self, bytes: &[u8], item: &Input) -> Reply {
        let text = match text(bytes) {
            Ok(text) => text,
            Err(wrong) => return Reply::Whole(self.broken(&wrong, bytes)),
        };
        match serde_json::from_str::<&RawValue>(text) {
            Ok(output) => Reply::Items(vec![self.passed(output, item)]),
            Err(error) => Reply::Whole(self.broken(&format!("is not JSON ({error})"), bytes)),
        }
    }

    /// A failure that says what is wrong with the answer, and shows the beginning of it.
    #[must_use]
    pub fn broken(&self, wrong: &str, bytes: &[u8]) -> Failure {
        let shown = if compression(bytes).is_some() { &[] } else { bytes };
        let excerpt = self.secrets.clean(shown.trim_ascii(), EXCERPT);
        let colon = if excerpt.is_empty() { "" } else { ": " };
        self.failure(Class::Retryable, Kind::Answer, format!("the answer {wrong}{colon}{excerpt}"))
    }

    /// A failure with this text, without secrets: whatever a service or a child has a part in gets into a failure here.
    #[must_use]
    pub fn failure(&self, class: Class, kind: Kind, message: impl AsRef<[u8]>) -> Failure {
        Failure::new(class, kind, self.secrets.clean(message.as_ref(), MAX_MESSAGE))
    }

    /// Reads results of some of these items: a reply for each that has one.
    ///
    /// # Errors
    /// When one of them is of no item among these.
    pub fn read_some(
        &self,
        results: &[Box<RawValue>],
        items: &[Input],
    ) -> Result<Vec<Option<ItemReply>>, String> {
        let results: Vec<&RawValue> = results.iter().map(AsRef::as_ref).collect();
        let Sorted { said, strays } = sort_out(&results, items);
        if let Some(first) = strays.first() {
            let excerpt = self.secrets.clean(first.get().as_bytes(), EXCERPT);
            return Err(format!("{} of the results are of no item of the batch: {excerpt}", strays.len()));
        }
        let replies = said.into_iter().zip(items).map(|(entries, item)| match entries.is_empty() {
            true => None,
            false => Some(self.said_of(&entries, item, &[])),
        });
        Ok(replies.collect())
    }

    /// Reads the result of one item that comes by itself, and may name the item or not.
    ///
    /// # Errors
    /// What is wrong with it, where it is no result.
    pub fn read_result(&self, result: &RawValue, item: &Input) -> Result<ItemReply, String> {
        let entry = Entry::read(result).ok_or("it is no object, or has a field twice")?;
        if entry.id().is_some_and(|id| id != *item.idempotency_key) {
            return Err("its `id` is of other work".to_owned());
        }
        match self.reply(&entry, result, item) {
            ItemReply::Failed { failure, .. } if failure.kind == Kind::Answer => {
                Err(failure.message().to_owned())
            }
            reply => Ok(reply),
        }
    }

    /// Reads a result that somebody brings who can be told what is wrong with it, so that an error has to be one as well.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_answer(&self, result: &RawValue, item: &Input) -> Result<ItemReply, String> {
        Entry::read(result).map_or(Ok(()), |entry| entry.check_error())?;
        self.read_result(result, item)
    }

    /// The failure that an `error` names.
    #[must_use]
    pub fn read_error(&self, error: &RawValue) -> Failure {
        self.named(error)
    }

    /// Gives each item what was said of it, and tells whether the answer is to this request only.
    fn assign(&self, results: &[&RawValue], items: &[Input]) -> (Reply, bool) {
        let Sorted { said, strays } = sort_out(results, items);
        if let Some(first) = strays.first() {
            // What else is in it may be a content, and the log has none.
            let id = Entry::read(first).and_then(|entry| entry.id());
            let first = id.map(|id| self.secrets.clean(id.as_bytes(), EXCERPT));
            tracing::warn!(strays = strays.len(), first, "the answer has results for no item of the request");
        }
        let in_step = strays.is_empty() && said.iter().all(|entries| entries.len() < 2);
        let replies = said.iter().zip(items).map(|(entries, item)| self.said_of(entries, item, &strays));
        (Reply::Items(replies.collect()), in_step)
    }

    /// What the results that name an item come to.
    fn said_of(&self, entries: &[(Entry<'_>, &RawValue)], item: &Input, strays: &[&RawValue]) -> ItemReply {
        match entries {
            [] => failed(self.left_out(strays)),
            [(entry, raw)] => self.reply(entry, raw, item),
            [_, (_, second), ..] => failed(self.broken("has this item twice", second.get().as_bytes())),
        }
    }

    /// The reply to an item that an answer leaves out.
    #[must_use]
    pub fn nothing_said(&self) -> ItemReply {
        failed(self.left_out(&[]))
    }

    fn left_out(&self, strays: &[&RawValue]) -> Failure {
        let Some(first) = strays.first() else {
            return Failure::new(Class::Retryable, Kind::Answer, "left out of the answer");
        };
        let excerpt = self.secrets.clean(first.get().as_bytes(), EXCERPT);
        let count = strays.len();
        let text = format!("left out of the answer, which has {count} for no item of the request: {excerpt}");
        self.failure(Class::Retryable, Kind::Answer, text)
    }

    /// An item passed with this output.
    pub(crate) fn passed(&self, output: &RawValue, item: &Input) -> ItemReply {
        self.passed_with(output, None, item)
    }

    /// Puts an output where it belongs.
    fn placed(&self, output: &RawValue, item: &Input) -> ItemReply {
        if let Err(wrong) = place::check(output) {
            return failed(
                self.broken(&format!("has an unusable output ({wrong})"), output.get().as_bytes()),
            );
        }
        match place_output(&item.payload, self.output.as_deref(), output) {
            Ok(payload) => ItemReply::Output(Some(payload)),
            Err(wrong) => failed(self.failure(Class::Final, Kind::Input, wrong)),
        }
    }
}

/// Results by the item they are of, and those that are of none.
struct Sorted<'a> {
    said: Vec<Vec<(Entry<'a>, &'a RawValue)>>,
    strays: Vec<&'a RawValue>,
}

fn sort_out<'a>(results: &[&'a RawValue], items: &[Input]) -> Sorted<'a> {
    let places: HashMap<&str, usize> =
        items.iter().enumerate().map(|(at, item)| (&*item.idempotency_key, at)).collect();
    let mut sorted = Sorted { said: items.iter().map(|_| Vec::new()).collect(), strays: Vec::new() };
    for raw in results {
        let entry = Entry::read(raw);
        match entry.and_then(|entry| Some((*places.get(&*entry.id()?)?, entry))) {
            Some((at, entry)) => sorted.said[at].push((entry, *raw)),
            None => sorted.strays.push(*raw),
        }
    }
    sorted
}

/// An item failed by its own fault.
pub(crate) fn failed(failure: Failure) -> ItemReply {
    ItemReply::Failed { failure, shared: false }
}

fn payload(raw: &RawValue) -> Payload {
    raw.get().as_bytes().into()
}

/// The part of an answer that is looked at.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "result::present")]
    results: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "result::present")]
    usage: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    fn results(&self) -> Result<Vec<&'a RawValue>, String> {
        let results = self.results.ok_or("has no \"results\"")?;
        serde_json::from_str(results.get()).map_err(|_| "has \"results\" that are no list".to_owned())
    }
}

/// How an answer is compressed, by its first bytes.
pub(crate) fn compression(bytes: &[u8]) -> Option<&'static str> {
    const MARKS: [(&[u8], &str); 5] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0x78, 0x9c], "deflate"),
        (&[0x78, 0x01], "deflate"),
        (&[0x78, 0xda], "deflate"),
    ];
    MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)).map(|(_, name)| *name)
}

/// What is said of an answer that is compressed.
pub(crate) fn compressed(how: &str) -> String {
    format!(
        "is compressed ({how}), which nobody asked for; switch that off in the service, or in the proxy before it"
    )
}

/// The text of an answer that can be JSON.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, String> {
    if let Some(how) = compression(bytes) {
        return Err(compressed(how));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("is not UTF-8 (byte {})", error.valid_up_to()))?
        .trim_start_matches('\u{feff}')
        .trim();
    match text.as_bytes().first() {
        None => Err("is empty".to_owned()),
        Some(b'<') => Err("is HTML or XML, not JSON".to_owned()),
        Some(_) => Ok(text),
    }
}

/// Reads an answer that is a JSON object.
pub(crate) fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    let text = text(bytes)?;
    if !text.starts_with('{') {
        return Err("is not a JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("is not JSON ({error})"))
}

#[cfg(test)]
mod tests;
