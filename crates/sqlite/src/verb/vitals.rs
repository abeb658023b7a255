//! What monitoring asks for: looks at the ends of indexes, and counts that stop early.

use std::collections::BTreeMap;

use redrive_core::id::{RunId, StageNo, WorkerId};
use redrive_core::tally::{Counter, Metric};
use redrive_store::sql;
use redrive_store::{OperationCount, PrunedCounters, StageVitals, Vitals, VitalsQuery};
use rusqlite::Connection;

use crate::error::{Result, strange};
use crate::row::limit as sql_limit;
use crate::verb::line::{Line, awaited, fresh, retry};
use crate::verb::{counter, item, worker};

const NEXT_READY: &str =
    "SELECT min(run) FROM item INDEXED BY item_ready WHERE state = 0 AND handed IS NULL AND run > ?1";
const NEXT_AWAITED: &str =
    "SELECT min(run) FROM item INDEXED BY item_awaited WHERE state = 0 AND handed IS NOT NULL AND run > ?1";
const FRESH_OVERDUE: &str =
    concat!("SELECT count(*) FROM (SELECT 1 FROM item ", fresh!(), " AND due < ?3 LIMIT ?4)");
const RETRY_OVERDUE: &str =
    concat!("SELECT count(*) FROM (SELECT 1 FROM item ", retry!(), " AND due < ?3 LIMIT ?4)");
const UNANSWERED: &str =
    concat!("SELECT count(*) FROM (SELECT 1 FROM item ", awaited!(), " AND due < ?3 LIMIT ?4)");
const LATER: &str = concat!("SELECT count(*) FROM (SELECT 1 FROM item ", retry!(), " AND due > ?3 LIMIT ?4)");
const CAME: &str =
    concat!("SELECT count(*) FROM (SELECT 1 FROM item ", retry!(), " AND due > ?3 AND due <= ?4 LIMIT ?5)");
const HELD: &str = "SELECT run, stage, count(*) FROM item INDEXED BY item_held WHERE state = 1 AND worker = ?1 GROUP BY run, stage";

type Stages = BTreeMap<(RunId, StageNo), StageVitals>;

/// Reads what monitoring asks for.
pub(crate) fn read(conn: &Connection, query: &VitalsQuery) -> Result<Vitals> {
    let mut stages = Stages::new();
    waiting(conn, query, &mut stages)?;
    orphans(conn, query, &mut stages)?;
    Ok(Vitals {
        stages: stages.into_values().collect(),
        pruned: pruned(conn)?,
        operations: operations(conn)?,
    })
}

/// Looks at what waits, run by run: those that have nothing waiting are hopped over.
fn waiting(conn: &Connection, query: &VitalsQuery, stages: &mut Stages) -> Result<()> {
    let (mut ready, mut awaited) = (conn.prepare_cached(NEXT_READY)?, conn.prepare_cached(NEXT_AWAITED)?);
    let mut later = conn.prepare_cached(LATER)?;
    let mut came = conn.prepare_cached(CAME)?;
    let (mut last, most) = (i64::MIN, sql_limit(query.most));
    loop {
        let next = |row: &rusqlite::Row<'_>| row.get::<_, Option<i64>>(0);
        let next = [ready.query_row([last], next)?, awaited.query_row([last], next)?];
        let Some(run) = next.into_iter().flatten().min() else { return Ok(()) };
        last = run;
        for due in item::dues(conn, RunId(run))? {
            let (run, stage) = (RunId(run), due.stage);
            let seen = stages.entry((run, stage)).or_insert_with(|| StageVitals::of(run, stage));
            let overdue = match due.line {
                Line::Fresh => (FRESH_OVERDUE, &mut seen.overdue),
                Line::Retry => (RETRY_OVERDUE, &mut seen.overdue),
                Line::Awaited => (UNANSWERED, &mut seen.unanswered),
            };
            if due.at < query.due_before {
                let room = most - overdue.1.cast_signed();
                let asked = (run.0, stage.0, query.due_before.0, room);
                *overdue.1 += conn.prepare_cached(overdue.0)?.query_row(asked, count)?;
            }
            if due.line != Line::Awaited {
                seen.next_due = seen.next_due.into_iter().chain([due.at]).min();
            }
            if due.line == Line::Retry {
                let asked = (run.0, stage.0, query.since.0, query.now.0, most);
                seen.came_due = came.query_row(asked, count)?;
                seen.backing_off = later.query_row((run.0, stage.0, query.now.0, most), count)?;
            }
        }
    }
}

fn count(row: &rusqlite::Row<'_>) -> rusqlite::Result<u64> {
    count_at(row, 0)
}

/// Counts what is held by nobody. There are never more of those than workers had in hand.
fn orphans(conn: &Connection, query: &VitalsQuery, stages: &mut Stages) -> Result<()> {
    let mut select = conn.prepare_cached(HELD)?;
    for holder in worker::holders(conn)? {
        if worker::holds(conn, WorkerId(holder), query.now)? {
            continue;
        }
        let mut rows = select.query([holder])?;
        while let Some(row) = rows.next()? {
            let (run, stage) = (RunId(row.get(0)?), StageNo(row.get(1)?));
            let seen = stages.entry((run, stage)).or_insert_with(|| StageVitals::of(run, stage));
            seen.orphans += row.get::<_, i64>(2)?.cast_unsigned();
        }
    }
    Ok(())
}

fn pruned(conn: &Connection) -> Result<Vec<PrunedCounters>> {
    let mut select = conn.prepare_cached(
        "SELECT pipeline, stage, metric, n FROM pruned_counter ORDER BY pipeline, stage, metric",
    )?;
    let mut rows = select.query([])?;
    let mut all: Vec<PrunedCounters> = Vec::new();
    while let Some(row) = rows.next()? {
        let (pipeline, code): (String, i64) = (row.get(0)?, row.get(2)?);
        let metric = Metric::from_code(code).ok_or_else(|| strange("metric", code))?;
        let counter = Counter { stage: StageNo(row.get(1)?), metric, n: row.get(3)? };
        match all.last_mut().filter(|last| last.pipeline == pipeline) {
            Some(last) => last.counters.push(counter),
            None => all.push(PrunedCounters { pipeline, counters: vec![counter] }),
        }
    }
    Ok(all)
}

fn operations(conn: &Connection) -> Result<Vec<OperationCount>> {
    let mut select = conn.prepare_cached(
        "SELECT kind, state, count(*) FROM operation GROUP BY kind, state ORDER BY kind, state",
    )?;
    let mut rows = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(OperationCount {
            kind: sql::operation_kind(row.get(0)?)?,
            state: sql::operation_state(row.get(1)?)?,
            n: count_at(row, 2)?,
        });
    }
    Ok(all)
}

fn count_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// Keeps of the counters of a run that is forgotten what only grows. A sum stops at the largest number.
pub(crate) fn keep_what_grows(tx: &Connection, run: RunId) -> Result<()> {
    let mut upsert = tx.prepare_cached(
        "INSERT INTO pruned_counter (pipeline, stage, metric, n)
         SELECT pipeline, ?2, ?3, ?4 FROM run WHERE id = ?1
         ON CONFLICT (pipeline, stage, metric) DO UPDATE SET n =
             CASE WHEN excluded.n > 0 AND n > 9223372036854775807 - excluded.n THEN 9223372036854775807
                  ELSE n + excluded.n END",
    )?;
    for Counter { stage, metric, n } in counter::of_run(tx, run)? {
        if metric.only_grows() {
            upsert.execute((run.0, stage.0, metric.code(), n))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::MIGRATIONS;
    use crate::open;

    #[test]
    fn nothing_is_found_by_looking_at_all_items() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        for (sql, index) in [
            (NEXT_READY, "item_ready (run>?)"),
            (NEXT_AWAITED, "item_awaited (run>?)"),
            (FRESH_OVERDUE, "item_ready (run=? AND stage=? AND lane=? AND due<?)"),
            (RETRY_OVERDUE, "item_ready (run=? AND stage=? AND lane=? AND due<?)"),
            (UNANSWERED, "item_awaited (run=? AND stage=? AND due<?)"),
            (LATER, "item_ready (run=? AND stage=? AND lane=? AND due>?)"),
            (CAME, "item_ready (run=? AND stage=? AND lane=? AND due>? AND due<?)"),
            (HELD, "item_held (worker=?)"),
        ] {
            let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = vec![rusqlite::types::Value::Null; explain.parameter_count()];
            let plan =
                explain.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
            let plan: Vec<String> = plan.map(std::result::Result::unwrap).collect();
            let along = plan.iter().any(|step| step.contains("SEARCH item") && step.contains(index));
            assert!(along && !plan.iter().any(|step| step.contains("SCAN item")), "{sql}: {plan:?}");
        }
    }
}
