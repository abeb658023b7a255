//! Gates: what every worker must know about them, and what it must not do then.
//!
//! | rule | says |
//! |---|---|
//! | `gate-closed` | no call starts while the gate is closed, as far as the worker has read or told others |
//! | `item-hint` | no item is called before the time that it was told when it was turned away |
//! | `gate-paused` | nor while the gate waits for somebody |
//! | `gate-places` | a worker has no more calls under way than the gate allows |
//! | `gate-probe` | a service that is away is tried out with one call at a time, and not before its time |
//! | `gate-blame` | an item that was turned away has spent nothing, and does not die of it |
//! | `gate-wait` | neither an item nor a gate waits longer than a gate can be closed |
//! | `gate-totals` | no more calls are counted than were made |
//! | `gate-lifted` | what a call has shown to be over is not closed by it again |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::attempt::Outcome;
use redrive_core::event::{self, Transition};
use redrive_core::failure::{Class, Failure};
use redrive_core::gate::{GateSpec, GateState};
use redrive_core::id::StageNo;
use redrive_core::item::{DeadReason, Item, State};
use redrive_core::policy::Cause;
use redrive_core::time::{CLOCK_SLACK, Timestamp, millis};
use redrive_engine::handler::{Answer, Reply};
use redrive_store::{Applied, GateRow, Store};

use super::{Oracle, Ruling, broken};
use crate::hub::at_once;
use crate::met::Met;

/// Longest time for which an item that was turned away waits by itself.
const LONGEST_CLOSING: Duration = Duration::from_secs(90);

/// The gates as they must be, and as each worker must see them.
#[derive(Debug, Default)]
pub(super) struct Gates {
    rows: BTreeMap<String, (GateRow, GateState)>,
    views: BTreeMap<(usize, usize), View>,
    calls: BTreeMap<String, u64>,
    lifted: BTreeSet<(String, u64, Timestamp)>,
    /// Gates whose times were set right by somebody: what was parked may be so since another time.
    set_right: BTreeSet<String>,
}

/// What a session must know about a gate: what it has read, what answers told it, what it told others.
#[derive(Debug, Default)]
struct View {
    epoch: u64,
    under_way: u32,
    until: Timestamp,
    /// Closings until then were seen to be over.
    over: Timestamp,
    paused: bool,
    /// Whether the service is being tried out, and when; `None` where that cannot be said from outside.
    probation: Option<Probation>,
    /// A call ended since that was known.
    ended: bool,
    /// How far the worker's clock was off when it was last looked at, in milliseconds.
    off: i64,
    /// The last change number whose times it set right.
    set_right: i64,
    /// Its clock was put back since it last read the gate: what it keeps of what it had read cannot be told from outside.
    put_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probation {
    on: bool,
    from: Option<Timestamp>,
}

impl View {
    /// Learns of a closing. One that is over is over, even if the worker's clock is put back.
    fn closed_until(&mut self, until: Timestamp, now: Timestamp) {
        let until = self.until.max(until);
        if until <= now {
            self.over = self.over.max(until);
        }
        self.until = if until > self.over { until } else { Timestamp(0) };
    }
}

impl View {
    /// The worker's clock is off by so much now. What it was told before it was put back lasts no longer for that, and is not to
    /// be told from outside any more. `true` when it was put back.
    fn clock_off(&mut self, off: i64) -> bool {
        let back = self.off - off > millis(CLOCK_SLACK);
        if back {
            let before = std::mem::take(self);
            let (until, over) = (Timestamp(0), Timestamp(0));
            *self = Self { until, over, probation: None, put_back: true, ..before };
        }
        self.off = off;
        back
    }
}

impl Probation {
    fn of(state: &GateState) -> Self {
        let away = state.breaker.away_since.map(|_| state.breaker.probe_at);
        let parked = state.parked.as_ref().map(|parked| parked.until);
        Self { on: away.or(parked).is_some(), from: away.max(parked) }
    }
}

/// Until when a gate is closed. A parked one is tried out then, and open as soon as that has passed.
fn closed_until(state: &GateState) -> Timestamp {
    state.closed.as_ref().map_or(Timestamp(0), |closed| closed.until)
}

/// When the gate was last found closed.
fn found_at(state: &GateState) -> Timestamp {
    let closed = [&state.closed, &state.parked].into_iter().flatten();
    closed.map(|closed| closed.decided_at.max(closed.since)).max().unwrap_or_default()
}

impl Oracle {
    pub(super) fn gate_at(&self, stage: StageNo) -> Option<(usize, String, GateSpec)> {
        let at = self.recipe.work(stage)?.gate?;
        let gate = self.recipe.gates.get(at)?;
        Some((at, gate.name.to_string(), gate.spec.clone()))
    }

    /// Whether a worker may be trying out what is behind a stage's gate.
    pub(super) fn may_be_tried_out(&self, stage: StageNo) -> bool {
        let Some((at, ..)) = self.gate_at(stage) else { return false };
        let mut views = self.gates.views.iter().filter(|((_, gate), _)| *gate == at);
        views.any(|(_, view)| view.probation.is_none_or(|probation| probation.on))
    }

    /// A worker reads the gates; in a new session it knows nothing else.
    pub fn on_gates_heard(&mut self, slot: usize, new: bool, now: Timestamp) {
        for (at, gate) in self.recipe.gates.iter().enumerate() {
            let view = self.gates.views.entry((slot, at)).or_default();
            if new {
                *view = View { off: now.0 - self.hub.now(), ..View::default() };
            }
            let Some((row, state)) = self.gates.rows.get(&*gate.name) else { continue };
            if view.clock_off(now.0 - self.hub.now()) {
                self.gates.set_right.insert(gate.name.to_string());
            }
            if state.epoch > view.epoch {
                *view =
                    View { epoch: state.epoch, under_way: view.under_way, off: view.off, ..View::default() };
            }
            let until = closed_until(state);
            view.paused |= state.pause.is_some();
            if std::mem::take(&mut view.put_back) {
                view.set_right = row.rev;
            }
            // What a clock ahead wrote begins anew when it is first read, and is not read again until it changes.
            // So does what one wrote that was put right a moment before.
            let written = row.updated_at.max(found_at(state));
            if written > now.after(CLOCK_SLACK) || view.set_right == row.rev {
                view.probation = None;
                view.set_right = row.rev;
                self.gates.set_right.insert(gate.name.to_string());
                continue;
            }
            view.closed_until(until, now);
            let said = Probation::of(state);
            view.probation = Some(said).filter(|said| new || view.probation == Some(*said));
            if new && until > now {
                self.hub.meet(Met::GateOutlived);
            }
        }
    }

    /// A worker tells others what it knows; where it cannot, nobody can say what that is.
    pub fn on_gates_told(&mut self, slot: usize, rows: &[GateRow], stale: bool, now: Timestamp) {
        for (at, gate) in self.recipe.gates.iter().enumerate() {
            let Some(view) = self.gates.views.get_mut(&(slot, at)) else { continue };
            if view.clock_off(now.0 - self.hub.now()) {
                self.gates.set_right.insert(gate.name.to_string());
            }
            view.closed_until(Timestamp(0), now);
            if let Some(row) = rows.iter().find(|row| *row.name == *gate.name) {
                let state = GateState::read(&row.state).unwrap_or_default();
                view.paused |= state.pause.is_some();
                if found_at(&state) <= now.after(CLOCK_SLACK) {
                    view.closed_until(closed_until(&state), now);
                }
                view.probation = Some(Probation::of(&state));
                view.ended = false;
            } else if stale {
                view.probation = None;
            }
        }
    }

    /// A call starts.
    ///
    /// # Errors
    /// When the gate was closed, paused, or full.
    pub fn on_gate_call(&mut self, slot: usize, stage: StageNo, now: Timestamp) -> Ruling {
        let Some((at, name, spec)) = self.gate_at(stage) else { return Ok(()) };
        let view = self.gates.views.entry((slot, at)).or_default();
        *self.gates.calls.entry(name.clone()).or_default() += 1;
        view.under_way += 1;
        if view.clock_off(now.0 - self.hub.now()) {
            self.gates.set_right.insert(name.clone());
        }
        view.closed_until(Timestamp(0), now);
        if view.paused {
            return broken("gate-paused", format!("worker-{slot} calls through {name}, which is paused"));
        }
        // A clock that is put back by as little as that is not noticed.
        if now.after(self.skew.min(CLOCK_SLACK)) < view.until {
            let until = view.until;
            return broken(
                "gate-closed",
                format!("worker-{slot} calls through {name} at {now}, closed until {until}"),
            );
        }
        if view.under_way > spec.max_concurrency {
            let (n, most) = (view.under_way, spec.max_concurrency);
            return broken("gate-places", format!("worker-{slot} makes {n} calls through {name}, of {most}"));
        }
        let Some(probation) = view.probation.filter(|probation| probation.on) else { return Ok(()) };
        self.hub.meet(Met::GateProbe);
        if view.under_way > 1 {
            let n = view.under_way;
            return broken("gate-probe", format!("worker-{slot} tries {name} out with {n} calls at once"));
        }
        match probation.from {
            Some(from) if now < from && !view.ended => {
                broken("gate-probe", format!("worker-{slot} tries {name} out before {from}"))
            }
            _ => Ok(()),
        }
    }

    /// A call ended, or was broken off.
    pub fn on_gate_call_over(&mut self, slot: usize, stage: StageNo) {
        let Some((at, ..)) = self.gate_at(stage) else { return };
        let view = self.gates.views.entry((slot, at)).or_default();
        view.under_way = view.under_way.saturating_sub(1);
        view.ended = true;
    }

    /// An answer reaches a worker; `asked` items were in the call.
    pub fn on_gate_answer(
        &mut self,
        slot: usize,
        stage: StageNo,
        asked: usize,
        answer: &Answer,
        now: Timestamp,
    ) {
        self.on_gate_call_over(slot, stage);
        let Some((at, name, _)) = self.gate_at(stage) else { return };
        let Some(policy) = self.recipe.plan.stage(stage).map(|stage| &stage.policy) else { return };
        let class = |failure: &Failure| policy.reclassify(failure.clone()).class;
        let failures: Vec<&Failure> = match &answer.reply {
            Reply::Whole(failure) => vec![failure],
            Reply::Items(replies) if replies.len() == asked => replies
                .iter()
                .filter_map(|reply| match reply {
                    event::ItemReply::Failed { failure, .. } => Some(failure),
                    _ => None,
                })
                .collect(),
            Reply::Items(_) | Reply::Part { .. } => Vec::new(),
        };
        let quota = failures.iter().any(|failure| class(failure) == Class::Quota);
        let view = self.gates.views.entry((slot, at)).or_default();
        view.paused |= quota;
        if view.clock_off(now.0 - self.hub.now()) {
            self.gates.set_right.insert(name.clone());
        }
        view.closed_until(Timestamp(0), now);
    }

    /// Takes in that gates were written.
    ///
    /// # Errors
    /// When one was written over, or not written; or says what cannot be.
    pub fn on_gates_saved(&mut self, store: &dyn Store, rows: &[GateRow], applied: &[Applied]) -> Ruling {
        if rows.len() != applied.len() {
            return broken("L3", format!("{} answers to {} gates", applied.len(), rows.len()));
        }
        for (row, applied) in rows.iter().zip(applied) {
            let fits = self.gates.rows.get(&row.name).map_or(0, |(kept, _)| kept.rev) == row.rev;
            match (applied, fits) {
                (Applied::Done, true) => self.gate_written(row)?,
                (Applied::Stale, false) => self.hub.meet(Met::GateStale),
                (applied, _) => {
                    return broken("L3", format!("gate {} of {} was {applied:?}", row.name, row.rev));
                }
            }
        }
        let kept = at_once(store.gates()).unwrap_or_default();
        if kept.iter().ne(self.gates.rows.values().map(|(row, _)| row)) {
            return broken("L3", format!("the gates are {kept:?}, and were not written so"));
        }
        Ok(())
    }

    fn gate_written(&mut self, row: &GateRow) -> Ruling {
        let unreadable = |why| crate::hub::Broken {
            law: "gate".to_owned(),
            what: format!("{} was written as {why}", row.name),
        };
        let new = GateState::read(&row.state).map_err(unreadable)?;
        let made = self.gates.calls.get(&row.name).copied().unwrap_or(0);
        if new.totals.calls > made {
            let told = new.totals.calls;
            return broken("gate-totals", format!("{} counts {told} calls, {made} were made", row.name));
        }
        self.hub.log("gate", &[row.rev], || row.state.clone());
        let parked = |state: &GateState| state.parked.as_ref().map(|parked| parked.since);
        let key = |until: Timestamp| (row.name.clone(), new.epoch, until);
        let old = self.gates.rows.get(&row.name).map(|(_, state)| state);
        let acted = old.is_some_and(|old| old.epoch != new.epoch);
        if let Some(until) = old.filter(|old| old.epoch == new.epoch).and_then(parked)
            && parked(&new) != Some(until)
        {
            self.gates.lifted.insert(key(until));
        }
        let known = !self.gates.set_right.contains(&row.name);
        if let Some(until) = parked(&new).filter(|until| known && self.gates.lifted.contains(&key(*until))) {
            return broken("gate-lifted", format!("{} is parked since {until} again", row.name));
        }
        let longest = |spec: &GateSpec| {
            let open_for = spec.breaker.as_ref().map_or(Duration::ZERO, |breaker| breaker.open_for);
            spec.hint_cap.max(open_for)
        };
        let gate = self.recipe.gates.iter().find(|gate| *gate.name == *row.name);
        let cap = gate.map(|gate| longest(&gate.spec));
        let most = row.updated_at.after(cap.unwrap_or_default().max(LONGEST_CLOSING) + self.skew * 2);
        if let Some(closed) =
            [&new.closed, &new.parked].into_iter().flatten().find(|closed| closed.until > most)
        {
            let until = closed.until;
            return broken("gate-wait", format!("{} closes until {until}, {most} at most", row.name));
        }
        if new.closed.is_some() {
            self.hub.meet(Met::GateClosed);
        }
        if new.batch.values().any(|batch| batch.largest.is_some()) {
            self.hub.meet(Met::GateShape);
        }
        self.gates.rows.insert(row.name.clone(), (GateRow { rev: row.rev + 1, ..row.clone() }, new));
        if acted {
            self.forget_hints();
        }
        Ok(())
    }

    /// What a gate answers for costs an item nothing but time, and not much of that.
    pub(super) fn blame(&self, before: &Item, transition: &Transition) -> Ruling {
        let Some(record) = &transition.record else { return Ok(()) };
        let (after, key) = (&transition.after, &before.key);
        let cause = record.wait.map(|(_, cause)| cause);
        let Some((_, name, spec)) = self.gate_at(before.stage) else {
            return match cause {
                Some(Cause::Gate) => broken("gate-blame", format!("{key} waits at a gate, and has none")),
                _ => Ok(()),
            };
        };
        let class = record.failure.as_ref().map(|failure| failure.class);
        if class == Some(Class::Oversized)
            && record.failure.as_ref().is_some_and(|failure| failure.status.is_none())
        {
            self.hub.meet(Met::NeverFits);
        }
        if record.outcome != Outcome::Throttled {
            return match class {
                Some(Class::RateLimited | Class::Quota) => {
                    broken("gate-blame", format!("{key} was turned away at {name} and {}", record.outcome))
                }
                _ => Ok(()),
            };
        }
        self.hub.meet(Met::TurnedAway);
        let counts = |item: &Item| (item.failures, item.crashes);
        let lives =
            matches!(after.state, State::Waiting { .. } | State::Dead { reason: DeadReason::Expired });
        // One of a few items of a batch that were turned away waits by its policy.
        let waits = [Cause::Gate, Cause::Hint, Cause::Throttle, Cause::Parked];
        if counts(before) != counts(after) || !lives || cause.is_some_and(|cause| !waits.contains(&cause)) {
            return broken("gate-blame", format!("{key} was turned away at {name}: {cause:?}, {after:?}"));
        }
        let open_for = spec.breaker.as_ref().map_or(Duration::ZERO, |breaker| breaker.open_for);
        // Others' clocks may be off.
        let most = spec.hint_cap.max(LONGEST_CLOSING).max(open_for) + open_for + self.skew * 2;
        match record.wait.filter(|(_, cause)| *cause == Cause::Gate) {
            Some((wait, _)) if wait > most => {
                broken("gate-wait", format!("{key} waits {wait:?} at {name}, {most:?} at most"))
            }
            _ => Ok(()),
        }
    }
}
