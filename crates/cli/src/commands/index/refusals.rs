//! Files that could not be indexed as they are, or not all of them: they are not tried again until they change or somebody
//! asks.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::tally::Metric;
use redrive_ingest::payload::FilePayload;
use redrive_ingest::worker::NOT_A_TEXT;
use redrive_operate::Error;
use redrive_store::index::Refused;
use redrive_store::{Content, ItemFilter, ItemQuery, RunFilter, RunRow};

use crate::wiring::{Shelf, Stores};

const PAGE: usize = 500;
/// Earlier runs are looked at up to this many for files that were given up; older ones have been before.
const RUNS: usize = 3;
/// And up to this many for files that lack a part, which is noted nowhere else.
const RUNS_FAR: usize = 200;

/// Notes which files the last finished runs gave up.
pub async fn remember(stores: &Stores, shelf: &Shelf, root: &str) -> Result<(), Error> {
    for row in finished(stores, root, RUNS).await? {
        for state in [StateKind::Dead, StateKind::Filtered] {
            remember_of(stores, shelf, row.id, state).await?;
        }
    }
    Ok(())
}

/// The files that the last finished runs left in the index without some of their chunks.
pub async fn incomplete(stores: &Stores, root: &str) -> Result<HashSet<String>, Error> {
    let (mut paths, mut parents) = (HashSet::new(), HashSet::new());
    for row in finished(stores, root, RUNS_FAR).await? {
        let counters = stores.store.counters(row.id).await?;
        let dead = Metric::State(StateKind::Dead);
        if !counters.iter().any(|(_, metric, n)| *metric == dead && *n > 0) {
            continue;
        }
        let mut after = None;
        loop {
            let state = Some(StateKind::Dead);
            let filter = ItemFilter { run: Some(row.id), state, ..ItemFilter::default() };
            let page = stores.store.items(ItemQuery { filter, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            for parent in page.iter().filter_map(|item| item.parent) {
                if parents.insert(parent)
                    && let Some(file) = stores.store.item(parent).await?
                {
                    paths.insert(file.key.to_string());
                }
            }
        }
    }
    Ok(paths)
}

/// The last finished runs over a directory.
async fn finished(stores: &Stores, root: &str, most: usize) -> Result<Vec<RunRow>, Error> {
    let filter = RunFilter {
        pipeline: Some(super::pipeline::NAME.to_owned()),
        source: Some(root.to_owned()),
        unfinished: false,
        uncancelled: false,
    };
    let rows = stores.store.runs(filter, None, most).await?;
    Ok(rows.into_iter().filter(|row| row.finished_at.is_some()).collect())
}

/// Notes the files of one run that ended in this state for good.
async fn remember_of(stores: &Stores, shelf: &Shelf, run: RunId, state: StateKind) -> Result<(), Error> {
    let mut after = None;
    loop {
        let filter = ItemFilter { run: Some(run), state: Some(state), top: true, ..ItemFilter::default() };
        let page = stores.store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.seq);
        let mut refused = Vec::new();
        for (item, why) in page.iter().filter_map(|item| why(item).map(|why| (item, why))) {
            let Some(Content::Whole(payload)) = stores.store.payload(item.seq).await? else { continue };
            let Ok(file) = serde_json::from_slice::<FilePayload>(&payload) else { continue };
            refused.push(Refused { path: Arc::from(file.path.to_string()), version: file.hash, why });
        }
        stores.index.refuse(shelf.collection.no, refused).await?;
    }
}

/// Why a file will not get into the index as it is; `None` for what may pass another time.
fn why(item: &Item) -> Option<String> {
    match &item.state {
        State::Dead { .. } => {
            let why = item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
            // A permission can be given without the file being changed.
            (!why.starts_with("permission denied")).then_some(why)
        }
        State::Filtered { reason } => reason.starts_with(NOT_A_TEXT).then(|| reason.clone()),
        _ => None,
    }
}
