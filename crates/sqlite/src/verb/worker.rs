//! Workers and what they hold.

use redrive_core::id::{ItemSeq, RunId, WorkerId};
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{NewWorker, Retired, WorkerRow};
use rusqlite::{Connection, Row};

use crate::error::{Result, strange};
use crate::row::{self, item_columns, limit as sql_limit};
use crate::verb::item::collect;

/// Adds a worker.
pub(crate) fn register(
    tx: &Connection,
    new: &NewWorker,
    lease_until: Timestamp,
    now: Timestamp,
) -> Result<WorkerId> {
    let runs = serde_json::to_string(&new.runs).map_err(|error| strange("list of runs", error))?;
    tx.prepare_cached(
        "INSERT INTO worker (name, identity, lease_until, started_at, renewed_at, runs)
         VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
    )?
    .execute((&new.name, &new.identity, lease_until.0, now.0, runs))?;
    Ok(WorkerId(tx.last_insert_rowid()))
}

/// Renews a lease, unless the worker was retired.
pub(crate) fn renew(
    tx: &Connection,
    worker: WorkerId,
    lease_until: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    let renewed = tx
        .prepare_cached(
            "UPDATE worker SET lease_until = ?2, renewed_at = ?3 WHERE id = ?1 AND retired IS NULL",
        )?
        .execute((worker.0, lease_until.0, now.0))?;
    Ok(renewed == 1)
}

/// Writes down which runs a worker works on, unless it was retired.
pub(crate) fn attend(tx: &Connection, worker: WorkerId, runs: &[RunId]) -> Result<()> {
    let runs = serde_json::to_string(runs).map_err(|error| strange("list of runs", error))?;
    tx.prepare_cached("UPDATE worker SET runs = ?2 WHERE id = ?1 AND retired IS NULL")?
        .execute((worker.0, runs))?;
    Ok(())
}

/// Retires a worker; how it was retired first stands.
pub(crate) fn retire(tx: &Connection, worker: WorkerId, how: Retired) -> Result<()> {
    let code = match how {
        Retired::Stopped => 0,
        Retired::Lost => 1,
    };
    tx.prepare_cached("UPDATE worker SET retired = ?2 WHERE id = ?1 AND retired IS NULL")?
        .execute((worker.0, code))?;
    Ok(())
}

/// Reads the workers that have not been retired.
pub(crate) fn live(conn: &Connection) -> Result<Vec<WorkerRow>> {
    let mut select = conn.prepare_cached(
        "SELECT id, name, identity, lease_until, started_at, renewed_at, runs FROM worker WHERE retired IS NULL
         ORDER BY id",
    )?;
    collect(select.query([])?, read)
}

fn read(row: &Row<'_>) -> Result<WorkerRow> {
    let runs = row.get_ref(6)?.as_str()?;
    let runs = serde_json::from_str(runs).map_err(|_| strange("list of runs", runs))?;
    Ok(WorkerRow {
        id: WorkerId(row.get(0)?),
        spec: NewWorker { name: row.get(1)?, identity: row.get(2)?, runs },
        lease_until: Timestamp(row.get(3)?),
        started_at: Timestamp(row.get(4)?),
        renewed_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

/// Whether what a worker holds is still its own.
pub(crate) fn holds(conn: &Connection, worker: WorkerId, now: Timestamp) -> Result<bool> {
    let mut select =
        conn.prepare_cached("SELECT 1 FROM worker WHERE id = ?1 AND retired IS NULL AND lease_until >= ?2")?;
    Ok(select.exists((worker.0, now.0))?)
}

/// The workers that hold items. They are found by hopping over the index of held items, so that neither the retired workers
/// of all times nor the items of the living are looked at.
pub(crate) fn holders(conn: &Connection) -> Result<Vec<i64>> {
    let mut holders = conn.prepare_cached(
        "WITH RECURSIVE holder (id) AS (
             SELECT min(worker) FROM item WHERE state = 1
             UNION ALL
             SELECT (SELECT min(worker) FROM item WHERE state = 1 AND worker > holder.id)
             FROM holder WHERE holder.id IS NOT NULL
         )
         SELECT id FROM holder WHERE id IS NOT NULL",
    )?;
    Ok(holders.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Reads running items of a run that are nobody's any more.
pub(crate) fn orphans(conn: &Connection, run: RunId, now: Timestamp, limit: usize) -> Result<Vec<Item>> {
    let mut select = conn.prepare_cached(concat!(
        "SELECT ",
        item_columns!(),
        " FROM item INDEXED BY item_held WHERE state = 1 AND worker = ?1 AND run = ?2 ORDER BY seq LIMIT ?3"
    ))?;
    let mut orphans = Vec::new();
    for holder in holders(conn)?.into_iter().map(WorkerId) {
        if !holds(conn, holder, now)? {
            orphans.extend(collect(select.query((holder.0, run.0, sql_limit(limit)))?, row::item)?);
        }
    }
    orphans.sort_unstable_by_key(|item| item.seq);
    orphans.truncate(limit);
    Ok(orphans)
}

/// Reads a page of the items that a worker holds.
pub(crate) fn held(
    conn: &Connection,
    worker: WorkerId,
    after: Option<ItemSeq>,
    limit: usize,
) -> Result<Vec<Item>> {
    let mut select = conn.prepare_cached(concat!(
        "SELECT ",
        item_columns!(),
        " FROM item INDEXED BY item_held WHERE state = 1 AND worker = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    ))?;
    let after = after.map_or(i64::MIN, |after| after.0);
    collect(select.query((worker.0, after, sql_limit(limit)))?, row::item)
}
