//! One result of an answer.

use std::time::Duration;

use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind, MAX_MESSAGE};
use redrive_core::item::NewItem;
use redrive_engine::handler::Input;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Decoder, failed, payload, place};

/// Reads a field that is there, `null` included: an output of `null` is an output.
pub(super) fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

/// A result, its fields still as they were written.
#[derive(Deserialize)]
pub(super) struct Entry<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    output: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    filtered: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    children: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    verdict: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    deferred: Option<&'a RawValue>,
}

/// A child as a result gives it.
#[derive(Deserialize)]
struct Child<'a> {
    key: String,
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
}

impl<'a> Entry<'a> {
    /// Reads a result, when it is an object that does not contradict itself.
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        object(raw)
    }

    /// Whether its error, where there is one, is as handlers are told to give it. In a call that is taken as it comes, for there is nobody to be told; whoever brings
    /// an answer can mend it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check_error(&self) -> Result<(), String> {
        let Some(raw) = self.error else { return Ok(()) };
        let fields = match serde_json::from_str(raw.get()).unwrap_or_default() {
            Value::Null | Value::String(_) => return Ok(()),
            Value::Object(fields) => fields,
            _ => return Err("its `error` is neither an object nor a text".to_owned()),
        };
        let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let known = |class: &Value| {
            class.as_str().and_then(Class::from_name).is_some_and(|class| class != Class::Crash)
        };
        if let Some(class) = given("class").filter(|class| !known(class)) {
            return Err(format!("its error is of class {class}, which is none"));
        }
        if given("message").is_some_and(|message| !message.is_string()) {
            return Err("its error has a `message` that is no text".to_owned());
        }
        if given("retry_after_ms").is_some_and(|wait| !wait.as_f64().is_some_and(|ms| ms >= 0.0)) {
            return Err("its error has a `retry_after_ms` that is no wait".to_owned());
        }
        Ok(())
    }

    /// The work it names.
    pub(super) fn id(&self) -> Option<String> {
        serde_json::from_str(self.id?.get()).ok()
    }
}

impl Decoder {
    /// What a result says about its item.
    pub(super) fn reply(&self, entry: &Entry<'_>, raw: &RawValue, item: &Input) -> ItemReply {
        let broken = |wrong: &str| failed(self.broken(wrong, raw.get().as_bytes()));
        let said = |field: Option<&'_ RawValue>| field.is_some_and(|raw| raw.get() != "null");
        let fields = [entry.output, entry.filtered, entry.children, entry.error, entry.deferred];
        match (fields.into_iter().filter(|field| said(*field)).count(), entry) {
            (0, Entry { output: Some(output), .. }) => self.passed_with(output, entry.verdict, item),
            (0, _) => broken("says nothing about this item"),
            (1, Entry { output: Some(output), .. }) if said(entry.output) => {
                self.passed_with(output, entry.verdict, item)
            }
            (1, _) if said(entry.verdict) && !said(entry.error) => {
                broken("has a verdict of an item that it gives no output of")
            }
            (1, Entry { filtered: Some(reason), .. }) if said(entry.filtered) => {
                match serde_json::from_str::<String>(reason.get()) {
                    Ok(reason) => ItemReply::Filtered(self.secrets.clean(reason.as_bytes(), MAX_MESSAGE)),
                    Err(_) => broken("has \"filtered\" without a reason"),
                }
            }
            (1, Entry { children: Some(children), .. }) if said(entry.children) => {
                match read_children(children) {
                    Ok(children) => ItemReply::Children(children),
                    Err(wrong) => broken(&wrong),
                }
            }
            (1, Entry { deferred: Some(deferred), .. }) if said(entry.deferred) => match &self.defer {
                Some(defer) => defer.read(deferred).unwrap_or_else(broken),
                None => broken("is deferred, and the pipeline does not say `defer` at this stage"),
            },
            (1, Entry { error: Some(error), .. }) => failed(self.named(error)),
            _ => broken("says more than one thing about this item"),
        }
    }

    /// The failure that the handler itself named.
    pub(super) fn named(&self, error: &RawValue) -> Failure {
        let value: Value = serde_json::from_str(error.get()).unwrap_or_default();
        let class = value.get("class").and_then(|class| class.as_str()).unwrap_or_default();
        let message = match value.get("message") {
            Some(Value::String(message)) => message.clone(),
            Some(other) => other.to_string(),
            None => error.get().to_owned(),
        };
        let hint = value.get("retry_after_ms").and_then(Value::as_f64).and_then(wait);
        // A handler cannot say of itself that it crashed: it is alive to answer.
        match Class::from_name(class).filter(|class| *class != Class::Crash) {
            Some(class) => self.failure(class, Kind::Handler, message).with_hint(hint),
            None if class.is_empty() => {
                self.failure(Class::Retryable, Kind::Unknown, message).with_hint(hint)
            }
            None => {
                let message = format!("unknown error class {class:?}: {message}");
                self.failure(Class::Retryable, Kind::Unknown, message).with_hint(hint)
            }
        }
    }
}

/// A wait in milliseconds; none when it is negative.
fn wait(millis: f64) -> Option<Duration> {
    (millis >= 0.0).then(|| Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(Duration::MAX))
}

fn read_children(raw: &RawValue) -> Result<Vec<NewItem>, String> {
    let list: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| "has \"children\" that are no list".to_owned())?;
    let mut children = Vec::with_capacity(list.len());
    for (at, raw) in list.into_iter().enumerate() {
        let number = at + 1;
        let child: Child<'_> = object(raw).ok_or_else(|| format!("has a child {number} without a key"))?;
        let content = child.payload.ok_or_else(|| format!("has a child {number} without a payload"))?;
        place::check(content).map_err(|wrong| format!("has an unusable child {number} ({wrong})"))?;
        children.push(NewItem::new(child.key, payload(content), at as u64));
    }
    Ok(children)
}

/// Reads an object; a derived reader alone would take a list of the fields' values as well.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if raw.get().starts_with('{') { serde_json::from_str(raw.get()).ok() } else { None }
}
