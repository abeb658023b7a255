//! Two lists to one.
//!
//! Reciprocal rank fusion with one condition: a hit by words counts as much as it is a match. A question in other words
//! than the text's shares a word or two with many passages, and plain fusion lets those push out what meaning had found;
//! a name or an error message is in its passage as it was written, and there words are the better list. So the weight
//! of a hit by words is the fourth power of the share of the query's words that it has, and three times that when it
//! has them in a row. `tests/search_quality.rs` has the figures that the numbers were chosen by.

use std::collections::{BTreeMap, HashMap};

use redrive_core::vector::Hit;

use super::words::Terms;

/// How little the first ranks differ. Lists are short and their heads are good, hence less than the usual 60.
const K: f64 = 5.0;
/// Weight of a hit that has all words, against one by meaning.
const WORDS: f64 = 2.0;
/// What the words in a row add to that weight.
const PHRASE: f64 = 2.0;
/// How fast the weight falls with the share of words.
const STEEPNESS: i32 = 4;

/// Chunks of one file among the hits, as long as there are other files.
const SAME_FILE: usize = 3;

/// How many candidates each list gives for so many hits.
#[must_use]
pub fn depth(count: usize) -> usize {
    count.saturating_mul(4).max(50)
}

/// How much of a match a text is, from 0 to 1: 1 has all words in a row.
#[must_use]
pub fn strength(terms: &Terms, text: &str) -> f64 {
    let phrase = if terms.has_phrase(text) { PHRASE } else { 0.0 };
    terms.coverage(text).powi(STEEPNESS) * (1.0 + phrase) / (1.0 + PHRASE)
}

/// Makes one list of two, each best first; `strength` says how much of a match a hit by words is. Scores are from 0 to
/// 1: 1 is first in both lists and has all words in a row. Equal scores go by id.
#[must_use]
pub fn fused(meaning: &[Hit], words: &[Hit], strength: impl Fn(i64) -> f64) -> Vec<(i64, f64)> {
    let words_weight = WORDS * (1.0 + PHRASE);
    let mut scores: BTreeMap<i64, f64> = BTreeMap::new();
    let mut add = |id: i64, rank: usize, weight: f64| {
        *scores.entry(id).or_insert(0.0) +=
            weight / (1.0 + words_weight) * (K + 1.0) / (K + 1.0 + rank as f64);
    };
    meaning.iter().enumerate().for_each(|(rank, hit)| add(hit.id, rank, 1.0));
    words.iter().enumerate().for_each(|(rank, hit)| add(hit.id, rank, words_weight * strength(hit.id)));
    let mut list: Vec<(i64, f64)> = scores.into_iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list
}

/// Picks the first `count`, of one file at most three; when the files run out, the best of those passed over. What is
/// picked keeps its order.
#[must_use]
pub fn spread<T, F: std::hash::Hash + Eq>(list: Vec<T>, count: usize, file: impl Fn(&T) -> F) -> Vec<T> {
    let mut seen: HashMap<F, usize> = HashMap::new();
    let (mut picked, mut passed_over) = (Vec::new(), Vec::new());
    for (at, one) in list.iter().enumerate() {
        let of_file = seen.entry(file(one)).or_insert(0);
        *of_file += 1;
        if *of_file <= SAME_FILE { &mut picked } else { &mut passed_over }.push(at);
    }
    picked.extend(passed_over);
    picked.truncate(count);
    picked.sort_unstable();
    let mut list: Vec<Option<T>> = list.into_iter().map(Some).collect();
    picked.into_iter().filter_map(|at| list.get_mut(at).and_then(Option::take)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &[i64]) -> Vec<Hit> {
        ids.iter().map(|id| Hit { id: *id, score: 0.5 }).collect()
    }

    fn ids(list: &[(i64, f64)]) -> Vec<i64> {
        list.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn weak_matches_do_not_move_what_meaning_found() {
        let found = fused(&list(&[1, 2, 3]), &list(&[9, 3, 8]), |_| 0.001);
        assert_eq!(ids(&found), [1, 2, 3, 9, 8]);
    }

    #[test]
    fn a_full_match_comes_before_what_meaning_found() {
        let found = fused(&list(&[1, 2, 3]), &list(&[9, 3]), |id| if id == 9 { 1.0 } else { 0.0 });
        assert_eq!(ids(&found), [9, 1, 2, 3]);
    }

    #[test]
    fn words_in_a_row_are_three_times_the_match() {
        let terms = Terms::of("fn give_way");
        let near = |text, expected: f64| assert!((strength(&terms, text) - expected).abs() < 1e-9, "{text}");
        near("pub fn give_way()", 1.0);
        near("a way to give a fn", 1.0 / 3.0);
        near("give it away, fn", (2.0_f64 / 3.0).powi(4) / 3.0);
        near("nothing", 0.0);
    }

    #[test]
    fn scores_are_between_zero_and_one() {
        let found = fused(&list(&[1]), &list(&[1]), |_| 1.0);
        assert!((found[0].1 - 1.0).abs() < 1e-9);
        assert!(fused(&[], &[], |_| 1.0).is_empty());
    }

    #[test]
    fn a_file_gives_way_after_three_as_long_as_there_are_others() {
        let all = vec!["a1", "a2", "a3", "a4", "b1", "a5", "c1"];
        let file = |name: &&str| name.as_bytes()[0];
        assert_eq!(spread(all.clone(), 5, file), ["a1", "a2", "a3", "b1", "c1"]);
        assert_eq!(spread(all.clone(), 6, file), ["a1", "a2", "a3", "a4", "b1", "c1"]);
        assert_eq!(spread(all.clone(), 9, file), all);
        assert_eq!(spread(all, 0, file), Vec::<&str>::new());
    }

    #[test]
    fn lists_are_deep_enough_to_agree() {
        assert_eq!([depth(0), depth(10), depth(20), depth(usize::MAX)], [50, 50, 80, usize::MAX]);
    }
}
