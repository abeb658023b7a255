//! Looks at a store's file without changing it.

use std::path::Path;

use crate::look::{Found, beside, look};

/// The version of the SQLite library that is built in.
#[must_use]
pub fn library_version() -> &'static str {
    rusqlite::version()
}

/// How long the log beside a store is. It begins anew when nobody reads what is in it any more.
#[must_use]
pub fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}

/// Whether a file is a store, as far as its first bytes tell.
#[must_use]
pub fn is_store(path: &Path) -> bool {
    look(path).is_ok_and(|found| found == Found::Ours)
}
