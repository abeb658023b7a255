//! Runs.

use redrive_core::fact::Fact;
use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::rule::run::{ChangedRun, Progress, begun_reading, changed_run, takes};
use redrive_store::{BegunRun, Cursor, Error, NewRun, Pause, RunChange, RunFilter, RunRow};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Result, strange};
use crate::row::limit as sql_limit;
use crate::verb::item::collect;
use crate::verb::{counter, outbox};

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
    let run = RunId(tx.last_insert_rowid());
    outbox::tell(tx, [Fact::of_created(run, now)])?;
    must(tx, run)
}

/// Finds the newest run of the same pipeline and source that can be gone on with, or adds it.
pub(crate) fn begin(tx: &Connection, new: &NewRun, finished: bool, now: Timestamp) -> Result<BegunRun> {
    let mut select = tx.prepare_cached(concat!(
        "SELECT ",
        run_columns!(),
        " FROM run INDEXED BY run_source WHERE pipeline = ?1 AND source = ?2 AND (?3 OR finished_at IS NULL)
              AND control <> ?4 AND (NOT ?5 OR NOT admitted_all)
          ORDER BY id DESC LIMIT 1"
    ))?;
    let filter = RunFilter::going_on(new, finished);
    let mut rows = select.query(params![
        filter.pipeline,
        filter.source,
        !filter.unfinished,
        Control::Cancelled.code(),
        filter.unread
    ])?;
    match rows.next()? {
        Some(row) => Ok(BegunRun { row: read(row)?, created: false }),
        None => Ok(BegunRun { row: create(tx, new, now)?, created: true }),
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

/// Refuses a run that does not exist or does not take what a reading of its source has.
pub(crate) fn require_taking(conn: &Connection, run: RunId, submitted: u32) -> Result<()> {
    let mut select = conn.prepare_cached("SELECT control, reading FROM run WHERE id = ?1")?;
    let found: Option<(u8, u32)> =
        select.query_row([run.0], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (code, reading) = found.ok_or_else(|| missing(run))?;
    Ok(takes(run, control(code)?, reading, submitted)?)
}

fn control(code: u8) -> Result<Control> {
    Control::from_code(code).ok_or_else(|| strange("control", code))
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
    let ChangedRun { row, facts } =
        changed_run(must(tx, run)?, change.clone(), || counter::any_live(tx, run))?;
    let learnt = serde_json::to_string(&row.learnt).map_err(|error| strange("list of facts", error))?;
    tx.prepare_cached(
        "UPDATE run SET control = ?2, reason = ?3, budget = ?4, edition = ?5, definition = ?6, finished_at = ?7,
                paused_since = ?8, paused_ms = ?9, idle_since = ?10, idle_ms = ?11, learnt = ?12, folder = ?13
         WHERE id = ?1",
    )?
    .execute(params![
        run.0,
        row.control.code(),
        row.reason,
        row.budget,
        row.edition,
        row.spec.definition,
        row.finished_at.map(|at| at.0),
        row.pause.since.map(|since| since.0),
        row.pause.before_ms,
        row.idle.since.map(|since| since.0),
        row.idle.before_ms,
        learnt,
        row.spec.folder,
    ])?;
    if !facts.is_empty() {
        outbox::tell(tx, facts)?;
    }
    Ok(row)
}

/// Begins a reading of a run's source, and gives its number.
pub(crate) fn begin_reading(tx: &Connection, run: RunId, last: u32, position: Option<&str>) -> Result<u32> {
    let row = begun_reading(must(tx, run)?, last, position.map(ToOwned::to_owned))?;
    tx.prepare_cached(
        "UPDATE run SET reading = ?2, cursor = ?3, admitted_all = ?4, duplicates = ?5, finished_at = ?6,
                        idle_since = ?7
         WHERE id = ?1",
    )?
    .execute(params![
        run.0,
        row.reading,
        row.cursor,
        row.admitted_all,
        row.duplicates.cast_signed(),
        row.finished_at.map(|at| at.0),
        row.idle.since.map(|since| since.0),
    ])?;
    Ok(row.reading)
}

/// A run that was finished and has unfinished items again is not finished.
pub(crate) fn goes_on_with_live(tx: &Connection, run: RunId) -> Result<()> {
    let finished =
        tx.prepare_cached("SELECT 1 FROM run WHERE id = ?1 AND finished_at IS NOT NULL")?.exists([run.0])?;
    if finished && counter::any_live(tx, run)? {
        tx.prepare_cached(
            "UPDATE run SET idle_since = coalesce(idle_since, finished_at), finished_at = NULL WHERE id = ?1",
        )?
        .execute([run.0])?;
    }
    Ok(())
}

/// Writes down how far a run's source is read, and that so many lines of a submission repeated an earlier one.
pub(crate) fn advance(tx: &Connection, run: RunId, cursor: &Cursor, repeated: u64) -> Result<()> {
    let mut select = tx.prepare_cached("SELECT cursor, admitted_all, duplicates FROM run WHERE id = ?1")?;
    let progress = select.query_row([run.0], |row| {
        let duplicates = row.get::<_, i64>(2)?.cast_unsigned();
        Ok(Progress { cursor: row.get(0)?, admitted_all: row.get(1)?, duplicates })
    })?;
    let progress = progress.after(cursor, repeated);
    tx.prepare_cached("UPDATE run SET cursor = ?2, admitted_all = ?3, duplicates = ?4 WHERE id = ?1")?
        .execute(params![run.0, progress.cursor, progress.admitted_all, progress.duplicates.cast_signed()])?;
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
              AND (NOT ?9 OR EXISTS (SELECT 1 FROM item WHERE item.run = run.id AND item.state = 7))
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
        filter.unread,
        filter.with_dead
    ])?;
    collect(rows, read)
}

fn read(row: &Row<'_>) -> Result<RunRow> {
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
        control: control(row.get(7)?)?,
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
