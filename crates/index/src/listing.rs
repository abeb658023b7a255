//! The files below a directory as items, for any stage.
//!
//! An item is a file by its path, its size and the hash of its content, with its text where that is asked for. A file that
//! cannot be read is an item too, refused with the reason.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::fingerprint::fingerprint;
use redrive_core::id::ContentHash;
use redrive_core::item::{LastFailure, NewItem};
use redrive_engine::source::{Piece, Source, SourceError, Standing};
use redrive_ingest::path::RelPath;
use redrive_ingest::read::read;
use redrive_ingest::walk::{self, Found, SkipReason, Skipped, Step, Walk, WalkOptions};
use serde_json::json;

/// Most files in one piece.
const PIECE: usize = 256;
/// A piece ends when it holds this many bytes.
const PIECE_BYTES: usize = 4 << 20;
/// Files for which a walk takes no longer than a glance may; where there are more, so many more glances go by between two walks.
const GLANCE: u64 = 2_000;

/// What to list.
#[derive(Debug, Clone)]
pub struct ListingSpec {
    /// The directory.
    pub root: PathBuf,
    /// Which files.
    pub options: WalkOptions,
    /// Whether an item has its file's text.
    pub text: bool,
}

/// The files below a directory, as items.
pub struct Listing {
    spec: ListingSpec,
    walk: Walk,
    /// What was left out, because a rule or a habit says so or it is none that is read.
    left_out: u64,
    count: u64,
    /// Fingerprint of how everything looked.
    looks: ContentHash,
    before: Option<ContentHash>,
    /// Glances since the last walk.
    glances: u64,
    /// How everything looked when it last looked otherwise than it was read.
    other: Option<ContentHash>,
    begun: bool,
}

impl Listing {
    /// Begins a walk.
    ///
    /// # Errors
    /// When the directory cannot be walked.
    pub fn open(spec: ListingSpec) -> Result<Self, walk::Error> {
        let walk = walk::walk(&spec.root, &spec.options)?;
        let looks = ContentHash::of(&[]);
        let (before, other) = (None, None);
        Ok(Self { spec, walk, left_out: 0, count: 0, looks, before, glances: 0, other, begun: false })
    }

    fn failed(&self, cause: impl std::fmt::Display) -> SourceError {
        let cause = std::io::Error::other(cause.to_string());
        SourceError { what: self.spec.root.display().to_string(), cause }
    }

    fn item(&mut self, file: &Found) -> NewItem {
        self.looks = looks(self.looks, &file.rel, file.size, file.stamp.changed_ns);
        self.read(&file.rel, self.spec.options.limit(file.kind_guess))
    }

    /// A file whose name says that it is no text: a stage may want it all the same.
    fn other(&mut self, rel: &RelPath) -> NewItem {
        let (size, changed) = seen(&self.spec.root.join(rel.as_path()));
        self.looks = looks(self.looks, rel, size, changed);
        self.read(rel, self.spec.options.max_bytes)
    }

    fn read(&mut self, rel: &RelPath, limit: u64) -> NewItem {
        self.count += 1;
        let path = rel.to_string();
        let content = match read(&self.spec.root, rel, limit, self.spec.options.follow_symlinks) {
            Ok(content) => content,
            Err(error) => return refused(&path, self.count, &format!("{path} cannot be read: {error}")),
        };
        let whole = self.spec.root.join(rel.as_path());
        let Some(whole) = whole.to_str() else {
            return refused(&path, self.count, &format!("the path of {path} is not UTF-8"));
        };
        let mut payload = json!({ "path": path, "file": whole, "size": content.bytes.len(), "hash": content.hash.to_string() });
        if self.spec.text {
            match String::from_utf8(content.bytes) {
                Ok(text) => payload["text"] = text.into(),
                Err(_) => return refused(&path, self.count, &format!("{path} is not UTF-8 text")),
            }
        }
        NewItem::new(path, payload.to_string().into_bytes(), self.count)
    }

    /// Whether a glance may walk: now and then, the rarer the more files there are, and to see a change a second time.
    fn is_time_to_walk(&mut self) -> bool {
        self.glances += 1;
        let walks = self.other.is_some() || self.glances > self.count / GLANCE;
        if walks {
            self.glances = 0;
        }
        walks
    }

    /// What a walk now would see, in a hash.
    fn looked(&self) -> Result<ContentHash, SourceError> {
        let mut now = ContentHash::of(&[]);
        for step in walk::walk(&self.spec.root, &self.spec.options).map_err(|error| self.failed(error))? {
            match step {
                Step::Found(file) => now = looks(now, &file.rel, file.size, file.stamp.changed_ns),
                Step::Skipped(Skipped { rel: Some(rel), why: SkipReason::Binary }) if !self.spec.text => {
                    let (size, changed) = seen(&self.spec.root.join(rel.as_path()));
                    now = looks(now, &rel, size, changed);
                }
                Step::Skipped(_) => {}
            }
        }
        Ok(now)
    }
}

fn looks(before: ContentHash, rel: &RelPath, size: u64, changed: i64) -> ContentHash {
    ContentHash::of(&[&before.0, rel.to_string().as_bytes(), &size.to_le_bytes(), &changed.to_le_bytes()])
}

/// Size and time of a file; none of both when it is gone.
fn seen(path: &Path) -> (u64, i64) {
    let told =
        std::fs::metadata(path).map(|file| (file.len(), file.ctime() * 1_000_000_000 + file.ctime_nsec()));
    told.unwrap_or_default()
}

fn refused(path: &str, origin: u64, why: &str) -> NewItem {
    let failure = Failure::new(Class::Final, Kind::Input, why);
    let payload = json!({ "refused": failure.message(), "path": path }).to_string().into_bytes();
    let mut item = NewItem::new(path, payload, origin);
    item.refused = Some(LastFailure {
        class: failure.class,
        kind: failure.kind,
        message: failure.message().into(),
        group: fingerprint(failure.class, "source", failure.message()).into(),
        shared: false,
    });
    item
}

impl Source for Listing {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        self.begun = true;
        let mut piece = Piece { items: Vec::new(), position: String::new(), done: false };
        let mut bytes = 0;
        while piece.items.len() < PIECE && bytes < PIECE_BYTES {
            match self.walk.next() {
                Some(Step::Found(file)) => {
                    let item = self.item(&file);
                    bytes += item.payload.len();
                    piece.items.push(item);
                }
                // What may hold files that were listed before is no proof that they are gone.
                Some(Step::Skipped(skipped)) => match (&skipped.why, &skipped.rel) {
                    (SkipReason::Denied | SkipReason::Io(_), rel) => {
                        let at = rel.as_ref().map_or_else(|| ".".to_owned(), ToString::to_string);
                        return Err(self.failed(format!("{at}: {}", skipped.why)));
                    }
                    (SkipReason::TooLarge { .. }, Some(rel)) => {
                        self.count += 1;
                        let path = rel.to_string();
                        piece.items.push(refused(&path, self.count, &format!("{path} has {}", skipped.why)));
                    }
                    (SkipReason::Binary, Some(rel)) if !self.spec.text => {
                        let item = self.other(rel);
                        bytes += item.payload.len();
                        piece.items.push(item);
                    }
                    _ => self.left_out += 1,
                },
                None => {
                    piece.done = true;
                    self.before = Some(self.looks);
                    break;
                }
            }
        }
        Ok(piece)
    }

    fn has_changed(&mut self, thorough: bool) -> Result<bool, SourceError> {
        let Some(before) = self.before else { return Ok(false) };
        if !thorough && !self.is_time_to_walk() {
            return Ok(false);
        }
        let now = Some(self.looked()?).filter(|now| *now != before);
        // Somebody may still be writing: at a glance, a change counts once it looks the same twice.
        let settled = thorough || now == self.other;
        self.other = now;
        Ok(now.is_some() && settled && self.rewind()?)
    }

    fn rewind(&mut self) -> Result<bool, SourceError> {
        self.walk = walk::walk(&self.spec.root, &self.spec.options).map_err(|error| self.failed(error))?;
        (self.count, self.left_out, self.looks, self.before) = (0, 0, ContentHash::of(&[]), None);
        (self.glances, self.other) = (0, None);
        self.begun = false;
        Ok(true)
    }

    fn standing(&self) -> Standing {
        // A walk that was begun goes on in this process only.
        if self.begun { Standing::GoesOn } else { Standing::Anew }
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        self.before.is_some() && self.count == 0
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}
