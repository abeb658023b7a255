//! A simulated worker: the real desk, driven as the real session drives it.
//!
//! [`Shift`] follows `engine/worker/session.rs` step by step. What differs: waiting and calls are events of the
//! simulation, and a process has several shifts one after the other, as a daemon would have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use redrive_core::budget::Budget;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::Payload;
use redrive_core::status::Control;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::env::Env;
use redrive_engine::handler::Reply;
use redrive_engine::maintain;
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::{Call, CallId, Desk, Ending, Halt, Stop};
use redrive_store::{Claim, Claimed, ClaimedItem, Error, Retired, RunChange, Slot, Store};

pub use crate::mailbox::Mailbox;
use crate::heartbeat::Heartbeat;
use crate::hub::{Event, Hub};
use crate::mailbox::{Orders, Wait};
use crate::met::Met;
use crate::scenario::Pace;
use crate::script::Script;
use crate::store::FaultyStore;

/// Everything a worker's process has.
#[derive(Clone)]
pub struct Worker {
    /// The run's shared part.
    pub hub: Arc<Hub>,
    /// The store as this process sees it.
    pub store: FaultyStore,
    /// Its clock and dice.
    pub env: Env,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// What handlers answer.
    pub script: Arc<Script>,
    /// The run.
    pub run: RunId,
    /// Speed.
    pub pace: Pace,
    /// What it is told from outside.
    pub orders: Arc<Orders>,
}

impl Worker {
    /// Lives until it is told to stop.
    pub async fn live(self) {
        // A process that comes up on the same machine knows that its predecessor is gone.
        if let Some(before) = self.orders.predecessor()
            && self.hub.rng.permille(500)
            && self.store.retire(before, Retired::Lost).await.is_ok()
        {
            self.hub.meet(Met::RetiredLost);
        }
        loop {
            if self.has_work().await {
                match self.shift().await {
                    Ok(Ending::Stopped) => return,
                    Ok(_) => {}
                    Err(_) => self.hub.meet(Met::GaveUp),
                }
            } else if self.orders.stop() != Stop::No {
                return;
            }
            self.hub.sleep(self.pace.tick).await;
        }
    }

    async fn has_work(&self) -> bool {
        let Ok(Some(row)) = self.store.run(self.run).await else { return false };
        let live = redrive_engine::report::live_items(&self.store, self.run).await;
        row.control == Control::Go && (row.finished_at.is_none() || live.is_ok_and(|live| live > 0))
    }

    async fn shift(&self) -> Result<Ending, Error> {
        let row = self.store.run(self.run).await?.ok_or_else(|| Error::NotFound("the run".to_owned()))?;
        let budget: Budget = row.budget.as_deref().and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        let heartbeat = Heartbeat::begin(self).await?;
        let mut shift = Shift {
            desk: Desk::new(self.run, self.recipe.clone(), budget),
            worker: self.clone(),
            heartbeat,
            mailbox: Mailbox::new(),
            open: BTreeMap::new(),
            broken_off: Vec::new(),
            next_due: None,
            looked_at: Timestamp(i64::MIN),
            failing_since: None,
            must_reconcile: false,
            claimed_nothing: false,
        };
        let ending = shift.run().await;
        shift.close(&ending).await;
        ending
    }
}

/// One session.
struct Shift {
    worker: Worker,
    desk: Desk,
    heartbeat: Heartbeat,
    mailbox: Arc<Mailbox>,
    open: BTreeMap<CallId, Vec<(ItemId, u32)>>,
    broken_off: Vec<(ItemId, u32)>,
    next_due: Option<Timestamp>,
    looked_at: Timestamp,
    failing_since: Option<Timestamp>,
    must_reconcile: bool,
    claimed_nothing: bool,
}

impl Drop for Shift {
    fn drop(&mut self) {
        if self.desk.is_calling() {
            self.worker.hub.meet(Met::CrashCalling);
        }
        self.mailbox.close();
    }
}

impl Shift {
    async fn run(&mut self) -> Result<Ending, Error> {
        loop {
            match self.turn().await {
                Ok(Some(ending)) => return Ok(ending),
                Ok(None) => self.failing_since = None,
                Err(error) => self.bear(error).await?,
            }
            self.start_calls();
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
        if now.since(self.looked_at) >= span(self.worker.pace.tick) || self.looked_at > now {
            self.look_after().await?;
            self.looked_at = now;
        }
        self.record_and_claim().await?;
        if self.desk.take_child_finished() {
            let Worker { store, run, recipe, env, .. } = &self.worker;
            maintain::join(store, *run, &recipe.plan, env).await?;
        }
        self.ending().await
    }

    async fn look_after(&mut self) -> Result<(), Error> {
        let Worker { store, run, recipe, env, .. } = &self.worker;
        let control = store.run(*run).await?.map_or(Control::Cancelled, |row| row.control);
        if control != Control::Go {
            self.desk.stop(Halt::Asked(control));
        }
        maintain::reap(store, *run, &recipe.plan, env).await?;
        if recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some()) {
            maintain::join(store, *run, &recipe.plan, env).await?;
        }
        if self.must_reconcile {
            self.reconcile().await?;
            self.must_reconcile = false;
        }
        Ok(())
    }

    async fn reconcile(&mut self) -> Result<(), Error> {
        let held = self.worker.store.held(self.heartbeat.worker(), None, 10_000).await?;
        let unknown: Vec<ClaimedItem> = held
            .into_iter()
            .filter(|item| !self.desk.holds(item.seq))
            .map(|item| ClaimedItem { item, payload: Payload::from([]) })
            .collect();
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
        let slots = self.desk.wants();
        self.idle_wants_all(&slots);
        let (worker, store) = (self.heartbeat.worker(), &self.worker.store);
        let record = async {
            match commit {
                Some(commit) => Some(store.commit(commit).await),
                None => None,
            }
        };
        let claim = async {
            if slots.is_empty() {
                return None;
            }
            let claimed = store.claim(Claim { worker, slots: slots.clone(), now }).await;
            if claimed.is_err() {
                store.oracle().forget_windows();
            }
            Some(claimed)
        };
        let (applied, claimed) = join(record, claim).await;
        if let Some(claimed) = claimed {
            self.accept(&slots, claimed, now).await?;
        }
        if let Some(applied) = applied {
            self.desk.committed(&applied?);
        }
        Ok(())
    }

    /// L7: a desk with nothing to do asks for all it can take.
    fn idle_wants_all(&self, slots: &[Slot]) {
        let Worker { recipe, hub, .. } = &self.worker;
        let full = |slot: &Slot| recipe.work(slot.stage).is_some_and(|work| slot.limit == work.batch * work.concurrency);
        let all = slots.len() == recipe.stages.len() && slots.iter().all(full);
        if self.desk.is_idle() && self.desk.halt().is_none() && !all {
            hub.broke("L7", format!("an idle worker asks for {slots:?} only"));
        }
    }

    async fn accept(&mut self, slots: &[Slot], claimed: Result<Claimed, Error>, now: Timestamp) -> Result<(), Error> {
        let claimed = claimed.inspect_err(|_| self.must_reconcile = true)?;
        self.claimed_nothing = claimed.items.is_empty();
        self.next_due = claimed.next_due;
        let asked = self.desk.reusable(&claimed.items);
        let mut known = BTreeMap::new();
        if !asked.is_empty() {
            let keys = asked.iter().map(|(_, key)| *key).collect();
            let kept = self.worker.store.outputs(keys).await.unwrap_or_default();
            known.extend(asked.iter().zip(kept).filter_map(|((at, _), output)| output.map(|output| (*at, output))));
        }
        self.desk.accept(slots, claimed.items, known, now);
        Ok(())
    }

    fn start_calls(&mut self) {
        for call in self.desk.next_calls() {
            self.worker.store.oracle().on_called(call.request.items.iter().map(|item| item.id));
            self.start(call);
        }
    }

    /// Has a call answered, at some time, perhaps twice, perhaps never.
    fn start(&mut self, call: Call) {
        let Worker { hub, script, .. } = &self.worker;
        let (id, request) = (call.id, call.request);
        hub.score(|score| score.calls += 1);
        hub.log("call", &[i64::from(call.stage.0)], || {
            let keys: Vec<_> = request.items.iter().map(|item| &*item.key).collect();
            format!("{} {} {id:?}: {}", self.worker.store.actor().name, request.stage, keys.join(" "))
        });
        self.open.insert(id, request.items.iter().map(|item| (item.id, item.attempt)).collect());
        let answer = script.answer(hub, &request);
        let timeout = millis(request.timeout);
        let now = hub.now();
        let send = |after: i64, reply: Reply, special: Option<Met>| {
            hub.at(now + after, Event::Answer { mailbox: self.mailbox.clone(), id, reply, special });
        };
        match answer.after {
            Some(after) if after < timeout => {
                if !hub.healed() && hub.rng.permille(30) {
                    send(after + hub.rng.span(0, timeout), answer.reply.clone(), Some(Met::DuplicateAnswer));
                }
                send(after, answer.reply, None);
            }
            late => {
                let failure = Failure::new(Class::Timeout, Kind::Timeout, format!("no answer within {timeout} ms"));
                send(timeout, Reply::Whole(failure), Some(Met::Timeout));
                if let Some(after) = late {
                    send(after, answer.reply, Some(Met::LateAnswer));
                }
            }
        }
    }

    async fn wait(&mut self) {
        let idle = !self.desk.has_records() && (self.claimed_nothing || self.desk.wants().is_empty());
        if !idle {
            self.drain_replies();
            if self.desk.is_calling() && !self.desk.has_records() {
                self.worker.hub.sleep(1).await;
            }
            return;
        }
        let now = self.worker.env.clock.now();
        let tick = span(self.worker.pace.tick);
        let until = self.next_due.map_or(tick, |due| due.since(now)).min(tick);
        Wait::new(&self.worker.hub, &self.mailbox, &self.worker.orders, millis(until).max(1)).await;
        self.claimed_nothing = false;
        self.drain_replies();
    }

    fn drain_replies(&mut self) {
        while let Some((id, reply)) = self.mailbox.take() {
            self.note(&reply);
            self.open.remove(&id);
            if let Some(next) = self.desk.finished(id, reply) {
                self.worker.hub.meet(Met::Bisection);
                self.start(next);
            }
        }
    }

    fn note(&self, reply: &Reply) {
        if let Reply::Whole(_) = reply {
            self.worker.hub.meet(Met::Shared);
        }
    }

    fn break_off(&mut self) {
        self.broken_off.extend(std::mem::take(&mut self.open).into_values().flatten());
        self.desk.interrupt();
    }

    async fn ending(&mut self) -> Result<Option<Ending>, Error> {
        if !self.desk.is_idle() {
            return Ok(None);
        }
        if let Some(halt) = self.desk.halt() {
            return Ok(Some(match halt {
                Halt::Stopping => Ending::Stopped,
                Halt::Budget(_) | Halt::Quota(_) | Halt::Asked(_) => Ending::Halted(halt.clone()),
            }));
        }
        if !self.claimed_nothing {
            return Ok(None);
        }
        let Worker { store, run, env, .. } = &self.worker;
        let Some(row) = store.run(*run).await? else { return Ok(Some(Ending::Finished)) };
        if !row.admitted_all || redrive_engine::report::live_items(store, *run).await? > 0 {
            return Ok(None);
        }
        let finished_at = Some(Some(env.clock.now()));
        store.change_run(*run, RunChange { finished_at, ..RunChange::default() }).await?;
        Ok(Some(Ending::Finished))
    }

    async fn bear(&mut self, error: Error) -> Result<(), Error> {
        let now = self.worker.env.clock.now();
        let since = *self.failing_since.get_or_insert(now);
        let lasted = now.since(since);
        let told = self.worker.orders.stop();
        if !error.is_passing() || lasted > span(self.worker.pace.patience) || told == Stop::Now {
            return Err(error);
        }
        let pause = (lasted / 2).clamp(Duration::from_millis(50), Duration::from_secs(5));
        self.worker.env.clock.sleep(pause).await;
        Ok(())
    }

    async fn close(&mut self, ending: &Result<Ending, Error>) {
        self.break_off();
        let env = self.worker.env.clone();
        let mut undisturbed = true;
        while let Some(commit) = self.desk.commit(env.clock.now(), || env.dice.draw()) {
            match self.worker.store.commit(commit).await {
                Ok(applied) => undisturbed &= self.desk.committed(&applied) == 0,
                Err(_) => {
                    undisturbed = false;
                    break;
                }
            }
        }
        let how = if ending.is_ok() && self.desk.is_idle() { Retired::Stopped } else { Retired::Lost };
        let worker = self.heartbeat.worker();
        if self.worker.store.retire(worker, how).await.is_ok() && undisturbed && how == Retired::Stopped {
            let checked = self.worker.store.oracle().on_broken_off(worker, &self.broken_off);
            if let Err(broken) = checked {
                self.worker.hub.broke(broken.law, broken.what);
            }
        }
    }
}

fn span(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
