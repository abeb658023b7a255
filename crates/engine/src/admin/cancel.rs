//! A run is taken out: nothing new is claimed, and everything that is not finished is cancelled.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_store::{Applied, Change, Commit, ItemFilter, ItemQuery, Operation, Result, RunChange, Store};

use super::{Done, PAGE, Request, close, next_page, open};
use crate::counts::{all_counts, live_items};
use crate::env::Env;
use crate::{crash, journal, trace};

/// Cancels a run. Doing it again after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the run is cancelled all the same once the first step is done.
pub async fn cancel(store: &dyn Store, run: RunId, plan: &Plan, actor: &str, env: &Env) -> Result<Done> {
    halt(store, run, actor, env).await?;
    let operation = open(store, &Request::Cancel { run }, actor, env.clock.now()).await?;
    go_on(store, run, plan, operation, env).await
}

/// Has a run take nothing new any more.
pub(super) async fn halt(store: &dyn Store, run: RunId, actor: &str, env: &Env) -> Result<()> {
    let by = if actor.is_empty() { String::new() } else { format!(" by {actor}") };
    let reason = format!("cancelled{by}");
    let ask = RunChange::ask(Control::Cancelled, Some(reason.clone()), env.clock.now());
    store.change_run(run, ask).await?;
    journal::run_halted(run, Control::Cancelled, &reason);
    Ok(())
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
    let all = operation.changed + live_items(store, run).await?;
    let mut found = true;
    while std::mem::take(&mut found) {
        let counts = all_counts(store, run).await?;
        for (state, n) in [
            (StateKind::Joining, counts.joining),
            (StateKind::Waiting, counts.waiting),
            (StateKind::Running, counts.running),
        ] {
            let filter = ItemFilter { run: Some(run), state: Some(state), ..ItemFilter::default() };
            let mut query = ItemQuery { filter, after: None, limit: PAGE };
            // What is counted nowhere is not looked for: that would read the whole run through.
            let mut page = if n > 0 { store.items(query.clone()).await? } else { Vec::new() };
            while let Some(last) = page.last() {
                query.after = Some(last.seq);
                query.limit = next_page(query.limit);
                found |= cancel_page(store, &page, plan, &mut operation, env).await?;
                env.progress.reached(operation.changed, Some(all));
                page = store.items(query.clone()).await?;
            }
        }
    }
    store.change_run(run, RunChange::finished(env.clock.now())).await?;
    close(store, operation, env.clock.now()).await
}

/// Takes out a page of items; `false` when there was nothing to do for any of them.
async fn cancel_page(
    store: &dyn Store,
    page: &[Item],
    plan: &Plan,
    operation: &mut Operation,
    env: &Env,
) -> Result<bool> {
    let now = env.clock.now();
    let decided = page.iter().filter_map(|item| {
        let at = Moment { now, draw: env.dice.draw() };
        decide(item, Event::CancelRequested, plan, at).ok()
    });
    let changes: Vec<Change> = decided.map(Into::into).collect();
    if changes.is_empty() {
        return Ok(false);
    }
    operation.updated_at = now;
    // Written with the page, so that one that is broken off after it has not forgotten it.
    let before = operation.changed;
    operation.changed += changes.len() as u64;
    crash::point("cancel.before_page");
    let spans = trace::prepare(&env.traced, plan, changes.iter().map(|change| &change.transition));
    let commit = Commit { changes, operation: Some(operation.clone()), now, ..Commit::default() };
    let applied = store.commit(commit).await?;
    spans.committed(&applied);
    crash::point("cancel.after_page");
    operation.changed = before + applied.iter().filter(|applied| **applied == Applied::Done).count() as u64;
    Ok(true)
}
