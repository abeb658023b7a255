//! The failure budget over whole pipelines: stages of different speed, deaths at each of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use redrive_core::budget::{Breach, Budget, BudgetSpec, Excess};
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, State};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::time::Timestamp;

const ITEMS: usize = 1_200;
/// Items that a stage works on at a time.
const PLACES: usize = 8;

/// How an item that is to die does so.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deaths {
    /// At once, evenly spread.
    Even,
    /// At once, by chance.
    Chance,
    /// After retries, evenly spread.
    Late,
}

/// One run: which stage is slow, where items die, and how many.
#[derive(Debug, Clone, Copy)]
struct Case {
    stages: usize,
    slow: usize,
    sick: usize,
    permille: usize,
    deaths: Deaths,
}

impl Case {
    fn plan(self) -> Plan {
        let policy = if self.deaths == Deaths::Late { "sample" } else { "none" };
        let stage = |no: usize| StagePlan {
            name: format!("s{no}"),
            next: (no + 1 < self.stages).then(|| StageNo(u16::try_from(no + 1).expect("few"))),
            first_child: None,
            owner: None,
            policy: preset(policy).expect("it is there").policy.clone(),
            timeout: Duration::from_secs(60),
            config: 0,
            child_failure: ChildFailure::Continue,
        };
        Plan::new((0..self.stages).map(stage).collect(), None)
    }

    fn dies(self, item: &Item) -> bool {
        let n = usize::try_from(item.seq.0).expect("from zero");
        let luck = match self.deaths {
            Deaths::Even | Deaths::Late => {
                return (n + 1) * self.permille / 1_000 > n * self.permille / 1_000;
            }
            Deaths::Chance => item.id.0[..8].iter().fold(0_usize, |sum, byte| sum * 31 + usize::from(*byte)),
        };
        luck % 1_000 < self.permille
    }

    fn reply(self, item: &Item) -> ItemReply {
        if item.stage.index() != self.sick || !self.dies(item) {
            return ItemReply::Output(None);
        }
        let class = if self.deaths == Deaths::Late { Class::Retryable } else { Class::Final };
        ItemReply::Failed { failure: Failure::new(class, Kind::Server, "no"), shared: false }
    }

    /// A slow stage takes a hundred times as long as the others.
    fn takes(self, stage: StageNo) -> i64 {
        if stage.index() == self.slow { 100 } else { 1 }
    }
}

fn begin(n: usize) -> Item {
    let entry = Entry {
        run: RunId(1),
        parent: None,
        stage: StageNo(0),
        reading: 1,
        deadline: None,
        now: Timestamp(0),
    };
    let new = NewItem::new(n.to_string(), *b"{}", 0);
    let version = ContentHash::of(&[&n.to_le_bytes()]);
    let id = ItemId::derive(RunId(1), None, &new.key, version);
    entry.item(&new, ItemSeq(i64::try_from(n).expect("few")), id, version)
}

/// What a stage has seen, kept whole: the definition of the budget, without its bookkeeping.
#[derive(Default, Clone)]
struct Seen(Vec<(Timestamp, Option<Timestamp>)>);

impl Seen {
    fn excess(&self, spec: &BudgetSpec) -> Option<&'static str> {
        let (_, Some(_)) = self.0.last()? else { return None };
        let row = self.0.iter().rev().take_while(|(_, dead)| dead.is_some());
        let passed = self.0.iter().rev().find(|(_, dead)| dead.is_none()).map(|(at, _)| *at);
        let row = row.filter(|(_, since)| passed.is_none_or(|passed| *since >= Some(passed))).count();
        if spec.consecutive.is_some_and(|limit| row >= usize::try_from(limit).expect("small")) {
            return Some("row");
        }
        let window = &self.0[self.0.len().saturating_sub(spec.window)..];
        let dead = window.iter().filter(|(_, dead)| dead.is_some()).count();
        // Shares in whole numbers: a tenth.
        (window.len() >= spec.min_samples && dead * 10 > window.len()).then_some("window")
    }
}

/// Plays a pipeline until everything is finished or the budget is spent. At every step the budget says what its
/// definition says.
fn play(case: Case) -> Option<Breach> {
    let (plan, spec) = (case.plan(), BudgetSpec::default());
    let mut budget = Budget::default();
    let mut seen = vec![Seen::default(); case.stages];
    let mut queues = vec![VecDeque::new(); case.stages];
    queues[0] = (0..ITEMS).map(begin).collect();
    let mut working = vec![0; case.stages];
    let mut items: Vec<Option<Item>> = vec![None; ITEMS];
    let mut events = BinaryHeap::new();
    let mut now = Timestamp(0);
    loop {
        for stage in 0..case.stages {
            while working[stage] < PLACES
                && let Some(item) = queues[stage].pop_front()
            {
                working[stage] += 1;
                let claimed = Event::Claimed { worker: WorkerId(1) };
                let claimed = change(&item, claimed, &plan, now).after;
                events.push(Reverse((now.0 + case.takes(item.stage), claimed.seq.0)));
                let place = usize::try_from(claimed.seq.0).expect("from zero");
                items[place] = Some(claimed);
            }
        }
        let Reverse((at, seq)) = events.pop()?;
        now = Timestamp(at);
        let item = items[usize::try_from(seq).expect("from zero")].take().expect("it was put there");
        if let State::Waiting { .. } = item.state {
            queues[item.stage.index()].push_back(item);
            continue;
        }
        working[item.stage.index()] -= 1;
        let reply = case.reply(&item);
        let transition = change(&item, Event::Finished(reply), &plan, now);
        let after = &transition.after;
        match after.state {
            State::Waiting { .. } if after.stage != item.stage => {
                seen[item.stage.index()].0.push((now, None));
                queues[after.stage.index()].push_back(after.clone());
            }
            State::Waiting { due, .. } => {
                events.push(Reverse((due.0, seq)));
                items[usize::try_from(seq).expect("from zero")] = Some(after.clone());
            }
            State::Succeeded => seen[item.stage.index()].0.push((now, None)),
            _ => seen[item.stage.index()].0.push((now, after.first_failed_at)),
        }
        let breach = budget.observe(&spec, &plan, &transition);
        let ended = !matches!(after.state, State::Waiting { .. }) || after.stage != item.stage;
        let expected = ended.then(|| seen[item.stage.index()].excess(&spec)).flatten();
        let said = breach.as_ref().map(|breach| match breach.excess {
            Excess::Consecutive { .. } => "row",
            Excess::Window { .. } | Excess::Cumulative { .. } => "window",
        });
        assert_eq!(said, expected, "{case:?}, {:?}", breach);
        if breach.is_some() {
            return breach;
        }
    }
}

fn change(item: &Item, event: Event, plan: &Plan, now: Timestamp) -> Transition {
    decide(item, event, plan, Moment { now, draw: Draw::MIDDLE }).expect("it can happen")
}

#[test]
fn a_run_is_paused_exactly_where_too_many_of_a_stages_last_items_died() {
    let mut paused = 0;
    for stages in 1..=4 {
        let places = (0..stages).flat_map(|slow| (0..stages).map(move |sick| (slow, sick)));
        for ((slow, sick), permille) in places.flat_map(|at| [5, 20, 50, 120, 600].map(|rate| (at, rate))) {
            for deaths in [Deaths::Even, Deaths::Chance, Deaths::Late] {
                let case = Case { stages, slow, sick, permille, deaths };
                let breach = play(case);
                paused += usize::from(breach.is_some());
                match deaths {
                    Deaths::Even | Deaths::Late if permille > 100 => {
                        let breach = breach.unwrap_or_else(|| panic!("{case:?} is paused"));
                        assert_eq!(breach.stage, format!("s{sick}"), "{case:?}");
                    }
                    Deaths::Even => assert_eq!(breach, None, "{case:?}"),
                    // By chance a window may be sick where the whole is not, and what is given up late may come at once:
                    // then the window says so, and no row does.
                    Deaths::Chance | Deaths::Late if permille <= 50 => {
                        let row = matches!(&breach, Some(breach) if matches!(breach.excess, Excess::Consecutive { .. }));
                        assert!(!row, "{case:?}");
                    }
                    Deaths::Chance | Deaths::Late => {}
                }
            }
        }
    }
    assert!(paused >= 120, "{paused} of 450 were paused");
}

#[test]
fn the_reason_names_stage_window_and_share() {
    let case = Case { stages: 3, slow: 2, sick: 1, permille: 120, deaths: Deaths::Even };
    let breach = play(case).expect("it is paused");
    assert_eq!(breach.to_string(), "stage s1: 6 of its last 50 items died, more than 10.0 %");
}

#[test]
fn a_resumed_run_does_not_trip_on_the_old_window() {
    let case = Case { stages: 1, slow: 0, sick: 0, permille: 0, deaths: Deaths::Even };
    let (plan, spec) = (case.plan(), BudgetSpec::default());
    let mut budget = Budget::default();
    let running = |n| change(&begin(n), Event::Claimed { worker: WorkerId(1) }, &plan, Timestamp(0)).after;
    let observe = |budget: &mut Budget, n: usize, dies: bool| {
        let failure = Failure::new(Class::Final, Kind::Server, "no");
        let reply = if dies { ItemReply::Failed { failure, shared: false } } else { ItemReply::Output(None) };
        let at = Timestamp(i64::try_from(n).expect("few"));
        budget.observe(&spec, &plan, &change(&running(n), Event::Finished(reply), &plan, at))
    };
    assert!((0..100).any(|n| observe(&mut budget, n, n % 8 == 0).is_some()), "12.5 % are too many");
    let mut resumed = budget.clone();
    assert!(observe(&mut budget, 100, true).is_some(), "it stays spent");
    resumed.forgive();
    assert!((100..400).all(|n| observe(&mut resumed, n, n % 20 == 0).is_none()), "5 % are not");
}

#[test]
fn filtered_items_neither_passed_nor_died() {
    let case = Case { stages: 1, slow: 0, sick: 0, permille: 0, deaths: Deaths::Even };
    let (plan, spec) = (case.plan(), BudgetSpec::default());
    let mut budget = Budget::default();
    for n in 0..500 {
        let running = change(&begin(n), Event::Claimed { worker: WorkerId(1) }, &plan, Timestamp(0)).after;
        let filtered = Event::Finished(ItemReply::Filtered("not wanted".to_owned()));
        budget.observe(&spec, &plan, &change(&running, filtered, &plan, Timestamp(1)));
    }
    assert_eq!(budget, Budget::default());
}
