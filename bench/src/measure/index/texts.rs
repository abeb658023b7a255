//! What a finished index holds, read from its file.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::redrive::file;
use crate::Failure;

/// Opens the store of a place, to read.
pub fn open(place: &Path) -> Result<Connection, Failure> {
    Ok(Connection::open_with_flags(file(place), OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// The texts that were embedded, each once, in the order of their vectors.
pub fn embedded(place: &Path) -> Result<Vec<String>, Failure> {
    let conn = open(place)?;
    let mut select = conn.prepare("SELECT context, text FROM chunk GROUP BY vector ORDER BY vector")?;
    let rows = select.query_map([], |row| {
        let (context, text): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(if context.is_empty() { text } else { format!("{context}\n\n{text}") })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Every chunk with its document, its place in it and its vector's text.
pub fn chunks(place: &Path) -> Result<BTreeSet<(String, String, Vec<u8>)>, Failure> {
    let conn = open(place)?;
    let mut select = conn.prepare(
        "SELECT doc.path, chunk.key, vector.text FROM chunk JOIN doc ON doc.no = chunk.doc
         JOIN vector ON vector.no = chunk.vector",
    )?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many vectors are kept; 0 while there is no store.
pub fn vectors(place: &Path) -> i64 {
    let count = || -> Result<i64, Failure> {
        Ok(open(place)?.query_row("SELECT count(*) FROM vector", [], |row| row.get(0))?)
    };
    count().unwrap_or(0)
}
