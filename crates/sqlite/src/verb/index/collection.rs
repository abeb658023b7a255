//! Collections: directories that are made searchable.

use redrive_core::index::{CollectionNo, ModelNo};
use redrive_core::time::Timestamp;
use redrive_store::Error;
use redrive_store::index::{Collection, IndexSize, NewCollection};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;

const COLUMNS: &str = "SELECT collection.no, model.no, root, model.name, dimensions, settings, created_at
                       FROM collection JOIN model ON model.no = collection.model";

/// Reads all collections.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Collection>> {
    let mut select = conn.prepare_cached(&format!("{COLUMNS} ORDER BY collection.no"))?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Collection> {
    Ok(Collection {
        no: CollectionNo(row.get(0)?),
        model_no: ModelNo(row.get(1)?),
        spec: NewCollection {
            root: row.get(2)?,
            model: row.get(3)?,
            dimensions: row.get(4)?,
            settings: row.get(5)?,
        },
        created_at: Timestamp(row.get(6)?),
    })
}

/// Finds the collection of this root, or makes it.
pub(crate) fn open(tx: &Connection, new: &NewCollection, now: Timestamp) -> Result<Collection> {
    let find = |tx: &Connection| -> Result<Option<Collection>> {
        let mut select = tx.prepare_cached(&format!("{COLUMNS} WHERE root = ?1"))?;
        Ok(select.query_row([&new.root], read).optional()?)
    };
    if let Some(there) = find(tx)? {
        return Ok(there);
    }
    add_model(tx, &new.model)?;
    tx.execute(
        "INSERT INTO collection (root, model, settings, created_at)
         VALUES (?1, (SELECT no FROM model WHERE name = ?2), ?3, ?4)",
        (&new.root, &new.model, &new.settings, now.0),
    )?;
    let missing = || Error::Internal("a new collection is not there".to_owned());
    let mut made = find(tx)?.ok_or_else(missing)?;
    if new.dimensions > 0 {
        made.spec.dimensions = learn_dimensions(tx, made.model_no, new.dimensions)?;
    }
    Ok(made)
}

fn add_model(tx: &Connection, name: &str) -> Result<()> {
    let add = "INSERT INTO model (name, dimensions) VALUES (?1, 0) ON CONFLICT (name) DO NOTHING";
    tx.execute(add, [name])?;
    Ok(())
}

/// Has the collection of this root made anew; `false` when there is none.
pub(crate) fn renew(tx: &Connection, new: &NewCollection) -> Result<bool> {
    add_model(tx, &new.model)?;
    let (no, model): (Option<i64>, i64) = tx.query_row(
        "SELECT (SELECT no FROM collection WHERE root = ?1), (SELECT no FROM model WHERE name = ?2)",
        (&new.root, &new.model),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some(no) = no else { return Ok(false) };
    tx.execute("UPDATE collection SET model = ?2, settings = ?3 WHERE no = ?1", (no, model, &new.settings))?;
    if new.dimensions > 0 {
        learn_dimensions(tx, ModelNo(model), new.dimensions)?;
    }
    // No edition has mark 0, and without its time a file is read.
    tx.execute(
        "UPDATE doc SET mark = 0, seen_time = NULL, refused = NULL, refused_why = NULL WHERE collection = ?1",
        [no],
    )?;
    Ok(true)
}

/// Notes how the model of a collection is reached.
pub(crate) fn change_settings(tx: &Connection, no: CollectionNo, settings: &str) -> Result<()> {
    tx.execute("UPDATE collection SET settings = ?2 WHERE no = ?1", (no.0, settings))?;
    Ok(())
}

/// Notes how many numbers the vectors of a model have, where that is not known yet.
pub(crate) fn learn_dimensions(tx: &Connection, model: ModelNo, dimensions: u32) -> Result<u32> {
    tx.execute("UPDATE model SET dimensions = ?2 WHERE no = ?1 AND dimensions = 0", (model.0, dimensions))?;
    let known = tx.query_row("SELECT dimensions FROM model WHERE no = ?1", [model.0], |row| row.get(0));
    known.optional()?.ok_or_else(|| Error::NotFound(format!("model {}", model.0)).into())
}

/// Forgets a model that no collection has, with its vectors; `false` when one has it.
pub(crate) fn remove_model(tx: &Connection, name: &str) -> Result<bool> {
    let used = "SELECT 1 FROM collection WHERE model = (SELECT no FROM model WHERE name = ?1)";
    if tx.prepare_cached(used)?.exists([name])? {
        return Ok(false);
    }
    tx.execute("DELETE FROM vector WHERE model = (SELECT no FROM model WHERE name = ?1)", [name])?;
    tx.execute("UPDATE model SET dimensions = 0 WHERE name = ?1", [name])?;
    Ok(true)
}

/// Forgets a collection with its documents and chunks.
pub(crate) fn remove(tx: &Connection, no: CollectionNo) -> Result<()> {
    super::chunk::remove(tx, "doc IN (SELECT no FROM doc WHERE collection = ?1)", &[&no.0])?;
    tx.execute("DELETE FROM doc WHERE collection = ?1", [no.0])?;
    tx.execute("DELETE FROM collection WHERE no = ?1", [no.0])?;
    Ok(())
}

/// Counts what is in a collection.
pub(crate) fn size(conn: &Connection, no: CollectionNo) -> Result<IndexSize> {
    let count = |sql: &str| -> Result<u64> {
        let n: i64 = conn.prepare_cached(sql)?.query_row([no.0], |row| row.get(0))?;
        Ok(u64::try_from(n).unwrap_or(0))
    };
    let of_chunks = "FROM chunk JOIN doc ON doc.no = chunk.doc WHERE doc.collection = ?1";
    Ok(IndexSize {
        documents: count("SELECT count(*) FROM doc WHERE collection = ?1 AND published IS NOT NULL")?,
        refused: count("SELECT count(*) FROM doc WHERE collection = ?1 AND refused IS NOT NULL")?,
        empty: count(
            "SELECT count(*) FROM doc WHERE collection = ?1 AND published IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.doc = doc.no)",
        )?,
        chunks: count(&format!("SELECT count(*) {of_chunks}"))?,
        words_only: count(&format!("SELECT count(*) {of_chunks} AND chunk.vector = 0"))?,
        vectors: count(
            "SELECT count(*) FROM vector WHERE model = (SELECT model FROM collection WHERE no = ?1)",
        )?,
        text_bytes: count(&format!("SELECT coalesce(sum(length(CAST(chunk.text AS BLOB))), 0) {of_chunks}"))?,
    })
}
