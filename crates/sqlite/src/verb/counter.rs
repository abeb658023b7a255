//! Counters, kept in the transaction of what they count.

use redrive_core::id::{RunId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::tally::{Counter, Deltas, Metric};
use redrive_store::{ConfigCounter, RunCounters, RunSet};
use rusqlite::{Connection, Row};

use crate::error::{Result, strange};
use crate::verb::item::collect;

/// Adds changes to the counters. A sum of tokens or money stops at the largest number; adding on would give a fraction,
/// which the column does not take.
pub(crate) fn add(tx: &Connection, deltas: &Deltas) -> Result<()> {
    let mut upsert = tx.prepare_cached(
        "INSERT INTO counter (run, stage, metric, n) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (run, stage, metric) DO UPDATE SET n =
             CASE WHEN excluded.n > 0 AND n > 9223372036854775807 - excluded.n THEN 9223372036854775807
                  ELSE n + excluded.n END",
    )?;
    for ((run, stage, metric), n) in deltas.iter() {
        upsert.execute((run.0, stage.0, metric.code(), n))?;
    }
    let mut upsert = tx.prepare_cached(
        "INSERT INTO config_counter (run, stage, config, metric, n) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (run, stage, config, metric) DO UPDATE SET n = n + excluded.n",
    )?;
    for ((run, stage, config, metric), n) in deltas.by_config() {
        upsert.execute((run.0, stage.0, config, metric.code(), n))?;
    }
    Ok(())
}

/// How many items of a run are in a state.
pub(crate) fn in_state(conn: &Connection, run: RunId, kind: StateKind) -> Result<u64> {
    let mut select = conn
        .prepare_cached("SELECT coalesce(sum(n), 0) FROM counter WHERE run = ?1 AND metric = ?2 AND n > 0")?;
    let n: i64 = select.query_row((run.0, Metric::State(kind).code()), |row| row.get(0))?;
    Ok(n.unsigned_abs())
}

/// Whether a run has items that are not finished.
pub(crate) fn any_live(conn: &Connection, run: RunId) -> Result<bool> {
    for kind in StateKind::ALL.into_iter().filter(|kind| !kind.is_terminal()) {
        if in_state(conn, run, kind)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the counters of a run that are not zero.
pub(crate) fn of_run(conn: &Connection, run: RunId) -> Result<Vec<Counter>> {
    let mut select = conn.prepare_cached(
        "SELECT stage, metric, n FROM counter WHERE run = ?1 AND n <> 0 ORDER BY stage, metric",
    )?;
    collect(select.query([run.0])?, read)
}

/// Reads the counters of many runs.
pub(crate) fn of_all(conn: &Connection, runs: &RunSet) -> Result<Vec<RunCounters>> {
    let RunSet::Of(runs) = runs else { return of_every_run(conn) };
    let mut runs = runs.clone();
    runs.sort_unstable();
    runs.dedup();
    let mut all = Vec::with_capacity(runs.len());
    for run in runs {
        let counters = of_run(conn, run)?;
        all.extend((!counters.is_empty()).then_some(RunCounters { run, counters }));
    }
    Ok(all)
}

fn of_every_run(conn: &Connection) -> Result<Vec<RunCounters>> {
    let mut select = conn.prepare_cached(
        "SELECT stage, metric, n, run FROM counter WHERE n <> 0 ORDER BY run, stage, metric",
    )?;
    let mut rows = select.query([])?;
    let mut all: Vec<RunCounters> = Vec::new();
    while let Some(row) = rows.next()? {
        let (run, counter) = (RunId(row.get(3)?), read(row)?);
        match all.last_mut().filter(|last| last.run == run) {
            Some(last) => last.counters.push(counter),
            None => all.push(RunCounters { run, counters: vec![counter] }),
        }
    }
    Ok(all)
}

/// Reads the counters of a run by configuration mark.
pub(crate) fn by_config(conn: &Connection, run: RunId) -> Result<Vec<ConfigCounter>> {
    let mut select = conn.prepare_cached(
        "SELECT stage, metric, n, config FROM config_counter WHERE run = ?1 ORDER BY stage, config, metric",
    )?;
    collect(select.query([run.0])?, |row| Ok(ConfigCounter { config: row.get(3)?, counter: read(row)? }))
}

fn read(row: &Row<'_>) -> Result<Counter> {
    let code = row.get(1)?;
    let metric = Metric::from_code(code).ok_or_else(|| strange("metric", code))?;
    Ok(Counter { stage: StageNo(row.get(0)?), metric, n: row.get(2)? })
}
