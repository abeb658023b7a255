//! Outputs that are kept to be used again.

use redrive_core::id::ItemSeq;
use redrive_core::item::{Item, Payload};
use redrive_core::verdict::Verdict;
use redrive_store::{KeptOutput, OutputKey, sql};
use rusqlite::{Connection, params};

use crate::content;
use crate::error::Result;

/// Keeps an output, with what was found of it.
pub(crate) fn keep(
    tx: &Connection,
    key: &OutputKey,
    by: &Item,
    payload: &Payload,
    verdict: Option<Verdict>,
) -> Result<()> {
    let columns = content::keep(tx, payload, None)?;
    tx.prepare_cached(
        "INSERT INTO output (config, input, run, item, payload, content, payload_sum, verdict)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (config, input) DO UPDATE
         SET run = excluded.run, item = excluded.item, payload = excluded.payload, content = excluded.content,
             payload_sum = excluded.payload_sum, verdict = excluded.verdict",
    )?
    .execute(params![
        key.config,
        key.input.0,
        by.run.0,
        by.seq.0,
        columns.payload,
        columns.hash(),
        columns.sum,
        verdict.map(Verdict::code)
    ])?;
    Ok(())
}

/// Removes the outputs that an item wrote last.
pub(crate) fn remove_of(tx: &Connection, item: ItemSeq) -> Result<()> {
    tx.prepare_cached("DELETE FROM output WHERE item = ?1")?.execute([item.0])?;
    Ok(())
}

/// Removes the outputs with these marks that an item wrote last.
pub(crate) fn forget_of(tx: &Connection, item: ItemSeq, marks: &[i64]) -> Result<()> {
    for mark in marks {
        tx.prepare_cached("DELETE FROM output WHERE item = ?1 AND config = ?2")?.execute((item.0, mark))?;
    }
    Ok(())
}

/// Looks outputs up. One that is damaged is not there.
pub(crate) fn find(conn: &Connection, keys: &[OutputKey]) -> Result<Vec<Option<KeptOutput>>> {
    let mut select = conn.prepare_cached(
        "SELECT payload, content, payload_sum, verdict FROM output WHERE config = ?1 AND input = ?2",
    )?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = select.query((key.config, &key.input.0))?;
        let Some(row) = rows.next()? else {
            found.push(None);
            continue;
        };
        let verdict = row.get::<_, Option<i64>>(3)?.map(sql::verdict).transpose()?;
        let whole = content::read(conn, row, 0)?.whole();
        found.push(whole.map(|payload| KeptOutput { payload, verdict }));
    }
    Ok(found)
}
