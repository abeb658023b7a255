//! A collection in a store, and items that write into it.

use std::path::Path;

use redrive_core::event::ItemReply;
use redrive_core::id::{ContentHash, RunId, WorkerId};
use redrive_core::index::{
    Chunk, ChunkPlace, CollectionNo, DocKey, Effect, KeptVector, ModelNo, Over, Publish, VectorKey,
};
use redrive_core::item::Item;
use redrive_core::vector::Quantised;
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::index::{Collection, FoundChunk, NearestQuery, NewCollection, Scope, WordsQuery};
use redrive_store::{Applied, Commit, Index, Result, Store};

use crate::life::{NOW, new_run, submission};
use crate::pressure::{claim, decided, worker};

pub(crate) struct Shelf {
    pub(crate) store: SqliteStore,
    pub(crate) collection: Collection,
    pub(crate) run: RunId,
    worker: WorkerId,
    next: u64,
}

fn key(model: ModelNo, text: &str) -> VectorKey {
    VectorKey { model, text: ContentHash::of(&[text.as_bytes()]) }
}

impl Shelf {
    pub(crate) async fn open(path: &Path, options: Options) -> Self {
        let store = SqliteStore::open(path, options).unwrap();
        let spec = NewCollection {
            root: "/here".to_owned(),
            model: "m".to_owned(),
            dimensions: 2,
            settings: "{}".to_owned(),
        };
        let collection = store.open_collection(spec, NOW).await.unwrap();
        let run = store.create_run(new_run(), NOW).await.unwrap().id;
        let worker = worker(&store).await;
        Self { store, collection, run, worker, next: 0 }
    }

    pub(crate) fn keep(&self, text: &str) -> Effect {
        let vector = Quantised { codes: vec![3, -4], scale: 0.5 };
        Effect::Keep(KeptVector { key: key(self.collection.model_no, text), vector }.into())
    }

    pub(crate) fn doc(&self, path: &str) -> DocKey {
        DocKey { collection: self.collection.no, path: path.into() }
    }

    pub(crate) fn put(&self, path: &str, name: &str, text: &str) -> Effect {
        let chunk = Chunk {
            doc: self.doc(path),
            edition: ContentHash::of(&[b"1"]),
            key: name.into(),
            place: ChunkPlace::default(),
            context: format!("above {name}"),
            text: text.to_owned(),
            vector: Some(key(self.collection.model_no, text)),
        };
        Effect::Put(chunk.into())
    }

    pub(crate) fn publish(&self, path: &str) -> Effect {
        Effect::Publish(Publish {
            doc: self.doc(path),
            version: ContentHash::of(&[b"1"]),
            edition: ContentHash::of(&[b"1"]),
            over: Over::Any,
            facts: None,
            mark: 1,
        })
    }

    /// Items that are running.
    pub(crate) async fn running(&mut self, count: usize) -> Vec<Item> {
        let keys = self.next..self.next + count as u64;
        self.next = keys.end;
        self.store.submit(submission(self.run, keys, 10)).await.unwrap();
        claim(&self.store, self.run, self.worker, count).await
    }

    pub(crate) async fn commit(&self, items: &[Item], effects: Vec<Effect>) -> Result<Vec<Applied>> {
        let decide = |(item, effect): (&Item, Effect)| decided(item, ItemReply::Indexed(effect, None)).into();
        let changes = items.iter().zip(effects).map(decide).collect();
        self.store.commit(Commit { changes, now: NOW, ..Commit::default() }).await
    }

    pub(crate) async fn write(&mut self, effects: Vec<Effect>) {
        let items = self.running(effects.len()).await;
        let answers = self.commit(&items, effects).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Applied::Done));
    }

    pub(crate) async fn chunks(&self) -> Vec<FoundChunk> {
        chunks(&self.store, self.collection.no).await.unwrap()
    }

    /// Keys of the chunks in which words are found, best first.
    pub(crate) async fn containing(&self, words: &[&str]) -> Vec<String> {
        let scope = Scope { collections: vec![self.collection.no], ..Scope::default() };
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let hits = self.store.containing(WordsQuery { words, scope, count: 99 }).await.unwrap();
        let found = self.store.chunks(hits.iter().map(|hit| hit.id).collect()).await.unwrap();
        found.into_iter().map(|chunk| chunk.key).collect()
    }
}

/// The chunks of a collection of the first model, by number.
pub(crate) async fn chunks(store: &SqliteStore, collection: CollectionNo) -> Result<Vec<FoundChunk>> {
    let scope = Scope { collections: vec![collection], ..Scope::default() };
    let vector = Quantised { codes: vec![0, 0], scale: 1.0 };
    let query = NearestQuery { model: ModelNo(1), vector, scope, count: usize::MAX };
    let ids = store.nearest(query).await?.iter().map(|hit| hit.id).collect();
    store.chunks(ids).await
}

/// A shelf with a few documents, in a file.
pub(crate) async fn filled(path: &Path) -> Shelf {
    let mut shelf = Shelf::open(path, Options::default()).await;
    for n in 0..40 {
        let (doc, text) = (format!("doc {}", n % 8), format!("text {n} with some words in it {}", n * 7_919));
        let effects = vec![shelf.keep(&text), shelf.put(&doc, &format!("k{n}"), &text), shelf.publish(&doc)];
        shelf.write(effects).await;
    }
    shelf
}
