//! Copies of a store in files of their own.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Error, ItemQuery, MemoryStore, Store};

use crate::life::{NOW, block_on, grown, new_run};

fn silent() -> redrive_store::CopyHeard {
    Arc::new(|_, _| {})
}

#[test]
fn a_copy_holds_what_the_store_held_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    grown(folder.path());
    let store = SqliteStore::open(&folder.path().join("grown.db"), Options::default()).unwrap();
    let to = tempfile::tempdir().unwrap();
    let file = to.path().join("copy.db");
    fs::write(&file, "").unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let bytes = block_on(
        store.copy_into(file.clone(), Arc::new(move |done, all| hears.lock().unwrap().push((done, all)))),
    );
    assert_eq!(bytes, Ok(fs::metadata(&file).unwrap().len()));
    let heard = heard.lock().unwrap();
    assert_eq!(heard.last(), Some(&(bytes.clone().unwrap(), bytes.unwrap())), "{heard:?}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
    let all = || ItemQuery { limit: 99_999, ..ItemQuery::default() };
    let items = block_on(store.items(all())).unwrap();
    assert!(items.len() > 100);
    // What is written later is in the store only.
    block_on(store.create_run(new_run(), NOW)).unwrap();
    let copy = SqliteStore::open_existing(&file, Options::default()).unwrap();
    assert_eq!(block_on(copy.items(all())), Ok(items));
    let runs = |of: &SqliteStore| block_on(of.runs(Default::default(), None, 99)).unwrap().len();
    assert_eq!(runs(&copy) + 1, runs(&store));
    assert_eq!(block_on(copy.damage(9)), Ok(Vec::new()));
}

#[test]
fn a_copy_is_not_begun_again_because_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    grown(folder.path());
    let store = Arc::new(SqliteStore::open(&folder.path().join("grown.db"), Options::default()).unwrap());
    let file = folder.path().join("copy.db");
    fs::write(&file, "").unwrap();
    let (writer, told) = (store.clone(), Arc::new(AtomicU64::new(0)));
    let counted = told.clone();
    // Between any two steps of the copy somebody writes.
    let heard = Arc::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        let writer = writer.clone();
        let written = std::thread::spawn(move || block_on(writer.create_run(new_run(), NOW)).map(drop));
        assert_eq!(written.join().unwrap(), Ok(()));
    });
    let runs = |of: &SqliteStore| block_on(of.runs(Default::default(), None, 999)).unwrap().len();
    let before = runs(&store);
    let bytes = block_on(store.copy_into(file.clone(), heard)).unwrap();
    assert!(told.load(Ordering::SeqCst) <= bytes / 4_096 / 1_000 + 1);
    let copy = SqliteStore::open_existing(&file, Options::default()).unwrap();
    assert_eq!(runs(&copy), before, "it is as it was at the first moment");
    assert!(runs(&store) > before);
}

#[test]
fn a_copy_goes_into_an_empty_file_only() {
    let folder = tempfile::tempdir().unwrap();
    grown(folder.path());
    let store = SqliteStore::open(&folder.path().join("grown.db"), Options::default()).unwrap();
    let (full, missing) = (folder.path().join("full"), folder.path().join("missing"));
    fs::write(&full, "mine").unwrap();
    for file in [&full, &missing] {
        for refused in [
            block_on(store.copy_into(file.clone(), silent())),
            block_on(MemoryStore::new().copy_into(file.clone(), silent())),
        ] {
            assert!(matches!(&refused, Err(Error::Open(_))), "{refused:?}");
        }
    }
    assert_eq!(fs::read(&full).unwrap(), b"mine");
    assert!(!missing.exists());
}
