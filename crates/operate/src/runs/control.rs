//! Runs are paused and taken out.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admin::{self, Act};
use redrive_engine::report::{RunReport, dead_items, live_items};

use super::show::report_changed;
use super::{KnownRun, Runs};
use crate::error::{Code, Error, Result};
use crate::{Floor, Role};

/// Most characters of the words that somebody gives.
const WORDS: usize = 500;

/// Refuses what makes no sense for a finished run.
///
/// # Errors
/// When the run is finished.
pub fn refuse_finished(known: &KnownRun) -> Result<()> {
    match known.row.finished_at {
        Some(_) => {
            let message = format!("run {} is finished already", known.row.id);
            Err(Error::refused(message).code(Code::RunFinished))
        }
        None => Ok(()),
    }
}

/// Refuses to take out a run that ended in another way.
///
/// # Errors
/// When the run is finished, and not because it was cancelled.
pub fn refuse_cancelling(known: &KnownRun) -> Result<()> {
    if known.row.control == Control::Cancelled { Ok(()) } else { refuse_finished(known) }
}

/// Refuses to let a run go on, or to take more, that has as many dead items as it may have.
///
/// # Errors
/// When it has, or the store fails.
pub(crate) async fn refuse_full(floor: &Floor, run: RunId, most: Option<u64>) -> Result<()> {
    let Some(most) = most else { return Ok(()) };
    let dead = dead_items(&*floor.store, run).await?;
    if dead < most {
        return Ok(());
    }
    let message = format!("run {run} has {dead} dead items, and max_dead is {most}: it takes no more");
    Err(Error::paused(message).code(Code::RunPaused).hint(format!(
        "`redrive dead redrive --run {run} --all` sends them back, `redrive dead purge --run {run} --all` removes them; then `redrive resume {run}`"
    )))
}

/// Takes a run out for good: nothing new begins, everything unfinished is cancelled. One that was taken out already stays so,
/// and what a broken-off cancelling left is taken out now.
///
/// # Errors
/// When there is no such run, it is finished, or the store fails.
pub async fn cancel(floor: &Floor, run: RunId) -> Result<RunReport> {
    floor.require(Role::Operator)?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_cancelling(&known)?;
    let ended = known.row.control == Control::Cancelled && live_items(&*floor.store, run).await? == 0;
    if !ended {
        cancel_known(floor, &known).await?;
    }
    let row = floor.store.run(run).await?.unwrap_or_else(|| known.row.clone());
    report_changed(floor, known, row).await
}

/// Takes out a run that was found before.
pub(crate) async fn cancel_known(floor: &Floor, known: &KnownRun) -> Result<()> {
    admin::cancel(&*floor.store, known.row.id, &known.plan, &floor.asker.name, &floor.env).await?;
    Ok(())
}

/// Stops a run for now: what runs is finished and recorded, nothing new begins. `why` is for those who will wonder; it may be empty. Said
/// twice, the last words stand; without words, those that were given before.
///
/// # Errors
/// When there is no such run, it is finished or cancelled, or the store fails.
pub async fn pause(floor: &Floor, run: RunId, why: &str) -> Result<RunReport> {
    floor.require(Role::Operator)?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_finished(&known)?;
    if known.row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {run} was cancelled")).code(Code::RunCancelled));
    }
    let why = redrive_core::redact::clean(why.as_bytes(), WORDS);
    if known.row.control != Control::Paused {
        floor.write_down(Act::PauseRun { run }).await?;
    } else if why.is_empty() {
        let row = known.row.clone();
        return report_changed(floor, known, row).await;
    }
    let words = if why.is_empty() { String::new() } else { format!(": {why}") };
    let why = format!("paused{}{words}", floor.by());
    let row = admin::pause(&*floor.store, run, why, floor.now()).await?;
    report_changed(floor, known, row).await
}

/// Lets a paused run go on, and the gates it waits for, and leaves the work to whoever works on it: [`resume`](super::resume)
/// does that, too.
///
/// # Errors
/// When there is no such run, it is finished or cancelled, or the store fails.
pub async fn let_go_on(floor: &Floor, run: RunId) -> Result<RunReport> {
    floor.require(Role::Operator)?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    refuse_finished(&known)?;
    if known.row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {run} was cancelled")));
    }
    refuse_full(floor, run, known.definition.max_dead).await?;
    if known.row.control != Control::Go {
        floor.write_down(Act::ResumeRun { run }).await?;
    }
    let gates: Vec<String> = known.definition.gate_names().into_iter().flatten().collect();
    admin::resume_gates(&*floor.store, &gates, floor.now()).await?;
    let row = admin::resume(&*floor.store, run, floor.now()).await?;
    report_changed(floor, known, row).await
}
