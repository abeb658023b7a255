//! The source of an index: the files below a directory that are not in it as they are now.
//!
//! A file whose size, times and number in its file system are as they were is not read. One that was read and has the content that is published is
//! not admitted. A document whose file is positively not there any more, or is left out by an undisturbed walk, is
//! admitted as gone.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redrive_core::id::ContentHash;
use redrive_core::index::CollectionNo;
use redrive_core::item::{NewItem, Payload};
use redrive_core::time::Timestamp;
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_ingest::kind::Kind;
use redrive_ingest::path::RelPath;
use redrive_ingest::payload::FilePayload;
use redrive_ingest::read::{self, read};
use redrive_ingest::walk::{
    self, Found, Presence, SkipReason, Skipped, Stamp, Step, Walk, WalkOptions, is_listed, presence,
};
use redrive_store::index::{Doc, Index, Seen, SeenAs, SeenStamp};
use serde::Serialize;
use tokio::runtime::Handle;

/// Most files looked at for one piece.
const PIECE: usize = 256;
/// A file written so shortly before it is read may be written once more with the same time.
const RACY_MS: i64 = 2_000;
/// Most examples of what was left out for one reason.
const EXAMPLES: u64 = 5;

/// What to walk over, and what it is compared with.
pub struct FilesSpec {
    /// The directory.
    pub root: PathBuf,
    /// Which files.
    pub options: WalkOptions,
    /// The index.
    pub index: Arc<dyn Index>,
    /// The collection in it.
    pub collection: CollectionNo,
    /// Mark of how files are taken apart and embedded: what has another is done anew.
    pub mark: i64,
    /// Tries files again, though they have not changed, that could not be indexed before, and these. `None`: none.
    pub again: Option<HashSet<String>>,
    /// The time.
    pub now: fn() -> Timestamp,
}

/// What a walk saw, for a summary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WalkTally {
    /// Files that were looked at.
    pub files: u64,
    /// Files that are in the index as they are.
    pub unchanged: u64,
    /// Files that are to be indexed.
    pub changed: u64,
    /// Some of those that could not be indexed before, with the reason.
    pub refused: Vec<(String, String)>,
    /// Documents whose file is gone or left out now.
    pub gone: u64,
    /// Files that could not be indexed before and have not changed.
    pub refused_before: u64,
    /// Documents that are kept though their files are not there, because nothing at all is: is the disk mounted?
    pub kept_back: u64,
    /// What was left out, by reason ([`SkipReason::name`]); a directory is one, whatever is in it.
    pub skipped: BTreeMap<String, u64>,
    /// Some of what was left out though nobody said so, with the reason.
    pub examples: Vec<(String, String)>,
    /// Whether the walk reached the end.
    pub done: bool,
}

/// The files below a directory, as items.
pub struct Files {
    spec: FilesSpec,
    walk: Option<Walk>,
    runtime: Handle,
    met: HashSet<i64>,
    disturbed: bool,
    after: i64,
    peeked: Option<Piece>,
    /// How files looked that the last piece was made of; noted once that is admitted.
    unnoted: Vec<Seen>,
    tally: Arc<Mutex<WalkTally>>,
}

impl Files {
    /// Begins a walk. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the directory cannot be walked.
    pub fn open(spec: FilesSpec) -> Result<Self, walk::Error> {
        let walk = walk::walk(&spec.root, &spec.options)?;
        Ok(Self {
            spec,
            walk: Some(walk),
            runtime: Handle::current(),
            met: HashSet::new(),
            disturbed: false,
            after: 0,
            peeked: None,
            unnoted: Vec::new(),
            tally: Arc::default(),
        })
    }

    /// Whether there is anything to be indexed or removed. Reads as far as that takes; blocks.
    ///
    /// # Errors
    /// As [`Source::next_piece`].
    pub fn has_news(&mut self) -> Result<bool, SourceError> {
        let piece = self.next_piece()?;
        let news = !piece.items.is_empty();
        self.peeked = Some(piece);
        Ok(news)
    }

    /// What the walk has seen so far.
    #[must_use]
    pub fn tally(&self) -> Arc<Mutex<WalkTally>> {
        self.tally.clone()
    }

    fn count(&self, change: impl FnOnce(&mut WalkTally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn failed(&self, cause: impl std::fmt::Display) -> SourceError {
        SourceError {
            what: self.spec.root.display().to_string(),
            cause: std::io::Error::other(cause.to_string()),
        }
    }

    /// Looks at the next files.
    fn look(&mut self) -> Result<Piece, SourceError> {
        let mut found = Vec::new();
        if let Some(walk) = &mut self.walk {
            let steps: Vec<Step> = walk.by_ref().take(PIECE).collect();
            if steps.len() < PIECE {
                self.walk = None;
            }
            for step in steps {
                match step {
                    Step::Found(file) => found.push(file),
                    Step::Skipped(skipped) => self.skip(&skipped),
                }
            }
        }
        let paths: Vec<Arc<str>> = found.iter().map(|file| Arc::from(file.rel.to_string())).collect();
        let docs = self.runtime.block_on(self.spec.index.docs(self.spec.collection, paths.clone()));
        let docs = docs.map_err(|error| self.failed(error))?;
        let (mut items, mut seen) = (Vec::new(), Vec::new());
        for ((file, path), doc) in found.iter().zip(&paths).zip(docs) {
            self.met.insert(mark_of(path));
            self.count(|tally| tally.files += 1);
            let Some(hash) = self.hash(file, path, doc.as_ref(), &mut seen) else { continue };
            items.extend(self.item(file, hash, doc.as_ref()));
        }
        self.unnoted = seen;
        Ok(Piece { items, position: String::new(), done: false })
    }

    /// Notes how the files of the piece before looked. It is admitted by now: noted earlier, a crash in between would
    /// leave files that changed looking as if nothing had happened.
    fn note(&mut self) -> Result<(), SourceError> {
        let seen = std::mem::take(&mut self.unnoted);
        if seen.is_empty() {
            return Ok(());
        }
        let noted = self.runtime.block_on(self.spec.index.observe(self.spec.collection, seen));
        noted.map_err(|error| self.failed(error))
    }

    /// The hash of a file's content: known when it looks as it did, read otherwise.
    fn hash(
        &mut self,
        file: &Found,
        path: &Arc<str>,
        doc: Option<&Doc>,
        seen: &mut Vec<Seen>,
    ) -> Option<ContentHash> {
        if let Some(known) = doc.and_then(|doc| doc.seen)
            && known.size == file.size
            && known.stamp == Some(seen_stamp(file.stamp))
        {
            return Some(known.hash);
        }
        let limit = self.spec.options.limit(file.kind_guess);
        match read(&self.spec.root, &file.rel, limit, self.spec.options.follow_symlinks) {
            Ok(content) => {
                let kind = file.kind_guess.unwrap_or_else(|| Kind::sniff(&content.bytes));
                let stamp = content.stamp;
                let last = stamp.modified_ms.max(stamp.changed_ns / 1_000_000);
                let settled = last + RACY_MS < (self.spec.now)().0;
                let looked = SeenAs {
                    size: content.bytes.len() as u64,
                    stamp: settled.then_some(seen_stamp(stamp)),
                    hash: content.hash,
                };
                seen.push(Seen { path: path.clone(), kind: indexed(kind), seen: looked });
                Some(content.hash)
            }
            Err(error) => {
                let why = match error {
                    read::Error::Vanished => SkipReason::Vanished,
                    read::Error::Denied => SkipReason::Denied,
                    read::Error::NotRegular => SkipReason::Special,
                    read::Error::TooLarge { limit } => SkipReason::TooLarge { size: limit + 1, limit },
                    error @ (read::Error::Changed | read::Error::Io(_)) => SkipReason::Io(error.to_string()),
                };
                self.skip(&Skipped { rel: Some(file.rel.clone()), why });
                None
            }
        }
    }

    /// The item for a file, unless it is in the index as it is or known not to get there.
    fn item(&self, file: &Found, hash: ContentHash, doc: Option<&Doc>) -> Option<NewItem> {
        let path = &file.rel;
        let again = self.spec.again.as_ref();
        // What was seen with other content meanwhile may have a version of that under way, which has to give way.
        let is_published = doc.is_some_and(|doc| {
            let seen_so = doc.seen.is_none_or(|seen| seen.hash == hash);
            doc.published == Some(hash) && doc.mark == self.spec.mark && seen_so
        }) && again.is_none_or(|paths| !paths.contains(&path.to_string()));
        if is_published {
            self.count(|tally| tally.unchanged += 1);
            return None;
        }
        let refused = doc.and_then(|doc| doc.refused.as_ref()).filter(|(version, _)| *version == hash);
        if let Some((_, why)) = refused.filter(|_| again.is_none()) {
            self.count(|tally| {
                tally.refused_before += 1;
                if tally.refused_before <= EXAMPLES {
                    tally.refused.push((path.to_string(), why.clone()));
                }
            });
            return None;
        }
        self.count(|tally| tally.changed += 1);
        let replaces = doc.map_or(0, |doc| doc.rev.cast_unsigned());
        let looks = doc.map_or(0, |doc| doc.looks.cast_unsigned());
        let (path, size) = (path.clone(), file.size);
        Some(new_item(&FilePayload { path, hash, size, looks, replaces, gone: false, left_out: false }))
    }

    fn skip(&mut self, skipped: &Skipped) {
        // What could not be looked at may hold files that were indexed: nothing there is taken for gone.
        self.disturbed |=
            matches!(skipped.why, SkipReason::Denied | SkipReason::Io(_) | SkipReason::Vanished);
        let path = skipped.rel.as_ref().map_or_else(|| ".".to_owned(), RelPath::to_string);
        self.count(|tally| {
            let so_many = tally.skipped.entry(skipped.why.name().to_owned()).or_default();
            *so_many += 1;
            // Some of each reason: what is met first must not keep the others from being named.
            if *so_many <= EXAMPLES && !skipped.why.is_expected() {
                tally.examples.push((path, skipped.why.to_string()));
            }
        });
    }

    /// Looks for documents whose files were not met.
    fn look_for_gone(&mut self) -> Result<Piece, SourceError> {
        let docs = self.spec.index.docs_after(self.spec.collection, self.after, PIECE);
        let docs = self.runtime.block_on(docs).map_err(|error| self.failed(error))?;
        let Some(last) = docs.last() else {
            self.count(|tally| tally.done = true);
            return Ok(Piece { items: Vec::new(), position: String::new(), done: true });
        };
        self.after = last.no;
        let mut items = Vec::new();
        for doc in docs {
            let is_there = doc.published.is_some() || doc.seen.is_some();
            if !is_there || self.met.contains(&mark_of(&doc.path)) {
                continue;
            }
            let Ok(rel) = doc.path.parse::<RelPath>() else { continue };
            let left_out = match presence(&self.spec.root, &rel) {
                // A directory without a single file may be one that is not mounted.
                Presence::Absent if self.met.is_empty() => {
                    self.count(|tally| tally.kept_back += 1);
                    continue;
                }
                Presence::Absent => false,
                // What the walk would find now came while it went on; the next one has it.
                Presence::Present
                    if !self.disturbed && !is_listed(&self.spec.root, &rel, &self.spec.options) =>
                {
                    true
                }
                Presence::Present | Presence::Unknown => continue,
            };
            self.count(|tally| tally.gone += 1);
            let known = doc.published.or(doc.seen.map(|seen| seen.hash));
            let hash = known.unwrap_or(ContentHash([0; 16]));
            let (looks, replaces) = (doc.looks.cast_unsigned(), doc.rev.cast_unsigned());
            items.push(new_item(&FilePayload {
                path: rel,
                hash,
                size: 0,
                looks,
                replaces,
                gone: true,
                left_out,
            }));
        }
        Ok(Piece { items, position: String::new(), done: false })
    }
}

/// A kind as the index names it: a language has its bare name.
pub(crate) fn indexed(kind: Kind) -> String {
    match kind {
        Kind::Code(language) => language.name().to_owned(),
        other => other.to_string(),
    }
}

impl Source for Files {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        if let Some(piece) = self.peeked.take() {
            return Ok(piece);
        }
        // A stretch without anything new is no piece worth a transaction.
        loop {
            self.note()?;
            let piece = if self.walk.is_some() { self.look()? } else { self.look_for_gone()? };
            if piece.done || !piece.items.is_empty() {
                return Ok(piece);
            }
        }
    }
}

/// A file as an item. Its origin is always the same, so that a newer version takes the place of one that waits.
fn new_item(file: &FilePayload) -> NewItem {
    let payload = serde_json::to_vec(file).unwrap_or_default();
    NewItem::new(file.path.to_string(), Payload::from(payload), 0)
}

fn seen_stamp(Stamp { modified_ms, changed_ns, inode }: Stamp) -> SeenStamp {
    SeenStamp { modified_ms, changed_ns, inode }
}

fn mark_of(path: &str) -> i64 {
    ContentHash::of(&[path.as_bytes()]).short()
}

/// A directory's name for the store: absolute, without links.
///
/// # Errors
/// A sentence that names the directory.
pub fn canonical_root(dir: &Path) -> Result<(PathBuf, String), String> {
    let shown = dir.display();
    let root = std::fs::canonicalize(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no directory '{shown}'"),
        std::io::ErrorKind::PermissionDenied => format!("'{shown}' cannot be read: permission denied"),
        _ => format!("'{shown}' cannot be read: {error}"),
    })?;
    if !root.is_dir() {
        return Err(format!("'{shown}' is not a directory"));
    }
    let name = root.to_str().ok_or_else(|| format!("the name of '{shown}' is not UTF-8"))?.to_owned();
    Ok((root, name))
}
