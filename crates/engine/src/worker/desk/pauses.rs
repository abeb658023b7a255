//! Stages that somebody paused: nothing more is begun there.

use std::collections::BTreeSet;

use redrive_core::id::StageNo;
use redrive_store::{Pauses, PipelinePause};

use super::Desk;

/// What a desk knows of what is paused.
#[derive(Debug, Default)]
pub(super) struct Paused {
    /// The last change that was heard of.
    pub(super) rev: i64,
    rows: Vec<PipelinePause>,
    stages: BTreeSet<StageNo>,
}

/// What changed for a desk.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PausesHeard {
    /// Paused since.
    pub paused: Vec<PipelinePause>,
    /// Goes on again.
    pub resumed: Vec<PipelinePause>,
}

impl Desk {
    /// Takes in what is paused. What was claimed for a stage that is paused now and not begun is given back; what runs is
    /// finished.
    pub fn hear_pauses(&mut self, pauses: &Pauses) -> PausesHeard {
        let rows: Vec<PipelinePause> = pauses.on(&self.pipeline).cloned().collect();
        let stops = |(no, stage): (StageNo, &redrive_core::plan::StagePlan)| {
            pauses.stops(&self.pipeline, &stage.name).map(|_| no)
        };
        let stages: BTreeSet<StageNo> = self.recipe.plan.stages().filter_map(stops).collect();
        let same = |one: &PipelinePause, other: &PipelinePause| one.stage == other.stage;
        let missing = |from: &[PipelinePause], of: &[PipelinePause]| -> Vec<PipelinePause> {
            of.iter().filter(|row| !from.iter().any(|known| same(known, row))).cloned().collect()
        };
        let heard = PausesHeard {
            paused: missing(&self.paused.rows, &rows),
            resumed: missing(&rows, &self.paused.rows),
        };
        self.paused = Paused { rev: pauses.rev, rows, stages };
        for stage in self.paused.stages.clone() {
            self.release_waiting(stage);
        }
        heard
    }

    /// The last change of what is paused that the desk knows of.
    #[must_use]
    pub fn pauses_known(&self) -> i64 {
        self.paused.rev
    }

    /// Whether somebody paused a stage.
    #[must_use]
    pub fn is_paused(&self, stage: StageNo) -> bool {
        self.paused.stages.contains(&stage)
    }

    /// Whether somebody paused any of the stages.
    #[must_use]
    pub fn any_paused(&self) -> bool {
        !self.paused.stages.is_empty()
    }
}
