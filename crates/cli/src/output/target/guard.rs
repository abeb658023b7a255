//! What is never written over: the store and the files beside it, sources, pipeline files and what they name.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redrive_core::id::ContentHash;
use redrive_engine::source::expand;
use redrive_index::mail::{archive_path, find_archives};
use redrive_ingest::walk::{Found, SkipReason, Skipped, Step, WalkOptions, walk};
use redrive_operate::Error;
use redrive_operate::pipelines::{definition_of, read_text};
use redrive_operate::sources::walk_options;
use redrive_pipeline::{Definition, SourceKind, StageKind};
use redrive_store::{RunFilter, Store};

use super::Refusal;
use super::spot::Spot;
use crate::wiring;

const PAGE: usize = 500;
/// What SQLite puts beside its file.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Nobody writes pipelines as large as this.
const LARGE: u64 = 4 << 20;

/// Files that stay as they are.
#[derive(Debug, Default)]
pub struct Guard {
    files: Vec<(String, PathBuf)>,
    folders: Vec<(PathBuf, WalkOptions)>,
    /// Pipelines of runs, by the size and hash of their text: a run does not keep the name of its file.
    pipelines: BTreeSet<(u64, ContentHash)>,
}

impl Guard {
    /// Spares a store and what SQLite puts beside it.
    ///
    /// # Errors
    /// When the URL is none of a store.
    pub fn of_store(url: &str) -> Result<Self, Error> {
        let mut guard = Self::default();
        let path = wiring::store_path(url)?;
        // SQLite follows links, and puts its files where they lead.
        let real = match Spot::of(&path) {
            Ok(Spot::File { path, .. }) => path,
            _ => path.clone(),
        };
        for path in BTreeSet::from([path, real]) {
            for companion in COMPANIONS {
                let mut name = path.clone().into_os_string();
                name.push(companion);
                guard.file("a part of the store", PathBuf::from(name));
            }
            guard.file("the store", path);
        }
        Ok(guard)
    }

    /// Spares one file.
    fn file(&mut self, what: impl Into<String>, path: impl Into<PathBuf>) {
        self.files.push((what.into(), path.into()));
    }

    /// Spares a pipeline file and what it names; relative paths start from `folder`.
    pub fn pipeline(&mut self, file: &Path, definition: &Definition, folder: &Path) {
        self.file("the pipeline file", file);
        self.named_by(definition, folder);
        for path in definition.source.paths.iter().filter(|path| *path != "-") {
            let path = folder.join(path).display().to_string();
            self.source(&path, definition);
        }
    }

    /// Spares a source; of a directory, every file that is one of its items or would be but for its size or kind.
    pub fn source(&mut self, name: &str, definition: &Definition) {
        match definition.source.kind {
            _ if name == "-" => {}
            SourceKind::Inbox | SourceKind::Threads => {}
            SourceKind::Files(files) => self.folders.push((PathBuf::from(name), walk_options(&files))),
            SourceKind::Mbox => {
                let found =
                    find_archives(&name.lines().map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default();
                for archive in found.archives {
                    self.file("a mail archive", archive_path(&archive.path));
                }
            }
            // Several files and patterns are kept one a line.
            SourceKind::Lines(_) => {
                for path in name.lines() {
                    self.file("a source", path);
                    let files = expand(&[path.to_owned()]).unwrap_or_default();
                    files.into_iter().for_each(|file| self.file("a source", file));
                }
            }
        }
    }

    /// Spares what every run of a store was made of.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn runs(&mut self, store: &dyn Store) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let mut before = None;
        loop {
            let page = store.runs(RunFilter::default(), before, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.id);
            for row in &page {
                let (spec, text) = (&row.spec, ContentHash::of(&[row.spec.definition.as_bytes()]));
                self.pipelines.insert((spec.definition.len() as u64, text));
                if !seen.insert((spec.source.clone(), spec.folder.clone(), text)) {
                    continue;
                }
                match definition_of(row) {
                    Some(definition) => {
                        self.named_by(&definition, Path::new(&spec.folder));
                        self.source(&spec.source, &definition);
                    }
                    None => self.file("a source", &spec.source),
                }
            }
        }
    }

    /// Spares the scripts that a pipeline's commands name.
    fn named_by(&mut self, definition: &Definition, folder: &Path) {
        for stage in definition.all_stages() {
            if let StageKind::Command { command, cwd, .. } = &stage.kind {
                let place = cwd.as_ref().map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd));
                let named = command.iter().flat_map(|word| [place.join(word), folder.join(word)]);
                for path in named.filter(|path| path.is_file()) {
                    self.file(format!("named by the command of stage {}", stage.name), path);
                }
            }
        }
    }

    /// What a file is, if it is one that stays as it is: by device and number, and by its place where it is not made yet.
    pub(super) fn keeps(&self, spot: &Spot) -> Option<String> {
        let identity = spot.identity();
        let same = |path: &Path| {
            let there = std::fs::metadata(path).ok();
            match (there.map(|there| (there.dev(), there.ino())), identity) {
                (Some(one), Some(other)) => one == other,
                (None, None) => {
                    matches!((Spot::of(path), spot), (Ok(Spot::File { path: one, .. }), Spot::File { path: other, .. }) if one == *other)
                }
                (Some(_), None) | (None, Some(_)) => false,
            }
        };
        if let Some((what, _)) = self.files.iter().find(|(_, path)| same(path)) {
            return Some(what.clone());
        }
        // Only a regular file can be a pipeline, or one of a directory's.
        let Spot::File { path, there: Some(there) } = spot else { return None };
        if self.is_pipeline_of_a_run(path, there.len()) {
            return Some("the pipeline file of a run".to_owned());
        }
        self.folders.iter().find_map(|(root, options)| {
            let mut steps = walk(root, options).ok()?;
            let root = steps.root().to_owned();
            let listed = steps.any(|step| match step {
                Step::Found(Found { rel, .. }) => same(&root.join(rel.as_path())),
                Step::Skipped(Skipped { rel, why }) => {
                    is_item_but_for_its_state(&why) && rel.is_some_and(|rel| same(&root.join(rel.as_path())))
                }
            });
            listed.then(|| format!("a file of the source {}", root.display()))
        })
    }

    fn is_pipeline_of_a_run(&self, path: &Path, size: u64) -> bool {
        let known = self.pipelines.iter().any(|(of, _)| *of == size);
        let text = || std::fs::read(path).map(|text| ContentHash::of(&[&text]));
        known && text().is_ok_and(|hash| self.pipelines.contains(&(size, hash)))
    }
}

/// Whether what was left out would be an item if it were smaller, of another kind, or readable.
fn is_item_but_for_its_state(why: &SkipReason) -> bool {
    match why {
        SkipReason::TooLarge { .. } | SkipReason::Binary | SkipReason::Denied | SkipReason::Io(_) => true,
        SkipReason::Ignored
        | SkipReason::Hidden
        | SkipReason::Generated
        | SkipReason::Own
        | SkipReason::Symlink
        | SkipReason::Loop
        | SkipReason::Special
        | SkipReason::Vanished => false,
    }
}

/// Refuses a place where a store cannot be put: what is no regular file, and what parts of another store are beside. SQLite
/// would take those for parts of the new one.
pub(super) fn takes_a_store(spot: &Spot) -> Result<(), Refusal> {
    let Spot::File { path, .. } = spot else {
        return Err(Refusal::new("it is no regular file", "name a file"));
    };
    for companion in COMPANIONS {
        let mut name = path.clone().into_os_string();
        name.push(companion);
        let name = PathBuf::from(name);
        if std::fs::symlink_metadata(&name).is_ok() {
            let why = format!("{} is beside it, a part of another store", name.display());
            return Err(Refusal::new(why, "name another file"));
        }
    }
    Ok(())
}

/// Whether a file that is there may be replaced by a copy of a store: if it is one itself, and that was said.
pub(super) fn store_is_replaceable(path: &Path, overwrite: bool) -> Result<(), Refusal> {
    if !overwrite {
        return Err(Refusal::new("it is there already", "name another file, or say --overwrite"));
    }
    if wiring::is_store(path) {
        return Ok(());
    }
    Err(Refusal::new("it is there already and is no store", "name another file, or remove that one"))
}

/// What a file must be from what is in it, or from its name: nobody means these by an output, whoever made them.
pub(super) fn known_by_content(path: &Path) -> Option<&'static str> {
    let head = beginning(path);
    if head.starts_with(b"SQLite format 3\0") {
        return Some("an SQLite database");
    }
    let (log, journal) = ([0x37, 0x7f, 0x06], [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    if head.starts_with(&log) || head.starts_with(&journal) {
        return Some("a part of an SQLite database");
    }
    if path.extension().is_some_and(|extension| extension == "toml") {
        return Some("a TOML file, as pipelines are");
    }
    is_pipeline(path).then_some("a pipeline file")
}

/// Whether a file is a pipeline whatever its name, also one that was edited since its run.
fn is_pipeline(path: &Path) -> bool {
    let small = std::fs::metadata(path).is_ok_and(|there| there.len() <= LARGE);
    // What begins as JSON or a picture does is no TOML, and is what an output replaces most often.
    let text = || read_text(path).ok().filter(|text| !text.trim_start().starts_with(['{', '<']));
    small && text().is_some_and(|text| redrive_pipeline::parse(&text, "").is_ok())
}

/// Whether a file is a picture as we draw them.
pub(super) fn is_svg(path: &Path) -> bool {
    let head = beginning(path);
    let head = head.trim_ascii_start();
    head.starts_with(b"<svg") || head.starts_with(b"<?xml")
}

fn beginning(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // What cannot be read is told apart by nothing else.
    let _ = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    head
}
