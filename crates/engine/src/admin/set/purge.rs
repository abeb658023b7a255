//! A frozen set of dead items is removed, when it cannot be undone any more.

use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, Operation, Result, Store};
use serde::{Deserialize, Serialize};

use super::unchanged;
use crate::admin::purge::purge_page;
use crate::admin::{Done, MANY, close, is_open};
use crate::env::Env;

/// How a frozen set of dead items is removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetPurge {
    /// What the set was chosen by.
    pub filters: Vec<ItemFilter>,
    /// How long it can be undone after it was started, in milliseconds.
    pub undo_ms: i64,
    /// Nothing is removed before; `None` until it is started.
    pub at: Option<Timestamp>,
}

/// Goes on with a purge of a set. `None` while it can be undone.
pub(in crate::admin) async fn purge_on(
    store: &dyn Store,
    request: &SetPurge,
    mut operation: Operation,
    env: &Env,
) -> Result<Option<Done>> {
    if request.at.is_none_or(|at| at > env.clock.now()) {
        return Ok(None);
    }
    loop {
        let page = store.members(operation.id, operation.after, MANY).await?;
        let Some(last) = page.last().map(|member| member.item) else { break };
        if !is_open(store, operation.id).await? {
            break;
        }
        let items = unchanged(store, &page).await?;
        operation.skipped += (page.len() - items.len()) as u64;
        operation.after = Some(last);
        purge_page(store, &items, &mut operation, env).await?;
        env.progress.reached(operation.changed + operation.skipped, None);
    }
    Ok(Some(close(store, operation, env.clock.now()).await?))
}
