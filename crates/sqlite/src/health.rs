//! Looks at a store's file without changing it.

use std::path::Path;

use redrive_store::Error;
use rusqlite::{Connection, OpenFlags};

use crate::error::Fault;

/// The version of the SQLite library that is built in.
#[must_use]
pub fn library_version() -> &'static str {
    rusqlite::version()
}

/// Reads the whole file and says whether it is sound.
///
/// # Errors
/// [`Error::Corrupt`] with SQLite's words when it is not.
pub fn quick_check(path: &Path) -> Result<(), Error> {
    let fail = |error: rusqlite::Error| Fault::from(error).at(path);
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(fail)?;
    let verdict: String = file.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
    if verdict == "ok" { Ok(()) } else { Err(Error::Corrupt(format!("{}: {verdict}", path.display()))) }
}
