//! A stage that does nothing.

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_engine::handler::{Answer, Handler, Reply, Request};

/// Lets every item through as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassHandler;

#[async_trait]
impl Handler for PassHandler {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|_| ItemReply::Output(None)).collect()).into()
    }
}
