//! Forgetting old finished runs, a page a call.

use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::StateKind;
use redrive_core::tally::{Deltas, Metric};
use redrive_store::{Operation, Prune, Pruned};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;
use crate::row::limit as sql_limit;
use crate::verb::group::Groups;
use crate::verb::purge::remove;
use crate::verb::{counter, item, operation, tombstone, vitals};

/// Forgets old finished runs, at most `limit` items a call, and contents that nobody refers to any more; the operation it is
/// a page of is saved with it.
pub(crate) fn prune(tx: &Connection, prune: &Prune, by: Option<&Operation>) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    while let Some(run) = oldest(tx, prune)? {
        let left = prune.limit.saturating_sub(usize::try_from(pruned.items).unwrap_or(usize::MAX));
        remove_items(tx, run, left, &mut pruned)?;
        if has_items(tx, run)? {
            pruned.more = true;
            break;
        }
        let room = prune.limit.saturating_sub(usize::try_from(pruned.contents).unwrap_or(usize::MAX));
        pruned.contents += remove_outputs(tx, run, room)?;
        if has_outputs(tx, run)? {
            pruned.more = true;
            break;
        }
        let room = prune.limit.saturating_sub(usize::try_from(pruned.tombstones).unwrap_or(usize::MAX));
        pruned.tombstones += tombstone::forget(tx, run, room)?;
        if tombstone::any(tx, run)? {
            pruned.more = true;
            break;
        }
        vitals::keep_what_grows(tx, run)?;
        tx.prepare_cached("DELETE FROM counter WHERE run = ?1")?.execute([run.0])?;
        tx.prepare_cached("DELETE FROM config_counter WHERE run = ?1")?.execute([run.0])?;
        tx.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([run.0])?;
        pruned.runs += 1;
    }
    sweep(tx, prune.limit, &mut pruned)?;
    if prune.only.is_none() {
        operation::forget_members(tx, prune.finished_before)?;
    }
    // Nothing is asked of a worker that is retired: what it holds is as well held by none.
    tx.prepare_cached("DELETE FROM worker WHERE retired IS NOT NULL")?.execute([])?;
    if let Some(by) = by {
        operation::save(tx, &Operation { changed: by.changed + pruned.items, ..by.clone() })?;
    }
    Ok(pruned)
}

fn oldest(tx: &Connection, prune: &Prune) -> Result<Option<RunId>> {
    let mut select = tx.prepare_cached(
        "SELECT min(id) FROM run WHERE finished_at < ?1 AND (?2 OR NOT EXISTS (
             SELECT 1 FROM counter WHERE counter.run = run.id AND metric = ?3 AND n > 0))
             AND (?4 IS NULL OR id = ?4)",
    )?;
    let dead = Metric::State(StateKind::Dead).code();
    let asked = (prune.finished_before.0, prune.with_dead, dead, prune.only.map(|run| run.0));
    Ok(select.query_row(asked, |row| row.get::<_, Option<i64>>(0))?.map(RunId))
}

fn remove_items(tx: &Connection, run: RunId, limit: usize, pruned: &mut Pruned) -> Result<()> {
    let mut select = tx.prepare_cached("SELECT seq FROM item WHERE run = ?1 ORDER BY seq LIMIT ?2")?;
    let page = select.query_map((run.0, sql_limit(limit)), |row| Ok(ItemSeq(row.get(0)?)))?;
    let page = page.collect::<rusqlite::Result<Vec<_>>>()?;
    // A page at a time may be all that is done before a crash, so the counters go down with the items.
    let (mut deltas, mut groups) = (Deltas::default(), Groups::default());
    for seq in &page {
        if let Some(item) = item::one(tx, *seq)? {
            deltas.forgotten(&item);
            groups.was(&item);
            pruned.dead += u64::from(item.state.kind() == StateKind::Dead);
        }
        remove(tx, *seq)?;
    }
    pruned.items += page.len() as u64;
    groups.finish(tx)?;
    counter::add(tx, &deltas)
}

fn has_items(tx: &Connection, run: RunId) -> Result<bool> {
    Ok(tx.prepare_cached("SELECT 1 FROM item WHERE run = ?1")?.exists([run.0])?)
}

fn remove_outputs(tx: &Connection, run: RunId, limit: usize) -> Result<u64> {
    let mut delete = tx.prepare_cached(
        "DELETE FROM output WHERE rowid IN (SELECT rowid FROM output WHERE run = ?1 LIMIT ?2)",
    )?;
    Ok(delete.execute((run.0, sql_limit(limit)))? as u64)
}

fn has_outputs(tx: &Connection, run: RunId) -> Result<bool> {
    Ok(tx.prepare_cached("SELECT 1 FROM output WHERE run = ?1")?.exists([run.0])?)
}

/// Looks at contents that lost a reference, and removes those that lost their last one.
pub(crate) fn sweep(tx: &Connection, limit: usize, pruned: &mut Pruned) -> Result<()> {
    let mut select = tx.prepare_cached("SELECT hash FROM loose LIMIT ?1")?;
    let loose = select.query_map([sql_limit(limit)], |row| row.get::<_, [u8; 16]>(0))?;
    let loose = loose.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut used = tx.prepare_cached(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM item WHERE content = ?1)
                     OR EXISTS (SELECT 1 FROM output WHERE content = ?1)",
    )?;
    for hash in &loose {
        if !used.exists([hash])? {
            pruned.contents +=
                tx.prepare_cached("DELETE FROM content WHERE hash = ?1")?.execute([hash])? as u64;
        }
        tx.prepare_cached("DELETE FROM loose WHERE hash = ?1")?.execute([hash])?;
    }
    let left = tx.prepare_cached("SELECT 1 FROM loose")?.query_row([], |_| Ok(())).optional()?;
    pruned.more |= left.is_some();
    Ok(())
}
