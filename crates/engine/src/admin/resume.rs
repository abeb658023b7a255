//! A paused run is let go on, with its failure budget forgiven.

use redrive_core::budget::Budget;
use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Error, Pause, Result, RunChange, RunRow, Store};

/// Lets a run go on. A run that is not paused stays as it is; a cancelled one cannot go on.
///
/// # Errors
/// When the store fails or there is no such run.
pub async fn resume(store: &dyn Store, run: RunId, now: Timestamp) -> Result<RunRow> {
    let row = store.run(run).await?.ok_or_else(|| Error::NotFound(format!("run {run}")))?;
    match row.control {
        Control::Go | Control::Cancelled => Ok(row),
        Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {
            let mut budget = Budget::load(row.budget.as_deref()).unwrap_or_default();
            budget.forgive();
            let change = RunChange {
                control: Some((Control::Go, None)),
                budget: budget.save(),
                // Deadlines do not run during a pause.
                pause: Some(Pause {
                    since: None,
                    before_ms: row.pause.before_ms
                        + row.pause.since.map_or(0, |since| millis(now.since(since))),
                }),
                ..RunChange::default()
            };
            store.change_run(run, change).await
        }
    }
}
