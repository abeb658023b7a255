//! The source of mail: the archives that are not in the index as they are now.
//!
//! As with files, an archive whose size and times are as they were is not read, and one whose content is published is not admitted. An archive that is gone
//! takes no message with it.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use redrive_core::id::ContentHash;
use redrive_core::index::CollectionNo;
use redrive_core::item::NewItem;
use redrive_core::time::Timestamp;
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_store::index::{Doc, Index, Seen, SeenAs, SeenStamp};
use serde::Serialize;
use tokio::runtime::Handle;

use super::open::{archive_path, maildir_files};
use super::{ARCHIVE, ArchivePayload, Form, FoundArchive, FoundArchives, MailPayload};

/// An archive written so shortly before it is read may be written once more with the same time.
const RACY_MS: i64 = 2_000;

/// Which archives, and what they are compared with.
pub struct ArchivesSpec {
    /// The archives.
    pub found: FoundArchives,
    /// The index.
    pub index: Arc<dyn Index>,
    /// The collection of mail in it.
    pub collection: CollectionNo,
    /// Mark of how messages are taken apart and embedded: archives that were read with another are read anew.
    pub mark: i64,
    /// The time.
    pub now: fn() -> Timestamp,
}

/// What was found, for a summary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ArchivesTally {
    /// Archives that were looked at.
    pub archives: u64,
    /// Those that are in the index as they are.
    pub unchanged: u64,
    /// Those that are new or have changed.
    pub changed: u64,
    /// Those that could not be read, and directories that could not be looked into, and why.
    pub unreadable: Vec<(String, String)>,
}

/// Archives, as items.
pub struct Archives {
    spec: ArchivesSpec,
    at: usize,
    runtime: Handle,
    peeked: Option<Piece>,
    /// How the archive of the last piece looked; noted once that is admitted.
    unnoted: Vec<Seen>,
    tally: Arc<Mutex<ArchivesTally>>,
}

impl Archives {
    /// Begins to look. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(spec: ArchivesSpec) -> Self {
        let unreadable = spec.found.passed_over.clone();
        let tally = Arc::new(Mutex::new(ArchivesTally { unreadable, ..ArchivesTally::default() }));
        let runtime = Handle::current();
        Self { spec, at: 0, runtime, peeked: None, unnoted: Vec::new(), tally }
    }

    /// Whether an archive is new or has changed. Blocks.
    ///
    /// # Errors
    /// When the store fails.
    pub fn has_news(&mut self) -> Result<bool, SourceError> {
        let piece = self.next_piece()?;
        let news = !piece.items.is_empty();
        self.peeked = Some(piece);
        Ok(news)
    }

    /// What was found so far.
    #[must_use]
    pub fn tally(&self) -> Arc<Mutex<ArchivesTally>> {
        self.tally.clone()
    }

    fn count(&self, change: impl FnOnce(&mut ArchivesTally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn look(&mut self, archive: &FoundArchive) -> Result<Option<NewItem>, SourceError> {
        let failed =
            |cause: String| SourceError { what: archive.path.clone(), cause: io::Error::other(cause) };
        let path: Arc<str> = format!("{ARCHIVE}{}", archive.path).into();
        let docs = self.runtime.block_on(self.spec.index.docs(self.spec.collection, vec![path.clone()]));
        let doc = docs.map_err(|error| failed(error.to_string()))?.pop().flatten();
        self.count(|tally| tally.archives += 1);
        let seen = match self.seen(archive, doc.as_ref()) {
            Ok(seen) => seen,
            Err(error) => {
                self.count(|tally| tally.unreadable.push((archive.path.clone(), error.to_string())));
                return Ok(None);
            }
        };
        if doc.as_ref().and_then(|doc| doc.seen) != Some(seen) {
            self.unnoted.push(Seen { path, kind: "archive".to_owned(), seen });
        }
        let is_published =
            doc.as_ref().is_some_and(|doc| doc.published == Some(seen.hash) && doc.mark == self.spec.mark);
        if is_published {
            self.count(|tally| tally.unchanged += 1);
            return Ok(None);
        }
        self.count(|tally| tally.changed += 1);
        let payload = ArchivePayload {
            path: archive.path.clone(),
            form: if archive.is_maildir { Form::Maildir } else { Form::Mbox },
            size: seen.size,
            hash: seen.hash,
            looks: doc.as_ref().map_or(0, |doc| doc.looks),
            replaces: doc.as_ref().map_or(0, |doc| doc.rev),
        };
        Ok(Some(NewItem::new(archive.path.clone(), MailPayload::Archive(payload).written(), 0)))
    }

    /// How an archive looks: as it did, or as its bytes say.
    fn seen(&self, archive: &FoundArchive, doc: Option<&Doc>) -> io::Result<SeenAs> {
        let path = archive_path(&archive.path);
        if archive.is_maildir {
            let hash = maildir_hash(&path)?;
            return Ok(SeenAs { size: 0, stamp: None, hash });
        }
        let file = File::open(path)?;
        let before = file.metadata()?;
        let known = doc.and_then(|doc| doc.seen);
        if let Some(known) = known
            && known.size == before.len()
            && known.stamp == Some(stamp(&before))
        {
            return Ok(known);
        }
        let hash = hash_of(&mut file.take(before.len()))?;
        let last = stamp(&before).modified_ms.max(stamp(&before).changed_ns / 1_000_000);
        let settled = last + RACY_MS < (self.spec.now)().0;
        Ok(SeenAs { size: before.len(), stamp: settled.then(|| stamp(&before)), hash })
    }

    fn note(&mut self) -> Result<(), SourceError> {
        let seen = std::mem::take(&mut self.unnoted);
        if seen.is_empty() {
            return Ok(());
        }
        let noted = self.runtime.block_on(self.spec.index.observe(self.spec.collection, seen));
        noted.map_err(|error| SourceError {
            what: "the index".to_owned(),
            cause: io::Error::other(error.to_string()),
        })
    }
}

impl Source for Archives {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        if let Some(piece) = self.peeked.take() {
            return Ok(piece);
        }
        loop {
            // What was listed before is admitted by now.
            self.note()?;
            let Some(archive) = self.spec.found.archives.get(self.at).cloned() else {
                return Ok(Piece { items: Vec::new(), position: String::new(), done: true });
            };
            self.at += 1;
            if let Some(item) = self.look(&archive)? {
                return Ok(Piece { items: vec![item], position: String::new(), done: false });
            }
        }
    }
}

/// The hash of what a reader has.
pub(super) fn hash_of(reader: &mut impl Read) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 128 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(short(&hasher.finalize())),
            Ok(n) => drop(hasher.update(&buffer[..n])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn short(hash: &blake3::Hash) -> ContentHash {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    ContentHash(bytes)
}

/// What a Maildir holds: the names of its messages, which never change their content, and their sizes.
pub(super) fn maildir_hash(dir: &Path) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    for file in maildir_files(dir)? {
        let size = fs::metadata(dir.join(archive_path(&file))).map(|metadata| metadata.len()).unwrap_or(0);
        hasher.update(super::open::unique(&file).as_bytes()).update(&[0]).update(&size.to_le_bytes());
    }
    Ok(short(&hasher.finalize()))
}

fn stamp(metadata: &Metadata) -> SeenStamp {
    SeenStamp {
        modified_ms: metadata.mtime() * 1_000 + metadata.mtime_nsec() / 1_000_000,
        changed_ns: metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec()),
        inode: metadata.ino(),
    }
}
