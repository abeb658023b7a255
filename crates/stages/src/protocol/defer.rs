//! Answers that come later: what a handler is told so that it can give one, and what it says when it will.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::answer::{HandOver, MAX_TICKET};
use redrive_core::event::ItemReply;
use redrive_engine::handler::Input;
use serde_json::Value;
use serde_json::value::RawValue;

use super::push_string;

/// How a stage waits for answers that come later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defer {
    /// How long an answer is awaited.
    pub within: Duration,
    /// How often it is asked for; `None` when it comes by itself.
    pub every: Option<Duration>,
    /// Where the routes for answers are, as the handler reaches them.
    pub callback: Option<String>,
}

impl Defer {
    /// Writes down what an answer names, and where it goes.
    pub(super) fn push(&self, line: &mut Vec<u8>, item: &Input) {
        line.extend_from_slice(format!(",\"answer_token\":\"{}\"", item.token).as_bytes());
        if let Some(url) = self.answer_url(item) {
            line.extend_from_slice(b",\"answer_url\":");
            push_string(line, &url);
        }
    }

    /// Where the answer of an item goes, where that is known.
    pub(crate) fn answer_url(&self, item: &Input) -> Option<String> {
        let callback = self.callback.as_deref()?.trim_end_matches('/');
        Some(format!("{callback}/{}", item.token))
    }

    /// An item that somebody else has now, or still has.
    #[must_use]
    pub fn hand_over(&self, ticket: Option<Arc<str>>, after: Option<Duration>) -> ItemReply {
        let ask_in = self.every.map(|every| every.max(after.unwrap_or_default()));
        ItemReply::HandedOver(HandOver { within: self.within, ask_in, ticket, route: None })
    }

    /// What `deferred` says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(&self, said: &RawValue) -> Result<ItemReply, &'static str> {
        let said: Value = serde_json::from_str(said.get()).unwrap_or_default();
        let Value::Object(said) = said else { return Err("has \"deferred\" that is no object") };
        let ticket = match said.get("ticket") {
            None | Some(Value::Null) => None,
            Some(Value::String(ticket)) if (1..=MAX_TICKET).contains(&ticket.len()) => {
                Some(Arc::from(&**ticket))
            }
            Some(_) => return Err("has a ticket that is no text of 1 to 2000 bytes"),
        };
        let after = said.get("after_ms").and_then(Value::as_u64).map(Duration::from_millis);
        Ok(self.hand_over(ticket, after))
    }
}
