//! What failed in a run and what becomes of it: the items sorted, each with its history.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::id::{ItemId, ItemSeq, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_store::{ItemFilter, ItemQuery, Result, RunRow, Store};
use serde::Serialize;

use super::explain::{AttemptView, ItemView, MarkView, explain};
use redrive_core::time::Timestamp;

/// Most items that are reported.
const MOST: usize = 10_000;
const PAGE: usize = 500;

/// What failed in a run.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Its source.
    pub source: String,
    /// Keys of the run's own items that failed, or parts of which failed, sorted: the failed files of an index.
    pub failed: Vec<String>,
    /// The items that failed, sorted by the run's own item they belong to, then by key.
    pub items: Vec<FailedItem>,
    /// How many items failed, shown or not.
    pub total: u64,
    /// Whether there are more than are shown.
    pub more: bool,
    /// What to go on after, for those.
    pub next: Option<ItemId>,
}

/// The place of an item in the order of a report: the run's own item it belongs to, its key, and its id.
type Rank = (String, Arc<str>, ItemId);

/// An item that failed.
#[derive(Debug, Serialize)]
pub struct FailedItem {
    /// The item.
    pub item: ItemView,
    /// Key of the run's own item that it is a part of; its own key when it is one itself.
    pub of: String,
    /// Its attempts that did not pass.
    pub errors: Vec<AttemptView>,
    /// What else happened to it.
    pub marks: Vec<MarkView>,
    /// Attempts after the first.
    pub retries: u32,
    /// When it is tried again.
    pub next_at: Option<String>,
}

/// Reports the items of a run that failed at their present stage: dead ones, and those that wait to be tried again. The
/// first `limit` of all of them by their order, or of those after the item `after`.
///
/// # Errors
/// When the store fails.
pub async fn failures(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    now: Timestamp,
    limit: usize,
    after: Option<&Item>,
) -> Result<FailureReport> {
    let Ranked { first, total, more } = ranked(store, row.id, limit.min(MOST), after).await?;
    let mut items = Vec::new();
    for ((of, _, _), seq) in &first {
        // One that ended or went meanwhile is not told.
        let Some(item) = store.item(*seq).await? else { continue };
        let life = explain(store, row, &item, plan, None, now).await?;
        let mut view = life.item;
        view.payload = None;
        let errors = life.attempts.into_iter().filter(|attempt| attempt.class.is_some()).collect();
        let retries = item.attempt.saturating_sub(1);
        let next_at = view.due.clone();
        items.push(FailedItem { item: view, of: of.clone(), errors, marks: life.marks, retries, next_at });
    }
    let mut failed: Vec<String> = items.iter().map(|failed| failed.of.clone()).collect();
    failed.dedup();
    Ok(FailureReport {
        failed,
        run: row.id,
        pipeline: row.spec.pipeline.clone(),
        source: row.spec.source.clone(),
        items,
        total,
        more,
        next: first.keys().next_back().filter(|_| more).map(|(_, _, id)| *id),
    })
}

/// The first of what failed, in order.
struct Ranked {
    first: BTreeMap<Rank, ItemSeq>,
    total: u64,
    more: bool,
}

/// Goes through everything that failed and keeps the first `limit` of what comes after `after`.
async fn ranked(store: &dyn Store, run: RunId, limit: usize, after: Option<&Item>) -> Result<Ranked> {
    let mut owners = BTreeMap::new();
    let from = match after {
        Some(item) => Some(rank(store, item, &mut owners).await?),
        None => None,
    };
    let mut ranked = Ranked { first: BTreeMap::new(), total: 0, more: false };
    let mut page_after = None;
    loop {
        let filter = ItemFilter { run: Some(run), failed: true, ..ItemFilter::default() };
        let page = store.items(ItemQuery { filter, after: page_after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(ranked) };
        page_after = Some(last.seq);
        for item in page.iter().filter(|item| is_unsettled(item)) {
            ranked.total += 1;
            let rank = rank(store, item, &mut owners).await?;
            if from.as_ref().is_some_and(|from| rank <= *from) {
                continue;
            }
            ranked.first.insert(rank, item.seq);
            if ranked.first.len() > limit {
                ranked.first.pop_last();
                ranked.more = true;
            }
        }
        // Owners are kept for a page only: there may be as many as items.
        owners.clear();
    }
}

/// What failed and then passed is no failure any more; `stats` counts it.
fn is_unsettled(item: &Item) -> bool {
    matches!(item.state.kind(), StateKind::Dead | StateKind::Waiting | StateKind::Running)
}

async fn rank(store: &dyn Store, item: &Item, owners: &mut BTreeMap<ItemSeq, String>) -> Result<Rank> {
    Ok((own_key(store, item, owners).await?, item.key.clone(), item.id))
}

/// The key of the run's own item that an item is a part of. Nested parts are few levels deep.
async fn own_key(store: &dyn Store, item: &Item, known: &mut BTreeMap<ItemSeq, String>) -> Result<String> {
    let Some(parent) = item.parent else { return Ok(item.key.to_string()) };
    if let Some(key) = known.get(&parent) {
        return Ok(key.clone());
    }
    let mut above = item.clone();
    while let Some(parent) = above.parent {
        let Some(next) = store.item(parent).await? else { break };
        above = next;
    }
    let key = above.key.to_string();
    known.insert(parent, key.clone());
    Ok(key)
}
