//! Dead items are removed.

use redrive_core::id::OperationId;
use redrive_engine::admin;
use redrive_store::Scrub;
use serde::Serialize;

use super::Selection;
use super::selection::finds_any;
use crate::care::Room;
use crate::error::Result;
use crate::{Floor, Role};

/// How many items were changed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changed {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// Items that were changed, or would be.
    pub items: u64,
    /// Items that were left alone.
    pub skipped: u64,
    /// The operation that removes them later, where it can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// Until when it can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_until: Option<String>,
    /// Why bytes of what was removed may be left, and what to do about it.
    #[serde(skip)]
    pub left: Option<String>,
    /// Room that is free in the store's file now, where it is much.
    #[serde(skip)]
    pub room: Option<Room>,
}

/// Says how many dead items [`purge`] would remove, without what came from them.
///
/// # Errors
/// When the store fails.
pub async fn preview_purge(floor: &Floor, selection: &Selection) -> Result<Changed> {
    let mut items = 0;
    for filter in &selection.filters {
        items += admin::count_dead(&*floor.store, filter).await?;
    }
    if items == 0 {
        selection.refuse_no_such_group(floor).await?;
    }
    Ok(Changed { dry_run: true, items, ..Changed::default() })
}

/// Removes dead items and everything that came from them; a tombstone stays. One whose parent still waits for how it ended
/// is left alone.
///
/// # Errors
/// When the store fails; the same request goes on where it was.
pub async fn purge(floor: &Floor, selection: &Selection) -> Result<Changed> {
    floor.require(Role::Operator)?;
    let (mut items, mut skipped) = (0, 0);
    for filter in &selection.filters {
        if !finds_any(floor, filter).await? {
            continue;
        }
        let done = admin::purge(&*floor.store, filter, &floor.asker.name, &floor.env).await?;
        items += done.changed;
        skipped += done.skipped;
    }
    // Also when nothing was left to remove: a purge that was broken off may have got no further than that.
    let scrubbed = floor.store.scrub(Scrub::Leftovers).await?;
    let room = Room::left(&scrubbed);
    Ok(Changed { items, skipped, left: scrubbed.left, room, ..Changed::default() })
}
