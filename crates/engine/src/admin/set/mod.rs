//! Operations on a set of items that was frozen: exactly those, as far as they are still as they were seen.
//!
//! The items are in the store, beside the operation, so that any process can go on with it and tell afterwards what became of
//! each. What came later is none of the set.

mod pass;
mod purge;
mod redrive;
mod rerun;
mod room;

use std::collections::BTreeMap;

use redrive_core::id::{ItemSeq, OperationId, Rev};
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{Freeze, ItemFilter, ItemRev, Member, Operation, OperationState, Result, Store};

use super::{MANY, Request, count_dead, dead};
use crate::env::Env;

pub use purge::SetPurge;
pub(super) use purge::purge_on;
pub use redrive::SetRedrive;
pub(super) use redrive::redrive_on;
pub use rerun::SetRerun;
pub(super) use rerun::rerun_on;

/// Writes an operation down with its items. `start` has it done from now on; otherwise it waits for [`start_frozen`]. `None` when
/// the actor has an operation that is newer than `unless_newer_than`.
///
/// # Errors
/// When the store fails.
pub async fn freeze(
    store: &dyn Store,
    request: &Request,
    items: &[Item],
    who: (&str, Option<OperationId>),
    start: bool,
    env: &Env,
) -> Result<Option<Operation>> {
    let now = env.clock.now();
    let request = if start { request.clone().started(now) } else { request.clone() };
    let mut operation = Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: if start { OperationState::Open } else { OperationState::Frozen },
        actor: who.0.to_owned(),
        request: request.written()?,
        after: None,
        changed: 0,
        skipped: 0,
        created_at: now,
        updated_at: now,
    };
    let items = items.iter().map(ItemRev::from).collect();
    let freeze = Freeze { operation: operation.clone(), items, unless_newer_than: who.1 };
    let Some(id) = store.freeze(freeze).await? else { return Ok(None) };
    operation.id = id;
    Ok(Some(operation))
}

/// Has a frozen operation done from now on. One that is under way stays so; `None` when there is nothing to start.
///
/// # Errors
/// When the store fails, or a newer version made it.
pub async fn start_frozen(store: &dyn Store, operation: OperationId, env: &Env) -> Result<Option<Operation>> {
    let Some(row) = store.operation(operation).await? else { return Ok(None) };
    if row.state != OperationState::Frozen {
        return Ok(Some(row).filter(|row| row.state == OperationState::Open));
    }
    let now = env.clock.now();
    let request = Request::of(&row)?.started(now).written()?;
    let started = Operation { state: OperationState::Open, request, updated_at: now, ..row };
    store.save_operation(started).await?;
    store.operation(operation).await
}

/// How many dead items a set was too early for: they match what it was chosen by, died since, and are none of its own that
/// died again.
///
/// # Errors
/// When the store fails.
pub async fn late(
    store: &dyn Store,
    operation: OperationId,
    filters: &[ItemFilter],
    since: Timestamp,
) -> Result<u64> {
    let since = |filter: &ItemFilter| filter.since.map_or(since, |earlier| earlier.max(since));
    let died = |filter| dead(&ItemFilter { since: Some(since(filter)), ..filter.clone() });
    let filters: Vec<ItemFilter> = filters.iter().map(died).collect();
    let mut late = 0;
    for filter in &filters {
        late += count_dead(store, filter).await?;
    }
    let mut after = None;
    while late > 0 {
        let page = store.members(operation, after, MANY).await?;
        let Some(last) = page.last().map(|member| member.item) else { break };
        after = Some(last);
        for item in store.items_of(page.iter().map(|member| member.item).collect()).await? {
            late = late.saturating_sub(filters.iter().filter(|filter| filter.matches(&item)).count() as u64);
        }
    }
    Ok(late)
}

/// How many items of an operation were sent back, by whoever did it, and how many were not.
pub(super) async fn sent_and_left(store: &dyn Store, operation: OperationId) -> Result<(u64, u64)> {
    let (mut sent, mut left, mut after) = (0, 0, None);
    loop {
        let page = store.members(operation, after, MANY).await?;
        let Some(last) = page.last() else { return Ok((sent, left)) };
        after = Some(last.item);
        let of_page = page.iter().filter(|member| member.sent.is_some()).count();
        sent += of_page as u64;
        left += (page.len() - of_page) as u64;
    }
}

/// Those of the items that are as they were seen, and that nothing was done to.
pub(super) async fn unchanged(store: &dyn Store, members: &[Member]) -> Result<Vec<Item>> {
    let left = members.iter().filter(|member| member.sent.is_none());
    let seen: BTreeMap<ItemSeq, Rev> = left.map(|member| (member.item, member.rev)).collect();
    let items = store.items_of(seen.keys().copied().collect()).await?;
    let is_as_seen = |item: &Item| seen.get(&item.seq) == Some(&item.rev);
    Ok(items.into_iter().filter(is_as_seen).collect())
}
