//! Items that are looked at, expanded, moved and purged.

use redrive_core::event::{ChildTally, Children};
use redrive_core::id::OperationId;
use redrive_core::item::{Entry, Item, StateKind};
use redrive_core::tally::place;
use redrive_core::time::Timestamp;

use crate::query::Tombstone;
use crate::request::ItemRev;

/// Counts children in a state into a tally.
pub fn tally(tally: &mut ChildTally, kind: StateKind, n: u64) {
    match kind {
        StateKind::Succeeded | StateKind::Filtered => tally.done += n,
        StateKind::Dead => tally.dead += n,
        StateKind::Cancelled | StateKind::Superseded => tally.gone += n,
        StateKind::Waiting | StateKind::Running | StateKind::Joining => tally.live += n,
    }
}

/// Where the children of an item begin.
#[must_use]
pub fn entry_of_children(parent: &Item, children: &Children, now: Timestamp) -> Entry {
    Entry {
        run: parent.run,
        parent: Some(parent.seq),
        stage: children.stage,
        reading: 0,
        deadline: children.deadline,
        now,
    }
}

/// Whether an item may be purged: it is as it was when that was asked, and finished.
#[must_use]
pub fn may_purge(item: &Item, asked: ItemRev) -> bool {
    ItemRev::from(item) == asked && item.state.kind().is_terminal()
}

/// What is left of an item that is purged. Who asked for it is found by the operation.
#[must_use]
pub fn tombstone(item: &Item, operation: OperationId, at: Timestamp) -> Tombstone {
    Tombstone {
        seq: item.seq,
        id: item.id,
        run: item.run,
        key: item.key.clone(),
        was: Some(place(item)),
        at,
        operation,
        actor: None,
    }
}
