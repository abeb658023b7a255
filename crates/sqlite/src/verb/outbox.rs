//! Facts that are to be passed on.

use redrive_core::id::{FactId, ItemId};
use redrive_store::Fact;
use rusqlite::Connection;

use crate::error::Result;
use crate::row::limit as sql_limit;

/// Adds a fact.
pub(crate) fn add(tx: &Connection, seq: i64, fact: &Fact) -> Result<()> {
    tx.prepare_cached("INSERT INTO fact (seq, item, what, body) VALUES (?1, ?2, ?3, ?4)")?.execute((
        seq,
        &fact.item.0,
        &fact.what,
        &fact.body,
    ))?;
    Ok(())
}

/// Reads the oldest facts.
pub(crate) fn oldest(conn: &Connection, limit: usize) -> Result<Vec<Fact>> {
    let mut select = conn.prepare_cached("SELECT seq, item, what, body FROM fact ORDER BY seq LIMIT ?1")?;
    let facts = select.query_map([sql_limit(limit)], |row| {
        Ok(Fact { id: FactId(row.get(0)?), item: ItemId(row.get(1)?), what: row.get(2)?, body: row.get(3)? })
    })?;
    Ok(facts.collect::<rusqlite::Result<_>>()?)
}

/// Forgets facts that have been passed on.
pub(crate) fn passed_on(tx: &Connection, facts: &[FactId]) -> Result<()> {
    let mut delete = tx.prepare_cached("DELETE FROM fact WHERE seq = ?1")?;
    for fact in facts {
        delete.execute([fact.0])?;
    }
    Ok(())
}
