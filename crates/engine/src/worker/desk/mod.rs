//! One worker's view of one run, without any I/O.
//!
//! The desk says what to claim, turns claimed items into calls, takes replies apart and hands out commits. The real
//! worker loop and the simulation drive the same desk; only who performs the calls differs.

mod call;
mod claim;
mod record;

pub use record::expansion_key;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::bisect::Bisect;
use redrive_core::budget::{Breach, Budget};
use redrive_core::event::Event;
use redrive_core::id::{ItemSeq, RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_store::{Change, ClaimedItem};

use crate::handler::Request;
use crate::recipe::Recipe;

/// Names a call that has been handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// A call to be made.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its name.
    pub id: CallId,
    /// The stage whose handler is to be called.
    pub stage: StageNo,
    /// What to call it with.
    pub request: Request,
}

/// Why a desk takes no more work.
#[derive(Debug, Clone, PartialEq)]
pub enum Halt {
    /// The failure budget is spent.
    Budget(Breach),
    /// Credit is exhausted, in the provider's words.
    Quota(String),
    /// Somebody paused or cancelled the run.
    Asked(Control),
    /// The worker is to stop.
    Stopping,
}

/// One worker's view of one run.
pub struct Desk {
    run: RunId,
    recipe: Arc<Recipe>,
    /// The recipe's plan, with the pauses so far.
    plan: Plan,
    stages: Vec<StageDesk>,
    calls: BTreeMap<CallId, OpenCall>,
    last_call: u64,
    ended: VecDeque<(ClaimedItem, Event)>,
    in_commit: Vec<Sent>,
    budget: Budget,
    unsaved: u32,
    paused_ms: i64,
    halt: Option<Halt>,
    halt_saved: bool,
    bereft: BTreeSet<ItemSeq>,
}

#[derive(Default)]
struct StageDesk {
    ready: VecDeque<ClaimedItem>,
    calling: usize,
    items_calling: usize,
    given: u64,
    /// The last claim brought less than was asked for, so a partial batch need not wait for more.
    drained: bool,
    /// Largest batch that is known to pass, when a larger one is known not to.
    largest: Option<usize>,
}

/// A batch that was handed out, whole or in parts.
struct OpenCall {
    stage: StageNo,
    members: Vec<Option<ClaimedItem>>,
    asked: Range<usize>,
    bisect: Option<Bisect>,
}

/// A transition that was handed out for commit.
struct Sent {
    change: Change,
    claimed: ClaimedItem,
}

impl Desk {
    /// An empty desk for a run.
    #[must_use]
    pub fn new(run: RunId, recipe: Arc<Recipe>, budget: Budget) -> Self {
        let stages =
            recipe.stages.iter().map(|_| StageDesk { drained: true, ..StageDesk::default() }).collect();
        Self {
            run,
            paused_ms: 0,
            unsaved: 0,
            plan: recipe.plan.clone(),
            recipe,
            stages,
            calls: BTreeMap::new(),
            last_call: 0,
            ended: VecDeque::new(),
            in_commit: Vec::new(),
            budget,
            halt: None,
            halt_saved: true,
            bereft: BTreeSet::new(),
        }
    }

    /// The same desk for a run that was paused before, for so many milliseconds.
    #[must_use]
    pub fn after_pauses(mut self, paused_ms: i64) -> Self {
        self.paused_for(paused_ms);
        self
    }

    /// The run was paused for so many milliseconds so far, perhaps while this desk was asleep.
    pub fn paused_for(&mut self, paused_ms: i64) {
        if paused_ms != self.paused_ms {
            self.paused_ms = paused_ms;
            let grace = Duration::from_millis(u64::try_from(paused_ms).unwrap_or(0));
            self.plan = self.plan.clone().with_grace(grace);
        }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Takes in items that are held but were never started, to be given back.
    pub fn give_back(&mut self, items: Vec<ClaimedItem>) {
        self.ended.extend(items.into_iter().map(|claimed| (claimed, Event::Released)));
    }

    fn release_ready(&mut self) {
        for desk in &mut self.stages {
            self.ended.extend(desk.ready.drain(..).map(|claimed| (claimed, Event::Released)));
        }
    }

    /// Takes no more work: what is not started is given back, what runs may finish.
    pub fn stop(&mut self, halt: Halt) {
        if self.halt.is_none() {
            self.halt_saved = !matches!(halt, Halt::Budget(_) | Halt::Quota(_));
            self.halt = Some(halt);
        }
        self.release_ready();
    }

    /// Why no more work is taken.
    #[must_use]
    pub fn halt(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    /// Whether nothing is held, running or waiting to be recorded.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && !self.has_records() && self.stages.iter().all(|desk| desk.ready.is_empty())
    }

    /// Whether calls are under way.
    #[must_use]
    pub fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether something waits to be recorded.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.ended.is_empty() || !self.in_commit.is_empty() || !self.halt_saved
    }

    /// Whether the desk holds an item under this very claim: an older claim of it may still wait to be recorded.
    #[must_use]
    pub fn holds(&self, item: &Item) -> bool {
        let is = |claimed: &ClaimedItem| claimed.item.seq == item.seq && claimed.item.rev == item.rev;
        self.stages.iter().any(|desk| desk.ready.iter().any(is))
            || self.calls.values().any(|open| open.members.iter().flatten().any(is))
            || self.ended.iter().any(|(claimed, _)| is(claimed))
            || self.in_commit.iter().any(|sent| is(&sent.claimed))
    }

    /// The parents of children that reached their end since this was last asked: they may be settled now.
    pub fn take_bereft(&mut self) -> BTreeSet<ItemSeq> {
        std::mem::take(&mut self.bereft)
    }
}
