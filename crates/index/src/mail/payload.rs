//! What travels through the pipelines of mail.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::id::ContentHash;
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Request};
use redrive_mail::body::Attachment;
use redrive_mail::head::Head;
use redrive_mail::summary::Sentence;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Form;

/// An archive, a message or a thread.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum MailPayload {
    /// An archive.
    Archive(ArchivePayload),
    /// A message.
    Message(Box<MessagePayload>),
    /// A thread.
    Thread(Box<ThreadPayload>),
}

/// An archive that was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePayload {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub form: Form,
    /// How many bytes of it were there.
    pub size: u64,
    /// Their hash.
    #[serde(with = "digits")]
    pub hash: ContentHash,
    /// How often its content had been seen to change.
    pub looks: i64,
    /// The change number of what it takes the place of.
    pub replaces: i64,
}

/// A message of an archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessagePayload {
    /// The archive that it is in.
    pub archive: String,
    /// Its file, in a Maildir.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
    /// The name it is kept by.
    pub key: String,
    /// Its content.
    #[serde(with = "digits")]
    pub version: ContentHash,
    /// Its head.
    pub head: Head,
    /// Why it cannot be read at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// What is attached to it, once it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Its chunks, between being read and being unfolded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<ReadChunk>,
}

/// A chunk of a message that was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadChunk {
    /// Its name within the message.
    pub key: String,
    /// Its payload.
    pub payload: Box<RawValue>,
}

/// A thread whose summary is not made as it is now, or that is no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPayload {
    /// Its name.
    pub thread: String,
    /// What it is made of.
    #[serde(with = "digits")]
    pub version: ContentHash,
    /// The change number of what it takes the place of.
    pub replaces: i64,
    /// Its subject.
    pub subject: String,
    /// Its messages, in their order.
    pub messages: Vec<ThreadMember>,
    /// Whether it is no thread any more: its messages belong to another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// What its messages say, for a model that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What a model said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Sentences of the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentences: Option<Vec<Sentence>>,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadMember {
    /// Its name.
    pub key: String,
    /// Its number in the index.
    pub doc: i64,
    /// Who wrote it.
    pub from: String,
    /// When, in UTC milliseconds.
    pub date_ms: Option<i64>,
    /// How many messages are above it.
    pub depth: u32,
    /// The list that it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
}

impl MailPayload {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        // Raw JSON within it does not survive serde's own way to read tagged values.
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum What {
            Archive,
            Message,
            Thread,
        }
        #[derive(Deserialize)]
        struct Tag {
            what: What,
        }
        Ok(match serde_json::from_slice::<Tag>(bytes)?.what {
            What::Archive => Self::Archive(serde_json::from_slice(bytes)?),
            What::Message => Self::Message(serde_json::from_slice(bytes)?),
            What::Thread => Self::Thread(serde_json::from_slice(bytes)?),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn written(&self) -> Payload {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Asks a child process to read messages, and knows how much work one is.
pub struct ReadHandler {
    inner: Arc<dyn Handler>,
}

impl ReadHandler {
    /// Reads through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Handler>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Handler for ReadHandler {
    async fn call(&self, request: Request) -> Answer {
        self.inner.call(request).await
    }

    /// A quarter of a message's size, as for any text.
    fn tokens(&self, payload: &Payload) -> u64 {
        #[derive(Deserialize)]
        struct Size {
            length: u64,
        }
        serde_json::from_slice::<Size>(payload).map_or(0, |size| size.length.div_ceil(4))
    }

    fn deaths(&self) -> u64 {
        self.inner.deaths()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Hashes as hexadecimal digits.
pub(super) mod digits {
    use redrive_core::id::ContentHash;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(hash: &ContentHash, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(hash)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ContentHash, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
