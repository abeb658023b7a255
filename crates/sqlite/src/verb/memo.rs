//! What daemons remember together.

use redrive_core::time::Timestamp;
use redrive_store::{Applied, Memo};
use rusqlite::Connection;

use crate::error::Result;

/// Reads the memos whose names begin so, by name.
pub(crate) fn beginning(conn: &Connection, beginning: &str) -> Result<Vec<Memo>> {
    // Text is compared byte by byte, so that all names that begin so stand together from the beginning itself on.
    let mut select = conn.prepare_cached(
        "SELECT name, rev, state, updated_at FROM memo WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1
         ORDER BY name",
    )?;
    let memos = select.query_map([beginning], |row| {
        Ok(Memo {
            name: row.get(0)?,
            rev: row.get(1)?,
            state: row.get(2)?,
            updated_at: Timestamp(row.get(3)?),
        })
    })?;
    Ok(memos.collect::<rusqlite::Result<_>>()?)
}

/// Writes a memo if it still has the change number it was read with; one that says nothing is forgotten.
pub(crate) fn save(tx: &Connection, memo: &Memo) -> Result<Applied> {
    let Memo { name, rev, state, updated_at } = memo;
    let there = || tx.prepare_cached("SELECT 1 FROM memo WHERE name = ?1")?.exists([name]);
    let written = match (*rev, state.is_empty()) {
        // There is none to be forgotten, which is as it should be, or one that was not read.
        (0, true) => usize::from(!there()?),
        (0, false) => tx
            .prepare_cached(
                "INSERT INTO memo (name, rev, state, updated_at) VALUES (?1, 1, ?2, ?3)
                 ON CONFLICT (name) DO NOTHING",
            )?
            .execute((name, state, updated_at.0))?,
        (rev, true) => {
            tx.prepare_cached("DELETE FROM memo WHERE name = ?1 AND rev = ?2")?.execute((name, rev))?
        }
        (rev, false) => tx
            .prepare_cached(
                "UPDATE memo SET rev = rev + 1, state = ?2, updated_at = ?3 WHERE name = ?1 AND rev = ?4",
            )?
            .execute((name, state, updated_at.0, rev))?,
    };
    Ok(if written == 1 { Applied::Done } else { Applied::Stale })
}
