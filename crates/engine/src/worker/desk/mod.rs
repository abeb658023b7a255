//! One worker's view of one run, without any I/O.
//!
//! The desk says what to claim, turns claimed items into calls, takes replies apart and hands out commits. The real
//! worker loop and the simulation drive the same desk; only who performs the calls differs.

mod call;
mod claim;
mod gates;
mod pauses;
mod record;

pub use gates::{Blocked, NeedsSomebody};
pub use pauses::PausesHeard;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::bisect::Bisect;
use redrive_core::budget::{Breach, BudgetChange, SharedBudget};
use redrive_core::draw::Draw;
use redrive_core::event::Event;
use redrive_core::gate::{BatchSize, Permit};
use redrive_core::id::{ItemSeq, RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::pool::Rank;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;
use redrive_store::{Change, ClaimedItem, Result, RunRow};

use crate::handler::Request;
use crate::receipt::Receipt;
use crate::recipe::{Recipe, StageWork};
use crate::shared;
use crate::trace::Traced;
use crate::worker::gate_set::GateSet;

/// Names a call that has been handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The run it is for.
    pub run: RunId,
    no: u64,
}

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
    /// There are as many dead items as the run may have, or more.
    DeadLetters {
        /// How many there are.
        dead: u64,
        /// How many it may have.
        most: u64,
    },
    /// Credit is exhausted, in the provider's words.
    Quota(String),
    /// A dependency stays away: which one, since when.
    Outage(String),
    /// Somebody paused or cancelled the run.
    Asked(Control),
    /// Somebody changed the pipeline of the run.
    Outdated,
    /// The worker is to stop.
    Stopping,
}

/// One worker's view of one run.
pub struct Desk {
    run: RunId,
    /// Where the run stands among others.
    rank: Rank,
    /// The name of the run's pipeline.
    pipeline: String,
    edition: u32,
    recipe: Arc<Recipe>,
    /// The recipe's plan, with the pauses so far.
    plan: Plan,
    stages: Vec<StageDesk>,
    calls: BTreeMap<CallId, OpenCall>,
    /// Parts of batches that are being taken apart, waiting for their gate.
    parts: VecDeque<OpenCall>,
    gates: GateSet,
    /// Where each of the pipeline's gates is among the worker's.
    gate_at: Vec<usize>,
    last_call: u64,
    ended: VecDeque<Ended>,
    in_commit: Vec<Sent>,
    budget: SharedBudget,
    /// What was handed out to be kept, until it is known what became of it.
    budget_sent: Option<BudgetChange>,
    /// Whether items may have died since the dead were counted.
    died: bool,
    unsaved: u32,
    paused_ms: i64,
    halt: Option<Halt>,
    halt_saved: bool,
    bereft: BTreeSet<ItemSeq>,
    /// Other runs have calls to the same handlers.
    among_others: bool,
    paused: pauses::Paused,
    /// Who hears what became of items, as spans.
    traced: Traced,
}

#[derive(Default)]
struct StageDesk {
    ready: VecDeque<Ready>,
    calling: usize,
    items_calling: usize,
    given: u64,
    /// The last claim brought less than was asked for, so a partial batch need not wait for more.
    drained: bool,
    /// What is known about the size of batches, for a stage without a gate.
    batch: BatchSize,
}

/// A batch that was handed out, whole or in parts.
struct OpenCall {
    stage: StageNo,
    members: Vec<Option<Ready>>,
    asked: Range<usize>,
    bisect: Option<Bisect>,
    /// Leave for the call under way.
    permit: Option<Permit>,
    /// Calls that failed as a whole.
    failed: u32,
    /// It was being taken apart, and a part was turned away.
    turned_away: bool,
    /// Is told when what became of the items is kept.
    receipt: Option<Receipt>,
}

impl OpenCall {
    /// About how many tokens the call takes.
    fn tokens(&self) -> u64 {
        self.members[self.asked.clone()].iter().flatten().map(|ready| ready.tokens).sum()
    }
}

/// An item that can be called for, and about how many tokens that takes.
struct Ready {
    claimed: ClaimedItem,
    tokens: u64,
    /// Its part of what the calls of this attempt consumed so far.
    spent: Option<Usage>,
}

impl Ready {
    fn ended(self, event: Event) -> Ended {
        Ended { claimed: self.claimed, event, usage: self.spent, receipt: None }
    }
}

/// What happened to an item, waiting to be recorded.
struct Ended {
    claimed: ClaimedItem,
    event: Event,
    usage: Option<Usage>,
    receipt: Option<Receipt>,
}

impl Ended {
    fn new(claimed: ClaimedItem, event: Event) -> Self {
        Self { claimed, event, usage: None, receipt: None }
    }
}

/// A transition that was handed out for commit.
struct Sent {
    change: Change,
    claimed: ClaimedItem,
    receipt: Option<Receipt>,
}

impl Desk {
    /// An empty desk for a run.
    #[must_use]
    pub fn new(run: RunId, recipe: Arc<Recipe>, budget: SharedBudget) -> Self {
        let stages =
            recipe.stages.iter().map(|_| StageDesk { drained: true, ..StageDesk::default() }).collect();
        let gates = GateSet::default();
        // Nothing is read, so that nothing can be unreadable.
        let gate_at = gates.open(&recipe.gates, &[], &[], Timestamp(0)).unwrap_or_default();
        Self {
            run,
            rank: Rank::new(0, Timestamp(0), run),
            pipeline: String::new(),
            edition: 0,
            paused_ms: 0,
            unsaved: 0,
            plan: recipe.plan.clone(),
            parts: VecDeque::new(),
            gates,
            gate_at,
            recipe,
            stages,
            calls: BTreeMap::new(),
            last_call: 0,
            ended: VecDeque::new(),
            in_commit: Vec::new(),
            budget,
            budget_sent: None,
            died: true,
            halt: None,
            halt_saved: true,
            bereft: BTreeSet::new(),
            among_others: false,
            paused: pauses::Paused::default(),
            traced: None,
        }
    }

    /// The same desk beside those of other runs, which have calls to the same handlers: it makes no more calls at once than
    /// it holds places for.
    #[must_use]
    pub fn among_others(self) -> Self {
        Self { among_others: true, ..self }
    }

    /// The same desk, of whose items somebody hears as spans.
    #[must_use]
    pub fn traced(self, traced: Traced) -> Self {
        Self { traced, ..self }
    }

    /// The same desk of a run that may be opened again and again, each time for a few items: which of these the lane that
    /// goes second gets is a matter of chance, for it would get none if its share were counted from the beginning each time.
    #[must_use]
    pub fn counting_from(mut self, draw: Draw) -> Self {
        let share = self.recipe.share.clamp(0.01, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
        let given = (draw.value() / share) as u64;
        self.stages.iter_mut().for_each(|stage| stage.given = given);
        self
    }

    /// How a stage does its work.
    pub(super) fn work(&self, stage: StageNo) -> Option<&StageWork> {
        self.recipe.work(stage)
    }

    /// How many calls at once the items in hand at a stage make.
    #[must_use]
    pub fn places_held(&self, stage: StageNo) -> usize {
        let (Some(desk), Some(work)) = (self.stages.get(stage.index()), self.work(stage)) else { return 0 };
        match work.call_size() {
            (size, true) => desk.calling + desk.ready.len().div_ceil(size),
            (size, false) => (desk.ready.len() + desk.items_calling).div_ceil(size).max(desk.calling),
        }
    }

    /// The clock was put back: what is known about the sizes of batches holds from now on.
    pub fn clock_put_back(&mut self, now: Timestamp) {
        self.stages.iter_mut().for_each(|stage| stage.batch.set_right(now));
    }

    /// The same desk for a run of this pipeline.
    #[must_use]
    pub fn of_pipeline(self, name: &str) -> Self {
        Self { pipeline: name.to_owned(), ..self }
    }

    /// The same desk for this edition of the run's pipeline.
    #[must_use]
    pub fn with_edition(mut self, edition: u32) -> Self {
        self.edition = edition;
        self
    }

    /// An empty desk of a worker for a run as it is kept.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote its failure budget.
    pub fn of(run: &RunRow, recipe: Arc<Recipe>, me: &str) -> Result<Self> {
        let budget = SharedBudget::new(me, run.budget.as_deref());
        let budget = budget.map_err(|why| shared::unreadable_budget(run.id, &why))?;
        let mut desk = Self::new(run.id, recipe, budget).of_pipeline(&run.spec.pipeline);
        desk.rank = Rank::new(run.spec.priority, run.created_at, run.id);
        Ok(desk.with_edition(run.edition).after_pauses(run.pause.before_ms))
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

    /// For how many milliseconds the run was paused, as far as the desk knows.
    #[must_use]
    pub fn paused_ms(&self) -> i64 {
        self.paused_ms
    }

    /// The pipeline as decisions see it, with the pauses so far.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The edition of the run's pipeline that the desk goes by.
    #[must_use]
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// Takes in items that are held but were never started, to be given back.
    pub fn give_back(&mut self, items: Vec<ClaimedItem>) {
        self.ended.extend(items.into_iter().map(|claimed| Ended::new(claimed, Event::Released)));
    }

    fn release_ready(&mut self) {
        for no in 0..self.stages.len() {
            self.release_stage(StageNo(u16::try_from(no).unwrap_or(u16::MAX)));
        }
    }

    /// Gives back what waits to be called for at a stage. What was called for in a larger batch is broken off.
    fn release_stage(&mut self, stage: StageNo) {
        self.release_waiting(stage);
        let (broken, kept): (VecDeque<_>, _) =
            std::mem::take(&mut self.parts).into_iter().partition(|part| part.stage == stage);
        self.parts = kept;
        broken.into_iter().for_each(|part| self.break_off(part));
    }

    /// Gives back what waits to be called for at a stage.
    fn release_waiting(&mut self, stage: StageNo) {
        if let Some(desk) = self.stages.get_mut(stage.index()) {
            let released = desk.ready.drain(..).map(|ready| Ended::new(ready.claimed, Event::Released));
            self.ended.extend(released);
        }
    }

    /// Breaks off a batch: what is left of it goes back without having spent anything.
    fn break_off(&mut self, open: OpenCall) {
        self.give_up(open, &Event::Interrupted);
    }

    /// Closes a batch: what is left of it ends like this.
    fn give_up(&mut self, open: OpenCall, event: &Event) {
        if let Some(desk) = self.stages.get_mut(open.stage.index()) {
            desk.calling -= 1;
            desk.items_calling -= open.members.len();
        }
        self.broken_off(open.stage, open.permit);
        let left = open.members.into_iter().flatten();
        self.ended.extend(left.map(|ready| ready.ended(event.clone())));
    }

    /// Takes no more work: what is not started is given back, what runs may finish.
    pub fn stop(&mut self, halt: Halt) {
        if self.halt.is_none() {
            let pauses =
                matches!(halt, Halt::Budget(_) | Halt::DeadLetters { .. } | Halt::Quota(_) | Halt::Outage(_));
            self.halt_saved = !pauses;
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
        self.calls.is_empty()
            && self.parts.is_empty()
            && !self.has_records()
            && self.stages.iter().all(|desk| desk.ready.is_empty())
    }

    /// Whether nothing is held but what is being recorded.
    pub(in crate::worker) fn holds_nothing_else(&self) -> bool {
        self.calls.is_empty()
            && self.parts.is_empty()
            && self.ended.is_empty()
            && self.bereft.is_empty()
            && self.stages.iter().all(|desk| desk.ready.is_empty())
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
        let called = |open: &OpenCall| open.members.iter().flatten().any(|ready| is(&ready.claimed));
        self.stages.iter().any(|desk| desk.ready.iter().any(|ready| is(&ready.claimed)))
            || self.calls.values().chain(&self.parts).any(called)
            || self.ended.iter().any(|ended| is(&ended.claimed))
            || self.in_commit.iter().any(|sent| is(&sent.claimed))
    }

    /// The parents of children that reached their end since this was last asked: they may be settled now.
    pub fn take_bereft(&mut self) -> BTreeSet<ItemSeq> {
        std::mem::take(&mut self.bereft)
    }
}
