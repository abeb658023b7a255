//! Operations on many items.

use redrive_core::id::{ItemSeq, OperationId};
use redrive_core::time::Timestamp;
use redrive_store::rule::operation::saved_state;
use redrive_store::{Operation, sql};
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

/// The columns of [`read`], from their table.
macro_rules! operations {
    ($rest:literal) => {
        concat!(
            "SELECT id, kind, state, actor, request, after, changed, skipped, created_at, updated_at FROM operation ",
            $rest
        )
    };
}

/// Reads operations, newest first.
pub(crate) fn newest(conn: &Connection, limit: usize) -> Result<Vec<Operation>> {
    let mut select = conn.prepare_cached(operations!("ORDER BY id DESC LIMIT ?1"))?;
    collect(select.query([sql_limit(limit)])?, read)
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
