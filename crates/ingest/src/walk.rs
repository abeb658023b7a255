//! Names the files below a directory, in an order that does not change, and says what it left out and why.
//!
//! What an ignore rule or a habit excludes (`.gitignore`, `.ignore`, `.redriveignore`; hidden files; `.git`, `.redrive`,
//! `node_modules`, `__pycache__`, directories tagged as caches, Cargo's `target`) is not mentioned. Everything else is
//! either [`Found`] or [`Skipped`]. The user's global git configuration is not asked: two machines walk alike.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::kind::{Guess, Kind};
use crate::path::{RelPath, printable};

/// What to walk over.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Whether names that begin with a dot are walked. Default: no.
    pub hidden: bool,
    /// Whether symbolic links are followed; loops are noticed. Default: no.
    pub follow_symlinks: bool,
    /// Whether ignore rules count. Default: yes.
    pub ignore_rules: bool,
    /// How many bytes a file may have. Default: 8 MiB.
    pub max_bytes: u64,
    /// How many bytes a PDF or mailbox may have, which hold more than text. Default: 64 MiB.
    pub max_container_bytes: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            hidden: false,
            follow_symlinks: false,
            ignore_rules: true,
            max_bytes: 8 << 20,
            max_container_bytes: 64 << 20,
        }
    }
}

impl WalkOptions {
    /// How many bytes a file of this kind may have.
    #[must_use]
    pub fn limit(&self, kind: Option<Kind>) -> u64 {
        match kind {
            Some(Kind::Pdf | Kind::Email | Kind::Mbox) => self.max_container_bytes,
            _ => self.max_bytes,
        }
    }
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is below the root.
    pub rel: RelPath,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written, in UTC milliseconds.
    pub modified_ms: i64,
    /// What its name says it is; `None`: see [`Kind::sniff`].
    pub kind_guess: Option<Kind>,
}

/// A file or directory that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is below the root; `None` for the root itself.
    pub rel: Option<RelPath>,
    /// Why.
    pub why: SkipReason,
}

/// Why something was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// It is larger than files of its kind may be.
    #[error("{:.1} MB, more than the {:.1} MB that are read", *size as f64 / 1e6, *limit as f64 / 1e6)]
    TooLarge {
        /// How large it is.
        size: u64,
        /// How large it may be.
        limit: u64,
    },
    /// Its name says that it holds no text.
    #[error("not a text, by its name")]
    Binary,
    /// It is a symbolic link, and those are not followed.
    #[error("a symbolic link")]
    Symlink,
    /// Following a symbolic link leads back to a directory above it.
    #[error("a symbolic link to a directory above it")]
    Loop,
    /// It is a device, a pipe or a socket.
    #[error("not a regular file")]
    Special,
    /// The permission to look is missing. What is below is not known: nothing there may be taken for deleted.
    #[error("permission denied")]
    Denied,
    /// It was there a moment ago.
    #[error("it vanished")]
    Vanished,
    /// Something else went wrong.
    #[error("{0}")]
    Io(String),
}

impl From<&io::Error> for SkipReason {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::NotFound => Self::Vanished,
            _ => Self::Io(error.to_string()),
        }
    }
}

/// One step of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A file to read.
    Found(Found),
    /// Something left out.
    Skipped(Skipped),
}

/// A directory that cannot be walked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing of that name.
    #[error("there is no directory '{0}'")]
    Missing(String),
    /// It is a file.
    #[error("'{0}' is not a directory")]
    NotADirectory(String),
    /// It cannot be read.
    #[error("'{path}' cannot be read: {source}")]
    Unreadable {
        /// The directory.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// The files below a directory; see [`walk`].
pub struct Walk {
    root: PathBuf,
    options: WalkOptions,
    inner: ignore::Walk,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk")
            .field("root", &self.root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Walks over the files below `root`, directory by directory, names sorted by their bytes.
///
/// # Errors
///
/// [`Error`] when the root is missing, not a directory, or not readable. Later trouble is a [`Skipped`].
pub fn walk(root: &Path, options: &WalkOptions) -> Result<Walk, Error> {
    walk_towards(root, options, None)
}

/// Tells whether a walk would find this file now: it is there, and no rule leaves it out.
#[must_use]
pub fn is_listed(root: &Path, rel: &RelPath, options: &WalkOptions) -> bool {
    let Ok(mut walk) = walk_towards(root, options, Some(rel.clone())) else { return false };
    walk.any(|step| matches!(step, Step::Found(found) if found.rel == *rel))
}

/// Walks over all files, or over no more than leads to one.
fn walk_towards(root: &Path, options: &WalkOptions, only: Option<RelPath>) -> Result<Walk, Error> {
    let shown = || printable(root);
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(shown()),
        _ => Error::Unreadable { path: shown(), source },
    };
    if !fs::metadata(root).map_err(unreadable)?.is_dir() {
        return Err(Error::NotADirectory(shown()));
    }
    fs::read_dir(root).map_err(unreadable)?;
    let root = fs::canonicalize(root).map_err(unreadable)?;

    let rules = options.ignore_rules;
    let mut builder = ignore::WalkBuilder::new(&root);
    builder
        .hidden(!options.hidden)
        .follow_links(options.follow_symlinks)
        .ignore(rules)
        .git_ignore(rules)
        .git_exclude(rules)
        .parents(rules)
        .git_global(false)
        .require_git(false)
        .sort_by_file_name(|one, other| one.as_encoded_bytes().cmp(other.as_encoded_bytes()))
        .filter_entry({
            let only = only.map(|rel| root.join(rel.as_path()));
            move |entry| {
                let leads_there = only.as_ref().is_none_or(|only| only.starts_with(entry.path()));
                entry.depth() == 0 || (leads_there && !is_left_out(entry))
            }
        });
    if rules {
        builder.add_custom_ignore_filename(".redriveignore");
    }
    Ok(Walk { inner: builder.build(), root, options: options.clone() })
}

impl Walk {
    /// The root as it is walked: absolute, without symbolic links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn rel(&self, path: &Path) -> Option<RelPath> {
        path.strip_prefix(&self.root).ok().and_then(RelPath::new)
    }

    fn look(&self, entry: &ignore::DirEntry) -> Option<Step> {
        let rel = self.rel(entry.path())?;
        let skipped = |why| Some(Step::Skipped(Skipped { rel: Some(rel.clone()), why }));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return None;
        }
        if kind.is_symlink() {
            return skipped(SkipReason::Symlink);
        }
        if !kind.is_file() {
            return skipped(SkipReason::Special);
        }
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            Err(error) => return skipped(reason(&error)),
        };
        let kind_guess = match Kind::guess(rel.as_path()) {
            Guess::Is(kind) => Some(kind),
            Guess::Unknown => None,
            Guess::Binary => return skipped(SkipReason::Binary),
        };
        let (size, limit) = (metadata.len(), self.options.limit(kind_guess));
        if size > limit {
            return skipped(SkipReason::TooLarge { size, limit });
        }
        Some(Step::Found(Found { rel, size, modified_ms: modified_ms(&metadata), kind_guess }))
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            match self.inner.next()? {
                Ok(entry) => {
                    if let Some(step) = self.look(&entry) {
                        return Some(step);
                    }
                }
                Err(error) => {
                    let rel = path_of(&error).and_then(|path| self.rel(path));
                    return Some(Step::Skipped(Skipped { rel, why: reason(&error) }));
                }
            }
        }
    }
}

/// When a file was last written, in UTC milliseconds.
pub(crate) fn modified_ms(metadata: &fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

/// Directories that nobody means when they say "this directory".
fn is_left_out(entry: &ignore::DirEntry) -> bool {
    if !entry.file_type().is_some_and(|kind| kind.is_dir()) {
        return false;
    }
    let path = entry.path();
    match entry.file_name().as_encoded_bytes() {
        b".git" | b".hg" | b".svn" | b".jj" | b".redrive" | b"node_modules" | b"__pycache__" => true,
        b"target" => path.with_file_name("Cargo.toml").exists() || is_cache(path),
        _ => is_cache(path),
    }
}

/// Tells whether a directory carries the tag of bford.info/cachedir.
fn is_cache(directory: &Path) -> bool {
    let tag = directory.join("CACHEDIR.TAG");
    fs::symlink_metadata(&tag).is_ok_and(|metadata| metadata.is_file() && metadata.len() < 64 << 10)
        && fs::read(&tag).is_ok_and(|bytes| bytes.starts_with(b"Signature: 8a477f597d28d172789f06886806bc55"))
}

fn reason(error: &ignore::Error) -> SkipReason {
    match error {
        ignore::Error::WithPath { err, .. }
        | ignore::Error::WithDepth { err, .. }
        | ignore::Error::WithLineNumber { err, .. } => reason(err),
        ignore::Error::Loop { .. } => SkipReason::Loop,
        ignore::Error::Io(error) => SkipReason::from(error),
        other => SkipReason::Io(other.to_string()),
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
}

/// Whether a file is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// There is something of that name.
    Present,
    /// There is nothing of that name in a directory that could be read.
    Absent,
    /// Nobody can tell: the root is gone, or a directory on the way cannot be read.
    Unknown,
}

/// Tells whether a file that was once found below `root` is gone.
///
/// Only a look into a readable directory proves that. An unmounted disk, a missing root or a closed directory proves
/// nothing; an empty mount point looks like a directory without files, so a root without any file at all deserves
/// suspicion by the caller.
#[must_use]
pub fn presence(root: &Path, rel: &RelPath) -> Presence {
    let mut here = root.to_path_buf();
    for part in rel.as_path().components() {
        if fs::read_dir(&here).is_err() {
            return Presence::Unknown;
        }
        here.push(part);
        match fs::symlink_metadata(&here) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Presence::Absent,
            Err(_) => return Presence::Unknown,
        }
        // What was a directory is a file now: nothing is below it.
        if here != root.join(rel.as_path()) && fs::metadata(&here).is_ok_and(|metadata| !metadata.is_dir()) {
            return Presence::Absent;
        }
    }
    Presence::Present
}
