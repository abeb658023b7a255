//! Words of a query and of a text.

use std::collections::BTreeSet;
use std::ops::Range;

use redrive_core::grams::{self, Lookup};

/// Words that are looked up for one query.
const MOST: usize = 32;

/// Words that say nothing about what a passage is about.
const STOP: &str = "a an and are as at be been but by can could did do does for from had \
    has have how i if in into is it its me my no nor not of on or our s should so t than that the their them then \
    there these they this to was we were what when where which who whose why will with would you your";

/// What a query looks for: its words, each once, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    terms: Vec<Term>,
    /// All words in a row, lower case.
    phrase: Vec<String>,
}

/// A word, and the words it is put together of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    whole: String,
    parts: Vec<String>,
}

impl Terms {
    /// Takes a query apart. Words are runs of letters and digits in lower case, so that `retry_after` is two;
    /// `RetryAfter` is one and its parts; a sign such as `∑` is one by itself. Stop words are left out unless there is
    /// nothing else.
    #[must_use]
    pub fn of(query: &str) -> Self {
        let words: Vec<&str> = tokens(query).map(|range| &query[range]).take(MOST * 4).collect();
        let mut terms: Vec<Term> = Vec::new();
        for word in &words {
            let term = Term {
                whole: word.to_lowercase(),
                parts: parts(word).map(|at| word[at].to_lowercase()).collect(),
            };
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        if terms.iter().any(|term| !is_stop(&term.whole)) {
            terms.retain(|term| !is_stop(&term.whole));
        }
        terms.truncate(MOST);
        let phrase = words.iter().filter(|word| !is_sign(word)).map(|word| word.to_lowercase()).collect();
        Self { terms, phrase }
    }

    /// The words to look up; plain, without any syntax.
    #[must_use]
    pub fn lookups(&self) -> Vec<String> {
        let mut lookups: Vec<String> = Vec::new();
        for word in self.terms.iter().flat_map(|term| [&term.whole].into_iter().chain(&term.parts)) {
            if lookups.len() < MOST && !lookups.contains(word) {
                lookups.push(word.clone());
            }
        }
        lookups
    }

    /// Tells whether there is no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The share of the words that are in a text, from 0 to 1. One that is put together is also there when all of its
    /// parts are, and one that is written without spaces is there as far as its pieces are.
    #[must_use]
    pub fn coverage(&self, text: &str) -> f64 {
        let there: BTreeSet<String> = tokens(text).map(|range| stem(&text[range])).collect();
        let has = |word: &String| there.contains(&stem(word));
        let mut pieces = None;
        let mut share = |term: &Term| {
            if has(&term.whole) || term.parts.iter().all(has) {
                return 1.0;
            }
            let lookups = grams::lookups(&term.whole);
            let there: &Vec<String> = pieces.get_or_insert_with(|| grams::of(text));
            let found = lookups.iter().filter(|lookup| Lookup::is_in(lookup, there)).count();
            found as f64 / lookups.len().max(1) as f64
        };
        let found: f64 = self.terms.iter().map(&mut share).sum();
        if self.terms.is_empty() { 0.0 } else { found / self.terms.len() as f64 }
    }

    /// Tells whether a text has the query's words one after the other, as they were written; a single word is no
    /// phrase.
    #[must_use]
    pub fn has_phrase(&self, text: &str) -> bool {
        if self.phrase.len() < 2 {
            return false;
        }
        let words = tokens(text).map(|range| &text[range]).filter(|word| !is_sign(word));
        let there: Vec<String> = words.map(str::to_lowercase).collect();
        there.windows(self.phrase.len()).any(|row| row == self.phrase)
    }

    /// The words that stand between others without a space, and the signs: they are looked for as they are written.
    pub(super) fn unspaced(&self) -> impl Iterator<Item = &str> {
        let wholes = self.terms.iter().map(|term| term.whole.as_str());
        wholes.filter(|whole| grams::is_more_than_a_word(whole))
    }

    /// The stems of all words and parts.
    #[must_use]
    pub fn stems(&self) -> BTreeSet<String> {
        self.terms
            .iter()
            .flat_map(|term| [&term.whole].into_iter().chain(&term.parts))
            .map(|word| stem(word))
            .collect()
    }
}

/// Where the words of a text are: runs of letters, digits and the marks that belong to them, and single signs.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|(_, c)| begins_word(*c))?;
        if !grams::is_sign(first) {
            while chars.next_if(|(_, c)| in_word(*c)).is_some() {}
        }
        Some(start..chars.peek().map_or(text.len(), |(end, _)| *end))
    })
}

fn begins_word(c: char) -> bool {
    c.is_alphanumeric() || grams::is_sign(c) || grams::is_unspaced(c)
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c) || grams::is_unspaced(c)
}

fn is_sign(word: &str) -> bool {
    word.starts_with(grams::is_sign)
}

/// Where the parts of a word in camel case are: `HTTPServer` has two. A word that is whole has one.
pub(super) fn parts(word: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let is_seam = move |at: usize| {
        let upper = |at: usize| chars.get(at).is_some_and(|(_, c)| c.is_uppercase());
        let lower = |at: usize| chars.get(at).is_some_and(|(_, c)| !c.is_uppercase());
        let seam = at > 0
            && upper(at)
            && (lower(at - 1) || (upper(at - 1) && chars.get(at + 1).is_some_and(|(_, c)| c.is_lowercase())));
        chars.get(at).filter(|_| seam).map(|(offset, _)| *offset)
    };
    let seams: Vec<usize> = (1..word.len()).filter_map(is_seam).chain([word.len()]).collect();
    seams.into_iter().map(move |end| std::mem::replace(&mut start, end)..end)
}

/// A word in lower case without its ending, so that `retries`, `retried` and `retry` are alike. It need not be a word.
#[must_use]
pub fn stem(word: &str) -> String {
    let mut word = word.to_lowercase();
    if !word.is_ascii() {
        return word;
    }
    let endings =
        [("ies", "y", 5), ("ied", "y", 5), ("ing", "", 7), ("ed", "", 5), ("es", "", 5), ("s", "", 4)];
    let fits = |(ending, _, least): &&(&str, &str, usize)| word.len() >= *least && word.ends_with(ending);
    if let Some((ending, instead, _)) = endings.iter().find(fits)
        && !word.ends_with("ss")
    {
        word.truncate(word.len() - ending.len());
        word.push_str(instead);
    }
    let bytes = word.as_bytes();
    let silent = bytes.len() > 3 && bytes.ends_with(b"e");
    let doubled =
        bytes.len() > 4 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] && !bytes.ends_with(b"ss");
    if silent || doubled {
        word.pop();
    }
    word
}

fn is_stop(word: &str) -> bool {
    STOP.split_ascii_whitespace().any(|stop| stop == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_plain_words() {
        for (query, words) in [
            ("Retry-After hint", &["retry", "after", "hint"][..]),
            ("retry_after", &["retry", "after"]),
            ("fn SearchHit::new()", &["fn", "searchhit", "search", "hit", "new"]),
            ("HTTPServer", &["httpserver", "http", "server"]),
            ("how to do it", &["how", "to", "do", "it"]),
            ("what is a lease", &["lease"]),
            ("lease Lease LEASE", &["lease"]),
            ("\"x\" NEAR(y*) OR col:z", &["x", "near", "y", "col", "z"]),
            ("Größe über 5", &["größe", "über", "5"]),
            ("日本語", &["日本語"]),
            ("-- !?", &[]),
            ("released 🎉🎉 ∑", &["released", "🎉", "∑"]),
            ("น้ำแข็ง ไทย", &["น้ำแข็ง", "ไทย"]),
        ] {
            assert_eq!(Terms::of(query).lookups(), words, "{query}");
        }
        let long: Vec<String> = (0..100).map(|at| format!("w{at}")).collect();
        assert_eq!(Terms::of(&long.join(" ")).lookups().len(), MOST);
    }

    #[test]
    fn endings_make_no_difference() {
        for row in [
            &["retry", "retries", "retried"][..],
            &["lease", "leases", "leased", "leasing"],
            &["stop", "stopped", "stopping", "stops"],
            &["glass", "glasses"],
        ] {
            row.iter().for_each(|word| assert_eq!(stem(word), stem(row[0]), "{word}"));
        }
        for (one, other) in [("bus", "bu"), ("need", "ne"), ("is", "i"), ("class", "clas")] {
            assert_ne!(stem(one), other);
        }
    }

    #[test]
    fn coverage_counts_what_is_put_together_once() {
        let terms = Terms::of("StaticModel tokens");
        assert_eq!(terms.coverage("a StaticModel"), 0.5);
        assert_eq!(terms.coverage("a static model has a token"), 1.0);
        assert_eq!(terms.coverage("static"), 0.0);
        assert_eq!(Terms::of("").coverage("x"), 0.0);
        assert_eq!(Terms::of("กรุงเทพ 🎉").coverage("คือกรุงเทพมหานคร"), 0.5);
        assert_eq!(Terms::of("北京大学的天气").coverage("天气很好"), 1.0 / 6.0);
    }

    #[test]
    fn a_phrase_is_all_words_in_a_row() {
        let terms = Terms::of("fn give_way");
        assert!(terms.has_phrase("pub fn give_way() {}") && terms.has_phrase("Fn give way"));
        assert!(!terms.has_phrase("give_way fn") && !terms.has_phrase("fn give"));
        assert!(!Terms::of("lease").has_phrase("lease"));
        assert!(Terms::of("decide commit").has_phrase("decide → commit"));
    }
}
