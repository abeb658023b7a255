//! What somebody wrote about groups of dead items.

use redrive_core::time::Timestamp;
use redrive_store::GroupNote;
use rusqlite::Connection;

use crate::error::Result;

/// Reads every note, by group.
pub(crate) fn all(conn: &Connection) -> Result<Vec<GroupNote>> {
    let mut select = conn.prepare_cached(
        "SELECT grp, note, acknowledged_at, actor, updated_at FROM group_note ORDER BY grp",
    )?;
    let notes = select.query_map([], |row| {
        Ok(GroupNote {
            group: row.get(0)?,
            note: row.get(1)?,
            acknowledged_at: row.get::<_, Option<i64>>(2)?.map(Timestamp),
            actor: row.get(3)?,
            updated_at: Timestamp(row.get(4)?),
        })
    })?;
    Ok(notes.collect::<rusqlite::Result<_>>()?)
}

/// Writes a note over the one before; one that says nothing is forgotten.
pub(crate) fn save(tx: &Connection, note: &GroupNote) -> Result<()> {
    if note.is_empty() {
        tx.prepare_cached("DELETE FROM group_note WHERE grp = ?1")?.execute([&note.group])?;
        return Ok(());
    }
    tx.prepare_cached(
        "INSERT OR REPLACE INTO group_note (grp, note, acknowledged_at, actor, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((
        &note.group,
        &note.note,
        note.acknowledged_at.map(|at| at.0),
        &note.actor,
        note.updated_at.0,
    ))?;
    Ok(())
}
