//! The pipelines of a folder. A file takes effect only when it is right; one that was made wrong leaves the version before
//! in force, and says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use redrive_engine::report::PauseView;
use redrive_pipeline::SourceKind;
use serde::Serialize;

use crate::Floor;
use crate::error::{Code, Error, Result};
use crate::notices::refuse_targets;
use crate::pipelines::{Pipeline, recipe, refuse_wrong_expressions};
use crate::schedules::ScheduleView;
use crate::wiring::Wiring;

/// Most files of a folder that are looked at.
const MOST: usize = 1_000;

/// The pipelines of a folder.
pub struct Catalog {
    folder: Option<PathBuf>,
    files: Mutex<BTreeMap<PathBuf, File>>,
}

/// One file, as it was last seen.
struct File {
    seen: Option<Seen>,
    /// The last version that was right.
    good: Option<Arc<Pipeline>>,
    /// Since when that is in force.
    since: Option<String>,
    /// What is wrong with the version that is there now.
    problem: Option<Error>,
    /// Why a standing run cannot take over the version that is in force; the outer `None`: nobody has compared them.
    conflict: Option<Option<Error>>,
}

/// What tells one version of a file from another without reading it.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Seen {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl File {
    /// What keeps the file from being gone by as it is.
    fn trouble(&self) -> Option<&Error> {
        self.problem.as_ref().or(self.conflict.as_ref().and_then(Option::as_ref))
    }
}

/// A file of which no version was right, with the first thing that is wrong with it.
fn unusable((path, file): (&PathBuf, &File)) -> Option<String> {
    if file.good.is_some() {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let Some(problem) = &file.problem else { return Some(name) };
    Some(match problem.problems.first() {
        Some(first) => format!("{name} (line {}: {})", first.line, first.message),
        None => format!("{name} ({})", problem.message),
    })
}

/// The pipelines that can be named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelineList {
    /// Each file of the folder.
    pub items: Vec<PipelineView>,
    /// Always `null`: there is one page.
    pub next: Option<String>,
}

/// One file of the folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelineView {
    /// The pipeline's name; `null` where no version of the file was right.
    pub name: Option<String>,
    /// The name of the file.
    pub file: String,
    /// Its category.
    pub category: Option<String>,
    /// Whether items are handed to it.
    pub inbox: bool,
    /// Its stages, in order.
    pub stages: Vec<String>,
    /// Since when the version that is in force is.
    pub since: Option<String>,
    /// How its schedule stands; `null` where it has none.
    pub schedule: Option<ScheduleView>,
    /// What is wrong with the version that is in the file now, or why its standing run cannot take it over; `null` where that is in force.
    pub problem: Option<Error>,
    /// What somebody paused of it.
    pub paused: Vec<PauseView>,
}

/// What became of a file since the look before.
#[derive(Debug, Clone, PartialEq)]
pub struct Reloaded {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it; `None`: it is in force.
    pub problem: Option<Error>,
    /// Whether something was wrong with it before.
    pub was_wrong: bool,
}

impl Catalog {
    /// The pipelines of a folder; of none, where there is none. Nothing is read yet.
    #[must_use]
    pub fn of(folder: Option<PathBuf>) -> Self {
        Self { folder, files: Mutex::default() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Looks at the folder, takes over what was changed and is right, and tells what became of what was changed.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn look(&self, floor: &Floor) -> Result<Vec<Reloaded>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let mut paths = Vec::new();
        let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| unreadable(folder, &error))?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.truncate(MOST);
        let mut files = self.lock();
        files.retain(|path, _| paths.contains(path));
        let mut told = Vec::new();
        for path in paths {
            let seen = std::fs::metadata(&path).ok();
            let is_file = seen.as_ref().is_none_or(std::fs::Metadata::is_file);
            let seen = seen.map(|file| Seen { modified: file.modified().ok(), bytes: file.len() });
            if files.get(&path).is_some_and(|known| known.seen == seen) {
                continue;
            }
            // Whoever opens a pipe waits until somebody writes to it.
            let read = match is_file {
                true => read(&*floor.wiring, &path),
                false => {
                    Err(Error::wrong(format!("{} is no file", path.display())).code(Code::UnreadableFile))
                }
            };
            let read = read.and_then(|pipeline| unique(&files, &path, pipeline));
            let file = files.entry(path.clone()).or_insert(File {
                seen,
                good: None,
                since: None,
                problem: None,
                conflict: None,
            });
            file.seen = seen;
            let was_wrong = file.problem.take().is_some();
            match read {
                Ok(pipeline) => {
                    (file.good, file.since) = (Some(Arc::new(pipeline)), Some(floor.now().to_string()))
                }
                Err(error) => file.problem = Some(error),
            }
            told.push(Reloaded { file: path, problem: file.problem.clone(), was_wrong });
        }
        Ok(told)
    }

    /// The version of a pipeline that is in force.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(&self, name: &str) -> Result<Arc<Pipeline>> {
        let files = self.lock();
        let mut good = files.values().filter_map(|file| file.good.clone());
        good.find(|pipeline| pipeline.definition.name == name).ok_or_else(|| {
            let known: Vec<String> =
                files.values().filter_map(|file| Some(file.good.as_ref()?.definition.name.clone())).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let wrong: Vec<String> = files.iter().filter_map(unusable).collect();
            let wrong = match wrong.is_empty() {
                true => String::new(),
                false => format!("; cannot be used, see GET /v1/pipelines: {}", wrong.join(", ")),
            };
            Error::not_found(format!("there is no pipeline {name:?}"))
                .code(Code::PipelineNotFound)
                .hint(format!("known pipelines: {known}{wrong}"))
        })
    }

    /// The versions that are in force.
    #[must_use]
    pub fn in_force(&self) -> Vec<Arc<Pipeline>> {
        self.lock().values().filter_map(|file| file.good.clone()).collect()
    }

    /// Whether something is wrong with a file of the folder, or a standing run cannot take it over.
    #[must_use]
    pub fn has_problems(&self) -> bool {
        self.lock().values().any(|file| file.trouble().is_some())
    }

    /// Notes whether the standing runs of a pipeline in force can take it over; tells of it where that has changed.
    pub(crate) fn set_conflict(&self, pipeline: &Pipeline, problem: Option<Error>) -> Option<Reloaded> {
        let mut files = self.lock();
        let same = |file: &File| file.good.as_ref().is_some_and(|good| **good == *pipeline);
        let (path, file) = files.iter_mut().find(|(_, file)| same(file))?;
        if file.conflict.as_ref() == Some(&problem) {
            return None;
        }
        let before = file.conflict.replace(problem.clone());
        let was_wrong = before.flatten().is_some();
        Some(Reloaded { file: path.clone(), problem, was_wrong })
    }

    /// Lists the files of the folder; how their schedules stand is in the store.
    #[must_use]
    pub fn list(&self) -> PipelineList {
        let view = |(path, file): (&PathBuf, &File)| {
            let good = file.good.as_ref().map(|pipeline| &pipeline.definition);
            PipelineView {
                name: good.map(|good| good.name.clone()),
                file: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
                category: good.and_then(|good| good.category.clone()),
                inbox: good.is_some_and(|good| good.source.kind == SourceKind::Inbox),
                stages: good
                    .map(|good| good.stages.iter().map(|stage| stage.name.clone()).collect())
                    .unwrap_or_default(),
                since: file.since.clone(),
                schedule: None,
                problem: file.trouble().cloned(),
                paused: Vec::new(),
            }
        };
        PipelineList { items: self.lock().iter().map(view).collect(), next: None }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreadable(folder: &Path, error: &std::io::Error) -> Error {
    Error::wrong(format!("cannot read the folder {}: {error}", folder.display()))
        .code(Code::UnreadableFile)
        .hint("--pipelines names a folder that is there, with a *.toml for each pipeline")
}

/// Reads a pipeline, and builds its stages once, so that what keeps one from being built is known before it takes effect.
fn read(wiring: &dyn Wiring, path: &Path) -> Result<Pipeline> {
    let pipeline = Pipeline::read(path)?;
    refuse_wrong_expressions(wiring, &pipeline)?;
    if !crate::index::makes_index(&pipeline.definition) {
        recipe(wiring, &pipeline.definition, &pipeline.folder, None)?;
    }
    refuse_targets(wiring, &pipeline)?;
    Ok(pipeline)
}

/// Two files of one name, or of one queue, would take turns.
fn unique(files: &BTreeMap<PathBuf, File>, path: &Path, pipeline: Pipeline) -> Result<Pipeline> {
    let (name, queue) = (&pipeline.definition.name, &pipeline.definition.source.queue);
    for (other, file) in files.iter().filter(|(other, _)| *other != path) {
        let Some(good) = file.good.as_ref().map(|good| &good.definition) else { continue };
        let other = other.file_name().map(|file| file.to_string_lossy()).unwrap_or_default();
        if good.name == *name {
            return Err(Error::wrong(format!("the name {name} is that of {other} already")));
        }
        if let Some(queue) = queue.as_ref().filter(|_| good.source.queue == *queue) {
            return Err(Error::wrong(format!("the queue {queue} is taken from by {other} already")));
        }
    }
    Ok(pipeline)
}
