//! Outputs that are kept to be used again.

use redrive_core::id::RunId;
use redrive_core::item::Payload;
use redrive_store::OutputKey;
use rusqlite::{Connection, params};

use crate::content;
use crate::error::Result;

/// Keeps an output.
pub(crate) fn keep(tx: &Connection, key: &OutputKey, run: RunId, payload: &Payload) -> Result<()> {
    let columns = content::keep(tx, payload, None)?;
    tx.prepare_cached(
        "INSERT INTO output (config, input, run, payload, content) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (config, input) DO UPDATE
         SET run = excluded.run, payload = excluded.payload, content = excluded.content",
    )?
    .execute(params![key.config, key.input.0, run.0, columns.payload, columns.hash()])?;
    Ok(())
}

/// Looks outputs up.
pub(crate) fn find(conn: &Connection, keys: &[OutputKey]) -> Result<Vec<Option<Payload>>> {
    let mut select =
        conn.prepare_cached("SELECT payload, content FROM output WHERE config = ?1 AND input = ?2")?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = select.query((key.config, &key.input.0))?;
        found.push(rows.next()?.map(|row| content::read(conn, row, 0)).transpose()?);
    }
    Ok(found)
}
