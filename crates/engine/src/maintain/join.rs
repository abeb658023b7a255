//! Parents whose children are all finished go on, or die with them.

use std::collections::BTreeSet;

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::State;
use redrive_core::plan::Plan;
use redrive_store::{Change, Commit, ItemFilter, ItemQuery, Result, Settled, Store};

use super::{Told, tell};
use crate::env::Env;
use crate::{crash, trace};

const PAGE: usize = 200;

/// Settles those of these items whose children are all finished, and theirs in turn, and tells of each. Returns how many.
///
/// # Errors
/// When the store fails; what was settled before stays so.
pub async fn join_among(
    store: &dyn Store,
    mut parents: BTreeSet<ItemSeq>,
    plan: &Plan,
    env: &Env,
    told: Told<'_>,
) -> Result<usize> {
    let mut joined = 0;
    while !parents.is_empty() {
        let mut settled = Vec::new();
        for seq in std::mem::take(&mut parents) {
            let item = store.item(seq).await?.filter(|item| item.state == State::Joining);
            if let Some(item) = item {
                settled.push(Settled { item, children: store.children(seq).await? });
            }
        }
        bring_back(store, &mut settled, plan, env).await?;
        let decided = decided(&settled, plan, env);
        let finished = decided.iter().filter(|transition| transition.after.state.kind().is_terminal());
        parents.extend(finished.filter_map(|transition| transition.after.parent));
        if !decided.is_empty() {
            joined += decided.len();
            commit(store, &decided, plan, env, told).await?;
        }
    }
    Ok(joined)
}

fn decided(settled: &[Settled], plan: &Plan, env: &Env) -> Vec<Transition> {
    let now = env.clock.now();
    let decided = settled.iter().filter_map(|Settled { item, children: tally }| {
        let at = Moment { now, draw: env.dice.draw() };
        decide(item, Event::ChildrenSettled(*tally), plan, at).ok()
    });
    decided.collect()
}

/// Restores the children that were taken out with a parent that lives again: its stage gives them once more, and they are
/// there already. Such a parent is not settled.
async fn bring_back(store: &dyn Store, settled: &mut Vec<Settled>, plan: &Plan, env: &Env) -> Result<()> {
    for Settled { item: parent, children: tally } in std::mem::take(settled) {
        let filter = ItemFilter { run: Some(parent.run), parent: Some(parent.seq), ..ItemFilter::default() };
        let mut gone = if tally.live == 0 && tally.gone > 0 {
            store.items(ItemQuery { filter, after: None, limit: MAX_CHILDREN }).await?
        } else {
            Vec::new()
        };
        gone.retain(|child| matches!(child.state, State::Superseded { .. } | State::Cancelled));
        if gone.is_empty() {
            settled.push(Settled { item: parent, children: tally });
            continue;
        }
        let now = env.clock.now();
        let at = || Moment { now, draw: env.dice.draw() };
        // The parent's change number moves on as well: it may have been superseded again meanwhile.
        let mut decided = vec![decide(&parent, Event::ChildReopened { stage: parent.stage }, plan, at())];
        for child in &gone {
            decided.push(decide(child, Event::Restored { payload: None }, plan, at()));
        }
        let changes = decided.into_iter().flatten().map(Change::from).collect();
        let unless_cancelled = Some(parent.run);
        store
            .commit(Commit { changes, all_or_nothing: true, unless_cancelled, now, ..Commit::default() })
            .await?;
    }
    Ok(())
}

async fn commit(
    store: &dyn Store,
    decided: &[Transition],
    plan: &Plan,
    env: &Env,
    told: Told<'_>,
) -> Result<()> {
    let spans = trace::prepare(&env.traced, plan, decided);
    let changes = decided.iter().cloned().map(Into::into).collect();
    crash::point("join.before_commit");
    let applied = store.commit(Commit { changes, now: env.clock.now(), ..Commit::default() }).await?;
    crash::point("join.after_commit");
    spans.committed(&applied);
    tell(decided, &applied, told);
    Ok(())
}

/// Settles the parents of a run whose children are all finished, and theirs, and tells of each. Returns how many.
///
/// # Errors
/// When the store fails; what was settled before stays so.
pub async fn join(store: &dyn Store, run: RunId, plan: &Plan, env: &Env, told: Told<'_>) -> Result<usize> {
    let mut joined = 0;
    loop {
        let mut settled = store.settled(run, PAGE).await?;
        bring_back(store, &mut settled, plan, env).await?;
        let decided = decided(&settled, plan, env);
        if decided.is_empty() {
            return Ok(joined);
        }
        joined += decided.len();
        commit(store, &decided, plan, env, told).await?;
    }
}
