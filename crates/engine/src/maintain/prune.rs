//! Old runs are forgotten, some items at a time.

use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Prune, Result, RunFilter, Store};

use crate::counts::{CountersOf, counts};
use crate::crash;
use crate::env::Env;

const PAGE: usize = 2_000;
const RUNS: usize = 500;

/// What pruning would forget, and what it would spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prunable {
    /// Runs that would be forgotten.
    pub runs: u64,
    /// Their items.
    pub items: u64,
    /// Those of them that are dead.
    pub dead: u64,
    /// Runs that are old enough and are spared for their dead items.
    pub spared_runs: u64,
    /// Those dead items.
    pub spared_dead: u64,
}

/// Looks at what a prune would do now.
///
/// # Errors
/// When the store fails.
pub async fn prunable(store: &dyn Store, keep: Duration, with_dead: bool, env: &Env) -> Result<Prunable> {
    let before = finished_before(keep, env);
    let mut found = Prunable::default();
    let mut last = None;
    loop {
        let page = store.runs(RunFilter::default(), last, RUNS).await?;
        let Some(oldest) = page.last() else { return Ok(found) };
        last = Some(oldest.id);
        let old = page.iter().filter(|row| row.finished_at.is_some_and(|at| at < before));
        let old: Vec<RunId> = old.map(|row| row.id).collect();
        let counters = CountersOf::read(store, old.clone()).await?;
        for run in old {
            let counts = counts(counters.of(run), |_| true);
            let (items, dead) = (counts.admitted - counts.purged, counts.dead);
            if dead > 0 && !with_dead {
                found.spared_runs += 1;
                found.spared_dead += dead;
            } else {
                found.runs += 1;
                found.items += items;
                found.dead += dead;
            }
        }
    }
}

fn finished_before(keep: Duration, env: &Env) -> Timestamp {
    Timestamp(env.clock.now().0.saturating_sub(millis(keep)))
}

/// Forgets the finished runs of a pipeline over a source but for the last `keep` of its runs; those with dead items are
/// spared. Returns how many went.
///
/// # Errors
/// When the store fails; what went before is gone.
pub async fn keep_last(store: &dyn Store, pipeline: &str, source: &str, keep: usize) -> Result<u64> {
    let filter = RunFilter {
        pipeline: Some(pipeline.to_owned()),
        source: Some(source.to_owned()),
        ..RunFilter::default()
    };
    let mut forgotten = 0;
    let mut last = store.runs(filter.clone(), None, keep.max(1)).await?.last().map(|row| row.id);
    while let Some(before) = last {
        let page = store.runs(filter.clone(), Some(before), RUNS).await?;
        last = page.last().map(|row| row.id);
        let ended = page.iter().filter(|row| row.finished_at.is_some());
        let ended: Vec<RunId> = ended.map(|row| row.id).collect();
        let counters = CountersOf::read(store, ended.clone()).await?;
        for run in ended {
            if counts(counters.of(run), |_| true).dead == 0 {
                forget(store, run).await?;
                forgotten += 1;
            }
        }
    }
    Ok(forgotten)
}

async fn forget(store: &dyn Store, run: RunId) -> Result<()> {
    let prune = Prune { finished_before: Timestamp::MAX, with_dead: false, only: Some(run), limit: PAGE };
    while store.prune(prune, None).await?.more {
        crash::point("prune.after_page");
    }
    Ok(())
}
