//! What a clock wrote that was ahead is mended: no wait is longer than it was decided to be.

use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_core::time::{CLOCK_SLACK, Timestamp};
use redrive_store::{Commit, Result, Store};

use crate::env::Env;

const PAGE: usize = 500;

/// What was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mended {
    /// Items whose wait begins anew.
    pub items: usize,
    /// Leases that do.
    pub leases: usize,
    /// By how much the clock that wrote them was ahead, at most.
    pub ahead: Duration,
}

/// Begins every wait of a run, and every worker's lease, anew that was written by a clock ahead of this one: it was put back
/// since, or the process that wrote it had a wrong one.
///
/// # Errors
/// When the store fails; what was mended before stays so.
pub async fn mend_clock(store: &dyn Store, run: RunId, plan: &Plan, env: &Env) -> Result<Mended> {
    let mut mended = Mended::default();
    mend_leases(store, env.clock.now(), &mut mended).await?;
    loop {
        let now = env.clock.now();
        let ahead = store.ahead(run, now.after(CLOCK_SLACK), PAGE).await?;
        let full = ahead.len() == PAGE;
        let decided = ahead.iter().filter_map(|item| {
            let at = Moment { now, draw: env.dice.draw() };
            decide(item, Event::ClockSteppedBack, plan, at).ok()
        });
        let decided: Vec<Transition> = decided.collect();
        if decided.is_empty() {
            return Ok(mended);
        }
        mended.items += decided.len();
        mended.ahead = ahead.iter().map(|item| item.updated_at.since(now)).fold(mended.ahead, Duration::max);
        let changes = decided.into_iter().map(Into::into).collect();
        store.commit(Commit { changes, now, ..Commit::default() }).await?;
        if !full {
            return Ok(mended);
        }
    }
}

/// A living worker renews its lease by itself, soon; the others' end when they would have.
async fn mend_leases(store: &dyn Store, now: Timestamp, mended: &mut Mended) -> Result<()> {
    for worker in store.workers().await? {
        let Some(renewed_at) = worker.renewed_at.filter(|at| *at > now.after(CLOCK_SLACK)) else { continue };
        let lease = worker.lease_until.since(renewed_at);
        if store.renew(worker.id, now.after(lease), now).await? {
            mended.leases += 1;
            mended.ahead = mended.ahead.max(renewed_at.since(now));
        }
    }
    Ok(())
}
