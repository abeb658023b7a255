//! Searching by words.

use std::sync::Arc;

use redrive_core::index::{Chunk, ChunkPlace, Effect};
use redrive_store::index::{Scope, WordsQuery};

use super::Both;
use super::shelf::{Shelf, doc};

const NONE: [&str; 0] = [];

pub(super) async fn words_are_found_in_text_and_context(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let context = "Manual > Brakes".to_owned();
    shelf.put(Chunk { context, ..shelf.chunk("a", "one", "1", "fn parse_header(x: u8) {}") }).await;
    shelf.put_text("a", "two", "1", "Stopping, in an EMERGENCY: 42 metres.").await;
    for word in ["brakes", "Manual", "BRAKES", "parse", "header", "parse_header", "u8"] {
        assert_eq!(shelf.word(word).await, ["one"], "{word}");
    }
    for word in ["emergency", "42", "Emergency:", "in an emergency"] {
        assert_eq!(shelf.word(word).await, ["two"], "{word}");
    }
    for word in ["missing", "emergen", "mergency", "an in"] {
        assert_eq!(shelf.word(word).await, NONE, "{word}");
    }
}

pub(super) async fn operators_are_plain_words(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put_text("a", "plain", "1", "nothing of that kind").await;
    shelf.put_text("a", "odd", "1", "this AND that OR those NOT near text:words").await;
    let odd = [
        "AND",
        "OR",
        "NOT",
        "NEAR",
        "NEAR(",
        "NEAR(a b, 2)",
        "\"",
        "\"\"",
        "\"\"\"",
        "*",
        "th*",
        "^this",
        "-",
        "-this",
        "+",
        ":",
        "text:",
        "context : x",
        "{text} : this",
        "(",
        ")",
        "()",
        "'",
        "it's",
        "\\",
        "%",
        ";",
        "--",
        "",
        " ",
        "\n",
        "a\u{0}b",
        "\u{0}",
        "\u{1f9ea}",
        "\u{301}",
        "!!!",
        "a\"b\"c",
        "\" OR \"that",
        "?1",
    ];
    let scope = Shelf::within(shelf.no());
    for word in odd {
        let found = shelf.containing(&[word], scope.clone()).await;
        assert!(found.len() <= 2, "{word:?}: {found:?}");
        let beside = shelf.containing(&[word, "those"], scope.clone()).await;
        assert!(beside.contains(&"odd".to_owned()), "{word:?} takes nothing from its neighbours");
    }
    for (word, found) in
        [("AND", "odd"), ("or", "odd"), ("NOT", "odd"), ("NEAR(", "odd"), ("\"near\"", "odd")]
    {
        assert_eq!(shelf.word(word).await, [found], "{word}");
    }
    for word in ["*", "noth*x", "\"", "", "-", "text OR nothing", "\" OR \"that\" OR \"", "\u{0}"] {
        assert_eq!(shelf.word(word).await, NONE, "{word:?}");
    }
    shelf.containing(&odd, scope).await;
}

pub(super) async fn words_are_found_within_the_scope(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let there = shelf.other("/there", "m").await;
    for (path, page) in [("a", None), ("b", Some(1)), ("c", Some(2))] {
        let place = ChunkPlace { page, ..ChunkPlace::default() };
        let chunk = Chunk { place, ..shelf.chunk(path, path, "1", "the word") };
        let mut elsewhere = Chunk { key: format!("there {path}").into(), ..chunk.clone() };
        elsewhere.doc.collection = there.no;
        shelf.put(chunk).await;
        shelf.put(elsewhere).await;
    }
    let docs = shelf.docs().await;
    let here = Shelf::within(shelf.no());
    let find = |scope: Scope| {
        let shelf = &shelf;
        async move {
            let mut found = shelf.containing(&["word"], scope).await;
            found.sort_unstable();
            found
        }
    };
    assert_eq!(find(Scope::default()).await, NONE, "in no collection");
    assert_eq!(find(here.clone()).await, ["a", "b", "c"]);
    assert_eq!(find(Shelf::within(there.no)).await, ["there a", "there b", "there c"]);
    let everywhere = Scope { collections: vec![there.no, shelf.no()], ..Scope::default() };
    assert_eq!(find(everywhere.clone()).await.len(), 6);
    assert_eq!(find(Scope { page: Some(1), ..everywhere }).await, ["b", "there b"]);
    assert_eq!(find(Scope { page: Some(9), ..here.clone() }).await, NONE);
    let two = Some([docs[0].no, docs[2].no].into());
    assert_eq!(find(Scope { docs: two.clone(), ..here.clone() }).await, ["a", "c"]);
    assert_eq!(find(Scope { docs: two, page: Some(2), ..here.clone() }).await, ["c"]);
    assert_eq!(find(Scope { docs: Some([].into()), ..here.clone() }).await, NONE);
    for count in 0..5 {
        let query = WordsQuery { words: vec!["word".to_owned()], scope: here.clone(), count };
        assert_eq!(shelf.both.containing(query).await.expect("words").len(), count.min(3));
    }
}

pub(super) async fn replaced_words_are_gone(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let words = ["alpha", "beta", "gamma", "delta"];
    for (round, word) in words.iter().enumerate() {
        let context = format!("above {word}");
        shelf.put(Chunk { context, ..shelf.chunk("a", "k", "1", &format!("{word} and more")) }).await;
        for (other, word) in words.iter().enumerate() {
            assert_eq!(shelf.word(word).await.len(), usize::from(other == round), "{word}");
        }
        assert_eq!(shelf.word("above").await, ["k"]);
    }
    let text = "delta and more";
    shelf.put(Chunk { context: String::new(), ..shelf.chunk("a", "k", "1", text) }).await;
    assert_eq!((shelf.word("above").await.len(), shelf.word("more").await.len()), (0, 1));
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "a"))]).await;
    assert_eq!(shelf.word("more").await, NONE);
}

pub(super) async fn no_words_find_nothing(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let within = Shelf::within(shelf.no());
    assert_eq!(shelf.containing(&["word"], within.clone()).await, NONE, "an empty index");
    shelf.put_text("a", "k", "1", "a word").await;
    assert_eq!(shelf.containing(&[], within.clone()).await, NONE);
    assert_eq!(shelf.containing(&["", " ", "..."], within).await, NONE);
}

pub(super) async fn more_words_rank_first(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for n in 0..8 {
        shelf.put_text("a", &format!("common {n}"), "1", &format!("filler common text {n}")).await;
    }
    shelf.put_text("a", "both", "1", "common and rare text").await;
    shelf.put_text("a", "neither", "1", "something else").await;
    let found = shelf.containing(&["common", "rare"], Shelf::within(shelf.no())).await;
    assert_eq!((found.len(), found[0].as_str()), (9, "both"));
}

pub(super) async fn many_words_are_no_trouble(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put_text("a", "k", "1", "word1999 is here").await;
    let words: Vec<String> = (0..2_000).map(|n| format!("word{n}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(shelf.containing(&words, Shelf::within(shelf.no())).await, ["k"]);
    let long = "x".repeat(100_000);
    assert_eq!(shelf.containing(&[&long, "here"], Shelf::within(shelf.no())).await, ["k"]);
}

pub(super) async fn what_no_word_search_takes_apart_is_found_by_its_parts(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    for (key, text) in [
        ("thai", "เมืองหลวงของประเทศไทยคือกรุงเทพมหานคร"),
        ("chinese", "我们住在北京大学的旁边"),
        ("korean", "서울은 한국의 수도이다"),
        ("emoji", "it is out 🎉 at last"),
        ("sum", "∑ x ≤ ∫ y"),
        ("hash", hash),
    ] {
        shelf.put_text("a", key, "1", text).await;
    }
    for (word, key) in [
        ("กรุงเทพมหานคร", "thai"),
        ("ประเทศ", "thai"),
        ("北京", "chinese"),
        ("边", "chinese"),
        ("수도", "korean"),
        ("🎉", "emoji"),
        ("∫", "sum"),
        ("c15d6c15b0f", "none"),
        ("d15d6c15b0f", "hash"),
        (hash, "hash"),
    ] {
        let expected: &[&str] = if key == "none" { &[] } else { &[key] };
        assert_eq!(shelf.word(word).await, expected, "{word}");
    }
    shelf.put_text("a", "thai", "1", "จบ").await;
    assert_eq!(shelf.word("กรุงเทพมหานคร").await, NONE, "what was replaced is gone");
    assert_eq!(shelf.word("จบ").await, ["thai"]);
    shelf.publish("a", "2", 1).await;
    for word in ["จบ", "北京", "🎉", hash] {
        assert_eq!(shelf.word(word).await, NONE, "{word}");
    }
}

pub(super) async fn a_chunk_without_a_vector_is_found_by_words(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put_text("a", "with", "1", "one").await;
    shelf.put(Chunk { vector: None, ..shelf.chunk("a", "without", "1", "አዲስ አበባ one") }).await;
    assert_eq!(shelf.word("አበባ").await, ["without"]);
    assert_eq!(shelf.containing(&["one"], Shelf::within(shelf.no())).await.len(), 2);
    assert_eq!(shelf.keys().await, ["a/with"], "nothing is near it");
    shelf.publish("a", "1", 1).await;
    assert_eq!(shelf.word("አበባ").await, ["without"], "it is part of its edition");
    let size = shelf.both.size(shelf.no()).await.expect("size");
    assert_eq!((size.chunks, size.words_only, size.empty), (2, 1, 0));
    shelf.assert_whole().await;
    shelf.finish(true).await;
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(0));
}

pub(super) async fn a_vector_can_come_later(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.put(Chunk { vector: None, ..shelf.chunk("a", "it", "1", "text") }).await;
    assert_eq!(shelf.keys().await, NONE);
    shelf.put_text("a", "it", "1", "text").await;
    assert_eq!(shelf.keys().await, ["a/it"]);
    assert_eq!(shelf.both.size(shelf.no()).await.expect("size").words_only, 0);
    shelf.put(Chunk { vector: None, ..shelf.chunk("a", "it", "1", "text") }).await;
    assert_eq!(shelf.keys().await, NONE);
    assert_eq!(shelf.word("text").await, ["it"]);
}
