//! The stage that takes files apart: small ones together in a call, large ones by themselves.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Request};
use redrive_ingest::payload::FilePayload;

/// Asks a child process to parse, and knows how much work a file is.
pub struct ParseHandler {
    inner: Arc<dyn Handler>,
}

impl ParseHandler {
    /// Most of what [`Handler::tokens`] counts in one call: about a megabyte of files.
    pub const BATCH_TOKENS: u64 = 250_000;

    /// Parses through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Handler>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Handler for ParseHandler {
    async fn call(&self, request: Request) -> Answer {
        self.inner.call(request).await
    }

    /// A quarter of a file's size, as for any text.
    fn tokens(&self, payload: &Payload) -> u64 {
        serde_json::from_slice::<FilePayload>(payload).map_or(0, |file| file.size.div_ceil(4))
    }

    fn deaths(&self) -> u64 {
        self.inner.deaths()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
