//! Chunks per second from files to a searchable index, beside the model alone on the same texts; what the rest costs;
//! and a second run without a change.

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::redrive::{Indexed, Redrive, bytes};
use super::{bare, floor, texts};
use crate::Failure;
use crate::measure::verdict::{Found, Goal};
use crate::report::{Spread, round, say};

/// One round of all contestants.
struct Round {
    index: Indexed,
    again: Indexed,
    one: bare::Bare,
    all: bare::Bare,
    rows: floor::Written,
    chunks: f64,
    texts: f64,
    mb: f64,
    store_mb: f64,
}

type FigureOf = (&'static str, &'static str, fn(&Round) -> f64, Goal);

const REDRIVE: &str = "Redrive";
const ONE: &str = "model alone, 1 thread";
const ALL: &str = "model alone, all cores";
const ROWS: &str = "the same rows, bare SQL";

const FIGURES: [FigureOf; 18] = [
    (REDRIVE, "chunks per second", |one| one.chunks / one.index.ran.seconds, Goal::None),
    (REDRIVE, "texts embedded per second", |one| one.texts / one.index.ran.seconds, Goal::None),
    (REDRIVE, "MB of files per second", |one| one.mb / one.index.ran.seconds, Goal::None),
    (ONE, "texts embedded per second", |one| one.texts / one.one.seconds, Goal::None),
    (ALL, "texts embedded per second", |one| one.texts / one.all.seconds, Goal::None),
    (ROWS, "chunks per second", |one| one.chunks / one.rows.seconds, Goal::None),
    (
        REDRIVE,
        "rate / model alone, 1 thread",
        |one| one.one.seconds / one.index.ran.seconds,
        Goal::AtLeast(0.8),
    ),
    (
        REDRIVE,
        "rate / model alone, all cores",
        |one| one.all.seconds / one.index.ran.seconds,
        Goal::AtLeast(0.8),
    ),
    (REDRIVE, "rate / model on all cores, then rows", |one| one.floor() / one.index.ran.seconds, Goal::None),
    (REDRIVE, "cores kept busy", |one| one.index.ran.cpu_of_all() / one.index.ran.seconds, Goal::None),
    (REDRIVE, "µs of CPU per chunk", |one| one.each(one.index.ran.cpu_of_all()), Goal::None),
    (REDRIVE, "of it the main process", |one| one.each(one.index.ran.cpu), Goal::None),
    (REDRIVE, "of it parse-worker", |one| one.each(one.index.ran.cpu_of("parse-worker")), Goal::None),
    (REDRIVE, "of it embed-worker", |one| one.each(one.index.ran.cpu_of("embed-worker")), Goal::None),
    (ONE, "µs of CPU per chunk", |one| one.each(one.one.cpu), Goal::None),
    (ROWS, "µs of CPU per chunk", |one| one.each(one.rows.cpu), Goal::None),
    (
        REDRIVE,
        "µs of CPU per chunk beside the model",
        |one| one.each(one.index.ran.cpu_of_all() - one.one.cpu),
        Goal::None,
    ),
    (REDRIVE, "store / files, bytes", |one| one.store_mb / one.mb, Goal::None),
];

impl Round {
    /// Seconds of doing the least there is to do, one after the other.
    fn floor(&self) -> f64 {
        self.all.seconds + self.rows.seconds
    }

    /// Microseconds for each chunk.
    fn each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.chunks
    }

    fn json(&self) -> Value {
        json!({
            "redrive": self.index.json(),
            "bare_one": { "seconds": round(self.one.seconds), "cpu_seconds": round(self.one.cpu) },
            "bare_all": { "seconds": round(self.all.seconds), "cpu_seconds": round(self.all.cpu) },
            "bare_rows": { "seconds": round(self.rows.seconds), "cpu_seconds": round(self.rows.cpu) },
        })
    }
}

/// Rounds in which everybody has a turn.
pub async fn run(redrive: &Redrive, corpus: &Corpus, repeat: usize) -> Result<(Found, Found), Failure> {
    let mut rounds = Vec::new();
    for n in 0..repeat {
        rounds.push(round_of(redrive, corpus, n).await?);
    }
    let mut found = Found::default();
    let first = rounds.first().ok_or("no round")?;
    say(&format!(
        "{} files, {:.1} MB: {} chunks of {:.0} bytes, {} different texts",
        corpus.files,
        first.mb,
        first.chunks,
        first.index.figure("/size/text_bytes")? / first.chunks,
        first.texts,
    ));
    for (who, what, figure, goal) in FIGURES {
        let spread = Spread::of(rounds.iter().map(figure).collect());
        found.add(who, what, spread.median, goal);
        found.raw.insert(format!("{who}: {what}"), spread.json());
    }
    found.raw.insert("corpus".to_owned(), corpus.json());
    found.raw.insert("chunks".to_owned(), json!(first.chunks));
    found.raw.insert("texts".to_owned(), json!(first.texts));
    found.raw.insert("rounds".to_owned(), rounds.iter().map(Round::json).collect());
    Ok((found, again(&rounds)?))
}

async fn round_of(redrive: &Redrive, corpus: &Corpus, n: usize) -> Result<Round, Failure> {
    let place = redrive.place("rate")?;
    let index = redrive.index(&place, &corpus.folder).await?;
    let store_mb = bytes(&place) as f64 / 1e6;
    let (chunks, texts) = (index.figure("/size/chunks")?, texts::embedded(&place)?);
    let again = redrive.index(&place, &corpus.folder).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (one, all) = (bare::embed(&texts, 1)?, bare::embed(&texts, cores)?);
    let rows = floor::write(&place)?;
    let texts = texts.len() as f64;
    say(&format!(
        "  round {}: redrive {:.2} s (CPU {:.2} + {:.2} s), again {:.2} s, model alone {:.2} s and {:.2} s, rows alone {:.2} s",
        n + 1,
        index.ran.seconds,
        index.ran.cpu,
        index.ran.cpu_of_children,
        again.ran.seconds,
        one.seconds,
        all.seconds,
        rows.seconds,
    ));
    Ok(Round { index, again, one, all, rows, chunks, texts, mb: corpus.bytes as f64 / 1e6, store_mb })
}

/// The second runs.
fn again(rounds: &[Round]) -> Result<Found, Failure> {
    let mut found = Found::default();
    let (mut rates, mut embedded) = (Vec::new(), 0.0);
    for round in rounds {
        rates.push(round.again.figure("/walk/files")? / round.again.ran.seconds);
        embedded += round.again.figure("/embedded")?;
    }
    let rates = Spread::of(rates);
    found.add("Redrive", "files per second", rates.median, Goal::None);
    found.add("Redrive", "texts embedded again", embedded, Goal::AtMost(0.0));
    found.raw.insert("files_per_s".to_owned(), rates.json());
    found.raw.insert("rounds".to_owned(), rounds.iter().map(|round| round.again.json()).collect());
    Ok(found)
}
