//! A collection, and a run whose items write into it.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::event::{Event, ItemReply};
use redrive_core::id::ContentHash;
use redrive_core::index::{
    Chunk, ChunkPlace, CollectionNo, DocKey, Effect, KeptVector, ModelNo, Over, Publish, VectorKey,
};
use redrive_core::item::{Item, NewItem};
use redrive_core::vector::{Hit, Quantised};
use redrive_store::index::{
    Collection, Doc, FoundChunk, NearestQuery, NewCollection, Scope, Seen, SeenAs, SeenStamp, WordsQuery,
};
use redrive_store::{Applied, Change, Commit, RunChange, Submit};

use super::Both;
use crate::world::{START, STORE, World};

/// Dimensions of the vectors that [`Shelf::put`] keeps.
pub(super) const DIMENSIONS: usize = 4;

/// A collection to be made.
pub(super) fn new_collection(root: &str, model: &str) -> NewCollection {
    NewCollection {
        root: root.to_owned(),
        model: model.to_owned(),
        dimensions: 4,
        settings: format!("{{\"at\": \"{model}\"}}"),
    }
}

/// A version that is named.
pub(super) fn version(name: &str) -> ContentHash {
    ContentHash::of(&[b"version", name.as_bytes()])
}

/// The name of the vector of a text.
pub(super) fn key_of(model: ModelNo, text: &str) -> VectorKey {
    VectorKey { model, text: ContentHash::of(&[text.as_bytes()]) }
}

/// Keeps the vector of a text.
pub(super) fn keep(model: ModelNo, text: &str, codes: [i8; DIMENSIONS]) -> Effect {
    let vector = Quantised { codes: codes.to_vec(), scale: 0.5 };
    Effect::Keep(Arc::new(KeptVector { key: key_of(model, text), vector }))
}

/// A document of a collection.
pub(super) fn doc(collection: CollectionNo, path: &str) -> DocKey {
    DocKey { collection, path: path.into() }
}

/// A file as it was seen.
pub(super) fn seen(path: &str, size: u64, modified_ms: Option<i64>) -> Seen {
    let hash = version(path);
    let stamp =
        modified_ms.map(|modified_ms| SeenStamp { modified_ms, changed_ns: i64::MIN, inode: u64::MAX });
    Seen { path: path.into(), kind: "text".to_owned(), seen: SeenAs { size, stamp, hash } }
}

/// A store, a collection in it, and a run whose items write into it.
pub(super) struct Shelf {
    pub(super) both: Arc<dyn Both>,
    pub(super) world: World,
    pub(super) collection: Collection,
    items: u64,
}

impl Shelf {
    pub(super) async fn new(both: Arc<dyn Both>) -> Self {
        let world = World::new(both.clone()).await;
        let collection =
            both.open_collection(new_collection("/here", "m"), START).await.expect("a collection");
        Self { both, world, collection, items: 0 }
    }

    pub(super) fn no(&self) -> CollectionNo {
        self.collection.no
    }

    pub(super) fn model(&self) -> ModelNo {
        self.collection.model_no
    }

    /// Another collection in the same store.
    pub(super) async fn other(&self, root: &str, model: &str) -> Collection {
        self.both.open_collection(new_collection(root, model), START).await.expect("a collection")
    }

    /// Items that are running, for effects to come from.
    pub(super) async fn running(&mut self, count: usize) -> Vec<Item> {
        let first = self.items;
        self.items += count as u64;
        let items = (first..self.items).map(|n| NewItem::new(format!("item {n}"), Vec::new(), n));
        let submit = Submit { stage: STORE, items: items.collect(), ..self.world.submission(&[]) };
        self.both.submit(submit).await.expect("submit");
        let held: Vec<Item> =
            self.world.claim(STORE, count).await.into_iter().map(|held| held.item).collect();
        assert_eq!(held.len(), count);
        held
    }

    /// The change of an item that passes with an effect.
    pub(super) fn change(&self, item: &Item, effect: Effect) -> Change {
        self.world.decide(item, Event::Finished(ItemReply::Indexed(effect, None))).into()
    }

    /// Commits these changes, each of which has to be written.
    pub(super) async fn commit(&self, changes: Vec<Change>) {
        let count = changes.len();
        let commit = Commit { changes, now: self.world.now, ..Commit::default() };
        assert_eq!(self.both.commit(commit).await, Ok(vec![Applied::Done; count]));
    }

    /// Writes effects, in this order.
    pub(super) async fn write(&mut self, effects: Vec<Effect>) {
        let items = self.running(effects.len()).await;
        let changes = items.iter().zip(effects).map(|(item, effect)| self.change(item, effect)).collect();
        self.commit(changes).await;
    }

    /// Sees to it that an effect is refused, with its outcome.
    pub(super) async fn refuses(&mut self, effect: Effect) {
        let items = self.running(1).await;
        let changes = vec![self.change(&items[0], effect)];
        let commit = Commit { changes, now: self.world.now, ..Commit::default() };
        let refused = self.both.commit(commit).await;
        assert_eq!(refused, Err(redrive_store::Error::IndexReplaced));
    }

    /// A chunk of the collection, named by its key and found by the vector of its text.
    pub(super) fn chunk(&self, path: &str, key: &str, of: &str, text: &str) -> Chunk {
        Chunk {
            doc: doc(self.no(), path),
            edition: version(of),
            key: key.into(),
            place: ChunkPlace { ordinal: 0, page: None, lines: (1, 2), bytes: (0, text.len() as u64) },
            context: String::new(),
            text: text.to_owned(),
            vector: Some(key_of(self.model(), text)),
        }
    }

    /// Puts a chunk whose vector is kept before it.
    pub(super) async fn put(&mut self, chunk: Chunk) {
        let vector = Quantised { codes: vec![1, 2, 3, 4], scale: 0.5 };
        let kept = chunk.vector.map(|key| Effect::Keep(KeptVector { key, vector }.into()));
        self.write(kept.into_iter().chain([Effect::Put(chunk.into())]).collect()).await;
    }

    /// Puts a chunk with this text.
    pub(super) async fn put_text(&mut self, path: &str, key: &str, of: &str, text: &str) {
        self.put(self.chunk(path, key, of, text)).await;
    }

    pub(super) async fn publish(&mut self, path: &str, of: &str, mark: i64) {
        let publish = Publish {
            doc: doc(self.no(), path),
            version: version(of),
            edition: version(of),
            over: Over::Any,
            facts: None,
            mark,
        };
        self.write(vec![Effect::Publish(publish)]).await;
    }

    pub(super) async fn doc(&self, path: &str) -> Option<Doc> {
        let docs = self.both.docs(self.no(), vec![path.into()]).await.expect("docs");
        docs.into_iter().next().expect("one answer")
    }

    pub(super) async fn docs(&self) -> Vec<Doc> {
        self.both.docs_after(self.no(), 0, usize::MAX).await.expect("docs")
    }

    /// Everywhere in a collection.
    pub(super) fn within(collection: CollectionNo) -> Scope {
        Scope { collections: vec![collection], ..Scope::default() }
    }

    pub(super) async fn nearest(&self, codes: &[i8], scope: Scope, count: usize) -> Vec<Hit> {
        let vector = Quantised { codes: codes.to_vec(), scale: 1.0 };
        let query = NearestQuery { model: self.model(), vector, scope, count };
        self.both.nearest(query).await.expect("nearest")
    }

    /// All chunks of a collection that has the model of this one, by number.
    pub(super) async fn chunks_in(&self, collection: CollectionNo) -> Vec<FoundChunk> {
        let hits = self.nearest(&[0; DIMENSIONS], Self::within(collection), usize::MAX).await;
        let chunks = self.both.chunks(hits.iter().map(|hit| hit.id).collect()).await.expect("chunks");
        assert_eq!(chunks.len(), hits.len());
        chunks
    }

    pub(super) async fn chunks(&self) -> Vec<FoundChunk> {
        self.chunks_in(self.no()).await
    }

    /// Path and key of all chunks.
    pub(super) async fn keys(&self) -> Vec<String> {
        self.chunks().await.iter().map(|chunk| format!("{}/{}", chunk.path, chunk.key)).collect()
    }

    /// The numbers of the vector that a chunk is found by.
    pub(super) async fn vector_of(&self, id: i64) -> Vec<f32> {
        let mut numbers = Vec::new();
        for dimension in 0..DIMENSIONS {
            let mut codes = [0; DIMENSIONS];
            codes[dimension] = 1;
            let hits = self.nearest(&codes, Self::within(self.no()), usize::MAX).await;
            numbers.extend(hits.iter().find(|hit| hit.id == id).map(|hit| hit.score));
        }
        numbers
    }

    /// Keys of the chunks that a search for these words finds.
    pub(super) async fn containing(&self, words: &[&str], scope: Scope) -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let hits = self.both.containing(WordsQuery { words, scope, count: usize::MAX }).await.expect("words");
        let ids: BTreeSet<i64> = hits.iter().map(|hit| hit.id).collect();
        assert_eq!(ids.len(), hits.len(), "a chunk is found once");
        assert!(hits.windows(2).all(|two| two[0].score >= two[1].score), "best first: {hits:?}");
        let found = self.both.chunks(hits.iter().map(|hit| hit.id).collect()).await.expect("chunks");
        found.into_iter().map(|chunk| chunk.key).collect()
    }

    /// Where a word is found in the collection.
    pub(super) async fn word(&self, word: &str) -> Vec<String> {
        self.containing(&[word], Self::within(self.no())).await
    }

    /// Finishes the run, or lets it go on.
    pub(super) async fn finish(&self, finished: bool) {
        let change = if finished { RunChange::finished(START) } else { RunChange::goes_on() };
        let row = self.both.change_run(self.world.run, change).await.expect("change");
        assert_eq!(row.finished_at.is_some(), finished);
    }

    pub(super) async fn assert_whole(&self) {
        assert_eq!(self.both.index_faults(99).await, Ok(Vec::new()));
    }
}
