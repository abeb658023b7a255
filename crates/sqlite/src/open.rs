//! Opening a file: whose it is, whether it is whole, which schema it has.
//!
//! A file is looked at before anything is written to it. One that is not ours, is damaged, or comes from a newer
//! version is left byte for byte as it was. Our mark (`application_id`) is the first thing a new file gets, in a
//! transaction of its own, so that a crash during creation leaves a file that is known to be ours.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use redrive_store::Error;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Fault, Result};
use crate::look::{APPLICATION_ID, Found, look};
use crate::migrate::{self, Migration};
use crate::options::Options;
use crate::way::Way;

/// Oldest library with every fix to write-ahead logging that we rely on.
const OLDEST_LIBRARY: i32 = 3_051_003;
/// Files up to this size are checked as a whole when they are opened; it takes milliseconds.
const CHECKED_BYTES: u64 = 16 << 20;
/// How long one try to open waits for a neighbour.
const TURN: Duration = Duration::from_millis(40);
/// How often a file that has nothing in it yet is looked at again: a neighbour may be making it.
const TURNS_TO_FILL: u128 = 20;
/// A log that grew beyond this, because somebody read for long, is cut to it when it begins anew.
const LOG_BYTES: i64 = 64 << 20;

/// What may be made of a path where there is no store yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A new one.
    Create,
    /// Nothing: it has to be there.
    Refuse,
}

/// Opens or creates the file for the one connection that writes.
///
/// Neighbours may open it, create it or close it at the same moment. SQLite answers some of these encounters with
/// "busy" at once, without the wait it was told to make, so the whole is tried again until that wait is over.
pub(crate) fn writer(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
    missing: Missing,
) -> std::result::Result<Connection, Error> {
    check_library()?;
    let mut turns = options.busy_timeout.as_millis() / TURN.as_millis();
    let mut turns_to_fill = TURNS_TO_FILL;
    loop {
        match try_writer(path, options, migrations, missing) {
            Err(Error::Busy(_)) if turns > 0 => turns -= 1,
            Ok(Tried::Unfilled(_)) if turns_to_fill > 0 => turns_to_fill -= 1,
            Ok(Tried::Unfilled(found)) => return Err(unfilled(path, found)),
            Ok(Tried::Opened(conn)) => return Ok(conn),
            Err(error) => return Err(error),
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "waits for another process; simulated runs open no files"
        )]
        std::thread::sleep(TURN / 4);
    }
}

/// How a try went.
enum Tried {
    Opened(Connection),
    /// There is nothing in it, and nothing is to be put into it.
    Unfilled(Found),
}

fn unfilled(path: &Path, found: Found) -> Error {
    let path = path.display();
    Error::Open(match found {
        Found::Nothing => format!("there is no store at {path}"),
        Found::Empty => format!(
            "{path} is empty: it has 0 bytes. If it was a store, it was cut off, and what it held is gone from it"
        ),
        Found::Blank | Found::Ours => format!("{path} is a database with nothing in it, not a store"),
    })
}

fn try_writer(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
    missing: Missing,
) -> std::result::Result<Tried, Error> {
    let new = match (look(path)?, missing) {
        (Found::Ours, _) => false,
        (found, Missing::Refuse) => return Ok(Tried::Unfilled(found)),
        (Found::Nothing, Missing::Create) => {
            create_file(path)?;
            true
        }
        (Found::Empty | Found::Blank, Missing::Create) => true,
    };
    let open = || -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        // SQLite opens a file that may not be written to be read, and says so only when something is written.
        if conn.is_readonly(rusqlite::MAIN_DB)? {
            return Err(Error::ReadOnly(format!("{} may not be written by this user", path.display())).into());
        }
        // Until the file is known to be good, nothing of its log is moved into it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.busy_timeout(TURN)?;
        if new {
            conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        check_sound(&conn, path, migrations)?;
        write_ahead(&conn)?;
        settings(&conn, options)?;
        migrate::forward(&conn, migrations, options.crash_hook)?;
        conn.busy_timeout(options.busy_timeout)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        Ok(conn)
    };
    open().map(Tried::Opened).map_err(|fault| fault.at(path))
}

/// Refuses a file that a newer version has written, or that is damaged as far as a look at the start can tell.
fn check_sound(conn: &Connection, path: &Path, migrations: &[Migration]) -> Result<()> {
    migrate::refuse_newer(conn, migrations)?;
    check_whole(conn, path)?;
    migrate::check_schema(conn, migrations)
}

/// Opens an existing store for a connection that only reads.
pub(crate) fn reader(path: &Path, options: &Options, way: Way) -> std::result::Result<Connection, Error> {
    let open = || -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = match way.address(path) {
            Some(address) => Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI)?,
            None => Connection::open_with_flags(path, flags)?,
        };
        conn.busy_timeout(options.busy_timeout)?;
        settings(&conn, options)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|fault| fault.at(path))
}

/// Finds the way to a store that this process may not write, and sees whether it can be used as it is.
pub(crate) fn way_to_read(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
) -> std::result::Result<Way, Error> {
    check_library()?;
    match look(path)? {
        Found::Ours => {}
        found => return Err(unfilled(path, found)),
    }
    let way = Way::without_writing(path)?;
    let sound = reader(path, options, way).and_then(|conn| {
        let sound = check_sound(&conn, path, migrations);
        sound.and_then(|()| migrate::refuse_older(&conn, migrations)).map_err(|fault| fault.at(path))
    });
    match (sound, way) {
        (Err(Error::Open(_)), Way::Guest) => {
            let path = path.display();
            Err(Error::Open(format!(
                "{path} cannot be read as it is: {path}-wal holds what is not in the file yet, and to read both \
                 {path}-shm has to be there and readable, or somebody who may write there has to open it once"
            )))
        }
        (sound, way) => sound.map(|()| way),
    }
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
    // A partial index makes SQLite look whether a bound value would let it be used, and prepare the statement anew for every
    // other value. No statement here depends on that: the guarantee that plans stay as they are spares it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "synchronous", options.synchronous.pragma())?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    // What is replaced or removed may be private: its bytes are overwritten, not only unlinked.
    conn.pragma_update(None, "secure_delete", true)?;
    // The log grows to about 16 MB before it is moved into the file: moving it after every few commits was a tenth of all work.
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
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
        let_in(folder, 0o700).map_err(|error| refused(folder, error))?;
    }
    let mut file = OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(path) {
        Ok(_) => let_in(path, 0o600).map_err(|error| refused(path, error)),
        // A neighbour that starts at the same moment has made it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(path, error)),
    }
}

/// Gives the owner back what a strange umask took from what was just made: a store that nobody can open is of no use.
fn let_in(path: &Path, owner: u32) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut now = std::fs::metadata(path)?.permissions();
        if now.mode() & owner != owner {
            now.set_mode(now.mode() | owner);
            std::fs::set_permissions(path, now)?;
        }
    }
    #[cfg(not(unix))]
    let _ = (path, owner);
    Ok(())
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
