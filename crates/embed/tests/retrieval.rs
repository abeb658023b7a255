//! Whether the built-in model finds what it should: 54 passages with queries that say the same in other words, and
//! with keywords. `model/scripts/evaluate.py` prints the same figures, the teacher's beside them.

use std::collections::HashMap;

use redrive_core::vector::{Nearest, Quantised, dot};
use redrive_embed::{Embedder, builtin};
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    passage: String,
    queries: Vec<String>,
    keywords: Vec<String>,
}

struct Set {
    passages: Vec<String>,
    /// Each with the passage that answers it.
    queries: Vec<(String, usize)>,
    keywords: Vec<(String, usize)>,
}

fn set() -> Set {
    let lines = include_str!("data/retrieval.jsonl").lines();
    let entries: Vec<Entry> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = |kind: fn(&Entry) -> &Vec<String>| {
        let numbered = entries.iter().enumerate();
        numbered.flat_map(|(at, entry)| kind(entry).iter().map(move |query| (query.clone(), at))).collect()
    };
    Set {
        queries: all(|entry| &entry.queries),
        keywords: all(|entry| &entry.keywords),
        passages: entries.into_iter().map(|entry| entry.passage).collect(),
    }
}

/// The passages that were found, best first.
type Ranking = Vec<usize>;

fn by_score(scores: impl Iterator<Item = f32>) -> Ranking {
    let scores: Vec<f32> = scores.collect();
    let mut order: Ranking = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}

fn by_meaning(query: &str, passages: &[Vec<f32>]) -> Ranking {
    let query = builtin().embed(&[query]).unwrap().remove(0);
    by_score(passages.iter().map(|passage| dot(&query, passage)))
}

struct Bm25 {
    counts: Vec<HashMap<String, f32>>,
    lengths: Vec<f32>,
}

impl Bm25 {
    fn new(passages: &[String]) -> Self {
        let count = |passage: &String| {
            let mut counts = HashMap::new();
            words(passage).for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
            counts
        };
        let counts: Vec<HashMap<String, f32>> = passages.iter().map(count).collect();
        Self { lengths: counts.iter().map(|counts| counts.values().sum()).collect(), counts }
    }

    fn search(&self, query: &str) -> Ranking {
        let total = self.counts.len() as f32;
        let mean = self.lengths.iter().sum::<f32>() / total;
        let weight = |word: &String| {
            let with = self.counts.iter().filter(|counts| counts.contains_key(word)).count() as f32;
            (1.0 + (total - with + 0.5) / (with + 0.5)).ln()
        };
        let score = |(counts, length): (&HashMap<String, f32>, &f32)| {
            let one = |word: String| {
                let times = counts.get(&word).copied().unwrap_or(0.0);
                weight(&word) * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / mean))
            };
            words(query).map(one).sum::<f32>()
        };
        let scores: Vec<f32> = self.counts.iter().zip(&self.lengths).map(score).collect();
        let mut ranking = by_score(scores.iter().copied());
        ranking.retain(|passage| scores[*passage] > 0.0);
        ranking
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase)
}

fn fused(rankings: &[Ranking], passages: usize) -> Ranking {
    let mut scores = vec![0.0; passages];
    for ranking in rankings {
        ranking.iter().enumerate().for_each(|(rank, passage)| scores[*passage] += 1.0 / (61.0 + rank as f32));
    }
    by_score(scores.into_iter())
}

/// How many of a hundred queries have their passage first and among the first five, and a hundred times the mean of
/// 1 / rank.
fn quality(queries: &[(String, usize)], search: impl Fn(&str) -> Ranking) -> [f32; 3] {
    let mut sums = [0.0; 3];
    for (query, answer) in queries {
        if let Some(rank) = search(query).iter().position(|passage| passage == answer) {
            sums[0] += f32::from(u8::from(rank == 0));
            sums[1] += f32::from(u8::from(rank < 5));
            sums[2] += 1.0 / (rank as f32 + 1.0);
        }
    }
    sums.map(|sum| sum * 100.0 / queries.len() as f32)
}

#[test]
fn paraphrases_and_keywords_find_their_passages() {
    let set = set();
    assert!(set.queries.len() >= 60 && set.keywords.len() >= 20);
    let texts: Vec<&str> = set.passages.iter().map(String::as_str).collect();
    let vectors = builtin().embed(&texts).unwrap();
    let lexical = Bm25::new(&set.passages);
    let both = |query: &str| fused(&[by_meaning(query, &vectors), lexical.search(query)], texts.len());

    let [_, five, mrr] = quality(&set.queries, |query| by_meaning(query, &vectors));
    assert!(five >= 83.0 && mrr >= 60.0, "built-in, paraphrases: R@5 {five}, MRR {mrr}");
    let [_, lexical_five, _] = quality(&set.queries, |query| lexical.search(query));
    assert!(five > lexical_five + 20.0, "paraphrases: R@5 {five}, of BM25 {lexical_five}");

    let [_, five, mrr] = quality(&set.keywords, |query| by_meaning(query, &vectors));
    assert!(five >= 95.0 && mrr >= 95.0, "built-in, keywords: R@5 {five}, MRR {mrr}");
    let [_, five, mrr] = quality(&set.keywords, both);
    assert!(five >= 95.0 && mrr >= 95.0, "fused, keywords: R@5 {five}, MRR {mrr}");
}

#[test]
fn codes_of_one_byte_find_what_floats_find() {
    let set = set();
    let texts: Vec<&str> = set.passages.iter().map(String::as_str).collect();
    let vectors = builtin().embed(&texts).unwrap();
    let stored: Vec<Quantised> = vectors.iter().map(|vector| Quantised::new(vector)).collect();
    let (mut same, mut total) = (0, 0);
    for (query, _) in set.queries.iter().chain(&set.keywords) {
        let vector = builtin().embed(&[query]).unwrap().remove(0);
        let query_codes = Quantised::new(&vector);
        let mut nearest = Nearest::new(&query_codes, 10);
        stored.iter().zip(0..).for_each(|(row, id)| nearest.look(id, &row.codes, row.scale));
        let hits = nearest.found();
        let exact = &by_meaning(query, &vectors)[..10];
        total += 10;
        same += hits.iter().filter(|hit| exact.contains(&(hit.id as usize))).count();
        for hit in hits {
            assert!((hit.score - dot(&vector, &vectors[hit.id as usize])).abs() < 0.01);
        }
    }
    assert!(same * 100 >= total * 97, "{same} of {total}");
}
