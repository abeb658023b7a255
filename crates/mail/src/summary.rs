//! What a thread is about, in sentences of its own messages.
//!
//! Extractive, after SumBasic (Nenkova and Vanderwende, 2005) with four changes for mail:
//!
//! 1. Only what a message says itself counts: quotations, signatures, greetings and the lines above a message are taken out ([`own_text`]).
//! 2. The weight of a word is the share of messages it occurs in, not how often: who repeats himself does not weigh more. Function words weigh
//!    nothing, words of the subject and those that only one message has less or more by a constant.
//! 3. A sentence has the mean weight of its words, a little more at the start of a message, and where it decides, asks or concludes.
//! 4. Once a sentence is taken, the weight of its words is squared, so that the next one says something else; a message gives at most two.
//!
//! Everything is counted in one order, so that the same messages always give the same summary.

mod sentences;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use sentences::{own_text, sentences};
use words::{cue, words};

/// Sentences of a summary, unless asked otherwise.
pub const SENTENCES: usize = 5;
/// Sentences of one message that are looked at.
const OF_ONE: usize = 60;
/// Sentences that one message gives at most.
const FROM_ONE: usize = 2;
/// Messages of a thread that are looked at: the first and the last ones.
const MESSAGES: usize = 400;

/// A message to be summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source<'a> {
    /// Its number in the thread, which a citation names.
    pub number: usize,
    /// Its text.
    pub text: &'a str,
}

/// A sentence of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// What it says.
    pub text: String,
    /// The number of the message that says it.
    pub number: usize,
}

struct Candidate {
    source: usize,
    place: usize,
    text: String,
    words: BTreeSet<String>,
    bonus: f64,
}

/// The sentences that say most of what a thread is about, in the order of the thread.
#[must_use]
pub fn summarise(subject: &str, sources: &[Source<'_>], most: usize) -> Vec<Sentence> {
    let looked_at: Vec<usize> = if sources.len() > MESSAGES {
        (0..MESSAGES / 2).chain(sources.len() - MESSAGES / 2..sources.len()).collect()
    } else {
        (0..sources.len()).collect()
    };
    let mut candidates = Vec::new();
    for source in looked_at.iter().copied() {
        let found = sentences(&own_text(sources[source].text));
        let last = Some(&source) == looked_at.last();
        for (place, text) in found.into_iter().take(OF_ONE).enumerate() {
            let words = words(&text);
            if words.len() >= 3 {
                let start = if place == 0 { 1.15 } else { 1.0 };
                let bonus = start * cue(&text) * if source == 0 || last { 1.1 } else { 1.0 };
                candidates.push(Candidate { source, place, text, words, bonus });
            }
        }
    }
    let mut weights = weights(subject, &candidates, looked_at.len());
    let mut taken: Vec<Candidate> = Vec::new();
    while taken.len() < most {
        let from_one = |source| taken.iter().filter(|one| one.source == source).count();
        let open = candidates.iter().enumerate().filter(|(_, one)| from_one(one.source) < FROM_ONE);
        let best = open.map(|(at, one)| (at, score(one, &weights))).fold(
            None,
            |best: Option<(usize, f64)>, next| {
                // The first of equals stays.
                if best.is_none_or(|(_, score)| next.1 > score) { Some(next) } else { best }
            },
        );
        let Some((at, _)) = best.filter(|(_, score)| *score > 0.0) else { break };
        let one = candidates.remove(at);
        for word in &one.words {
            if let Some(weight) = weights.get_mut(word) {
                *weight *= *weight;
            }
        }
        candidates.retain(|other| other.words != one.words);
        taken.push(one);
    }
    taken.sort_by_key(|one| (one.source, one.place));
    taken.into_iter().map(|one| Sentence { text: one.text, number: sources[one.source].number }).collect()
}

/// The share of messages that a word occurs in.
fn weights(subject: &str, candidates: &[Candidate], messages: usize) -> BTreeMap<String, f64> {
    let mut met: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for candidate in candidates {
        for word in &candidate.words {
            met.entry(word).or_default().insert(candidate.source);
        }
    }
    let named = words(subject);
    let all = messages.max(2) as f64;
    met.into_iter()
        .map(|(word, sources)| {
            let share = (sources.len() as f64 / all).min(0.95);
            let alone = if sources.len() == 1 { 0.7 } else { 1.0 };
            let subject = if named.contains(word) { 1.3 } else { 1.0 };
            (word.to_owned(), (share * alone * subject).min(0.95))
        })
        .collect()
}

fn score(candidate: &Candidate, weights: &BTreeMap<String, f64>) -> f64 {
    let sum: f64 = candidate.words.iter().filter_map(|word| weights.get(word)).sum();
    // A sentence of few words has an easy mean.
    sum / (candidate.words.len() as f64).max(6.0) * candidate.bonus
}

/// The first sentences of a thread: what a summary has to be better than.
#[must_use]
pub fn lead(sources: &[Source<'_>], most: usize) -> Vec<Sentence> {
    let all = sources.iter().flat_map(|source| {
        let found = sentences(&own_text(source.text)).into_iter();
        found.map(|text| Sentence { text, number: source.number })
    });
    all.take(most).collect()
}

/// The first sentence of every message, as far as they go: a harder rival.
#[must_use]
pub fn lead_of_each(sources: &[Source<'_>], most: usize) -> Vec<Sentence> {
    let firsts = sources.iter().filter_map(|source| {
        let text = sentences(&own_text(source.text)).into_iter().next()?;
        Some(Sentence { text, number: source.number })
    });
    firsts.take(most).collect()
}

/// The share of the words of `wanted` that the sentences have (ROUGE-1 recall over distinct content words).
#[must_use]
pub fn recall(wanted: &[String], found: &[Sentence]) -> f64 {
    let wanted: BTreeSet<String> = wanted.iter().flat_map(|text| words(text)).collect();
    let found: BTreeSet<String> = found.iter().flat_map(|one| words(&one.text)).collect();
    if wanted.is_empty() { 0.0 } else { wanted.intersection(&found).count() as f64 / wanted.len() as f64 }
}
