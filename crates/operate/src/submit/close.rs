//! A standing run is closed.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admin::Act;
use redrive_engine::admit;
use redrive_engine::report::RunReport;
use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::runs::{KnownRun, Runs, report};
use crate::{Floor, Role};

/// A standing run that takes nothing more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Closed {
    /// Whether it had been closed before.
    pub before: bool,
    /// How it stands.
    #[serde(flatten)]
    pub report: RunReport,
}

/// Closes a standing run: it is finished once its items have ended, and what is handed in from now on goes to a new one.
///
/// # Errors
/// When there is no such run, it does not stand, it was cancelled, or the store fails.
pub async fn close(floor: &Floor, run: RunId) -> Result<Closed> {
    floor.require(Role::Operator)?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    if !known.row.spec.is_standing() {
        return Err(Error::refused(format!("run {run} reads a source, and ends with it"))
            .hint(format!("`redrive cancel {run}` takes it out before that")));
    }
    if known.row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {run} was cancelled, and takes nothing any more"))
            .code(Code::RunCancelled));
    }
    let before = known.row.admitted_all;
    if !before {
        floor.write_down(Act::CloseRun { run }).await?;
    }
    let row = admit::close(&*floor.store, run, floor.now()).await?;
    let report = report(floor, &KnownRun { row, ..known }).await?;
    Ok(Closed { before, report })
}
