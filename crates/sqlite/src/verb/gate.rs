//! What is shared about dependencies.

use redrive_core::time::Timestamp;
use redrive_store::{Applied, GateRow};
use rusqlite::Connection;

use crate::error::Result;

/// Reads every gate, by name.
pub(crate) fn all(conn: &Connection) -> Result<Vec<GateRow>> {
    let mut select = conn.prepare_cached("SELECT name, rev, state, updated_at FROM gate ORDER BY name")?;
    let gates = select.query_map([], |row| {
        Ok(GateRow {
            name: row.get(0)?,
            rev: row.get(1)?,
            state: row.get(2)?,
            updated_at: Timestamp(row.get(3)?),
        })
    })?;
    Ok(gates.collect::<rusqlite::Result<_>>()?)
}

/// Writes gates, each only if it still has the change number it was read with.
pub(crate) fn save(tx: &Connection, gates: &[GateRow]) -> Result<Vec<Applied>> {
    let mut insert = tx.prepare_cached(
        "INSERT INTO gate (name, rev, state, updated_at) VALUES (?1, 1, ?2, ?3) ON CONFLICT (name) DO NOTHING",
    )?;
    let mut update = tx.prepare_cached(
        "UPDATE gate SET rev = rev + 1, state = ?2, updated_at = ?3 WHERE name = ?1 AND rev = ?4",
    )?;
    let mut answers = Vec::with_capacity(gates.len());
    for GateRow { name, rev, state, updated_at } in gates {
        let written = match rev {
            0 => insert.execute((name, state, updated_at.0))?,
            rev => update.execute((name, state, updated_at.0, rev))?,
        };
        answers.push(if written == 1 { Applied::Done } else { Applied::Stale });
    }
    Ok(answers)
}
