//! One worker's view of one run, without any I/O.
//!
//! The desk says what to claim, turns claimed items into calls, takes replies apart and hands out commits. The real
//! worker loop and the simulation drive the same desk; only who performs the calls differs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::bisect::{Bisect, Finding, Ruling, is_worth_splitting};
use redrive_core::budget::{Breach, Budget};
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, Transition, Verdict};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, ItemSeq, RunId, StageNo};
use redrive_core::item::{DeadReason, Item, Payload, State, StateKind};
use redrive_core::order::reserved;
use redrive_core::policy::Next;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Change, ClaimedItem, Commit, OutputKey, Pause, RunChange, Slot};

use crate::handler::{Input, Reply, Request};
use crate::recipe::{Recipe, StageWork};

/// Most items in one commit; what is left goes into the next.
const COMMIT_LIMIT: usize = 2_000;

/// A failure budget is saved with every death, and after so many finished items.
const SAVE_BUDGET_EVERY: u32 = 200;

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
        self.paused_ms = paused_ms;
        self
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// What to claim now: for each stage as much as can be started.
    #[must_use]
    pub fn wants(&self) -> Vec<Slot> {
        if self.halt.is_some() {
            return Vec::new();
        }
        let mut slots = Vec::new();
        for (stage, _) in self.recipe.plan.stages() {
            let (Some(work), Some(desk)) = (self.recipe.work(stage), self.stages.get(stage.index())) else {
                continue;
            };
            let limit = work.capacity().saturating_sub(desk.ready.len() + desk.items_calling);
            if limit > 0 {
                let reserved = reserved(self.recipe.share, desk.given, limit);
                slots.push(Slot { run: self.run, stage, order: self.recipe.order, reserved, limit });
            }
        }
        // Later stages first: an item that is nearly done is finished before a new one is begun.
        slots.reverse();
        slots
    }

    /// Whether a claim would bring little because every stage that wants something is busy with most of what it can do.
    #[must_use]
    pub fn is_busy(&self, slots: &[Slot]) -> bool {
        slots.iter().all(|slot| {
            let capacity = self.recipe.work(slot.stage).map_or(0, StageWork::capacity);
            let calling = self.stages.get(slot.stage.index()).is_some_and(|desk| desk.calling > 0);
            calling && slot.limit.saturating_mul(4) < capacity
        })
    }

    /// The items among these whose output may be known already, with the key it would be kept under.
    #[must_use]
    pub fn reusable(&self, claimed: &[ClaimedItem]) -> Vec<(usize, OutputKey)> {
        let key = |claimed: &ClaimedItem| self.output_key(claimed);
        claimed.iter().enumerate().filter_map(|(at, claimed)| key(claimed).map(|key| (at, key))).collect()
    }

    fn output_key(&self, claimed: &ClaimedItem) -> Option<OutputKey> {
        let config = self.recipe.work(claimed.item.stage)?.reuse?;
        Some(OutputKey { config, input: ContentHash::of(&[&claimed.payload]) })
    }

    /// Takes claimed items in. `slots` is what was asked for; `known` are outputs that need no call.
    pub fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Vec<ClaimedItem>,
        mut known: BTreeMap<usize, Payload>,
        now: Timestamp,
    ) {
        let mut got: BTreeMap<StageNo, usize> = BTreeMap::new();
        for (at, claimed) in claimed.into_iter().enumerate() {
            let stage = claimed.item.stage;
            *got.entry(stage).or_default() += 1;
            let known = known.remove(&at);
            if self.recipe.plan.deadline_of(&claimed.item).is_some_and(|deadline| now > deadline) {
                self.ended.push_back((claimed, Event::DeadlinePassed));
            } else if let Some(payload) = known {
                self.ended.push_back((claimed, Event::Finished(Verdict::Reused(payload))));
            } else if let Some(desk) = self.stages.get_mut(stage.index()) {
                desk.ready.push_back(claimed);
            } else {
                self.ended.push_back((claimed, Event::Released));
            }
        }
        for slot in slots {
            if let Some(desk) = self.stages.get_mut(slot.stage.index()) {
                let got = got.get(&slot.stage).copied().unwrap_or(0);
                desk.given = desk.given.saturating_add(got as u64);
                desk.drained = got < slot.limit;
            }
        }
        if self.halt.is_some() {
            self.release_ready();
        }
    }

    /// Hands out every call that can be started now.
    pub fn next_calls(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        for no in 0..self.stages.len() {
            while let Some(members) = self.next_batch(no) {
                self.last_call += 1;
                let id = CallId(self.last_call);
                let stage = StageNo(u16::try_from(no).unwrap_or(u16::MAX));
                let open = OpenCall {
                    stage,
                    asked: 0..members.len(),
                    members: members.into_iter().map(Some).collect(),
                    bisect: None,
                };
                let desk = &mut self.stages[no];
                desk.calling += 1;
                desk.items_calling += open.members.len();
                calls.push(self.call(id, &open));
                self.calls.insert(id, open);
            }
        }
        calls
    }

    fn next_batch(&mut self, no: usize) -> Option<Vec<ClaimedItem>> {
        let work = self.recipe.stages.get(no)?;
        let desk = self.stages.get_mut(no)?;
        if desk.calling >= work.concurrency {
            return None;
        }
        let alone = desk.ready.front().is_some_and(|first| self.recipe.runs_alone(&first.item));
        let limit = if alone { 1 } else { work.batch.min(desk.largest.unwrap_or(work.batch)).max(1) };
        if desk.ready.is_empty() || (desk.ready.len() < limit && !desk.drained && desk.calling > 0) {
            return None;
        }
        let mut batch = Vec::with_capacity(limit.min(desk.ready.len()));
        while batch.len() < limit {
            match desk.ready.front() {
                Some(next) if batch.is_empty() || !self.recipe.runs_alone(&next.item) => {
                    batch.extend(desk.ready.pop_front());
                }
                _ => break,
            }
        }
        Some(batch)
    }

    fn call(&self, id: CallId, open: &OpenCall) -> Call {
        let plan = self.recipe.plan.stage(open.stage);
        let asked = open.members[open.asked.clone()].iter().flatten();
        let timeout = asked.clone().filter_map(|claimed| {
            let last = claimed.item.last.as_ref().map(|last| last.class);
            plan.map(|plan| plan.policy.timeout(plan.timeout, claimed.item.failures, last))
        });
        let name = plan.map_or("", |plan| &plan.name);
        let request = Request {
            stage: Arc::from(name),
            timeout: timeout.max().unwrap_or(Duration::from_secs(60)),
            items: asked.map(|claimed| input(claimed, name)).collect(),
        };
        Call { id, stage: open.stage, request }
    }

    /// Takes a reply in. Returns the next call of the same batch when it has to be taken apart.
    pub fn finished(&mut self, id: CallId, reply: Reply) -> Option<Call> {
        let mut open = self.calls.remove(&id)?;
        let asked = open.asked.clone();
        let reply = match reply {
            Reply::Items(verdicts) if verdicts.len() != asked.len() => Reply::Whole(Failure::new(
                Class::Retryable,
                Kind::Answer,
                format!("{} verdicts for {} items", verdicts.len(), asked.len()),
            )),
            reply => reply,
        };
        match reply {
            Reply::Items(verdicts) => {
                for (at, verdict) in asked.zip(verdicts) {
                    self.end(&mut open, at, Event::Finished(verdict));
                }
                if let Some(bisect) = &mut open.bisect {
                    bisect.passed();
                }
            }
            Reply::Whole(failure) => self.whole_failed(&mut open, &failure),
        }
        self.go_on(open)
    }

    fn whole_failed(&mut self, open: &mut OpenCall, failure: &Failure) {
        let failed =
            |failure: &Failure, shared| Event::Finished(Verdict::Failed { failure: failure.clone(), shared });
        let ruling = match &mut open.bisect {
            Some(bisect) => bisect.failed(failure),
            None if open.members.len() == 1 => Ruling::Guilty(0),
            None if is_worth_splitting(failure) => {
                let mut members = open.members.iter().flatten();
                let patient = members.any(|claimed| self.recipe.would_end(&claimed.item, failure));
                open.bisect = Some(Bisect::new(open.members.len(), failure, patient));
                Ruling::Undecided
            }
            None => Ruling::Shared((0..open.members.len()).collect()),
        };
        match ruling {
            Ruling::Guilty(at) => self.end(open, at, failed(failure, false)),
            Ruling::Shared(all) => all.into_iter().for_each(|at| self.end(open, at, failed(failure, true))),
            Ruling::Undecided => {}
        }
    }

    /// Makes the next call of a batch, or closes the batch.
    fn go_on(&mut self, mut open: OpenCall) -> Option<Call> {
        if let Some(range) = open.bisect.as_mut().and_then(Bisect::next_call) {
            open.asked = range;
            // A name of its own: an answer that comes twice is never taken for that of the next part.
            self.last_call += 1;
            let id = CallId(self.last_call);
            let call = self.call(id, &open);
            self.calls.insert(id, open);
            return Some(call);
        }
        let desk = self.stages.get_mut(open.stage.index())?;
        desk.calling -= 1;
        desk.items_calling -= open.members.len();
        match open.bisect.as_ref().map(Bisect::finding) {
            Some(Finding::Shape(largest)) => desk.largest = Some(largest),
            // What passed whole may grow again, slowly.
            None => desk.largest = desk.largest.map(|largest| largest.saturating_add(1)),
            Some(Finding::Poison(_) | Finding::Outage) => {}
        }
        None
    }

    fn end(&mut self, open: &mut OpenCall, at: usize, event: Event) {
        if let Some(claimed) = open.members.get_mut(at).and_then(Option::take) {
            self.ended.push_back((claimed, event));
        }
    }

    /// Takes in items that are held but were never started, to be given back.
    pub fn give_back(&mut self, items: Vec<ClaimedItem>) {
        self.ended.extend(items.into_iter().map(|claimed| (claimed, Event::Released)));
    }

    /// Breaks off every call: their items go back without having spent anything.
    pub fn interrupt(&mut self) {
        for (_, open) in std::mem::take(&mut self.calls) {
            if let Some(desk) = self.stages.get_mut(open.stage.index()) {
                desk.calling -= 1;
                desk.items_calling -= open.members.len();
            }
            self.ended
                .extend(open.members.into_iter().flatten().map(|claimed| (claimed, Event::Interrupted)));
        }
        self.release_ready();
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

    /// Decides what has ended and hands out the commit, or the same one again when its fate is unknown.
    pub fn commit(&mut self, now: Timestamp, mut draw: impl FnMut() -> Draw) -> Option<Commit> {
        if self.in_commit.is_empty() {
            while self.in_commit.len() < COMMIT_LIMIT
                && let Some((claimed, event)) = self.ended.pop_front()
            {
                self.decide(claimed, event, Moment { now, draw: draw() });
            }
        }
        let run = (!self.halt_saved).then(|| (self.run, self.halting(now))).or_else(|| {
            let dead = self
                .in_commit
                .iter()
                .any(|sent| sent.change.transition.after.state.kind() == StateKind::Dead);
            let save = dead || self.unsaved >= SAVE_BUDGET_EVERY;
            save.then(|| (self.run, RunChange { budget: self.saved_budget(), ..RunChange::default() }))
        });
        if run.is_some() {
            self.unsaved = 0;
        }
        if self.in_commit.is_empty() && run.is_none() {
            return None;
        }
        let changes = self.in_commit.iter().map(|sent| sent.change.clone()).collect();
        Some(Commit { changes, run, now, ..Commit::default() })
    }

    fn decide(&mut self, claimed: ClaimedItem, event: Event, at: Moment) {
        if let Event::Finished(Verdict::Failed { failure, .. }) = &event
            && self.recipe.reclassified(&claimed.item, failure).class == Class::Quota
        {
            self.stop(Halt::Quota(failure.message().to_owned()));
        }
        let output = match &event {
            Event::Finished(Verdict::Output(Some(_))) => self.output_key(&claimed),
            _ => None,
        };
        match decide(&claimed.item, event, &self.recipe.plan, at) {
            Ok(mut transition) => {
                let mut output = output;
                let goes_on =
                    self.recipe.plan.stage(claimed.item.stage).is_some_and(|stage| stage.next.is_some());
                if transition.children.is_some() && goes_on {
                    transition.payload = Some(claimed.payload.clone());
                    output = Some(expansion_key(&claimed.item));
                }
                self.observe(&transition);
                self.in_commit.push(Sent { change: Change { transition, output, fact: None }, claimed });
            }
            // A held item can end in every way the desk knows; anything else is a mistake that must not be hidden.
            Err(illegal) => tracing::error!(%illegal, "an outcome could not be decided"),
        }
    }

    fn observe(&mut self, transition: &Transition) {
        let kind = transition.after.state.kind();
        if kind.is_terminal() {
            self.bereft.extend(transition.after.parent);
        }
        if transition.children.is_some() {
            // Its children may all be known and finished already.
            self.bereft.insert(transition.after.seq);
        }
        let Some(spec) = &self.recipe.budget else { return };
        self.unsaved = self.unsaved.saturating_add(1);
        let breach = match kind {
            StateKind::Succeeded => self.budget.observe(spec, false),
            // A deadline passes by waiting, not by failing.
            StateKind::Dead if transition.after.state == State::Dead { reason: DeadReason::Expired } => None,
            StateKind::Dead => self.budget.observe(spec, true),
            StateKind::Waiting
            | StateKind::Running
            | StateKind::Joining
            | StateKind::Filtered
            | StateKind::Superseded
            | StateKind::Cancelled => None,
        };
        if let Some(breach) = breach {
            self.stop(Halt::Budget(breach));
        }
    }

    fn halting(&self, now: Timestamp) -> RunChange {
        let control = match &self.halt {
            Some(Halt::Budget(breach)) => Some((Control::PausedBudget, Some(breach.to_string()))),
            Some(Halt::Quota(reason)) => Some((Control::PausedQuota, Some(reason.clone()))),
            Some(Halt::Asked(_) | Halt::Stopping) | None => None,
        };
        let pause = Some(Pause { since: Some(now), before_ms: self.paused_ms });
        RunChange { control, budget: self.saved_budget(), pause, ..RunChange::default() }
    }

    /// The budget as it is kept with the run.
    #[must_use]
    pub fn saved_budget(&self) -> Option<String> {
        serde_json::to_string(&self.budget).ok()
    }

    /// The commit was written. Stale items belong to somebody else now and are dropped; returns how many.
    pub fn committed(&mut self, applied: &[Applied]) -> usize {
        self.halt_saved = true;
        self.in_commit.clear();
        applied.iter().filter(|applied| **applied == Applied::Stale).count()
    }
}

impl Recipe {
    /// Whether an item has to be called by itself: its next failure would be its last, and so far only batches that it
    /// was part of have failed, so that it need not be the culprit.
    fn runs_alone(&self, item: &Item) -> bool {
        item.last.as_ref().filter(|last| last.shared).is_some_and(|last| {
            let again = Failure::new(last.class, last.kind, "");
            self.would_end(item, &again)
        })
    }

    /// The failure as the item's stage takes it.
    fn reclassified(&self, item: &Item, failure: &Failure) -> Failure {
        match self.plan.stage(item.stage) {
            Some(stage) => stage.policy.reclassify(failure.clone()),
            None => failure.clone(),
        }
    }

    /// Whether such a failure would be the item's end.
    fn would_end(&self, item: &Item, failure: &Failure) -> bool {
        let Some(policy) = self.plan.stage(item.stage).map(|stage| &stage.policy) else { return false };
        let failure = self.reclassified(item, failure);
        let next = match failure.class {
            Class::RateLimited | Class::Quota => return false,
            Class::Final | Class::Oversized => return true,
            Class::Crash => policy.after_crash(item.crashes.saturating_add(1), Draw::MIDDLE),
            Class::Retryable | Class::Timeout => {
                policy.after_failure(item.failures.saturating_add(1), &failure, Draw::MIDDLE)
            }
        };
        next == Next::GiveUp
    }
}

/// Names the content an item had when it was expanded, for when a child that lives again takes it back there.
#[must_use]
pub fn expansion_key(item: &Item) -> OutputKey {
    OutputKey { config: 0, input: ContentHash::of(&[b"expanded", &item.id.0]) }
}

fn input(claimed: &ClaimedItem, stage: &str) -> Input {
    let key = ContentHash::of(&[&claimed.item.id.0, stage.as_bytes(), &claimed.payload]);
    Input {
        id: claimed.item.id,
        key: claimed.item.key.clone(),
        attempt: claimed.item.attempt,
        payload: claimed.payload.clone(),
        idempotency_key: Arc::from(key.to_string()),
    }
}
