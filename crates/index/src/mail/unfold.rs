//! The stage that makes the chunks of a message items of their own.

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::{NewItem, Payload};
use redrive_engine::handler::{Answer, Handler, Reply, Request};

use super::MailPayload;

/// Makes chunks items.
#[derive(Debug)]
pub struct UnfoldHandler;

#[async_trait]
impl Handler for UnfoldHandler {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|item| unfold(&item.payload)).collect()).into()
    }
}

fn unfold(payload: &Payload) -> ItemReply {
    let Ok(MailPayload::Message(message)) = MailPayload::read(payload) else {
        let failure = Failure::new(Class::Final, Kind::Input, "the payload is no message");
        return ItemReply::Failed { failure, shared: false };
    };
    let child = |chunk: super::payload::ReadChunk| {
        NewItem::new(chunk.key, Payload::from(chunk.payload.get().as_bytes().to_vec()), 0)
    };
    ItemReply::Children(message.chunks.into_iter().map(child).collect())
}
