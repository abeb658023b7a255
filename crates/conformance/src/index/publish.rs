//! Documents are completed and forgotten.

use std::sync::Arc;

use redrive_core::index::{Chunk, Effect, Over, Publish, edition};
use redrive_store::index::{Doc, Refused};

use super::Both;
use super::shelf::{Shelf, doc, seen, version};

async fn refuse(shelf: &Shelf, path: &str, of: &str) {
    let refused = Refused { path: path.into(), version: version(of), why: "too large".to_owned() };
    shelf.both.refuse(shelf.no(), vec![refused]).await.expect("refuse");
}

pub(super) async fn publication_prunes_other_versions(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for (key, of) in [("kept", "2"), ("old", "1"), ("older", "0"), ("also kept", "2"), ("stray", "3")] {
        shelf.put_text("a", key, of, &format!("{key} text")).await;
    }
    refuse(&shelf, "a", "1").await;
    shelf.publish("a", "2", -5).await;
    assert_eq!(shelf.keys().await, ["a/kept", "a/also kept"]);
    assert_eq!(shelf.word("text").await.len(), 2);
    assert_eq!(shelf.word("stray").await, [""; 0]);
    let after = shelf.doc("a").await.expect("there");
    assert_eq!((after.published, after.mark, after.rev), (Some(version("2")), -5, 1));
    assert_eq!(after.refused, None);
    shelf.publish("a", "2", i64::MAX).await;
    assert_eq!(shelf.keys().await.len(), 2);
    assert_eq!(shelf.doc("a").await, Some(Doc { mark: i64::MAX, rev: 2, ..after }));
    shelf.assert_whole().await;
}

pub(super) async fn publication_leaves_other_documents_alone(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let there = shelf.other("/there", "m").await;
    for path in ["a", "b", "A"] {
        shelf.put_text(path, "k", "1", path).await;
        refuse(&shelf, path, "9").await;
    }
    let mut same_path = shelf.chunk("a", "k", "1", "a");
    same_path.doc.collection = there.no;
    shelf.put(same_path).await;
    let before = shelf.docs().await;
    let elsewhere = shelf.both.docs_after(there.no, 0, 9).await.expect("docs");
    shelf.publish("a", "2", 1).await;
    assert_eq!(shelf.keys().await, ["b/k", "A/k"]);
    assert_eq!(shelf.docs().await[1..], before[1..]);
    assert_eq!(shelf.chunks_in(there.no).await.len(), 1);
    assert_eq!(shelf.both.docs_after(there.no, 0, 9).await, Ok(elsewhere.clone()));
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
    assert_eq!(shelf.docs().await[1..], before[1..]);
    assert_eq!(shelf.chunks_in(there.no).await.len(), 1);
    assert_eq!(shelf.both.docs_after(there.no, 0, 9).await, Ok(elsewhere));
}

pub(super) async fn a_document_without_chunks_is_published(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.publish("empty", "1", 3).await;
    let empty = shelf.doc("empty").await.expect("there");
    assert_eq!((empty.published, empty.mark, empty.rev, empty.seen), (Some(version("1")), 3, 1, None));
    let size = shelf.both.size(shelf.no()).await.expect("size");
    assert_eq!((size.documents, size.chunks), (1, 0));
}

pub(super) async fn a_forgotten_document_leaves_no_chunks(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.both.observe(shelf.no(), vec![seen("a", 1, Some(2))]).await.expect("observe");
    shelf.put_text("a", "k", "1", "text").await;
    shelf.publish("a", "1", 4).await;
    refuse(&shelf, "a", "2").await;
    let before = shelf.doc("a").await.expect("there");
    assert!(before.seen.is_some() && before.refused.is_some());
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
    let after = shelf.doc("a").await.expect("its row stays");
    assert_eq!((after.published, after.seen, after.refused.clone()), (None, None, None));
    assert_eq!((after.no, after.rev), (before.no, 2));
    assert_eq!((shelf.keys().await.len(), shelf.word("text").await.len()), (0, 0));
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
    assert_eq!(shelf.doc("a").await, Some(Doc { rev: 3, ..after }));
}

pub(super) async fn a_forgotten_document_can_come_back(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for round in 0..3 {
        shelf.put_text("a", "k", "1", "text").await;
        shelf.publish("a", "1", round).await;
        shelf.both.observe(shelf.no(), vec![seen("a", 1, None)]).await.expect("observe");
        let back = shelf.doc("a").await.expect("there");
        assert_eq!((back.published, back.mark, back.rev), (Some(version("1")), round, 2 * round + 1));
        assert_eq!(back.seen, Some(seen("a", 1, None).seen));
        assert_eq!((shelf.keys().await, shelf.word("text").await.len()), (vec!["a/k".to_owned()], 1));
        shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
        assert_eq!(shelf.keys().await.len(), 0);
    }
    assert_eq!(shelf.docs().await.len(), 1);
    shelf.assert_whole().await;
}

pub(super) async fn what_was_never_seen_can_be_forgotten(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let never = doc(shelf.no(), "never");
    let publish = Publish {
        doc: never.clone(),
        version: version("1"),
        edition: version("1"),
        over: Over::Any,
        facts: None,
        mark: 1,
    };
    shelf.write(vec![Effect::Forget(never), Effect::Publish(publish)]).await;
    let there = shelf.doc("never").await.expect("there");
    assert_eq!((there.rev, there.published), (2, Some(version("1"))));
    shelf.assert_whole().await;
}

pub(super) async fn a_late_edition_gives_way(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put_text("a", "k", "1", "one").await;
    shelf.publish("a", "1", 1).await;
    shelf.put_text("a", "k", "2", "two").await;
    shelf.publish("a", "2", 1).await;
    let rev = shelf.doc("a").await.expect("there").rev;
    // Begun before the second was published, and done after it.
    let late = |of: &str, edition: &str, mark: i64| {
        let (version, edition, over) = (version(of), version(edition), Over::Rev(0));
        Effect::Publish(Publish { doc: doc(shelf.no(), "a"), version, edition, over, mark, facts: None })
    };
    let (old, same, cut) = (late("1", "1", 1), late("2", "2", 1), late("2", "2 in halves", 2));
    shelf.put_text("a", "k", "1", "one").await;
    shelf.write(vec![old]).await;
    assert_eq!((shelf.word("one").await.len(), shelf.word("two").await.len()), (0, 1));
    assert_eq!(shelf.doc("a").await.expect("there").rev, rev);
    shelf.write(vec![same]).await;
    assert_eq!(shelf.doc("a").await.expect("there").rev, rev + 1, "the published one may be so again");
    shelf.write(vec![cut]).await;
    assert_eq!(shelf.doc("a").await.expect("there").mark, 1, "the same version cut in another way is not");
    shelf.assert_whole().await;
}

/// Publishes versions of one document in these orders and tells what stays.
pub(super) async fn of_several_contents_the_greatest_stays(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let (mut lesser, mut greater) = (version("1"), version("2"));
    if lesser > greater {
        std::mem::swap(&mut lesser, &mut greater);
    }
    let publish = |path: &str, of, mark, facts: &str| {
        let (doc, over) = (doc(shelf.no(), path), Over::Lesser);
        let edition = edition(of, mark);
        Effect::Publish(Publish { doc, version: of, edition, over, mark, facts: Some(facts.into()) })
    };
    let effects = [
        publish("up", lesser, 1, "lesser"),
        publish("up", greater, 1, "greater"),
        publish("down", greater, 1, "greater"),
        publish("down", lesser, 1, "lesser"),
        publish("anew", greater, 1, "before"),
        publish("anew", greater, 2, "after"),
    ];
    shelf.write(effects.to_vec()).await;
    for (path, mark, facts) in [("up", 1, "greater"), ("down", 1, "greater"), ("anew", 2, "after")] {
        let there = shelf.doc(path).await.expect("there");
        assert_eq!(
            (there.published, there.mark, there.facts.as_deref()),
            (Some(greater), mark, Some(facts)),
            "{path}"
        );
    }
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "up"))]).await;
    assert_eq!(shelf.doc("up").await.expect("its row stays").facts, None);
    shelf.publish("down", "3", 1).await;
    assert_eq!(shelf.doc("down").await.expect("there").facts, None, "what is said no more is not kept");
    shelf.assert_whole().await;
}

/// Copies of a document that differ are on their way together: whichever is published first, the greatest keeps its chunks.
pub(super) async fn of_several_contents_on_their_way_the_greatest_keeps_its_chunks(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let mut versions = [version("1"), version("2"), version("3")];
    versions.sort();
    for (path, order) in [("up", [0, 1, 2]), ("down", [2, 1, 0]), ("mixed", [1, 2, 0])] {
        for (place, of) in versions.iter().enumerate() {
            let chunk = shelf.chunk(path, "k", "1", &format!("{path}{place}"));
            shelf.put(Chunk { edition: edition(*of, 1), ..chunk }).await;
        }
        for place in order {
            let of = versions[place];
            let publish = Publish {
                doc: doc(shelf.no(), path),
                version: of,
                edition: edition(of, 1),
                over: Over::Lesser,
                mark: 1,
                facts: None,
            };
            shelf.write(vec![Effect::Publish(publish)]).await;
        }
        for (place, chunks) in [0, 0, 1].into_iter().enumerate() {
            let found = shelf.word(&format!("{path}{place}")).await;
            assert_eq!(found.len(), chunks, "{path}{place}");
        }
        assert_eq!(shelf.doc(path).await.expect("there").published, Some(versions[2]));
    }
    // Cut anew, what it was before goes.
    let again = shelf.chunk("up", "k", "1", "anew");
    shelf.put(Chunk { edition: edition(versions[2], 2), ..again }).await;
    let publish = Publish {
        doc: doc(shelf.no(), "up"),
        version: versions[2],
        edition: edition(versions[2], 2),
        over: Over::Lesser,
        mark: 2,
        facts: None,
    };
    shelf.write(vec![Effect::Publish(publish)]).await;
    assert_eq!((shelf.word("up2").await.len(), shelf.word("anew").await.len()), (0, 1));
    shelf.assert_whole().await;
}
