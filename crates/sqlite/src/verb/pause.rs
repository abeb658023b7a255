//! Pipelines and stages that somebody paused.

use redrive_core::time::Timestamp;
use redrive_store::{PauseAsk, PauseChange, Pauses, PipelinePause};
use rusqlite::Connection;

use crate::error::Result;
use crate::verb::operation;

/// The number of the last change.
pub(crate) fn rev(conn: &Connection) -> Result<i64> {
    let mut select = conn.prepare_cached("SELECT last FROM sequence WHERE name = 'pause'")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

/// Reads what is paused.
pub(crate) fn all(conn: &Connection) -> Result<Pauses> {
    let mut select = conn.prepare_cached(
        "SELECT pipeline, stage, since, actor, why FROM pipeline_pause ORDER BY pipeline, stage",
    )?;
    let rows = select.query_map([], |row| {
        Ok(PipelinePause {
            pipeline: row.get(0)?,
            stage: Some(row.get(1)?).filter(|stage: &String| !stage.is_empty()),
            since: Timestamp(row.get(2)?),
            actor: row.get(3)?,
            why: row.get(4)?,
        })
    })?;
    Ok(Pauses { rev: rev(conn)?, rows: rows.collect::<rusqlite::Result<_>>()? })
}

/// Pauses something, or lets it go on; `false` when it was so already.
pub(crate) fn change(tx: &Connection, change: &PauseChange) -> Result<bool> {
    let changed = match &change.ask {
        PauseAsk::Pause(PipelinePause { pipeline, stage, since, actor, why }) => tx
            .prepare_cached(
                "INSERT INTO pipeline_pause (pipeline, stage, since, actor, why) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (pipeline, stage) DO UPDATE SET actor = excluded.actor, why = excluded.why
                 WHERE actor <> excluded.actor OR why <> excluded.why",
            )?
            .execute((pipeline, stage.as_deref().unwrap_or_default(), since.0, actor, why))?,
        PauseAsk::Resume { pipeline, stage } => tx
            .prepare_cached("DELETE FROM pipeline_pause WHERE pipeline = ?1 AND stage = ?2")?
            .execute((pipeline, stage.as_deref().unwrap_or_default()))?,
    };
    if changed == 0 {
        return Ok(false);
    }
    tx.prepare_cached("UPDATE sequence SET last = last + 1 WHERE name = 'pause'")?.execute([])?;
    operation::save(tx, &change.by)?;
    Ok(true)
}
