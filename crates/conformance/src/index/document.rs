//! Files as they are known.

use std::sync::Arc;

use redrive_store::Error;
use redrive_store::index::{Doc, Refused, Seen, SeenAs};

use super::Both;
use super::shelf::{Shelf, seen, version};

/// Paths that a store must neither fold, normalise nor take for a pattern.
const ODD_PATHS: [&str; 20] = [
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "a/b",
    "a\\b",
    "a//b",
    "./a",
    "%",
    "a%",
    "_",
    "it's \"quoted\"; DROP TABLE doc",
    "e\u{301}.txt",
    "\u{e9}.txt",
    "Stra\u{df}e",
    "STRASSE",
    "new\nline",
    "\u{1f9ea}\u{200d}\u{fe0f}",
];

fn refused(path: &str, of: &str, why: &str) -> Refused {
    Refused { path: path.into(), version: version(of), why: why.to_owned() }
}

pub(super) async fn files_come_back_as_they_were_seen(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    let most = i64::MAX.cast_unsigned();
    let looks = [
        (0, None),
        (1, Some(0)),
        (u64::from(u32::MAX) + 1, Some(-1)),
        (most, Some(i64::MAX)),
        (most - 1, Some(i64::MIN)),
    ];
    let all: Vec<Seen> =
        looks.iter().enumerate().map(|(n, (size, time))| seen(&format!("file {n}"), *size, *time)).collect();
    shelf.both.observe(shelf.no(), all.clone()).await.expect("observe");
    let docs = shelf.docs().await;
    assert_eq!(docs.len(), all.len());
    for (doc, seen) in docs.iter().zip(all) {
        let expected = Doc {
            no: doc.no,
            path: seen.path.clone(),
            kind: seen.kind.clone(),
            seen: Some(seen.seen),
            published: None,
            mark: 0,
            rev: 0,
            looks: 0,
            refused: None,
            facts: None,
        };
        assert_eq!(*doc, expected);
        assert_eq!(shelf.doc(&seen.path).await, Some(expected));
    }
}

pub(super) async fn odd_paths_are_paths_of_their_own(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for (n, path) in ODD_PATHS.iter().enumerate() {
        shelf.both.observe(shelf.no(), vec![seen(path, n as u64, None)]).await.expect("observe");
        shelf.put_text(path, "k", "1", &format!("text {n}")).await;
        assert_eq!(shelf.docs().await.len(), n + 1, "{path:?} is new");
    }
    let docs = shelf.docs().await;
    for (n, (doc, path)) in docs.iter().zip(ODD_PATHS).enumerate() {
        assert_eq!((&*doc.path, doc.seen.map(|seen| seen.size)), (path, Some(n as u64)));
    }
    let chunks = shelf.chunks().await;
    let paths: Vec<&str> = chunks.iter().map(|chunk| &*chunk.path).collect();
    assert_eq!(paths, ODD_PATHS);
    for (n, path) in ODD_PATHS.into_iter().enumerate() {
        shelf.publish(path, "2", 1).await;
        assert_eq!(shelf.chunks().await.len(), ODD_PATHS.len() - n - 1, "{path:?} and no other");
    }
}

pub(super) async fn documents_come_in_pages(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    let there = shelf.other("/there", "m").await;
    for n in 0..25 {
        let path = format!("{:02}", (n * 7) % 25);
        shelf.both.observe(shelf.no(), vec![seen(&path, n, None)]).await.expect("observe");
        shelf.both.observe(there.no, vec![seen(&path, 99, None)]).await.expect("observe");
    }
    for limit in [1, 4, 25, 26, 1_000] {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page = shelf.both.docs_after(shelf.no(), after, limit).await.expect("docs");
            assert!(page.len() <= limit && page.iter().all(|doc| doc.no > after));
            let Some(last) = page.last() else { break };
            after = last.no;
            all.extend(page);
        }
        assert!(all.windows(2).all(|two| two[0].no < two[1].no), "by number");
        let sizes: Vec<u64> = all.iter().filter_map(|doc| Some(doc.seen?.size)).collect();
        assert_eq!(sizes, (0..25).collect::<Vec<u64>>(), "each once, and none of another collection");
    }
    assert_eq!(shelf.both.docs_after(shelf.no(), 0, 0).await, Ok(Vec::new()));
    assert_eq!(shelf.both.docs_after(shelf.no(), i64::MAX, 9).await, Ok(Vec::new()));
    assert_eq!(shelf.both.docs_after(shelf.no(), i64::MIN, 99).await.expect("docs").len(), 25);
}

pub(super) async fn documents_come_in_the_order_asked_for(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    let there = shelf.other("/there", "m").await;
    shelf.both.observe(shelf.no(), vec![seen("a", 1, None), seen("b", 2, None)]).await.expect("observe");
    shelf.both.observe(there.no, vec![seen("c", 3, None)]).await.expect("observe");
    let asked = ["b", "c", "a", "b", "B"].map(Arc::from).to_vec();
    let docs = shelf.both.docs(shelf.no(), asked).await.expect("docs");
    let paths: Vec<Option<&str>> = docs.iter().map(|doc| doc.as_ref().map(|doc| &*doc.path)).collect();
    assert_eq!(paths, [Some("b"), None, Some("a"), Some("b"), None]);
}

pub(super) async fn a_refusal_does_not_mark_what_is_published(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.both.refuse(shelf.no(), vec![refused("a", "1", "a secret")]).await.expect("refuse");
    let doc = shelf.doc("a").await.expect("a refusal makes its document");
    assert_eq!((doc.refused, doc.seen, doc.rev), (Some((version("1"), "a secret".to_owned())), None, 0));
    shelf.publish("a", "2", 1).await;
    let published = shelf.doc("a").await.expect("there");
    assert_eq!(published.refused, None);
    shelf.both.refuse(shelf.no(), vec![refused("a", "2", "late")]).await.expect("refuse");
    assert_eq!(shelf.doc("a").await, Some(published.clone()));
    let both = vec![refused("a", "3", "too large"), refused("b", "1", ""), refused("a", "2", "late")];
    shelf.both.refuse(shelf.no(), both).await.expect("refuse");
    let expected = Some((version("3"), "too large".to_owned()));
    assert_eq!(shelf.doc("a").await, Some(Doc { refused: expected, ..published }));
    assert_eq!(shelf.doc("b").await.expect("there").refused, Some((version("1"), String::new())));
    assert_eq!(shelf.both.size(shelf.no()).await.expect("size").refused, 2);
}

pub(super) async fn the_first_reason_of_a_refusal_stays(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    for why in ["first", "second"] {
        shelf.both.refuse(shelf.no(), vec![refused("a", "1", why)]).await.expect("refuse");
    }
    let why = |doc: Option<Doc>| doc.and_then(|doc| doc.refused);
    assert_eq!(why(shelf.doc("a").await), Some((version("1"), "first".to_owned())));
    shelf.both.refuse(shelf.no(), vec![refused("a", "2", "another version")]).await.expect("refuse");
    assert_eq!(why(shelf.doc("a").await), Some((version("2"), "another version".to_owned())));
}

pub(super) async fn a_collection_that_is_gone_takes_no_refusal(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    shelf.both.drop_collection(shelf.no()).await.expect("drop");
    let refusal = shelf.both.refuse(shelf.no(), vec![refused("a", "1", "why")]).await;
    assert_eq!(refusal, Err(Error::IndexReplaced));
    assert_eq!(shelf.both.refuse(shelf.no(), Vec::new()).await, Ok(()));
}

pub(super) async fn looking_again_replaces_how_it_looked(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.both.observe(shelf.no(), vec![seen("a", 1, Some(1))]).await.expect("observe");
    shelf.publish("a", "1", 5).await;
    let before = shelf.doc("a").await.expect("there");
    let looked = SeenAs { size: 9, stamp: None, hash: version("other") };
    let again = Seen { path: "a".into(), kind: "rust".to_owned(), seen: looked };
    shelf.both.observe(shelf.no(), vec![seen("a", 4, Some(4)), again]).await.expect("observe");
    let kind = "rust".to_owned();
    let looks = before.looks + 1;
    assert_eq!(
        shelf.doc("a").await,
        Some(Doc { kind, seen: Some(looked), looks, ..before }),
        "one change of content"
    );
    shelf.put_text("a", "k", "1", "text").await;
    assert_eq!(shelf.chunks().await[0].kind, "rust", "a chunk has the kind of its document");
}

pub(super) async fn nothing_asked_is_nothing_answered(both: Arc<dyn Both>) {
    let shelf = Shelf::new(both).await;
    assert_eq!(shelf.both.docs(shelf.no(), Vec::new()).await, Ok(Vec::new()));
    assert_eq!(shelf.both.known(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(shelf.both.chunks(Vec::new()).await, Ok(Vec::new()));
    shelf.both.observe(shelf.no(), Vec::new()).await.expect("observe");
    shelf.both.refuse(shelf.no(), Vec::new()).await.expect("refuse");
    assert_eq!(shelf.docs().await, []);
    assert_eq!(shelf.nearest(&[1, 1, 1, 1], Shelf::within(shelf.no()), 9).await, []);
    shelf.assert_whole().await;
}
