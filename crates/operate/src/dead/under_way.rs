//! Items that were sent back and have not ended: what a redrive that is said again goes on with.
//!
//! Sending back takes away what an item died of, so only the run and the item itself can be asked for here.

use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::status::Control;
use redrive_store::{ItemFilter, ItemQuery, RunFilter, RunRow};

use super::Selection;
use crate::Floor;
use crate::error::Result;
use crate::runs::Runs;

/// Items that are looked at a time.
const PAGE: usize = 500;
/// The states of what has not ended.
const LIVE: [StateKind; 3] = [StateKind::Waiting, StateKind::Running, StateKind::Joining];

/// Whether a selection asks for nothing but runs and items.
pub(super) fn is_all_that_was_asked(selection: &Selection) -> bool {
    selection.filters.iter().all(|filter| {
        let asked =
            ItemFilter { run: filter.run, ids: filter.ids, state: filter.state, ..ItemFilter::default() };
        *filter == asked
    })
}

/// The runs with such items that a selection means; paused ones come last, so that they keep no other from going on.
pub(super) async fn runs(floor: &Floor, selection: &Selection) -> Result<Vec<RunRow>> {
    let mut found = Vec::new();
    for (row, filter) in meant(floor, selection).await? {
        if !of_run(floor, row.id, &filter, 1).await?.is_empty() {
            found.push(row);
        }
    }
    found.sort_by_key(|row| (row.control != Control::Go, row.id));
    found.dedup_by_key(|row| row.id);
    Ok(found)
}

/// At most so many such items.
pub(super) async fn items(floor: &Floor, selection: &Selection, most: usize) -> Result<Vec<Item>> {
    let mut found: Vec<Item> = Vec::new();
    for (row, filter) in meant(floor, selection).await? {
        let left = most.saturating_sub(found.len());
        found.extend(of_run(floor, row.id, &filter, left).await?);
    }
    Ok(found)
}

/// The unfinished runs that a selection means, each with what of the selection can still be asked.
async fn meant(floor: &Floor, selection: &Selection) -> Result<Vec<(RunRow, ItemFilter)>> {
    let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
    let rows = Runs::of(&*floor.store).all(unfinished).await?;
    let mut found = Vec::new();
    for row in rows {
        let of = |filter: &&ItemFilter| filter.run.is_none_or(|run| run == row.id);
        if let Some(filter) = selection.filters.iter().find(of) {
            found.push((row, ItemFilter { ids: filter.ids, ..ItemFilter::default() }));
        }
    }
    Ok(found)
}

async fn of_run(floor: &Floor, run: RunId, filter: &ItemFilter, most: usize) -> Result<Vec<Item>> {
    let mut found: Vec<Item> = Vec::new();
    for state in LIVE {
        let filter = ItemFilter { run: Some(run), state: Some(state), ..filter.clone() };
        let mut query = ItemQuery { filter, after: None, limit: PAGE };
        while found.len() < most {
            let page = floor.store.items(query.clone()).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.seq);
            found.extend(page.into_iter().filter(|item| item.generation > 0));
        }
    }
    found.truncate(most);
    Ok(found)
}
