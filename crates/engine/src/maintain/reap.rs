//! Items whose worker vanished go through the same decision as every other failure.

use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Commit, Result, Retired, Store};

use super::{Told, tell};
use crate::crash;
use crate::env::Env;
use crate::identity::is_gone;

const PAGE: usize = 500;

/// Retires the workers of this machine whose process is gone, so that nobody waits for their leases.
///
/// # Errors
/// When the store fails.
pub async fn take_over(store: &dyn Store) -> Result<()> {
    for worker in store.workers().await? {
        if is_gone(&worker.spec.identity) {
            store.retire(worker.id, Retired::Lost).await?;
        }
    }
    Ok(())
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
        let changes = decided.iter().cloned().map(Into::into).collect();
        crash::point("reap.before_commit");
        let applied = store.commit(Commit { changes, now, ..Commit::default() }).await?;
        crash::point("reap.after_commit");
        tell(&decided, &applied, told);
        if !full {
            return Ok(reaped);
        }
    }
}
