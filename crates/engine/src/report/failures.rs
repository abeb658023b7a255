//! What failed in a run and what becomes of it: the items sorted, each with its history.

use redrive_core::id::RunId;
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
    /// The items that failed, sorted by key.
    pub items: Vec<FailedItem>,
    /// Whether there are more than are shown.
    pub more: bool,
}

/// An item that failed.
#[derive(Debug, Serialize)]
pub struct FailedItem {
    /// The item.
    pub item: ItemView,
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
            items.push(FailedItem { item: view, errors, marks: life.marks, retries, next_at });
        }
        if !full {
            break;
        }
    }
    items.sort_by(|a, b| a.item.key.cmp(&b.item.key));
    Ok(FailureReport {
        run: row.id,
        pipeline: row.spec.pipeline.clone(),
        source: row.spec.source.clone(),
        items,
        more,
    })
}
