//! Runs are paused and taken out.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::RunReport;

use super::show::report_changed;
use super::{KnownRun, Runs};
use crate::Floor;
use crate::error::{Error, Result};

/// Refuses what makes no sense for a finished run.
///
/// # Errors
/// When the run is finished.
pub fn refuse_finished(known: &KnownRun) -> Result<()> {
    match known.row.finished_at {
        Some(_) => Err(Error::refused(format!("run {} is finished already", known.row.id))),
        None => Ok(()),
    }
}

/// Takes a run out for good: nothing new begins, everything unfinished is cancelled.
///
/// # Errors
/// When there is no such run, it is finished, or the store fails.
pub async fn cancel(floor: &Floor, run: RunId) -> Result<RunReport> {
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_finished(&known)?;
    cancel_known(floor, &known).await?;
    let row = floor.store.run(run).await?.unwrap_or_else(|| known.row.clone());
    report_changed(floor, known, row).await
}

/// Takes out a run that was found before.
pub(crate) async fn cancel_known(floor: &Floor, known: &KnownRun) -> Result<()> {
    admin::cancel(&*floor.store, known.row.id, &known.plan, &floor.actor, &floor.env).await?;
    Ok(())
}

/// Stops a run for now: what runs is finished and recorded, nothing new begins.
///
/// # Errors
/// When there is no such run, it is finished or cancelled, or the store fails.
pub async fn pause(floor: &Floor, run: RunId) -> Result<RunReport> {
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_finished(&known)?;
    if known.row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {run} is finished already")));
    }
    let why = format!("paused{}", floor.by());
    let row = admin::pause(&*floor.store, run, why, floor.now()).await?;
    report_changed(floor, known, row).await
}

/// Lets a paused run go on, and the gates it waits for, and leaves the work to whoever works on it: [`resume`](super::resume)
/// does that, too.
///
/// # Errors
/// When there is no such run, it is finished or cancelled, or the store fails.
pub async fn let_go_on(floor: &Floor, run: RunId) -> Result<RunReport> {
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_finished(&known)?;
    if known.row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {run} was cancelled")));
    }
    let gates: Vec<String> = known.definition.gate_names().into_iter().flatten().collect();
    admin::resume_gates(&*floor.store, &gates, floor.now()).await?;
    let row = admin::resume(&*floor.store, run, floor.now()).await?;
    report_changed(floor, known, row).await
}
