//! The source of summaries: the threads that are not in the index as they are now.
//!
//! Threads are made of everything that is in the index, whenever that came: a message that comes late, or a parent that comes after its answers, changes the threads that it
//! touches and no others.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use redrive_core::id::ContentHash;
use redrive_core::index::CollectionNo;
use redrive_core::item::NewItem;
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_mail::thread::{Link, Thread, threads};
use redrive_store::index::{Doc, Index};
use serde::Serialize;
use tokio::runtime::Handle;

use super::payload::ThreadMember;
use super::{MESSAGE, MailPayload, MessageFacts, THREAD, ThreadPayload};

/// Documents that are read at a time.
const PAGE: usize = 1_000;
/// Threads of a piece.
const PIECE: usize = 256;

/// Which mail, and how its summaries are made.
pub struct ThreadsSpec {
    /// The index.
    pub index: Arc<dyn Index>,
    /// The collection of mail in it.
    pub collection: CollectionNo,
    /// Mark of how summaries are made: those that were made otherwise are made anew.
    pub mark: i64,
}

/// What was found, for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThreadsTally {
    /// Messages in the index.
    pub messages: u64,
    /// Threads that they make.
    pub threads: u64,
    /// Those whose summary is made of what they are.
    pub unchanged: u64,
    /// Those that are new or have grown.
    pub changed: u64,
    /// Those that are part of others now.
    pub gone: u64,
}

/// Threads, as items.
pub struct Threads {
    spec: ThreadsSpec,
    runtime: Handle,
    /// What is to be admitted; `None` before the index was read.
    left: Option<Vec<NewItem>>,
    peeked: Option<Piece>,
    tally: Arc<Mutex<ThreadsTally>>,
}

/// A message as the index knows it.
struct Known {
    doc: i64,
    version: ContentHash,
    key: String,
    facts: MessageFacts,
}

impl Threads {
    /// Begins to look. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(spec: ThreadsSpec) -> Self {
        Self { spec, runtime: Handle::current(), left: None, peeked: None, tally: Arc::default() }
    }

    /// Whether a thread is new or has changed. Blocks.
    ///
    /// # Errors
    /// When the store fails.
    pub fn has_news(&mut self) -> Result<bool, SourceError> {
        let piece = self.next_piece()?;
        let news = !piece.items.is_empty();
        self.peeked = Some(piece);
        Ok(news)
    }

    /// What was found.
    #[must_use]
    pub fn tally(&self) -> Arc<Mutex<ThreadsTally>> {
        self.tally.clone()
    }

    fn look(&self) -> Result<Vec<NewItem>, SourceError> {
        let (mut messages, mut kept) = (Vec::new(), BTreeMap::new());
        let mut after = 0;
        loop {
            let page = self.runtime.block_on(self.spec.index.docs_after(self.spec.collection, after, PAGE));
            let page = page.map_err(|error| SourceError {
                what: "the index".to_owned(),
                cause: io::Error::other(error.to_string()),
            })?;
            let Some(last) = page.last() else { break };
            after = last.no;
            for doc in page {
                if let Some(name) = doc.path.strip_prefix(THREAD) {
                    kept.insert(name.to_owned(), doc);
                } else if let Some(message) = known(&doc) {
                    messages.push(message);
                }
            }
        }
        Ok(self.compare(&messages, &kept))
    }

    fn compare(&self, messages: &[Known], kept: &BTreeMap<String, Doc>) -> Vec<NewItem> {
        let links: Vec<Link> = messages
            .iter()
            .map(|message| Link {
                key: message.key.clone(),
                references: message.facts.head.references.clone(),
                subject: message.facts.head.subject.clone(),
                date_ms: message.facts.head.date_ms,
            })
            .collect();
        let found = threads(&links);
        let mut tally = ThreadsTally {
            messages: messages.len() as u64,
            threads: found.len() as u64,
            ..ThreadsTally::default()
        };
        let mut items = Vec::new();
        let mut names = HashSet::new();
        for thread in &found {
            let name = name_of(thread);
            let version = version_of(thread, messages);
            let doc = kept.get(&name);
            names.insert(name.clone());
            if doc.is_some_and(|doc| doc.published == Some(version) && doc.mark == self.spec.mark) {
                tally.unchanged += 1;
                continue;
            }
            tally.changed += 1;
            items.push(item(thread, name, version, doc, messages));
        }
        for (name, doc) in kept.iter().filter(|(name, doc)| doc.published.is_some() && !names.contains(*name))
        {
            tally.gone += 1;
            items.push(gone(name, doc));
        }
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = tally;
        items
    }
}

fn known(doc: &Doc) -> Option<Known> {
    let key = doc.path.strip_prefix(MESSAGE)?.to_owned();
    let (version, facts) = (doc.published?, doc.facts.as_ref()?);
    Some(Known { doc: doc.no, version, key, facts: serde_json::from_str(facts).ok()? })
}

/// A thread is known by its first message, which need not be there.
fn name_of(thread: &Thread) -> String {
    let hash = ContentHash::of(&[thread.root.as_bytes()]).to_string();
    format!("t{}", &hash[..16])
}

/// Everything that its summary is made of.
fn version_of(thread: &Thread, messages: &[Known]) -> ContentHash {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for member in &thread.messages {
        let message = &messages[member.at];
        parts.push(message.key.as_bytes().to_vec());
        parts.push([&message.version.0[..], &member.depth.to_le_bytes()].concat());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    ContentHash::of(&parts)
}

fn item(
    thread: &Thread,
    name: String,
    version: ContentHash,
    doc: Option<&Doc>,
    messages: &[Known],
) -> NewItem {
    let members = thread.messages.iter().map(|member| {
        let message = &messages[member.at];
        let head = &message.facts.head;
        ThreadMember {
            key: message.key.clone(),
            doc: message.doc,
            from: head.from.clone(),
            date_ms: head.date_ms,
            depth: member.depth,
            list: head.list.clone(),
        }
    });
    let subject = thread.messages.first().map(|member| messages[member.at].facts.head.subject.clone());
    let payload = ThreadPayload {
        thread: name.clone(),
        version,
        replaces: doc.map_or(0, |doc| doc.rev),
        subject: subject.unwrap_or_default(),
        messages: members.collect(),
        gone: false,
        text: None,
        answer: None,
        sentences: None,
    };
    NewItem::new(name, MailPayload::Thread(Box::new(payload)).written(), 0)
}

fn gone(name: &str, doc: &Doc) -> NewItem {
    let payload = ThreadPayload {
        thread: name.to_owned(),
        version: doc.published.unwrap_or(ContentHash([0; 16])),
        replaces: doc.rev,
        subject: String::new(),
        messages: Vec::new(),
        gone: true,
        text: None,
        answer: None,
        sentences: None,
    };
    NewItem::new(name, MailPayload::Thread(Box::new(payload)).written(), 0)
}

impl Source for Threads {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        if let Some(piece) = self.peeked.take() {
            return Ok(piece);
        }
        let mut left = match self.left.take() {
            Some(left) => left,
            None => self.look()?,
        };
        let rest = left.split_off(left.len().min(PIECE));
        let done = rest.is_empty() && left.is_empty();
        self.left = Some(rest);
        Ok(Piece { items: left, position: String::new(), done })
    }
}
