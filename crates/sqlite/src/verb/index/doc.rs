//! Documents: files as they are known.

use std::sync::Arc;

use redrive_core::id::ContentHash;
use redrive_core::index::{CollectionNo, DocKey};
use redrive_store::Error;
use redrive_store::index::{Doc, Refused, Seen, SeenAs, SeenStamp};
use redrive_store::rule::index::may_refuse;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::Result;

const COLUMNS: &str = "SELECT no, path, kind, seen_size, seen_time, seen_hash, published, mark, rev, refused, refused_why, looks,
    seen_changed, seen_inode, facts FROM doc";

/// The number of a document; it gets one when it has none.
pub(super) fn number(tx: &Connection, key: &DocKey) -> Result<i64> {
    let mut select = tx.prepare_cached("SELECT no FROM doc WHERE collection = ?1 AND path = ?2")?;
    let found = select.query_row((key.collection.0, &*key.path), |row| row.get(0)).optional()?;
    if let Some(no) = found {
        return Ok(no);
    }
    require(tx, key.collection)?;
    tx.prepare_cached("INSERT INTO doc (collection, path, kind) VALUES (?1, ?2, '')")?
        .execute((key.collection.0, &*key.path))?;
    Ok(tx.last_insert_rowid())
}

/// Refuses a collection that somebody has forgotten meanwhile.
fn require(tx: &Connection, collection: CollectionNo) -> Result<()> {
    if tx.prepare_cached("SELECT 1 FROM collection WHERE no = ?1")?.exists([collection.0])? {
        return Ok(());
    }
    Err(Error::IndexReplaced.into())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Doc> {
    let hash = |column: usize| -> rusqlite::Result<Option<ContentHash>> {
        Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(ContentHash))
    };
    let size: Option<i64> = row.get(3)?;
    let times: (Option<i64>, Option<i64>, Option<i64>) = (row.get(4)?, row.get(12)?, row.get(13)?);
    let stamp = match times {
        (Some(modified_ms), Some(changed_ns), Some(inode)) => {
            Some(SeenStamp { modified_ms, changed_ns, inode: inode.cast_unsigned() })
        }
        _ => None,
    };
    let seen = size.zip(hash(5)?).map(|(size, hash)| SeenAs { size: size.cast_unsigned(), stamp, hash });
    Ok(Doc {
        no: row.get(0)?,
        path: Arc::from(row.get_ref(1)?.as_str()?),
        kind: row.get(2)?,
        seen,
        published: hash(6)?,
        mark: row.get(7)?,
        rev: row.get(8)?,
        refused: hash(9)?.zip(row.get(10)?),
        looks: row.get(11)?,
        facts: row.get::<_, Option<String>>(14)?.map(Arc::from),
    })
}

/// Reads documents by path.
pub(crate) fn by_path(
    conn: &Connection,
    collection: CollectionNo,
    paths: &[Arc<str>],
) -> Result<Vec<Option<Doc>>> {
    let mut select = conn.prepare_cached(&format!("{COLUMNS} WHERE collection = ?1 AND path = ?2"))?;
    paths.iter().map(|path| Ok(select.query_row((collection.0, &**path), read).optional()?)).collect()
}

/// Reads documents after one.
pub(crate) fn after(conn: &Connection, collection: CollectionNo, no: i64, limit: usize) -> Result<Vec<Doc>> {
    let mut select =
        conn.prepare_cached(&format!("{COLUMNS} WHERE no > ?2 AND collection = ?1 ORDER BY no LIMIT ?3"))?;
    let docs = select.query_map((collection.0, no, i64::try_from(limit).unwrap_or(i64::MAX)), read)?;
    Ok(docs.collect::<rusqlite::Result<_>>()?)
}

/// Notes how files looked.
pub(crate) fn observe(tx: &Connection, collection: CollectionNo, seen: &[Seen]) -> Result<()> {
    require(tx, collection)?;
    let mut update = tx.prepare_cached(
        "INSERT INTO doc (collection, path, kind, seen_size, seen_time, seen_hash, seen_changed, seen_inode)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (collection, path) DO UPDATE SET
             looks = looks + coalesce(seen_hash <> excluded.seen_hash, 0), kind = excluded.kind,
             seen_size = excluded.seen_size, seen_time = excluded.seen_time, seen_hash = excluded.seen_hash,
             seen_changed = excluded.seen_changed, seen_inode = excluded.seen_inode",
    )?;
    for Seen { path, kind, seen } in seen {
        let size = seen.size.cast_signed();
        let stamp = seen.stamp;
        update.execute((
            collection.0,
            &**path,
            kind,
            size,
            stamp.map(|stamp| stamp.modified_ms),
            seen.hash.0,
            stamp.map(|stamp| stamp.changed_ns),
            stamp.map(|stamp| stamp.inode.cast_signed()),
        ))?;
    }
    Ok(())
}

/// Notes that files cannot be indexed as they are.
pub(crate) fn refuse(tx: &Connection, collection: CollectionNo, refused: &[Refused]) -> Result<()> {
    let mut select = tx.prepare_cached("SELECT published, refused FROM doc WHERE no = ?1")?;
    let mut update = tx.prepare_cached("UPDATE doc SET refused = ?2, refused_why = ?3 WHERE no = ?1")?;
    for Refused { path, version, why } in refused {
        let no = number(tx, &DocKey { collection, path: path.clone() })?;
        let hash = |hash: Option<[u8; 16]>| hash.map(ContentHash);
        let (published, noted) = select.query_row([no], |row| Ok((hash(row.get(0)?), hash(row.get(1)?))))?;
        if may_refuse(*version, published, noted) {
            update.execute((no, version.0, why))?;
        }
    }
    Ok(())
}
