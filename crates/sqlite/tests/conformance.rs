//! The store passes the suite that every store passes, in memory and in a file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_sqlite::{Options, SqliteStore, Synchronous};

#[test]
fn in_memory_store_conforms() {
    redrive_conformance::run(|| Arc::new(SqliteStore::in_memory().expect("a store")));
}

#[test]
fn in_memory_index_conforms() {
    redrive_conformance::run_index(|| Arc::new(SqliteStore::in_memory().expect("a store")));
}

/// Makes stores in files of their own.
fn in_files(folder: &Path) -> impl Fn() -> Arc<SqliteStore> {
    let number = AtomicUsize::new(0);
    // What a commit waits for does not change what it means, and this suite commits some ten thousand times.
    let options = Options { synchronous: Synchronous::Normal, ..Options::default() };
    move || {
        let name = format!("{}.db", number.fetch_add(1, Ordering::Relaxed));
        Arc::new(SqliteStore::open(&folder.join(name), options).expect("a store"))
    }
}

#[test]
fn store_in_a_file_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = in_files(folder.path());
    redrive_conformance::run(|| make());
}

#[test]
fn index_in_a_file_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = in_files(folder.path());
    redrive_conformance::run_index(|| make());
}
