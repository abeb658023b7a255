//! The run of a pass: an unfinished one goes on, or a new one begins.

use redrive_core::status::Control;
use redrive_engine::{admin, crash};
use redrive_pipeline::Definition;
use redrive_store::{BegunRun, NewRun, RunFilter, RunRow};

use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::{Runs, cancel_known};
use crate::work::{Notice, Observer};

/// Goes on with the unfinished run of this pipeline and source, or begins one. One with other settings is cancelled, as is any when `anew` is said.
pub(crate) async fn go_on_or_begin(
    floor: &Floor,
    definition: &Definition,
    new: NewRun,
    anew: bool,
    observer: &dyn Observer,
) -> Result<RunRow> {
    let (store, now) = (&floor.store, floor.now());
    if let Some(unfinished) = store.runs(RunFilter::going_on(&new, false), None, 1).await?.pop()
        && (anew || unfinished.spec.definition != new.definition)
    {
        observer.notice(&Notice::Replaced { run: unfinished.id, asked: anew });
        cancel(floor, &unfinished).await?;
        if matches!(unfinished.control, Control::PausedQuota | Control::PausedOutage) {
            // Other settings are the answer to what it was paused for: the old reason no longer holds.
            resume_gates(floor, definition).await?;
        }
    }
    let BegunRun { row, created } = store.begin_run(new, false, now).await?;
    if created {
        crash::point("run.created");
        return Ok(row);
    }
    observer.notice(&Notice::GoingOn { run: row.id });
    match row.control {
        Control::Go => Ok(row),
        Control::PausedQuota | Control::PausedOutage => {
            resume_gates(floor, definition).await?;
            Ok(admin::resume(&**store, row.id, now).await?)
        }
        Control::Paused | Control::PausedBudget | Control::Cancelled => {
            Err(Error::paused(format!("run {} of this source is paused", row.id))
                .hint(format!("`redrive resume {}` lets it go on", row.id)))
        }
    }
}

/// Ends a run.
pub(crate) async fn cancel(floor: &Floor, row: &RunRow) -> Result<()> {
    cancel_known(floor, &Runs::of(&*floor.store).find(Some(row.id)).await?).await
}

async fn resume_gates(floor: &Floor, definition: &Definition) -> Result<()> {
    let gates: Vec<String> = definition.gate_names().into_iter().flatten().collect();
    admin::resume_gates(&*floor.store, &gates, floor.now()).await?;
    Ok(())
}
