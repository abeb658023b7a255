//! Searching by meaning: what is found is what looking at every chunk would find.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::index::{Chunk, Effect, KeptVector, ModelNo, VectorKey};
use redrive_core::vector::{Hit, Quantised};
use redrive_store::index::{NearestQuery, Scope};

use super::Both;
use super::shelf::{Shelf, doc, keep, key_of};
use crate::oracle::dice::Dice;

/// Everything that a search could find, kept beside the store.
#[derive(Default)]
struct Expected {
    vectors: BTreeMap<VectorKey, Quantised>,
    /// A chunk, its number and the number of its document.
    chunks: Vec<(Chunk, i64, i64)>,
}

impl Expected {
    /// Looks at every chunk, sums in whole numbers, and sorts all of them.
    fn nearest(&self, query: &NearestQuery) -> Vec<Hit> {
        let mut hits: Vec<Hit> = Vec::new();
        for (chunk, id, doc) in &self.chunks {
            let scope = &query.scope;
            let within = scope.collections.contains(&chunk.doc.collection)
                && scope.docs.as_ref().is_none_or(|docs| docs.contains(doc))
                && scope.page.is_none_or(|page| chunk.place.page == Some(page));
            let key = chunk.vector.expect("each has one here");
            let vector = &self.vectors[&key];
            if !within || key.model != query.model || vector.codes.len() != query.vector.codes.len() {
                continue;
            }
            let pairs = vector.codes.iter().zip(&query.vector.codes);
            let sum: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            hits.push(Hit { id: *id, score: sum as f32 * (vector.scale * query.vector.scale) });
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        hits.truncate(query.count);
        hits
    }
}

fn codes(dice: &mut Dice, dimensions: usize) -> Vec<i8> {
    // Few values, so that scores are often equal.
    (0..dimensions).map(|_| i8::try_from(dice.below(7)).expect("small") - 3).collect()
}

/// Several hundred chunks of 60 texts in three collections and two models, most of them forgotten again.
async fn filled(shelf: &mut Shelf, dice: &mut Dice) -> Expected {
    let same = shelf.other("/same", "m").await;
    let other = shelf.other("/other", "n").await;
    let homes = [(shelf.no(), shelf.model(), 4), (same.no, shelf.model(), 4), (other.no, other.model_no, 6)];
    let mut expected = Expected::default();
    let mut effects = Vec::new();
    for (_, model, dimensions) in &homes[1..] {
        for text in 0..60 {
            let vector = Quantised { codes: codes(dice, *dimensions), scale: 0.25 };
            let key = key_of(*model, &format!("text {text}"));
            effects.push(Effect::Keep(Arc::new(KeptVector { key, vector: vector.clone() })));
            expected.vectors.insert(key, vector);
        }
    }
    let mut chunks = Vec::new();
    for n in 0..500 {
        let (collection, model, _) = dice.of(&homes);
        let path = format!("doc {}", dice.below(12));
        let text = format!("text {}", dice.below(60));
        let mut chunk = shelf.chunk(&path, &format!("k{n}"), "1", &text);
        (chunk.doc.collection, chunk.vector) = (collection, Some(key_of(model, &text)));
        chunk.place.page = [None, Some(1), Some(2)][dice.index(3)];
        effects.push(Effect::Put(Arc::new(chunk.clone())));
        chunks.push(chunk);
    }
    for (collection, _, _) in homes {
        for path in ["doc 3", "doc 7"] {
            effects.push(Effect::Forget(doc(collection, path)));
            chunks.retain(|chunk| chunk.doc != doc(collection, path));
        }
    }
    shelf.write(effects).await;
    let mut ids = BTreeMap::new();
    for (collection, model, dimensions) in homes {
        let vector = Quantised { codes: vec![0; dimensions], scale: 1.0 };
        let query = NearestQuery { model, vector, scope: Shelf::within(collection), count: usize::MAX };
        let hits = shelf.both.nearest(query).await.expect("nearest");
        for found in shelf.both.chunks(hits.iter().map(|hit| hit.id).collect()).await.expect("chunks") {
            ids.insert((doc(collection, &found.path), found.key), found.id);
        }
    }
    for chunk in chunks {
        let id = ids[&(chunk.doc.clone(), chunk.key.to_string())];
        let docs = shelf.both.docs(chunk.doc.collection, vec![chunk.doc.path.clone()]).await.expect("docs");
        let no = docs[0].as_ref().expect("there").no;
        expected.chunks.push((chunk, id, no));
    }
    assert_eq!(ids.len(), expected.chunks.len(), "what was forgotten is not found");
    expected
}

pub(super) async fn nearest_equals_looking_at_every_chunk(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let mut dice = Dice::new(7);
    let expected = filled(&mut shelf, &mut dice).await;
    let all: Vec<_> = shelf.both.collections().await.expect("all").iter().map(|one| one.no).collect();
    let numbers: Vec<i64> =
        expected.chunks.iter().map(|(_, _, no)| *no).collect::<BTreeSet<i64>>().into_iter().collect();
    let mut found = 0;
    for round in 0..200 {
        let (here, other) = (shelf.model(), ModelNo(shelf.model().0 + 1));
        let games = [(here, 4), (here, 4), (here, 4), (other, 6), (other, 6), (here, 6), (ModelNo(99), 4)];
        let (model, dimensions) = dice.of(&games);
        let vector = Quantised { codes: codes(&mut dice, dimensions), scale: dice.of(&[0.5, 1.0]) };
        let docs = dice
            .one_in(3)
            .then(|| (0..dice.below(12)).map(|_| dice.of(&numbers)).chain([-1]).collect::<BTreeSet<i64>>());
        let collections = all.iter().copied().filter(|_| !dice.one_in(3)).collect();
        let page = [None, None, None, Some(1), Some(2), Some(3)][dice.index(6)];
        let count = dice.of(&[0, 1, 2, 3, 10, 50, 300, 10_000, usize::MAX]);
        let query = NearestQuery { model, vector, scope: Scope { collections, docs, page }, count };
        let hits = shelf.both.nearest(query.clone()).await.expect("nearest");
        assert_eq!(hits, expected.nearest(&query), "round {round}: {query:?}");
        found += usize::from(!hits.is_empty());
    }
    assert!(found > 50, "{found} searches found something");
    shelf.assert_whole().await;
}

pub(super) async fn equals_go_by_number_of_the_chunk(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    // The vectors are numbered the other way round than the chunks that use them.
    let texts: Vec<String> = (0..20).map(|n| format!("text {n}")).collect();
    shelf.write(texts.iter().rev().map(|text| keep(model, text, [1, 2, 3, 4])).collect()).await;
    let chunks = texts.iter().map(|text| Effect::Put(shelf.chunk("a", text, "1", text).into())).collect();
    shelf.write(chunks).await;
    let ids: Vec<i64> = shelf.chunks().await.iter().map(|chunk| chunk.id).collect();
    assert!(ids.is_sorted() && ids.len() == 20);
    for count in [1, 2, 19, 20, 21] {
        let hits = shelf.nearest(&[1, 1, 1, 1], Shelf::within(shelf.no()), count).await;
        let found: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
        assert_eq!(found, ids[..count.min(20)], "the first {count} of equals");
    }
}

pub(super) async fn unused_vectors_take_no_places(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    let better: Vec<Effect> =
        (0..300).map(|n| keep(model, &format!("unused {n}"), [100, 100, 100, 100])).collect();
    shelf.write(better).await;
    for n in 0..3 {
        shelf.put_text("a", &format!("k{n}"), "1", &format!("text {n}")).await;
    }
    for count in 1..5 {
        let hits = shelf.nearest(&[1, 1, 1, 1], Shelf::within(shelf.no()), count).await;
        assert_eq!(hits.len(), count.min(3));
    }
}

pub(super) async fn shared_texts_are_found_in_every_document(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for n in 0..40 {
        shelf.put_text(&format!("copy {n}"), "k", "1", "the same text").await;
    }
    assert_eq!(shelf.both.size(shelf.no()).await.expect("size").vectors, 1);
    let hits = shelf.nearest(&[1, 0, 0, 0], Shelf::within(shelf.no()), 25).await;
    assert!(hits.len() == 25 && hits.is_sorted_by_key(|hit| hit.id));
    let nos: Vec<i64> = shelf.docs().await.iter().map(|doc| doc.no).collect();
    let only = Scope { docs: Some(nos[30..33].iter().copied().collect()), ..Shelf::within(shelf.no()) };
    let hits = shelf.nearest(&[1, 0, 0, 0], only, 25).await;
    let found = shelf.both.chunks(hits.iter().map(|hit| hit.id).collect()).await.expect("chunks");
    let paths: Vec<&str> = found.iter().map(|chunk| &*chunk.path).collect();
    assert_eq!(paths, ["copy 30", "copy 31", "copy 32"]);
}
