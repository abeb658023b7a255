//! The index: what outcomes write into it, its documents, and searching.

mod chunk;
pub(crate) mod collection;
pub(crate) mod doc;
pub(crate) mod search;

use redrive_core::id::ContentHash;
use redrive_core::index::{DocKey, Effect, KeptVector, Publish, VectorKey};
use redrive_store::rule::index::{Outdated, Published, may_publish, outdated};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;
use chunk::Unworded;

/// What the outcomes of one commit write into the index.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    unworded: Unworded,
}

impl Effects {
    /// Writes what one outcome has for the index.
    pub(crate) fn apply(&mut self, tx: &Connection, effect: &Effect) -> Result<()> {
        match effect {
            Effect::Keep(kept) => keep(tx, kept),
            Effect::Put(chunk) => chunk::put(tx, chunk, &mut self.unworded),
            Effect::Publish(publish) => {
                self.unworded.write(tx)?;
                complete(tx, publish)
            }
            Effect::Forget(doc) => {
                self.unworded.write(tx)?;
                forget(tx, doc)
            }
        }
    }

    /// Writes what is better written at once.
    pub(crate) fn finish(mut self, tx: &Connection) -> Result<()> {
        self.unworded.write(tx)
    }
}

fn keep(tx: &Connection, KeptVector { key, vector }: &KeptVector) -> Result<()> {
    let codes: Vec<u8> = vector.codes.iter().map(|code| code.cast_unsigned()).collect();
    tx.prepare_cached(
        "INSERT INTO vector (model, text, scale, codes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (text, model) DO NOTHING",
    )?
    .execute((key.model.0, key.text.0, f64::from(vector.scale), codes))?;
    Ok(())
}

fn vector_number(tx: &Connection, key: &VectorKey) -> Result<Option<i64>> {
    let mut select = tx.prepare_cached("SELECT no FROM vector WHERE text = ?1 AND model = ?2")?;
    Ok(select.query_row((key.text.0, key.model.0), |row| row.get(0)).optional()?)
}

/// Tells which of these vectors are kept.
pub(crate) fn known(conn: &Connection, keys: &[VectorKey]) -> Result<Vec<bool>> {
    keys.iter().map(|key| Ok(vector_number(conn, key)?.is_some())).collect()
}

fn complete(tx: &Connection, publish: &Publish) -> Result<()> {
    let Publish { doc: key, version, edition, mark, facts, .. } = publish;
    let doc = doc::number(tx, key)?;
    let now =
        tx.prepare_cached("SELECT rev, published, mark FROM doc WHERE no = ?1")?.query_row([doc], |row| {
            let version = row.get::<_, Option<[u8; 16]>>(1)?.map(ContentHash);
            Ok(Published { rev: row.get(0)?, version, mark: row.get(2)? })
        })?;
    if !may_publish(publish, now) {
        return chunk::remove(tx, "doc = ?1 AND edition = ?2", &[&doc, &edition.0]);
    }
    match outdated(publish, now) {
        Outdated::Others => chunk::remove(tx, "doc = ?1 AND edition <> ?2", &[&doc, &edition.0])?,
        Outdated::Edition(Some(before)) => {
            chunk::remove(tx, "doc = ?1 AND edition = ?2", &[&doc, &before.0])?;
        }
        Outdated::Edition(None) => {}
    }
    tx.prepare_cached(
        "UPDATE doc SET published = ?2, mark = ?3, facts = ?4, rev = rev + 1, refused = NULL, refused_why = NULL
         WHERE no = ?1",
    )?
    .execute((doc, version.0, mark, facts.as_deref()))?;
    Ok(())
}

fn forget(tx: &Connection, key: &DocKey) -> Result<()> {
    let doc = doc::number(tx, key)?;
    chunk::remove(tx, "doc = ?1", &[&doc])?;
    tx.prepare_cached(
        "UPDATE doc SET published = NULL, seen_size = NULL, seen_time = NULL, seen_hash = NULL, seen_changed = NULL,
                        seen_inode = NULL, rev = rev + 1,
                        refused = NULL, refused_why = NULL, facts = NULL
         WHERE no = ?1",
    )?
    .execute([doc])?;
    Ok(())
}

/// Forgets vectors that no chunk points to, unless a run is unfinished whose items may count on them.
pub(crate) fn drop_unused_vectors(tx: &Connection, limit: usize) -> Result<u64> {
    if is_busy(tx)? {
        return Ok(0);
    }
    let gone = tx
        .prepare_cached(
            "DELETE FROM vector WHERE no IN (
                 SELECT no FROM vector WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.vector = vector.no)
                 LIMIT ?1)",
        )?
        .execute([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    Ok(gone as u64)
}

/// Forgets documents of which nothing is left but their change numbers, unless a run is unfinished.
pub(crate) fn drop_gone_docs(tx: &Connection, limit: usize) -> Result<u64> {
    if is_busy(tx)? {
        return Ok(0);
    }
    let gone = tx
        .prepare_cached(
            "DELETE FROM doc WHERE no IN (
                 SELECT no FROM doc WHERE published IS NULL AND seen_hash IS NULL AND refused IS NULL
                     AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.doc = doc.no)
                 LIMIT ?1)",
        )?
        .execute([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    Ok(gone as u64)
}

/// Whether a run is unfinished whose items may count on what nothing else does.
fn is_busy(tx: &Connection) -> Result<bool> {
    let mut unfinished =
        tx.prepare_cached("SELECT 1 FROM run WHERE finished_at IS NULL AND control <> ?1")?;
    Ok(unfinished.exists([redrive_core::status::Control::Cancelled.code()])?)
}

/// What is not as it must be.
pub(crate) fn faults(conn: &Connection, limit: usize) -> Result<Vec<String>> {
    let mut select = conn.prepare_cached(
        "SELECT chunk.no, doc.path, doc.no IS NOT NULL FROM chunk
         LEFT JOIN doc ON doc.no = chunk.doc LEFT JOIN vector ON vector.no = chunk.vector
         WHERE doc.no IS NULL OR (vector.no IS NULL AND chunk.vector <> 0) LIMIT ?1",
    )?;
    let faults = select.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let (no, path, vector): (i64, Option<String>, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let what = if vector { "its vector" } else { "its document" };
        Ok(format!("chunk {no} of {} has lost {what}", path.as_deref().unwrap_or("a document that is gone")))
    })?;
    Ok(faults.collect::<rusqlite::Result<_>>()?)
}
