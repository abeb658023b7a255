//! How a session ends.

use std::collections::BTreeMap;

use redrive_core::id::{RunId, StageNo, WorkerId};
use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Change, Commit, Error, Pause, Retired, RunChange, RunEnd, RunRow, Store};

use super::{Ending, WorkerLoop};
use crate::crash;
use crate::recipe::StageWork;
use crate::worker::desk::{Blocked, Desk, Halt, NeedsSomebody};
use crate::worker::driver::{Driver, Part, Step};

/// How often a worker that leaves writes the failure budget again because another one was faster.
const BUDGET_TRIES: u32 = 5;

impl<D: Driver> WorkerLoop<D> {
    /// Whether it is over, and how.
    pub(super) async fn ending(&mut self) -> Result<Option<Ending>, Error> {
        if !self.desk.is_idle() {
            return Ok(None);
        }
        let halted = self.desk.halt().is_some();
        let now = self.env.clock.now();
        // A claim that brought nothing says that nothing is due; where gates keep from claiming, nothing can be said.
        let held_up = !halted && self.desk.wants(now).is_empty();
        if !(halted || self.claimed_nothing || held_up) {
            return Ok(None);
        }
        let (store, run) = (self.store.clone(), self.desk.run());
        // Asked for first: a source that comes to its end between the questions must not look like one nobody reads.
        let admitting = self.driver.is_admitting();
        let Some(row) = store.run(run).await? else { return Ok(Some(Ending::Finished)) };
        let nothing_left = self.mates.is_some() && self.claimed_nothing && self.next_due.is_none();
        if nothing_left && row.admitted_all && !admitting && self.finish(&row).await? {
            return Ok(Some(Ending::Finished));
        }
        let live = crate::counts::live_items(&*store, run).await?;
        if row.admitted_all && !admitting && live == 0 && self.finish(&row).await? {
            return Ok(Some(Ending::Finished));
        }
        if let Some(halt) = self.desk.halt() {
            return Ok(Some(match halt {
                Halt::Stopping => Ending::Stopped,
                Halt::Outdated => Ending::Outdated,
                Halt::Budget(_)
                | Halt::DeadLetters { .. }
                | Halt::Quota(_)
                | Halt::Outage(_)
                | Halt::Asked(_) => Ending::Halted(halt.clone()),
            }));
        }
        let blocked = self.all_blocked(now).await?;
        if let Some(halt) = blocked.as_ref().and_then(|blocked| somebody(blocked)) {
            // Nothing can go on before somebody acts.
            self.desk.stop(halt);
            return Ok(None);
        }
        let late = |blocked: Vec<Blocked>| self.opens_too_late(&blocked, now);
        if let Some(next_due) = blocked.filter(|_| !admitting).and_then(late) {
            return Ok(Some(Ending::Waiting { next_due }));
        }
        match (row.admitted_all && !admitting, live) {
            (true, _) => self.only_late_retries(live).await,
            // Others hand items in, whenever they like: there is no end to wait for.
            (false, 0) if row.is_open() => Ok(Some(Ending::Open)),
            (false, _) if row.is_open() => self.only_late_retries(live).await,
            // Among others a run whose source nobody reads here is left until something is due.
            (false, 1..) if !admitting && self.mates.is_some() => self.only_late_retries(live).await,
            // The source is not read to its end, and nobody here reads it.
            (false, 0) if !admitting => Ok(Some(Ending::Stopped)),
            (false, _) => Ok(None),
        }
    }

    /// Marks the run as finished; `false` when somebody sent items back since they were counted.
    async fn finish(&mut self, row: &RunRow) -> Result<bool, Error> {
        if row.finished_at.is_some() || row.control == Control::Cancelled {
            return Ok(true);
        }
        if self.settings.looks_again && self.mates.is_none() {
            return Ok(true);
        }
        crash::point("run.before_finish");
        let now = self.env.clock.now();
        // A run among others is not written to once more when it is left.
        let (budget, idle) =
            if self.mates.is_some() { (self.desk.save_budget(), self.left_alone(now)) } else { (None, None) };
        let change = RunChange { budget, idle, ..RunChange::if_done(now) };
        let row = self.store.change_run(row.id, change).await?;
        crash::point("run.after_finish");
        if self.mates.is_some() {
            self.desk.hear_budget(&row)?;
        }
        Ok(row.finished_at.is_some())
    }

    /// For how long the run was left alone, and that it is so from now on.
    fn left_alone(&self, now: Timestamp) -> Option<Pause> {
        self.idle_ms.map(|before_ms| Pause { since: Some(now), before_ms })
    }

    /// Has the commit that records the last items of a run among others finish it, too. Whether they are the last is for the
    /// store to see.
    pub(super) fn finishing(&mut self, commit: Commit, now: Timestamp) -> Commit {
        let settles = |change: &Change| change.transition.after.state.kind().is_terminal();
        let is_last = self.mates.is_some()
            && self.read
            && self.claimed_nothing
            && self.next_due.is_none()
            && self.desk.halt().is_none()
            && self.desk.holds_nothing_else()
            && commit.changes.iter().all(settles);
        if !is_last || self.driver.is_admitting() {
            return commit;
        }
        let change = commit.run.map(|(_, change)| change).unwrap_or_default();
        let budget = change.budget.or_else(|| self.desk.save_budget());
        let change =
            RunChange { budget, idle: self.left_alone(now), end: Some(RunEnd::IfDone(now)), ..change };
        Commit { run: Some((self.desk.run(), change)), ..commit }
    }

    async fn only_late_retries(&mut self, live: u64) -> Result<Option<Ending>, Error> {
        let Some(max_wait) = self.settings.max_wait else { return Ok(None) };
        if self.answers_come().await? {
            return Ok(None);
        }
        let store = &self.store;
        let counts = crate::counts::all_counts(&**store, self.desk.run()).await?;
        let next_due = store.next_due(self.desk.run()).await?.at;
        let late = next_due.filter(|due| *due > self.env.clock.now().after(max_wait));
        // Joining parents wait for children that wait: they are no reason to stay.
        Ok(late
            .filter(|_| counts.waiting + counts.joining == live)
            .map(|next_due| Ending::Waiting { next_due }))
    }

    /// Whether answers are waited for here and awaited, and something has changed not long ago.
    async fn answers_come(&mut self) -> Result<bool, Error> {
        let Some(within) = self.settings.answers_within else { return Ok(false) };
        let counters = self.store.counters(self.desk.run()).await?;
        if !counters.iter().any(|counter| counter.metric == Metric::Awaited && counter.n > 0) {
            return Ok(false);
        }
        let now = self.env.clock.now();
        match &self.moved {
            Some((known, at)) if *known == counters => Ok(now.since(*at) < within),
            _ => {
                self.moved = Some((counters, now));
                Ok(true)
            }
        }
    }

    /// The gates and pauses that keep every item of the run that could go on from doing so; `None` when one could.
    async fn all_blocked(&self, now: Timestamp) -> Result<Option<Vec<Blocked>>, Error> {
        let unheard = self.recipe.stages.iter().any(StageWork::never_has_room);
        if self.recipe.gates.is_empty() && !unheard && !self.desk.any_paused() {
            return Ok(None);
        }
        let counters = self.store.counters(self.desk.run()).await?;
        let mut waiting: BTreeMap<StageNo, i64> = BTreeMap::new();
        for Counter { stage, metric, n } in counters {
            match metric {
                Metric::State(StateKind::Waiting) => *waiting.entry(stage).or_default() += n,
                // What is handed over is kept from nothing: its answer comes whatever stands in the way of others.
                Metric::Awaited => *waiting.entry(stage).or_default() -= n,
                _ => {}
            }
        }
        let stages = waiting.into_iter().filter(|(_, n)| *n > 0).map(|(stage, _)| stage);
        let blocked: Option<Vec<Blocked>> = stages.map(|stage| self.desk.blocked(stage, now)).collect();
        Ok(blocked.filter(|blocked| !blocked.is_empty()))
    }

    /// When the first of these gates opens, if that is longer than anybody here waits.
    fn opens_too_late(&self, blocked: &[Blocked], now: Timestamp) -> Option<Timestamp> {
        let max_wait = self.settings.max_wait?;
        let opens = blocked.iter().map(|blocked| blocked.until.unwrap_or(Timestamp::MAX)).min()?;
        (opens > now.after(max_wait)).then_some(opens)
    }

    /// Leaves nothing behind: what is held is given back, and the worker retires, unless it has other runs. `false` when
    /// something may still be held.
    pub(super) async fn close(&mut self, ending: &Result<Ending, Error>) -> bool {
        self.break_off();
        // What a lost claim may have given would otherwise be taken for the leavings of a crash.
        if self.must_reconcile {
            match self.reconcile().await {
                Ok(()) => self.must_reconcile = false,
                Err(error) => tracing::warn!(%error, "could not look for items of a lost claim"),
            }
        }
        crash::point("stop.before_release");
        let env = self.env.clone();
        while let Some(commit) = self.desk.commit(env.clock.now(), || env.dice.draw()) {
            if self.driver.omits(Part::Release) {
                break;
            }
            match self.store.commit(commit).await {
                Ok(applied) if self.desk.committed(&applied) == 0 => {}
                Ok(_) => self.observe(Step::Disturbed),
                Err(error) => {
                    self.observe(Step::Disturbed);
                    tracing::warn!(%error, "could not give back what was held; it is taken back when the lease is over");
                    break;
                }
            }
        }
        let finished = self.mates.is_some() && matches!(ending, Ok(Ending::Finished));
        if let Some(mates) = self.mates.clone() {
            mates.places.leave(mates.rank);
            self.ring_others();
        } else {
            self.leave_gates().await;
        }
        if !finished {
            self.leave_run().await;
        }
        crash::point("stop.after_release");
        // A worker that could not record its end is lost, not stopped: others then take back what it held.
        let clean = ending.is_ok() && self.desk.is_idle() && !self.must_reconcile;
        if self.mates.is_none() {
            let how = if clean { Retired::Stopped } else { Retired::Lost };
            match self.store.retire(self.driver.worker(), how).await {
                Ok(()) => self.observe(Step::Left(how)),
                Err(error) => tracing::warn!(%error, "could not retire the worker"),
            }
        }
        clean
    }

    async fn leave_run(&mut self) {
        let (store, run, now) = (self.store.clone(), self.desk.run(), self.env.clock.now());
        let idle = leave(&*store, run, self.driver.worker(), self.idle_ms, now).await;
        if let Err(error) = leave_budget(&*store, &mut self.desk, idle).await {
            tracing::warn!(%error, "could not save the failure budget");
        }
    }
}

/// Marks a run as finished, unless it is not done or was cancelled, and gives it as it is then; `None` when it is gone.
///
/// # Errors
/// When the store fails.
pub async fn finish(store: &dyn Store, run: RunId, now: Timestamp) -> Result<Option<RunRow>, Error> {
    let Some(row) = store.run(run).await? else { return Ok(None) };
    if row.finished_at.is_some() || row.control == Control::Cancelled {
        return Ok(Some(row));
    }
    crash::point("run.before_finish");
    let row = store.change_run(row.id, RunChange::if_done(now)).await?;
    crash::point("run.after_finish");
    Ok(Some(row))
}

/// Somebody is at a run again: the time since it was left is none that it took. Returns how long it was left alone so
/// far; `None` for a run that has ended, which stays as it is.
///
/// # Errors
/// When the store fails.
pub async fn leave_idle(store: &dyn Store, row: &RunRow, now: Timestamp) -> Result<Option<i64>, Error> {
    let before = idle_before(row, now);
    if let Some(before_ms) = before.filter(|_| row.idle.since.is_some()) {
        let idle = Some(Pause { since: None, before_ms });
        store.change_run(row.id, RunChange { idle, ..RunChange::default() }).await?;
    }
    Ok(before)
}

/// How long a run was left alone so far; `None` for a run that has ended.
pub fn idle_before(row: &RunRow, now: Timestamp) -> Option<i64> {
    let last = row.idle.since.map_or(0, |since| millis(now.since(since)));
    row.finished_at.is_none().then(|| row.idle.before_ms.saturating_add(last))
}

/// Writes down, when a worker leaves a run, what it knows of the failure budget, and whether nobody is at the run now.
///
/// # Errors
/// When the store fails.
async fn leave_budget(store: &dyn Store, desk: &mut Desk, idle: Option<Pause>) -> Result<(), Error> {
    for _ in 0..BUDGET_TRIES {
        let change = RunChange { budget: desk.save_budget(), idle, ..RunChange::default() };
        let row = store.change_run(desk.run(), change).await?;
        if desk.hear_budget(&row)? {
            break;
        }
    }
    Ok(())
}

/// What is to be written down when a worker leaves a run: from now on nobody is at it, unless others are.
pub async fn leave(
    store: &dyn Store,
    run: RunId,
    worker: WorkerId,
    idle_ms: Option<i64>,
    now: Timestamp,
) -> Option<Pause> {
    let others = store.workers().await.ok()?;
    let others = others.iter().any(|other| other.id != worker && other.attends(run, now));
    idle_ms.filter(|_| !others).map(|before_ms| Pause { since: Some(now), before_ms })
}

/// Why nothing can go on before somebody acts: every gate in the way waits for that, and not for an operator only, who
/// knows of it.
fn somebody(blocked: &[Blocked]) -> Option<Halt> {
    let needs: Option<Vec<&NeedsSomebody>> =
        blocked.iter().map(|blocked| blocked.needs_somebody.as_ref()).collect();
    needs?.into_iter().find_map(|needs| match needs {
        NeedsSomebody::Quota(why) => Some(Halt::Quota(why.clone())),
        NeedsSomebody::Outage(why) => Some(Halt::Outage(why.clone())),
        NeedsSomebody::Operator => None,
    })
}
