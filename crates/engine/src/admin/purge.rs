//! Dead items are removed, with everything that came from them; a tombstone stays.

use std::collections::BTreeSet;

use redrive_core::id::ItemSeq;
use redrive_core::item::{Item, State, StateKind};
use redrive_store::{ItemFilter, ItemQuery, ItemRev, Operation, Result, Store};

use super::{Done, PAGE, Request, close, count_dead, dead, is_open, next_page, open};
use crate::crash;
use crate::env::Env;

/// Removes dead items, or those in the state that the filter names, page by page. The same request after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn purge(store: &dyn Store, filter: &ItemFilter, actor: &str, env: &Env) -> Result<Done> {
    let operation = open(store, &Request::Purge { filter: filter.clone() }, actor, env.clock.now()).await?;
    go_on(store, filter, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    filter: &ItemFilter,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    let of_dead = filter.state.is_none_or(|state| state == StateKind::Dead);
    let left = if of_dead { Some(count_dead(store, filter).await?) } else { None };
    let all = left.map(|left| operation.changed + operation.skipped + left);
    let meant = if of_dead { dead(filter) } else { filter.clone() };
    let mut query = ItemQuery { filter: meant, after: operation.after, limit: PAGE };
    let mut again = operation.after.is_some();
    loop {
        let page = store.items(query.clone()).await?;
        let Some(last) = page.last().map(|item| item.seq) else {
            if std::mem::take(&mut again) {
                query.after = None;
                continue;
            }
            break;
        };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        query.limit = next_page(query.limit);
        operation.after = Some(last);
        purge_page(store, &page, &mut operation, env).await?;
        env.progress.reached(operation.changed + operation.skipped, all);
    }
    close(store, operation, env.clock.now()).await
}

pub(super) async fn purge_page(
    store: &dyn Store,
    page: &[Item],
    operation: &mut Operation,
    env: &Env,
) -> Result<()> {
    let now = env.clock.now();
    operation.updated_at = now;
    crash::point("purge.before_page");
    let awaited = awaited(store, page).await?;
    let gone = page.iter().filter(|item| !item.parent.is_some_and(|parent| awaited.contains(&parent)));
    let items: Vec<ItemRev> = gone.map(ItemRev::from).collect();
    operation.skipped += (page.len() - items.len()) as u64;
    // Written with the page, so that one that is broken off after it has not forgotten it.
    let before = operation.changed;
    operation.changed += items.len() as u64;
    operation.changed = before + store.purge(items, operation.clone(), now).await?;
    crash::point("purge.after_page");
    Ok(())
}

/// The parents of items that still have to hear how these ended: an item that somebody waits for stays.
async fn awaited(store: &dyn Store, page: &[Item]) -> Result<BTreeSet<ItemSeq>> {
    let parents: BTreeSet<ItemSeq> = page.iter().filter_map(|item| item.parent).collect();
    if parents.is_empty() {
        return Ok(parents);
    }
    let parents = store.items_of(parents.into_iter().collect()).await?;
    Ok(parents.iter().filter(|parent| parent.state == State::Joining).map(|parent| parent.seq).collect())
}
