//! A thread that is no more has nothing to be asked about.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Reply, Request, RunMemory};

use super::MailPayload;

/// Asks another handler about threads, but not about those that are gone.
pub struct AskHandler {
    inner: Arc<dyn Handler>,
}

impl AskHandler {
    /// Asks `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Handler>) -> Self {
        Self { inner }
    }
}

fn is_gone(payload: &Payload) -> bool {
    matches!(MailPayload::read(payload), Ok(MailPayload::Thread(thread)) if thread.gone)
}

#[async_trait]
impl Handler for AskHandler {
    async fn call(&self, request: Request) -> Answer {
        if request.items.iter().all(|item| is_gone(&item.payload)) {
            return Reply::Items(vec![ItemReply::Output(None); request.items.len()]).into();
        }
        self.inner.call(request).await
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        self.inner.tokens(payload)
    }

    fn remember(&self, memory: RunMemory) {
        self.inner.remember(memory);
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
