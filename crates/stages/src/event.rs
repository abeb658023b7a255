//! A stage that only hands over: each item becomes an event, and whoever hears it answers.
//!
//! The event is a fact of the item's change, so it is in the store before anybody can hear it, and is passed on by the relay
//! from there. Nothing is called here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::answer::HandOver;
use redrive_core::event::ItemReply;
use redrive_engine::handler::{Answer, Handler, Reply, Request};

/// Hands items over under the name of an event.
pub struct EventHandler {
    event: Arc<str>,
    within: Duration,
}

impl EventHandler {
    /// Hands over under this name; an answer is awaited so long.
    #[must_use]
    pub fn new(event: &str, within: Duration) -> Self {
        Self { event: event.into(), within }
    }
}

#[async_trait]
impl Handler for EventHandler {
    async fn call(&self, request: Request) -> Answer {
        let over =
            HandOver { within: self.within, ask_in: None, ticket: None, route: Some(self.event.clone()) };
        Reply::Items(request.items.iter().map(|_| ItemReply::HandedOver(over.clone())).collect()).into()
    }
}
