//! Bare SQL that writes what a finished index holds: the same rows, words included, into a store with the same schema.

use std::path::Path;

use rusqlite::Connection;

use super::redrive::file;
use crate::clock::Watch;
use crate::{Failure, process};

/// Chunks in a transaction; as many as the engine puts in at once.
const BATCH: i64 = 512;

/// How it went.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Seconds.
    pub seconds: f64,
    /// CPU seconds.
    pub cpu: f64,
}

/// Copies documents, vectors and chunks from the store of a place to a new one beside it.
pub fn write(place: &Path) -> Result<Written, Failure> {
    let path = place.join("floor.db");
    drop(crate::engine::open(&path)?);
    let conn = Connection::open(&path)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.execute("ATTACH ?1 AS made", [file(place).display().to_string()])?;
    let last: i64 = conn.query_row("SELECT max(no) FROM made.chunk", [], |row| row.get(0))?;
    let (watch, cpu) = (Watch::start(), process::cpu_seconds());
    let mut after = 0;
    while after < last {
        let tx = conn.unchecked_transaction()?;
        for sql in [
            "INSERT OR IGNORE INTO main.doc SELECT * FROM made.doc
             WHERE no IN (SELECT doc FROM made.chunk WHERE no > ?1 AND no <= ?2)",
            "INSERT OR IGNORE INTO main.vector SELECT * FROM made.vector
             WHERE no IN (SELECT vector FROM made.chunk WHERE no > ?1 AND no <= ?2)",
            "INSERT INTO main.chunk SELECT * FROM made.chunk WHERE no > ?1 AND no <= ?2",
            "INSERT INTO main.words (rowid, context, text)
             SELECT no, context, text FROM main.chunk WHERE no > ?1 AND no <= ?2",
        ] {
            tx.prepare_cached(sql)?.execute((after, after + BATCH))?;
        }
        tx.commit()?;
        after += BATCH;
    }
    Ok(Written { seconds: watch.seconds(), cpu: process::cpu_seconds() - cpu })
}
