//! Pipelines of runs with the handlers of the stages that are told as one event.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{RunId, StageNo};
use redrive_engine::handler::{Answer, Handler, Reply, Request, RunMemory};
use redrive_engine::recipe::Recipe;
use redrive_store::RunRow;
use tokio::sync::Mutex;

use crate::Floor;
use crate::error::{Error, Result};
use crate::index::IndexTarget;
use crate::pipelines::{definition_of, recipe_with};

/// Runs whose handlers are kept.
const MOST: usize = 8;

/// A run, ready for the work of one event.
pub(super) struct Bench {
    pub(super) row: RunRow,
    pub(super) recipe: Recipe,
    /// Whether each stage is told as the event.
    told: Vec<bool>,
}

impl Bench {
    /// Whether a stage is told as the event.
    pub(super) fn does(&self, stage: StageNo) -> bool {
        self.told.get(stage.index()).copied().unwrap_or(false)
    }
}

/// The runs that were worked on last.
pub(super) struct Benches {
    event: String,
    open: Mutex<BTreeMap<RunId, Arc<Bench>>>,
}

impl Benches {
    pub(super) fn of(event: &str) -> Self {
        Self { event: event.to_owned(), open: Mutex::default() }
    }

    /// The bench of a run, by its pipeline as it is now; `None` when the run is gone.
    pub(super) async fn bench(&self, floor: &Floor, run: RunId) -> Result<Option<Arc<Bench>>> {
        let mut open = self.open.lock().await;
        let row = floor.store.run(run).await?;
        let edition = row.as_ref().map(|row| row.edition);
        if let Some(bench) = open.get(&run).filter(|bench| Some(bench.row.edition) == edition) {
            return Ok(Some(bench.clone()));
        }
        if let Some(outdated) = open.remove(&run) {
            outdated.recipe.close().await;
        }
        let Some(row) = row else { return Ok(None) };
        while open.len() >= MOST
            && let Some((_, oldest)) = open.pop_first()
        {
            oldest.recipe.close().await;
        }
        let bench = Arc::new(self.made(floor, row).await?);
        open.insert(run, bench.clone());
        Ok(Some(bench))
    }

    async fn made(&self, floor: &Floor, row: RunRow) -> Result<Bench> {
        let definition = definition_of(&row)
            .ok_or_else(|| Error::wrong(format!("the pipeline of {} cannot be read here", row.id)))?;
        let index = IndexTarget::open(floor, &definition, &row.spec.source).await?;
        let told: Vec<bool> =
            definition.all_stages().map(|stage| stage.event.as_deref() == Some(&*self.event)).collect();
        let recipe = recipe_with(&definition, |stage| match &stage.event {
            Some(event) if *event == self.event => {
                floor.wiring.handler(&stage.heard(), row.spec.folder.as_ref(), index.as_ref())
            }
            _ => Ok(Arc::new(Nobody)),
        })?;
        for ((_, plan), work) in recipe.plan.stages().zip(&recipe.stages) {
            let stage = plan.name.as_str().into();
            work.handler.remember(RunMemory { store: floor.store.clone(), run: row.id, stage });
        }
        Ok(Bench { row, recipe, told })
    }

    /// Ends whatever handlers keep running.
    pub(super) async fn close(&self) {
        for bench in std::mem::take(&mut *self.open.lock().await).into_values() {
            bench.recipe.close().await;
        }
    }
}

/// Stands where a stage is that is not told as the event, and is not called.
struct Nobody;

#[async_trait]
impl Handler for Nobody {
    async fn call(&self, _request: Request) -> Answer {
        Reply::Whole(Failure::new(Class::Retryable, Kind::Handler, "nobody does this stage here")).into()
    }
}
