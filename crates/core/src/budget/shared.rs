//! One budget for all workers of a run.
//!
//! What is kept with the run is compared and set: a worker writes it only over the text that it was made from. Where another
//! worker was faster, it takes in what that one wrote and adds what it saw itself since. The budget names how many
//! observations of each worker it has, so that none is added twice, whichever answer was lost.

use std::collections::VecDeque;

use super::{Breach, Budget, BudgetSpec, Count, Excess, Unreadable, count};
use crate::event::Transition;
use crate::id::StageNo;
use crate::plan::Plan;
use crate::time::Timestamp;

/// Workers whose observations are told apart. Those beyond it are the oldest, and long gone.
const WORKERS: usize = 256;

/// A budget to be kept, unless another one is kept than it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetChange {
    /// The text it was made from.
    pub was: Option<String>,
    /// The text to be kept.
    pub becomes: String,
}

/// Something that a worker saw, by its own count.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    number: u64,
    stage: StageNo,
    count: Count,
    at: Timestamp,
}

/// A worker's copy of the budget.
#[derive(Debug, Clone, Default)]
pub struct SharedBudget {
    me: String,
    state: Budget,
    /// The text that is kept, as far as this worker knows.
    kept: Option<String>,
    /// What this worker saw and has not found in what is kept.
    pending: VecDeque<Seen>,
    seen: u64,
    /// Others wrote, and what was seen here is not in it.
    behind: bool,
}

impl SharedBudget {
    /// The copy of a worker, under a name that no other has, of what is kept. It may have had one before, which is saved.
    ///
    /// # Errors
    /// [`Unreadable`] for a text of a newer version.
    pub fn new(me: &str, kept: Option<&str>) -> Result<Self, Unreadable> {
        let (state, kept) = (Budget::load(kept)?, kept.map(ToOwned::to_owned));
        // A worker that comes back to a run counts on from what it saw of it before.
        let seen = state.taken.get(me).copied().unwrap_or(0);
        Ok(Self { me: me.to_owned(), state, kept, seen, ..Self::default() })
    }

    /// Takes a transition into account, and says whether the budget of its stage is spent by it.
    pub fn observe(&mut self, spec: &BudgetSpec, plan: &Plan, transition: &Transition) -> Option<Breach> {
        let count = count(transition)?;
        self.seen += 1;
        let (stage, at) = (transition.from.stage, transition.after.updated_at);
        let seen = Seen { number: self.seen, stage, count, at };
        self.pending.push_back(seen);
        self.add(spec, plan, &seen)
    }

    fn add(&mut self, spec: &BudgetSpec, plan: &Plan, seen: &Seen) -> Option<Breach> {
        let excess: Excess = self.state.stage(seen.stage).observe(spec, seen.count, seen.at)?;
        let name =
            plan.stage(seen.stage).map_or_else(|| seen.stage.0.to_string(), |stage| stage.name.clone());
        Some(Breach { stage: name, excess })
    }

    /// Whether something that was seen here got lost behind what others wrote, and should be saved soon.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// What is to be kept now; `None` when there is nothing new. From then on that is taken to be kept, until it is
    /// heard otherwise.
    pub fn save(&mut self) -> Option<BudgetChange> {
        if self.state.taken.get(&self.me).copied().unwrap_or(0) == self.seen {
            return None;
        }
        self.state.taken.insert(self.me.clone(), self.seen);
        while self.state.taken.len() > WORKERS
            && let Some(oldest) = self.oldest_other()
        {
            self.state.taken.remove(&oldest);
        }
        self.behind = false;
        let becomes = self.state.save()?;
        Some(BudgetChange { was: self.kept.replace(becomes.clone()), becomes })
    }

    /// The worker that is not this one and came up first: names are numbered, so shorter ones are older.
    fn oldest_other(&self) -> Option<String> {
        let others = self.state.taken.keys().filter(|name| **name != self.me);
        others.min_by_key(|name| (name.len(), *name)).cloned()
    }

    /// Takes in what is kept, and says whether that, with what was seen here, is too much.
    ///
    /// # Errors
    /// [`Unreadable`] for a text of a newer version; this copy then stays as it is.
    pub fn hear(
        &mut self,
        kept: Option<&str>,
        spec: &BudgetSpec,
        plan: &Plan,
    ) -> Result<Option<Breach>, Unreadable> {
        if kept == self.kept.as_deref() {
            let taken = self.state.taken.get(&self.me).copied().unwrap_or(0);
            self.pending.retain(|seen| seen.number > taken);
            return Ok(None);
        }
        self.state = Budget::load(kept)?;
        self.kept = kept.map(ToOwned::to_owned);
        let taken = self.state.taken.get(&self.me).copied().unwrap_or(0);
        self.pending.retain(|seen| seen.number > taken);
        self.behind = !self.pending.is_empty();
        let mut breach = None;
        for seen in self.pending.clone() {
            breach = self.add(spec, plan, &seen).or(breach);
        }
        Ok(breach)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::{ChildFailure, StagePlan};
    use crate::policy::preset;

    fn spec() -> BudgetSpec {
        BudgetSpec { rate: 0.5, window: 100, min_samples: 100, consecutive: Some(6), cumulative: None }
    }

    fn plan() -> Plan {
        let only = StagePlan {
            name: "only".to_owned(),
            next: None,
            first_child: None,
            owner: None,
            policy: preset("sample").expect("it is there").policy.clone(),
            timeout: Duration::from_secs(60),
            config: 0,
            child_failure: ChildFailure::Continue,
        };
        Plan::new(vec![only], None)
    }

    fn die(budget: &mut SharedBudget, times: u64) -> Option<Breach> {
        let mut breach = None;
        for _ in 0..times {
            budget.seen += 1;
            let at = Timestamp(1);
            let seen = Seen { number: budget.seen, stage: StageNo(0), count: Count::Died(at), at };
            budget.pending.push_back(seen);
            breach = budget.add(&spec(), &plan(), &seen).or(breach);
        }
        breach
    }

    /// As a store keeps it.
    fn keep(kept: &mut Option<String>, change: Option<BudgetChange>) -> bool {
        let Some(change) = change.filter(|change| change.was == *kept) else { return false };
        *kept = Some(change.becomes);
        true
    }

    fn counted(kept: Option<&String>) -> (u64, u32) {
        let budget = Budget::load(kept.map(String::as_str)).expect("readable");
        (budget.stages[0].counted, budget.stages[0].in_a_row)
    }

    #[test]
    fn two_workers_do_not_overwrite_each_other() {
        let mut kept = None;
        let mut one = SharedBudget::new("w1", None).expect("new");
        let mut two = SharedBudget::new("w2", None).expect("new");
        assert_eq!((die(&mut one, 3), die(&mut two, 3)), (None, None), "neither has seen six");
        assert!(keep(&mut kept, one.save()));
        assert!(!keep(&mut kept, two.save()), "it was made from nothing, and something is kept");
        let breach = two.hear(kept.as_deref(), &spec(), &plan()).expect("readable");
        assert!(matches!(breach, Some(Breach { excess: Excess::Consecutive { dead: 6 }, .. })), "{breach:?}");
        assert!(two.is_behind());
        assert!(keep(&mut kept, two.save()));
        assert_eq!(counted(kept.as_ref()), (6, 6));
        one.hear(kept.as_deref(), &spec(), &plan()).expect("readable");
        assert_eq!((one.save(), one.is_behind()), (None, false), "nothing is new");
    }

    #[test]
    fn a_save_whose_answer_was_lost_is_counted_once() {
        let mut kept = None;
        let mut one = SharedBudget::new("w1", None).expect("new");
        let mut two = SharedBudget::new("w2", None).expect("new");
        die(&mut one, 2);
        keep(&mut kept, one.save());
        two.hear(kept.as_deref(), &spec(), &plan()).expect("readable");
        die(&mut two, 1);
        assert!(keep(&mut kept, two.save()));
        // The first worker does not know whether its two arrived; they did, and another one is on top of them.
        one.hear(kept.as_deref(), &spec(), &plan()).expect("readable");
        die(&mut one, 1);
        assert!(keep(&mut kept, one.save()));
        assert_eq!(counted(kept.as_ref()), (4, 4));
    }

    #[test]
    fn a_save_that_never_arrived_is_made_up_for() {
        let mut kept = None;
        let mut one = SharedBudget::new("w1", None).expect("new");
        die(&mut one, 2);
        one.save();
        die(&mut one, 1);
        assert!(!keep(&mut kept, one.save()), "it stands on one that is not kept");
        one.hear(kept.as_deref(), &spec(), &plan()).expect("readable");
        assert!(one.is_behind());
        assert!(keep(&mut kept, one.save()));
        assert_eq!(counted(kept.as_ref()), (3, 3));
    }

    #[test]
    fn the_workers_that_are_told_apart_are_bounded() {
        let mut kept: Option<String> = None;
        for n in 0..2 * WORKERS {
            let mut one = SharedBudget::new(&format!("w{n}"), kept.as_deref()).expect("readable");
            die(&mut one, 1);
            assert!(keep(&mut kept, one.save()));
        }
        let budget = Budget::load(kept.as_deref()).expect("readable");
        assert_eq!(budget.taken.len(), WORKERS);
        assert!(budget.taken.contains_key("w511") && !budget.taken.contains_key("w9"));
        assert_eq!(budget.stages[0].counted, 2 * WORKERS as u64);
    }

    #[test]
    fn what_a_newer_version_wrote_is_refused_and_left() {
        let mut one = SharedBudget::new("w1", None).expect("new");
        die(&mut one, 2);
        let newer = r#"{"stages":[{"window":{"kind":"ring"}}]}"#;
        assert!(one.hear(Some(newer), &spec(), &plan()).is_err());
        assert!(SharedBudget::new("w2", Some(newer)).is_err());
        assert_eq!(
            one.save().map(|change| change.was),
            Some(None),
            "it would not be written over the newer one"
        );
    }
}
