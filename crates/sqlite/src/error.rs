//! Where SQLite's errors become the store's: the only file that knows both.

use std::path::Path;

use redrive_store::Error;
use redrive_store::sql::Unknown;
use rusqlite::ErrorCode;

/// What a verb can fail with, before it is known which file it happened to.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite refused.
    Sql(rusqlite::Error),
    /// The verb refused.
    Store(Error),
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Store(Error::Corrupt(format!("a column holds the wrong kind of value: {error}")))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unknown> for Fault {
    fn from(unknown: Unknown) -> Self {
        strange(unknown.what, unknown.code)
    }
}

impl Fault {
    /// The store's error, with the file it happened to.
    pub(crate) fn at(self, path: &Path) -> Error {
        match self {
            Self::Store(Error::Corrupt(text)) => Error::Corrupt(format!("{}: {text}", path.display())),
            Self::Store(error) => error,
            Self::Sql(error) => translate(&error, path),
        }
    }

    /// Whether SQLite found the file damaged, or not to be its own, or a value is not of its kind.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, Error::Corrupt(_)),
            Self::Sql(error) => matches!(translate(error, Path::new("")), Error::Corrupt(_)),
        }
    }

    /// What happened, without the file it happened to.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Store(error) => error.to_string(),
            Self::Sql(error) => error.to_string(),
        }
    }
}

/// A value in a row that this version cannot have written.
pub(crate) fn strange(what: &str, value: impl std::fmt::Display) -> Fault {
    Fault::Store(Error::Corrupt(format!("{value} is not a {what}")))
}

fn translate(error: &rusqlite::Error, path: &Path) -> Error {
    let text = format!("{}: {error}", path.display());
    match error.sqlite_error_code() {
        // A neighbour brings the file forward: a table with a module of its own cannot be opened while its schema changes.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SchemaChanged) => {
            Error::Busy(text)
        }
        Some(ErrorCode::DiskFull) => Error::Full(text),
        Some(ErrorCode::SystemIoFailure) if could_not_grow(error) => Error::Full(format!(
            "{text}; the file could not grow: the disk is full or fails, or a limit on the size of files is reached \
             (`ulimit -f` shows it)"
        )),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Corrupt(text),
        Some(ErrorCode::SystemIoFailure) => Error::Unavailable(text),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Error::Open(text),
        Some(ErrorCode::ReadOnly) => Error::ReadOnly(text),
        _ => match error {
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => Error::Corrupt(text),
            _ => Error::Internal(text),
        },
    }
}

/// Whether it was a write that failed: SQLite knows a full disk by one number of the system's, and a limit on the size of
/// files has another.
fn could_not_grow(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(rusqlite::ffi::SQLITE_IOERR_WRITE | rusqlite::ffi::SQLITE_IOERR_SHMSIZE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn every_refusal_says_what_the_caller_can_do() {
        let path = Path::new("/data/x.db");
        let of = |code| translate(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None), path);
        assert!(matches!(of(ffi::SQLITE_BUSY), Error::Busy(text) if text.contains("/data/x.db")));
        assert!(matches!(of(ffi::SQLITE_BUSY_SNAPSHOT), Error::Busy(_)));
        assert!(matches!(of(ffi::SQLITE_LOCKED), Error::Busy(_)));
        assert!(matches!(of(ffi::SQLITE_SCHEMA), Error::Busy(_)));
        assert!(matches!(of(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(of(ffi::SQLITE_IOERR_WRITE), Error::Full(text) if text.contains("ulimit -f")));
        assert!(matches!(of(ffi::SQLITE_CORRUPT), Error::Corrupt(_)));
        assert!(matches!(of(ffi::SQLITE_NOTADB), Error::Corrupt(_)));
        assert!(matches!(of(ffi::SQLITE_IOERR_FSYNC), Error::Unavailable(_)));
        assert!(matches!(of(ffi::SQLITE_CANTOPEN), Error::Open(_)));
        assert!(matches!(of(ffi::SQLITE_READONLY), Error::ReadOnly(_)));
        assert!(matches!(of(ffi::SQLITE_CONSTRAINT), Error::Internal(_)));
    }
}
