//! The gates that calls pass, and what is shared about them.

use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{BatchSize, Gate, Lesson, PausedBy, Permit, Sign};
use redrive_core::id::StageNo;
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{GateRow, Result};

use super::{Desk, OpenCall};
use crate::recipe::StageWork;
use crate::worker::gate_set::GateSet;

/// Items that were fetched wait this long for a gate; when it is closed for longer they are given back.
const HOLD: Duration = Duration::from_secs(1);

/// Why nothing can be started at a stage: its gate, or somebody who paused it.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// When that ends; `None`: when somebody acts.
    pub until: Option<Timestamp>,
    /// Why somebody has to act.
    pub needs_somebody: Option<NeedsSomebody>,
}

/// Why a gate waits for somebody to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedsSomebody {
    /// Credit is exhausted.
    Quota(String),
    /// The dependency has been away for too long.
    Outage(String),
    /// An operator paused it, and will let it go on.
    Operator,
}

impl Desk {
    /// The same desk with gates of its own, as the store has them. `me` names the worker, differently from all others; `live`
    /// are the names of those that are not gone.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote one.
    pub fn with_gates(self, me: &str, live: &[String], rows: &[GateRow], now: Timestamp) -> Result<Self> {
        let gates = GateSet::new(me);
        let at = gates.open(&self.recipe.gates, live, rows, now)?;
        Ok(self.sharing(gates, at))
    }

    /// The same desk with the gates of its worker; `at` says where each of its pipeline's is found.
    #[must_use]
    pub(in crate::worker) fn sharing(self, gates: GateSet, at: Vec<usize>) -> Self {
        Self { gates, gate_at: at, ..self }
    }

    /// The gates that the desk's calls pass, and those of the worker's other runs.
    #[must_use]
    pub fn gates(&self) -> &GateSet {
        &self.gates
    }

    fn place_of_gate(&self, stage: StageNo) -> Option<usize> {
        let at = self.recipe.work(stage)?.gate?;
        self.gate_at.get(at).copied()
    }

    /// What the stage's gate says; `None` for a stage without a gate.
    pub(super) fn ask_gate<T>(&self, stage: StageNo, ask: impl FnOnce(&Gate) -> T) -> Option<T> {
        let at = self.place_of_gate(stage)?;
        self.gates.lock().at(at).map(|shared| ask(&shared.gate))
    }

    /// How many calls at once the stage's gate lets pass, those that are under way included; `None` for a stage without one.
    pub(in crate::worker) fn passes_at_once(&self, stage: StageNo, now: Timestamp) -> Option<usize> {
        self.ask_gate(stage, |gate| gate.under_way().saturating_add(gate.room(now)))
    }

    /// Asks the stage's gate for leave to make a call; a stage without a gate needs none.
    pub(super) fn permit(&mut self, stage: StageNo, tokens: u64, now: Timestamp) -> Option<Option<Permit>> {
        let Some(at) = self.place_of_gate(stage) else { return Some(None) };
        let waiting = self.stages.get(stage.index()).filter(|desk| desk.drained).map(|desk| desk.ready.len());
        let mut gates = self.gates.lock();
        let gate = &mut gates.at_mut(at)?.gate;
        gate.expect_calls(waiting);
        gate.admit(tokens, now).ok().map(Some)
    }

    /// Tells the stage's gate how a call ended.
    pub(super) fn teach(
        &mut self,
        stage: StageNo,
        permit: Option<Permit>,
        lesson: &Lesson<'_>,
        now: Timestamp,
    ) {
        let (Some(permit), Some(at)) = (permit, self.place_of_gate(stage)) else { return };
        let mut gates = self.gates.lock();
        let Some(shared) = gates.at_mut(at) else { return };
        let name = shared.name.clone();
        if let Some(notice) = shared.gate.ended(permit, lesson, now) {
            gates.note(name, notice);
        }
    }

    pub(super) fn broken_off(&mut self, stage: StageNo, permit: Option<Permit>) {
        if let (Some(permit), Some(at)) = (permit, self.place_of_gate(stage))
            && let Some(shared) = self.gates.lock().at_mut(at)
        {
            shared.gate.broken_off(permit);
        }
    }

    /// How long an item that was turned away with this hint waits.
    pub(super) fn wait_at_gate(
        &self,
        item: &Item,
        hint: Option<Duration>,
        probe: bool,
        now: Timestamp,
    ) -> Duration {
        self.ask_gate(item.stage, |gate| gate.keeps_item(item.throttles, hint, probe, now))
            .unwrap_or(Duration::ZERO)
    }

    /// What is known about the sizes of a stage's requests.
    pub(super) fn batch_size(&self, stage: StageNo) -> BatchSize {
        let name = self.recipe.plan.stage(stage).map_or("", |plan| &plan.name);
        match self.ask_gate(stage, |gate| gate.batch(name)) {
            Some(batch) => batch,
            None => self.stages.get(stage.index()).map(|desk| desk.batch).unwrap_or_default(),
        }
    }

    pub(super) fn learn_batch(&mut self, stage: StageNo, batch: BatchSize) {
        if batch == self.batch_size(stage) {
            return;
        }
        let recipe = self.recipe.clone();
        let name = recipe.plan.stage(stage).map_or("", |plan| &plan.name);
        if let Some(at) = self.place_of_gate(stage) {
            if let Some(shared) = self.gates.lock().at_mut(at) {
                shared.gate.learn_batch(name, batch);
            }
        } else if let Some(desk) = self.stages.get_mut(stage.index()) {
            desk.batch = batch;
        }
    }

    /// A request that can never pass the stage's gate.
    pub(super) fn impossible(&self, stage: StageNo, tokens: u64) -> Option<Failure> {
        let most = self.ask_gate(stage, Gate::most_tokens)??;
        // The number of tokens is an estimate: what may fit is tried.
        (tokens > most.saturating_mul(2)).then(|| {
            let text = format!("it has about {tokens} tokens, and its gate lets {most} pass in a minute");
            Failure::new(Class::Oversized, Kind::Input, text)
        })
    }

    /// Gives back what waits for a gate that stays closed.
    pub(super) fn leave_closed_gates(&mut self, now: Timestamp) {
        let recipe = self.recipe.clone();
        for (stage, _) in recipe.plan.stages() {
            self.leave_without_room(stage);
            let stands = self.ask_gate(stage, |gate| (gate.closed_until(now), gate.opens_at(1, now)));
            let Some((closed, opens)) = stands else { continue };
            if closed.is_none() && opens.is_some_and(|opens| opens > now.after(HOLD * 5)) {
                // So slow a gate is not waited for with items in hand. A batch that is being taken apart is.
                self.release_waiting(stage);
            }
            if closed.is_some_and(|until| until > now.after(HOLD)) {
                let parts = self.parts.iter().filter(|part| part.stage == stage);
                if let Some(smallest) = parts.map(|part| part.asked.len()).min() {
                    let mut batch = self.batch_size(stage);
                    batch.doubted(smallest, now);
                    self.learn_batch(stage, batch);
                }
                self.release_stage(stage);
            }
        }
    }

    /// Gives back what waits for room that somebody had asked to be filled, and who is gone.
    fn leave_without_room(&mut self, stage: StageNo) {
        let (Some(work), Some(desk)) = (self.recipe.work(stage), self.stages.get(stage.index())) else {
            return;
        };
        if work.handler.room().is_some_and(|room| room.calls == 0) && !desk.ready.is_empty() {
            self.release_waiting(stage);
        }
    }

    /// When something may be started that a gate holds up now.
    #[must_use]
    pub fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let held_up = |stage: StageNo| -> Option<Timestamp> {
            // Only what waits for the gate alone: a batch that waits for a place or to be filled is started by a reply.
            let parts = self.parts.iter().filter(|part| part.stage == stage).map(OpenCall::tokens);
            let ready = self.planned(stage, now).map(|(_, _, tokens)| tokens);
            self.ask_gate(stage, |gate| {
                let nothing = (gate.room(now) == 0).then_some(1);
                parts.chain(ready).chain(nothing).filter_map(|tokens| gate.opens_at(tokens, now)).min()
            })?
        };
        self.recipe.plan.stages().filter_map(|(stage, _)| held_up(stage)).min()
    }

    /// Why nothing can be started at a stage, if a gate or somebody keeps it from that or nobody in this process will ever
    /// answer.
    #[must_use]
    pub fn blocked(&self, stage: StageNo, now: Timestamp) -> Option<Blocked> {
        if self.is_paused(stage) {
            return Some(Blocked { until: None, needs_somebody: Some(NeedsSomebody::Operator) });
        }
        if self.recipe.work(stage).is_some_and(StageWork::never_has_room) {
            return Some(Blocked { until: None, needs_somebody: None });
        }
        let at = self.place_of_gate(stage)?;
        let gates = self.gates.lock();
        let desk = gates.at(at)?;
        let until = desk.gate.closed_until(now)?;
        let needs_somebody = desk.gate.needs_somebody(now).map(|(by, why)| match by {
            Some(PausedBy::Quota) => NeedsSomebody::Quota(format!("gate {}: {why}", desk.name)),
            Some(PausedBy::Operator) => NeedsSomebody::Operator,
            None => NeedsSomebody::Outage(format!("gate {}: {why}", desk.name)),
        });
        Some(Blocked { until: Some(until).filter(|until| *until < Timestamp::MAX), needs_somebody })
    }
}

/// What the failure of a call tells its gate. `calls` failed in a row, where a batch was taken apart; `fresh` items had not
/// failed before.
pub(super) fn sign_of(failure: &Failure, calls: u32, fresh: bool) -> Sign<'_> {
    let failed = |lost| Sign::Failed { calls, lost, fresh };
    match failure.class {
        Class::RateLimited => Sign::Throttled { hint: failure.hint },
        Class::Quota => Sign::Quota { why: failure.message() },
        Class::Timeout => failed(true),
        Class::Crash => failed(false),
        // It is about the items, and says nothing of what others would be answered.
        Class::Final if failure.kind == Kind::Access => Sign::Neutral,
        Class::Final | Class::Oversized => Sign::Answered,
        Class::Retryable => match failure.kind {
            // A service that says when to come back turns away, whatever its status.
            Kind::Server if failure.hint.is_some() => Sign::Throttled { hint: failure.hint },
            Kind::Server => failed(matches!(failure.status, Some(502..=504))),
            Kind::Connection | Kind::Timeout => failed(true),
            Kind::Answer | Kind::Process | Kind::Memory | Kind::Unknown | Kind::Access => failed(false),
            Kind::Handler | Kind::Client | Kind::Database | Kind::Worker | Kind::Input => Sign::Answered,
        },
    }
}
