//! Working on one run until it ends, waits too long, or is told to stop.

mod call;
mod claim;
mod end;
mod gates;

pub use end::{leave, leave_budget, leave_idle};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::budget::Budget;
use redrive_core::event::Transition;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Error, RunRow, Store};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use super::clock::ClockWatch;
use super::desk::{CallId, Desk, Halt};
use super::heartbeat::Heartbeat;
use crate::env::Env;
use crate::handler::{Answer, RunMemory};
use crate::maintain;
use crate::patience::Patience;
use crate::recipe::Recipe;
use crate::shared;

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
    replies: mpsc::UnboundedReceiver<(CallId, Answer)>,
    sender: mpsc::UnboundedSender<(CallId, Answer)>,
    tasks: BTreeMap<CallId, AbortHandle>,
    next_due: Option<Timestamp>,
    looked_at: Timestamp,
    patience: Patience,
    must_reconcile: bool,
    claimed_nothing: bool,
    claimed_at: Timestamp,
    held_back: bool,
    swept_at: Timestamp,
    gates_read_at: Timestamp,
    /// For how long nobody was at the run before; `None` when it had ended already.
    idle_ms: Option<i64>,
    clock: ClockWatch,
}

impl Session {
    /// Works on `run` until it ends.
    ///
    /// # Errors
    /// When the store fails and stays so for longer than the settings' patience.
    pub async fn work(self, run: RunRow) -> Result<Ending, Error> {
        shared::budget(&run)?;
        if run.budget.as_deref().is_some_and(Budget::starts_anew) {
            tracing::warn!(run = %run.id, "the saved failure budget is of another version, and starts anew");
        }
        for ((_, plan), work) in self.recipe.plan.stages().zip(&self.recipe.stages) {
            let stage = plan.name.as_str().into();
            work.handler.remember(RunMemory { store: self.store.clone(), run: run.id, stage });
        }
        maintain::take_over(&*self.store).await?;
        let heartbeat = Heartbeat::begin(
            self.store.clone(),
            self.env.clone(),
            format!("{} on {}", self.settings.name, run.id),
            run.id,
            self.settings.lease,
        )
        .await?;
        let (sender, replies) = mpsc::unbounded_channel();
        let now = self.env.clock.now();
        let idle_ms = leave_idle(&*self.store, &run, now).await?;
        let gates = if self.recipe.gates.is_empty() { Vec::new() } else { self.store.gates().await? };
        let live: Vec<String> =
            self.store.workers().await?.iter().map(|worker| worker.id.to_string()).collect();
        let me = heartbeat.worker().to_string();
        let desk = Desk::of(&run, self.recipe.clone(), &me)?.with_gates(&me, &live, &gates, now)?;
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
            gates_read_at: now,
            idle_ms,
            clock: ClockWatch::default(),
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
        let Session { store, env, .. } = &self.session;
        self.clock.look(&**store, &mut self.desk, env).await?;
        if now.since(self.looked_at) >= self.session.settings.tick || self.looked_at > now {
            self.look_after(now).await?;
            self.looked_at = now;
        }
        self.hear_gates(now).await?;
        self.record_and_claim().await?;
        self.tell_notices();
        let bereft = self.desk.take_bereft();
        if !bereft.is_empty() {
            let Session { store, env, .. } = &self.session;
            let plan = self.desk.plan().clone();
            let told = &mut |transition: &Transition| self.desk.spend(transition);
            let joined = maintain::join_among(&**store, bereft, &plan, env, told).await?;
            // Parents that go on were not there to be claimed a moment ago: without another look they, and the end of
            // the run, would wait for the next tick.
            self.claimed_nothing &= joined == 0;
        }
        self.ending().await
    }

    /// Looks at what others may have changed: the run's control, vanished workers, settled parents.
    async fn look_after(&mut self, now: Timestamp) -> Result<(), Error> {
        let Session { store, recipe, env, settings, .. } = &self.session;
        let run = self.desk.run();
        if now.since(self.looked_at) > settings.lease / 2 {
            // Asleep for long, perhaps past the lease: what is held is still in these hands unless somebody took it.
            store.renew(self.heartbeat.worker(), now.after(settings.lease), now).await?;
        }
        let row = store.run(run).await?;
        let control = row.as_ref().map_or(Control::Cancelled, |row| row.control);
        self.desk.paused_for(row.as_ref().map_or(0, |row| row.pause.before_ms));
        row.as_ref().map(|row| self.desk.hear_budget(row)).transpose()?;
        if control != Control::Go {
            self.desk.stop(Halt::Asked(control));
        }
        maintain::take_over(&**store).await?;
        let (plan, jumped) = (self.desk.plan().clone(), self.clock.jumped(settings.lease, env));
        let told = &mut |transition: &Transition| self.desk.spend(transition);
        let reaped = maintain::reap(&**store, run, &plan, env, jumped, told).await?;
        if reaped > 0 {
            tracing::warn!(items = reaped, "took back items whose worker vanished");
        }
        let has_children = recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some());
        // What this worker's own children settle is joined at once; this finds what others left behind.
        if has_children && (now.since(self.swept_at) >= SWEEP || self.swept_at > now) {
            self.swept_at = now;
            let told = &mut |transition: &Transition| self.desk.spend(transition);
            maintain::join(&**store, run, &plan, env, told).await?;
        }
        if self.must_reconcile {
            self.reconcile().await?;
            self.must_reconcile = false;
        }
        Ok(())
    }
}
