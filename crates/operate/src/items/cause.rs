//! Why items of a stage that are due are not taken.

use redrive_core::id::StageNo;
use redrive_core::status::Control;
use redrive_engine::report::{Crew, GateReport, PauseView};
use redrive_pipeline::Definition;
use redrive_store::{Pauses, RunRow};

use crate::gates::GateList;

/// What keeps items that are due.
pub(crate) enum Cause<'a> {
    /// The run is being cancelled.
    Cancelling,
    /// The run is paused.
    RunPaused,
    /// The pipeline or the stage is paused.
    Paused(PauseView),
    /// The gate of the stage is not open.
    Gate(&'a GateReport),
    /// External workers do the stage, and none asks.
    External,
    /// Nobody works on the run.
    Nobody,
    /// Others go first.
    Line,
}

impl Cause<'_> {
    /// The name that metrics have for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cancelling => "cancelling",
            Self::RunPaused => "run_paused",
            Self::Paused(_) => "paused",
            Self::Gate(_) => "gate",
            Self::External => "external",
            Self::Nobody => "nobody",
            Self::Line => "line",
        }
    }
}

/// What items may wait for.
pub(crate) struct Around<'a> {
    /// Who is there to work.
    pub(crate) crew: &'a Crew,
    /// How gates stand.
    pub(crate) gates: &'a GateList,
    /// What is paused.
    pub(crate) pauses: &'a Pauses,
}

impl<'a> Around<'a> {
    /// What keeps items of a stage of a run, the first thing that has to change.
    pub(crate) fn cause(&self, row: &RunRow, definition: Option<&Definition>, no: StageNo) -> Cause<'a> {
        match row.control {
            Control::Cancelled => return Cause::Cancelling,
            Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {
                return Cause::RunPaused;
            }
            Control::Go => {}
        }
        let stage = definition.and_then(|definition| definition.all_stages().nth(no.index()));
        let paused = stage.and_then(|stage| self.pauses.stops(&row.spec.pipeline, &stage.name));
        if let Some(paused) = paused {
            return Cause::Paused(PauseView::from(paused));
        }
        let gate =
            definition.and_then(|definition| definition.gate_names().into_iter().nth(no.index()).flatten());
        if let Some(gate) = gate.and_then(|gate| self.gates.closed().find(|closed| closed.name == gate)) {
            return Cause::Gate(gate);
        }
        if definition.is_some_and(|definition| definition.plan().external().contains(&no)) {
            return Cause::External;
        }
        if self.crew.may_take(row.id) { Cause::Line } else { Cause::Nobody }
    }
}
