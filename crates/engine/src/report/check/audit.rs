//! The laws, a page at a time: what a daemon can afford beside its work.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::{ItemSeq, RunId};
use redrive_core::laws::{Violation, check_conserved};
use redrive_core::plan::Plan;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, ItemQuery, Result, RunRow, RunSet, Snapshot, Store};

use super::{Found, Look, Run};
use crate::progress::Unheard;

/// What a page showed.
#[derive(Debug, Clone, Default)]
pub struct AuditPage {
    /// Items that were looked at.
    pub items: u64,
    /// The last of them; `None` when there are no more, and the next page is the first.
    pub last: Option<ItemSeq>,
    /// What is not as it has to be.
    pub violations: Vec<Violation>,
}

/// Checks the laws over some items, in the order of submission, and over the counters of every run. `plan` gives a run's
/// pipeline, where it can still be read.
///
/// # Errors
/// When the store fails.
pub async fn audit_page(
    store: &dyn Store,
    after: Option<ItemSeq>,
    limit: usize,
    plan: impl Fn(&RunRow) -> Option<Plan>,
    now: Timestamp,
) -> Result<AuditPage> {
    let Snapshot { store: frozen, .. } = store.snapshot().await?;
    let look = Look { store: &*frozen, now, progress: &Unheard };
    let counters: BTreeMap<RunId, Vec<Counter>> =
        frozen.counters_of_all(RunSet::All).await?.into_iter().map(|of| (of.run, of.counters)).collect();
    let mut found = Found::default();
    found.violations.extend(counters.iter().filter_map(|(run, kept)| check_conserved(*run, kept)));
    let page = frozen.items(ItemQuery { filter: ItemFilter::default(), after, limit }).await?;
    let histories = frozen.histories(page.iter().map(|item| item.seq).collect(), usize::MAX).await?;
    let ids: BTreeSet<RunId> = page.iter().map(|item| item.run).collect();
    let mut rows: Vec<(RunRow, Option<Plan>)> = Vec::new();
    for run in ids {
        rows.extend(frozen.run(run).await?.map(|row| (row.clone(), plan(&row))));
    }
    let mut runs: BTreeMap<RunId, Run<'_>> = BTreeMap::new();
    for (row, plan) in &rows {
        let kept = counters.get(&row.id).map_or(&[][..], |kept| kept);
        runs.insert(row.id, Run::of(look, row, plan.as_ref(), kept).await?);
    }
    for (item, history) in page.iter().zip(&histories) {
        if let Some(run) = runs.get(&item.run) {
            run.check(look, item, history, &mut found).await?;
        }
    }
    let last = if page.len() < limit { None } else { page.last().map(|item| item.seq) };
    Ok(AuditPage { items: found.items, last, violations: found.violations })
}
