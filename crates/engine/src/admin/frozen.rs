//! Exactly the dead items that somebody was shown are sent back: those that something has happened to since are left alone.
//!
//! It is a request of its own, and not a list beside the filter of a [`Redrive`]: a version that does not know it refuses it,
//! and does not send back whatever the filter means.

use redrive_core::id::{ItemSeq, Rev};
use redrive_core::item::{Item, StateKind};
use redrive_store::{ItemFilter, Operation, Result, Store};
use serde::{Deserialize, Serialize};

use super::redrive::{foresee, send_back};
use super::selection::Page;
use super::{Done, PAGE, Pace, Plans, Redrive, Request, by_run, close, is_open, open};
use crate::env::Env;

/// A dead item, as it was when somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The item.
    pub item: ItemSeq,
    /// Its change number at that time.
    pub rev: Rev,
}

/// What a [`redrive()`](super::redrive()) would send back now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foreseen {
    /// The items, in the order in which they would be sent back.
    pub items: Vec<Item>,
    /// Items that would be left alone: only their source can mend them, or their run does not go on.
    pub skipped: u64,
}

/// Reads the items that a redrive would send back, and changes nothing. All of them are held at once: the request has to have
/// a limit.
///
/// # Errors
/// When the store fails.
pub async fn preview_items(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Redrive,
    env: &Env,
) -> Result<Foreseen> {
    let mut items = Vec::new();
    let skipped = foresee(store, plans, request, env, |page| items.extend(page.redriven)).await?;
    Ok(Foreseen { items, skipped })
}

/// Sends back those of the items that are as they were seen. The same request after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn redrive_seen(
    store: &dyn Store,
    plans: &dyn Plans,
    seen: &[Seen],
    actor: &str,
    env: &Env,
) -> Result<Done> {
    let operation =
        open(store, &Request::RedriveSeen { items: seen.to_vec() }, actor, env.clock.now()).await?;
    go_on(store, plans, seen, operation, env).await
}

/// Does the pages of an operation that are left. What was sent back before has another change number, and is passed over.
pub(super) async fn go_on(
    store: &dyn Store,
    plans: &dyn Plans,
    seen: &[Seen],
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    let all = seen.len() as u64;
    let request = Redrive::of(ItemFilter::default());
    for page in seen.chunks(PAGE) {
        if !is_open(store, operation.id).await? {
            break;
        }
        for (run, items) in by_run(unchanged(store, page).await?) {
            let plan = plans.plan(run).await?;
            let alone: Vec<Seen> = items.iter().map(|item| Seen { item: item.seq, rev: item.rev }).collect();
            let page = Page { store, run, items, env };
            if send_back(&page, plan.as_ref(), &request, Pace::all(env), &mut operation).await? {
                continue;
            }
            // One of them changed meanwhile, so nothing of the page was written: each for itself then.
            for one in alone {
                let items = unchanged(store, &[one]).await?;
                let page = Page { store, run, items, env };
                send_back(&page, plan.as_ref(), &request, Pace::all(env), &mut operation).await?;
            }
        }
        env.progress.reached(operation.changed, Some(all));
    }
    // Whatever was not sent back was left alone, before a crash or after it.
    operation.skipped = all.saturating_sub(operation.changed);
    close(store, operation, env.clock.now()).await
}

/// Those of the items that are dead and as they were seen.
async fn unchanged(store: &dyn Store, seen: &[Seen]) -> Result<Vec<Item>> {
    let mut items = Vec::with_capacity(seen.len());
    for one in seen {
        let now = store.item(one.item).await?;
        items.extend(now.filter(|now| now.rev == one.rev && now.state.kind() == StateKind::Dead));
    }
    Ok(items)
}
