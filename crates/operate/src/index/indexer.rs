//! Passes over a directory: walk, index what changed, do what is due.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_core::status::RunStatus;
use redrive_engine::maintain;
use redrive_index::{Files, WalkTally, canonical_root};
use redrive_ingest::walk::{Step, walk};
use redrive_pipeline::Definition;
use redrive_store::index::NewCollection;
use redrive_store::{NewRun, RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use super::model::{Embedding, embedding_of};
use super::{IndexTarget, PIPELINE, begin, refusals};
use crate::Floor;
use crate::error::{Error, Result};
use crate::pipelines::recipe;
use crate::sources::walk_of;
use crate::work::{Observer, Work, WorkSettings, Worked, work};

/// How soon a run is looked at again whose work another process has in hand.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// Passes of a directory that are kept, those with dead letters not counted: they stay until somebody says otherwise.
const PASSES: usize = 100;
/// Documents that are gone are forgotten so many at a time.
const GONE: usize = 1_000;
/// Unfinished runs of a directory that are ended when its index is made anew.
const UNFINISHED: usize = 100;

/// How the index of a directory is begun with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Begin {
    /// Makes the index anew, also with another model; vectors that are kept are used again.
    pub rebuild: bool,
    /// Forgets the index and embeds every text anew.
    pub reembed: bool,
    /// Starts a new run even if an unfinished one is there.
    pub new: bool,
}

/// Indexes one directory.
pub struct Indexer<'a> {
    floor: &'a Floor,
    root: String,
    text: String,
    definition: Definition,
    begin: Begin,
    settings: WorkSettings,
    pub(super) target: IndexTarget,
}

/// What a pass brought.
pub struct Pass {
    /// How the work went.
    pub worked: Worked,
    /// What the walk found.
    pub tally: WalkTally,
    /// How long it took.
    pub took_ms: i64,
    /// Child processes that died with work in hand.
    pub children_died: u64,
}

/// A directory as it is kept.
///
/// # Errors
/// When there is none.
pub fn root_of(dir: &Path) -> Result<String> {
    let (_, root) = canonical_root(dir)
        .map_err(|problem| Error::wrong(problem).hint("name a directory, for example `redrive index .`"))?;
    Ok(root)
}

impl<'a> Indexer<'a> {
    /// Opens the index of the directory `root` for the pipeline in `text`, or makes it.
    ///
    /// # Errors
    /// When it cannot be made as asked, or the store fails.
    pub async fn open(
        floor: &'a Floor,
        root: String,
        text: String,
        definition: Definition,
        begin: Begin,
        settings: WorkSettings,
    ) -> Result<Self> {
        if begin.reembed {
            refuse_if_shared(floor, &definition, &root).await?;
            forget(floor, &root).await?;
        } else if begin.rebuild {
            begin_anew(floor, &definition, &root).await?;
        }
        if let Some(embedding) = embedding_of(&definition).filter(|_| begin.reembed) {
            floor.index.drop_model(&embedding.model).await?;
        }
        let target = open_target(floor, &definition, &root).await?;
        refusals::remember(floor, &target, &root).await?;
        Ok(Self { floor, root, text, definition, begin, settings, target })
    }

    /// The floor it works on.
    pub(super) fn floor(&self) -> &Floor {
        self.floor
    }

    /// The directory, as it is kept.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.target.root
    }

    /// The pipeline.
    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// One pass. `again` takes in files that are not in the index, or not all of them, and have not changed.
    ///
    /// # Errors
    /// When the directory or the store fails, or the run of the directory is paused.
    pub async fn pass(&self, again: bool, observer: &dyn Observer) -> Result<Pass> {
        self.run(self.files(again).await?, observer).await
    }

    /// One pass if there is something to do; `None` when there is nothing. The index is opened anew: somebody may have made
    /// it anew meanwhile.
    ///
    /// # Errors
    /// As [`Indexer::pass`].
    pub async fn pass_if_news(&mut self, observer: &dyn Observer) -> Result<Option<Pass>> {
        self.reopen().await?;
        let mut files = self.files(false).await?;
        let looked = tokio::task::spawn_blocking(move || {
            let news = files.has_news();
            (files, news)
        });
        let (files, news) =
            looked.await.map_err(|error| Error::internal(format!("the walk broke: {error}")))?;
        let news = news.map_err(|error| Error::internal(error.to_string()))?;
        if !news && self.due_in().await?.is_none_or(|due| !due.is_zero()) {
            return Ok(None);
        }
        self.run(files, observer).await.map(Some)
    }

    async fn reopen(&mut self) -> Result<()> {
        self.target = open_target(self.floor, &self.definition, &self.root).await?;
        refusals::remember(self.floor, &self.target, &self.root).await
    }

    async fn files(&self, again: bool) -> Result<Files> {
        let again = if again { Some(refusals::incomplete(self.floor, &self.root).await?) } else { None };
        self.target.files(again)
    }

    async fn run(&self, files: Files, observer: &dyn Observer) -> Result<Pass> {
        let tally: Arc<Mutex<WalkTally>> = files.tally();
        let row = self.begin(observer).await?;
        let recipe = recipe(&*self.floor.wiring, &self.definition, self.directory(), Some(&self.target))?;
        let handlers: Vec<_> = recipe.stages.iter().map(|stage| stage.handler.clone()).collect();
        let began = self.floor.now();
        let ready = Work { row, recipe, source: Some(Box::new(files)), part: None };
        let mut worked = work(self.floor, ready, self.settings, observer).await?;
        let report = &mut worked.report;
        if matches!(report.status, RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::PausedBudget)
        {
            // What waits for somebody is due at no time.
            (report.next_due, report.next_due_at, report.next_retry) = (None, None, None);
        }
        let tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let took_ms = self.floor.now().0 - began.0;
        let children_died = handlers.iter().map(|handler| handler.deaths()).sum();
        Ok(Pass { worked, tally, took_ms, children_died })
    }

    /// Goes on with the unfinished run of this directory, or begins one.
    async fn begin(&self, observer: &dyn Observer) -> Result<RunRow> {
        let new = NewRun {
            pipeline: self.definition.name.clone(),
            source: self.root.clone(),
            category: None,
            priority: 0,
            definition: self.text.clone(),
            folder: self.root.clone(),
        };
        begin::go_on_or_begin(self.floor, &self.definition, new, self.begin.new, observer).await
    }

    /// How long until something of an unfinished run of this directory is due; `None` when nothing is left to be done.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn due_in(&self) -> Result<Option<Duration>> {
        let Some(row) = self.floor.store.runs(unfinished(&self.root), None, 1).await?.pop() else {
            return Ok(None);
        };
        let due = self.floor.store.next_due(row.id).await?.at;
        // With nothing that waits, somebody else has the rest in hand: a look now and then is enough.
        Ok(Some(due.map_or(ELSEWHERE, |due| due.since(self.floor.now()))))
    }

    /// Keeps the store small: a pass is a run, and a directory that is worked in makes thousands a day.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tidy(&self) -> Result<()> {
        maintain::keep_last(&*self.floor.store, &self.definition.name, &self.root, PASSES).await?;
        self.floor.index.drop_gone_docs(GONE).await?;
        Ok(())
    }

    /// The files that earlier runs left in the index without some of their chunks.
    pub(super) async fn incomplete(&self) -> Result<u64> {
        Ok(refusals::incomplete(self.floor, &self.root).await?.len() as u64)
    }
}

async fn open_target(floor: &Floor, definition: &Definition, root: &str) -> Result<IndexTarget> {
    let target = IndexTarget::open(floor, definition, root).await?;
    target.ok_or_else(|| Error::internal("the pipeline of an index makes none"))
}

/// The unfinished runs over a directory.
fn unfinished(root: &str) -> RunFilter {
    RunFilter {
        pipeline: Some(PIPELINE.to_owned()),
        source: Some(root.to_owned()),
        unfinished: true,
        ..RunFilter::default()
    }
}

/// Refuses to forget the vectors of a model that another index is searched by.
async fn refuse_if_shared(floor: &Floor, definition: &Definition, root: &str) -> Result<()> {
    let model = embedding_of(definition).map(|embedding| embedding.model).unwrap_or_default();
    let others = floor.index.collections().await?;
    match others.iter().find(|other| other.spec.root != root && other.spec.model == model) {
        None => Ok(()),
        Some(other) => Err(Error::refused(format!(
            "the index of {} is made with the model {model} too, and would be lost",
            other.spec.root
        ))
        .hint("keep it in a store of its own: --store sqlite:PATH")),
    }
}

/// Has the index of a directory made anew, for the model of this pipeline. What is in it can be found until it is replaced.
async fn begin_anew(floor: &Floor, definition: &Definition, root: &str) -> Result<()> {
    let options = walk_of(definition).unwrap_or_default();
    let mut steps = walk(Path::new(root), &options).map_err(|error| Error::wrong(error.to_string()))?;
    if !steps.any(|step| matches!(step, Step::Found(_))) {
        // A walk that finds nothing removes nothing; who says this wants it empty.
        return forget(floor, root).await;
    }
    cancel_all(floor, root).await?;
    if let Some(Embedding { model, dimensions, settings }) = embedding_of(definition) {
        let new = NewCollection { root: root.to_owned(), model, dimensions, settings };
        floor.index.renew_collection(new).await?;
    }
    Ok(())
}

/// Forgets the index of a directory, and ends an unfinished run of it.
async fn forget(floor: &Floor, root: &str) -> Result<()> {
    cancel_all(floor, root).await?;
    for collection in floor.index.collections().await?.into_iter().filter(|one| one.spec.root == root) {
        floor.index.drop_collection(collection.no).await?;
    }
    Ok(())
}

/// Ends the unfinished runs over a directory.
async fn cancel_all(floor: &Floor, root: &str) -> Result<()> {
    for row in floor.store.runs(unfinished(root), None, UNFINISHED).await? {
        begin::cancel(floor, &row).await?;
    }
    Ok(())
}
