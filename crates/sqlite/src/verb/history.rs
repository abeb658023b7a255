//! What happened to an item: attempts and marks. Rows are added, never changed.

use std::time::Duration;

use redrive_core::attempt::{AttemptFailure, AttemptRecord, Outcome};
use redrive_core::event::{MARKS, Mark};
use redrive_core::id::{ItemSeq, StageNo, WorkerId};
use redrive_core::item::Item;
use redrive_core::time::{Timestamp, millis};
use redrive_core::usage::Usage;
use redrive_core::verdict::Verdict;
use redrive_store::{AttemptPlace, Earlier, History, sql};
use rusqlite::{CachedStatement, Connection, Row, params};

use crate::error::{Result, strange};
use crate::row::{self, limit as sql_limit};
use crate::verb::item::collect;

pub(crate) const INSERT_ATTEMPT: &str =
    "INSERT INTO attempt (item, generation, stage, attempt, started_at, ended_at, outcome, class, kind, status,
                          message, wait, cause, worker, config, tokens_in, tokens_out, nano_usd, verdict)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";

/// Adds an attempt. An attempt number that is there already is a mistake in the program, and fails the commit.
pub(crate) fn add_attempt(
    insert: &mut CachedStatement<'_>,
    item: ItemSeq,
    record: &AttemptRecord,
) -> Result<()> {
    let (failure, usage) = (record.failure.as_ref(), record.usage);
    insert.execute(params![
        item.0,
        record.generation,
        record.stage.0,
        record.attempt,
        record.started_at.0,
        record.ended_at.0,
        record.outcome.code(),
        failure.map(|failure| failure.class as i64),
        failure.map(|failure| failure.kind as i64),
        failure.and_then(|failure| failure.status),
        failure.map(|failure| &*failure.message),
        record.wait.map(|(wait, _)| millis(wait)),
        record.wait.map(|(_, cause)| cause as i64),
        record.worker.0,
        record.config,
        usage.map(|usage| usage.tokens_in.cast_signed()),
        usage.map(|usage| usage.tokens_out.cast_signed()),
        usage.and_then(|usage| usage.nano_usd).map(u64::cast_signed),
        record.verdict.map(Verdict::code),
    ])?;
    Ok(())
}

/// Adds a mark.
pub(crate) fn add_mark(tx: &Connection, after: &Item, mark: &Mark) -> Result<()> {
    tx.prepare_cached("INSERT INTO mark (item, n, at, what, detail) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((after.seq.0, after.rev.0, mark.at.0, mark.what, &*mark.detail))?;
    Ok(())
}

/// Reads of an item's history so many of the newest attempts and marks, and how many are older.
pub(crate) fn of(conn: &Connection, item: ItemSeq, newest: usize) -> Result<History> {
    let mut attempts = attempts(conn, item, None, newest)?;
    attempts.reverse();
    let mut select =
        conn.prepare_cached("SELECT at, what, detail FROM mark WHERE item = ?1 ORDER BY n DESC LIMIT ?2")?;
    let mut marks = collect(select.query((item.0, sql_limit(newest)))?, mark)?;
    marks.reverse();
    let earlier = Earlier {
        attempts: older(conn, "SELECT count(*) FROM attempt WHERE item = ?1", item, attempts.len(), newest)?,
        marks: older(conn, "SELECT count(*) FROM mark WHERE item = ?1", item, marks.len(), newest)?,
    };
    Ok(History { attempts, marks, earlier })
}

/// How many there are beside those that were read.
fn older(conn: &Connection, count: &str, item: ItemSeq, read: usize, newest: usize) -> Result<u64> {
    if read < newest {
        return Ok(0);
    }
    let all: i64 = conn.prepare_cached(count)?.query_row([item.0], |row| row.get(0))?;
    Ok(all.unsigned_abs().saturating_sub(read as u64))
}

/// Reads an item's attempts, newest first, before one of them.
pub(crate) fn attempts(
    conn: &Connection,
    item: ItemSeq,
    before: Option<AttemptPlace>,
    limit: usize,
) -> Result<Vec<AttemptRecord>> {
    let mut select = conn.prepare_cached(
        "SELECT generation, stage, attempt, started_at, ended_at, outcome, class, kind, status, message, wait,
                cause, worker, config, tokens_in, tokens_out, nano_usd, verdict
         FROM attempt WHERE item = ?1 AND (generation, stage, attempt) < (?2, ?3, ?4)
         ORDER BY generation DESC, stage DESC, attempt DESC LIMIT ?5",
    )?;
    let (generation, stage, attempted) = match before {
        None => (i64::MAX, 0, 0),
        Some(AttemptPlace { generation, stage, attempt }) => (generation.into(), stage.0, attempt),
    };
    collect(select.query((item.0, generation, stage, attempted, sql_limit(limit)))?, attempt)
}

fn attempt(row: &Row<'_>) -> Result<AttemptRecord> {
    let outcome: u8 = row.get(5)?;
    let failure = match row.get::<_, Option<i64>>(6)? {
        None => None,
        Some(class) => Some(AttemptFailure {
            class: sql::class(class)?,
            kind: sql::kind(row.get(7)?)?,
            status: row.get(8)?,
            message: row::text(row, 9)?,
        }),
    };
    let wait: Option<i64> = row.get(10)?;
    Ok(AttemptRecord {
        generation: row.get(0)?,
        stage: StageNo(row.get(1)?),
        attempt: row.get(2)?,
        started_at: Timestamp(row.get(3)?),
        ended_at: Timestamp(row.get(4)?),
        outcome: Outcome::from_code(outcome).ok_or_else(|| strange("outcome", outcome))?,
        failure,
        wait: wait
            .map(|ms| Duration::from_millis(ms.cast_unsigned()))
            .zip(row.get::<_, Option<i64>>(11)?.map(sql::cause).transpose()?),
        worker: WorkerId(row.get(12)?),
        config: row.get(13)?,
        usage: usage(row)?,
        verdict: row.get::<_, Option<i64>>(17)?.map(sql::verdict).transpose()?,
    })
}

fn usage(row: &Row<'_>) -> Result<Option<Usage>> {
    let Some(tokens_in) = row.get::<_, Option<i64>>(14)? else { return Ok(None) };
    Ok(Some(Usage {
        tokens_in: tokens_in.cast_unsigned(),
        tokens_out: row.get::<_, i64>(15)?.cast_unsigned(),
        nano_usd: row.get::<_, Option<i64>>(16)?.map(i64::cast_unsigned),
    }))
}

fn mark(row: &Row<'_>) -> Result<Mark> {
    let what = row::text(row, 1)?;
    let known = MARKS.into_iter().find(|mark| **mark == *what).ok_or_else(|| strange("mark", &what))?;
    Ok(Mark { at: Timestamp(row.get(0)?), what: known, detail: row::text(row, 2)? })
}
