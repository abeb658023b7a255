//! Runs.

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Cursor, Error, NewRun, Pause, RunChange, RunFilter, RunRow};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Result, strange};
use crate::row::limit as sql_limit;
use crate::verb::counter;
use crate::verb::item::collect;

macro_rules! run_columns {
    () => {
        "id, pipeline, source, category, priority, definition, folder, control, reason, cursor, admitted_all, \
         duplicates, budget, created_at, finished_at, paused_since, paused_ms, idle_since, idle_ms, reading, \
         learnt, edition"
    };
}

/// Adds a run.
pub(crate) fn create(tx: &Connection, new: &NewRun, now: Timestamp) -> Result<RunRow> {
    tx.prepare_cached(
        "INSERT INTO run (pipeline, source, category, priority, definition, folder, control, admitted_all,
                          duplicates, created_at, reading)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, ?7, 0)",
    )?
    .execute(params![
        new.pipeline,
        new.source,
        new.category,
        new.priority,
        new.definition,
        new.folder,
        now.0
    ])?;
    must(tx, RunId(tx.last_insert_rowid()))
}

/// Finds the newest run of the same pipeline and source that can be gone on with, or adds it.
pub(crate) fn begin(tx: &Connection, new: &NewRun, finished: bool, now: Timestamp) -> Result<(RunRow, bool)> {
    match list(tx, &RunFilter::going_on(new, finished), None, 1)?.pop() {
        Some(row) => Ok((row, false)),
        None => Ok((create(tx, new, now)?, true)),
    }
}

/// Reads a run.
pub(crate) fn one(conn: &Connection, run: RunId) -> Result<Option<RunRow>> {
    let mut select = conn.prepare_cached(concat!("SELECT ", run_columns!(), " FROM run WHERE id = ?1"))?;
    let mut rows = select.query([run.0])?;
    rows.next()?.map(read).transpose()
}

fn must(conn: &Connection, run: RunId) -> Result<RunRow> {
    one(conn, run)?.ok_or_else(|| missing(run).into())
}

fn missing(run: RunId) -> Error {
    Error::NotFound(format!("run {run}"))
}

/// Refuses a run that does not exist.
pub(crate) fn require(conn: &Connection, run: RunId) -> Result<()> {
    if conn.prepare_cached("SELECT 1 FROM run WHERE id = ?1")?.exists([run.0])? {
        Ok(())
    } else {
        Err(missing(run).into())
    }
}

/// Refuses a run that does not exist or was cancelled.
pub(crate) fn require_uncancelled(conn: &Connection, run: RunId) -> Result<()> {
    require(conn, run)?;
    if is_cancelled(conn, run)? {
        return Err(Error::RunCancelled { run }.into());
    }
    Ok(())
}

/// Whether a run was cancelled, or is not there.
pub(crate) fn is_cancelled(conn: &Connection, run: RunId) -> Result<bool> {
    let mut select = conn.prepare_cached("SELECT control FROM run WHERE id = ?1")?;
    let control: Option<u8> = select.query_row([run.0], |row| row.get(0)).optional()?;
    Ok(control.is_none_or(|control| control == Control::Cancelled.code()))
}

/// Whether a run is there and is to go on.
pub(crate) fn goes_on(conn: &Connection, run: RunId) -> Result<Option<u32>> {
    let mut select = conn.prepare_cached("SELECT edition FROM run WHERE id = ?1 AND control = ?2")?;
    Ok(select.query_row((run.0, Control::Go.code()), |row| row.get(0)).optional()?)
}

/// Changes a run.
pub(crate) fn change(tx: &Connection, run: RunId, change: &RunChange) -> Result<RunRow> {
    let (control, reason) = match &change.control {
        Some((control, reason)) if !is_cancelled(tx, run)? => (Some(control.code()), reason.as_deref()),
        Some(_) | None => (None, None),
    };
    let (finish, finished_at) = match change.finished_at {
        Some(Some(_)) if counter::any_live(tx, run)? => (true, None),
        Some(at) => (true, at.map(|at| at.0)),
        None => (false, None),
    };
    tx.prepare_cached(
        "UPDATE run SET reason = CASE WHEN ?2 IS NULL THEN reason ELSE ?3 END, control = coalesce(?2, control),
                budget = CASE WHEN ?4 IS NOT NULL AND budget IS ?14 THEN ?4 ELSE budget END,
                edition = edition + (coalesce(?5, definition) <> definition), definition = coalesce(?5, definition),
                finished_at = CASE WHEN ?6 THEN ?7 ELSE finished_at END,
                paused_since = CASE WHEN ?8 THEN ?9 ELSE paused_since END,
                paused_ms = CASE WHEN ?8 THEN ?10 ELSE paused_ms END,
                idle_since = CASE WHEN ?11 THEN ?12 ELSE idle_since END,
                idle_ms = CASE WHEN ?11 THEN ?13 ELSE idle_ms END
         WHERE id = ?1",
    )?
    .execute(params![
        run.0,
        control,
        reason,
        change.budget.as_ref().map(|budget| &budget.becomes),
        change.definition,
        finish,
        finished_at,
        change.pause.is_some(),
        change.pause.and_then(|pause| pause.since).map(|since| since.0),
        change.pause.map(|pause| pause.before_ms),
        change.idle.is_some(),
        change.idle.and_then(|idle| idle.since).map(|since| since.0),
        change.idle.map(|idle| idle.before_ms),
        change.budget.as_ref().and_then(|budget| budget.was.as_ref()),
    ])?;
    if let Some((name, number)) = &change.learn {
        learn(tx, run, name, *number)?;
    }
    must(tx, run)
}

/// Begins a reading of a run's source, and gives its number.
pub(crate) fn begin_reading(tx: &Connection, run: RunId, last: u32, position: Option<&str>) -> Result<u32> {
    let reading = must(tx, run)?.reading;
    if reading != last {
        return Err(Error::Overtaken { reading }.into());
    }
    tx.prepare_cached(
        "UPDATE run SET reading = reading + 1, cursor = ?2, admitted_all = 0, duplicates = 0, finished_at = NULL
         WHERE id = ?1",
    )?
    .execute((run.0, position))?;
    Ok(must(tx, run)?.reading)
}

/// Refuses what an older reading of a run's source has.
pub(crate) fn require_reading(conn: &Connection, run: RunId, number: u32) -> Result<()> {
    let reading: u32 =
        conn.prepare_cached("SELECT reading FROM run WHERE id = ?1")?.query_row([run.0], |row| row.get(0))?;
    if reading > number {
        return Err(Error::Overtaken { reading }.into());
    }
    Ok(())
}

/// Keeps a fact, unless one is kept under that name.
fn learn(tx: &Connection, run: RunId, name: &str, number: u64) -> Result<()> {
    let mut learnt = must(tx, run)?.learnt;
    if learnt.contains_key(name) {
        return Ok(());
    }
    learnt.insert(name.to_owned(), number);
    let text = serde_json::to_string(&learnt).map_err(|error| strange("fact", error))?;
    tx.prepare_cached("UPDATE run SET learnt = ?2 WHERE id = ?1")?.execute(params![run.0, text])?;
    Ok(())
}

/// A run that was finished and has unfinished items again is not finished.
pub(crate) fn goes_on_with_live(tx: &Connection, run: RunId) -> Result<()> {
    let finished =
        tx.prepare_cached("SELECT 1 FROM run WHERE id = ?1 AND finished_at IS NOT NULL")?.exists([run.0])?;
    if finished && counter::any_live(tx, run)? {
        tx.prepare_cached("UPDATE run SET finished_at = NULL WHERE id = ?1")?.execute([run.0])?;
    }
    Ok(())
}

/// Writes down how far a run's source is read, and how many more lines repeated an earlier one.
pub(crate) fn advance(tx: &Connection, run: RunId, cursor: &Cursor, duplicates: u64) -> Result<()> {
    tx.prepare_cached(
        "UPDATE run SET cursor = CASE WHEN admitted_all THEN cursor ELSE ?2 END,
                admitted_all = max(admitted_all, ?3), duplicates = duplicates + ?4
         WHERE id = ?1",
    )?
    .execute(params![run.0, cursor.position, cursor.done, duplicates.cast_signed()])?;
    Ok(())
}

/// Reads runs, newest first.
pub(crate) fn list(
    conn: &Connection,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunRow>> {
    let mut select = conn.prepare_cached(concat!(
        "SELECT ",
        run_columns!(),
        " FROM run WHERE id < ?1 AND (?2 IS NULL OR pipeline = ?2) AND (?3 IS NULL OR source = ?3)
              AND (NOT ?4 OR finished_at IS NULL) AND (NOT ?6 OR control <> ?5)
              AND (NOT ?8 OR NOT admitted_all)
          ORDER BY id DESC LIMIT ?7"
    ))?;
    let before = before.map_or(i64::MAX, |before| before.0);
    let cancelled = Control::Cancelled.code();
    let rows = select.query(params![
        before,
        filter.pipeline,
        filter.source,
        filter.unfinished,
        cancelled,
        filter.unfinished || filter.uncancelled,
        sql_limit(limit),
        filter.unread
    ])?;
    collect(rows, read)
}

fn read(row: &Row<'_>) -> Result<RunRow> {
    let control: u8 = row.get(7)?;
    Ok(RunRow {
        id: RunId(row.get(0)?),
        spec: NewRun {
            pipeline: row.get(1)?,
            source: row.get(2)?,
            category: row.get(3)?,
            priority: row.get(4)?,
            definition: row.get(5)?,
            folder: row.get(6)?,
        },
        control: Control::from_code(control).ok_or_else(|| strange("control", control))?,
        reason: row.get(8)?,
        cursor: row.get(9)?,
        admitted_all: row.get(10)?,
        duplicates: row.get::<_, i64>(11)?.cast_unsigned(),
        budget: row.get(12)?,
        created_at: Timestamp(row.get(13)?),
        finished_at: row.get::<_, Option<i64>>(14)?.map(Timestamp),
        pause: Pause { since: row.get::<_, Option<i64>>(15)?.map(Timestamp), before_ms: row.get(16)? },
        idle: Pause { since: row.get::<_, Option<i64>>(17)?.map(Timestamp), before_ms: row.get(18)? },
        reading: row.get(19)?,
        learnt: serde_json::from_str(&row.get::<_, String>(20)?)
            .map_err(|error| strange("list of facts", error))?,
        edition: row.get(21)?,
    })
}
