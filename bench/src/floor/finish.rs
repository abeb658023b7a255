//! Recording what came of a batch.

use redrive_core::id::ItemId;
use rusqlite::{Connection, params};

use super::{Held, RUN, STATE, WORKER, counted, whole};
use crate::material::{fails, refusal};

/// Codes of redrive-core's metrics: the outcomes "succeeded" and "failed", the kind of failure, the HTTP status, passed
/// after one attempt, healed within a time, how long that was, not through after so many attempts, tried and passed at first.
const SUCCEEDED: i64 = 500_000;
const FAILED: i64 = 500_004;
const FAILURE: i64 = 600_102;
const STATUS: i64 = 700_503;
const PASSED_AFTER: i64 = 800_000;
const HEALED: i64 = 900_010;
const HEAL_MILLIS: i64 = 1_000_000;
const OPEN_AFTER: i64 = 1_500_000;
const FIRST_TRY: i64 = 1_600_000;
const FIRST_PASS: i64 = 1_600_001;
/// Codes of a retryable failure of a server, and of a retry at once.
const CLASS: i64 = 1;
const KIND: i64 = 2;
const IMMEDIATE: i64 = 0;
/// A group of errors has 12 characters.
const GROUP: &str = "0123456789ab";

/// Writes outcomes and attempts of a stage; `half` as in the engine's handler of that name.
pub(super) fn finish(
    conn: &Connection,
    items: &[Held],
    (stage, last): (i64, bool),
    half: bool,
    now: i64,
) -> rusqlite::Result<()> {
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for held in items {
        if half && fails(ItemId(held.id), held.attempt) { failed.push(held) } else { passed.push(held) }
    }
    pass(conn, &passed, stage, last, now)?;
    fail(conn, &failed, stage, now)?;
    let to = if last { (stage, STATE + 3, 1) } else { (stage + 1, STATE, 1) };
    counted(conn, passed.len(), &[(stage, STATE + 1, -1), to, (stage, SUCCEEDED, 1)])?;
    let healed = passed.iter().filter(|held| held.attempt > 1).count();
    counted(conn, healed, &[(stage, HEALED, 1), (stage, HEAL_MILLIS, 1)])?;
    let most = items.iter().map(|held| held.attempt).max().unwrap_or(0);
    for attempts in 1..=most {
        let of = |all: &[&Held]| all.iter().filter(|held| held.attempt == attempts).count();
        let (after, attempts) = ((of(&passed), of(&failed)), i64::from(attempts));
        counted(conn, after.0, &[(stage, PASSED_AFTER + attempts, 1)])?;
        counted(conn, after.1, &[(stage, OPEN_AFTER + attempts, 1)])?;
        if attempts > 1 {
            counted(conn, after.0 + after.1, &[(stage, OPEN_AFTER + attempts - 1, -1)])?;
            continue;
        }
        counted(conn, after.0 + after.1, &[(stage, FIRST_TRY, 1)])?;
        counted(conn, after.0, &[(stage, FIRST_PASS, 1)])?;
        by_config(conn, stage, FIRST_TRY, after.0 + after.1)?;
        by_config(conn, stage, FIRST_PASS, after.0)?;
    }
    by_config(conn, stage, SUCCEEDED, passed.len())?;
    by_config(conn, stage, FAILED, failed.len())?;
    let changes = [STATE, FAILED, FAILURE, STATUS].map(|metric| (stage, metric, 1));
    counted(conn, failed.len(), &changes)?;
    counted(conn, failed.len(), &[(stage, STATE + 1, -1)])
}

/// Counts for the stage as it is configured.
fn by_config(conn: &Connection, stage: i64, metric: i64, items: usize) -> rusqlite::Result<()> {
    if items > 0 {
        conn.prepare_cached(
            "INSERT INTO config_counter (run, stage, config, metric, n) VALUES (?1, ?2, 1, ?3, ?4)
             ON CONFLICT (run, stage, config, metric) DO UPDATE SET n = n + excluded.n",
        )?
        .execute((RUN, stage, metric, whole(items)))?;
    }
    Ok(())
}

fn pass(conn: &Connection, items: &[&Held], stage: i64, last: bool, now: i64) -> rusqlite::Result<()> {
    let mut update = conn.prepare_cached(if last {
        "UPDATE item SET state = 3, worker = NULL, since = NULL, rev = ?3, first_failed_at = NULL, class = NULL,
                kind = NULL, message = NULL, grp = NULL, shared = NULL, updated_at = ?4
         WHERE seq = ?1 AND rev = ?2"
    } else {
        "UPDATE item SET stage = stage + 1, state = 0, lane = 0, due = ?4, worker = NULL, since = NULL, rev = ?3,
                attempt = 0, failures = 0, first_failed_at = NULL, class = NULL, kind = NULL, message = NULL,
                grp = NULL, shared = NULL, updated_at = ?4
         WHERE seq = ?1 AND rev = ?2"
    })?;
    let mut record = conn.prepare_cached(
        "INSERT INTO attempt (item, generation, stage, attempt, started_at, ended_at, outcome, class, kind, status,
                              message, wait, cause, worker, config)
         VALUES (?1, 0, ?2, ?3, ?4, ?5, 0, NULL, NULL, NULL, NULL, NULL, NULL, ?6, 1)",
    )?;
    for held in items {
        update.execute((held.seq, held.rev, held.rev + 1, now))?;
        record.execute((held.seq, stage, held.attempt, held.since, now, WORKER))?;
    }
    Ok(())
}

fn fail(conn: &Connection, items: &[&Held], stage: i64, now: i64) -> rusqlite::Result<()> {
    let mut update = conn.prepare_cached(
        "UPDATE item SET state = 0, due = ?4, cause = ?5, worker = NULL, since = NULL, rev = ?3,
                failures = failures + 1, first_failed_at = coalesce(first_failed_at, ?4), class = ?6, kind = ?7,
                message = ?8, grp = ?9, shared = 0, updated_at = ?4
         WHERE seq = ?1 AND rev = ?2",
    )?;
    let mut record = conn.prepare_cached(
        "INSERT INTO attempt (item, generation, stage, attempt, started_at, ended_at, outcome, class, kind, status,
                              message, wait, cause, worker, config)
         VALUES (?1, 0, ?2, ?3, ?4, ?5, 4, ?6, ?7, 503, ?8, 0, ?9, ?10, 1)",
    )?;
    for held in items {
        let message = refusal(ItemId(held.id));
        update.execute(params![
            held.seq,
            held.rev,
            held.rev + 1,
            now,
            IMMEDIATE,
            CLASS,
            KIND,
            message,
            GROUP
        ])?;
        record.execute(params![
            held.seq,
            stage,
            held.attempt,
            held.since,
            now,
            CLASS,
            KIND,
            message,
            IMMEDIATE,
            WORKER
        ])?;
    }
    Ok(())
}
