//! Parents whose children are all finished go on, or die with them.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_store::{Commit, Result, Store};

use crate::crash;
use crate::env::Env;

const PAGE: usize = 200;

/// Settles the parents of a run whose children are all finished, and theirs. Returns how many.
///
/// # Errors
/// When the store fails; what was settled before stays so.
pub async fn join(store: &dyn Store, run: RunId, plan: &Plan, env: &Env) -> Result<usize> {
    let mut joined = 0;
    loop {
        let settled = store.settled(run, PAGE).await?;
        let now = env.clock.now();
        let decided = settled.iter().filter_map(|(item, tally)| {
            let at = Moment { now, draw: env.dice.draw() };
            decide(item, Event::ChildrenSettled(*tally), plan, at).ok()
        });
        let changes: Vec<_> = decided.map(Into::into).collect();
        if changes.is_empty() {
            return Ok(joined);
        }
        joined += changes.len();
        crash::point("join.before_commit");
        store.commit(Commit { changes, now, ..Commit::default() }).await?;
        crash::point("join.after_commit");
    }
}
