//! A run is taken out: nothing new is claimed, and everything that is not finished is cancelled.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_store::{Applied, Commit, ItemFilter, ItemQuery, Operation, Result, RunChange, Store};

use super::{Done, PAGE, Request, close, open};
use crate::env::Env;
use crate::{crash, journal};

/// Cancels a run. Doing it again after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the run is cancelled all the same once the first step is done.
pub async fn cancel(store: &dyn Store, run: RunId, plan: &Plan, actor: &str, env: &Env) -> Result<Done> {
    let by = if actor.is_empty() { String::new() } else { format!(" by {actor}") };
    let reason = format!("cancelled{by}");
    let ask = RunChange::ask(Control::Cancelled, Some(reason.clone()), env.clock.now());
    store.change_run(run, ask).await?;
    journal::run_halted(run, Control::Cancelled, &reason);
    let operation = open(store, &Request::Cancel { run }, actor, env.clock.now()).await?;
    go_on(store, run, plan, operation, env).await
}

/// Takes out what is left of a run that takes nothing new any more.
pub(super) async fn go_on(
    store: &dyn Store,
    run: RunId,
    plan: &Plan,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    // Work in flight may still move an item from one state to another; nothing new is claimed, so that comes to an end.
    let mut found = true;
    while std::mem::take(&mut found) {
        for state in [StateKind::Joining, StateKind::Waiting, StateKind::Running] {
            let filter = ItemFilter { run: Some(run), state: Some(state), ..ItemFilter::default() };
            loop {
                let page =
                    store.items(ItemQuery { filter: filter.clone(), after: None, limit: PAGE }).await?;
                let now = env.clock.now();
                let decided = page.iter().filter_map(|item| {
                    let at = Moment { now, draw: env.dice.draw() };
                    decide(item, Event::CancelRequested, plan, at).ok()
                });
                let changes: Vec<_> = decided.map(Into::into).collect();
                if changes.is_empty() {
                    break;
                }
                found = true;
                operation.updated_at = now;
                crash::point("cancel.before_page");
                let commit = Commit { changes, operation: Some(operation.clone()), now, ..Commit::default() };
                let applied = store.commit(commit).await?;
                crash::point("cancel.after_page");
                operation.changed +=
                    applied.iter().filter(|applied| **applied == Applied::Done).count() as u64;
            }
        }
    }
    store.change_run(run, RunChange::finished(env.clock.now())).await?;
    close(store, operation, env.clock.now()).await
}
