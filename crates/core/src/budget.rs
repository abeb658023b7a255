//! How much failure a run may have before it is stopped for a human to look at.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The limits. Items that succeed or die are counted; throttled, filtered and cancelled ones are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetSpec {
    /// Largest share of dead items among the last `window` finished ones.
    pub rate: f64,
    /// How many finished items are looked at.
    pub window: usize,
    /// Fewer finished items than this say nothing.
    pub min_samples: usize,
    /// So many dead items in a row stop the run, however small it is.
    pub consecutive: Option<u32>,
    /// Largest share of dead items over the whole run.
    pub cumulative: Option<f64>,
}

impl Default for BudgetSpec {
    fn default() -> Self {
        Self { rate: 0.10, window: 1000, min_samples: 50, consecutive: Some(25), cumulative: None }
    }
}

/// Why a budget is spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Breach {
    /// Too many of the last ones.
    #[error("{dead} of the last {of} finished items are dead, more than {:.1} %", rate * 100.0)]
    Window {
        /// Dead ones.
        dead: usize,
        /// Of so many.
        of: usize,
        /// The limit.
        rate: f64,
    },
    /// Too many in a row.
    #[error("{dead} items in a row are dead")]
    Consecutive {
        /// How many.
        dead: u32,
    },
    /// Too many in all.
    #[error("{dead} of {of} finished items are dead, more than {:.1} % of the whole run", rate * 100.0)]
    Cumulative {
        /// Dead ones.
        dead: u64,
        /// Of so many.
        of: u64,
        /// The limit.
        rate: f64,
    },
}

/// What was spent so far. It can be saved and loaded, so a restart does not forget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    #[serde(with = "marks")]
    window: VecDeque<bool>,
    dead_in_window: usize,
    in_a_row: u32,
    finished: u64,
    dead: u64,
}

impl Budget {
    /// Takes one finished item into account and says whether the budget is spent by it.
    pub fn observe(&mut self, spec: &BudgetSpec, is_dead: bool) -> Option<Breach> {
        self.window.push_back(is_dead);
        self.dead_in_window += usize::from(is_dead);
        while self.window.len() > spec.window.max(1) {
            self.dead_in_window -= usize::from(self.window.pop_front() == Some(true));
        }
        self.in_a_row = if is_dead { self.in_a_row.saturating_add(1) } else { 0 };
        self.finished += 1;
        self.dead += u64::from(is_dead);
        if is_dead { self.breach(spec) } else { None }
    }

    /// Forgets the window and the row: what a resumed run starts with. The totals stay.
    pub fn forgive(&mut self) {
        self.window.clear();
        self.dead_in_window = 0;
        self.in_a_row = 0;
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn breach(&self, spec: &BudgetSpec) -> Option<Breach> {
        if spec.consecutive.is_some_and(|limit| self.in_a_row >= limit) {
            return Some(Breach::Consecutive { dead: self.in_a_row });
        }
        let of = self.window.len();
        if of >= spec.min_samples && self.dead_in_window as f64 > spec.rate * of as f64 {
            return Some(Breach::Window { dead: self.dead_in_window, of, rate: spec.rate });
        }
        let rate = spec.cumulative?;
        (self.finished >= spec.min_samples as u64 && self.dead as f64 > rate * self.finished as f64)
            .then_some(Breach::Cumulative { dead: self.dead, of: self.finished, rate })
    }
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
mod tests {
    use super::*;

    fn spec() -> BudgetSpec {
        BudgetSpec { rate: 0.1, window: 20, min_samples: 10, consecutive: Some(5), cumulative: None }
    }

    #[test]
    fn a_few_failures_at_the_start_are_no_breach() {
        let mut budget = Budget::default();
        assert_eq!((0..4).find_map(|_| budget.observe(&spec(), true)), None);
    }

    #[test]
    fn an_outage_trips_by_the_row_however_good_the_past_was() {
        let mut budget = Budget::default();
        assert!((0..5000).all(|_| budget.observe(&spec(), false).is_none()));
        let generous = BudgetSpec { rate: 0.9, ..spec() };
        let tripped = (1..=10).find(|_| budget.observe(&generous, true).is_some());
        assert_eq!(tripped, Some(5));
    }

    #[test]
    fn the_window_slides() {
        let mut budget = Budget::default();
        let loose = BudgetSpec { consecutive: None, ..spec() };
        assert!((0..18).all(|_| budget.observe(&loose, false).is_none()));
        assert_eq!(budget.observe(&loose, true), None, "1 of 19");
        assert_eq!(budget.observe(&loose, true), None, "2 of 20");
        assert!(matches!(budget.observe(&loose, true), Some(Breach::Window { dead: 3, of: 20, .. })));
        assert!((0..20).all(|_| budget.observe(&loose, false).is_none()));
        assert_eq!(budget.observe(&loose, true), None, "the old ones are forgotten");
    }

    #[test]
    fn a_saved_budget_is_the_same_budget() {
        let mut budget = Budget::default();
        for n in 0..30 {
            budget.observe(&spec(), n % 7 == 0);
        }
        let saved = serde_json::to_string(&budget).expect("it can be saved");
        assert_eq!(serde_json::from_str::<Budget>(&saved).expect("and loaded"), budget);
    }

    #[test]
    fn forgiving_keeps_the_totals() {
        let mut budget = Budget::default();
        let total = BudgetSpec { consecutive: None, rate: 1.0, cumulative: Some(0.5), ..spec() };
        for n in 0..20 {
            budget.observe(&total, n % 2 == 0);
        }
        budget.forgive();
        assert!(matches!(budget.observe(&total, true), Some(Breach::Cumulative { dead: 11, of: 21, .. })));
    }
}
