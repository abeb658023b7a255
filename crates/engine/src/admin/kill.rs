//! One item is given up by an operator, and everything unfinished that came from it with it.

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::Event;
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_store::{Applied, Change, Commit, ItemFilter, ItemQuery, Result, Store};

use crate::env::Env;
use crate::trace;

/// Gives an item up. `false` when it is finished already or changed meanwhile.
///
/// # Errors
/// When the store fails.
pub async fn kill(store: &dyn Store, item: &Item, plan: &Plan, why: &str, env: &Env) -> Result<bool> {
    let now = env.clock.now();
    let at = || Moment { now, draw: env.dice.draw() };
    let Ok(killed) = decide(item, Event::Killed { why: why.to_owned() }, plan, at()) else {
        return Ok(false);
    };
    let mut changes: Vec<Change> = vec![killed.into()];
    for descendant in live_descendants(store, item).await? {
        if let Ok(cancelled) = decide(&descendant, Event::CancelRequested, plan, at()) {
            changes.push(cancelled.into());
        }
    }
    let spans = trace::prepare(&env.traced, plan, changes.iter().map(|change| &change.transition));
    let applied = store.commit(Commit { changes, all_or_nothing: true, now, ..Commit::default() }).await?;
    spans.committed(&applied);
    Ok(applied.iter().all(|applied| *applied == Applied::Done))
}

/// Reads the unfinished items that came from an item, at any depth.
///
/// # Errors
/// When the store fails.
pub async fn live_descendants(store: &dyn Store, item: &Item) -> Result<Vec<Item>> {
    let mut family = vec![item.clone()];
    let mut at = 0;
    while at < family.len() {
        let filter =
            ItemFilter { run: Some(item.run), parent: Some(family[at].seq), ..ItemFilter::default() };
        let children = store.items(ItemQuery { filter, after: None, limit: MAX_CHILDREN }).await?;
        family.extend(children.into_iter().filter(|child| !child.state.kind().is_terminal()));
        at += 1;
    }
    family.remove(0);
    Ok(family)
}
