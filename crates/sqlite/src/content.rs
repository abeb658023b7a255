//! Contents: small ones in the row that has them, large ones once in a table of their own. Both are kept with a hash, so that
//! a byte that changed on the disk is seen: SQLite itself has no sums of what is in its pages.

use std::sync::Arc;

use redrive_core::id::ContentHash;
use redrive_core::item::Payload;
use redrive_store::Content;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::{Fault, Result};

/// Largest content that is kept in the row.
pub(crate) const INLINE: usize = 2_048;

/// The three columns of a content: either the first and the last are set, or the one in the middle.
pub(crate) struct Columns<'a> {
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) content: Option<ContentHash>,
    pub(crate) sum: Option<i64>,
}

impl Columns<'_> {
    /// The hash as SQL wants it.
    pub(crate) fn hash(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|hash| &hash.0[..])
    }
}

/// Puts a content where it belongs. `hash` saves hashing it where the caller already has.
pub(crate) fn keep<'a>(tx: &Connection, payload: &'a [u8], hash: Option<ContentHash>) -> Result<Columns<'a>> {
    let hash = hash.unwrap_or_else(|| ContentHash::of(&[payload]));
    if payload.len() <= INLINE {
        return Ok(Columns { payload: Some(payload), content: None, sum: Some(hash.short()) });
    }
    // A body that was damaged is mended by whoever brings it whole.
    let mut insert = tx.prepare_cached(
        "INSERT INTO content (hash, body) VALUES (?1, ?2)
         ON CONFLICT (hash) DO UPDATE SET body = excluded.body WHERE body <> excluded.body",
    )?;
    match insert.execute((&hash.0, payload)).map_err(Fault::from) {
        Ok(_) => {}
        // It is there, and so damaged that not even its bytes can be compared: it stays as it is.
        Err(fault) if fault.is_damage() => {}
        Err(fault) => return Err(fault),
    }
    Ok(Columns { payload: None, content: Some(hash), sum: None })
}

/// Reads a content from three columns of a row: `payload`, `content`, `payload_sum`.
pub(crate) fn read(conn: &Connection, row: &Row<'_>, column: usize) -> Result<Content> {
    if let ValueRef::Blob(bytes) = row.get_ref(column)? {
        let sum: Option<i64> = row.get(column + 2)?;
        // Rows from before there were sums have none; `redrive check` looks at those in another way.
        return Ok(match sum {
            Some(sum) if ContentHash::of(&[bytes]).short() != sum => {
                Content::Damaged(format!("its {} bytes are not those that were written", bytes.len()))
            }
            Some(_) | None => Content::Whole(Arc::from(bytes)),
        });
    }
    match row.get::<_, Option<[u8; 16]>>(column + 1)? {
        Some(hash) => of_hash(conn, ContentHash(hash)),
        None => Ok(Content::Damaged("it is gone from its row".to_owned())),
    }
}

/// Reads a large content.
pub(crate) fn of_hash(conn: &Connection, hash: ContentHash) -> Result<Content> {
    let mut bodies = conn.prepare_cached("SELECT body FROM content WHERE hash = ?1")?;
    let body: rusqlite::Result<Option<Payload>> =
        bodies.query_row([&hash.0], |row| Ok(Arc::from(row.get_ref(0)?.as_blob()?))).optional();
    match body.map_err(Fault::from) {
        // A damaged page in the middle of a large content is invisible to SQLite, and here costs a hash to see.
        Ok(Some(body)) if ContentHash::of(&[&body]) == hash => Ok(Content::Whole(body)),
        Ok(Some(_)) => Ok(Content::Damaged(format!("content {hash} is not what was written"))),
        Ok(None) => Ok(Content::Damaged(format!("content {hash} is missing"))),
        Err(fault) if fault.is_damage() => Ok(Content::Damaged(format!("content {hash} cannot be read"))),
        Err(fault) => Err(fault),
    }
}
