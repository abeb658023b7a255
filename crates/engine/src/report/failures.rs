//! What failed in a run and what becomes of it: the items sorted, each with its history.

use std::collections::BTreeMap;

use redrive_core::id::{ItemSeq, RunId};
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
    /// Whether there are more than are shown.
    pub more: bool,
}

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

/// Reports the items of a run that failed at their present stage: dead ones, and those that wait to be tried again.
///
/// # Errors
/// When the store fails.
pub async fn failures(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    now: Timestamp,
    limit: usize,
) -> Result<FailureReport> {
    let limit = limit.min(MOST);
    let mut items = Vec::new();
    let mut owners = BTreeMap::new();
    let mut after = None;
    let mut more = false;
    'pages: loop {
        let filter = ItemFilter { run: Some(row.id), failed: true, ..ItemFilter::default() };
        let page = store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let full = page.len() == PAGE;
        after = page.last().map(|item| item.seq);
        // What failed and then passed is no failure any more; `stats` counts it.
        let unsettled = |item: &&Item| {
            matches!(item.state.kind(), StateKind::Dead | StateKind::Waiting | StateKind::Running)
        };
        for item in page.iter().filter(unsettled) {
            if items.len() == limit {
                more = true;
                break 'pages;
            }
            let life = explain(store, row, item, plan, None, now).await?;
            let mut view = life.item;
            view.payload = None;
            let errors = life.attempts.into_iter().filter(|attempt| attempt.class.is_some()).collect();
            let retries = item.attempt.saturating_sub(1);
            let next_at = view.due.clone();
            let of = own_key(store, item, &mut owners).await?;
            items.push(FailedItem { item: view, of, errors, marks: life.marks, retries, next_at });
        }
        if !full {
            break;
        }
    }
    items.sort_by(|a, b| (&a.of, &a.item.key).cmp(&(&b.of, &b.item.key)));
    let mut failed: Vec<String> = items.iter().map(|failed| failed.of.clone()).collect();
    failed.dedup();
    Ok(FailureReport {
        failed,
        run: row.id,
        pipeline: row.spec.pipeline.clone(),
        source: row.spec.source.clone(),
        items,
        more,
    })
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
