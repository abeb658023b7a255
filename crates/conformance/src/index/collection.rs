//! Directories that are made searchable.

use std::sync::Arc;

use redrive_core::index::{Chunk, CollectionNo, Effect, ModelNo};
use redrive_core::time::Timestamp;
use redrive_store::Error;
use redrive_store::index::{Collection, IndexSize, NewCollection, Refused};

use super::Both;
use super::shelf::{Shelf, keep, key_of, new_collection, seen, version};
use crate::world::START;

pub(super) async fn a_root_is_opened_once(both: Arc<dyn Both>) {
    assert_eq!(both.collections().await, Ok(Vec::new()));
    let new = new_collection("/root", "m");
    let first = both.open_collection(new.clone(), START).await.expect("open");
    assert_eq!((&first.spec, first.created_at), (&new, START));
    let later = Timestamp(START.0 + 1);
    assert_eq!(both.open_collection(new.clone(), later).await, Ok(first.clone()));
    let other = NewCollection { model: "n".to_owned(), dimensions: 9, settings: "{}".to_owned(), ..new };
    assert_eq!(both.open_collection(other, later).await, Ok(first.clone()), "unchanged");
    let second = both.open_collection(new_collection("/other", "m"), later).await.expect("open");
    assert!(second.no != first.no && second.model_no == first.model_no, "a model is shared");
    let third = both.open_collection(new_collection("/third", "n"), later).await.expect("open");
    assert_ne!(third.model_no, first.model_no);
    assert_eq!(both.collections().await, Ok(vec![first, second, third]), "by number");
}

pub(super) async fn settings_change_for_one_collection(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    let other = shelf.other("/there", "m").await;
    let settings = "{\"url\": \"http://x\", \"it's\": \"\u{e9}\"}".to_owned();
    shelf.both.change_settings(shelf.no(), settings.clone()).await.expect("settings");
    shelf.both.change_settings(CollectionNo(4_711), "{}".to_owned()).await.expect("nothing to change");
    let spec = NewCollection { settings, ..shelf.collection.spec.clone() };
    let changed = Collection { spec, ..shelf.collection.clone() };
    assert_eq!(shelf.both.collections().await, Ok(vec![changed.clone(), other]));
    let again = shelf.both.open_collection(shelf.collection.spec.clone(), START).await;
    assert_eq!(again, Ok(changed));
}

pub(super) async fn dimensions_are_learnt_once(both: Arc<dyn Both>) {
    let unknown = |root| NewCollection { dimensions: 0, ..new_collection(root, "m") };
    let first = both.open_collection(unknown("/1"), START).await.expect("open");
    assert_eq!(first.spec.dimensions, 0);
    assert_eq!(both.learn_dimensions(first.model_no, 0).await, Ok(0));
    assert_eq!(both.learn_dimensions(first.model_no, 384).await, Ok(384));
    assert_eq!(both.learn_dimensions(first.model_no, 768).await, Ok(384));
    assert_eq!(both.collections().await.expect("all")[0].spec.dimensions, 384);
    let second = both.open_collection(unknown("/2"), START).await.expect("open");
    assert_eq!(second.spec.dimensions, 384, "they are the model's");
    both.drop_collection(first.no).await.expect("drop");
    both.drop_collection(second.no).await.expect("drop");
    let third = both.open_collection(new_collection("/3", "m"), START).await.expect("open");
    assert_eq!((third.model_no, third.spec.dimensions), (first.model_no, 384), "and stay");
    assert_eq!(both.drop_model("m").await, Ok(false), "it is used");
    both.drop_collection(third.no).await.expect("drop");
    assert_eq!(both.drop_model("m").await, Ok(true));
    assert_eq!(both.drop_model("never").await, Ok(true));
    let fourth = both.open_collection(new_collection("/6", "m"), START).await.expect("open");
    assert_eq!((fourth.model_no, fourth.spec.dimensions), (first.model_no, 4), "until they are forgotten");
    let unasked = NewCollection { dimensions: 0, ..new_collection("/4", "n") };
    let unasked = both.open_collection(unasked, START).await.expect("open");
    let told = both.open_collection(new_collection("/5", "n"), START).await.expect("open");
    assert_eq!((unasked.model_no, told.spec.dimensions), (told.model_no, 4));
    assert_eq!(both.learn_dimensions(told.model_no, 5).await, Ok(4));
    assert!(matches!(both.learn_dimensions(ModelNo(4_711), 5).await, Err(Error::NotFound(_))));
}

pub(super) async fn a_dropped_collection_takes_its_documents(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let other = shelf.other("/there", "m").await;
    for n in 0..5 {
        let chunk = shelf.chunk(&format!("doc {}", n % 2), &format!("k{n}"), "1", &format!("text {n}"));
        let mut elsewhere = chunk.clone();
        elsewhere.doc.collection = other.no;
        shelf.put(chunk).await;
        shelf.put(elsewhere).await;
    }
    let ids: Vec<i64> = shelf.chunks().await.iter().map(|chunk| chunk.id).collect();
    let before = shelf.chunks_in(other.no).await;
    let docs = shelf.both.docs_after(other.no, 0, 9).await;
    shelf.both.drop_collection(shelf.no()).await.expect("drop");
    assert_eq!(shelf.both.collections().await, Ok(vec![other.clone()]));
    assert_eq!((shelf.docs().await, shelf.chunks().await), (Vec::new(), Vec::new()));
    assert_eq!(shelf.both.chunks(ids).await, Ok(Vec::new()));
    assert_eq!(shelf.word("text").await, [""; 0]);
    assert_eq!(shelf.both.size(shelf.no()).await, Ok(IndexSize::default()));
    assert_eq!(shelf.chunks_in(other.no).await, before);
    assert_eq!(shelf.both.docs_after(other.no, 0, 9).await, docs);
    assert_eq!(shelf.both.size(other.no).await.expect("size").vectors, 5, "vectors stay");
    shelf.both.drop_collection(shelf.no()).await.expect("there is nothing to drop");
    shelf.assert_whole().await;
}

pub(super) async fn numbers_of_collections_are_not_given_again(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put_text("a", "k", "1", "text").await;
    let late = Effect::Put(shelf.chunk("a", "late", "1", "text").into());
    let doc = shelf.doc("a").await.expect("there").no;
    shelf.both.drop_collection(shelf.no()).await.expect("drop");
    let again = shelf.other("/here", "m").await;
    assert!(again.no > shelf.no(), "an outcome that comes late must not get into another collection");
    shelf.both.observe(again.no, vec![seen("a", 1, None)]).await.expect("observe");
    let docs = shelf.both.docs_after(again.no, 0, 9).await.expect("docs");
    assert!(docs.len() == 1 && docs[0].no > doc, "{docs:?}");
    shelf.refuses(late).await;
    assert_eq!(shelf.chunks_in(again.no).await, []);
    let late = shelf.both.observe(shelf.no(), vec![seen("a", 1, None)]).await;
    assert_eq!(late, Err(Error::IndexReplaced));
}

pub(super) async fn sizes_are_counted(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let other = shelf.other("/there", "n").await;
    assert_eq!(shelf.both.size(shelf.no()).await, Ok(IndexSize::default()));
    assert_eq!(shelf.both.size(CollectionNo(4_711)).await, Ok(IndexSize::default()));
    for (path, key, text) in [("a", "1", "f\u{fc}nf"), ("a", "2", "abc"), ("b", "1", "abc")] {
        shelf.put_text(path, key, "1", text).await;
    }
    shelf.publish("a", "1", 1).await;
    shelf.publish("empty", "1", 1).await;
    shelf.both.observe(shelf.no(), vec![seen("only seen", 1, None)]).await.expect("observe");
    let refused = Refused { path: "refused".into(), version: version("1"), why: "no".to_owned() };
    shelf.both.refuse(shelf.no(), vec![refused]).await.expect("refuse");
    shelf.write(vec![keep(shelf.model(), "unused", [1; 4]), keep(other.model_no, "abc", [1; 4])]).await;
    shelf.put(Chunk { vector: None, ..shelf.chunk("c", "1", "1", "\u{e1c}") }).await;
    let expected = IndexSize {
        documents: 2,
        refused: 1,
        empty: 1,
        chunks: 4,
        words_only: 1,
        vectors: 3,
        text_bytes: 5 + 3 + 3 + 3,
    };
    assert_eq!(shelf.both.size(shelf.no()).await, Ok(expected));
    assert_eq!(shelf.both.size(other.no).await, Ok(IndexSize { vectors: 1, ..IndexSize::default() }));
    assert_eq!(shelf.both.known(vec![key_of(shelf.model(), "unused")]).await, Ok(vec![true]));
}

pub(super) async fn odd_roots_are_roots_of_their_own(both: Arc<dyn Both>) {
    let mut made = Vec::new();
    for name in crate::gate::ODD_NAMES {
        made.push(both.open_collection(new_collection(name, name), START).await.expect("open"));
    }
    assert_eq!(both.collections().await, Ok(made.clone()));
    for (name, made) in crate::gate::ODD_NAMES.into_iter().zip(&made) {
        assert_eq!((made.spec.root.as_str(), made.spec.model.as_str()), (name, name));
    }
    let mut models: Vec<ModelNo> = made.iter().map(|made| made.model_no).collect();
    models.dedup();
    assert_eq!(models.len(), made.len());
}

pub(super) async fn what_is_made_anew_is_found_until_it_is(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    assert_eq!(shelf.both.renew_collection(new_collection("/nowhere", "m")).await, Ok(false));
    let other = shelf.other("/there", "m").await;
    shelf.put_text("a", "1", "1", "walrus").await;
    shelf.publish("a", "1", 7).await;
    shelf.both.observe(shelf.no(), vec![seen("a", 1, Some(5))]).await.expect("observe");
    let refused = Refused { path: "no".into(), version: version("1"), why: "no".to_owned() };
    shelf.both.refuse(shelf.no(), vec![refused]).await.expect("refuse");
    let before = shelf.doc("a").await.expect("it is there");

    // With the same model nothing changes for whoever searches.
    assert_eq!(shelf.both.renew_collection(shelf.collection.spec.clone()).await, Ok(true));
    assert_eq!(
        (shelf.word("walrus").await, shelf.keys().await),
        (vec!["1".to_owned()], vec!["a/1".to_owned()])
    );
    let after = shelf.doc("a").await.expect("it is there");
    assert_eq!((after.published, after.rev, after.mark), (before.published, before.rev, 0));
    let seen_as = after.seen.expect("it was seen");
    assert_eq!((seen_as.stamp, Some(seen_as.hash)), (None, before.seen.map(|seen| seen.hash)));
    assert_eq!(shelf.doc("no").await.and_then(|doc| doc.refused), None);

    // With another one it is still found by words.
    let new = NewCollection { dimensions: 0, ..new_collection("/here", "n") };
    assert_eq!(shelf.both.renew_collection(new.clone()).await, Ok(true));
    let all = shelf.both.collections().await.expect("all");
    assert_eq!((all[0].no, &all[0].spec), (shelf.no(), &new));
    assert_eq!((&all[1], all[0].model_no != other.model_no), (&other, true));
    assert_eq!(shelf.word("walrus").await, ["1"]);
    shelf.assert_whole().await;
}

pub(super) async fn a_snapshot_of_the_index_refuses_to_be_written(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    let snapshot = shelf.both.snapshot().await.expect("snapshot").index;
    let refused = Refused { path: "a".into(), version: version("1"), why: "no".to_owned() };
    let refusals = [
        snapshot.open_collection(new_collection("/another", "m"), START).await.err(),
        snapshot.renew_collection(shelf.collection.spec.clone()).await.err(),
        snapshot.change_settings(shelf.no(), "{}".to_owned()).await.err(),
        snapshot.drop_collection(shelf.no()).await.err(),
        snapshot.refuse(shelf.no(), vec![refused]).await.err(),
        snapshot.drop_unused_vectors(9).await.err(),
        snapshot.drop_gone_docs(9).await.err(),
    ];
    for (at, refusal) in refusals.iter().enumerate() {
        assert!(matches!(refusal, Some(Error::ReadOnly(_))), "verb {at}: {refusal:?}");
    }
    assert_eq!(shelf.both.collections().await, Ok(vec![shelf.collection.clone()]));
}
