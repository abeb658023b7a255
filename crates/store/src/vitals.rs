//! What monitoring asks for beside the counters of runs.

use redrive_core::id::{RunId, StageNo};
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;

use crate::run::{OperationKind, OperationState};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VitalsQuery {
    /// The time.
    pub now: Timestamp,
    /// An item that waits and was due before this is overdue.
    pub due_before: Timestamp,
    /// A retry came due when its time came after this.
    pub since: Timestamp,
    /// No more than so many items of a stage and kind are counted: what is more is told as so many.
    pub most: usize,
}

/// How things stand beside the counters, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vitals {
    /// Stages of runs where something waits or is held by nobody, by run and stage.
    pub stages: Vec<StageVitals>,
    /// What was counted in runs that are forgotten, by pipeline.
    pub pruned: Vec<PrunedCounters>,
    /// Operations by kind and state.
    pub operations: Vec<OperationCount>,
}

/// What waits to be told to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxView {
    /// Whether facts are kept. One by which an item is handed over is kept in any case.
    pub kept: bool,
    /// Facts that wait, counted up to the most that was asked for.
    pub waiting: u64,
    /// The time of the one with the smallest number.
    pub oldest: Option<Timestamp>,
}

/// A stage of a run where something waits or is held by nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageVitals {
    /// The run.
    pub run: RunId,
    /// The stage.
    pub stage: StageNo,
    /// When the next waiting item is due; `None` when none waits. What waits for an answer waits for no worker.
    pub next_due: Option<Timestamp>,
    /// Items that are held by a worker that was retired or whose lease is over.
    pub orphans: u64,
    /// Items that wait for a worker and are overdue.
    pub overdue: u64,
    /// Items that were tried before and whose time has not come.
    pub backing_off: u64,
    /// Items that were tried before, whose time has come since the moment that was asked about, and that wait in line.
    pub came_due: u64,
    /// Items that wait for an answer, and were to be looked after for it before the moment from which on others are overdue.
    pub unanswered: u64,
}

impl StageVitals {
    /// A stage where nothing is.
    #[must_use]
    pub fn of(run: RunId, stage: StageNo) -> Self {
        Self {
            run,
            stage,
            next_due: None,
            orphans: 0,
            overdue: 0,
            backing_off: 0,
            came_due: 0,
            unanswered: 0,
        }
    }
}

/// What was counted in the runs of a pipeline that are forgotten. Only what [only grows](redrive_core::tally::Metric::only_grows) is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedCounters {
    /// The pipeline.
    pub pipeline: String,
    /// By stage and metric.
    pub counters: Vec<Counter>,
}

/// How many operations there are of a kind in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationCount {
    /// The kind.
    pub kind: OperationKind,
    /// The state.
    pub state: OperationState,
    /// How many.
    pub n: u64,
}
