//! A store that may not be written can be read as it is, and nothing is made beside it.
//!
//! These tests use the ways that are chosen for such files directly, because permissions mean nothing to root; the tests of
//! the binary drop to another user.

#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Error, ItemQuery, Store};

use crate::life::{NOW, block_on, grown, new_run, submission};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn count(store: &SqliteStore) -> Result<usize, Error> {
    block_on(store.items(ItemQuery { limit: 9_999, ..ItemQuery::default() })).map(|items| items.len())
}

/// Opens a store as somebody does who may not write it.
fn as_a_guest(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open_without_writing(path, Options::default())
}

#[test]
fn a_store_at_rest_is_read_without_leaving_anything_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = grown(folder.path());
    let path = folder.path().join("grown.db");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    let before = names(folder.path());
    let store = as_a_guest(&path).unwrap();
    assert!(store.is_read_only());
    assert!(count(&store).unwrap() > 100);
    assert_eq!(block_on(store.damage(9)), Ok(Vec::new()));
    let refused = block_on(store.create_run(new_run(), NOW));
    assert!(matches!(&refused, Err(Error::ReadOnly(path)) if path.contains("grown.db")), "{refused:?}");
    assert_eq!(names(folder.path()), before);
    drop(store);
    assert_eq!(names(folder.path()), before);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_guest_reads_what_is_in_the_log_of_a_working_neighbour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    let owner = SqliteStore::open(&path, Options::default()).unwrap();
    let run = block_on(owner.create_run(new_run(), NOW)).unwrap().id;
    let mut next = 0;
    let mut guest = None;
    for round in 0..20 {
        block_on(owner.submit(submission(run, next..next + 10, 500))).unwrap();
        next += 10;
        let reads = guest.get_or_insert_with(|| as_a_guest(&path).unwrap());
        assert_eq!(count(reads), Ok(usize::try_from(next).unwrap()), "round {round}");
    }
    let guest = guest.unwrap();
    let held = block_on(guest.snapshot()).unwrap().store;
    block_on(owner.submit(submission(run, next..next + 10, 500))).unwrap();
    let seen = block_on(held.items(ItemQuery { limit: 9_999, ..ItemQuery::default() })).unwrap();
    assert_eq!(seen.len(), usize::try_from(next).unwrap(), "a snapshot stays");
    assert_eq!(count(&guest), Ok(usize::try_from(next).unwrap() + 10));
}

#[test]
fn a_file_that_is_written_while_it_is_read_alone_gives_no_answers() {
    let folder = tempfile::tempdir().unwrap();
    grown(folder.path());
    let path = folder.path().join("grown.db");
    let guest = as_a_guest(&path).unwrap();
    let before = count(&guest).unwrap();
    let owner = SqliteStore::open(&path, Options::default()).unwrap();
    let run = block_on(owner.create_run(new_run(), NOW)).unwrap().id;
    block_on(owner.submit(submission(run, 0..10, 500))).unwrap();
    drop(owner);
    let refused = count(&guest);
    assert!(matches!(&refused, Err(Error::Busy(text)) if text.contains("grown.db")), "{refused:?}");
    assert_eq!(count(&as_a_guest(&path).unwrap()), Ok(before + 10), "opened again, it is as it is now");
}

#[test]
fn a_log_without_its_memory_is_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    let owner = SqliteStore::open(&path, Options::default()).unwrap();
    let run = block_on(owner.create_run(new_run(), NOW)).unwrap().id;
    block_on(owner.submit(submission(run, 0..10, 500))).unwrap();
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("shared.db-wal"), folder.path().join("copy.db-wal")).unwrap();
    let error = as_a_guest(&copy).unwrap_err();
    assert!(error.to_string().contains("copy.db-wal holds what is not in the file yet"), "{error}");
    assert!(!folder.path().join("copy.db-shm").exists());
    assert_eq!(count(&SqliteStore::open_to_read(&copy, Options::default()).unwrap()), Ok(10));
}
