//! The stages that put chunks into the index and complete documents. They do no work of their own: what they say is
//! written by the store, in the transaction that records that they said it.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::index::{
    Chunk, ChunkPlace, CollectionNo, DocKey, Effect, ModelNo, Over, Publish, VectorKey, edition,
};
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_ingest::payload::{ChunkPayload, FilePayload};
use redrive_store::Index;

use crate::embed::hash_of;

/// Puts chunks into the index.
pub struct UpsertHandler {
    index: Arc<dyn Index>,
    collection: CollectionNo,
    model: ModelNo,
    mark: i64,
}

impl UpsertHandler {
    /// Puts them into this collection, with the vectors of this model. `mark` tells how documents are taken apart.
    #[must_use]
    pub fn new(index: Arc<dyn Index>, collection: CollectionNo, model: ModelNo, mark: i64) -> Self {
        Self { index, collection, model, mark }
    }

    fn chunk(&self, key: &str, payload: &Payload) -> Result<Chunk, String> {
        let chunk: ChunkPayload<'_> = serde_json::from_slice(payload).map_err(not_understood)?;
        let text = hash_of(&chunk.input());
        Ok(Chunk {
            doc: DocKey { collection: self.collection, path: chunk.path.as_ref().into() },
            edition: edition(chunk.version, self.mark),
            key: key.into(),
            place: ChunkPlace {
                ordinal: chunk.ordinal,
                page: chunk.page,
                lines: chunk.lines.into(),
                bytes: chunk.bytes.into(),
            },
            vector: (!chunk.words_only).then_some(VectorKey { model: self.model, text }),
            context: chunk.context.into_owned(),
            text: chunk.text.into_owned(),
        })
    }
}

#[async_trait]
impl Handler for UpsertHandler {
    async fn call(&self, request: Request) -> Answer {
        let chunks: Vec<Result<Chunk, String>> =
            request.items.iter().map(|item| self.chunk(&item.key, &item.payload)).collect();
        let keys = chunks.iter().flatten().filter_map(|chunk| chunk.vector).collect();
        let known = match self.index.known(keys).await {
            Ok(known) => known,
            Err(error) => {
                return Reply::Whole(Failure::new(Class::Retryable, Kind::Database, error.to_string()))
                    .into();
            }
        };
        let mut known = known.into_iter();
        let replies = chunks.into_iter().map(|chunk| match chunk {
            Ok(chunk) if chunk.vector.is_none() || known.next() == Some(true) => put(chunk),
            Ok(_) => failed("its vector was forgotten since it was made: index the file again".to_owned()),
            Err(wrong) => failed(wrong),
        });
        Reply::Items(replies.collect()).into()
    }
}

fn put(chunk: Chunk) -> ItemReply {
    // The text is in the index now; the item need not keep it as well.
    let left = serde_json::json!({ "path": &*chunk.doc.path, "ordinal": chunk.place.ordinal });
    let left: Payload = left.to_string().into_bytes().into();
    ItemReply::Indexed(Effect::Put(chunk.into()), Some(left))
}

/// Completes documents: what they were before goes.
#[derive(Debug)]
pub struct PublishHandler {
    collection: CollectionNo,
    mark: i64,
}

impl PublishHandler {
    /// Completes documents of this collection. `mark` tells how they were taken apart and embedded.
    #[must_use]
    pub fn new(collection: CollectionNo, mark: i64) -> Self {
        Self { collection, mark }
    }

    fn publish(&self, payload: &Payload) -> Result<ItemReply, String> {
        let file: FilePayload = serde_json::from_slice(payload).map_err(not_understood)?;
        let doc = DocKey { collection: self.collection, path: file.path.to_string().into() };
        let effect = if file.gone {
            Effect::Forget(doc)
        } else {
            Effect::Publish(Publish {
                doc,
                version: file.hash,
                edition: edition(file.hash, self.mark),
                over: Over::Rev(file.replaces.cast_signed()),
                mark: self.mark,
                facts: None,
            })
        };
        Ok(ItemReply::Indexed(effect, None))
    }
}

#[async_trait]
impl Handler for PublishHandler {
    async fn call(&self, request: Request) -> Answer {
        let replies = request.items.iter().map(|item| self.publish(&item.payload).unwrap_or_else(failed));
        Reply::Items(replies.collect()).into()
    }
}

fn failed(wrong: String) -> ItemReply {
    ItemReply::Failed { failure: Failure::new(Class::Final, Kind::Input, wrong), shared: false }
}

fn not_understood(error: serde_json::Error) -> String {
    format!("the payload is not as it should be: {error}")
}
