//! Counters of a run, put together.

use redrive_core::id::{RunId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::plan::Plan;
use redrive_core::status::Counts;
use redrive_core::tally::{Counter, Metric};
use redrive_store::{Result, RunCounters, RunSet, Store};

/// The counters of some runs, read in one go.
pub(crate) struct CountersOf(Vec<RunCounters>);

impl CountersOf {
    pub(crate) async fn read(store: &dyn Store, runs: Vec<RunId>) -> Result<Self> {
        store.counters_of_all(RunSet::Of(runs)).await.map(Self)
    }

    /// Those of one of the runs.
    pub(crate) fn of(&self, run: RunId) -> &[Counter] {
        self.0.iter().find(|counters| counters.run == run).map_or(&[], |counters| &counters.counters)
    }
}

/// Adds up the state counters of the stages that are wanted.
pub(crate) fn counts(counters: &[Counter], wanted: impl Fn(StageNo) -> bool) -> Counts {
    let mut counts = Counts::default();
    for Counter { metric, n, .. } in counters.iter().filter(|counter| wanted(counter.stage)) {
        let n = u64::try_from(*n).unwrap_or(0);
        match metric {
            Metric::State(kind) => *counts.of(*kind) += n,
            Metric::Purged(_) | Metric::Forgotten(_) => counts.purged += n,
            _ => continue,
        }
        counts.admitted += n;
    }
    counts
}

/// How many items of the stages that are wanted wait for an answer.
pub(crate) fn awaited(counters: &[Counter], wanted: impl Fn(StageNo) -> bool) -> u64 {
    let those = counters.iter().filter(|counter| counter.metric == Metric::Awaited && wanted(counter.stage));
    those.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum()
}

/// Counts of the run's own items as its status sees them: what was purged still counts as what it was.
pub(crate) fn judged_counts(counters: &[Counter], plan: &Plan) -> Counts {
    let mut counts = own_counts(counters, plan);
    for Counter { stage, metric, n } in counters {
        if let (Metric::Purged(kind) | Metric::Forgotten(kind), true) = (metric, is_own(plan, *stage)) {
            let n = u64::try_from(*n).unwrap_or(0);
            *counts.of(*kind) += n;
            counts.purged -= n;
        }
    }
    counts
}

pub(crate) fn is_own(plan: &Plan, stage: StageNo) -> bool {
    plan.stage(stage).is_none_or(|stage| stage.owner.is_none())
}

/// Counts of all items of a run, children included.
///
/// # Errors
/// When the store fails.
pub async fn all_counts(store: &dyn Store, run: RunId) -> Result<Counts> {
    Ok(counts(&store.counters(run).await?, |_| true))
}

/// How many items of a run are not finished, children included.
///
/// # Errors
/// When the store fails.
pub async fn live_items(store: &dyn Store, run: RunId) -> Result<u64> {
    Ok(all_counts(store, run).await?.live())
}

/// Counts of the run's own items, those that were not expanded from another.
pub(crate) fn own_counts(counters: &[Counter], plan: &Plan) -> Counts {
    counts(counters, |stage| is_own(plan, stage))
}

/// How many items of a run are dead.
///
/// # Errors
/// When the store fails.
pub async fn dead_items(store: &dyn Store, run: RunId) -> Result<u64> {
    let counters = store.counters(run).await?;
    let dead = counters.iter().filter(|counter| counter.metric == Metric::State(StateKind::Dead));
    Ok(dead.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum())
}
