//! Runs with their pipelines, each read once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive_core::id::{RunId, StageNo};
use redrive_core::plan::Plan;
use redrive_engine::admin::Plans;
use redrive_pipeline::Definition;
use redrive_store::{RunFilter, RunRow, Store};

use crate::error::{Code, Error, Result};
use crate::pipelines;

/// Runs that are remembered at a time.
const MOST: usize = 1_000;
/// Runs that are read at a time.
const PAGE: usize = 500;

/// A run with its pipeline.
#[derive(Debug, Clone)]
pub struct KnownRun {
    /// The run, as it was when it was read.
    pub row: RunRow,
    /// Its pipeline.
    pub definition: Definition,
    /// What decisions need of it.
    pub plan: Plan,
}

/// Reads runs and their pipelines, and remembers them for as long as it lives: a request, not a process.
pub struct Runs<'a> {
    store: &'a dyn Store,
    known: Mutex<BTreeMap<RunId, Option<Arc<KnownRun>>>>,
}

impl<'a> Runs<'a> {
    /// A reader that knows nothing yet.
    #[must_use]
    pub fn of(store: &'a dyn Store) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// Finds a run, or the newest one, and reads its pipeline.
    ///
    /// # Errors
    /// When there is no such run, its pipeline cannot be read, or the store fails.
    pub async fn find(&self, run: Option<RunId>) -> Result<KnownRun> {
        let row = match run {
            Some(run) => self.store.run(run).await?,
            None => self.newest().await?,
        };
        let row = row.ok_or_else(|| {
            let (what, hint) = match run {
                Some(run) => {
                    (format!("run {run} does not exist"), "`redrive runs` lists the runs of this store")
                }
                None => ("this store has no runs".to_owned(), "`redrive run PIPELINE.toml` starts one"),
            };
            Error::not_found(what).code(Code::RunNotFound).hint(hint)
        })?;
        let definition = pipelines::parse(&row.spec.definition, &format!("the pipeline of {}", row.id))?;
        let plan = definition.plan();
        Ok(KnownRun { row, definition, plan })
    }

    /// The newest run that somebody began.
    async fn newest(&self) -> Result<Option<RunRow>> {
        let (mut before, mut limit) = (None, 1);
        loop {
            let page = self.store.runs(RunFilter::default(), before, limit).await?;
            let Some(last) = page.last().map(|row| row.id) else { return Ok(None) };
            if let Some(row) = page.into_iter().find(|row| !row.spec.is_internal()) {
                return Ok(Some(row));
            }
            (before, limit) = (Some(last), PAGE);
        }
    }

    /// A run whose pipeline can still be read; `None` when there is none, or it cannot.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn known(&self, run: RunId) -> redrive_store::Result<Option<Arc<KnownRun>>> {
        if let Some(known) = self.lock().get(&run) {
            return Ok(known.clone());
        }
        let row = self.store.run(run).await?;
        let known = row.and_then(|row| {
            let definition = pipelines::definition_of(&row)?;
            let plan = definition.plan();
            Some(Arc::new(KnownRun { row, definition, plan }))
        });
        let mut all = self.lock();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(run, known.clone());
        Ok(known)
    }

    /// A stage's name in its run.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stage_name(&self, run: RunId, no: StageNo) -> Result<String> {
        let known = self.known(run).await?;
        let stage = known.as_ref().and_then(|known| known.plan.stage(no));
        Ok(stage.map_or_else(|| format!("#{}", no.0), |stage| stage.name.clone()))
    }

    /// All runs that a filter means, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn all(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        let mut rows: Vec<RunRow> = Vec::new();
        loop {
            let page = self.store.runs(filter.clone(), rows.last().map(|row| row.id), PAGE).await?;
            if page.is_empty() {
                return Ok(rows);
            }
            rows.extend(page);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Option<Arc<KnownRun>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Plans for Runs<'_> {
    async fn plan(&self, run: RunId) -> redrive_store::Result<Option<Plan>> {
        Ok(self.known(run).await?.map(|known| known.plan.clone()))
    }
}
