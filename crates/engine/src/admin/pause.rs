//! A run is stopped for now.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Pause, Result, RunChange, RunRow, Store};

use crate::journal;

/// Stops a run for now: what runs is finished and recorded, nothing new begins. Deadlines do not run meanwhile.
///
/// # Errors
/// When the store fails or there is no such run.
pub async fn pause(store: &dyn Store, run: RunId, why: String, now: Timestamp) -> Result<RunRow> {
    let row = store.run(run).await?.ok_or_else(|| Error::NotFound(format!("run {run}")))?;
    let pause = Pause { since: row.pause.since.or(Some(now)), ..row.pause };
    let change = RunChange { pause: Some(pause), ..RunChange::ask(Control::Paused, Some(why.clone()), now) };
    let row = store.change_run(run, change).await?;
    journal::run_halted(run, Control::Paused, &why);
    Ok(row)
}
