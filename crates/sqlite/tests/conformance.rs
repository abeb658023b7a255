//! The store passes the suite that every store passes, in memory and in a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_sqlite::{Options, SqliteStore, Synchronous};

#[test]
fn in_memory_store_conforms() {
    redrive_conformance::run(|| Arc::new(SqliteStore::in_memory().expect("a store")));
}

#[test]
fn store_in_a_file_conforms() {
    let folder = tempfile::tempdir().expect("a folder");
    let number = AtomicUsize::new(0);
    // What a commit waits for does not change what it means, and this suite commits some ten thousand times.
    let options = Options { synchronous: Synchronous::Normal, ..Options::default() };
    redrive_conformance::run(|| {
        let name = format!("{}.db", number.fetch_add(1, Ordering::Relaxed));
        Arc::new(SqliteStore::open(&folder.path().join(name), options).expect("a store"))
    });
}
