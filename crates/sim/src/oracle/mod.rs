//! A model kept beside the store, from what was asked and answered, and the laws checked against it.
//!
//! The model is not told what the store holds: it works out what it must hold. After every write the touched items and
//! all counters are read back and compared; every `EVERY` writes, and at the end, everything is.

mod admit;
mod budget;
mod change;
mod claim;
mod end;
mod facts;
mod gates;
mod hints;
mod pauses;
mod policy;
mod turn;
mod verify;

pub use pauses::PIPELINE;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_core::attempt::AttemptRecord;
use redrive_core::event::{ChildTally, Mark, Place};
use redrive_core::id::{ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use redrive_core::item::{Item, Payload, State, StateKind};
use redrive_core::status::Control;
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_engine::recipe::Recipe;
use redrive_store::{Pauses, Retired, RunChange, RunRow};

use crate::hub::{Broken, Hub};
use crate::met::Met;
use crate::script::Script;

/// Writes between two checks of the whole store.
const EVERY: u64 = 64;

/// What a check says.
pub type Ruling = Result<(), Broken>;

/// Says that a law is broken.
pub(crate) fn broken<T>(law: &str, what: String) -> Result<T, Broken> {
    Err(Broken { law: law.to_owned(), what })
}

/// An item as it must be.
#[derive(Debug, Clone)]
pub struct Known {
    /// The item.
    pub item: Item,
    /// Its attempts.
    pub attempts: Vec<AttemptRecord>,
    /// The other marks in its history.
    pub marks: Vec<Mark>,
    /// Its content.
    pub payload: Payload,
    /// The content it began with, or was given by an operator, and the stage it had then.
    pub base: (StageNo, Payload),
    /// The content it was admitted with.
    pub first: Payload,
    /// The content it had when it was last expanded.
    pub expanded: Option<Payload>,
    /// How long the run had been paused, as far as the worker knew that last claimed it.
    pub paused_ms: i64,
    /// How often a handler was called with it, parts of a batch not counted again.
    pub called: u32,
    /// What stages found of it.
    pub found: BTreeMap<StageNo, Verdict>,
    /// Its change number when it was claimed and its content found damaged.
    pub damaged: Option<Rev>,
}

/// What is known of a worker.
#[derive(Debug, Clone, Copy)]
struct Lease {
    until: Timestamp,
    retired: Option<Retired>,
    paused_ms: i64,
}

/// The model.
pub struct Oracle {
    hub: Arc<Hub>,
    recipe: Arc<Recipe>,
    script: Arc<Script>,
    run: RunId,
    control: Control,
    budget: Option<String>,
    finished: bool,
    items: BTreeMap<ItemSeq, Known>,
    ids: BTreeMap<ItemId, ItemSeq>,
    children: BTreeMap<ItemSeq, Vec<ItemSeq>>,
    admitted: BTreeSet<ItemId>,
    /// Names of purged items, and where they stood.
    purged: BTreeMap<ItemSeq, (ItemId, Place)>,
    workers: BTreeMap<WorkerId, Lease>,
    counts: BTreeMap<(StageNo, Metric), i64>,
    windows: BTreeMap<(WorkerId, StageNo), (u64, u64)>,
    /// What somebody paused.
    pauses: Pauses,
    gates: gates::Gates,
    hints: hints::Hints,
    /// How far clocks may be off.
    skew: Duration,
    /// What is to be told to the world.
    untold: facts::Untold,
    last_seq: ItemSeq,
    writes: u64,
    live: u64,
}

impl Oracle {
    /// A model of an empty store.
    #[must_use]
    pub fn new(hub: Arc<Hub>, recipe: Arc<Recipe>, script: Arc<Script>, skew: Duration) -> Self {
        Self {
            hub,
            recipe,
            script,
            run: RunId(0),
            control: Control::Go,
            budget: None,
            finished: false,
            items: BTreeMap::new(),
            ids: BTreeMap::new(),
            children: BTreeMap::new(),
            admitted: BTreeSet::new(),
            purged: BTreeMap::new(),
            workers: BTreeMap::new(),
            counts: BTreeMap::new(),
            windows: BTreeMap::new(),
            pauses: Pauses::default(),
            gates: gates::Gates::default(),
            hints: hints::Hints::default(),
            skew,
            untold: facts::Untold::default(),
            last_seq: ItemSeq(0),
            writes: 0,
            live: 0,
        }
    }

    /// Items that are not finished.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// What was asked of the run.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control
    }

    /// Whether the run is marked as finished.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Dead items.
    pub fn dead(&self) -> impl Iterator<Item = &Item> {
        self.items.values().map(|known| &known.item).filter(|item| item.state.kind() == StateKind::Dead)
    }

    /// An item that is not finished.
    #[must_use]
    pub fn some_live(&self, luck: u64) -> Option<&Item> {
        let live =
            || self.items.values().map(|known| &known.item).filter(|item| !item.state.kind().is_terminal());
        let nth = luck.checked_rem(live().count() as u64)?;
        live().nth(usize::try_from(nth).unwrap_or(0))
    }

    /// Items that are not finished, in a few words each.
    #[must_use]
    pub fn stuck(&self) -> String {
        let live = self.items.values().filter(|known| !known.item.state.kind().is_terminal());
        let words = live
            .take(5)
            .map(|known| format!("{} at {}: {:?}", known.item.key, known.item.stage.0, known.item.state));
        words.collect::<Vec<_>>().join("; ")
    }

    /// Takes in the run as it is now.
    ///
    /// # Errors
    /// A run that is marked as finished has no live items, and a cancelled run stays so.
    pub fn on_run(&mut self, row: &RunRow) -> Ruling {
        self.tell_run(row);
        self.run = row.id;
        if self.control == Control::Cancelled && row.control != Control::Cancelled {
            return broken("control", format!("a cancelled run is {:?} again", row.control));
        }
        if self.control != row.control {
            self.hub.log("control", &[i64::from(row.control.code())], || format!("{:?}", row.control));
            self.hub.meet(match row.control {
                Control::Go => Met::Resumed,
                Control::Paused => Met::Paused,
                Control::PausedOutage => Met::OutagePause,
                Control::PausedBudget => Met::BudgetPause,
                Control::PausedQuota => Met::QuotaPause,
                Control::Cancelled => Met::Cancel,
            });
        }
        self.control = row.control;
        self.budget_kept(row)?;
        let finished = row.finished_at.is_some();
        if finished && self.live > 0 {
            let (control, live, stuck) = (row.control, self.live, self.stuck());
            return broken(
                "L7",
                format!("the run, {control:?}, was marked as finished with {live} live items: {stuck}"),
            );
        }
        self.finished = finished;
        Ok(())
    }

    /// Takes in a change of the run.
    ///
    /// # Errors
    /// See [`Oracle::on_run`]; and what was asked is what it is.
    pub fn on_run_changed(&mut self, change: &RunChange, row: &RunRow) -> Ruling {
        let (before, budget) = (self.control, self.budget.clone());
        self.on_run(row)?;
        change::as_asked(before, budget, change, row, self.live)
    }

    /// Takes in a new worker.
    ///
    /// # Errors
    /// Numbers are given once.
    pub fn on_register(&mut self, worker: WorkerId, until: Timestamp) -> Ruling {
        match self.workers.insert(worker, Lease { until, retired: None, paused_ms: 0 }) {
            Some(_) => broken("L3", format!("the number {worker} was given twice")),
            None => Ok(()),
        }
    }

    /// Notes for how long the run was paused when a worker looked at it.
    pub fn on_looked(&mut self, worker: WorkerId, paused_ms: i64) {
        if let Some(lease) = self.workers.get_mut(&worker) {
            lease.paused_ms = paused_ms;
        }
    }

    /// Takes in a renewed lease.
    ///
    /// # Errors
    /// A retired worker's lease is not renewed.
    pub fn on_renew(&mut self, worker: WorkerId, until: Timestamp, renewed: bool) -> Ruling {
        let Some(lease) = self.workers.get_mut(&worker) else {
            return broken("L3", format!("{worker}, whom nobody knows, was renewed"));
        };
        if renewed && lease.retired.is_some() {
            return broken("L3", format!("{worker} was renewed after it was retired"));
        }
        if renewed {
            lease.until = until;
        }
        Ok(())
    }

    /// Takes in a retired worker.
    ///
    /// # Errors
    /// L9: one that stopped cleanly holds nothing.
    pub fn on_retire(&mut self, worker: WorkerId, how: Retired) -> Ruling {
        if let Some(lease) = self.workers.get_mut(&worker) {
            lease.retired.get_or_insert(how);
        }
        let holds =
            |known: &&Known| matches!(known.item.state, State::Running { worker: by, .. } if by == worker);
        match self.items.values().find(holds) {
            Some(known) if how == Retired::Stopped => {
                broken("L9", format!("{worker} stopped cleanly and still holds {}", known.item.key))
            }
            _ => Ok(()),
        }
    }

    /// Notes that handlers are called with items for the first time since they were claimed.
    pub fn on_called(&mut self, items: impl Iterator<Item = (ItemId, u32)>) {
        for (id, attempt) in items {
            let Some(known) = self.ids.get(&id).and_then(|seq| self.items.get_mut(seq)) else { continue };
            known.called += 1;
            // One that lost its lease may still have it in hand as it was claimed before.
            if known.damaged == Some(known.item.rev) && known.item.attempt == attempt {
                self.hub.broke("damage", format!("a handler was called with the damaged {}", known.item.key));
            }
        }
    }

    /// The answer to a claim was lost: the claimer's share begins anew.
    pub fn forget_windows(&mut self) {
        self.windows.clear();
    }

    fn holds(&self, worker: WorkerId, now: Timestamp) -> bool {
        self.workers.get(&worker).is_some_and(|lease| lease.retired.is_none() && lease.until >= now)
    }

    fn tally(&self, parent: ItemSeq) -> ChildTally {
        let mut tally = ChildTally::default();
        for seq in self.children.get(&parent).into_iter().flatten() {
            match self.items.get(seq).map(|known| known.item.state.kind()) {
                Some(StateKind::Succeeded | StateKind::Filtered) => tally.done += 1,
                Some(StateKind::Dead) => tally.dead += 1,
                Some(StateKind::Cancelled | StateKind::Superseded) => tally.gone += 1,
                Some(StateKind::Waiting | StateKind::Running | StateKind::Joining) => tally.live += 1,
                None => {}
            }
        }
        tally
    }

    /// Whether an item with an id in this range was purged.
    fn was_purged(&self, low: ItemId, high: ItemId) -> bool {
        self.purged.values().any(|(id, _)| low <= *id && *id <= high)
    }

    fn add(&mut self, stage: StageNo, metric: Metric, n: i64) {
        *self.counts.entry((stage, metric)).or_default() += n;
    }

    /// Counts a death, if the item is dead now.
    fn bury(&mut self, item: &Item) {
        if let State::Dead { reason } = item.state {
            self.add(item.stage, Metric::Died(reason), 1);
        }
    }

    /// Counts an item in or out.
    fn stand(&mut self, item: &Item, n: i64) {
        let kind = item.state.kind();
        self.add(item.stage, Metric::State(kind), n);
        if item.handed.is_some() {
            self.add(item.stage, Metric::Awaited, n);
        }
        if let Some(verdict) = item.verdict() {
            self.add(item.stage, Metric::Verdict(verdict), n);
        }
        if !kind.is_terminal() {
            self.live = self.live.checked_add_signed(n).unwrap_or(0);
        }
        if let State::Dead { reason } = item.state {
            self.add(item.stage, Metric::DeadReason(reason), n);
            if let Some(last) = &item.last {
                self.add(item.stage, Metric::DeadClass(last.class), n);
            }
        }
    }
}
