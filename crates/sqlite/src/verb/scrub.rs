//! What was removed is in no file any more.
//!
//! Removed rows are overwritten where they stood (`secure_delete`), but a row that was moved within the file before may have
//! left its bytes behind, and the log has pages as they were. So the file is written anew and the log is emptied.

use redrive_store::{Scrub, Scrubbed};
use rusqlite::Connection;

use crate::error::Result;

/// Larger files are not written anew for leftovers alone: it would take minutes, and as much room again.
const REWRITTEN: i64 = 1 << 30;
/// Less than this is not worth giving back.
const WORTHWHILE: i64 = 1 << 20;

/// Writes the file anew where that is asked for, and empties the log. Runs outside any transaction.
pub(crate) fn rewrite(conn: &Connection, how: Scrub) -> Result<Scrubbed> {
    let (before, free) = (bytes(conn)?, free(conn)?);
    let (wanted, too_large) = match how {
        Scrub::Leftovers => (before <= REWRITTEN, before > REWRITTEN),
        Scrub::Room => (free >= WORTHWHILE && free * 2 > before, false),
        Scrub::All => (true, false),
    };
    let mut scrubbed = Scrubbed::default();
    if wanted {
        // The copy would be made in memory otherwise.
        conn.pragma_update(None, "temp_store", "FILE")?;
        let written = conn.execute_batch("VACUUM");
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        match written {
            Ok(()) => {}
            Err(error) if how == Scrub::All => return Err(error.into()),
            Err(error) => {
                scrubbed.left = Some(format!(
                    "the file could not be written anew ({error}); its free pages are overwritten"
                ));
            }
        }
    }
    if too_large {
        scrubbed.left = Some(
            "the file is larger than 1 GiB and was not written anew: rows that were moved within it may have left bytes; \
             `redrive compact` removes them"
                .to_owned(),
        );
    }
    let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy != 0 {
        scrubbed.left = Some(
            "another process uses the store: its log keeps what was removed until that process ends or the command is \
             given again"
                .to_owned(),
        );
    }
    let now = bytes(conn)?;
    scrubbed.given_back = u64::try_from(before - now).unwrap_or(0);
    scrubbed.bytes = u64::try_from(now).unwrap_or(0);
    scrubbed.free = u64::try_from(self::free(conn)?).unwrap_or(0);
    Ok(scrubbed)
}

fn free(conn: &Connection) -> Result<i64> {
    Ok(number(conn, "freelist_count")? * number(conn, "page_size")?)
}

fn bytes(conn: &Connection) -> Result<i64> {
    Ok(number(conn, "page_count")? * number(conn, "page_size")?)
}

fn number(conn: &Connection, pragma: &str) -> Result<i64> {
    Ok(conn.pragma_query_value(None, pragma, |row| row.get(0))?)
}
