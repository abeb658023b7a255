//! Reading what workers and processes share. What a newer version wrote is refused: to take it for nothing would lift a pause
//! or forgive a budget.

use redrive_core::budget::{self, Budget};
use redrive_core::gate::{self, GateState};
use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_store::{Error, GateRow, Result, RunRow};

/// Reads a gate.
pub(crate) fn gate(row: &GateRow, now: Timestamp) -> Result<GateState> {
    let unreadable = |why: gate::Unreadable| Error::Unreadable {
        what: format!("gate {}", row.name),
        why: why.to_string(),
    };
    GateState::read_at(&row.state, row.updated_at, now).map_err(unreadable)
}

/// Reads the failure budget of a run.
pub(crate) fn budget(row: &RunRow) -> Result<Budget> {
    Budget::load(row.budget.as_deref()).map_err(|why| unreadable_budget(row.id, &why))
}

/// The refusal of a failure budget.
pub(crate) fn unreadable_budget(run: RunId, why: &budget::Unreadable) -> Error {
    Error::Unreadable { what: format!("the failure budget of run {run}"), why: why.to_string() }
}
