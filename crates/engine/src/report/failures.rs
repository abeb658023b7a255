//! What failed, in one run or in many, and what becomes of it: the items sorted, each with its history.

mod rank;
mod totals;

use std::collections::BTreeMap;

use redrive_core::id::{ItemSeq, RunId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::tally::{Counter, Metric};
use redrive_store::{ItemFilter, ItemQuery, Result, RunRow, Store};
use serde::Serialize;

use super::explain::{AttemptView, ItemView, MarkView, NEWEST, so_far};
use crate::counts::CountersOf;
use totals::Tallied;

pub use rank::{FailureOrder, FailurePlace};
pub use totals::{FailureTotals, ProjectFailures, StageFailures};

/// Most items that are reported.
const MOST: usize = 10_000;
const PAGE: usize = 500;

/// What failed.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// The run; `null` where several were looked through.
    pub run: Option<RunId>,
    /// The pipeline; `null` where there are several.
    pub pipeline: Option<String>,
    /// The source; `null` where there are several.
    pub source: Option<String>,
    /// How many runs were looked through.
    pub runs: u64,
    /// Keys of the runs' own items that failed, or parts of which failed, sorted, of those that are shown: the failed files of
    /// an index.
    pub failed: Vec<String>,
    /// The items that failed, in the order that was asked for.
    pub items: Vec<FailedItem>,
    /// How many items failed, shown or not.
    pub total: u64,
    /// The same by how they stand.
    pub totals: FailureTotals,
    /// The same by pipeline and source, those with the most failures first.
    pub projects: Vec<ProjectFailures>,
    /// Whether there are more than are shown.
    pub more: bool,
    /// What to go on after, for those.
    pub next: Option<String>,
}

/// An item that failed.
#[derive(Debug, Serialize)]
pub struct FailedItem {
    /// The item.
    pub item: ItemView,
    /// Key of the run's own item that it is a part of; its own key when it is one itself.
    pub of: String,
    /// Its attempts that did not pass, those that were turned away included.
    pub errors: Vec<AttemptView>,
    /// What else happened to it.
    pub marks: Vec<MarkView>,
    /// Tries after the first at its stage. Being turned away is no try: `item.throttles` counts it.
    pub retries: u32,
    /// When it is tried again.
    pub next_at: Option<String>,
}

/// A run to look through.
#[derive(Debug, Clone, Copy)]
pub struct FailedRun<'a> {
    /// The run.
    pub row: &'a RunRow,
    /// Its plan.
    pub plan: &'a Plan,
    /// Only at this stage.
    pub stage: Option<StageNo>,
}

/// Which failures are wanted, and in what order.
#[derive(Debug, Clone, Copy)]
pub struct FailureQuery<'a> {
    /// In what order.
    pub order: FailureOrder,
    /// Only those that look permanent.
    pub permanent: bool,
    /// At most so many.
    pub limit: usize,
    /// Only what comes after this.
    pub after: Option<FailureAfter<'a>>,
}

/// What a page begins after.
#[derive(Debug, Clone, Copy)]
pub enum FailureAfter<'a> {
    /// An item, in the order of keys.
    Item(&'a Item),
    /// A place, in the other orders.
    Place(FailurePlace),
}

/// Reports the items of some runs that failed at their present stage: dead ones, and those that wait to be tried again. The
/// first `limit` of all of them by their order, or of those after a place in it.
///
/// # Errors
/// When the store fails.
pub async fn failures(
    store: &dyn Store,
    runs: &[FailedRun<'_>],
    query: FailureQuery<'_>,
) -> Result<FailureReport> {
    let Ranked { first, tallied, more } = ranked(store, runs, query).await?;
    let mut items = Vec::new();
    for Found { seq, run, of } in first.values() {
        // One that ended or went meanwhile is not told.
        let Some(item) = store.item(*seq).await? else { continue };
        let told = so_far(store, &item, runs[*run].plan, NEWEST).await?;
        let errors = told.attempts.into_iter().filter(|attempt| attempt.class.is_some()).collect();
        let (retries, next_at) = (item.tries().saturating_sub(1), told.item.due.clone());
        items.push(FailedItem {
            item: told.item,
            of: of.clone(),
            errors,
            marks: told.marks,
            retries,
            next_at,
        });
    }
    let mut failed: Vec<String> = items.iter().map(|failed| failed.of.clone()).collect();
    failed.sort();
    failed.dedup();
    let totals = tallied.all;
    Ok(FailureReport {
        run: if let [only] = runs { Some(only.row.id) } else { None },
        pipeline: the_same(runs, |run| &run.row.spec.pipeline),
        source: the_same(runs, |run| &run.row.spec.source),
        runs: runs.len() as u64,
        failed,
        items,
        total: totals.failed,
        totals,
        projects: tallied.projects(),
        more,
        next: first.keys().next_back().filter(|_| more).map(rank::Rank::cursor),
    })
}

fn the_same<'a>(runs: &[FailedRun<'a>], of: impl Fn(&FailedRun<'a>) -> &'a String) -> Option<String> {
    let first = of(runs.first()?);
    runs.iter().all(|run| of(run) == first).then(|| first.clone())
}

/// Where an item was found.
struct Found {
    seq: ItemSeq,
    /// Which of the runs it is in.
    run: usize,
    of: String,
}

/// The first of what failed, in order, and how much there is.
struct Ranked {
    first: BTreeMap<rank::Rank, Found>,
    tallied: Tallied,
    more: bool,
}

/// Goes through everything that failed and keeps the first `limit` of what comes after `after`.
async fn ranked(store: &dyn Store, runs: &[FailedRun<'_>], query: FailureQuery<'_>) -> Result<Ranked> {
    let mut owners = BTreeMap::new();
    let from = match query.after {
        Some(FailureAfter::Item(item)) => {
            let of = owner(store, item, &mut owners).await?;
            Some(query.order.rank(item, &of.key))
        }
        Some(FailureAfter::Place(place)) => Some(query.order.rank_of(place)),
        None => None,
    };
    let counters = CountersOf::read(store, runs.iter().map(|run| run.row.id).collect()).await?;
    let mut ranked = Ranked { first: BTreeMap::new(), tallied: Tallied::default(), more: false };
    for (run, FailedRun { row, plan, stage }) in runs.iter().enumerate() {
        if !has_failures(counters.of(row.id)) {
            continue;
        }
        let mut page_after = None;
        loop {
            let stages = stage.iter().copied().collect();
            let filter = ItemFilter { run: Some(row.id), stages, failed: true, ..ItemFilter::default() };
            let page = store.items(ItemQuery { filter, after: page_after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            page_after = Some(last.seq);
            for item in page.iter().filter(|item| is_unsettled(item)) {
                let permanent =
                    plan.policy_of(item).is_some_and(|policy| policy.looks_permanent(item.failures));
                if query.permanent && !permanent {
                    continue;
                }
                let of = owner(store, item, &mut owners).await?;
                ranked.tallied.add(row, plan, item, of.seq, permanent);
                ranked.keep(
                    query.order.rank(item, &of.key),
                    Found { seq: item.seq, run, of: of.key },
                    &from,
                    query.limit,
                );
            }
            // Owners are kept for a page only: there may be as many as items.
            owners.clear();
        }
    }
    Ok(ranked)
}

impl Ranked {
    fn keep(&mut self, rank: rank::Rank, found: Found, from: &Option<rank::Rank>, limit: usize) {
        if from.as_ref().is_some_and(|from| rank <= *from) {
            return;
        }
        self.first.insert(rank, found);
        if self.first.len() > limit.min(MOST) {
            self.first.pop_last();
            self.more = true;
        }
    }
}

/// Whether a run has anything to look through: most of many runs have not.
fn has_failures(counters: &[Counter]) -> bool {
    let failed = |metric| matches!(metric, Metric::State(StateKind::Dead) | Metric::OpenAfter(_));
    counters.iter().any(|counter| counter.n > 0 && failed(counter.metric))
}

/// What failed and then passed is no failure any more; `stats` counts it.
pub(super) fn is_unsettled(item: &Item) -> bool {
    matches!(item.state.kind(), StateKind::Dead | StateKind::Waiting | StateKind::Running)
}

/// A run's own item, or what it is called.
#[derive(Clone)]
struct Owner {
    seq: ItemSeq,
    key: String,
}

/// The run's own item that an item is a part of. Nested parts are few levels deep.
async fn owner(store: &dyn Store, item: &Item, known: &mut BTreeMap<ItemSeq, Owner>) -> Result<Owner> {
    let Some(parent) = item.parent else { return Ok(Owner { seq: item.seq, key: item.key.to_string() }) };
    if let Some(owner) = known.get(&parent) {
        return Ok(owner.clone());
    }
    let mut above = item.clone();
    while let Some(parent) = above.parent {
        let Some(next) = store.item(parent).await? else { break };
        above = next;
    }
    let owner = Owner { seq: above.seq, key: above.key.to_string() };
    known.insert(parent, owner.clone());
    Ok(owner)
}
