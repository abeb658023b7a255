//! The floor: the same rows in the same tables, written by hand-made SQL on one connection, without an engine.
//!
//! It has the store's schema, indexes and pragmas, and like the engine it writes the outcome of one batch and the claim
//! of the next in one transaction. It leaves out what only an engine needs: looking for the key before inserting it,
//! deciding, fair shares of retries, leases that may be over. Its updates name only the columns that change.

mod finish;

use std::path::Path;

use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_engine::env::system_now;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use crate::clock::Watch;
use crate::engine::Stretch;
use crate::material::{PIECE, Shape, item};
use crate::{Failure, process};

use self::finish::finish;

const RUN: i64 = 1;
const WORKER: i64 = 1;
/// Codes of redrive-core's metrics: states, admitted.
const STATE: i64 = 100_000;
const ADMITTED: i64 = 200_000;

/// Submits and drains, and says what each took. With `half`, those attempts fail that fail in the engine.
pub fn run(path: &Path, shape: Shape, half: bool) -> Result<(Stretch, Stretch), Failure> {
    // The store makes the tables, so that they cannot differ.
    drop(crate::engine::open(path)?);
    let conn = connect(path)?;
    conn.execute(
        "INSERT INTO run (pipeline, source, priority, definition, folder, control, admitted_all, duplicates, created_at)
         VALUES ('bench', 'generated', 0, '', '/', 0, 0, 0, ?1)",
        [system_now().0],
    )?;
    conn.execute(
        "INSERT INTO worker (name, identity, lease_until, started_at) VALUES ('floor', '', ?1, 0)",
        [i64::MAX],
    )?;
    let submitted = stretch(|| submit(&conn, shape))?;
    let drained = stretch(|| drain(&conn, shape, half))?;
    Ok((submitted, drained))
}

fn stretch(work: impl FnOnce() -> rusqlite::Result<u64>) -> Result<Stretch, Failure> {
    let (cpu, bytes, watch) = (process::cpu_seconds(), process::bytes_written(), Watch::start());
    let commits = work()?;
    let mut stretch = Stretch {
        seconds: watch.seconds(),
        cpu: process::cpu_seconds() - cpu,
        bytes: process::bytes_written() - bytes,
        ..Stretch::default()
    };
    stretch.writes.commits = commits;
    Ok(stretch)
}

/// The pragmas of the store's writing connection.
pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.set_prepared_statement_cache_capacity(128);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "secure_delete", true)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    Ok(conn)
}

fn submit(conn: &Connection, shape: Shape) -> rusqlite::Result<u64> {
    let mut insert = conn.prepare(
        "INSERT INTO item (seq, id, run, key, version, origin, stage, state, lane, due, generation, rev, attempt,
                           failures, throttles, crashes, created_at, updated_at, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, ?7, 0, 0, 0, 0, 0, 0, ?7, ?7, ?8)",
    )?;
    let mut number = conn.prepare("UPDATE sequence SET last = ?1 WHERE name = 'item'")?;
    let mut cursor = conn.prepare("UPDATE run SET cursor = ?2, admitted_all = ?3 WHERE id = ?1")?;
    let mut count = conn.prepare(COUNT)?;
    let mut commits = 0;
    for first in (0..shape.items).step_by(PIECE) {
        let end = (first + PIECE).min(shape.items);
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let now = system_now().0;
        for n in first..end {
            let new = item(n, shape.payload);
            let version = ContentHash::of(&[&new.payload]);
            let id = ItemId::derive(RunId(RUN), None, &new.key, version);
            insert.execute(params![
                whole(n) + 1,
                id.0,
                RUN,
                &*new.key,
                version.0,
                whole(n),
                now,
                &new.payload[..]
            ])?;
        }
        number.execute([whole(end)])?;
        for metric in [ADMITTED, STATE] {
            count.execute((RUN, 0, metric, whole(end - first)))?;
        }
        cursor.execute(params![RUN, end.to_string(), end == shape.items])?;
        conn.execute_batch("COMMIT")?;
        commits += 1;
    }
    Ok(commits)
}

const COUNT: &str = "INSERT INTO counter (run, stage, metric, n) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (run, stage, metric) DO UPDATE SET n = n + excluded.n";

/// What a claim brings: enough to call a handler with, and to record what came of it.
struct Held {
    seq: i64,
    id: [u8; 16],
    rev: i64,
    attempt: u32,
    since: i64,
    payload: Vec<u8>,
}

fn drain(conn: &Connection, shape: Shape, half: bool) -> rusqlite::Result<u64> {
    let stages = whole(shape.stages);
    let mut held: Vec<Vec<Held>> = (0..shape.stages).map(|_| Vec::new()).collect();
    let mut commits = 0;
    loop {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let now = system_now().0;
        for (stage, items) in (0..stages).zip(&mut held) {
            finish(conn, items, (stage, stage + 1 == stages), half, now)?;
            items.clear();
        }
        let mut claimed = 0;
        // Later stages first, as the engine does.
        for (stage, items) in held.iter_mut().enumerate().rev() {
            claim(conn, items, whole(stage), shape.capacity(), now)?;
            claimed += items.len();
        }
        conn.execute_batch("COMMIT")?;
        commits += 1;
        if claimed == 0 {
            return Ok(commits);
        }
        // Where the handler would be called.
        std::hint::black_box(held.iter().flatten().map(|held| held.payload.len()).sum::<usize>());
    }
}

fn claim(
    conn: &Connection,
    items: &mut Vec<Held>,
    stage: i64,
    limit: usize,
    now: i64,
) -> rusqlite::Result<()> {
    let mut select = conn.prepare_cached(
        "SELECT seq, rev, attempt, id, key, payload FROM item INDEXED BY item_ready
         WHERE state = 0 AND run = ?1 AND stage = ?2 AND lane = ?3 AND due <= ?4 ORDER BY due, seq LIMIT ?5",
    )?;
    // Retries first: an item that was begun is finished before a new one is begun.
    for lane in [1, 0] {
        let mut rows = select.query((RUN, stage, lane, now, whole(limit - items.len())))?;
        while let Some(row) = rows.next()? {
            std::hint::black_box(row.get_ref(4)?);
            items.push(Held {
                seq: row.get(0)?,
                id: row.get(3)?,
                rev: row.get::<_, i64>(1)? + 1,
                attempt: row.get::<_, u32>(2)? + 1,
                since: now,
                payload: row.get(5)?,
            });
        }
    }
    let mut update = conn.prepare_cached(
        "UPDATE item SET state = 1, lane = 1, due = NULL, cause = NULL, worker = ?2, since = ?3, rev = ?4, attempt = ?5,
                updated_at = ?3
         WHERE seq = ?1",
    )?;
    for held in &*items {
        update.execute((held.seq, WORKER, now, held.rev, held.attempt))?;
    }
    counted(conn, items.len(), &[(stage, STATE, -1), (stage, STATE + 1, 1)])
}

fn counted(conn: &Connection, items: usize, changes: &[(i64, i64, i64)]) -> rusqlite::Result<()> {
    if items > 0 {
        let mut count = conn.prepare_cached(COUNT)?;
        for (stage, metric, sign) in changes {
            count.execute((RUN, stage, metric, sign * whole(items)))?;
        }
    }
    Ok(())
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Everything that both ways of writing must agree on, times left out.
pub fn rows(path: &Path) -> Result<Vec<String>, Failure> {
    let conn = Connection::open(path)?;
    let mut found = Vec::new();
    for query in [
        "SELECT 'items', count(*), sum(stage), sum(state), sum(lane), count(due), count(worker), sum(rev), sum(attempt),
                sum(failures), count(class), sum(length(key) + length(id) + length(payload)), sum(origin) FROM item",
        "SELECT 'attempts', count(*), sum(item), sum(stage), sum(attempt), sum(outcome), count(class), count(wait),
                sum(config), sum(worker), min(ended_at >= started_at), 0, 0 FROM attempt",
        "SELECT 'counter', stage, metric, n, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM counter WHERE n <> 0 ORDER BY stage, metric",
        "SELECT 'by configuration', stage, config, metric, n, 0, 0, 0, 0, 0, 0, 0, 0 FROM config_counter
         ORDER BY stage, config, metric",
    ] {
        let mut select = conn.prepare(query)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let cells = (0..13).map(|at| {
                row.get_ref(at).map(|cell| match cell {
                    ValueRef::Text(name) => String::from_utf8_lossy(name).into_owned(),
                    other => format!("{other:?}"),
                })
            });
            found.push(cells.collect::<rusqlite::Result<Vec<_>>>()?.join(" "));
        }
    }
    Ok(found)
}
