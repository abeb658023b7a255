//! One stage's budget, observation by observation. Whole pipelines are in `tests/budget.rs`.

use super::*;

fn spec() -> BudgetSpec {
    BudgetSpec { rate: 0.1, window: 20, min_samples: 10, consecutive: Some(5), cumulative: None }
}

/// Something happens at a stage every millisecond.
#[derive(Default)]
struct Play {
    budget: StageBudget,
    now: i64,
}

impl Play {
    fn observe(&mut self, spec: &BudgetSpec, dead: bool) -> Option<Excess> {
        self.now += 1;
        let now = Timestamp(self.now);
        self.budget.observe(spec, if dead { Count::Died(now) } else { Count::Passed }, now)
    }

    fn died_failing_since(&mut self, spec: &BudgetSpec, since: i64) -> Option<Excess> {
        self.now += 1;
        self.budget.observe(spec, Count::Died(Timestamp(since)), Timestamp(self.now))
    }
}

#[test]
fn a_few_failures_at_the_start_are_no_breach() {
    let mut play = Play::default();
    assert_eq!((0..4).find_map(|_| play.observe(&spec(), true)), None);
}

#[test]
fn an_outage_trips_by_the_row_however_good_the_past_was() {
    let mut play = Play::default();
    assert!((0..5000).all(|_| play.observe(&spec(), false).is_none()));
    let generous = BudgetSpec { rate: 0.9, ..spec() };
    let tripped = (1..=10).find(|_| play.observe(&generous, true).is_some());
    assert_eq!(tripped, Some(5));
}

#[test]
fn retries_that_are_given_up_last_are_no_outage() {
    let mut play = Play::default();
    let spec = BudgetSpec { window: 1_000, ..spec() };
    assert!((0..990).all(|_| play.observe(&spec, false).is_none()));
    let while_others_passed = 900;
    assert!((0..10).all(|_| play.died_failing_since(&spec, while_others_passed).is_none()));
    // A clock that stepped back hides no outage.
    play.now = 100;
    let tripped = (1..=10).find(|_| play.observe(&spec, true).is_some());
    assert_eq!(tripped, Some(5));
}

#[test]
fn the_window_slides() {
    let mut play = Play::default();
    let loose = BudgetSpec { consecutive: None, ..spec() };
    assert!((0..18).all(|_| play.observe(&loose, false).is_none()));
    assert_eq!(play.observe(&loose, true), None, "1 of 19");
    assert_eq!(play.observe(&loose, true), None, "2 of 20");
    assert!(matches!(play.observe(&loose, true), Some(Excess::Window { dead: 3, of: 20, .. })));
    assert!((0..20).all(|_| play.observe(&loose, false).is_none()));
    assert_eq!(play.observe(&loose, true), None, "the old ones are forgotten");
}

#[test]
fn a_parent_that_dies_of_its_children_is_one_item_and_no_outage() {
    let mut play = Play::default();
    assert!((0..20).all(|_| play.observe(&spec(), false).is_none()));
    let died = |play: &mut Play| play.budget.observe(&spec(), Count::DiedOfChildren, Timestamp(99));
    assert_eq!((died(&mut play), died(&mut play)), (None, None));
    assert_eq!((play.budget.window.len(), play.budget.counted, play.budget.in_a_row), (20, 20, 0));
    assert!(matches!(died(&mut play), Some(Excess::Window { dead: 3, of: 20, .. })));
}

#[test]
fn a_saved_budget_is_the_same_budget() {
    let mut budget = Budget::default();
    for n in 0..30 {
        let now = Timestamp(n);
        let count = if n % 7 == 0 { Count::Died(now) } else { Count::Passed };
        budget.stage(StageNo(u16::try_from(n % 3).expect("small"))).observe(&spec(), count, now);
    }
    let saved = budget.save().expect("it can be saved");
    assert_eq!(Budget::load(Some(&saved)), Ok(budget));
    assert_eq!(Budget::load(None), Ok(Budget::default()));
}

#[test]
fn a_budget_of_finished_items_starts_anew_and_one_of_a_newer_version_is_refused() {
    let old = r#"{"window":"x..x","dead_in_window":2,"in_a_row":1,"finished":4,"dead":2}"#;
    assert_eq!(Budget::load(Some(old)), Ok(Budget::default()));
    assert!(Budget::starts_anew(old) && !Budget::starts_anew(r#"{"stages":[]}"#));
    for strange in ["", "{", "{}", "[]", r#"{"stages":"many"}"#, r#"{"window":"x","finished":4,"new":1}"#] {
        assert!(Budget::load(Some(strange)).is_err(), "{strange}");
    }
}

#[test]
fn forgiving_keeps_the_totals() {
    let mut budget = Budget::default();
    let total = BudgetSpec { consecutive: None, rate: 1.0, cumulative: Some(0.5), ..spec() };
    let died = Count::Died(Timestamp(0));
    for n in 0..20 {
        budget.stage(StageNo(0)).observe(&total, if n % 2 == 0 { died } else { Count::Passed }, Timestamp(0));
    }
    budget.forgive();
    let excess = budget.stage(StageNo(0)).observe(&total, died, Timestamp(0));
    assert!(matches!(excess, Some(Excess::Cumulative { dead: 11, of: 21, .. })));
}
