//! What a walk passes by without a word: found by listing each directory beside it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{SkipReason, WalkOptions};

/// A directory that is being walked, and what of it has not been met.
struct Open {
    path: PathBuf,
    /// Names, and whether each is a directory.
    unmet: BTreeMap<OsString, bool>,
}

/// Keeps account of the directories on the way.
#[derive(Default)]
pub(super) struct LeftOut {
    open: Vec<Open>,
}

/// Something that the walk passed by.
pub(super) struct Passed {
    pub(super) path: PathBuf,
    pub(super) why: SkipReason,
}

impl LeftOut {
    /// The walk is at this place; returns what is left over of the directories that it has come out of.
    pub(super) fn meet(&mut self, path: &Path, options: &WalkOptions) -> Vec<Passed> {
        let mut passed = Vec::new();
        while self.open.last().is_some_and(|open| path.parent() != Some(&open.path)) {
            passed.extend(self.close(options));
        }
        if let (Some(open), Some(name)) = (self.open.last_mut(), path.file_name()) {
            open.unmet.remove(name);
        }
        passed
    }

    /// The walk goes into this directory. One that cannot be listed has nothing to tell: the walk says why.
    pub(super) fn enter(&mut self, path: &Path) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let unmet = entries.map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            (entry.file_name(), is_dir)
        });
        self.open.push(Open { path: path.to_owned(), unmet: unmet.collect() });
    }

    /// What is left over of the innermost directory; empty when there is none.
    pub(super) fn close(&mut self, options: &WalkOptions) -> Vec<Passed> {
        let Some(Open { path: above, unmet }) = self.open.pop() else { return Vec::new() };
        let passed = unmet.into_iter().map(|(name, is_dir)| {
            let path = above.join(&name);
            let why = match habit(&path, is_dir) {
                Some(Habit::Always) => SkipReason::Own,
                Some(Habit::Usually) if options.ignore_rules => SkipReason::Generated,
                _ if !options.hidden && name.as_encoded_bytes().starts_with(b".") => SkipReason::Hidden,
                _ => SkipReason::Ignored,
            };
            Passed { path, why }
        });
        passed.collect()
    }

    /// Whether the walk is over for every directory.
    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty()
    }
}

/// How sure it is that nobody means a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// It is the own of a tool that keeps versions, or of this one.
    Always,
    /// Something made it that can make it again.
    Usually,
}

/// Directories that nobody means when they say "this directory".
pub(super) fn habit(path: &Path, is_dir: bool) -> Option<Habit> {
    if !is_dir {
        return None;
    }
    match path.file_name()?.as_encoded_bytes() {
        b".git" | b".hg" | b".svn" | b".jj" | b".redrive" => Some(Habit::Always),
        b"node_modules" | b"__pycache__" => Some(Habit::Usually),
        b"target" if path.with_file_name("Cargo.toml").exists() => Some(Habit::Usually),
        _ => is_cache(path).then_some(Habit::Usually),
    }
}

/// Tells whether a directory carries the tag of bford.info/cachedir.
fn is_cache(directory: &Path) -> bool {
    let tag = directory.join("CACHEDIR.TAG");
    fs::symlink_metadata(&tag).is_ok_and(|metadata| metadata.is_file() && metadata.len() < 64 << 10)
        && fs::read(&tag).is_ok_and(|bytes| bytes.starts_with(b"Signature: 8a477f597d28d172789f06886806bc55"))
}
