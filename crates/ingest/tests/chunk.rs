//! What holds for the chunks of every document.

use std::collections::HashSet;
use std::path::Path;

use proptest::prelude::*;
use redrive_ingest::chunk::{Chunk, ChunkOptions, chunk};
use redrive_ingest::document::Document;
use redrive_ingest::kind::{Guess, Kind};
use redrive_ingest::parse::{Limits, parse};

fn document(text: &str, name: &str) -> Document {
    let Guess::Is(kind) = Kind::guess(Path::new(name)) else { panic!() };
    parse(text.as_bytes(), kind, &Limits::default()).unwrap()
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Ways to count tokens, some of which do not add up.
const COUNTS: [Count; 5] = [
    words,
    |text| text.chars().count(),
    |text| text.len().div_ceil(4),
    |text| words(text) + 2,
    |text| words(text) + 3 * text.matches('\n').count(),
];

type Count = fn(&str) -> usize;

fn check(document: &Document, options: &ChunkOptions, count: &dyn Fn(&str) -> usize) -> Vec<Chunk> {
    let chunks = chunk(document, options, count);
    let mut covered = vec![false; document.text.len()];
    let mut keys = HashSet::new();
    for (at, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.ordinal as usize, at);
        assert_eq!(chunk.text, document.text[chunk.range.clone()]);
        assert_eq!(chunk.text, chunk.text.trim());
        assert!(!chunk.text.is_empty());
        assert!(keys.insert(chunk.key), "two chunks of one key");
        let first = document.text[..chunk.range.start].matches('\n').count() + 1;
        let last = first + chunk.text.matches('\n').count();
        assert_eq!((chunk.lines.first as usize, chunk.lines.last as usize), (first, last));
        let tokens = count(&chunk.input());
        let joined = chunk.text.replace("\u{200d}👧", "");
        let smallest = joined.chars().filter(|character| !is_mark(*character)).count() <= 1;
        assert!(tokens <= options.max_tokens || smallest, "{tokens} tokens: {:?}", chunk.input());
        assert!(chunk.text.len() <= 16 * options.max_tokens || smallest, "{} bytes", chunk.text.len());
        covered[chunk.range.clone()].fill(true);
    }
    for (at, character) in document.text.char_indices() {
        assert!(character.is_whitespace() || covered[at], "{character:?} at {at} is in no chunk");
    }
    chunks
}

fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{200d}')
}

fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "# Title\n\n",
        "## Section\n\n",
        "### Deeper\n\n",
        "A sentence of some words. ",
        "Another one! ",
        "\n",
        "\n\n",
        "```\ncode line\n\nmore code\n```\n\n",
        "- an item\n",
        "fn name() {\n    body();\n\n    more();\n}\n\n",
        "    indented\n",
        "word ",
        "averyveryveryveryveryveryveryverylongwordwithoutanyspaces",
        "漢字。仮名。",
        "e\u{301}\u{301}",
        "👩\u{200d}👧",
        "\r\n",
        "\t",
        "class A:\n    def x(self):\n        return 1\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "}\n",
        "x",
    ]);
    prop::collection::vec(part, 0..80).prop_map(|parts| parts.concat())
}

fn options() -> impl Strategy<Value = ChunkOptions> {
    (1_usize..60, 0_usize..40, prop_oneof![Just(0_usize), 0_usize..30])
        .prop_map(|(max_tokens, min_tokens, overlap)| ChunkOptions { max_tokens, min_tokens, overlap })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn ranges_coverage_and_budget_hold(text in text(), options in options(), way in 0..COUNTS.len()) {
        for name in ["a.md", "a.txt", "a.rs", "a.html"] {
            check(&document(&text, name), &options, &COUNTS[way]);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_in_one_section_renames_no_other(
        sizes in prop::collection::vec(60_usize..300, 2..8), which in any::<prop::sample::Index>(), grow in 0_usize..100,
    ) {
        let which = which.index(sizes.len());
        let written = |edit: Option<usize>| -> String {
            sizes.iter().enumerate().map(|(at, size)| {
                let (size, word) = if edit == Some(at) { (size + grow, "edited") } else { (*size, "word") };
                let body: String = (0..size).map(|n| format!("{word}{at}x{n}{} ", if n % 9 == 8 { "." } else { "" })).collect();
                format!("## Section {at}\n\n{body}\n\n")
            }).collect()
        };
        let options = ChunkOptions { max_tokens: 80, min_tokens: 20, overlap: 8 };
        let keys = |text: &str| -> Vec<(String, String)> {
            let chunks = check(&document(text, "a.md"), &options, &words);
            chunks.iter().map(|chunk| (chunk.context.clone(), chunk.key.to_string())).collect()
        };
        let (before, after) = (keys(&written(None)), keys(&written(Some(which))));
        let others = |keys: &[(String, String)]| -> Vec<(String, String)> {
            keys.iter().filter(|(context, _)| *context != format!("Section {which}")).cloned().collect()
        };
        prop_assert!(!others(&before).is_empty());
        prop_assert_eq!(others(&before), others(&after));
    }
}

#[test]
fn an_insertion_into_plain_text_or_code_renames_little() {
    let paragraph =
        |n: usize| format!("Paragraph number {n} says {}.\n\n", "this and that ".repeat(3 + n * 7 % 11));
    let item = |n: usize| format!("fn item_{n}() {{\n{}}}\n\n", "    call();\n".repeat(1 + n * 5 % 23));
    for (name, piece) in [("a.txt", &paragraph as &dyn Fn(usize) -> String), ("a.rs", &item)] {
        let before: String = (0..200).map(piece).collect();
        let after = format!("{}{before}", piece(1000));
        let options = ChunkOptions { max_tokens: 120, min_tokens: 20, overlap: 0 };
        let old: HashSet<_> =
            check(&document(&before, name), &options, &words).iter().map(|chunk| chunk.key).collect();
        let new = check(&document(&after, name), &options, &words);
        let kept = new.iter().filter(|chunk| old.contains(&chunk.key)).count();
        assert!(new.len() > 15, "{name}: {}", new.len());
        assert!(kept * 100 >= new.len() * 80, "{name}: {kept} of {} kept", new.len());
    }
}

#[test]
fn sections_carry_their_headings_and_small_ones_are_joined() {
    let long = "Some words that fill a section up. ".repeat(6);
    let text =
        format!("# Guide\n\n## Install\n\n{long}\n\n## Small\n\nA.\n\n## Tiny\n\nB.\n\n## Use\n\n{long}\n");
    let options = ChunkOptions { max_tokens: 64, min_tokens: 16, overlap: 0 };
    let chunks = check(&document(&text, "a.md"), &options, &words);
    let contexts: Vec<&str> = chunks.iter().map(|chunk| chunk.context.as_str()).collect();
    assert_eq!(contexts, ["Guide › Install", "Guide", "Guide › Use"]);
    assert!(chunks[0].text.starts_with("# Guide\n\n## Install"));
    assert_eq!(chunks[1].text, "## Small\n\nA.\n\n## Tiny\n\nB.");
}

#[test]
fn a_large_item_is_cut_at_its_inner_items_and_keeps_its_name() {
    let method = |n: usize| {
        format!(
            "    /// Does {n}.\n    fn method_{n}(&self) {{\n{}    }}\n\n",
            "        work();\n".repeat(12)
        )
    };
    let text = format!("use x;\n\nimpl Large {{\n{}}}\n", (0..20).map(method).collect::<String>());
    let options = ChunkOptions { max_tokens: 60, min_tokens: 10, overlap: 0 };
    let chunks = check(&document(&text, "a.rs"), &options, &words);
    assert!(chunks.len() > 3, "{}", chunks.len());
    for chunk in &chunks[1..] {
        assert_eq!(chunk.context, "impl Large");
        assert!(chunk.text.starts_with("///"), "{}", chunk.text);
    }
}

#[test]
fn overlap_repeats_the_end_of_the_chunk_before() {
    let text: String = (0..200).map(|n| format!("word{n}{} ", if n % 10 == 9 { "." } else { "" })).collect();
    let text = text.replace(". ", ". W");
    let chunks = check(
        &document(&text, "a.txt"),
        &ChunkOptions { max_tokens: 50, min_tokens: 5, overlap: 10 },
        &words,
    );
    for pair in chunks.windows(2) {
        let shared = pair[0].range.end.saturating_sub(pair[1].range.start);
        assert!(shared > 0, "{pair:?}");
        assert!(words(&text[pair[1].range.start..pair[0].range.end]) <= 10);
    }
}

#[test]
fn one_long_line_is_cut_in_reasonable_time() {
    let calls = std::cell::Cell::new(0_usize);
    let count = |text: &str| {
        calls.set(calls.get() + text.len());
        text.len().div_ceil(4)
    };
    let text = "x".repeat(1 << 20);
    let chunks = check(&document(&text, "a.txt"), &ChunkOptions::default(), &count);
    assert_eq!(chunks.len(), (1 << 20) / 1024);
    assert!(calls.get() < 60 << 20, "{} bytes were counted", calls.get());
}

#[test]
fn words_without_end_and_wide_gaps_make_no_endless_chunks() {
    let options = ChunkOptions::default();
    for text in [
        "x".repeat(1 << 20),
        format!("{}\n", "x".repeat(10_000)).repeat(100),
        format!("a{}b", "\n".repeat(1 << 20)),
        format!("e{}", "\u{301}".repeat(1 << 18)),
    ] {
        for name in ["a.txt", "a.md", "a.rs"] {
            let chunks = check(&document(&text, name), &options, &words);
            assert!(chunks.len() > 1, "{name}");
        }
    }
}
