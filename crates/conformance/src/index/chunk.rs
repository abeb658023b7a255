//! Vectors and chunks.

use std::sync::Arc;

use redrive_core::index::{Chunk, ChunkPlace, Effect, ModelNo};
use redrive_store::index::FoundChunk;

use super::Both;
use super::shelf::{Shelf, doc, keep, key_of, version};

pub(super) async fn the_first_vector_stays(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    let key = key_of(model, "text");
    assert_eq!(shelf.both.known(vec![key]).await, Ok(vec![false]));
    let three = [[1, 2, 3, -4], [127, -127, 0, 0], [9; 4]].map(|codes| keep(model, "text", codes));
    shelf.write(three[..1].to_vec()).await;
    shelf.write(three[1..].to_vec()).await;
    assert_eq!(shelf.both.known(vec![key, key_of(model, "other"), key]).await, Ok(vec![true, false, true]));
    assert_eq!(shelf.both.size(shelf.no()).await.expect("size").vectors, 1);
    let chunk = shelf.chunk("a", "k", "1", "text");
    shelf.write(vec![Effect::Put(chunk.into())]).await;
    let id = shelf.chunks().await[0].id;
    assert_eq!(shelf.vector_of(id).await, [0.5, 1.0, 1.5, -2.0]);
}

pub(super) async fn models_keep_their_vectors_apart(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let other = shelf.other("/there", "n").await;
    assert_ne!(other.model_no, shelf.model());
    shelf.write(vec![keep(shelf.model(), "text", [1, 1, 1, 1])]).await;
    let keys = [shelf.model(), other.model_no, ModelNo(99)].map(|model| key_of(model, "text"));
    assert_eq!(shelf.both.known(keys.to_vec()).await, Ok(vec![true, false, false]));
    shelf.write(vec![keep(other.model_no, "text", [2, 2, 2, 2])]).await;
    assert_eq!(shelf.both.known(keys.to_vec()).await, Ok(vec![true, true, false]));
    for model in [shelf.model(), other.model_no] {
        let mut chunk = shelf.chunk("a", &format!("of {}", model.0), "1", "text");
        chunk.vector = Some(key_of(model, "text"));
        shelf.write(vec![Effect::Put(chunk.into())]).await;
    }
    let found = shelf.chunks().await;
    assert_eq!(found.len(), 1, "a search is for one model");
    assert_eq!(shelf.vector_of(found[0].id).await, [0.5; 4]);
}

pub(super) async fn the_same_key_is_replaced_and_keeps_its_number(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    shelf.write(vec![keep(model, "first", [1, 0, 0, 0]), keep(model, "second", [0, 2, 0, 0])]).await;
    let first = Chunk { context: "heading".to_owned(), ..shelf.chunk("a", "k", "1", "first") };
    let place = ChunkPlace { ordinal: 3, page: Some(4), lines: (5, 6), bytes: (7, 8) };
    let second = Chunk { place, context: "title".to_owned(), ..shelf.chunk("a", "k", "1", "second") };
    shelf.write(vec![Effect::Put(first.into())]).await;
    let before = shelf.chunks().await.remove(0);
    assert_eq!((shelf.word("first").await.len(), shelf.word("heading").await.len()), (1, 1));
    for _ in 0..2 {
        shelf.write(vec![Effect::Put(second.clone().into())]).await;
        let after = shelf.chunks().await;
        let (context, text) = (second.context.clone(), second.text.clone());
        assert_eq!(after, [FoundChunk { place, context, text, ..before.clone() }]);
        assert_eq!(shelf.vector_of(before.id).await, [0.0, 1.0, 0.0, 0.0]);
        for (word, found) in [("first", 0), ("heading", 0), ("second", 1), ("title", 1)] {
            assert_eq!(shelf.word(word).await.len(), found, "{word}");
        }
    }
    shelf.assert_whole().await;
}

pub(super) async fn editions_have_the_same_key_beside_each_other(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for of in ["1", "2"] {
        shelf.put_text("a", "shared", of, "text").await;
        shelf.put_text("a", of, of, &format!("own {of}")).await;
    }
    assert_eq!((shelf.chunks().await.len(), shelf.word("text").await.len()), (4, 2));
    // Whichever is published has all of its own.
    shelf.publish("a", "1", 1).await;
    assert_eq!((shelf.chunks().await.len(), shelf.word("text").await.len()), (2, 1));
    assert_eq!((shelf.word("own").await.len(), shelf.word("2").await.len()), (1, 0));
    shelf.assert_whole().await;
}

pub(super) async fn a_chunk_makes_its_document(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    assert_eq!(shelf.doc("new").await, None);
    shelf.put_text("new", "k", "1", "text").await;
    let doc = shelf.doc("new").await.expect("there");
    assert_eq!((&*doc.path, doc.kind.as_str(), doc.seen, doc.published), ("new", "", None, None));
    assert_eq!((doc.mark, doc.rev, doc.refused), (0, 0, None));
}

pub(super) async fn chunks_come_back_as_they_were_put(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let large = u64::from(u32::MAX) + 5;
    let most = i64::MAX.cast_unsigned();
    let places = [
        ChunkPlace::default(),
        ChunkPlace { ordinal: 1, page: Some(1), lines: (1, 1), bytes: (0, 0) },
        ChunkPlace { ordinal: 2, page: Some(0), lines: (10, 2_000), bytes: (large, large + 1) },
        ChunkPlace { ordinal: u32::MAX, page: Some(u32::MAX), lines: (0, u32::MAX), bytes: (most - 1, most) },
        ChunkPlace { ordinal: 0, page: None, lines: (u32::MAX, u32::MAX), bytes: (most + 1, u64::MAX) },
    ];
    let chunks: Vec<Chunk> = places
        .iter()
        .enumerate()
        .map(|(n, place)| Chunk { place: *place, ..shelf.chunk("a", &format!("k{n}"), "1", "text") })
        .collect();
    for chunk in &chunks {
        shelf.put(chunk.clone()).await;
    }
    let found: Vec<ChunkPlace> = shelf.chunks().await.iter().map(|chunk| chunk.place).collect();
    assert_eq!(found, places);
    shelf.publish("a", "1", 1).await;
    assert_eq!(shelf.chunks().await.len(), places.len());
}

pub(super) async fn odd_texts_come_back_exactly(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let long = "Zeile mit \u{e4} und \u{1f9ea}. ".repeat(50_000);
    assert!(long.len() > 1_000_000);
    let odd = [
        "",
        " ",
        "\r\n\t",
        "it's \"quoted\"; DROP TABLE chunk; --",
        "e\u{301} \u{e9} \u{fe0f}\u{200d}\u{202e}\u{feff}",
        "\u{1}\u{7f}\u{85}\u{2028}\u{fffd}\u{10ffff}\u{e000}",
        "AND OR NOT NEAR(x) * ^ : { } - + \\ % _",
        "trailing \u{0}? no: \u{2400}",
        &long,
    ];
    for (n, text) in odd.iter().enumerate() {
        let context = odd[(n + 1) % odd.len()].to_owned();
        shelf.put(Chunk { context, ..shelf.chunk("a", &format!("k{n}"), "1", text) }).await;
    }
    let found = shelf.chunks().await;
    assert_eq!(found.len(), odd.len());
    for (n, (chunk, text)) in found.iter().zip(odd).enumerate() {
        assert!(chunk.text == text && chunk.context == odd[(n + 1) % odd.len()], "text {n}");
    }
    let bytes: usize = odd.iter().map(|text| text.len()).sum();
    assert_eq!(shelf.both.size(shelf.no()).await.expect("size").text_bytes, bytes as u64);
    let changed: Vec<Chunk> =
        odd.iter().enumerate().map(|(n, _)| shelf.chunk("a", &format!("k{n}"), "1", "plain")).collect();
    for chunk in changed {
        shelf.put(chunk).await;
    }
    assert_eq!((shelf.word("plain").await.len(), shelf.word("zeile").await.len()), (odd.len(), 0));
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
    assert_eq!((shelf.chunks().await.len(), shelf.word("plain").await.len()), (0, 0));
    shelf.assert_whole().await;
}

pub(super) async fn keys_are_names_within_a_document(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let keys = crate::gate::ODD_NAMES;
    for path in ["a", "A"] {
        for key in keys {
            shelf.put_text(path, key, "1", &format!("{path} {key}")).await;
        }
    }
    let found = shelf.chunks().await;
    assert_eq!(found.len(), 2 * keys.len());
    for (n, chunk) in found.iter().enumerate() {
        assert_eq!(chunk.key, keys[n % keys.len()]);
        assert_eq!(chunk.text, format!("{} {}", chunk.path, chunk.key));
    }
}

pub(super) async fn numbers_of_chunks_are_not_given_again(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let mut last = i64::MIN;
    for round in 0..4 {
        let path = format!("doc {}", round % 2);
        shelf.put_text(&path, "k", "1", "text").await;
        let id = shelf.chunks().await.last().expect("there").id;
        assert!(id > last, "{id} after {last}");
        last = id;
        shelf.write(vec![Effect::Forget(doc(shelf.no(), &path))]).await;
        assert_eq!(shelf.both.chunks(vec![id]).await, Ok(Vec::new()));
    }
    assert_eq!(shelf.doc("doc 1").await.expect("there").rev, 2);
    assert_ne!(shelf.doc("doc 1").await.expect("there").published, Some(version("1")));
}

pub(super) async fn a_document_is_read_in_its_order_and_as_it_was_first(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let at = |chunk: Chunk, ordinal| Chunk { place: ChunkPlace { ordinal, ..chunk.place }, ..chunk };
    for (key, ordinal) in [("c", 2), ("a", 0), ("b", 1)] {
        let chunk = at(shelf.chunk("doc", key, "1", key), ordinal);
        shelf.put(chunk).await;
    }
    shelf.put_text("other", "a", "1", "of another").await;
    shelf.publish("doc", "1", 1).await;
    let no = shelf.doc("doc").await.expect("there").no;
    // The next edition is on its way.
    let newer = at(shelf.chunk("doc", "z", "2", "newer"), 0);
    shelf.put(newer).await;
    let both = shelf.both.clone();
    let keys = async |from, limit| {
        let found = both.chunks_of(no, from, limit).await.expect("read");
        found.into_iter().map(|chunk| chunk.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(0, 10).await, ["a", "b", "c"]);
    assert_eq!(keys(1, 1).await, ["b"]);
    assert_eq!(keys(3, 10).await, [""; 0]);
    shelf.publish("doc", "2", 1).await;
    assert_eq!(keys(0, 10).await, ["z"]);
    assert_eq!(shelf.both.chunks_of(9_999, 0, 10).await, Ok(Vec::new()));
}

pub(super) async fn chunks_come_in_the_order_asked_for(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for key in ["a", "b", "c"] {
        shelf.put_text("doc", key, "1", key).await;
    }
    let ids: Vec<i64> = shelf.chunks().await.iter().map(|chunk| chunk.id).collect();
    let asked = vec![ids[2], 9_999, ids[0], ids[2], -1, ids[1]];
    let found = shelf.both.chunks(asked).await.expect("chunks");
    let keys: Vec<&str> = found.iter().map(|chunk| chunk.key.as_str()).collect();
    assert_eq!(keys, ["c", "a", "c", "b"]);
}
