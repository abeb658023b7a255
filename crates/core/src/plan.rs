//! What a decision needs to know of a pipeline: which stage follows which, and how each one retries.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::StageNo;
use crate::item::Item;
use crate::policy::{OwnPolicy, Policy};
use crate::time::Timestamp;

/// A pipeline as decisions see it: its stages, nested lists flattened depth first.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    stages: Vec<StagePlan>,
    deadline: Option<Duration>,
    grace: Duration,
    /// Stages that workers outside of the process do; no decision depends on it, but what is told of items that wait.
    external: Vec<StageNo>,
}

/// One stage of a [`Plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct StagePlan {
    /// Name, unique in the pipeline.
    pub name: String,
    /// The next stage of the same list.
    pub next: Option<StageNo>,
    /// The first stage of the list its children run through.
    pub first_child: Option<StageNo>,
    /// The stage whose children run through this one; `None` at the top.
    pub owner: Option<StageNo>,
    /// How it retries.
    pub policy: Policy,
    /// How long one call may take, before any lengthening.
    pub timeout: Duration,
    /// Mark of everything in its configuration that changes what it does.
    pub config: i64,
    /// What a child's death means for its parent.
    pub child_failure: ChildFailure,
}

impl StagePlan {
    /// The policy that an item at this stage goes under: one of its own, or the stage's.
    #[must_use]
    pub fn policy_of<'a>(&'a self, item: &'a Item) -> &'a Policy {
        item.policy.as_ref().map_or(&self.policy, OwnPolicy::policy)
    }
}

/// What the death of some, not all, of an item's children means for the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildFailure {
    /// The item goes on as `complete_with_failures`.
    #[default]
    Continue,
    /// The item is dead as well, until the children are redriven.
    Dead,
}

impl Plan {
    /// Puts stages together.
    ///
    /// # Panics
    /// When there is no stage, or a stage points outside the list: such a plan is a mistake in the program.
    #[must_use]
    pub fn new(stages: Vec<StagePlan>, deadline: Option<Duration>) -> Self {
        assert!(!stages.is_empty(), "a plan has at least one stage");
        for stage in &stages {
            for no in [stage.next, stage.first_child, stage.owner].into_iter().flatten() {
                assert!(no.index() < stages.len(), "stage {} points outside the plan", stage.name);
            }
        }
        Self { stages, deadline, grace: Duration::ZERO, external: Vec::new() }
    }

    /// The same plan for a run that was paused for so long: deadlines do not run during a pause.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The same plan, where workers outside of the process do these stages.
    #[must_use]
    pub fn with_external(self, external: Vec<StageNo>) -> Self {
        Self { external, ..self }
    }

    /// The stages that workers outside of the process do.
    #[must_use]
    pub fn external(&self) -> &[StageNo] {
        &self.external
    }

    /// How long the run was paused: no deadline ran meanwhile.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// When an item stops being worth a try.
    #[must_use]
    pub fn deadline_of(&self, item: &Item) -> Option<Timestamp> {
        item.deadline.map(|deadline| deadline.after(self.grace))
    }

    /// The stage with that number; `None` when an item comes from another version of the pipeline.
    #[must_use]
    pub fn stage(&self, no: StageNo) -> Option<&StagePlan> {
        self.stages.get(no.index())
    }

    /// The policy that an item goes under: one of its own, or that of the stage it is at.
    #[must_use]
    pub fn policy_of<'a>(&'a self, item: &'a Item) -> Option<&'a Policy> {
        self.stage(item.stage).map(|stage| stage.policy_of(item))
    }

    /// All stages with their numbers, depth first.
    pub fn stages(&self) -> impl Iterator<Item = (StageNo, &StagePlan)> {
        self.stages
            .iter()
            .enumerate()
            .map(|(no, stage)| (StageNo(u16::try_from(no).unwrap_or(u16::MAX)), stage))
    }

    /// How old an item may grow.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The stage of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<StageNo> {
        self.stages().find(|(_, stage)| stage.name == name).map(|(no, _)| no)
    }
}
