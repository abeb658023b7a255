//! The gates that calls pass, and what is shared about them.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{BatchSize, Gate, GateState, Lesson, Notice, PausedBy, Permit, Sign};
use redrive_core::id::StageNo;
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, GateRow, Result};

use super::{Desk, OpenCall};
use crate::recipe::Recipe;
use crate::shared;

/// Items that were fetched wait this long for a gate; when it is closed for longer they are given back.
const HOLD: Duration = Duration::from_secs(1);
/// How much longer than its gate an item waits that was turned away before; doubled each time.
const AGAIN: Duration = Duration::from_millis(125);
/// The longest that an item waits by itself when it was turned away.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// One gate, as this worker has it.
pub(super) struct GateDesk {
    name: Arc<str>,
    gate: Gate,
    /// Change number of what was last read or written.
    rev: i64,
    /// What is being written.
    in_save: Option<GateState>,
    /// What may have been written: the answer was lost.
    in_doubt: Option<GateState>,
}

/// Why nothing can be started at a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// The gate.
    pub gate: Arc<str>,
    /// When it opens; `None`: when somebody acts.
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

pub(super) fn gates(recipe: &Recipe, me: &str, now: Timestamp) -> Vec<GateDesk> {
    let gate = |work: &crate::recipe::GateWork| GateDesk {
        name: work.name.clone(),
        gate: Gate::new(work.spec.clone(), GateState::default(), me, now),
        rev: 0,
        in_save: None,
        in_doubt: None,
    };
    recipe.gates.iter().map(gate).collect()
}

impl Desk {
    /// The same desk with what is known about its gates. `me` names the worker, differently from all others; `live` are
    /// the names of those that are not gone.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote one.
    pub fn with_gates(mut self, me: &str, live: &[String], rows: &[GateRow], now: Timestamp) -> Result<Self> {
        self.gates = gates(&self.recipe, me, now);
        for desk in &mut self.gates {
            if let Some(row) = rows.iter().find(|row| *row.name == *desk.name) {
                let mut state = shared::gate(row, now)?;
                state.keep_members(live);
                desk.gate = Gate::new(desk.gate.spec().clone(), state, me, now);
                desk.rev = row.rev;
            }
        }
        Ok(self)
    }

    pub(super) fn gate_of(&self, stage: StageNo) -> Option<&Gate> {
        let at = self.recipe.work(stage)?.gate?;
        self.gates.get(at).map(|desk| &desk.gate)
    }

    fn gate_mut(&mut self, stage: StageNo) -> Option<&mut GateDesk> {
        let at = self.recipe.work(stage)?.gate?;
        self.gates.get_mut(at)
    }

    /// Asks the stage's gate for leave to make a call; a stage without a gate needs none.
    pub(super) fn permit(&mut self, stage: StageNo, tokens: u64, now: Timestamp) -> Option<Option<Permit>> {
        match self.gate_mut(stage) {
            None => Some(None),
            Some(desk) => desk.gate.admit(tokens, now).ok().map(Some),
        }
    }

    /// Tells the stage's gate how a call ended.
    pub(super) fn teach(
        &mut self,
        stage: StageNo,
        permit: Option<Permit>,
        lesson: &Lesson<'_>,
        now: Timestamp,
    ) {
        let Some(permit) = permit else { return };
        let Some(desk) = self.gate_mut(stage) else { return };
        let name = desk.name.clone();
        if let Some(notice) = desk.gate.ended(permit, lesson, now) {
            self.notices.push((name, notice));
        }
    }

    pub(super) fn broken_off(&mut self, stage: StageNo, permit: Option<Permit>) {
        if let (Some(permit), Some(desk)) = (permit, self.gate_mut(stage)) {
            desk.gate.broken_off(permit);
        }
    }

    /// How long an item that was turned away waits. It is the gate that keeps it, so that it can go as soon as the gate
    /// opens, for whatever reason. One that was sent to try the dependency out, or was turned away before, waits a little
    /// longer than the gate: another one goes first then, and one that can never pass does not keep it closed.
    pub(super) fn wait_at_gate(&self, item: &Item, probe: bool, now: Timestamp) -> Duration {
        let Some(gate) = self.gate_of(item.stage) else { return Duration::ZERO };
        let until = gate.closed_until(now).filter(|until| *until < Timestamp::MAX);
        let closed = until.map_or(Duration::ZERO, |until| until.since(now));
        let longer = match (probe, item.throttles) {
            (true, _) => closed + closed / 5,
            (false, 0) => return Duration::ZERO,
            (false, before) => closed + AGAIN * (1 << before.min(8)),
        };
        longer.min(LONGEST_WAIT)
    }

    /// What is known about the sizes of a stage's requests.
    pub(super) fn batch_size(&self, stage: StageNo) -> BatchSize {
        let name = self.recipe.plan.stage(stage).map_or("", |plan| &plan.name);
        match self.gate_of(stage) {
            Some(gate) => gate.batch(name),
            None => self.stages.get(stage.index()).map(|desk| desk.batch).unwrap_or_default(),
        }
    }

    pub(super) fn learn_batch(&mut self, stage: StageNo, batch: BatchSize) {
        if batch == self.batch_size(stage) {
            return;
        }
        let recipe = self.recipe.clone();
        let name = recipe.plan.stage(stage).map_or("", |plan| &plan.name);
        match self.gate_mut(stage) {
            Some(desk) => desk.gate.learn_batch(name, batch),
            None => {
                if let Some(desk) = self.stages.get_mut(stage.index()) {
                    desk.batch = batch;
                }
            }
        }
    }

    /// A request that can never pass the stage's gate.
    pub(super) fn impossible(&self, stage: StageNo, tokens: u64) -> Option<Failure> {
        let most = self.gate_of(stage)?.most_tokens()?;
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
            let Some(gate) = self.gate_of(stage) else { continue };
            let closed = gate.closed_until(now);
            if closed.is_none() && gate.opens_at(1, now).is_some_and(|opens| opens > now.after(HOLD * 5)) {
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

    /// When something may be started that a gate holds up now.
    #[must_use]
    pub fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let held_up = |stage: StageNo| -> Option<Timestamp> {
            let gate = self.gate_of(stage)?;
            // Only what waits for the gate alone: a batch that waits for a place or to be filled is started by a reply.
            let parts = self.parts.iter().filter(|part| part.stage == stage).map(OpenCall::tokens);
            let ready = self.planned(stage, now).map(|(_, _, tokens)| tokens);
            let nothing = (gate.room(now) == 0).then_some(1);
            parts.chain(ready).chain(nothing).filter_map(|tokens| gate.opens_at(tokens, now)).min()
        };
        self.recipe.plan.stages().filter_map(|(stage, _)| held_up(stage)).min()
    }

    /// Why nothing can be started at a stage, if a gate keeps it from that.
    #[must_use]
    pub fn blocked(&self, stage: StageNo, now: Timestamp) -> Option<Blocked> {
        let desk = self.gates.get(self.recipe.work(stage)?.gate?)?;
        let until = desk.gate.closed_until(now)?;
        let needs_somebody = desk.gate.needs_somebody(now).map(|(by, why)| match by {
            Some(PausedBy::Quota) => NeedsSomebody::Quota(format!("gate {}: {why}", desk.name)),
            Some(PausedBy::Operator) => NeedsSomebody::Operator,
            None => NeedsSomebody::Outage(format!("gate {}: {why}", desk.name)),
        });
        Some(Blocked {
            gate: desk.name.clone(),
            until: Some(until).filter(|until| *until < Timestamp::MAX),
            needs_somebody,
        })
    }

    /// What others should know about the gates.
    pub fn gates_to_save(&mut self, now: Timestamp) -> Vec<GateRow> {
        let mut rows = Vec::new();
        for desk in &mut self.gates {
            if self.gates_stale || desk.in_save.is_some() {
                continue;
            }
            if let Some(state) = desk.gate.to_save(now) {
                rows.push(row(desk, &state, now));
                desk.in_save = Some(state);
            }
        }
        rows
    }

    /// What was handed out is written, or was not because others had written; `None` when its fate is unknown.
    pub fn gates_saved(&mut self, applied: Option<&[Applied]>, now: Timestamp) {
        let mut applied = applied.map(|applied| applied.iter());
        for desk in &mut self.gates {
            let Some(state) = desk.in_save.take() else { continue };
            match applied.as_mut().and_then(Iterator::next) {
                Some(Applied::Done) => {
                    desk.rev += 1;
                    desk.gate.saved(&state, now);
                }
                Some(Applied::Stale) => self.gates_stale = true,
                None => {
                    self.gates_stale = true;
                    desk.in_doubt = Some(state);
                }
            }
        }
    }

    /// Whether others should know something about a gate at once.
    #[must_use]
    pub fn gates_urgent(&self) -> bool {
        self.gates.iter().any(|desk| desk.gate.is_urgent())
    }

    /// Whether what the store has must be read before anything is written.
    #[must_use]
    pub fn gates_stale(&self) -> bool {
        self.gates_stale
    }

    /// Somebody else wrote: what the store has must be read first.
    pub fn gates_are_stale(&mut self) {
        self.gates_stale = true;
    }

    /// Takes in what the store has about the gates.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote one: nothing is written over it.
    pub fn hear_gates(&mut self, rows: &[GateRow], now: Timestamp) -> Result<()> {
        self.gates_stale = false;
        for desk in &mut self.gates {
            let in_doubt = desk.in_doubt.take();
            let Some(row) = rows.iter().find(|row| *row.name == *desk.name) else { continue };
            if row.rev != desk.rev {
                let theirs = shared::gate(row, now)?;
                // The next change number went to what was sent, unless it can be seen that it went to something else.
                if let Some(sent) =
                    in_doubt.filter(|sent| row.rev > desk.rev + 1 || row.state == sent.write())
                {
                    desk.gate.settle(&sent);
                }
                desk.rev = row.rev;
                desk.gate.merge(&theirs, now);
            }
        }
        Ok(())
    }

    /// The clock was put back by so many milliseconds: nothing that a gate waits for is put off by that.
    pub fn clock_put_back(&mut self, ms: i64, now: Timestamp) {
        self.gates.iter_mut().for_each(|desk| desk.gate.put_back(ms, now));
        self.stages.iter_mut().for_each(|stage| stage.batch.set_right(now));
    }

    /// The clock was put forward by so many milliseconds, or the machine slept: no gate has been closed for that long.
    pub fn clock_put_forward(&mut self, ms: i64, now: Timestamp) {
        self.gates.iter_mut().for_each(|desk| desk.gate.put_forward(ms, now));
    }

    /// What is written when the worker leaves.
    pub fn leave_gates(&mut self, now: Timestamp) -> Vec<GateRow> {
        self.gates
            .iter_mut()
            .map(|desk| {
                let state = desk.gate.leave(now);
                let row = row(desk, &state, now);
                desk.in_save = Some(state);
                row
            })
            .collect()
    }

    /// What people should know about the gates since this was last asked.
    pub fn take_notices(&mut self) -> Vec<(Arc<str>, Notice)> {
        std::mem::take(&mut self.notices)
    }
}

fn row(desk: &GateDesk, state: &GateState, now: Timestamp) -> GateRow {
    GateRow { name: desk.name.to_string(), rev: desk.rev, state: state.write(), updated_at: now }
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
