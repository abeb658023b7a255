//! What came of a pass, for the index.

use std::sync::atomic::Ordering;

use redrive_core::attempt::Outcome;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::status::RunStatus;
use redrive_core::tally::Metric;
use redrive_engine::report::{FailedRun, FailureOrder, FailureQuery, RunReport, failures};
use redrive_index::WalkTally;
use redrive_ingest::worker::NOT_A_TEXT;
use redrive_store::index::IndexSize;
use redrive_store::{ItemFilter, ItemQuery};
use serde::Serialize;

use super::{Indexer, Pass};
use crate::error::Result;

/// Most files of a kind that are named.
const NAMED: usize = 5;
/// Most filtered files that are looked at.
const LOOKED_AT: usize = 10_000;

/// The run report of a pass, and what it means for the index.
#[derive(Debug, Serialize)]
pub struct IndexReport {
    /// The run report.
    #[serde(flatten)]
    pub run: RunReport,
    /// What it means for the index.
    pub index: Figures,
}

/// What a pass means for the index.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// The directory.
    pub root: String,
    /// The model of its vectors.
    pub model: String,
    /// Files that were indexed in this run.
    pub indexed: u64,
    /// Files that left the index in this run.
    pub removed: u64,
    /// Chunks whose text was embedded in this run.
    pub embedded: u64,
    /// Chunks of this run that the model knows no word of: they are in the index, and found by words only.
    pub words_only: u64,
    /// Chunks whose text had been embedded before.
    pub reused: u64,
    /// Chunks that failed for good: their files can be found without them.
    pub failed_chunks: u64,
    /// Files that are no text, and why; the first ones.
    pub no_text: Vec<(String, String)>,
    /// Files that failed for good, and why; the first ones.
    pub failed: Vec<(String, String)>,
    /// Files that changed, or went, between being listed and being read; the next pass takes them up.
    pub changed_meanwhile: u64,
    /// Files that earlier runs left in the index without some of their chunks.
    pub incomplete_before: u64,
    /// Child processes that died with work in hand.
    pub children_died: u64,
    /// What an item that waits for a retry failed of last.
    pub last_failure: Option<String>,
    /// What the walk found.
    pub walk: WalkTally,
    /// How much is in the index.
    pub size: IndexSize,
}

impl Indexer<'_> {
    /// Says what came of a pass.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn report(&self, pass: &Pass) -> Result<IndexReport> {
        let run = pass.worked.report.clone();
        let (store, plan) = (&*self.floor().store, self.definition().plan());
        let counters = store.counters(run.run).await?;
        let ended = |stage: &str, outcome: Outcome| -> u64 {
            let stage = plan.find(stage);
            let here = counters
                .iter()
                .filter(|counter| Some(counter.stage) == stage && counter.metric == Metric::Outcome(outcome));
            here.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum()
        };
        let parts = run.stages.iter().filter(|stage| stage.below.is_some());
        // A file that is gone passes `parse` as it is; any other is taken apart there.
        let removed = ended("parse", Outcome::Succeeded).min(run.counts.succeeded);
        let (no_text, changed_meanwhile) = self.left_out(&run).await?;
        // What went on without a vector passed the stage all the same.
        let words_only = self.target.words_only.load(Ordering::Relaxed);
        let index = Figures {
            root: self.root().to_owned(),
            model: self.target.collection.spec.model.clone(),
            indexed: run.counts.succeeded - removed,
            removed,
            embedded: ended("embed", Outcome::Succeeded).saturating_sub(words_only),
            words_only,
            reused: ended("embed", Outcome::Reused),
            failed_chunks: parts.map(|stage| stage.counts.dead).sum(),
            no_text,
            failed: self.failed(&run).await?,
            changed_meanwhile,
            incomplete_before: self.incomplete_before(&run).await?,
            children_died: pass.children_died,
            last_failure: self.last_failure(&run).await?,
            walk: pass.tally.clone(),
            size: self.floor().index.size(self.target.collection.no).await?,
        };
        Ok(IndexReport { run, index })
    }

    async fn top(&self, run: &RunReport, state: StateKind, limit: usize) -> Result<Vec<Item>> {
        let state = Some(state);
        let filter = ItemFilter { run: Some(run.run), state, top: true, ..ItemFilter::default() };
        Ok(self.floor().store.items(ItemQuery { filter, after: None, limit }).await?)
    }

    /// The files that `parse` left out: those that are no text, and how many changed meanwhile.
    async fn left_out(&self, run: &RunReport) -> Result<(Vec<(String, String)>, u64)> {
        let (mut no_text, mut changed) = (Vec::new(), 0);
        if run.counts.filtered == 0 {
            return Ok((no_text, changed));
        }
        for item in self.top(run, StateKind::Filtered, LOOKED_AT).await? {
            match &item.state {
                State::Filtered { reason } if !reason.starts_with(NOT_A_TEXT) => changed += 1,
                State::Filtered { reason } if no_text.len() < NAMED => {
                    no_text.push((item.key.to_string(), reason.clone()));
                }
                _ => {}
            }
        }
        Ok((no_text, changed))
    }

    /// The files that failed for good.
    async fn failed(&self, run: &RunReport) -> Result<Vec<(String, String)>> {
        if run.counts.dead == 0 {
            return Ok(Vec::new());
        }
        let items = self.top(run, StateKind::Dead, NAMED).await?;
        let why = |item: &Item| item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
        Ok(items.iter().map(|item| (item.key.to_string(), why(item))).collect())
    }

    /// Whether earlier runs left something out is worth a look only where this one did nothing about it.
    async fn incomplete_before(&self, run: &RunReport) -> Result<u64> {
        if run.counts.admitted > 0 || run.status != RunStatus::Completed {
            return Ok(0);
        }
        self.incomplete().await
    }

    async fn last_failure(&self, run: &RunReport) -> Result<Option<String>> {
        let store = &*self.floor().store;
        let Some(row) = store.run(run.run).await? else { return Ok(None) };
        if run.counts.waiting + run.counts.joining == 0 {
            return Ok(None);
        }
        let plan = self.definition().plan();
        let run = FailedRun { row: &row, plan: &plan, stage: None };
        let query = FailureQuery { order: FailureOrder::Key, permanent: false, limit: 1, after: None };
        let found = failures(store, &[run], query).await?;
        let errors = found.items.into_iter().flat_map(|item| item.errors);
        Ok(errors.last().and_then(|error| error.message))
    }
}
