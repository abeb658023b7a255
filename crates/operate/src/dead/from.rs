//! Dead items go again from a stage before the one that failed them.

use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_store::ItemFilter;

use super::Selection;
use super::redrive::{Redriven, touched};
use crate::again::dead_request;
use crate::error::Result;
use crate::sources::Readable;
use crate::work::{Observer, work_on};
use crate::{Floor, Role};

/// The requests that have the dead items of a selection done again from a stage, one for each run.
pub(crate) async fn requests_from(
    floor: &Floor,
    selection: &Selection,
    stage: &str,
) -> Result<Vec<admin::Rerun>> {
    let mut asked = Vec::new();
    for filter in &selection.filters {
        for run in touched(floor, std::slice::from_ref(filter)).await? {
            if run.control == Control::Cancelled {
                continue;
            }
            let dead = ItemFilter { run: Some(run.id), ..filter.clone() };
            asked.extend(dead_request(floor, run.id, stage, dead).await?);
        }
    }
    Ok(asked)
}

/// Has dead items done again from a stage that they have passed, or from the one that failed them. What stages before it made
/// is used again; what it and those after it made is made anew. `dry_run` says how many that would be.
///
/// # Errors
/// When a run has no such stage, or the store or a source fails; the same again does the rest.
pub async fn redrive_from(
    floor: &Floor,
    selection: &Selection,
    stage: &str,
    how: (bool, bool),
    observer: &dyn Observer,
) -> Result<Redriven> {
    floor.require(Role::Operator)?;
    let (dry_run, work) = how;
    let (store, plans) = (&*floor.store, Readable::of(floor));
    let mut done = Redriven { dry_run, ..Redriven::default() };
    for request in requests_from(floor, selection, stage).await? {
        let told = match dry_run {
            true => admin::preview_rerun(store, &plans, &request, &floor.env).await?,
            false => admin::rerun(store, &plans, &request, &floor.asker.name, &floor.env).await?.0,
        };
        done.items += told.sent();
        done.skipped += told.not_kept + told.gone + told.edited + told.moved;
        done.live.push(request.run);
    }
    if work && !dry_run {
        for run in &done.live {
            let worked = work_on(floor, *run, observer).await?;
            done.runs.push(worked.report);
            done.interrupted |= worked.interrupted;
        }
    }
    Ok(done)
}
