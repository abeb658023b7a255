//! Operations on many items.

use redrive_core::id::{ItemSeq, OperationId};
use redrive_core::time::Timestamp;
use redrive_store::{Operation, OperationKind, OperationState};
use rusqlite::{Connection, Row, params};

use crate::error::{Result, strange};
use crate::row::limit as sql_limit;
use crate::verb::item::collect;

/// Saves an operation; a new one gets its number.
pub(crate) fn save(tx: &Connection, operation: &Operation) -> Result<OperationId> {
    let known = (operation.id.0 != 0).then_some(operation.id.0);
    // Whoever works on it need not know yet that it was stopped.
    let stopped = state_code(OperationState::Cancelled);
    let mut select = tx.prepare_cached("SELECT 1 FROM operation WHERE id = ?1 AND state = ?2")?;
    let state = if select.exists((operation.id.0, stopped))? { stopped } else { state_code(operation.state) };
    tx.prepare_cached(
        "INSERT OR REPLACE INTO operation (id, kind, state, actor, request, after, changed, skipped, created_at,
                                           updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        known,
        kind_code(operation.kind),
        state,
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
        kind: kind(row.get(1)?)?,
        state: state(row.get(2)?)?,
        actor: row.get(3)?,
        request: row.get(4)?,
        after: row.get::<_, Option<i64>>(5)?.map(ItemSeq),
        changed: row.get::<_, i64>(6)?.cast_unsigned(),
        skipped: row.get::<_, i64>(7)?.cast_unsigned(),
        created_at: Timestamp(row.get(8)?),
        updated_at: Timestamp(row.get(9)?),
    })
}

fn kind_code(kind: OperationKind) -> i64 {
    match kind {
        OperationKind::Redrive => 0,
        OperationKind::Purge => 1,
        OperationKind::Cancel => 2,
    }
}

fn kind(code: i64) -> Result<OperationKind> {
    let all = [OperationKind::Redrive, OperationKind::Purge, OperationKind::Cancel];
    all.into_iter().find(|kind| kind_code(*kind) == code).ok_or_else(|| strange("kind of operation", code))
}

fn state_code(state: OperationState) -> i64 {
    match state {
        OperationState::Open => 0,
        OperationState::Done => 1,
        OperationState::Cancelled => 2,
    }
}

fn state(code: i64) -> Result<OperationState> {
    let all = [OperationState::Open, OperationState::Done, OperationState::Cancelled];
    all.into_iter()
        .find(|state| state_code(*state) == code)
        .ok_or_else(|| strange("state of an operation", code))
}
