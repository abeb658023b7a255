//! The stage that publishes archives, messages and threads, with what is known of them.

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::ContentHash;
use redrive_core::index::{CollectionNo, DocKey, Effect, Over, Publish, edition};
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use serde::Serialize;

use super::facts::{MessageFacts, Place, Summary, ThreadFacts};
use super::{ARCHIVE, ArchivePayload, MESSAGE, MailPayload, MessagePayload, THREAD, ThreadPayload};

/// People of a thread that are named.
const PEOPLE: usize = 50;

/// Who wrote a summary that came as an answer of nobody who is known.
const SERVICE: &str = "service";

/// Publishes archives, messages and threads.
#[derive(Debug)]
pub struct KeepHandler {
    collection: CollectionNo,
    mark: i64,
    /// Who writes the summaries that are not extracted.
    model: String,
}

impl KeepHandler {
    /// Publishes into this collection. `mark` tells how it was made; `model` who wrote the summaries, where a model did. Without one, what is not
    /// extracted was written by a service that somebody else runs.
    #[must_use]
    pub fn new(collection: CollectionNo, mark: i64, model: Option<String>) -> Self {
        Self { collection, mark, model: model.unwrap_or_else(|| SERVICE.to_owned()) }
    }

    fn keep(&self, payload: &Payload) -> Result<ItemReply, String> {
        let payload = MailPayload::read(payload)
            .map_err(|error| format!("the payload is not as it should be: {error}"))?;
        Ok(match payload {
            MailPayload::Archive(archive) => self.archive(&archive),
            MailPayload::Message(message) => self.message(*message),
            MailPayload::Thread(thread) => self.thread(&thread),
        })
    }

    fn publish(&self, path: String, version: ContentHash, over: Over, facts: Option<String>) -> Effect {
        Effect::Publish(Publish {
            doc: DocKey { collection: self.collection, path: path.into() },
            version,
            edition: edition(version, self.mark),
            over,
            mark: self.mark,
            facts: facts.map(Into::into),
        })
    }

    fn archive(&self, archive: &ArchivePayload) -> ItemReply {
        let path = format!("{ARCHIVE}{}", archive.path);
        ItemReply::Indexed(self.publish(path, archive.hash, Over::Rev(archive.replaces), None), None)
    }

    fn message(&self, message: MessagePayload) -> ItemReply {
        let path = format!("{MESSAGE}{}", message.key);
        // The text is in the index now; the item need not keep it as well.
        let left = MessagePayload { chunks: Vec::new(), ..message };
        let facts = MessageFacts {
            head: left.head.clone(),
            attachments: left.attachments.clone(),
            archive: left.archive.clone(),
        };
        let effect = self.publish(path, left.version, Over::Lesser, Some(written(&facts)));
        ItemReply::Indexed(effect, Some(MailPayload::Message(Box::new(left)).written()))
    }

    fn thread(&self, thread: &ThreadPayload) -> ItemReply {
        let path = format!("{THREAD}{}", thread.thread);
        if thread.gone {
            return ItemReply::Indexed(
                Effect::Forget(DocKey { collection: self.collection, path: path.into() }),
                None,
            );
        }
        let summary = match (&thread.answer, &thread.sentences) {
            (Some(answer), _) => Summary::by_model(&self.model, answer, thread.messages.len()),
            (None, sentences) => Summary::extractive(sentences.as_deref().unwrap_or_default()),
        };
        let dates = || thread.messages.iter().filter_map(|message| message.date_ms);
        let mut people: Vec<String> = Vec::new();
        for message in &thread.messages {
            if people.len() < PEOPLE && !message.from.is_empty() && !people.contains(&message.from) {
                people.push(message.from.clone());
            }
        }
        let facts = ThreadFacts {
            subject: thread.subject.clone(),
            list: thread.messages.iter().find_map(|message| message.list.clone()),
            first_ms: dates().min(),
            last_ms: dates().max(),
            people,
            messages: thread
                .messages
                .iter()
                .map(|one| Place { key: one.key.clone(), depth: one.depth })
                .collect(),
            summary,
        };
        let effect = self.publish(path, thread.version, Over::Rev(thread.replaces), Some(written(&facts)));
        let left = ThreadPayload { text: None, ..thread.clone() };
        ItemReply::Indexed(effect, Some(MailPayload::Thread(Box::new(left)).written()))
    }
}

fn written(facts: &impl Serialize) -> String {
    serde_json::to_string(facts).unwrap_or_default()
}

#[async_trait]
impl Handler for KeepHandler {
    async fn call(&self, request: Request) -> Answer {
        let replies = request.items.iter().map(|item| {
            self.keep(&item.payload).unwrap_or_else(|wrong| ItemReply::Failed {
                failure: Failure::new(Class::Final, Kind::Input, wrong),
                shared: false,
            })
        });
        Reply::Items(replies.collect()).into()
    }
}
