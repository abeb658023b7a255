//! The stage that names the messages of an archive.
//!
//! Messages that are in the index as they are, or in a version that stays before them, are left out, and so are those that could not be read before and have not changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive_core::decide::MAX_CHILDREN;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::index::CollectionNo;
use redrive_core::item::{NewItem, Payload};
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_ingest::worker::CHANGED;
use redrive_mail::head::Head;
use redrive_mail::mbox::{Mbox, version_of};
use redrive_store::Index;
use redrive_store::index::Doc;
use serde::Serialize;

use super::archives::{maildir_hash, short};
use super::open::{archive_path, maildir_files, unpacked};
use super::worker::LARGEST;
use super::{ArchivePayload, Form, MESSAGE, MailPayload, MessagePayload};

/// Messages that are looked up at a time.
const PAGE: usize = 1_000;

/// What was found in archives, for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ListTally {
    /// Messages that were looked at.
    pub messages: u64,
    /// Copies of others of the same archive.
    pub copies: u64,
    /// Those that were in the index already.
    pub known: u64,
    /// Those that could not be read before and have not changed.
    pub refused_before: u64,
}

/// Names the messages of archives.
pub struct ListHandler {
    index: Arc<dyn Index>,
    collection: CollectionNo,
    mark: i64,
    tally: Arc<Mutex<ListTally>>,
}

/// What an archive holds.
struct Listed {
    messages: Vec<MessagePayload>,
    copies: u64,
}

/// Why an archive was not listed.
enum Unlisted {
    Changed,
    Failed(Failure),
}

impl From<io::Error> for Unlisted {
    fn from(error: io::Error) -> Self {
        let class = match error.kind() {
            io::ErrorKind::NotFound => return Self::Changed,
            io::ErrorKind::PermissionDenied => Class::Final,
            _ => Class::Retryable,
        };
        Self::Failed(Failure::new(class, Kind::Input, format!("the archive cannot be read: {error}")))
    }
}

impl ListHandler {
    /// Compares with this collection. `mark` tells how messages are taken apart.
    #[must_use]
    pub fn new(index: Arc<dyn Index>, collection: CollectionNo, mark: i64) -> Self {
        Self { index, collection, mark, tally: Arc::default() }
    }

    /// Counts here what is found.
    #[must_use]
    pub fn counting(self, tally: Arc<Mutex<ListTally>>) -> Self {
        Self { tally, ..self }
    }

    async fn list(&self, payload: &Payload) -> ItemReply {
        let archive = match MailPayload::read(payload) {
            Ok(MailPayload::Archive(archive)) => archive,
            _ => return failed(Failure::new(Class::Final, Kind::Input, "the payload is no archive")),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let _guard = StopWhenDropped(stop.clone());
        let read = tokio::task::spawn_blocking(move || listed(&archive, &stop)).await;
        let listed = match read {
            Ok(Ok(listed)) => listed,
            Ok(Err(Unlisted::Changed)) => return ItemReply::Filtered(CHANGED.to_owned()),
            Ok(Err(Unlisted::Failed(failure))) => return failed(failure),
            Err(error) => {
                return failed(Failure::new(
                    Class::Retryable,
                    Kind::Unknown,
                    format!("reading it broke: {error}"),
                ));
            }
        };
        match self.new_ones(listed).await {
            Ok(children) if children.len() > MAX_CHILDREN => {
                let text = format!(
                    "{} new messages are more than the {MAX_CHILDREN} that an archive may bring at a time: split it",
                    children.len()
                );
                failed(Failure::new(Class::Final, Kind::Input, text))
            }
            Ok(children) => ItemReply::Children(children),
            Err(error) => failed(Failure::new(Class::Retryable, Kind::Database, error.to_string())),
        }
    }

    /// The messages that are not in the index.
    async fn new_ones(&self, listed: Listed) -> redrive_store::Result<Vec<NewItem>> {
        let mut tally = ListTally {
            messages: listed.messages.len() as u64 + listed.copies,
            copies: listed.copies,
            ..ListTally::default()
        };
        let mut children = Vec::new();
        for page in listed.messages.chunks(PAGE) {
            let paths = page.iter().map(|message| format!("{MESSAGE}{}", message.key).into()).collect();
            let docs = self.index.docs(self.collection, paths).await?;
            for (message, doc) in page.iter().zip(docs) {
                match doc.map_or(Standing::New, |doc| self.standing(message, &doc)) {
                    Standing::Known => tally.known += 1,
                    Standing::Refused => tally.refused_before += 1,
                    Standing::New => {
                        let payload = MailPayload::Message(Box::new(message.clone())).written();
                        children.push(NewItem::new(message.key.clone(), payload, 0));
                    }
                }
            }
        }
        let mut all = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        all.messages += tally.messages;
        all.copies += tally.copies;
        all.known += tally.known;
        all.refused_before += tally.refused_before;
        Ok(children)
    }

    fn standing(&self, message: &MessagePayload, doc: &Doc) -> Standing {
        if doc.refused.as_ref().is_some_and(|(version, _)| *version == message.version) {
            return Standing::Refused;
        }
        let stays = doc.mark == self.mark && doc.published.is_some_and(|version| version >= message.version);
        if stays { Standing::Known } else { Standing::New }
    }
}

enum Standing {
    New,
    Known,
    Refused,
}

struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Handler for ListHandler {
    async fn call(&self, request: Request) -> Answer {
        let mut replies = Vec::with_capacity(request.items.len());
        for item in &request.items {
            replies.push(self.list(&item.payload).await);
        }
        Reply::Items(replies).into()
    }
}

fn failed(failure: Failure) -> ItemReply {
    ItemReply::Failed { failure, shared: false }
}

/// Messages by key; of several, the one that stays.
#[derive(Default)]
struct ByKey {
    messages: BTreeMap<String, MessagePayload>,
    copies: u64,
}

impl ByKey {
    fn add(&mut self, message: MessagePayload) {
        match self.messages.get_mut(&message.key) {
            Some(there) => {
                self.copies += 1;
                if there.version < message.version {
                    *there = message;
                }
            }
            None => drop(self.messages.insert(message.key.clone(), message)),
        }
    }

    fn done(self) -> Listed {
        Listed { messages: self.messages.into_values().collect(), copies: self.copies }
    }
}

fn listed(archive: &ArchivePayload, stop: &AtomicBool) -> Result<Listed, Unlisted> {
    match archive.form {
        Form::Mbox => of_mbox(archive, stop),
        Form::Maildir => of_maildir(archive, stop),
    }
}

fn of_mbox(archive: &ArchivePayload, stop: &AtomicBool) -> Result<Listed, Unlisted> {
    let hasher = Arc::new(Mutex::new(blake3::Hasher::new()));
    // What was appended since it was listed is for the next look.
    let file = File::open(archive_path(&archive.path))?.take(archive.size);
    let reader = unpacked(Hashing { inner: file, hasher: hasher.clone() })?;
    let mut found = ByKey::default();
    let mut broken = None;
    let mut mbox = Mbox::new(reader);
    for entry in mbox.by_ref() {
        if stop.load(Ordering::Relaxed) {
            return Err(Unlisted::Changed);
        }
        match entry {
            Ok(entry) => {
                let head = Head::read(&entry.head);
                let (key, version) = (head.key(entry.version), entry.version);
                let broken = too_large(entry.length);
                found.add(message(archive, None, (entry.offset, entry.length), key, version, head, broken));
            }
            Err(error) => broken = Some(error),
        }
    }
    drop(mbox);
    let rest = Hashing { inner: io::empty(), hasher }.finished();
    match broken {
        // A part that cannot be unpacked is told as a message that cannot be read.
        Some(error) if is_damage(&error) => {
            let text = format!("the archive breaks off here: {error}");
            let key = format!("broken:{}", archive.path);
            found.add(message(archive, None, (0, 0), key, archive.hash, Head::default(), Some(text)));
            Ok(found.done())
        }
        Some(error) => Err(error.into()),
        None if rest != archive.hash => Err(Unlisted::Changed),
        None => Ok(found.done()),
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}

fn of_maildir(archive: &ArchivePayload, stop: &AtomicBool) -> Result<Listed, Unlisted> {
    let dir = archive_path(&archive.path);
    if maildir_hash(&dir)? != archive.hash {
        return Err(Unlisted::Changed);
    }
    let mut found = ByKey::default();
    for file in maildir_files(&dir)? {
        if stop.load(Ordering::Relaxed) {
            return Err(Unlisted::Changed);
        }
        let mut raw = Vec::new();
        match File::open(dir.join(archive_path(&file))) {
            Ok(open) => drop(open.take(LARGEST + 1).read_to_end(&mut raw)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unlisted::Changed),
            Err(error) => return Err(error.into()),
        }
        let (head, version) = (Head::read(head_of(&raw)), version_of(&raw));
        let length = raw.len() as u64;
        let key = head.key(version);
        found.add(message(archive, Some(file), (0, length), key, version, head, too_large(length)));
    }
    Ok(found.done())
}

/// The head of a whole message.
fn head_of(raw: &[u8]) -> &[u8] {
    let mut end = 0;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        if matches!(line, b"\n" | b"\r\n") {
            break;
        }
        end += line.len();
    }
    &raw[..end.min(64 << 10)]
}

fn too_large(length: u64) -> Option<String> {
    (length > LARGEST).then(|| format!("{length} bytes are more than the {LARGEST} that a message may have"))
}

fn message(
    archive: &ArchivePayload,
    file: Option<String>,
    (offset, length): (u64, u64),
    key: String,
    version: redrive_core::id::ContentHash,
    head: Head,
    broken: Option<String>,
) -> MessagePayload {
    let (attachments, chunks) = (Vec::new(), Vec::new());
    MessagePayload {
        archive: archive.path.clone(),
        file,
        offset,
        length,
        key,
        version,
        head,
        broken,
        attachments,
        chunks,
    }
}

/// Hashes what is read.
struct Hashing<R> {
    inner: R,
    hasher: Arc<Mutex<blake3::Hasher>>,
}

impl<R> Hashing<R> {
    fn finished(&self) -> redrive_core::id::ContentHash {
        short(&self.hasher.lock().unwrap_or_else(PoisonError::into_inner).finalize())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner).update(&buffer[..n]);
        Ok(n)
    }
}
