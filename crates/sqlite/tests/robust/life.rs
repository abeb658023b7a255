//! A little work on a store, and a look at what is left of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use redrive_core::id::{ItemId, RunId, StageNo};
use redrive_core::index::CollectionNo;
use redrive_core::item::NewItem;
use redrive_core::order::Order;
use redrive_core::time::Timestamp;
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::index::{Scope, WordsQuery};
use redrive_store::{Claim, Content, Error, Index, ItemQuery, NewRun, NewWorker, Slot, Store, Submit};

use crate::shelf::{chunks, filled};

pub(crate) const NOW: Timestamp = Timestamp(1_000);

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn new_run() -> NewRun {
    NewRun {
        pipeline: "p".to_owned(),
        source: "s".to_owned(),
        category: None,
        priority: 0,
        definition: "text".to_owned(),
        folder: "/".to_owned(),
    }
}

pub(crate) fn submission(run: RunId, keys: std::ops::Range<u64>, size: usize) -> Submit {
    let item = |n: u64| NewItem::new(format!("key {n}"), format!("{n:>size$}").into_bytes(), n);
    Submit {
        reading: redrive_core::reading::Reading::FIRST,
        run,
        stage: StageNo(0),
        items: keys.map(item).collect(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: None,
        now: NOW,
    }
}

pub(crate) async fn all_ids(store: &dyn Store) -> Result<Vec<ItemId>, Error> {
    let items = store.items(ItemQuery { limit: usize::MAX, ..ItemQuery::default() }).await?;
    Ok(items.into_iter().map(|item| item.id).collect())
}

/// The bytes of a store that was worked on and closed.
pub(crate) fn grown(folder: &Path) -> Vec<u8> {
    let path = folder.join("grown.db");
    drop(block_on(filled(&path)));
    let store = Arc::new(SqliteStore::open(&path, Options::default()).unwrap());
    block_on(async {
        let run = store.create_run(new_run(), NOW).await.unwrap().id;
        let new = NewWorker { name: "w".to_owned(), identity: "1".to_owned(), runs: Vec::new() };
        let worker = store.register(new, Timestamp(9_999), NOW).await.unwrap();
        store.submit(submission(run, 0..150, 200)).await.unwrap();
        store.submit(submission(run, 150..160, 5_000)).await.unwrap();
        let slot = Slot { run, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit: 40 };
        store.claim(Claim { worker, slots: vec![slot], pauses: 0, now: NOW }).await.unwrap();
    });
    drop(store);
    fs::read(path).unwrap()
}

/// Opens a file with these bytes and looks at everything in it.
pub(crate) fn survey(bytes: &[u8], path: &Path) -> Result<Vec<String>, Error> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
    fs::write(path, bytes).unwrap();
    let store = SqliteStore::open(path, Options::default())?;
    block_on(async {
        let mut seen = Vec::new();
        for item in store.items(ItemQuery { limit: usize::MAX, ..ItemQuery::default() }).await? {
            let content = store.payload(item.seq).await?;
            if let Some(Content::Damaged(what)) = content {
                return Err(Error::Corrupt(what));
            }
            seen.push(format!("{item:?} {content:?}"));
            seen.push(format!("{:?}", store.history(item.seq).await?));
        }
        seen.push(format!("{:?}", store.counters(RunId(1)).await?));
        seen.push(format!("{:?}", store.workers().await?));
        seen.push(format!("{:?}", store.collections().await?));
        seen.push(format!("{:?}", store.docs_after(CollectionNo(1), 0, usize::MAX).await?));
        seen.push(format!("{:?}", chunks(&store, CollectionNo(1)).await?));
        let scope = Scope { collections: vec![CollectionNo(1)], ..Scope::default() };
        let words = WordsQuery { words: vec!["text".to_owned(), "7919".to_owned()], scope, count: 99 };
        seen.push(format!("{:?}", store.containing(words).await?));
        Ok(seen)
    })
}
