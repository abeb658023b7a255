//! Items whose worker vanished go through the same decision as every other failure.

use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Commit, Pause, Result, Retired, RunChange, Store, WorkerRow};

use super::{Told, tell};
use crate::env::Env;
use crate::{crash, trace};

const PAGE: usize = 500;

/// Retires the workers of this machine whose process is gone, so that nobody waits for their leases.
///
/// # Errors
/// When the store fails.
pub async fn take_over(store: &dyn Store, env: &Env) -> Result<()> {
    let workers = store.workers().await?;
    for gone in workers.iter().filter(|worker| env.processes.is_gone(&worker.spec.identity)) {
        let since = last_sign(store, gone).await?;
        store.retire(gone.id, Retired::Lost).await?;
        for run in &gone.spec.runs {
            let others = workers.iter().any(|other| other.id != gone.id && other.spec.runs.contains(run));
            if !others {
                left_alone(store, *run, since).await?;
            }
        }
    }
    Ok(())
}

/// When a worker last did something that is known: its lease is renewed now and then only.
async fn last_sign(store: &dyn Store, worker: &WorkerRow) -> Result<Option<Timestamp>> {
    let held = store.held(worker.id, None, PAGE).await?;
    Ok(held.iter().map(|item| item.updated_at).chain(worker.renewed_at).max())
}

/// Notes that nobody has been at a run since its worker gave its last sign of life: that is no time that it took.
async fn left_alone(store: &dyn Store, run: RunId, since: Option<Timestamp>) -> Result<()> {
    let row = store.run(run).await?;
    let Some(row) = row.filter(|row| row.finished_at.is_none() && row.idle.since.is_none()) else {
        return Ok(());
    };
    let idle = Some(Pause { since, ..row.idle });
    store.change_run(run, RunChange { idle, ..RunChange::default() }).await.map(drop)
}

/// Takes back the items of a run whose worker vanished, and tells of each. Returns how many. A clock that was just put forward
/// (`jumped`) says nothing of leases yet.
///
/// # Errors
/// When the store fails; what was taken back before stays so.
pub async fn reap(
    store: &dyn Store,
    run: RunId,
    plan: &Plan,
    env: &Env,
    jumped: Duration,
    told: Told<'_>,
) -> Result<usize> {
    let mut reaped = 0;
    loop {
        let now = env.clock.now();
        let leases_at = Timestamp(now.0.saturating_sub(millis(jumped)));
        let orphans = store.orphans(run, leases_at, PAGE).await?;
        let full = orphans.len() == PAGE;
        let decided = orphans.iter().filter_map(|item| {
            let at = Moment { now, draw: env.dice.draw() };
            decide(item, Event::LeaseExpired, plan, at).ok()
        });
        let decided: Vec<Transition> = decided.collect();
        if decided.is_empty() {
            return Ok(reaped);
        }
        reaped += decided.len();
        let spans = trace::prepare(&env.traced, plan, &decided);
        let changes = decided.iter().cloned().map(Into::into).collect();
        crash::point("reap.before_commit");
        let applied = store.commit(Commit { changes, now, ..Commit::default() }).await?;
        crash::point("reap.after_commit");
        spans.committed(&applied);
        tell(&decided, &applied, told);
        if !full {
            return Ok(reaped);
        }
    }
}
