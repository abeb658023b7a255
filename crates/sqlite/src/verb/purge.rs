//! Removing finished items for good.

use redrive_core::fact::Fact;
use redrive_core::id::ItemSeq;
use redrive_core::tally::Deltas;
use redrive_core::time::Timestamp;
use redrive_store::rule::item::may_purge;
use redrive_store::{ItemRev, Operation, rule};
use rusqlite::Connection;

use crate::error::Result;
use crate::verb::group::Groups;
use crate::verb::outbox::Outbox;
use crate::verb::{counter, item, operation, output, tombstone};

/// Removes finished items that still have that change number, with all their descendants, leaving tombstones.
pub(crate) fn purge(tx: &Connection, items: &[ItemRev], by: &Operation, now: Timestamp) -> Result<u64> {
    let by = operation::save(tx, by)?;
    let (mut deltas, mut groups) = (Deltas::default(), Groups::default());
    let mut outbox = Outbox::of(tx)?;
    let mut gone = 0;
    for asked in items {
        let Some(head) = item::one(tx, asked.seq)?.filter(|item| may_purge(item, *asked)) else { continue };
        let below = descendants(tx, head.seq)?;
        for item in std::iter::once(head).chain(item::some(tx, &below)?) {
            tombstone::set(tx, &rule::item::tombstone(&item, by, now))?;
            output::remove_of(tx, item.seq)?;
            remove(tx, item.seq)?;
            deltas.purged(&item);
            groups.was(&item);
            outbox.tell(tx, Fact::of_purged(&item, now))?;
            gone += 1;
        }
    }
    outbox.finish(tx)?;
    groups.finish(tx)?;
    counter::add(tx, &deltas)?;
    Ok(gone)
}

/// Everything that came from an item.
fn descendants(tx: &Connection, head: ItemSeq) -> Result<Vec<ItemSeq>> {
    let mut select = tx.prepare_cached("SELECT seq FROM item WHERE parent = ?1 ORDER BY seq")?;
    let mut family = vec![head];
    let mut at = 0;
    while let Some(parent) = family.get(at) {
        let children = select.query_map([parent.0], |row| Ok(ItemSeq(row.get(0)?)))?;
        let children = children.collect::<rusqlite::Result<Vec<_>>>()?;
        family.extend(children);
        at += 1;
    }
    family.remove(0);
    Ok(family)
}

/// Removes an item with its history. Its content is looked at when the store is pruned or scrubbed.
pub(crate) fn remove(tx: &Connection, seq: ItemSeq) -> Result<()> {
    tx.prepare_cached("DELETE FROM attempt WHERE item = ?1")?.execute([seq.0])?;
    tx.prepare_cached("DELETE FROM mark WHERE item = ?1")?.execute([seq.0])?;
    tx.prepare_cached("DELETE FROM item WHERE seq = ?1")?.execute([seq.0])?;
    Ok(())
}
