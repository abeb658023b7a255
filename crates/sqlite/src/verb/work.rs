//! Which runs have something to do.

use std::collections::BTreeSet;

use redrive_core::id::{RunId, WorkerId};
use redrive_core::item::StateKind;
use redrive_core::time::Timestamp;
use redrive_store::{OpenRun, RunState, WorkFilter, WorkList, WorkPosition, WorkQuery};
use rusqlite::{Connection, params};

use crate::error::{Result, strange};
use crate::verb::{counter, item, run, worker};

/// Reads runs that have something to do. Only runs that go on are looked at, and of their items one for each stage.
pub(crate) fn list(conn: &Connection, query: &WorkQuery) -> Result<WorkList> {
    let mut list = WorkList::default();
    let orphaned = orphaned(conn, query.now)?;
    let WorkFilter { categories, pipelines, but_pipelines } = &query.filter;
    let names =
        |names: &[String]| serde_json::to_string(names).map_err(|error| strange("list of names", error));
    let after = query.after.map_or((i64::MIN, 0), |after| (after.key().0, after.run.0));
    let mut select = conn.prepare_cached(
        "SELECT id FROM run INDEXED BY run_open
         WHERE finished_at IS NULL AND control = 0 AND (-priority, id) > (?1, ?2)
           AND (?3 OR category IN (SELECT value FROM json_each(?4)))
           AND (?5 OR pipeline IN (SELECT value FROM json_each(?6)))
           AND (?7 OR pipeline NOT IN (SELECT value FROM json_each(?8)))
         ORDER BY -priority, id",
    )?;
    let mut rows = select.query(params![
        after.0,
        after.1,
        categories.is_empty(),
        names(categories)?,
        pipelines.is_empty(),
        names(pipelines)?,
        but_pipelines.is_empty(),
        names(but_pipelines)?
    ])?;
    let (mut looks, mut last) = (0, query.after);
    while let Some(found) = rows.next()? {
        if list.runs.len() == query.limit || looks == query.looks {
            list.next = last;
            return Ok(list);
        }
        let Some(row) = run::one(conn, RunId(found.get(0)?))? else { continue };
        looks += 1;
        last = Some(WorkPosition::of(&row));
        let state = RunState {
            next_due: item::next_due(conn, row.id)?.at,
            waiting: counter::in_state(conn, row.id, StateKind::Waiting)?,
            running: counter::in_state(conn, row.id, StateKind::Running)? > 0,
            orphans: orphaned.contains(&row.id),
            joining: counter::in_state(conn, row.id, StateKind::Joining)? > 0,
            read: row.admitted_all,
            takes_items: row.is_open(),
        };
        match state.has(query.now, query.later) {
            Some(has) => list.runs.push(OpenRun { row, has, waiting: state.waiting }),
            None => list.next_due = list.next_due.into_iter().chain(state.next_due).min(),
        }
    }
    Ok(list)
}

/// The runs that have items of workers that are gone.
fn orphaned(conn: &Connection, now: Timestamp) -> Result<BTreeSet<RunId>> {
    let mut select = conn.prepare_cached(
        "SELECT DISTINCT run FROM item INDEXED BY item_held WHERE state = 1 AND worker = ?1",
    )?;
    let mut runs = BTreeSet::new();
    for holder in worker::holders(conn)? {
        if !worker::holds(conn, WorkerId(holder), now)? {
            let found = select.query_map([holder], |row| row.get(0))?;
            runs.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?.into_iter().map(RunId));
        }
    }
    Ok(runs)
}
