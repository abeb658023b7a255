//! How much of what a thread came to is in its summary.

use std::collections::BTreeMap;

use redrive_ingest::kind::Kind;
use redrive_ingest::parse::{Limits, parse};

use super::{Options, make};
use crate::head::Head;
use crate::mbox::{Mbox, unquoted};
use crate::summary::{Sentence, Source, lead, lead_of_each, recall, summarise};
use crate::thread::{Link, threads};

/// How one way to summarise does.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The way.
    pub name: &'static str,
    /// The share of the words of the key sentences that is in the summary, on average.
    pub recall: f64,
    /// The share of key sentences that are in it as they are.
    pub whole: f64,
    /// Threads it was measured on.
    pub threads: usize,
}

/// Sentences that a summary may have.
const MOST: usize = 5;
/// Threads with fewer messages are short enough to be their own summary.
const LEAST: usize = 4;

/// Measures summaries and their rivals over a corpus, on the threads that have something to summarise.
#[must_use]
pub fn measure(options: Options) -> Vec<Measured> {
    let corpus = make(options);
    let mut texts: BTreeMap<String, (Head, String)> = BTreeMap::new();
    for file in corpus.files.iter().filter(|file| !file.path.ends_with(".gz")) {
        for entry in Mbox::new(&file.bytes[..]).flatten() {
            let head = Head::read(&entry.head);
            let start = usize::try_from(entry.offset).unwrap_or(0);
            let raw = unquoted(&file.bytes[start..start + usize::try_from(entry.length).unwrap_or(0)]);
            let text = parse(&raw, Kind::Email, &Limits::default())
                .map(|document| document.text)
                .unwrap_or_default();
            texts.insert(head.key(entry.version), (head, text));
        }
    }
    let links: Vec<Link> = texts
        .iter()
        .map(|(key, (head, _))| Link {
            key: key.clone(),
            references: head.references.clone(),
            subject: head.subject.clone(),
            date_ms: head.date_ms,
        })
        .collect();
    let wanted: BTreeMap<&str, &Vec<String>> =
        corpus.key_sentences.iter().map(|(id, sentences)| (id.as_str(), sentences)).collect();
    let mut sums = [
        ("extractive summary", 0.0, 0.0),
        ("first sentences", 0.0, 0.0),
        ("first sentence of each", 0.0, 0.0),
    ];
    let mut count = 0;
    for thread in threads(&links).iter().filter(|thread| thread.messages.len() >= LEAST) {
        let Some(wanted) = thread.messages.iter().find_map(|one| wanted.get(links[one.at].key.as_str()))
        else {
            continue;
        };
        let sources: Vec<Source<'_>> = thread
            .messages
            .iter()
            .enumerate()
            .map(|(number, one)| Source { number, text: &texts[&links[one.at].key].1 })
            .collect();
        let subject = &links[thread.messages[0].at].subject;
        let made = [summarise(subject, &sources, MOST), lead(&sources, MOST), lead_of_each(&sources, MOST)];
        for (sum, made) in sums.iter_mut().zip(made) {
            sum.1 += recall(wanted, &made);
            sum.2 += whole(wanted, &made);
        }
        count += 1;
    }
    let n = count.max(1) as f64;
    sums.map(|(name, recall, whole)| Measured { name, recall: recall / n, whole: whole / n, threads: count })
        .to_vec()
}

fn whole(wanted: &[String], made: &[Sentence]) -> f64 {
    let there = wanted.iter().filter(|sentence| made.iter().any(|one| one.text == **sentence));
    there.count() as f64 / wanted.len().max(1) as f64
}
