//! Operations on many items.

use redrive_core::id::{ItemSeq, OperationId, Rev};
use redrive_core::time::Timestamp;
use redrive_store::rule::operation::saved_state;
use redrive_store::{Freeze, Member, Operation, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Result;
use crate::row::limit as sql_limit;
use crate::verb::item::collect;

/// Saves an operation; a new one gets its number.
pub(crate) fn save(tx: &Connection, operation: &Operation) -> Result<OperationId> {
    let known = (operation.id.0 != 0).then_some(operation.id.0);
    let mut select = tx.prepare_cached("SELECT state FROM operation WHERE id = ?1")?;
    let kept: Option<i64> = select.query_row([operation.id.0], |row| row.get(0)).optional()?;
    let state = saved_state(kept.map(sql::operation_state).transpose()?, operation.state);
    tx.prepare_cached(
        "INSERT OR REPLACE INTO operation (id, kind, state, actor, request, after, changed, skipped, created_at,
                                           updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        known,
        sql::operation_kind_code(operation.kind),
        sql::operation_state_code(state),
        operation.actor,
        operation.request,
        operation.after.map(|after| after.0),
        operation.changed.cast_signed(),
        operation.skipped.cast_signed(),
        operation.created_at.0,
        operation.updated_at.0,
    ])?;
    Ok(OperationId(known.unwrap_or_else(|| tx.last_insert_rowid())))
}

/// Saves a new operation with its items; `None` when its actor has a newer one than was said.
pub(crate) fn freeze(tx: &Connection, freeze: &Freeze) -> Result<Option<OperationId>> {
    let Freeze { operation, items, unless_newer_than } = freeze;
    if let Some(than) = unless_newer_than {
        let mut newer = tx.prepare_cached("SELECT 1 FROM operation WHERE id > ?1 AND actor = ?2")?;
        if newer.exists((than.0, &operation.actor))? {
            return Ok(None);
        }
    }
    let id = save(tx, operation)?;
    let mut insert =
        tx.prepare_cached("INSERT OR REPLACE INTO member (operation, item, rev) VALUES (?1, ?2, ?3)")?;
    for item in items {
        insert.execute((id.0, item.seq.0, item.rev.0))?;
    }
    Ok(Some(id))
}

/// Writes down what an operation did to its items.
pub(crate) fn add_members(tx: &Connection, operation: OperationId, members: &[Member]) -> Result<()> {
    let mut insert = tx.prepare_cached(
        "INSERT OR REPLACE INTO member (operation, item, rev, sent) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for Member { item, rev, sent } in members {
        insert.execute((operation.0, item.0, rev.0, sent))?;
    }
    Ok(())
}

/// Reads the items of an operation, by their numbers.
pub(crate) fn members(
    conn: &Connection,
    operation: OperationId,
    after: Option<ItemSeq>,
    limit: usize,
) -> Result<Vec<Member>> {
    let mut select = conn.prepare_cached(
        "SELECT item, rev, sent FROM member WHERE operation = ?1 AND item > ?2 ORDER BY item LIMIT ?3",
    )?;
    let after = after.map_or(i64::MIN, |after| after.0);
    collect(select.query((operation.0, after, sql_limit(limit)))?, |row| {
        Ok(Member { item: ItemSeq(row.get(0)?), rev: Rev(row.get(1)?), sent: row.get(2)? })
    })
}

/// Forgets the items of operations that ended long ago. One that was frozen and never started cannot be any more.
pub(crate) fn forget_members(tx: &Connection, before: Timestamp) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM member WHERE operation IN (SELECT id FROM operation WHERE state <> 0 AND updated_at < ?1)",
    )?
    .execute([before.0])?;
    tx.prepare_cached("UPDATE operation SET state = 2 WHERE state = 3 AND updated_at < ?1")?
        .execute([before.0])?;
    Ok(())
}

/// The columns of [`read`], from their table.
macro_rules! operations {
    ($rest:literal) => {
        concat!(
            "SELECT id, kind, state, actor, request, after, changed, skipped, created_at, updated_at FROM operation ",
            $rest
        )
    };
}

/// Reads operations, newest first, older than one.
pub(crate) fn newest(conn: &Connection, before: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
    let mut select = conn.prepare_cached(operations!("WHERE id < ?1 ORDER BY id DESC LIMIT ?2"))?;
    collect(select.query((before.map_or(i64::MAX, |before| before.0), sql_limit(limit)))?, read)
}

/// Reads one operation.
pub(crate) fn one(conn: &Connection, operation: OperationId) -> Result<Option<Operation>> {
    let mut select = conn.prepare_cached(operations!("WHERE id = ?1"))?;
    let mut rows = select.query([operation.0])?;
    rows.next()?.map(read).transpose()
}

/// Reads operations that have pages left, oldest first.
pub(crate) fn open(conn: &Connection, after: Option<OperationId>, limit: usize) -> Result<Vec<Operation>> {
    let mut select = conn.prepare_cached(operations!(
        "INDEXED BY operation_open WHERE state = 0 AND id > ?1 ORDER BY id LIMIT ?2"
    ))?;
    collect(select.query((after.map_or(0, |after| after.0), sql_limit(limit)))?, read)
}

fn read(row: &Row<'_>) -> Result<Operation> {
    Ok(Operation {
        id: OperationId(row.get(0)?),
        kind: sql::operation_kind(row.get(1)?)?,
        state: sql::operation_state(row.get(2)?)?,
        actor: row.get(3)?,
        request: row.get(4)?,
        after: row.get::<_, Option<i64>>(5)?.map(ItemSeq),
        changed: row.get::<_, i64>(6)?.cast_unsigned(),
        skipped: row.get::<_, i64>(7)?.cast_unsigned(),
        created_at: Timestamp(row.get(8)?),
        updated_at: Timestamp(row.get(9)?),
    })
}
