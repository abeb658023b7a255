//! Names the files below a directory, in an order that does not change, and says what it left out and why.
//!
//! Everything in a directory is either walked into, [`Found`] or [`Skipped`]. A directory that is left out is one thing, with
//! all that may be in it: nobody looked. The user's global git configuration is not asked: two machines walk alike.

mod left_out;

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::kind::{Guess, Kind};
use crate::path::{RelPath, printable};
use left_out::{Habit, LeftOut, Passed, habit};

/// What to walk over.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Whether names that begin with a dot are walked. Default: no.
    pub hidden: bool,
    /// Whether symbolic links are followed; loops are noticed. Default: no.
    pub follow_symlinks: bool,
    /// Whether ignore rules count, and directories are left out that something made and can make again: `node_modules`,
    /// `__pycache__`, Cargo's `target`, those tagged as caches. Default: yes.
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
    /// How it looks to whoever does not read it.
    pub stamp: Stamp,
    /// What its name says it is; `None`: see [`Kind::sniff`].
    pub kind_guess: Option<Kind>,
}

/// What the system notes of a file beside its size. Content that was replaced under the same size and time of writing has
/// another number or another time of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When it was last written, in UTC milliseconds.
    pub modified_ms: i64,
    /// When anything about it changed last, in UTC nanoseconds. Nobody can set it.
    pub changed_ns: i64,
    /// Its number in its file system.
    pub inode: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        let ns = metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
        Self { modified_ms: modified_ms(metadata), changed_ns: ns, inode: metadata.ino() }
    }
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
    /// `.gitignore`, `.ignore` or `.redriveignore` names it.
    #[error("an ignore rule names it")]
    Ignored,
    /// Its name begins with a dot.
    #[error("hidden")]
    Hidden,
    /// It is a directory that something made and can make again.
    #[error("made by a tool: node_modules, a cache, Cargo's target")]
    Generated,
    /// It is the directory of a tool that keeps versions, or our own.
    #[error("version control's own, or redrive's")]
    Own,
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

impl SkipReason {
    /// The reason in one word, the same for all things of that reason.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::Hidden => "hidden",
            Self::Generated => "generated",
            Self::Own => "version_control",
            Self::TooLarge { .. } => "too_large",
            Self::Binary => "not_text",
            Self::Symlink => "link",
            Self::Loop => "link_loop",
            Self::Special => "special",
            Self::Denied => "permission",
            Self::Vanished => "vanished",
            Self::Io(_) => "unreadable",
        }
    }

    /// The name of a reason as people are told it.
    #[must_use]
    pub fn told(name: &str) -> &str {
        match name {
            "ignored" => "by an ignore rule",
            "generated" => "made by tools (node_modules, caches, target)",
            "version_control" => "of version control or redrive",
            "too_large" => "too large",
            "not_text" => "not a text by name",
            "link" => "symbolic links",
            "link_loop" => "links to a directory above",
            "special" => "no regular file",
            "permission" => "permission denied",
            other => other,
        }
    }

    /// Whether people say so themselves, by rules and names, and need not be shown each time what it is.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Ignored | Self::Hidden | Self::Generated | Self::Own | Self::Binary | Self::Symlink
        )
    }
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
    /// `None` where only one file is looked for.
    left_out: Option<LeftOut>,
    pending: VecDeque<Step>,
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
            let only = only.as_ref().map(|rel| root.join(rel.as_path()));
            move |entry| {
                let leads_there = only.as_ref().is_none_or(|only| only.starts_with(entry.path()));
                let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
                let is_meant = match habit(entry.path(), is_dir) {
                    None => true,
                    Some(Habit::Usually) => !rules,
                    Some(Habit::Always) => false,
                };
                entry.depth() == 0 || (leads_there && is_meant)
            }
        });
    if rules {
        builder.add_custom_ignore_filename(".redriveignore");
    }
    let left_out = only.is_none().then(LeftOut::default);
    Ok(Walk { inner: builder.build(), root, options: options.clone(), left_out, pending: VecDeque::new() })
}

impl Walk {
    /// The root as it is walked: absolute, without symbolic links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Notes where the walk is, and tells what it passed by on the way there.
    fn account(&mut self, path: &Path, is_dir: bool) {
        let Some(left_out) = &mut self.left_out else { return };
        let passed = left_out.meet(path, &self.options);
        if is_dir {
            left_out.enter(path);
        }
        self.tell(passed);
    }

    fn tell(&mut self, passed: Vec<Passed>) {
        for Passed { path, why } in passed {
            let rel = self.rel(&path);
            self.pending.extend(rel.map(|rel| Step::Skipped(Skipped { rel: Some(rel), why })));
        }
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
        Some(Step::Found(Found { rel, size, stamp: Stamp::of(&metadata), kind_guess }))
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Some(step);
            }
            match self.inner.next() {
                Some(Ok(entry)) => {
                    self.account(entry.path(), entry.file_type().is_some_and(|kind| kind.is_dir()));
                    let step = self.look(&entry);
                    self.pending.extend(step);
                }
                Some(Err(error)) => {
                    if let Some(path) = path_of(&error) {
                        self.account(path, false);
                    }
                    let rel = path_of(&error).and_then(|path| self.rel(path));
                    self.pending.push_back(Step::Skipped(Skipped { rel, why: reason(&error) }));
                }
                None => {
                    let left_out = self.left_out.as_mut().filter(|left_out| !left_out.is_done())?;
                    let passed = left_out.close(&self.options);
                    self.tell(passed);
                }
            }
        }
    }
}

/// When a file was last written, in UTC milliseconds.
fn modified_ms(metadata: &fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
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
