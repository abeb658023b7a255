//! Contents: small ones in the row that has them, large ones once in a table of their own.

use std::sync::Arc;

use redrive_core::id::ContentHash;
use redrive_core::item::Payload;
use redrive_store::Error;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::{Result, strange};

/// Largest content that is kept in the row.
pub(crate) const INLINE: usize = 2_048;

/// The two columns of a content: exactly one is set.
pub(crate) struct Columns<'a> {
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) content: Option<ContentHash>,
}

impl Columns<'_> {
    /// The hash as SQL wants it.
    pub(crate) fn hash(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|hash| &hash.0[..])
    }
}

/// Puts a content where it belongs. `hash` saves hashing it where the caller already has.
pub(crate) fn keep<'a>(tx: &Connection, payload: &'a [u8], hash: Option<ContentHash>) -> Result<Columns<'a>> {
    if payload.len() <= INLINE {
        return Ok(Columns { payload: Some(payload), content: None });
    }
    let hash = hash.unwrap_or_else(|| ContentHash::of(&[payload]));
    tx.prepare_cached("INSERT OR IGNORE INTO content (hash, body) VALUES (?1, ?2)")?
        .execute((&hash.0, payload))?;
    Ok(Columns { payload: None, content: Some(hash) })
}

/// Reads a content from two columns of a row.
pub(crate) fn read(conn: &Connection, row: &Row<'_>, column: usize) -> Result<Payload> {
    if let ValueRef::Blob(bytes) = row.get_ref(column)? {
        return Ok(Arc::from(bytes));
    }
    let Some(hash) = row.get::<_, Option<[u8; 16]>>(column + 1)? else {
        return Err(strange("content", "an empty column"));
    };
    let mut bodies = conn.prepare_cached("SELECT body FROM content WHERE hash = ?1")?;
    let body = bodies.query_row([&hash], |row| Ok(Arc::from(row.get_ref(0)?.as_blob()?))).optional()?;
    let (hash, body): (_, Option<Payload>) = (ContentHash(hash), body);
    match body {
        // A damaged page in the middle of a large content is invisible to SQLite, and here costs a hash to see.
        Some(body) if ContentHash::of(&[&body]) == hash => Ok(body),
        Some(_) => Err(Error::Corrupt(format!("content {hash} is not what was written")).into()),
        None => Err(Error::Corrupt(format!("content {hash} is missing")).into()),
    }
}
