//! A worker's loop: record what ended, claim what can be started, call, wait; until the run ends, waits too long, or the
//! worker is told to stop.
//!
//! The loop knows no runtime. What it needs besides store, clock and dice comes from its [`Driver`], so that the program and
//! the simulation run the same one.

mod claim;
mod end;
mod gates;
mod pauses;
mod wait;

pub use end::finish;
use end::{idle_before, leave_idle};
pub(super) use gates::{leave_gates, tell_gates};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::Budget;
use redrive_core::event::Transition;
use redrive_core::id::StageNo;
use redrive_core::pool::Rank;
use redrive_core::status::Control;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Pause, RunChange, RunRow, Store};

use super::clock::ClockWatch;
use super::desk::{Desk, Halt};
use super::driver::{Driver, Part, Step, Stop};
use super::gate_set::GateSet;
use super::places::PlaceSet;
use crate::counts::dead_items;
use crate::env::Env;
use crate::handler::RunMemory;
use crate::maintain;
use crate::patience::{Limits, Patience};
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
    /// How long a store that does not answer is asked again before the worker gives up.
    pub patience: Duration,
    /// How long the same is done where the disk has no room.
    pub full_disk: Duration,
    /// Ends when only retries due later than this remain; `None` waits for all.
    pub max_wait: Option<Duration>,
    /// Stays, whatever `max_wait` says, while answers of others are awaited and something has changed within this time; `None` waits for
    /// answers as for anything else.
    pub answers_within: Option<Duration>,
    /// How many of the items that it holds are read at a time.
    pub page: usize,
    /// Whoever works looks at the source once more when all is done, and says then that the run is finished. A run among others
    /// has its worker's name on it meanwhile, and is finished at once.
    pub looks_again: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: format!("pid {}", std::process::id()),
            lease: Duration::from_secs(30),
            tick: Duration::from_secs(1),
            patience: Duration::from_secs(30),
            full_disk: Duration::from_secs(30),
            max_wait: None,
            answers_within: None,
            page: 1_000,
            looks_again: false,
        }
    }
}

/// How work on a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Nothing is left to do.
    Finished,
    /// Nothing is left to do of a standing run, which still takes items.
    Open,
    /// Only retries that are due too late remain.
    Waiting {
        /// When the next one is due.
        next_due: Timestamp,
    },
    /// The run was paused or cancelled.
    Halted(Halt),
    /// Somebody changed the pipeline of the run: it goes on with the new one.
    Outdated,
    /// It was told to stop.
    Stopped,
}

/// What a run shares with the other runs of its worker.
#[derive(Clone)]
pub struct Mates {
    /// The worker's gates.
    pub gates: GateSet,
    /// The places for calls.
    pub places: PlaceSet,
    /// Where the run stands among the others.
    pub rank: Rank,
    /// How many items wait, as far as is known.
    pub waiting: usize,
    /// Something is due: that is begun with, and the run is looked after a tick later.
    pub begins_at_once: bool,
}

/// What a worker works with, on one run.
pub struct Workplace {
    /// Where the items are.
    pub store: Arc<dyn Store>,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// Clock and dice.
    pub env: Env,
    /// Behaviour.
    pub settings: Settings,
    /// What the run shares with the worker's other runs; `None` when it is its only one, and the worker leaves with it.
    pub mates: Option<Mates>,
}

/// The moving parts of a worker.
struct WorkerLoop<D> {
    store: Arc<dyn Store>,
    recipe: Arc<Recipe>,
    env: Env,
    settings: Settings,
    driver: D,
    desk: Desk,
    next_due: Option<Timestamp>,
    looked_at: Timestamp,
    patience: Patience,
    must_reconcile: bool,
    claimed_nothing: bool,
    claimed_at: Timestamp,
    held_back: bool,
    swept_at: Timestamp,
    /// What the run shares with the worker's other runs.
    mates: Option<Mates>,
    /// Stages that had nothing due when they were last asked, and where nothing has come since that is known here.
    quiet: BTreeSet<StageNo>,
    /// Other runs have the places that could be used.
    crowded: bool,
    /// The run has about so many items at most; `None` when it had more than it was thought to have.
    few: Option<usize>,
    /// The run's source was read to its end before it was opened.
    read: bool,
    /// For how long nobody was at the run before; `None` when it had ended already.
    idle_ms: Option<i64>,
    /// How many items stood where when that changed last, and when that was, where answers are waited for.
    moved: Option<(Vec<Counter>, Timestamp)>,
    clock: ClockWatch,
}

/// Works on a run until it ends, as the worker that `driver` is registered as.
///
/// # Errors
/// When the store fails and stays so for longer than the settings' patience.
pub async fn work(at: Workplace, mut driver: impl Driver, run: RunRow) -> Result<Ending, Error> {
    let Workplace { store, recipe, env, settings, mates } = at;
    shared::budget(&run)?;
    if run.budget.as_deref().is_some_and(Budget::starts_anew) {
        tracing::warn!(run = %run.id, "the saved failure budget is of another version, and starts anew");
    }
    for ((_, plan), work) in recipe.plan.stages().zip(&recipe.stages) {
        let stage = plan.name.as_str().into();
        work.handler.remember(RunMemory { store: store.clone(), run: run.id, stage });
    }
    let now = env.clock.now();
    let idle_ms = match &mates {
        Some(_) => idle_before(&run, now),
        // Since the row was read, whoever vanished may have been noted as gone, and since when.
        None => leave_idle(&*store, store.run(run.id).await?.as_ref().unwrap_or(&run), now).await?,
    };
    let mut desk = open_desk(&*store, &run, &recipe, mates.as_ref(), &mut driver, now).await?;
    desk = desk.traced(env.traced.clone());
    pauses::hear(&*store, &mut desk, &mut driver, mates.is_some(), now).await?;
    if mates.is_some() {
        desk = desk.counting_from(env.dice.draw());
    }
    // What is due is begun with at once, and the rest of the run looked at soon after.
    let later = mates.as_ref().is_some_and(|mates| mates.begins_at_once);
    let clock = if later { ClockWatch::patient(&env, settings.tick) } else { ClockWatch::default() };
    let few = mates.as_ref().map(|mates| mates.waiting);
    let mut work = WorkerLoop {
        store,
        recipe,
        env,
        settings,
        driver,
        desk,
        next_due: None,
        looked_at: if later { now } else { Timestamp(i64::MIN) },
        patience: Patience::default(),
        must_reconcile: false,
        claimed_nothing: false,
        claimed_at: Timestamp(i64::MIN),
        held_back: false,
        swept_at: Timestamp(i64::MIN),
        mates,
        quiet: BTreeSet::new(),
        crowded: false,
        few,
        read: run.admitted_all,
        idle_ms,
        moved: None,
        clock,
    };
    let ending = work.run().await;
    let clean = work.close(&ending).await;
    if work.mates.is_some() && ending.is_ok() && !clean {
        let what = format!("what was held of run {} could not be given back", run.id);
        return Err(Error::Unavailable(what));
    }
    ending
}

/// A desk for a run, with its gates: the worker's, or its own.
async fn open_desk(
    store: &dyn Store,
    run: &RunRow,
    recipe: &Arc<Recipe>,
    mates: Option<&Mates>,
    driver: &mut impl Driver,
    now: Timestamp,
) -> Result<Desk, Error> {
    let me = driver.worker().to_string();
    let desk = Desk::of(run, recipe.clone(), &me)?;
    let gates = mates.map_or_else(|| GateSet::new(&me), |mates| mates.gates.clone());
    let (mut rows, mut live) = (Vec::new(), Vec::new());
    if gates.lacks(&recipe.gates) {
        rows = store.gates().await?;
        driver.observe(Step::GatesRead { rows: &mut rows, first: true }, &desk, now);
        live = store.workers().await?.iter().map(|worker| worker.id.to_string()).collect();
    }
    let at = gates.open(&recipe.gates, &live, &rows, now)?;
    let desk = desk.sharing(gates, at);
    Ok(if mates.is_some() { desk.among_others() } else { desk })
}

impl<D: Driver> WorkerLoop<D> {
    async fn run(&mut self) -> Result<Ending, Error> {
        loop {
            let turn = self.turn().await;
            match turn {
                Ok(Some(ending)) => return Ok(ending),
                Ok(None) => self.patience.rest(),
                Err(error) if self.driver.stop() == Stop::Now => return Err(error),
                Err(error) => {
                    let limits = Limits { any: self.settings.patience, full: self.settings.full_disk };
                    self.patience.bear(error, limits, &self.env).await?;
                }
            }
            self.start_calls();
            self.observe(Step::Turned { next_due: self.next_due });
            self.wait().await;
        }
    }

    /// One turn: look after the run, record what ended, claim what can be started, see whether it is over.
    async fn turn(&mut self) -> Result<Option<Ending>, Error> {
        let now = self.env.clock.now();
        match self.driver.stop() {
            Stop::No => {}
            Stop::Drain => self.desk.stop(Halt::Stopping),
            Stop::Now => {
                self.break_off();
                self.desk.stop(Halt::Stopping);
            }
        }
        if !self.driver.omits(Part::Clock) {
            self.desk.gates().look_at_clock(&self.env);
            self.clock.look(&*self.store, &mut self.desk, &self.env).await?;
        }
        self.observe(Step::Looked);
        let looks = now.since(self.looked_at) >= self.settings.tick || self.looked_at > now;
        if looks {
            self.look_after(now).await?;
            self.looked_at = now;
            self.quiet.clear();
        }
        self.count_dead(looks).await?;
        self.hear_gates(now).await?;
        self.record_and_claim().await?;
        self.tell_notices();
        self.log_gates();
        let bereft = self.desk.take_bereft();
        if !bereft.is_empty() {
            let plan = self.desk.plan().clone();
            let told = &mut |transition: &Transition| self.desk.hear_of(transition);
            let joined = maintain::join_among(&*self.store, bereft, &plan, &self.env, told).await?;
            // Parents that go on were not there to be claimed a moment ago: without another look they, and the end of
            // the run, would wait for the next tick.
            if joined > 0 {
                self.claimed_nothing = false;
                self.quiet.clear();
            }
        }
        self.ending().await
    }

    /// Counts the dead items where the run may have only so many: nothing more is begun when there are as many.
    async fn count_dead(&mut self, looks: bool) -> Result<(), Error> {
        let Some(most) = self.recipe.max_dead else { return Ok(()) };
        if !self.desk.take_died(looks) {
            return Ok(());
        }
        let dead = dead_items(&*self.store, self.desk.run()).await?;
        if dead >= most {
            self.desk.stop(Halt::DeadLetters { dead, most });
        }
        Ok(())
    }

    /// Looks at what others may have changed: the run's control, vanished workers, settled parents.
    async fn look_after(&mut self, now: Timestamp) -> Result<(), Error> {
        let (store, env, lease) = (self.store.clone(), self.env.clone(), self.settings.lease);
        let run = self.desk.run();
        if now.since(self.looked_at) > lease / 2 {
            // Asleep for long, perhaps past the lease: what is held is still in these hands unless somebody took it.
            store.renew(self.driver.worker(), now.after(lease), now).await?;
        }
        let row = store.run(run).await?;
        let control = row.as_ref().map_or(Control::Cancelled, |row| row.control);
        let edition = row.as_ref().map_or(0, |row| row.edition);
        if let (Some(before_ms), Some(_)) =
            (self.idle_ms.filter(|_| self.mates.is_some()), row.as_ref().and_then(|row| row.idle.since))
        {
            // A run that is done with in a moment is not written to for this.
            let idle = Some(Pause { since: None, before_ms });
            store.change_run(run, RunChange { idle, ..RunChange::default() }).await?;
        }
        self.hear_pauses(now).await?;
        self.desk.paused_for(row.as_ref().map_or(0, |row| row.pause.before_ms));
        row.as_ref().map(|row| self.desk.hear_budget(row)).transpose()?;
        self.observe(Step::Looked);
        if control != Control::Go {
            self.desk.stop(Halt::Asked(control));
        } else if edition != self.desk.edition() {
            self.desk.stop(Halt::Outdated);
        }
        maintain::take_over(&*store, &env).await?;
        let (plan, jumped) = (self.desk.plan().clone(), self.clock.jumped(lease, &env));
        if !self.driver.omits(Part::Reap) {
            let told = &mut |transition: &Transition| self.desk.hear_of(transition);
            let reaped = maintain::reap(&*store, run, &plan, &env, jumped, told).await?;
            if reaped > 0 {
                tracing::warn!(items = reaped, "took back items whose worker vanished");
            }
        }
        let has_children = self.recipe.plan.stages().any(|(_, stage)| stage.first_child.is_some());
        let due = now.since(self.swept_at) >= SWEEP || self.swept_at > now;
        // What this worker's own children settle is joined at once; this finds what others left behind.
        if has_children && due && !self.driver.omits(Part::Sweep) {
            self.swept_at = now;
            let told = &mut |transition: &Transition| self.desk.hear_of(transition);
            maintain::join(&*store, run, &plan, &env, told).await?;
        }
        if self.must_reconcile {
            self.reconcile().await?;
            self.must_reconcile = false;
        }
        Ok(())
    }

    fn observe(&mut self, step: Step<'_>) {
        self.driver.observe(step, &self.desk, self.env.clock.now());
    }
}
