//! Dead items are removed, with everything that came from them; a tombstone stays.

use redrive_core::item::{Item, State};
use redrive_store::{ItemFilter, ItemQuery, ItemRev, Operation, Result, Store};

use super::{Done, PAGE, Request, close, dead, is_open, open};
use crate::crash;
use crate::env::Env;

/// Removes dead items, page by page. The same request after a crash goes on where it was.
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
    let mut query = ItemQuery { filter: dead(filter), after: operation.after, limit: PAGE };
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
        let now = env.clock.now();
        operation.after = Some(last);
        operation.updated_at = now;
        crash::point("purge.before_page");
        let mut items = Vec::with_capacity(page.len());
        for item in &page {
            if awaited(store, item).await? {
                operation.skipped += 1;
            } else {
                items.push(ItemRev::from(item));
            }
        }
        operation.changed += store.purge(items, operation.clone(), now).await?;
        crash::point("purge.after_page");
    }
    close(store, operation, env.clock.now()).await
}

/// Whether somebody waits for how the item ended: its parent then still has to hear of it.
async fn awaited(store: &dyn Store, item: &Item) -> Result<bool> {
    let Some(parent) = item.parent else { return Ok(false) };
    Ok(store.item(parent).await?.is_some_and(|parent| parent.state == State::Joining))
}
