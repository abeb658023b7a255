//! Opening a file: whose it is, whether it is whole, which schema it has.
//!
//! A file is looked at before anything is written to it. One that is not ours, is damaged, or comes from a newer
//! version is left byte for byte as it was. Our mark (`application_id`) is the first thing a new file gets, in a
//! transaction of its own, so that a crash during creation leaves a file that is known to be ours.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive_store::Error;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Fault, Result};
use crate::migrate::{self, Migration};
use crate::options::Options;

/// "RDRV": says that a file is ours.
pub(crate) const APPLICATION_ID: i32 = 0x5244_5256;
/// Oldest library with every fix to write-ahead logging that we rely on.
const OLDEST_LIBRARY: i32 = 3_051_003;
/// Files up to this size are checked as a whole when they are opened; it takes milliseconds.
const CHECKED_BYTES: u64 = 16 << 20;
/// How long one try to open waits for a neighbour.
const TURN: Duration = Duration::from_millis(40);
const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Opens or creates the file for the one connection that writes.
///
/// Neighbours may open it, create it or close it at the same moment. SQLite answers some of these encounters with
/// "busy" at once, without the wait it was told to make, so the whole is tried again until that wait is over.
pub(crate) fn writer(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
) -> std::result::Result<Connection, Error> {
    check_library()?;
    create_file(path)?;
    let mut turns = options.busy_timeout.as_millis() / TURN.as_millis();
    loop {
        match try_writer(path, options, migrations) {
            Err(Error::Busy(_)) if turns > 0 => turns -= 1,
            opened => return opened,
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "waits for another process; simulated runs open no files"
        )]
        std::thread::sleep(TURN / 4);
    }
}

fn try_writer(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
) -> std::result::Result<Connection, Error> {
    let new = match inspect(path)? {
        Found::New => true,
        Found::Ours => false,
    };
    let open = || -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        // Until the file is known to be good, nothing of its log is moved into it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.busy_timeout(TURN)?;
        if new {
            conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        migrate::refuse_newer(&conn, migrations)?;
        check_whole(&conn, path)?;
        migrate::check_schema(&conn, migrations)?;
        write_ahead(&conn)?;
        settings(&conn, options)?;
        migrate::forward(&conn, migrations, options.crash_hook)?;
        conn.busy_timeout(options.busy_timeout)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        Ok(conn)
    };
    open().map_err(|fault| fault.at(path))
}

/// Opens an existing store for a connection that only reads.
pub(crate) fn reader(path: &Path, options: &Options) -> std::result::Result<Connection, Error> {
    let open = || -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(options.busy_timeout)?;
        settings(&conn, options)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|fault| fault.at(path))
}

/// Opens a store that lives as long as its connection.
pub(crate) fn in_memory(migrations: &[Migration]) -> std::result::Result<Connection, Error> {
    check_library()?;
    let open = || -> Result<Connection> {
        let options = Options::default();
        let conn = Connection::open_in_memory()?;
        settings(&conn, &options)?;
        migrate::forward(&conn, migrations, options.crash_hook)?;
        Ok(conn)
    };
    open().map_err(|fault| fault.at(Path::new(":memory:")))
}

fn check_library() -> std::result::Result<(), Error> {
    if rusqlite::version_number() < OLDEST_LIBRARY {
        return Err(Error::Open(format!(
            "SQLite {} is too old: 3.51.3 or newer is needed",
            rusqlite::version()
        )));
    }
    Ok(())
}

fn write_ahead(conn: &Connection) -> Result<()> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(Error::Open("the file system there does not allow write-ahead logging".to_owned()).into())
}

fn settings(conn: &Connection, options: &Options) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(128);
    conn.pragma_update(None, "synchronous", options.synchronous.pragma())?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    // The log grows to about 16 MB before it is moved into the file: moving it after every few commits was a tenth of all work.
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    if let Some(pages) = options.max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// Makes the folder for its owner only, and the file likewise, where they do not exist.
fn create_file(path: &Path) -> std::result::Result<(), Error> {
    let refused = |what: &Path, error: std::io::Error| Error::Open(format!("{}: {error}", what.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|error| refused(folder, error))?;
    }
    let mut file = OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(refused(path, error)),
        // Made now, or there already: by us before, by a neighbour that starts at the same moment, or by somebody else.
        Ok(_) | Err(_) => Ok(()),
    }
}

enum Found {
    New,
    Ours,
}

/// Says whose file it is, from its first bytes, without SQLite touching it.
fn inspect(path: &Path) -> std::result::Result<Found, Error> {
    let refused = |error: std::io::Error| Error::Open(format!("{}: {error}", path.display()));
    let mut header = Vec::with_capacity(HEADER);
    let file = File::open(path).map_err(refused)?;
    (&file).take(HEADER as u64).read_to_end(&mut header).map_err(refused)?;
    if header.is_empty() {
        return Ok(Found::New);
    }
    let number = |at: usize| header.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let ours = number(68) == Some(APPLICATION_ID.cast_unsigned());
    let damaged = |why: &str| Err(Error::Corrupt(format!("{}: {why}", path.display())));
    if !header.starts_with(MAGIC) {
        return if ours {
            damaged("its header is damaged")
        } else {
            Err(Error::Foreign(path.display().to_string()))
        };
    }
    if header.len() < HEADER {
        return damaged("it was cut off within its header");
    }
    if !ours {
        return if number(68) == Some(0) && is_empty_database(path) {
            Ok(Found::New)
        } else {
            Err(Error::Foreign(path.display().to_string()))
        };
    }
    // Pages that the header counts can be in the log as long as there is one. Looked at in this order (header, log,
    // length), a neighbour that is moving its log into the file right now is not mistaken for damage.
    let page_size = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65_536,
        size => size,
    };
    let promised = page_size * u64::from(number(28).unwrap_or(0));
    let logged = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let length = file.metadata().map_err(refused)?.len();
    if promised > length && !logged {
        return damaged(&format!("it was cut off: {length} of {promised} bytes are there"));
    }
    Ok(Found::Ours)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether a database without a mark is one that nobody has put anything into.
fn is_empty_database(path: &Path) -> bool {
    let look = || -> rusqlite::Result<bool> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(version == 0 && tables == 0)
    };
    look().unwrap_or(false)
}

/// Reads through a small file once, so that damage is found before work is built upon it.
fn check_whole(conn: &Connection, path: &Path) -> Result<()> {
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if length > CHECKED_BYTES {
        return Ok(());
    }
    let verdict: rusqlite::Result<String> = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match verdict.map_err(Fault::from) {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => Err(Error::Corrupt(verdict).into()),
        // A file that is ours and that SQLite cannot make sense of is damaged, whatever SQLite calls it.
        Err(fault) if fault.is_damage() => Err(fault),
        Err(Fault::Sql(rusqlite::Error::SqliteFailure(error, text)))
            if error.code == rusqlite::ErrorCode::Unknown =>
        {
            Err(Error::Corrupt(text.unwrap_or_else(|| error.to_string())).into())
        }
        Err(fault) => Err(fault),
    }
}
