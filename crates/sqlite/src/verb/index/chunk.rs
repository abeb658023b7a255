//! Chunks and their words, which are written together: chunks one by one, the words of all of them at once.

use redrive_core::grams;
use redrive_core::index::Chunk;
use redrive_store::Error;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::{doc, vector_number};
use crate::error::Result;

/// Stands for no vector: numbers of vectors begin with 1.
const NO_VECTOR: i64 = 0;

/// Chunks that were written in this transaction and whose words were not yet: their numbers follow each other.
#[derive(Debug, Default)]
pub(super) struct Unworded {
    range: Option<(i64, i64)>,
}

impl Unworded {
    fn add(&mut self, no: i64) {
        let (first, _) = self.range.unwrap_or((no, no));
        self.range = Some((first, no));
    }

    /// Writes the words of what was added.
    pub(super) fn write(&mut self, tx: &Connection) -> Result<()> {
        if let Some((first, last)) = self.range.take() {
            tx.prepare_cached(
                "INSERT INTO words (rowid, context, text)
                 SELECT no, context, text FROM chunk WHERE no BETWEEN ?1 AND ?2",
            )?
            .execute((first, last))?;
        }
        Ok(())
    }
}

/// Puts a chunk into its document, in place of the one with the same key and edition.
pub(super) fn put(tx: &Connection, chunk: &Chunk, unworded: &mut Unworded) -> Result<()> {
    let doc = doc::number(tx, &chunk.doc)?;
    let vector = match &chunk.vector {
        None => NO_VECTOR,
        Some(key) => vector_number(tx, key)?.ok_or_else(|| {
            Error::Corrupt(format!("the vector of chunk {} of {} is missing", chunk.key, chunk.doc.path))
        })?,
    };
    let there: Option<(i64, bool)> = tx
        .prepare_cached(
            "SELECT no, context = ?4 AND text = ?5 FROM chunk WHERE doc = ?1 AND key = ?2 AND edition = ?3",
        )?
        .query_row((doc, &*chunk.key, chunk.edition.0, &chunk.context, &chunk.text), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match there {
        None => {
            insert(tx, None, doc, vector, chunk)?;
            let no = tx.last_insert_rowid();
            unworded.add(no);
            write_grams(tx, no, chunk)?;
        }
        Some((no, true)) => update(tx, no, vector, chunk)?,
        // The same key with another text has another place in the order of words: it is written anew.
        Some((no, false)) => {
            unworded.write(tx)?;
            remove(tx, "no = ?1", &[&no])?;
            insert(tx, Some(no), doc, vector, chunk)?;
            unworded.add(no);
            unworded.write(tx)?;
            write_grams(tx, no, chunk)?;
        }
    }
    Ok(())
}

fn insert(tx: &Connection, no: Option<i64>, doc: i64, vector: i64, chunk: &Chunk) -> Result<()> {
    let place = chunk.place;
    tx.prepare_cached(
        "INSERT INTO chunk (no, doc, key, edition, vector, ordinal, page, first_line, last_line, first_byte,
                            end_byte, context, text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        no,
        doc,
        &*chunk.key,
        chunk.edition.0,
        vector,
        place.ordinal,
        place.page,
        place.lines.0,
        place.lines.1,
        place.bytes.0.cast_signed(),
        place.bytes.1.cast_signed(),
        chunk.context,
        chunk.text,
    ])?;
    Ok(())
}

/// Writes the pieces of a chunk, if it has any.
fn write_grams(tx: &Connection, no: i64, chunk: &Chunk) -> Result<()> {
    let grams = [grams::of(&chunk.context), grams::of(&chunk.text)].concat();
    if !grams.is_empty() {
        tx.prepare_cached("INSERT INTO gram (rowid, grams) VALUES (?1, ?2)")?
            .execute((no, grams.join(" ")))?;
    }
    Ok(())
}

/// Writes everything but the text, which is the same.
fn update(tx: &Connection, no: i64, vector: i64, chunk: &Chunk) -> Result<()> {
    let place = chunk.place;
    tx.prepare_cached(
        "UPDATE chunk SET vector = ?2, ordinal = ?3, page = ?4, first_line = ?5, last_line = ?6, first_byte = ?7,
                          end_byte = ?8
         WHERE no = ?1",
    )?
    .execute(params![
        no,
        vector,
        place.ordinal,
        place.page,
        place.lines.0,
        place.lines.1,
        place.bytes.0.cast_signed(),
        place.bytes.1.cast_signed(),
    ])?;
    Ok(())
}

/// Removes the chunks for which a condition holds. Words of what was added before have to be written first.
pub(super) fn remove(tx: &Connection, condition: &str, values: &[&dyn ToSql]) -> Result<()> {
    let words = format!(
        "INSERT INTO words (words, rowid, context, text)
         SELECT 'delete', no, context, text FROM chunk WHERE {condition}"
    );
    tx.prepare_cached(&words)?.execute(values)?;
    let grams = format!("DELETE FROM gram WHERE rowid IN (SELECT no FROM chunk WHERE {condition})");
    tx.prepare_cached(&grams)?.execute(values)?;
    tx.prepare_cached(&format!("DELETE FROM chunk WHERE {condition}"))?.execute(values)?;
    Ok(())
}
