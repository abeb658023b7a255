//! What is at a path, told from the outside: nothing that is looked at is changed, and nothing is waited for.

use std::fs::{File, FileType, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use redrive_store::Error;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// "RDRV": says that a file is ours.
pub(crate) const APPLICATION_ID: i32 = 0x5244_5256;
const HEADER: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Longest path that SQLite takes, less what it adds for the names beside the file.
const LONGEST_PATH: usize = 512 - LONGEST_SUFFIX;
/// Longest name of a file, less the same.
const LONGEST_NAME: usize = 255 - LONGEST_SUFFIX;
const LONGEST_SUFFIX: usize = "-journal".len();

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A file of no bytes.
    Empty,
    /// A database that nobody has put anything into.
    Blank,
    /// A store of ours, as far as its first bytes tell.
    Ours,
}

/// The file of that name with something added.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Says what is at a path, without SQLite touching it.
pub(crate) fn look(path: &Path) -> Result<Found, Error> {
    refuse_long(path)?;
    let Some(file) = regular(path)? else { return Ok(Found::Nothing) };
    if file.len() == 0 { Ok(Found::Empty) } else { whose(path) }
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    Error::Open(format!("{}: {error}", path.display()))
}

/// SQLite says of a path that is too long only that it cannot be opened.
fn refuse_long(path: &Path) -> Result<(), Error> {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().len();
    let name = path.file_name().map_or(0, |name| name.as_encoded_bytes().len());
    if name > LONGEST_NAME {
        let told = path.display();
        return Err(Error::Open(format!(
            "{told}: its name has {name} bytes, more than the {LONGEST_NAME} that leave room for the names beside it"
        )));
    }
    let whole = std::path::absolute(path).map_or_else(|_| bytes(path), |whole| bytes(&whole));
    if whole > LONGEST_PATH {
        let told = path.display();
        return Err(Error::Open(format!(
            "{told}: its path has {whole} bytes, more than the {LONGEST_PATH} that SQLite takes"
        )));
    }
    Ok(())
}

/// The file at a path; nothing but a file is opened, because opening some of the others waits for ever.
fn regular(path: &Path) -> Result<Option<Metadata>, Error> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file)),
        Ok(other) => {
            Err(Error::Open(format!("{} is {}, not a file", path.display(), kind(other.file_type()))))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match std::fs::read_link(path) {
            Ok(target) => Err(Error::Open(format!(
                "{} is a symbolic link to {}, which is not there",
                path.display(),
                target.display()
            ))),
            Err(_) => Ok(None),
        },
        Err(error) => Err(refused(path, &error)),
    }
}

fn kind(of: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if of.is_fifo() {
            return "a named pipe";
        }
        if of.is_socket() {
            return "a socket";
        }
        if of.is_char_device() || of.is_block_device() {
            return "a device";
        }
    }
    if of.is_dir() { "a directory" } else { "something else" }
}

/// Says whose file it is, from its first bytes.
fn whose(path: &Path) -> Result<Found, Error> {
    let refused = |error: std::io::Error| refused(path, &error);
    let mut header = Vec::with_capacity(HEADER);
    let file = File::open(path).map_err(refused)?;
    (&file).take(HEADER as u64).read_to_end(&mut header).map_err(refused)?;
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
            Ok(Found::Blank)
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
