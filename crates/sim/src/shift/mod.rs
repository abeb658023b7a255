//! One session of a simulated worker: the real desk, driven as the real session drives it.
//!
//! [`Shift`] follows `engine/worker/session/` step by step; only waiting and calls are events of the simulation.

mod call;
mod end;
mod gates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::Transition;
use redrive_core::id::{ItemId, StageNo};
use redrive_core::item::Payload;
use redrive_core::status::Control;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::maintain;
use redrive_engine::worker::{CallId, ClockWatch, Desk, Ending, Halt, Stop, leave_idle};
use redrive_store::{Claim, Claimed, ClaimedItem, Error, Slot, Store, Turn, Turned};

use crate::heartbeat::Heartbeat;
use crate::mailbox::{Mailbox, Wait};
use crate::met::Met;
use crate::slip::{self, Slip};
use crate::worker::Worker;

/// As in the session: how long free places are gathered before they are claimed.
const GATHER: Duration = Duration::from_millis(3);
/// As in the session: how many held items are read at a time. Fewer, so that there is more than one page.
const HELD_PAGE: usize = 5;
/// As in the session: how often all joining parents are looked at.
const SWEEP: Duration = Duration::from_secs(15);

/// A call under way.
pub(super) struct Open {
    pub(super) stage: StageNo,
    pub(super) items: Vec<(ItemId, u32)>,
}

/// One session of a worker.
pub struct Shift {
    pub(super) worker: Worker,
    pub(super) desk: Desk,
    pub(super) heartbeat: Heartbeat,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) open: BTreeMap<CallId, Open>,
    /// Attempts that a handler has been called for: more calls for them are parts of a batch that is taken apart.
    pub(super) called: BTreeSet<(ItemId, u32)>,
    pub(super) broken_off: Vec<(ItemId, u32)>,
    pub(super) next_due: Option<Timestamp>,
    looked_at: Timestamp,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) must_reconcile: bool,
    pub(super) claimed_nothing: bool,
    claimed_at: Timestamp,
    held_back: bool,
    swept_at: Timestamp,
    pub(super) gates_read_at: Timestamp,
    pub(super) idle_ms: Option<i64>,
    clock: ClockWatch,
    /// Whether this turn brought anything.
    pub(super) fruitful: bool,
    /// Turns that brought nothing, and since when they are counted.
    pub(super) fruitless: (i64, u32),
    closed: bool,
    /// Somebody else took over something that was held here.
    pub(super) disturbed: bool,
}

impl Drop for Shift {
    fn drop(&mut self) {
        if !self.closed && self.desk.is_calling() {
            self.worker.hub.meet(Met::CrashCalling);
        }
        self.mailbox.close();
    }
}

impl Shift {
    /// Works on the run until the session ends.
    ///
    /// # Errors
    /// When the store fails for too long.
    pub async fn work(of: &Worker) -> Result<Ending, Error> {
        let row = of.store.run(of.run).await?.ok_or_else(|| Error::NotFound("the run".to_owned()))?;
        let heartbeat = Heartbeat::begin(of).await?;
        let worker = of.after_pauses(row.pause.before_ms);
        let now = worker.env.clock.now();
        let idle_ms = leave_idle(&worker.store, &row, now).await?;
        let (rows, live) = gates::first_look(&worker, now).await?;
        let me = heartbeat.worker().to_string();
        let mut shift = Self {
            desk: Desk::of(&row, worker.recipe.clone(), &me)?.with_gates(&me, &live, &rows, now)?,
            worker,
            heartbeat,
            mailbox: Mailbox::new(),
            open: BTreeMap::new(),
            called: BTreeSet::new(),
            broken_off: Vec::new(),
            next_due: None,
            looked_at: Timestamp(i64::MIN),
            failing_since: None,
            must_reconcile: false,
            claimed_nothing: false,
            claimed_at: Timestamp(i64::MIN),
            held_back: false,
            swept_at: Timestamp(i64::MIN),
            gates_read_at: now,
            idle_ms,
            clock: ClockWatch::default(),
            fruitful: false,
            fruitless: (0, 0),
            closed: false,
            disturbed: false,
        };
        let ending = shift.run().await;
        shift.close(&ending).await;
        shift.closed = true;
        ending
    }

    async fn run(&mut self) -> Result<Ending, Error> {
        loop {
            match self.turn().await {
                Ok(Some(ending)) => return Ok(ending),
                Ok(None) => self.failing_since = None,
                Err(error) => self.bear(error).await?,
            }
            self.start_calls();
            self.count_turn();
            self.wait().await;
        }
    }

    async fn turn(&mut self) -> Result<Option<Ending>, Error> {
        let now = self.worker.env.clock.now();
        match self.worker.orders.stop() {
            Stop::No => {}
            Stop::Drain => {
                self.worker.hub.meet(Met::StopDrain);
                self.desk.stop(Halt::Stopping);
            }
            Stop::Now => {
                self.worker.hub.meet(Met::StopNow);
                self.break_off();
                self.desk.stop(Halt::Stopping);
            }
        }
        let Worker { store, env, .. } = &self.worker;
        self.clock.look(store, &mut self.desk, env).await?;
        store.oracle().on_looked(self.heartbeat.worker(), self.desk.paused_ms());
        if now.since(self.looked_at) >= span(self.worker.pace.tick) || self.looked_at > now {
            self.look_after(now).await?;
            self.looked_at = now;
        }
        self.hear_gates(now).await?;
        self.record_and_claim().await?;
        self.meet_notices();
        let bereft = self.desk.take_bereft();
        if !bereft.is_empty() {
            let Worker { store, env, .. } = &self.worker;
            let plan = self.desk.plan().clone();
            let told = &mut |transition: &Transition| self.desk.spend(transition);
            let joined = maintain::join_among(store, bereft, &plan, env, told).await?;
            self.claimed_nothing &= joined == 0;
        }
        self.ending().await
    }

    async fn look_after(&mut self, now: Timestamp) -> Result<(), Error> {
        let Worker { store, run, recipe, env, pace, .. } = &self.worker;
        let lease = span(pace.lease);
        if now.since(self.looked_at) > lease / 2 {
            store.renew(self.heartbeat.worker(), now.after(lease), now).await?;
        }
        let row = store.run(*run).await?;
        let control = row.as_ref().map_or(Control::Cancelled, |row| row.control);
        let paused_ms = row.as_ref().map_or(0, |row| row.pause.before_ms);
        row.as_ref().map(|row| self.desk.hear_budget(row)).transpose()?;
        self.desk.paused_for(paused_ms);
        store.oracle().on_looked(self.heartbeat.worker(), paused_ms);
        if control != Control::Go {
            self.desk.stop(Halt::Asked(control));
        }
        let (plan, jumped) = (self.desk.plan().clone(), self.clock.jumped(lease, env));
        let told = &mut |transition: &Transition| self.desk.spend(transition);
        maintain::reap(store, *run, &plan, env, jumped, told).await?;
        let has_children = recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some());
        if has_children && (now.since(self.swept_at) >= SWEEP || self.swept_at > now) {
            self.swept_at = now;
            let told = &mut |transition: &Transition| self.desk.spend(transition);
            maintain::join(store, *run, &plan, env, told).await?;
        }
        if self.must_reconcile {
            self.reconcile().await?;
            self.must_reconcile = false;
        }
        Ok(())
    }

    pub(super) async fn reconcile(&mut self) -> Result<(), Error> {
        let mut unknown = Vec::new();
        let mut after = None;
        loop {
            let held = self.worker.store.held(self.heartbeat.worker(), after, HELD_PAGE).await?;
            let Some(last) = held.last() else { break };
            after = Some(last.seq);
            let lost = held.into_iter().filter(|item| !self.desk.holds(item));
            unknown.extend(lost.map(|item| ClaimedItem { item, payload: Payload::from([]) }));
        }
        if !unknown.is_empty() {
            self.worker.hub.meet(Met::Reconciled);
        }
        self.desk.give_back(unknown);
        Ok(())
    }

    async fn record_and_claim(&mut self) -> Result<(), Error> {
        let env = self.worker.env.clone();
        let now = env.clock.now();
        let commit = self.desk.commit(now, || env.dice.draw());
        let mut slots = self.desk.wants(now);
        let gates = self.gates_to_save(now);
        self.fruitful |= commit.is_some() || !gates.is_empty();
        self.idle_wants_all(&slots);
        let just_claimed = self.claimed_at <= now && now.since(self.claimed_at) < GATHER;
        self.held_back = just_claimed && self.desk.is_busy(&slots);
        if self.held_back {
            slots.clear();
        } else if !slots.is_empty() {
            self.claimed_at = now;
        }
        let (worker, store) = (self.heartbeat.worker(), &self.worker.store);
        let claim = (!slots.is_empty()).then(|| Claim { worker, slots: slots.clone(), now });
        let turn = Turn { commit, gates, claim };
        if turn.is_empty() {
            return Ok(());
        }
        let (records, saves, claims) = (turn.commit.is_some(), !turn.gates.is_empty(), turn.claim.is_some());
        let turned = store.turn(turn).await.unwrap_or_else(Turned::from);
        if turned.claimed.is_err() {
            store.oracle().forget_windows();
        }
        self.gates_saved(saves.then_some(turned.gates), now);
        let recorded = turned.applied.map(|applied| if records { self.desk.committed(&applied) } else { 0 });
        if claims {
            self.accept(&slots, turned.claimed, now).await?;
        }
        self.disturbed |= recorded? > 0;
        Ok(())
    }

    /// L7: a desk with nothing to do asks for all it can take, but for what a gate holds up.
    fn idle_wants_all(&self, slots: &[Slot]) {
        let Worker { recipe, hub, .. } = &self.worker;
        let all = recipe.plan.stages().all(|(stage, _)| {
            let asked = slots.iter().find(|slot| slot.stage == stage).map_or(0, |slot| slot.limit);
            recipe.work(stage).is_some_and(|work| work.gate.is_some() || asked == work.capacity())
        });
        if self.desk.is_idle() && self.desk.halt().is_none() && !all {
            hub.broke("L7", format!("an idle worker asks for {slots:?} only"));
        }
    }

    async fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Result<Claimed, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut claimed = claimed.inspect_err(|_| self.must_reconcile = true)?;
        self.claimed_nothing = claimed.items.is_empty() && claimed.damaged.is_empty();
        self.fruitful |= !self.claimed_nothing;
        for item in &claimed.items {
            self.called.remove(&(item.item.id, item.item.attempt));
        }
        self.next_due = claimed.next_due;
        match self.worker.slip {
            Some(Slip::WorksOnDamaged) => claimed.items.extend(slip::whole(claimed.damaged)),
            Some(Slip::ReturnsDamaged) => self.desk.give_back(slip::whole(claimed.damaged)),
            _ => self.desk.accept_damaged(claimed.damaged),
        }
        let asked = self.desk.reusable(&claimed.items);
        let mut known = BTreeMap::new();
        if !asked.is_empty() {
            let keys = asked.iter().map(|(_, key)| *key).collect();
            let kept = self.worker.store.outputs(keys).await.unwrap_or_default();
            known.extend(
                asked.iter().zip(kept).filter_map(|((at, _), output)| output.map(|output| (*at, output))),
            );
        }
        self.desk.accept(slots, claimed.items, known, now);
        Ok(())
    }

    async fn wait(&mut self) {
        let now = self.worker.env.clock.now();
        let room = !self.desk.wants(now).is_empty();
        let idle = !self.desk.has_records() && (self.claimed_nothing || self.held_back || !room);
        if !idle {
            self.drain_replies();
            if self.desk.is_calling() && !self.desk.has_records() {
                self.worker.hub.sleep(1).await;
            }
            return;
        }
        let tick = if self.held_back { GATHER } else { span(self.worker.pace.tick) };
        let until =
            self.next_due.filter(|due| room || *due > now).map_or(tick, |due| due.since(now)).min(tick);
        let opens = self.desk.opens_at(now);
        if opens.is_some_and(|opens| opens > now) {
            self.worker.hub.meet(Met::GateWait);
        }
        let until = opens.map_or(until, |opens| opens.since(now).min(until));
        let spins = self.worker.slip == Some(Slip::Spins) && opens.is_some();
        let until = if spins || self.desk.gates_urgent() { Duration::ZERO } else { until };
        Wait::new(&self.worker.hub, &self.mailbox, &self.worker.orders, millis(until).max(1)).await;
        self.claimed_nothing = false;
        self.drain_replies();
    }

    pub(super) fn break_off(&mut self) {
        let open = std::mem::take(&mut self.open);
        for call in open.values() {
            let store = &self.worker.store;
            store.oracle().on_gate_call_over(store.actor().slot, call.stage);
        }
        self.broken_off.extend(open.into_values().flat_map(|call| call.items));
        self.desk.interrupt();
    }
}

pub(super) fn span(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
