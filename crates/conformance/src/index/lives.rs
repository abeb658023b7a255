//! The index under test against the one in memory: the same random effects leave the same documents and chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::index::{ChunkPlace, CollectionNo, Effect, Over, Publish};
use redrive_store::MemoryStore;
use redrive_store::index::{Doc, FoundChunk, IndexSize, Refused};

use super::Both;
use super::shelf::{DIMENSIONS, Shelf, doc, keep, key_of, seen, version};
use crate::oracle::dice::Dice;

/// Steps of one case; the three cases together write some five thousand effects.
const STEPS: usize = 400;
/// Steps between two comparisons.
const STRIDE: usize = 20;
const TEXTS: u64 = 25;
const ROOTS: [&str; 3] = ["/here", "/there", "/elsewhere"];

pub(super) async fn random_shelves_0(both: Arc<dyn Both>) {
    play(both, 0).await;
}

pub(super) async fn random_shelves_1(both: Arc<dyn Both>) {
    play(both, 1).await;
}

pub(super) async fn random_shelves_2(both: Arc<dyn Both>) {
    play(both, 2).await;
}

async fn play(both: Arc<dyn Both>, seed: u64) {
    let mut memory = Life::begin(Arc::new(MemoryStore::new()), seed).await;
    let mut tested = Life::begin(both, seed).await;
    for step in 1..=STEPS {
        assert_eq!(memory.step().await, tested.step().await, "seed {seed}, step {step}");
        if step % STRIDE == 0 {
            let (expected, found) = (memory.dump().await, tested.dump().await);
            assert_eq!(expected, found, "seed {seed}, step {step}");
        }
    }
    // A game in which nothing is pruned, forgotten or dropped proves nothing about those.
    assert!(memory.met.len() == 8 && memory.met.values().all(|times| *times > 2), "{:?}", memory.met);
    assert!(memory.dump().await.iter().any(|shown| shown.chunks.len() > 10), "something is left");
    tested.shelf.assert_whole().await;
}

/// Everything about a collection but its numbers.
#[derive(Debug, PartialEq)]
struct Shown {
    docs: Vec<Doc>,
    chunks: Vec<(FoundChunk, Vec<f32>)>,
    size: IndexSize,
    known: Vec<bool>,
}

/// One player: its dice fall as the other's do.
struct Life {
    shelf: Shelf,
    collections: Vec<CollectionNo>,
    dice: Dice,
    met: BTreeMap<&'static str, usize>,
}

impl Life {
    async fn begin(both: Arc<dyn Both>, seed: u64) -> Self {
        let shelf = Shelf::new(both).await;
        let mut collections = Vec::new();
        for root in ROOTS {
            collections.push(shelf.other(root, "m").await.no);
        }
        Self { shelf, collections, dice: Dice::new(seed), met: BTreeMap::new() }
    }

    /// Does something, and returns what was answered.
    async fn step(&mut self) -> u64 {
        let which = self.dice.index(self.collections.len());
        let collection = self.collections[which];
        let path = format!("doc {}", self.dice.below(6));
        let of = format!("{}", self.dice.below(4));
        let (what, answer) = match self.dice.below(40) {
            0 => {
                self.shelf.both.drop_collection(collection).await.expect("drop");
                self.collections[which] = self.shelf.other(ROOTS[which], "m").await.no;
                ("drop", 0)
            }
            1 | 2 => {
                self.shelf.finish(true).await;
                let gone = self.shelf.both.drop_unused_vectors(usize::MAX).await.expect("drop");
                self.shelf.finish(false).await;
                ("unused", gone)
            }
            3..6 => {
                let time = (!self.dice.one_in(3)).then(|| self.dice.bits().cast_signed());
                let looked = seen(&path, self.dice.below(u64::from(u32::MAX)), time);
                self.shelf.both.observe(collection, vec![looked]).await.expect("observe");
                ("observe", 0)
            }
            6..8 => {
                let refused = Refused { path: path.into(), version: version(&of), why: of };
                self.shelf.both.refuse(collection, vec![refused]).await.expect("refuse");
                ("refuse", 0)
            }
            8..12 => {
                let publish = Publish {
                    doc: doc(collection, &path),
                    version: version(&of),
                    edition: version(&of),
                    over: Over::Any,
                    facts: None,
                    mark: 1,
                };
                self.shelf.write(vec![Effect::Publish(publish)]).await;
                ("publish", 0)
            }
            12 => {
                self.shelf.write(vec![Effect::Forget(doc(collection, &path))]).await;
                ("forget", 0)
            }
            13 => {
                let effect = self.put(collection);
                let item = self.shelf.running(1).await.remove(0);
                let stale = self.shelf.change(&item, effect[1].clone());
                self.shelf.commit(vec![self.shelf.change(&item, effect[0].clone())]).await;
                let late = self.shelf.world.commit(vec![stale.transition]).await;
                ("stale", u64::from(late == [redrive_store::Applied::Stale]))
            }
            _ => {
                let count = 1 + self.dice.below(4);
                let effects = (0..count).flat_map(|_| self.put(collection)).collect();
                self.shelf.write(effects).await;
                ("put", 0)
            }
        };
        *self.met.entry(what).or_default() += 1;
        answer
    }

    /// Keeps a vector and puts a chunk that uses it.
    fn put(&mut self, collection: CollectionNo) -> [Effect; 2] {
        let text = format!("text {}", self.dice.below(TEXTS));
        let codes = [(); DIMENSIONS].map(|()| (self.dice.bits() as u8).cast_signed());
        let (path, of) = (format!("doc {}", self.dice.below(6)), format!("{}", self.dice.below(4)));
        let key = format!("key {}", self.dice.below(8));
        let mut chunk = self.shelf.chunk(&path, &key, &of, &text);
        chunk.doc.collection = collection;
        let page = (!self.dice.one_in(3)).then(|| self.dice.bits() as u32);
        let lines = (self.dice.bits() as u32, self.dice.bits() as u32);
        let bytes = (self.dice.bits(), self.dice.bits());
        chunk.place = ChunkPlace { ordinal: self.dice.bits() as u32, page, lines, bytes };
        [keep(self.shelf.model(), &text, codes), Effect::Put(chunk.into())]
    }

    async fn dump(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        for collection in &self.collections {
            shown.push(self.show(*collection).await);
        }
        shown
    }

    async fn show(&self, collection: CollectionNo) -> Shown {
        let both = &self.shelf.both;
        let mut docs = both.docs_after(collection, 0, usize::MAX).await.expect("docs");
        docs.iter_mut().for_each(|doc| doc.no = 0);
        let chunks = self.shelf.chunks_in(collection).await;
        let mut vectors: BTreeMap<i64, Vec<f32>> = BTreeMap::new();
        for dimension in 0..DIMENSIONS {
            let mut codes = [0; DIMENSIONS];
            codes[dimension] = 1;
            for hit in self.shelf.nearest(&codes, Shelf::within(collection), usize::MAX).await {
                vectors.entry(hit.id).or_default().push(hit.score);
            }
        }
        let blank = |chunk: FoundChunk| {
            let numbers = vectors.remove(&chunk.id).unwrap_or_default();
            (FoundChunk { id: 0, collection: CollectionNo(0), ..chunk }, numbers)
        };
        let keys = (0..TEXTS).map(|n| key_of(self.shelf.model(), &format!("text {n}"))).collect();
        Shown {
            docs,
            chunks: chunks.into_iter().map(blank).collect(),
            size: both.size(collection).await.expect("size"),
            known: both.known(keys).await.expect("known"),
        }
    }
}
