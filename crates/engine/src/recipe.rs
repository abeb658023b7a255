//! A pipeline that can be run: its plan, and a handler for every stage.

use std::sync::Arc;

use redrive_core::budget::BudgetSpec;
use redrive_core::id::StageNo;
use redrive_core::order::Order;
use redrive_core::plan::Plan;
use redrive_core::status::Thresholds;

use crate::handler::Handler;

/// A pipeline with everything that is needed to run it.
pub struct Recipe {
    /// What decisions look at.
    pub plan: Plan,
    /// What does the work, one for each stage of the plan.
    pub stages: Vec<StageWork>,
    /// Who goes first.
    pub order: Order,
    /// Share reserved for the lane that goes second.
    pub share: f64,
    /// How much failure is too much; `None`: none is.
    pub budget: Option<BudgetSpec>,
    /// From which share of success on a run counts as what.
    pub thresholds: Thresholds,
}

/// How one stage does its work.
#[derive(Clone)]
pub struct StageWork {
    /// The handler.
    pub handler: Arc<dyn Handler>,
    /// Most items in one call.
    pub batch: usize,
    /// Most calls at a time.
    pub concurrency: usize,
    /// Keeps outputs under this mark of what the stage does, and uses a kept one instead of calling.
    pub reuse: Option<i64>,
}

impl StageWork {
    /// Most items that are called for at a time.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.concurrency.saturating_mul(self.batch)
    }
}

impl Recipe {
    /// How a stage does its work.
    #[must_use]
    pub fn work(&self, stage: StageNo) -> Option<&StageWork> {
        self.stages.get(stage.index())
    }
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipe").field("plan", &self.plan).finish_non_exhaustive()
    }
}
