//! Whether a search by meaning and words is as good as the better of the two, whatever is asked.
//!
//! Measured with SQLite's FTS5 (`porter unicode61`) in place of the BM25 below; R@1, R@5 and the mean of 1 / rank:
//!
//! | queries                  | meaning           | words             | plain fusion 1:1  | this fusion       |
//! |--------------------------|-------------------|-------------------|-------------------|-------------------|
//! | 67 paraphrases           | 0.433 0.851 0.616 | 0.075 0.209 0.134 | 0.224 0.597 0.397 | 0.433 0.851 0.616 |
//! | 24 keywords              | 1.000 1.000 1.000 | 1.000 1.000 1.000 | 1.000 1.000 1.000 | 1.000 1.000 1.000 |
//! | 34 names and messages    | 0.588 0.853 0.698 | 0.765 1.000 0.858 | 0.676 0.912 0.805 | 0.882 1.000 0.929 |

use std::collections::HashMap;
use std::io::Read;

use redrive_core::vector::{Hit, Nearest, Quantised};
use redrive_embed::{Embedder, builtin};
use redrive_index::search::fuse::{depth, fused, strength};
use redrive_index::search::words::{Terms, stem};

/// Names, signatures and messages of [`code`], each with the files that answer it.
const CODE: &[(&str, &[&str])] = &[
    ("fn give_way", &["engine/src/admit.rs"]),
    ("OVERSIZED_PHRASES", &["stages/src/openai/profile.rs"]),
    ("with_last_words", &["stages/src/command.rs"]),
    ("give_back_probe", &["core/src/gate/learn.rs"]),
    ("visit_seq", &["stages/src/protocol/place.rs"]),
    ("dot_codes", &["core/src/vector/dot.rs"]),
    ("LONGEST_WAIT", &["engine/src/worker/desk/gates.rs"]),
    ("SECRET_NAMES", &["stages/src/command.rs"]),
    ("enum AdmitError", &["engine/src/admit.rs"]),
    ("trait Dice", &["engine/src/env.rs"]),
    ("struct ChunkPlace", &["core/src/index.rs"]),
    ("blames_input", &["stages/src/openai/profile.rs"]),
    ("Windows1252 note", &["ingest/src/decode.rs"]),
    ("PIECE_LINES", &["engine/src/source/jsonl.rs"]),
    ("the store has schema 9, and this version knows schemas up to 3", &["store/src/error.rs"]),
    ("encrypted: it needs a password", &["ingest/src/parse/mod.rs"]),
    ("text 4 has no word that the model knows", &["embed/src/embedder.rs"]),
    ("some bytes are not UTF-8; they were read as Windows-1252", &["ingest/src/decode.rs"]),
    ("12 items in a row are dead", &["core/src/budget.rs"]),
    ("a symbolic link to a directory above it", &["ingest/src/walk.rs"]),
    ("it changed while it was read", &["ingest/src/read.rs"]),
    ("O_NOFOLLOW", &["ingest/src/read.rs"]),
    ("submit_versions", &["engine/src/admit.rs"]),
    ("SHORTEST_WORD", &["stages/src/secrets.rs"]),
    ("max_line MAX_LINE jsonl", &["engine/src/source/jsonl.rs"]),
    ("Retry-After header", &["stages/src/service.rs", "core/src/classify.rs"]),
    ("fingerprint placeholder", &["core/src/fingerprint.rs"]),
    ("impl Ord for Ranked", &["core/src/vector/nearest.rs"]),
    ("drop_unused_vectors", &["store/src/index.rs", "store/src/memory/index.rs"]),
    ("dot_error_bound", &["core/src/vector/quantise.rs"]),
    ("LastWords LAST_WORDS", &["stages/src/command.rs"]),
    ("StaticModel", &["embed/src/builtin.rs"]),
    ("count_tokens", &["embed/src/embedder.rs", "embed/src/builtin.rs"]),
    ("ELOOP ENXIO", &["ingest/src/read.rs"]),
];

/// Lines of a piece of source code.
const PIECE: usize = 24;

/// Passages, each of a file, as the two indexes know them.
struct Corpus {
    files: Vec<String>,
    texts: Vec<String>,
    vectors: Vec<Quantised>,
    counts: Vec<HashMap<String, f32>>,
    with: HashMap<String, f32>,
}

struct Query {
    text: String,
    files: Vec<String>,
}

impl Corpus {
    fn new(passages: Vec<(String, String)>) -> Self {
        let (files, texts): (Vec<String>, Vec<String>) = passages.into_iter().unzip();
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors =
            builtin().embed_each(&all).into_iter().map(|vector| Quantised::new(&vector.unwrap_or_default()));
        let vectors = vectors.collect();
        let counts: Vec<HashMap<String, f32>> = texts.iter().map(|text| counts(text)).collect();
        let mut with = HashMap::new();
        counts
            .iter()
            .flat_map(HashMap::keys)
            .for_each(|word| *with.entry(word.clone()).or_insert(0.0) += 1.0);
        Self { files, texts, vectors, counts, with }
    }

    fn by_meaning(&self, query: &str) -> Vec<Hit> {
        let vector = Quantised::new(&builtin().embed(&[query]).unwrap()[0]);
        let mut nearest = Nearest::new(&vector, depth(10));
        self.vectors.iter().zip(0..).for_each(|(row, id)| nearest.look(id, &row.codes, row.scale));
        nearest.found()
    }

    /// BM25 as FTS5 has it, over stems.
    fn by_words(&self, query: &str) -> Vec<Hit> {
        let words: Vec<String> = Terms::of(query).lookups().iter().map(|word| stem(word)).collect();
        let total = self.texts.len() as f32;
        let length = |counts: &HashMap<String, f32>| counts.values().sum::<f32>();
        let mean = self.counts.iter().map(length).sum::<f32>() / total;
        let score = |counts: &HashMap<String, f32>| {
            let norm = 1.2 * (0.25 + 0.75 * length(counts) / mean);
            let one = |word: &String| {
                let (times, with) = (counts.get(word)?, self.with.get(word)?);
                let rarity = ((total - with + 0.5) / (with + 0.5)).ln().max(1e-6);
                Some(rarity * times * 2.2 / (times + norm))
            };
            words.iter().filter_map(one).sum::<f32>()
        };
        let mut hits: Vec<Hit> =
            self.counts.iter().zip(0..).map(|(counts, id)| Hit { id, score: score(counts) }).collect();
        hits.retain(|hit| hit.score > 0.0);
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        hits.truncate(depth(10));
        hits
    }

    fn by_both(&self, query: &str) -> Vec<i64> {
        let terms = Terms::of(query);
        let strength = |id: i64| strength(&terms, &self.texts[id as usize]);
        let list = fused(&self.by_meaning(query), &self.by_words(query), strength);
        list.into_iter().map(|(id, _)| id).collect()
    }

    /// R@5 and the mean of 1 / rank.
    fn quality(&self, queries: &[Query], search: impl Fn(&str) -> Vec<i64>) -> [f64; 2] {
        let (mut five, mut reciprocal) = (0.0, 0.0);
        for query in queries {
            let found = search(&query.text);
            if let Some(rank) = found.iter().position(|id| query.files.contains(&self.files[*id as usize])) {
                five += f64::from(u8::from(rank < 5));
                reciprocal += 1.0 / (rank as f64 + 1.0);
            }
        }
        [five, reciprocal].map(|sum| sum / queries.len() as f64)
    }

    /// The quality of meaning, words and both.
    fn qualities(&self, queries: &[Query]) -> [[f64; 2]; 3] {
        let ids = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.id).collect();
        [
            self.quality(queries, |query| ids(self.by_meaning(query))),
            self.quality(queries, |query| ids(self.by_words(query))),
            self.quality(queries, |query| self.by_both(query)),
        ]
    }
}

fn counts(text: &str) -> HashMap<String, f32> {
    let mut counts = HashMap::new();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.for_each(|word| *counts.entry(stem(word)).or_insert(0.0) += 1.0);
    counts
}

/// Fusion is nowhere worse than the better list, but for `slack`.
fn assert_no_worse([meaning, words, both]: [[f64; 2]; 3], slack: f64) {
    for at in 0..2 {
        let better = meaning[at].max(words[at]);
        assert!(both[at] >= better - slack, "meaning {meaning:?}, words {words:?}, both {both:?}");
    }
}

#[test]
fn paraphrases_and_keywords_lose_nothing_by_fusion() {
    let lines = include_str!("../../embed/tests/data/retrieval.jsonl").lines();
    let entries: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let passage = |(at, entry): (usize, &serde_json::Value)| {
        (at.to_string(), entry["passage"].as_str().unwrap().to_owned())
    };
    let corpus = Corpus::new(entries.iter().enumerate().map(passage).collect());
    let queries = |field: &str| -> Vec<Query> {
        let of = |(at, entry): (usize, &serde_json::Value)| -> Vec<Query> {
            let texts = entry[field].as_array().unwrap().iter();
            texts
                .map(|text| Query { text: text.as_str().unwrap().to_owned(), files: vec![at.to_string()] })
                .collect()
        };
        entries.iter().enumerate().flat_map(of).collect()
    };
    let paraphrases = corpus.qualities(&queries("queries"));
    assert_no_worse(paraphrases, 0.02);
    assert!(paraphrases[2][0] >= 0.83 && paraphrases[2][1] >= 0.59, "{paraphrases:?}");
    let keywords = corpus.qualities(&queries("keywords"));
    assert_no_worse(keywords, 0.02);
    assert!(keywords[2][0] >= 0.95, "{keywords:?}");
}

#[test]
fn names_and_messages_are_found_better_by_both() {
    let passages = code();
    let queries: Vec<Query> = CODE
        .iter()
        .map(|(text, files)| Query {
            text: (*text).to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        })
        .collect();
    let qualities = Corpus::new(passages).qualities(&queries);
    assert_no_worse(qualities, 0.03);
    assert!(qualities[2][0] >= 0.9, "{qualities:?}");
    assert!(qualities[2][1] > qualities[1][1] + 0.02, "words in a row should count: {qualities:?}");
}

/// Source files as pieces that end at a blank line if they can. They are this repository's as they once were: figures over
/// a tree that moves would say more about the last change than about the search.
fn code() -> Vec<(String, String)> {
    let packed = include_bytes!("data/code.jsonl.gz");
    let mut lines = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut lines).unwrap();
    let mut passages = Vec::new();
    for line in lines.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let (path, text) = (entry["file"].as_str().unwrap(), entry["text"].as_str().unwrap());
        let mut piece: Vec<&str> = Vec::new();
        for line in text.lines() {
            piece.push(line);
            if piece.len() >= PIECE * 2 || (piece.len() >= PIECE && line.is_empty()) {
                passages.push((path.to_owned(), std::mem::take(&mut piece).join("\n")));
            }
        }
        passages.push((path.to_owned(), piece.join("\n")));
    }
    passages
}
