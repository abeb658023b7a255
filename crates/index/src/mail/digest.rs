//! The stage that reads a thread: for its own sentences, or as a text for a model.

use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_mail::summary::{SENTENCES, Source, own_text, summarise};
use redrive_store::Index;

use super::{MailPayload, ThreadPayload};

/// Chunks of a message that are looked at.
const CHUNKS: usize = 20;
/// Messages of a thread that are read: the first and the last ones.
const MESSAGES: usize = 400;
/// Bytes of a thread that a model is given.
const FOR_A_MODEL: usize = 24 << 10;

/// Reads threads.
pub struct DigestHandler {
    index: Arc<dyn Index>,
    /// Whether a model is to be asked, instead of extracting sentences.
    for_a_model: bool,
}

impl DigestHandler {
    /// Reads what the index has of a thread's messages.
    #[must_use]
    pub fn new(index: Arc<dyn Index>, for_a_model: bool) -> Self {
        Self { index, for_a_model }
    }

    async fn digest(&self, payload: &Payload) -> ItemReply {
        let mut thread = match MailPayload::read(payload) {
            Ok(MailPayload::Thread(thread)) => *thread,
            _ => return failed(Class::Final, Kind::Input, "the payload is no thread".to_owned()),
        };
        if thread.gone {
            return ItemReply::Output(None);
        }
        let texts = match self.texts(&thread).await {
            Ok(texts) => texts,
            Err(error) => return failed(Class::Retryable, Kind::Database, error.to_string()),
        };
        if self.for_a_model {
            thread.text = Some(for_a_model(&thread, &texts));
        } else {
            let sources: Vec<Source<'_>> =
                texts.iter().map(|(at, text)| Source { number: at + 1, text }).collect();
            thread.sentences = Some(summarise(&thread.subject, &sources, SENTENCES));
        }
        ItemReply::Output(Some(MailPayload::Thread(Box::new(thread)).written()))
    }

    /// What messages say, with their places in the thread.
    async fn texts(&self, thread: &ThreadPayload) -> redrive_store::Result<Vec<(usize, String)>> {
        let count = thread.messages.len();
        let mut texts = Vec::new();
        for (at, message) in thread.messages.iter().enumerate() {
            if count > MESSAGES && (MESSAGES / 2..count - MESSAGES / 2).contains(&at) {
                continue;
            }
            let chunks = self.index.chunks_of(message.doc, 0, CHUNKS).await?;
            let own = chunks.into_iter().filter(|chunk| !chunk.key.starts_with("attached"));
            let text: Vec<String> = own.map(|chunk| chunk.text).collect();
            texts.push((at, text.join("\n")));
        }
        Ok(texts)
    }
}

/// The messages one after the other, each with its number, who wrote it and what it says itself; what is too much is cut off each alike.
fn for_a_model(thread: &ThreadPayload, texts: &[(usize, String)]) -> String {
    let share = (FOR_A_MODEL / texts.len().max(1)).max(200);
    let mut whole = format!("Subject: {}\n", thread.subject);
    for (at, text) in texts {
        let own = own_text(text);
        let short: String = own.trim().chars().take(share).collect();
        let _ = write!(whole, "\n[{}] {}:\n{short}\n", at + 1, thread.messages[*at].from);
    }
    whole
}

fn failed(class: Class, kind: Kind, text: String) -> ItemReply {
    ItemReply::Failed { failure: Failure::new(class, kind, text), shared: false }
}

#[async_trait]
impl Handler for DigestHandler {
    async fn call(&self, request: Request) -> Answer {
        let mut replies = Vec::with_capacity(request.items.len());
        for item in &request.items {
            replies.push(self.digest(&item.payload).await);
        }
        Reply::Items(replies).into()
    }
}
