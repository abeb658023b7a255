//! The same by bare SQL on one connection with the store's pragmas: nothing is decided, checked or put into words, and a
//! transaction has as many items as the engine's largest.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Rows};

use crate::floor::connect;

const PAGE: i64 = 5_000;

/// Counts groups.
pub fn groups(store: &Path, _out: &Path) -> rusqlite::Result<()> {
    let conn = connect(store)?;
    let mut select = conn.prepare(
        "SELECT grp, count(*) AS n, min(seq), min(updated_at), max(updated_at) FROM item INDEXED BY item_dead_group
         WHERE state = 7 GROUP BY grp ORDER BY n DESC",
    )?;
    let mut sink = std::io::sink();
    write_all(select.query([])?, &mut sink).map(drop)
}

/// Writes every dead item with its content and its attempts, without any form.
pub fn export(store: &Path, out: &Path) -> rusqlite::Result<()> {
    let conn = connect(store)?;
    let failed = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let mut file = BufWriter::new(File::create(out).map_err(failed)?);
    let mut items = conn.prepare("SELECT * FROM item INDEXED BY item_dead_any WHERE state = 7")?;
    let mut attempts = conn.prepare("SELECT * FROM attempt WHERE item = ?1")?;
    let mut marks = conn.prepare("SELECT * FROM mark WHERE item = ?1")?;
    let mut rows = items.query([])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        for column in 0..row.as_ref().column_count() {
            put(row.get_ref(column)?, &mut file).map_err(failed)?;
        }
        write_all(attempts.query([seq])?, &mut file)?;
        write_all(marks.query([seq])?, &mut file)?;
        file.write_all(b"\n").map_err(failed)?;
    }
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(failed)
}

/// Has SQLite check the file, and reads every item and every attempt.
pub fn check(store: &Path, _out: &Path) -> rusqlite::Result<()> {
    let conn = connect(store)?;
    conn.query_row("PRAGMA integrity_check", [], |_| Ok(()))?;
    let mut sink = std::io::sink();
    for table in ["item", "attempt", "mark", "tombstone", "counter"] {
        write_all(conn.prepare(&format!("SELECT * FROM {table}"))?.query([])?, &mut sink)?;
    }
    Ok(())
}

/// Removes every dead item, leaves tombstones, and writes the file anew.
pub fn purge(store: &Path, _out: &Path) -> rusqlite::Result<()> {
    let conn = connect(store)?;
    let mut gone =
        pages(&conn, "SELECT max(seq) FROM (SELECT seq FROM item WHERE state = 7 ORDER BY seq LIMIT ?1)")?;
    while let Some(last) = gone.next()? {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        conn.execute(
            "INSERT INTO tombstone (seq, id, run, key, at, operation, stage, state, dead_reason, class)
             SELECT seq, id, run, key, updated_at, 1, stage, state, dead_reason, class FROM item
             WHERE state = 7 AND seq <= ?1",
            [last],
        )?;
        conn.execute("DELETE FROM attempt WHERE item <= ?1", [last])?;
        conn.execute("DELETE FROM mark WHERE item <= ?1", [last])?;
        let n = conn.execute("DELETE FROM item WHERE state = 7 AND seq <= ?1", [last])?;
        count(&conn, 100_007, -i64::try_from(n).unwrap_or(0))?;
        conn.execute_batch("COMMIT")?;
    }
    conn.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
}

/// Cancels every item that waits, with a mark for each.
pub fn cancel(store: &Path, _out: &Path) -> rusqlite::Result<()> {
    let conn = connect(store)?;
    let mut left = pages(
        &conn,
        "SELECT max(seq) FROM (SELECT seq FROM item INDEXED BY item_ready WHERE state = 0 AND run = 1 AND stage = 0
                               AND lane = 0 ORDER BY due, seq LIMIT ?1)",
    )?;
    while let Some(last) = left.next()? {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        conn.execute(
            "INSERT INTO mark (item, n, at, what, detail)
             SELECT seq, rev + 1, updated_at, 'cancelled', '' FROM item WHERE state = 0 AND seq <= ?1",
            [last],
        )?;
        let n = conn.execute(
            "UPDATE item SET state = 6, due = NULL, cause = NULL, rev = rev + 1 WHERE state = 0 AND seq <= ?1",
            [last],
        )?;
        let n = i64::try_from(n).unwrap_or(0);
        count(&conn, 100_000, -n)?;
        count(&conn, 100_006, n)?;
        conn.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// The last item of each page, one after the other, as long as there are any.
struct Pages<'c> {
    select: rusqlite::Statement<'c>,
}

fn pages<'c>(conn: &'c Connection, sql: &str) -> rusqlite::Result<Pages<'c>> {
    Ok(Pages { select: conn.prepare(sql)? })
}

impl Pages<'_> {
    fn next(&mut self) -> rusqlite::Result<Option<i64>> {
        self.select.query_row([PAGE], |row| row.get(0))
    }
}

fn count(conn: &Connection, metric: i64, n: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO counter (run, stage, metric, n) VALUES (1, 0, ?1, ?2)
         ON CONFLICT (run, stage, metric) DO UPDATE SET n = n + excluded.n",
    )?
    .execute((metric, n))?;
    Ok(())
}

/// Writes every cell of every row.
fn write_all(mut rows: Rows<'_>, out: &mut impl Write) -> rusqlite::Result<()> {
    while let Some(row) = rows.next()? {
        for column in 0..row.as_ref().column_count() {
            put(row.get_ref(column)?, out)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        }
    }
    Ok(())
}

fn put(cell: ValueRef<'_>, out: &mut impl Write) -> std::io::Result<()> {
    match cell {
        ValueRef::Null => Ok(()),
        ValueRef::Integer(n) => write!(out, "{n} "),
        ValueRef::Real(n) => write!(out, "{n} "),
        // An id may have a byte in it that ends a line.
        ValueRef::Blob(bytes) if bytes.len() == 16 => {
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            out.write_all(bytes).and_then(|()| out.write_all(b" "))
        }
    }
}
