//! A stage that does nothing.

use async_trait::async_trait;
use redrive_engine::handler::{Answer, Handler, Reply, Request};

use crate::protocol::Decoder;

/// Lets every item through as it is.
#[derive(Debug, Clone, Default)]
pub struct PassHandler {
    decoder: Decoder,
}

impl PassHandler {
    /// Lets items through with the verdict that stands at a JSON pointer in their payload.
    #[must_use]
    pub fn judging(verdict: Option<String>) -> Self {
        Self { decoder: Decoder { verdict, ..Decoder::default() } }
    }
}

#[async_trait]
impl Handler for PassHandler {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|item| self.decoder.passed_as_it_is(item)).collect()).into()
    }
}
