//! A paused run is let go on, with its failure budget forgiven.

use redrive_core::budget::BudgetChange;
use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Error, Pause, Result, RunChange, RunRow, Store};

use crate::{journal, shared};

/// How often a change is tried again because a worker wrote at the same moment.
const TRIES: u32 = 20;

/// Lets a run go on. A run that is not paused stays as it is; a cancelled one cannot go on.
///
/// # Errors
/// When the store fails, there is no such run, or its failure budget is a newer version's.
pub async fn resume(store: &dyn Store, run: RunId, now: Timestamp) -> Result<RunRow> {
    let mut row = store.run(run).await?.ok_or_else(|| Error::NotFound(format!("run {run}")))?;
    match row.control {
        Control::Go | Control::Cancelled => return Ok(row),
        Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {}
    }
    // Deadlines do not run during a pause.
    let before_ms = row.pause.before_ms + row.pause.since.map_or(0, |since| millis(now.since(since)));
    let pause = Some(Pause { since: None, before_ms });
    let go_on = RunChange { pause, ..RunChange::ask(Control::Go, None, now) };
    // The budget is forgiven before the run goes on, and looked at again where a worker that leaves has written it.
    for _ in 0..TRIES {
        let mut budget = shared::budget(&row)?;
        budget.forgive();
        let forgiven = budget.save();
        if row.budget.is_none() || forgiven == row.budget {
            let row = store.change_run(run, go_on).await?;
            journal::run_halted(run, Control::Go, "somebody resumed it");
            return Ok(row);
        }
        let change = forgiven.map(|becomes| BudgetChange { was: row.budget.clone(), becomes });
        row = store.change_run(run, RunChange { budget: change, ..RunChange::default() }).await?;
    }
    Err(Error::Busy(format!("the failure budget of run {run} is written to all the time")))
}
