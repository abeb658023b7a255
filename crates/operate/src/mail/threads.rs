//! Threads with their summaries, and one of them with its messages.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_index::mail::{MESSAGE, MessageFacts, Summary, THREAD, ThreadFacts};
use redrive_mail::body::Attachment;
use redrive_mail::summary::own_text;
use redrive_store::index::{Collection, Doc};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Code, Error, Result};
use crate::index::no_mail;

/// Documents that are read at a time.
const PAGE: usize = 1_000;
/// Chunks of a message that are shown.
const CHUNKS: usize = 50;

/// Which threads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadsRequest {
    /// Only those with a message since then.
    pub since: Option<Timestamp>,
    /// Only those of a list whose name has this in it.
    pub list: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Threads, those with the newest message first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadList {
    /// The threads.
    pub threads: Vec<ThreadSummary>,
    /// How many there are in all.
    pub total: u64,
}

/// A thread with its summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// Its name.
    pub id: String,
    /// Its subject.
    pub subject: String,
    /// The list that it is on.
    pub list: Option<String>,
    /// The date of its first message.
    pub first_at: Option<String>,
    /// The date of its last message.
    pub last_at: Option<String>,
    /// How many messages it has.
    pub messages: usize,
    /// Who wrote.
    pub people: Vec<String>,
    /// What it is about.
    pub summary: Summary,
}

/// Which thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRequest {
    /// Its name, or the name of one of its messages.
    pub id: String,
}

/// A thread with its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadView {
    /// What is told of it in a list.
    #[serde(flatten)]
    pub thread: ThreadSummary,
    /// Its messages, in the order in which they are read.
    pub tree: Vec<ThreadMessage>,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadMessage {
    /// Its number, which citations name.
    pub number: usize,
    /// Its name.
    pub key: String,
    /// How many messages are above it.
    pub depth: u32,
    /// Who wrote it.
    pub from: String,
    /// The address of that one.
    pub address: String,
    /// Its subject.
    pub subject: String,
    /// When it was sent.
    pub date: Option<String>,
    /// What is attached.
    pub attachments: Vec<Attachment>,
    /// The archive that it is in.
    pub archive: String,
    /// What it says itself, without what it quotes.
    pub text: String,
}

/// Lists threads.
///
/// # Errors
/// When there is no mail, or the store fails.
pub async fn threads(floor: &Floor, request: &ThreadsRequest) -> Result<ThreadList> {
    floor.require_payloads()?;
    let collection = mail(floor).await?;
    let mut found = Vec::new();
    for_each_thread(floor, &collection, |id, facts| {
        let is_recent = request.since.is_none_or(|since| facts.last_ms.is_some_and(|last| last >= since.0));
        let wanted = request.list.as_ref().map(|list| list.to_lowercase());
        let is_there =
            wanted.is_none_or(|wanted| facts.list.as_ref().is_some_and(|list| list.contains(&wanted)));
        if is_recent && is_there {
            found.push((facts.last_ms, id, facts));
        }
    })
    .await?;
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = found.len() as u64;
    let threads = found.into_iter().take(request.limit).map(|(_, id, facts)| told(id, facts));
    Ok(ThreadList { threads: threads.collect(), total })
}

/// Shows a thread.
///
/// # Errors
/// When there is no such thread, or the store fails.
pub async fn thread(floor: &Floor, request: &ThreadRequest) -> Result<ThreadView> {
    floor.require_payloads()?;
    let collection = mail(floor).await?;
    let asked =
        request.id.trim().trim_start_matches(THREAD).trim_start_matches(MESSAGE).trim_matches(['<', '>']);
    let mut found = None;
    for_each_thread(floor, &collection, |id, facts| {
        if id == asked || facts.messages.iter().any(|place| place.key == asked) {
            found = Some((id, facts));
        }
    })
    .await?;
    let (id, facts) = found.ok_or_else(|| {
        Error::not_found(format!("there is no thread {asked}"))
            .code(Code::IndexNotFound)
            .hint("`redrive threads` lists them")
    })?;
    let mut tree = Vec::new();
    for (at, place) in facts.messages.iter().enumerate() {
        let path: Arc<str> = format!("{MESSAGE}{}", place.key).into();
        let Some(doc) = floor.index.docs(collection.no, vec![path]).await?.pop().flatten() else { continue };
        if let Some(message) = message(floor, &doc, at + 1, place.depth).await? {
            tree.push(message);
        }
    }
    Ok(ThreadView { thread: told(id, facts), tree })
}

async fn mail(floor: &Floor) -> Result<Collection> {
    let all = floor.index.collections().await?;
    all.into_iter().find(|one| one.spec.root == redrive_index::mail::ROOT).ok_or_else(no_mail)
}

async fn for_each_thread(
    floor: &Floor,
    collection: &Collection,
    mut each: impl FnMut(String, ThreadFacts),
) -> Result<()> {
    let mut after = 0;
    loop {
        let page = floor.index.docs_after(collection.no, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.no;
        for doc in page.iter().filter(|doc| doc.published.is_some()) {
            let facts = doc.facts.as_deref().and_then(|facts| serde_json::from_str(facts).ok());
            if let (Some(id), Some(facts)) = (doc.path.strip_prefix(THREAD), facts) {
                each(id.to_owned(), facts);
            }
        }
    }
}

async fn message(floor: &Floor, doc: &Doc, number: usize, depth: u32) -> Result<Option<ThreadMessage>> {
    let facts = doc.facts.as_deref().and_then(|facts| serde_json::from_str::<MessageFacts>(facts).ok());
    let Some(MessageFacts { head, attachments, archive }) = facts else { return Ok(None) };
    let key = doc.path.strip_prefix(MESSAGE).unwrap_or(&doc.path).to_owned();
    let chunks = floor.index.chunks_of(doc.no, 0, CHUNKS).await?;
    let own = chunks.into_iter().filter(|chunk| !chunk.key.starts_with("attached"));
    let text: Vec<String> = own.map(|chunk| chunk.text).collect();
    Ok(Some(ThreadMessage {
        number,
        key,
        depth,
        from: head.from,
        address: head.address,
        subject: head.subject,
        date: head.date_ms.map(date),
        attachments,
        archive,
        text: own_text(&text.join("\n")).trim().to_owned(),
    }))
}

fn told(id: String, facts: ThreadFacts) -> ThreadSummary {
    ThreadSummary {
        id,
        subject: facts.subject,
        list: facts.list,
        first_at: facts.first_ms.map(date),
        last_at: facts.last_ms.map(date),
        messages: facts.messages.len(),
        people: facts.people,
        summary: facts.summary,
    }
}

fn date(ms: i64) -> String {
    Timestamp(ms).to_string()
}
