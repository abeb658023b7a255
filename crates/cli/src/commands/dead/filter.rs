//! From what was typed to what a store is asked.

use redrive_core::id::{ItemId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::time::{Timestamp, millis};
use redrive_operate::Error;
use redrive_store::{ItemFilter, RunFilter, RunRow, Store};

use super::super::explain::one_item;
use crate::args::DeadFilter;
use crate::wiring;

/// Whether anything narrows the filter down.
pub fn is_narrow(filter: &DeadFilter) -> bool {
    let DeadFilter { run, pipeline, stage, class, reason, group, text, since, item } = filter;
    // A run or a pipeline alone is a place, not a choice.
    let _ = (run, pipeline);
    stage.is_some()
        || class.is_some()
        || reason.is_some()
        || group.is_some()
        || text.is_some()
        || since.is_some()
        || item.is_some()
}

/// The filters to ask a store with; a stage or a pipeline means something else in every run, so there may be several.
pub async fn resolve(
    store: &dyn Store,
    typed: &DeadFilter,
    now: Timestamp,
) -> Result<Vec<ItemFilter>, Error> {
    let mut base = ItemFilter {
        run: typed.run,
        state: Some(StateKind::Dead),
        class: typed.class,
        reason: typed.reason,
        group: typed.group.clone(),
        text: typed.text.clone(),
        since: typed.since.map(|span| Timestamp(now.0.saturating_sub(millis(span)))),
        ..ItemFilter::default()
    };
    if let Some(name) = &typed.item {
        let id: ItemId = one_item(store, name, typed.run).await?.id;
        base.ids = Some((id, id));
    }
    if typed.stage.is_none() && typed.pipeline.is_none() {
        return Ok(vec![base]);
    }
    let mut filters = Vec::new();
    for row in runs(store, typed).await? {
        let stages = match &typed.stage {
            None => Vec::new(),
            Some(name) => match stage_of(&row, name) {
                Some(stage) => vec![stage],
                None => continue,
            },
        };
        filters.push(ItemFilter { run: Some(row.id), stages, ..base.clone() });
    }
    if filters.is_empty() {
        let stage = typed.stage.as_ref().map(|name| format!(" with a stage {name:?}")).unwrap_or_default();
        let pipeline = typed.pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
        return Err(
            Error::wrong(format!("there is no run{pipeline}{stage}")).hint("`redrive runs` lists the runs")
        );
    }
    Ok(filters)
}

fn stage_of(row: &RunRow, name: &str) -> Option<StageNo> {
    wiring::plan_of(row).and_then(|plan| plan.find(name))
}

async fn runs(store: &dyn Store, typed: &DeadFilter) -> Result<Vec<RunRow>, Error> {
    if let Some(run) = typed.run {
        return Ok(store.run(run).await?.into_iter().collect());
    }
    let filter = RunFilter { pipeline: typed.pipeline.clone(), ..RunFilter::default() };
    let mut rows: Vec<RunRow> = Vec::new();
    loop {
        let page = store.runs(filter.clone(), rows.last().map(|row| row.id), 500).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}
