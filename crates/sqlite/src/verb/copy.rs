//! A copy of the whole store in a file of its own.

use std::fs::File;
use std::path::Path;

use redrive_store::Error;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::error::Result;
use crate::migrate::MIGRATIONS;
use crate::open;
use crate::options::Options;

/// Pages that are copied between two looks at how far it is.
const PAGES: i32 = 1_000;

/// Copies what the connection sees into a file that is there and empty. The connection has to be in a transaction: only
/// then nobody moves what it sees.
pub(crate) fn into_file(conn: &Connection, file: &Path, heard: &dyn Fn(u64, u64)) -> Result<()> {
    let refused = |error: &dyn std::fmt::Display| Error::Open(format!("{}: {error}", file.display()));
    let there = std::fs::metadata(file).map_err(|error| refused(&error))?;
    if !there.is_file() || there.len() > 0 {
        return Err(refused(&"a copy is written into an empty file only").into());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags(file, flags)?;
    // Until all of it is there it is worth nothing, so there is nothing to take back; it is flushed once, at the end.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let backup = Backup::new(conn, &mut copy)?;
    loop {
        let step = backup.step(PAGES)?;
        let pages = backup.progress();
        let bytes = |pages: i32| u64::try_from(i64::from(pages) * page).unwrap_or(0);
        heard(bytes(pages.pagecount - pages.remaining), bytes(pages.pagecount));
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => return Err(Error::Busy(file.display().to_string()).into()),
        }
    }
    drop(backup);
    drop(copy);
    File::open(file).and_then(|file| file.sync_all()).map_err(|error| refused(&error))?;
    Ok(())
}

/// Reads a copy through once, as it is on the disk, and says how many bytes it has. Nothing is made beside it.
pub(crate) fn look_through(file: &Path) -> std::result::Result<u64, Error> {
    let way = open::way_to_read(file, &Options::default(), MIGRATIONS)?;
    let conn = open::reader(file, &Options::default(), way)?;
    let verdict: rusqlite::Result<String> = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match verdict {
        Ok(verdict) if verdict == "ok" => {}
        Ok(verdict) => return Err(Error::Corrupt(format!("{}: {verdict}", file.display()))),
        Err(error) => return Err(crate::error::Fault::from(error).at(file)),
    }
    let there = std::fs::metadata(file);
    there.map(|there| there.len()).map_err(|error| Error::Open(format!("{}: {error}", file.display())))
}
