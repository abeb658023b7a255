//! The retry job: one sweep over all runs, every quarter of an hour, by the daemon or by `redrive retry-job`.
//!
//! It does what every worker does for the runs it works on, for those as well that nobody works on: items whose worker
//! vanished go through the same decision as any other failure, and are in line again or dead; parents whose children have
//! ended go on. An item whose time has come is in line by itself, and one that is starved is reported and nothing else.

mod record;
mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::budget::SharedBudget;
use redrive_core::event::Transition;
use redrive_core::item::{DeadReason, State};
use redrive_core::plan::Plan;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::maintain;
pub use redrive_engine::worker::Jumps;
use redrive_store::{Applied, Memo, RunChange, RunFilter, RunRow, Vitals, VitalsQuery};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::monitor::MOST_COUNTED;
use crate::pipelines::definition_of;
use crate::runs::Runs;
use crate::{Floor, memo};

pub use record::{Done, Of, Record, record};
pub use settings::{PREFIX, Settings};

use record::{MEMO, kept};

/// In whose name failures are counted.
const NAME: &str = "retry-job";

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Sweep {
    /// Runs that were looked at.
    pub runs: u64,
    /// Items whose worker had vanished and that are in line again.
    pub taken_back: u64,
    /// Items that it found to be out of attempts, and that are dead now.
    pub exhausted: u64,
    /// Items whose time to be tried again has come since the sweep before, and that are in line.
    pub came_due: u64,
    /// Items whose time has not come.
    pub backing_off: u64,
    /// Items that were due for longer than the threshold. Nothing was done about them.
    pub starved: u64,
    /// What went wrong with single runs; the others were swept all the same.
    pub errors: Vec<String>,
}

/// Sweeps, unless somebody did within the interval. To be called again and again with the same `jumps`.
///
/// # Errors
/// When the store fails as a whole.
pub async fn sweep_in_turn(floor: &Floor, settings: &Settings, jumps: &mut Jumps) -> Result<Option<Sweep>> {
    jumps.look(&floor.env);
    let known = kept(&*floor.store).await?;
    let mut record: Record = known.as_ref().map(memo::read).transpose()?.unwrap_or_default();
    let now = floor.now();
    let recent = |at: i64| now.0.saturating_sub(at).saturating_abs() < millis(settings.interval);
    if record.began_at.is_some_and(recent) {
        return Ok(None);
    }
    let before = record.began_at.replace(now.0);
    let (rev, state) = (known.map_or(0, |memo| memo.rev), memo::written(&record)?);
    let memo = Memo { name: MEMO.to_owned(), rev, state, updated_at: now };
    // Of several that begin at once, one does.
    if floor.store.save_memo(memo).await? != Applied::Done {
        return Ok(None);
    }
    swept(floor, settings, before, jumps).await.map(Some)
}

/// Sweeps now. Whoever does so again and again has the same `jumps` each time.
///
/// # Errors
/// When the store fails as a whole.
pub async fn sweep(floor: &Floor, settings: &Settings, jumps: &mut Jumps) -> Result<Sweep> {
    let before = record(&*floor.store).await?.began_at;
    swept(floor, settings, before, jumps).await
}

async fn swept(floor: &Floor, settings: &Settings, before: Option<i64>, jumps: &mut Jumps) -> Result<Sweep> {
    let (begun, now) = (floor.env.clock.uptime(), floor.now());
    let mut done: BTreeMap<Of, Done> = BTreeMap::new();
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    let made = match jumped(floor, jumps).await {
        Ok(jumped) => one(floor, settings, before, jumped, &mut done, &mut errors).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &made {
        *errors.entry(error_type(error)).or_default() += 1;
    }
    let took = floor.env.clock.uptime().saturating_sub(begun);
    loop {
        let known = kept(&*floor.store).await?;
        let mut record: Record = known.as_ref().map(memo::read).transpose()?.unwrap_or_default();
        record.began_at = Some(now.0);
        match errors.is_empty() {
            true => (record.succeeded, record.succeeded_at) = (record.succeeded + 1, Some(floor.now().0)),
            false => record.failed += 1,
        }
        done.iter().for_each(|(of, done)| record.add(of.clone(), *done));
        for (kind, n) in &errors {
            *record.errors.entry(kind.clone()).or_default() += n;
        }
        record.took(took);
        let (rev, state) = (known.map_or(0, |memo| memo.rev), memo::written(&record)?);
        let memo = Memo { name: MEMO.to_owned(), rev, state, updated_at: floor.now() };
        if floor.store.save_memo(memo).await? == Applied::Done {
            return made;
        }
    }
}

/// How much less time has passed than the clock says. A clock that was just put forward, or a machine that slept, says nothing
/// of leases: whoever holds one has not had the time to renew it.
async fn jumped(floor: &Floor, jumps: &mut Jumps) -> Result<Duration> {
    jumps.look(&floor.env);
    let workers = floor.store.workers().await?;
    let leases = workers.iter().filter_map(|worker| Some(worker.lease_until.since(worker.renewed_at?)));
    Ok(jumps.within(leases.max().unwrap_or_default(), &floor.env))
}

async fn one(
    floor: &Floor,
    settings: &Settings,
    before: Option<i64>,
    jumped: Duration,
    done: &mut BTreeMap<Of, Done>,
    errors: &mut BTreeMap<String, u64>,
) -> Result<Sweep> {
    let (store, now) = (&*floor.store, floor.now());
    maintain::take_over(store, &floor.env).await?;
    let rows = Runs::of(store).all(RunFilter { uncancelled: true, ..RunFilter::default() }).await?;
    let mut sweep = Sweep::default();
    let mut plans: BTreeMap<_, (RunRow, Plan)> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.finished_at.is_none()) {
        sweep.runs += 1;
        let Some(plan) = definition_of(&row).map(|definition| definition.plan()) else {
            sweep.errors.push(format!("run {}: this version cannot read its pipeline", row.id));
            *errors.entry("unreadable".to_owned()).or_default() += 1;
            continue;
        };
        // One that cannot be swept keeps nobody from sweeping the others.
        if let Err(error) = one_run(floor, &row, &plan, jumped, &mut sweep, done).await {
            sweep.errors.push(format!("run {}: {error}", row.id));
            *errors.entry(error_type(&error)).or_default() += 1;
        }
        plans.insert(row.id, (row, plan));
    }
    let due_before = Timestamp(now.0.saturating_sub(millis(settings.threshold)));
    // The first sweep has none before it: what came due then was in line already.
    let since = Timestamp(before.unwrap_or(now.0));
    let vitals = store.vitals(VitalsQuery { now, due_before, since, most: MOST_COUNTED }).await?;
    waiting(&vitals, &plans, &mut sweep, done);
    Ok(sweep)
}

fn waiting(
    vitals: &Vitals,
    plans: &BTreeMap<redrive_core::id::RunId, (RunRow, Plan)>,
    sweep: &mut Sweep,
    done: &mut BTreeMap<Of, Done>,
) {
    for stage in &vitals.stages {
        let Some((row, plan)) = plans.get(&stage.run) else { continue };
        let of = done.entry(collection(row, plan, stage.stage)).or_default();
        of.requeued += stage.came_due;
        of.skipped += stage.backing_off;
        sweep.came_due += stage.came_due;
        sweep.backing_off += stage.backing_off;
        sweep.starved += stage.overdue;
    }
}

/// Takes back what nobody holds, and lets parents go on whose children have ended: what a worker does for its own runs.
async fn one_run(
    floor: &Floor,
    row: &RunRow,
    plan: &Plan,
    jumped: Duration,
    sweep: &mut Sweep,
    done: &mut BTreeMap<Of, Done>,
) -> Result<()> {
    let (store, env) = (&*floor.store, &floor.env);
    let plan = plan.clone().with_grace(Duration::from_millis(row.pause.before_ms.unsigned_abs()));
    let spec = definition_of(row).and_then(|definition| definition.budget);
    let mut budget = SharedBudget::new(NAME, row.budget.as_deref())
        .map_err(|error| Error::internal(format!("its failure budget: {error}")))?;
    let mut heard = |transition: &Transition| {
        let of = done.entry(collection(row, &plan, transition.from.stage)).or_default();
        match transition.after.state {
            State::Waiting { .. } => {
                of.requeued += 1;
                sweep.taken_back += 1;
            }
            State::Dead { reason: DeadReason::Exhausted | DeadReason::Quarantined } => sweep.exhausted += 1,
            _ => {}
        }
        if let Some(spec) = &spec {
            budget.observe(spec, &plan, transition);
        }
    };
    maintain::reap(store, row.id, &plan, env, jumped, &mut heard).await?;
    if plan.stages().any(|(_, stage)| stage.first_child.is_some()) {
        let mut joined = |_: &Transition| {};
        maintain::join(store, row.id, &plan, env, &mut joined).await?;
    }
    // Whoever works on the run hears of it, and stops where that is too much.
    if let Some(change) = budget.save() {
        store.change_run(row.id, RunChange { budget: Some(change), ..RunChange::default() }).await?;
    }
    Ok(())
}

fn collection(row: &RunRow, plan: &Plan, no: redrive_core::id::StageNo) -> Of {
    let owner = plan.stage(no).and_then(|stage| stage.owner).and_then(|owner| plan.stage(owner));
    (row.spec.pipeline.clone(), owner.map(|owner| owner.name.clone()))
}

fn error_type(error: &Error) -> String {
    let name = serde_json::to_value(error.code).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or("internal").to_owned()
}
