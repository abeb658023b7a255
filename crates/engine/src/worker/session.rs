//! Working on one run until it ends, waits too long, or is told to stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::budget::Budget;
use redrive_core::id::RunId;
use redrive_core::item::Payload;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Claim, Claimed, ClaimedItem, Error, Retired, RunChange, RunRow, Slot, Store, WorkerRow};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use super::desk::{CallId, Desk, Halt};
use super::execute::execute;
use super::heartbeat::Heartbeat;
use crate::crash;
use crate::env::Env;
use crate::handler::Reply;
use crate::maintain;
use crate::patience::Patience;
use crate::recipe::Recipe;

/// A worker that is nearly fully busy gathers free places this long before it claims again, instead of claiming singly.
const GATHER: Duration = Duration::from_millis(3);

/// What a worker that works on a run is called.
fn worker_name(name: &str, run: RunId) -> String {
    format!("{name} on {run}")
}

/// Whether a worker works on a run, by its name.
pub(crate) fn works_on(worker: &WorkerRow, run: RunId) -> bool {
    worker.spec.name.ends_with(&format!(" on {run}"))
}

/// How many held items are read at a time.
const HELD_PAGE: usize = 1_000;

/// How often all joining parents are looked at.
const SWEEP: Duration = Duration::from_secs(15);

/// How a worker behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name for people.
    pub name: String,
    /// How long what it holds is held without a sign of life.
    pub lease: Duration,
    /// Longest time between two looks at the store.
    pub tick: Duration,
    /// How long a store that does not answer is asked again before the session gives up.
    pub patience: Duration,
    /// Ends when only retries due later than this remain; `None` waits for all.
    pub max_wait: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: format!("pid {}", std::process::id()),
            lease: Duration::from_secs(30),
            tick: Duration::from_secs(1),
            patience: Duration::from_secs(30),
            max_wait: None,
        }
    }
}

/// What a session is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    No,
    /// Take nothing new; finish and record what runs.
    Drain,
    /// Break off what runs, record that, and end.
    Now,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Nothing is left to do.
    Finished,
    /// Only retries that are due too late remain.
    Waiting {
        /// When the next one is due.
        next_due: Timestamp,
    },
    /// The run was paused or cancelled.
    Halted(Halt),
    /// It was told to stop.
    Stopped,
}

/// Work on one run.
pub struct Session {
    /// Where the items are.
    pub store: Arc<dyn Store>,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// Clock and dice.
    pub env: Env,
    /// Behaviour.
    pub settings: Settings,
    /// Rings when items were submitted.
    pub wake: Arc<Notify>,
    /// Whether somebody here still reads the source.
    pub admitting: Arc<AtomicBool>,
    /// What the session is told to do.
    pub stop: watch::Receiver<Stop>,
}

/// The moving parts of a session.
struct Loop {
    session: Session,
    desk: Desk,
    heartbeat: Heartbeat,
    replies: mpsc::UnboundedReceiver<(CallId, Reply)>,
    sender: mpsc::UnboundedSender<(CallId, Reply)>,
    tasks: BTreeMap<CallId, AbortHandle>,
    next_due: Option<Timestamp>,
    looked_at: Timestamp,
    patience: Patience,
    must_reconcile: bool,
    claimed_nothing: bool,
    claimed_at: Timestamp,
    held_back: bool,
    swept_at: Timestamp,
}

impl Session {
    /// Works on `run` until it ends.
    ///
    /// # Errors
    /// When the store fails and stays so for longer than the settings' patience.
    pub async fn work(self, run: RunRow) -> Result<Ending, Error> {
        let budget: Budget =
            run.budget.as_deref().and_then(|saved| serde_json::from_str(saved).ok()).unwrap_or_default();
        maintain::take_over(&*self.store).await?;
        let heartbeat = Heartbeat::begin(
            self.store.clone(),
            self.env.clone(),
            worker_name(&self.settings.name, run.id),
            self.settings.lease,
        )
        .await?;
        let (sender, replies) = mpsc::unbounded_channel();
        let desk = Desk::new(run.id, self.recipe.clone(), budget).after_pauses(run.pause.before_ms);
        let mut work = Loop {
            session: self,
            desk,
            heartbeat,
            replies,
            sender,
            tasks: BTreeMap::new(),
            next_due: None,
            looked_at: Timestamp(i64::MIN),
            patience: Patience::default(),
            must_reconcile: false,
            claimed_nothing: false,
            claimed_at: Timestamp(i64::MIN),
            held_back: false,
            swept_at: Timestamp(i64::MIN),
        };
        let ending = work.run().await;
        work.close(&ending).await;
        ending
    }
}

impl Loop {
    async fn run(&mut self) -> Result<Ending, Error> {
        loop {
            let turn = self.turn().await;
            match turn {
                Ok(Some(ending)) => return Ok(ending),
                Ok(None) => self.patience.rest(),
                Err(error) if *self.session.stop.borrow() == Stop::Now => return Err(error),
                Err(error) => {
                    self.patience.bear(error, self.session.settings.patience, &self.session.env).await?
                }
            }
            self.start_calls();
            self.wait().await;
        }
    }

    /// One turn: look after the run, record what ended, claim what can be started, see whether it is over.
    async fn turn(&mut self) -> Result<Option<Ending>, Error> {
        let now = self.session.env.clock.now();
        let told = *self.session.stop.borrow_and_update();
        match told {
            Stop::No => {}
            Stop::Drain => self.desk.stop(Halt::Stopping),
            Stop::Now => {
                self.break_off();
                self.desk.stop(Halt::Stopping);
            }
        }
        if now.since(self.looked_at) >= self.session.settings.tick || self.looked_at > now {
            self.look_after(now).await?;
            self.looked_at = now;
        }
        self.record_and_claim().await?;
        let bereft = self.desk.take_bereft();
        if !bereft.is_empty() {
            let Session { store, recipe, env, .. } = &self.session;
            maintain::join_among(&**store, bereft, &recipe.plan, env).await?;
        }
        self.ending().await
    }

    /// Looks at what others may have changed: the run's control, vanished workers, settled parents.
    async fn look_after(&mut self, now: Timestamp) -> Result<(), Error> {
        let Session { store, recipe, env, settings, .. } = &self.session;
        let run = self.desk.run();
        if now.since(self.looked_at) > settings.lease / 2 {
            // Asleep for long, perhaps past the lease: what is held is still in these hands unless somebody took it.
            store.renew(self.heartbeat.worker(), now.after(settings.lease)).await?;
        }
        let row = store.run(run).await?;
        let control = row.as_ref().map_or(Control::Cancelled, |row| row.control);
        self.desk.paused_for(row.map_or(0, |row| row.pause.before_ms));
        if control != Control::Go {
            self.desk.stop(Halt::Asked(control));
        }
        maintain::take_over(&**store).await?;
        let reaped = maintain::reap(&**store, run, &recipe.plan, env).await?;
        if reaped > 0 {
            tracing::warn!(items = reaped, "took back items whose worker vanished");
        }
        let has_children = recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some());
        // What this worker's own children settle is joined at once; this finds what others left behind.
        if has_children && (now.since(self.swept_at) >= SWEEP || self.swept_at > now) {
            self.swept_at = now;
            maintain::join(&**store, run, &recipe.plan, env).await?;
        }
        if self.must_reconcile {
            self.reconcile().await?;
            self.must_reconcile = false;
        }
        Ok(())
    }

    /// After a claim whose answer was lost: gives back what the store says is held here but nobody here knows of.
    async fn reconcile(&mut self) -> Result<(), Error> {
        let mut unknown = Vec::new();
        let mut after = None;
        loop {
            let held = self.session.store.held(self.heartbeat.worker(), after, HELD_PAGE).await?;
            let Some(last) = held.last() else { break };
            after = Some(last.seq);
            let lost = held.into_iter().filter(|item| !self.desk.holds(item));
            unknown.extend(lost.map(|item| ClaimedItem { item, payload: Payload::from([]) }));
        }
        self.desk.give_back(unknown);
        Ok(())
    }

    async fn record_and_claim(&mut self) -> Result<(), Error> {
        let env = self.session.env.clone();
        let now = env.clock.now();
        let commit = self.desk.commit(now, || env.dice.draw());
        let mut slots = self.desk.wants();
        let just_claimed = self.claimed_at <= now && now.since(self.claimed_at) < GATHER;
        self.held_back = just_claimed && self.desk.is_busy(&slots);
        if self.held_back {
            slots.clear();
        } else if !slots.is_empty() {
            self.claimed_at = now;
        }
        let worker = self.heartbeat.worker();
        let store = self.session.store.clone();
        let record = async {
            match commit {
                Some(commit) => {
                    crash::point("record.before_commit");
                    let applied = store.commit(commit).await;
                    crash::point("record.after_commit");
                    Some(applied)
                }
                None => None,
            }
        };
        let claim = async {
            if slots.is_empty() {
                return None;
            }
            crash::point("claim.before");
            let claimed = store.claim(Claim { worker, slots: slots.clone(), now }).await;
            crash::point("claim.after");
            Some(claimed)
        };
        // Both are on their way before either is answered, so a store can write them in one transaction.
        let (applied, claimed) = tokio::join!(record, claim);
        // What is recorded is known to be so before a failed claim is looked into.
        let recorded =
            applied.transpose().map(|applied| applied.map(|applied| self.desk.committed(&applied)));
        if let Some(claimed) = claimed {
            self.accept(&slots, claimed, now).await?;
        }
        if let Some(stale) = recorded?.filter(|stale| *stale > 0) {
            tracing::warn!(
                items = stale,
                "results came too late and were dropped: the items had been taken over"
            );
        }
        Ok(())
    }

    async fn accept(
        &mut self,
        slots: &[Slot],
        claimed: Result<Claimed, Error>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let claimed = claimed.inspect_err(|_| self.must_reconcile = true)?;
        self.claimed_nothing = claimed.items.is_empty();
        self.next_due = claimed.next_due;
        let asked = self.desk.reusable(&claimed.items);
        let mut known = BTreeMap::new();
        if !asked.is_empty() {
            let keys = asked.iter().map(|(_, key)| *key).collect();
            // Without an answer the stage is called: that is dearer, not wrong.
            let kept = self.session.store.outputs(keys).await.unwrap_or_default();
            known.extend(
                asked.iter().zip(kept).filter_map(|((at, _), output)| output.map(|output| (*at, output))),
            );
        }
        self.desk.accept(slots, claimed.items, known, now);
        Ok(())
    }

    fn start_calls(&mut self) {
        for call in self.desk.next_calls() {
            self.start(call);
        }
    }

    fn start(&mut self, call: super::desk::Call) {
        let Some(work) = self.session.recipe.work(call.stage) else { return };
        let (id, handler) = (call.id, work.handler.clone());
        let task = tokio::spawn(execute(call, handler, self.session.env.clone(), self.sender.clone()));
        self.tasks.insert(id, task.abort_handle());
    }

    /// Waits for a reply, new items, the next due time, the next look, or a word to stop.
    async fn wait(&mut self) {
        let idle = !self.desk.has_records()
            && (self.claimed_nothing || self.held_back || self.desk.wants().is_empty());
        if !idle {
            self.drain_replies();
            if self.desk.is_calling() && !self.desk.has_records() {
                tokio::task::yield_now().await;
            }
            return;
        }
        let now = self.session.env.clock.now();
        // A due time that has passed while there was no room is no reason to wake: room is made by a reply. With room it
        // has passed since the claim, and what is due is fetched at once.
        let room = !self.desk.wants().is_empty();
        let tick = if self.held_back { GATHER } else { self.session.settings.tick };
        let until =
            self.next_due.filter(|due| room || *due > now).map_or(tick, |due| due.since(now)).min(tick);
        let wake = self.session.wake.clone();
        let clock = self.session.env.clock.clone();
        let mut stop = self.session.stop.clone();
        tokio::select! {
            reply = self.replies.recv() => {
                if let Some((id, reply)) = reply {
                    self.take(id, reply);
                }
            }
            () = wake.notified() => {}
            () = clock.sleep(until.max(Duration::from_millis(1))) => {}
            _ = stop.changed() => {}
        }
        self.claimed_nothing = false;
        // Replies come in swarms: one more turn for the others gathers more of them into one transaction.
        tokio::task::yield_now().await;
        self.drain_replies();
    }

    fn drain_replies(&mut self) {
        while let Ok((id, reply)) = self.replies.try_recv() {
            self.take(id, reply);
        }
    }

    fn take(&mut self, id: CallId, reply: Reply) {
        self.tasks.remove(&id);
        if let Some(next) = self.desk.finished(id, reply) {
            self.start(next);
        }
    }

    fn break_off(&mut self) {
        for task in std::mem::take(&mut self.tasks).into_values() {
            task.abort();
        }
        self.desk.interrupt();
    }

    /// Whether it is over, and how.
    async fn ending(&mut self) -> Result<Option<Ending>, Error> {
        let halted = self.desk.halt().is_some();
        if !self.desk.is_idle() || !(halted || self.claimed_nothing) {
            return Ok(None);
        }
        let (store, run) = (&self.session.store, self.desk.run());
        // Asked for first: a source that comes to its end between the questions must not look like one nobody reads.
        let admitting = self.session.admitting.load(Ordering::SeqCst);
        let Some(row) = store.run(run).await? else { return Ok(Some(Ending::Finished)) };
        let live = crate::report::live_items(&**store, run).await?;
        if row.admitted_all && !admitting && live == 0 && self.finish(&row).await? {
            return Ok(Some(Ending::Finished));
        }
        if let Some(halt) = self.desk.halt() {
            return Ok(Some(match halt {
                Halt::Stopping => Ending::Stopped,
                Halt::Budget(_) | Halt::Quota(_) | Halt::Asked(_) => Ending::Halted(halt.clone()),
            }));
        }
        match (row.admitted_all && !admitting, live) {
            (true, _) => self.only_late_retries(live).await,
            // The source is not read to its end, and nobody here reads it.
            (false, 0) if !admitting => Ok(Some(Ending::Stopped)),
            (false, _) => Ok(None),
        }
    }

    /// Marks the run as finished; `false` when somebody sent items back since they were counted.
    async fn finish(&self, row: &RunRow) -> Result<bool, Error> {
        if row.finished_at.is_some() || row.control == Control::Cancelled {
            return Ok(true);
        }
        crash::point("run.before_finish");
        let finished_at = Some(Some(self.session.env.clock.now()));
        let change = RunChange { finished_at, ..RunChange::default() };
        let row = self.session.store.change_run(row.id, change).await?;
        crash::point("run.after_finish");
        Ok(row.finished_at.is_some())
    }

    async fn only_late_retries(&self, live: u64) -> Result<Option<Ending>, Error> {
        let (Some(max_wait), store) = (self.session.settings.max_wait, &self.session.store) else {
            return Ok(None);
        };
        let counts = crate::report::all_counts(&**store, self.desk.run()).await?;
        let (next_due, _) = store.next_due(self.desk.run()).await?;
        let late = next_due.filter(|due| *due > self.session.env.clock.now().after(max_wait));
        // Joining parents wait for children that wait: they are no reason to stay.
        Ok(late
            .filter(|_| counts.waiting + counts.joining == live)
            .map(|next_due| Ending::Waiting { next_due }))
    }

    /// Leaves nothing behind: what is held is given back, the worker retires, handlers end.
    async fn close(&mut self, ending: &Result<Ending, Error>) {
        self.break_off();
        // What a lost claim may have given would otherwise be taken for the leavings of a crash.
        if self.must_reconcile {
            match self.reconcile().await {
                Ok(()) => self.must_reconcile = false,
                Err(error) => tracing::warn!(%error, "could not look for items of a lost claim"),
            }
        }
        crash::point("stop.before_release");
        let env = self.session.env.clone();
        while let Some(commit) = self.desk.commit(env.clock.now(), || env.dice.draw()) {
            match self.session.store.commit(commit).await {
                Ok(applied) => self.desk.committed(&applied),
                Err(error) => {
                    tracing::warn!(%error, "could not give back what was held; it is taken back when the lease is over");
                    break;
                }
            };
        }
        let budget = self.desk.saved_budget();
        let kept = self
            .session
            .store
            .change_run(self.desk.run(), RunChange { budget, ..RunChange::default() })
            .await;
        if let Err(error) = kept {
            tracing::warn!(%error, "could not save the failure budget");
        }
        crash::point("stop.after_release");
        // A worker that could not record its end is lost, not stopped: others then take back what it held.
        let clean = ending.is_ok() && self.desk.is_idle() && !self.must_reconcile;
        let how = if clean { Retired::Stopped } else { Retired::Lost };
        if let Err(error) = self.session.store.retire(self.heartbeat.worker(), how).await {
            tracing::warn!(%error, "could not retire the worker");
        }
        for work in &self.session.recipe.stages {
            work.handler.close().await;
        }
    }
}
