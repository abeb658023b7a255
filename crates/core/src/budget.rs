//! How much failure a run may have before it is stopped for a human to look at.
//!
//! Every stage has a budget of its own, counted where an item passes the stage or dies there. Items that are still in
//! later stages have passed the earlier ones, so a slow stage behind a fast one never makes a healthy run look sick.

mod shared;

pub use shared::{BudgetChange, SharedBudget};

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::event::Transition;
use crate::id::StageNo;
use crate::item::{DeadReason, State, StateKind};
use crate::plan::Plan;
use crate::time::Timestamp;

/// The limits, the same for every stage. Items that pass a stage or die there are counted; throttled, filtered, expired
/// and cancelled ones are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetSpec {
    /// Largest share of dead items among the last `window` ones that passed a stage or died there.
    pub rate: f64,
    /// How many items of a stage are looked at.
    pub window: usize,
    /// Fewer items of a stage than this say nothing.
    pub min_samples: usize,
    /// So many items that died in a row at one stage stop the run, however small it is.
    pub consecutive: Option<u32>,
    /// Largest share of dead items of a stage over the whole run.
    pub cumulative: Option<f64>,
}

impl Default for BudgetSpec {
    fn default() -> Self {
        Self { rate: 0.10, window: 1000, min_samples: 50, consecutive: Some(25), cumulative: None }
    }
}

/// Why a budget is spent: at which stage, and by what.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("stage {stage}: {excess}")]
pub struct Breach {
    /// The stage's name.
    pub stage: String,
    /// What was too much.
    pub excess: Excess,
}

/// What was too much at a stage.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Excess {
    /// Too many of the last ones.
    #[error("{dead} of its last {of} items died, more than {:.1} %", rate * 100.0)]
    Window {
        /// Dead ones.
        dead: usize,
        /// Of so many.
        of: usize,
        /// The limit.
        rate: f64,
    },
    /// Too many in a row.
    #[error("{dead} of its items died in a row")]
    Consecutive {
        /// How many.
        dead: u32,
    },
    /// Too many in all.
    #[error("{dead} of its {of} items died, more than {:.1} % of the whole run", rate * 100.0)]
    Cumulative {
        /// Dead ones.
        dead: u64,
        /// Of so many.
        of: u64,
        /// The limit.
        rate: f64,
    },
}

/// How a transition counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    /// The item passed the stage.
    Passed,
    /// It died there, having failed there since this moment.
    Died(Timestamp),
    /// It had passed, by giving children, and died of them: one that passed is taken back.
    DiedOfChildren,
}

/// How a transition counts, at the stage it is from.
fn count(transition: &Transition) -> Option<Count> {
    let after = &transition.after;
    match (transition.from.kind, &after.state) {
        // A deadline passes by waiting, not by failing; an operator knows what he does.
        (_, State::Dead { reason: DeadReason::Expired | DeadReason::Operator }) => None,
        (StateKind::Running, State::Dead { .. }) => {
            Some(Count::Died(after.first_failed_at.unwrap_or(after.updated_at)))
        }
        (StateKind::Joining, State::Dead { .. }) => Some(Count::DiedOfChildren),
        (StateKind::Running, State::Succeeded | State::Joining) => Some(Count::Passed),
        (StateKind::Running, State::Waiting { .. }) if after.stage != transition.from.stage => {
            Some(Count::Passed)
        }
        _ => None,
    }
}

/// What was spent so far. It can be saved and loaded, so a restart does not forget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// By the stages' numbers.
    stages: Vec<StageBudget>,
    /// How many observations of each worker are in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    taken: BTreeMap<String, u64>,
}

/// What was spent at one stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct StageBudget {
    #[serde(with = "marks")]
    window: VecDeque<bool>,
    in_a_row: u32,
    /// When an item last passed, as far as that is in the window's memory.
    passed_at: Option<Timestamp>,
    counted: u64,
    dead: u64,
}

/// A saved budget that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// A budget as the first version kept it: over the whole run, which cannot be told by stage.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTheWholeRun {
    #[serde(rename = "window")]
    _window: String,
    #[serde(rename = "dead_in_window")]
    _dead_in_window: u64,
    #[serde(rename = "in_a_row")]
    _in_a_row: u64,
    #[serde(rename = "finished")]
    _finished: u64,
    #[serde(rename = "dead")]
    _dead: u64,
}

impl Budget {
    /// Reads a saved budget. One of the first version starts anew: what it counted cannot be told by stage.
    ///
    /// # Errors
    /// [`Unreadable`] when a newer version wrote it, or when it is damaged.
    pub fn load(saved: Option<&str>) -> Result<Self, Unreadable> {
        let Some(saved) = saved else { return Ok(Self::default()) };
        if Self::starts_anew(saved) {
            return Ok(Self::default());
        }
        serde_json::from_str(saved).map_err(|error| Unreadable(error.to_string()))
    }

    /// Whether a saved budget is of the first version, and what it counted is forgotten.
    #[must_use]
    pub fn starts_anew(saved: &str) -> bool {
        serde_json::from_str::<OfTheWholeRun>(saved).is_ok()
    }

    /// How many observations of each worker are in it.
    #[must_use]
    pub fn taken(&self) -> &BTreeMap<String, u64> {
        &self.taken
    }

    /// The text to be saved.
    #[must_use]
    pub fn save(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Takes a transition into account, and says whether the budget of its stage is spent by it.
    pub fn observe(&mut self, spec: &BudgetSpec, plan: &Plan, transition: &Transition) -> Option<Breach> {
        let count = count(transition)?;
        let stage = transition.from.stage;
        let excess = self.stage(stage).observe(spec, count, transition.after.updated_at)?;
        let stage = plan.stage(stage).map_or_else(|| stage.0.to_string(), |stage| stage.name.clone());
        Some(Breach { stage, excess })
    }

    /// How much of its budget each stage has spent, by their numbers: 1 or more is a breach.
    pub fn spent(&self, spec: &BudgetSpec) -> impl Iterator<Item = f64> {
        self.stages.iter().map(move |stage| stage.spent(spec))
    }

    /// Forgets windows and rows: what a resumed run starts with. The totals stay.
    pub fn forgive(&mut self) {
        for stage in &mut self.stages {
            stage.window.clear();
            stage.in_a_row = 0;
            stage.passed_at = None;
        }
    }

    fn stage(&mut self, no: StageNo) -> &mut StageBudget {
        if self.stages.len() <= no.index() {
            self.stages.resize_with(no.index() + 1, StageBudget::default);
        }
        &mut self.stages[no.index()]
    }
}

impl StageBudget {
    fn observe(&mut self, spec: &BudgetSpec, count: Count, now: Timestamp) -> Option<Excess> {
        match count {
            Count::Passed => {
                self.push(spec, false);
                self.in_a_row = 0;
                self.passed_at = Some(now);
                return None;
            }
            Count::Died(failing_since) => {
                self.push(spec, true);
                // Somebody passed while this one was failing: the stage works, and a row of its like at the end of a run,
                // when only retries are left, is no outage.
                let others_pass =
                    self.passed_at.is_some_and(|passed| failing_since < passed && passed <= now);
                if !others_pass {
                    self.in_a_row = self.in_a_row.saturating_add(1);
                }
            }
            // The row is that of the stage its children died at.
            Count::DiedOfChildren => match self.window.iter_mut().rev().find(|dead| !**dead) {
                Some(passed) => {
                    *passed = true;
                    self.dead += 1;
                }
                None => self.push(spec, true),
            },
        }
        self.excess(spec)
    }

    fn push(&mut self, spec: &BudgetSpec, dead: bool) {
        self.window.push_back(dead);
        while self.window.len() > spec.window.max(1) {
            self.window.pop_front();
        }
        self.counted += 1;
        self.dead += u64::from(dead);
    }

    /// The largest of its shares of what [`StageBudget::excess`] compares with.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn spent(&self, spec: &BudgetSpec) -> f64 {
        let share =
            |dead: f64, most: f64| if most > 0.0 { dead / most } else { f64::from(u8::from(dead > 0.0)) };
        let row = spec.consecutive.map_or(0.0, |limit| share(self.in_a_row.into(), limit.into()));
        let (of, dead) = (self.window.len(), self.window.iter().filter(|dead| **dead).count());
        let window = if of >= spec.min_samples { share(dead as f64, spec.rate * of as f64) } else { 0.0 };
        let all = match spec.cumulative {
            Some(rate) if self.counted >= spec.min_samples as u64 => {
                share(self.dead as f64, rate * self.counted as f64)
            }
            _ => 0.0,
        };
        row.max(window).max(all)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn excess(&self, spec: &BudgetSpec) -> Option<Excess> {
        if spec.consecutive.is_some_and(|limit| self.in_a_row >= limit) {
            return Some(Excess::Consecutive { dead: self.in_a_row });
        }
        // Asked for at a death only, which is rare as long as the answer is no.
        let (of, dead) = (self.window.len(), self.window.iter().filter(|dead| **dead).count());
        if of >= spec.min_samples && dead as f64 > spec.rate * of as f64 {
            return Some(Excess::Window { dead, of, rate: spec.rate });
        }
        let rate = spec.cumulative?;
        (self.counted >= spec.min_samples as u64 && self.dead as f64 > rate * self.counted as f64)
            .then_some(Excess::Cumulative { dead: self.dead, of: self.counted, rate })
    }
}

/// When a stage would pause a run of so many items if this share of them, evenly spread, died there: after how many, and
/// by what; `None` when it would not.
#[must_use]
pub fn trips_after(spec: &BudgetSpec, dead_share: f64, items: u64) -> Option<(u64, Excess)> {
    /// By then every window is full and the answer does not change any more.
    const LONG: u64 = 100_000;
    let share = if dead_share.is_nan() { 0.0 } else { dead_share.clamp(0.0, 1.0) };
    let mut budget = StageBudget::default();
    let mut owed = 0.0;
    (1..=items.min(LONG)).find_map(|n| {
        owed += share;
        let dies = owed >= 1.0 - 1e-9;
        owed -= f64::from(u8::from(dies));
        let now = Timestamp(n.cast_signed());
        let count = if dies { Count::Died(now) } else { Count::Passed };
        budget.observe(spec, count, now).map(|excess| (n, excess))
    })
}

/// The window as a text of one mark per item, a tenth of the size of a list.
mod marks {
    use std::collections::VecDeque;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        window: &VecDeque<bool>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text: String = window.iter().map(|dead| if *dead { 'x' } else { '.' }).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<VecDeque<bool>, D::Error> {
        Ok(String::deserialize(deserializer)?.chars().map(|mark| mark == 'x').collect())
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
