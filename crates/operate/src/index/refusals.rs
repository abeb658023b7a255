//! Files that could not be indexed as they are, or not all of them: they are not tried again until they change or somebody
//! asks.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::tally::Metric;
use redrive_ingest::payload::FilePayload;
use redrive_ingest::worker::NOT_A_TEXT;
use redrive_store::index::Refused;
use redrive_store::{Content, ItemFilter, ItemQuery, RunCounters, RunFilter, RunRow, RunSet};

use super::{IndexTarget, PIPELINE};
use crate::Floor;
use crate::error::Result;

const PAGE: usize = 500;
/// Earlier runs are looked at up to this many for files that were given up; older ones have been before.
const RUNS: usize = 3;
/// And up to this many for files that lack a part, which is noted nowhere else.
const RUNS_FAR: usize = 200;

/// Notes which files the last finished runs gave up.
pub(super) async fn remember(floor: &Floor, target: &IndexTarget, root: &str) -> Result<()> {
    for row in finished(floor, root, RUNS).await? {
        for state in [StateKind::Dead, StateKind::Filtered] {
            remember_of(floor, target, row.id, state).await?;
        }
    }
    Ok(())
}

/// The files that the last finished runs left in the index without some of their chunks.
pub(super) async fn incomplete(floor: &Floor, root: &str) -> Result<HashSet<String>> {
    let (mut paths, mut parents) = (HashSet::new(), HashSet::new());
    let runs = finished(floor, root, RUNS_FAR).await?.iter().map(|row| row.id).collect();
    let dead = Metric::State(StateKind::Dead);
    let mut counted = floor.store.counters_of_all(RunSet::Of(runs)).await?;
    counted.retain(|run| run.counters.iter().any(|counter| counter.metric == dead && counter.n > 0));
    // As they are listed: the newest first.
    for RunCounters { run, .. } in counted.into_iter().rev() {
        let mut after = None;
        loop {
            let state = Some(StateKind::Dead);
            let filter = ItemFilter { run: Some(run), state, ..ItemFilter::default() };
            let page = floor.store.items(ItemQuery { filter, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            for parent in page.iter().filter_map(|item| item.parent) {
                if parents.insert(parent)
                    && let Some(file) = floor.store.item(parent).await?
                {
                    paths.insert(file.key.to_string());
                }
            }
        }
    }
    Ok(paths)
}

/// The last finished runs over a directory.
async fn finished(floor: &Floor, root: &str, most: usize) -> Result<Vec<RunRow>> {
    let filter = RunFilter {
        pipeline: Some(PIPELINE.to_owned()),
        source: Some(root.to_owned()),
        ..RunFilter::default()
    };
    let rows = floor.store.runs(filter, None, most).await?;
    Ok(rows.into_iter().filter(|row| row.finished_at.is_some()).collect())
}

/// Notes the files of one run that ended in this state for good.
async fn remember_of(floor: &Floor, target: &IndexTarget, run: RunId, state: StateKind) -> Result<()> {
    let mut after = None;
    loop {
        let filter = ItemFilter { run: Some(run), state: Some(state), top: true, ..ItemFilter::default() };
        let page = floor.store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.seq);
        let mut refused = Vec::new();
        for (item, why) in page.iter().filter_map(|item| why(item).map(|why| (item, why))) {
            let Some(Content::Whole(payload)) = floor.store.payload(item.seq).await? else { continue };
            let Ok(file) = serde_json::from_slice::<FilePayload>(&payload) else { continue };
            refused.push(Refused { path: Arc::from(file.path.to_string()), version: file.hash, why });
        }
        floor.index.refuse(target.collection.no, refused).await?;
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
