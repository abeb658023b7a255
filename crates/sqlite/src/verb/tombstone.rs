//! What is left of purged items.

use redrive_core::event::Place;
use redrive_core::id::{ItemId, ItemSeq, OperationId, RunId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::tally::DeadMark;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_store::{Tombstone, TombstoneQuery, sql};
use rusqlite::{Connection, Row, params};

use crate::error::{Result, strange};
use crate::row::{self, limit as sql_limit};
use crate::verb::item::collect;

/// Sets a tombstone.
pub(crate) fn set(tx: &Connection, tombstone: &Tombstone) -> Result<()> {
    let was = tombstone.was;
    let dead = was.and_then(|was| was.dead);
    tx.prepare_cached(
        "INSERT INTO tombstone (seq, id, run, key, at, operation, stage, state, dead_reason, class, verdict)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        tombstone.seq.0,
        tombstone.id.0,
        tombstone.run.0,
        &*tombstone.key,
        tombstone.at.0,
        tombstone.operation.0,
        was.map(|was| was.stage.0),
        was.map(|was| was.kind.code()),
        dead.map(|dead| dead.reason as i64),
        dead.and_then(|dead| dead.class).map(|class| class as i64),
        was.and_then(|was| was.verdict).map(Verdict::code),
    ])?;
    Ok(())
}

/// Whether anything of a run was purged.
pub(crate) fn any(conn: &Connection, run: RunId) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM tombstone WHERE run = ?1")?.exists([run.0])?)
}

/// Whether an item was purged and is not there again.
pub(crate) fn is_all_that_is_left(conn: &Connection, id: ItemId) -> Result<bool> {
    let mut select = conn.prepare_cached(
        "SELECT 1 FROM tombstone WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM item WHERE item.id = ?1)",
    )?;
    Ok(select.exists([&id.0])?)
}

/// Removes tombstones of a run that is forgotten.
pub(crate) fn forget(tx: &Connection, run: RunId, limit: usize) -> Result<u64> {
    let mut delete = tx.prepare_cached(
        "DELETE FROM tombstone WHERE seq IN (SELECT seq FROM tombstone WHERE run = ?1 LIMIT ?2)",
    )?;
    Ok(delete.execute((run.0, sql_limit(limit)))? as u64)
}

/// Reads a page.
pub(crate) fn page(conn: &Connection, query: &TombstoneQuery) -> Result<Vec<Tombstone>> {
    // A page of a run or of ids is read along its index; a key is looked for in all of them.
    let index = match (query.ids, query.run) {
        (Some(_), _) => "INDEXED BY tombstone_id",
        (None, Some(_)) => "INDEXED BY tombstone_run",
        (None, None) => "",
    };
    let mut select = conn.prepare_cached(&format!(
        "SELECT tombstone.stage, tombstone.state, dead_reason, class, seq, tombstone.id, run, key, at, operation, actor,
                tombstone.verdict
         FROM tombstone {index} LEFT JOIN operation ON operation.id = tombstone.operation
         WHERE seq > ?1 {} {} AND (?5 IS NULL OR key = ?5)
         ORDER BY seq LIMIT ?6",
        query.ids.map_or("AND ?2 IS NULL AND ?3 IS NULL", |_| "AND tombstone.id BETWEEN ?2 AND ?3"),
        query.run.map_or("AND ?4 IS NULL", |_| "AND run = ?4"),
    ))?;
    let rows = select.query(params![
        query.after.map_or(i64::MIN, |after| after.0),
        query.ids.map(|(low, _)| low.0),
        query.ids.map(|(_, high)| high.0),
        query.run.map(|run| run.0),
        query.key,
        sql_limit(query.limit)
    ])?;
    collect(rows, read)
}

fn read(found: &Row<'_>) -> Result<Tombstone> {
    Ok(Tombstone {
        was: was(found)?,
        seq: ItemSeq(found.get(4)?),
        id: ItemId(found.get(5)?),
        run: RunId(found.get(6)?),
        key: row::text(found, 7)?,
        at: Timestamp(found.get(8)?),
        operation: OperationId(found.get(9)?),
        actor: found.get(10)?,
    })
}

fn was(found: &Row<'_>) -> Result<Option<Place>> {
    let Some(stage) = found.get::<_, Option<u16>>(0)?.map(StageNo) else { return Ok(None) };
    let state: u8 = found.get(1)?;
    let kind = StateKind::from_code(state).ok_or_else(|| strange("state", state))?;
    let class = found.get::<_, Option<i64>>(3)?.map(sql::class).transpose()?;
    let reason = found.get::<_, Option<i64>>(2)?.map(sql::dead_reason).transpose()?;
    let verdict = found.get::<_, Option<i64>>(11)?.map(sql::verdict).transpose()?;
    let dead = reason.map(|reason| DeadMark { reason, class });
    // Only what has ended is purged, and nothing that has is handed over.
    Ok(Some(Place { stage, kind, dead, verdict, awaited: false }))
}
