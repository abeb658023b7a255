//! What people use today, with the same vectors, in the same three tests: once, once more, and killed in the middle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::redrive::{Indexed, Redrive};
use super::texts;
use super::watched::{Ran, Watched};
use crate::Failure;
use crate::measure::verdict::{Found, Goal};
use crate::python::{HERE, environment};
use crate::report::{round, say};

/// One of them.
struct Peer {
    name: &'static str,
    script: &'static str,
    /// Largest chunk, in what it counts in: letters or tokens.
    chunk: &'static str,
}

const ALL: [Peer; 2] = [
    Peer { name: "LangChain + Chroma", script: "langchain_peer.py", chunk: "1000" },
    Peer { name: "LlamaIndex + Chroma", script: "llama_peer.py", chunk: "256" },
];

/// One test of one contestant.
struct Told {
    ran: Ran,
    /// Seconds without the start of Python and its imports.
    seconds: f64,
    rows: f64,
    distinct: f64,
    embedded: BTreeMap<String, u64>,
}

/// Redrive and all that can be had, one after the other.
pub async fn run(redrive: &Redrive, corpus: &Corpus, folder: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    say(&format!("  {} files, {:.1} MB", corpus.files, corpus.bytes as f64 / 1e6));
    found.raw.insert("corpus".to_owned(), corpus.json());
    let ours = ours(redrive, corpus, &mut found).await?;
    match environment("index").await {
        Ok(python) => {
            for peer in &ALL {
                if let Err(error) =
                    theirs(peer, ours, &python, corpus, &folder.join("peers"), &mut found).await
                {
                    say(&format!("left out, since it failed: {} ({error})", peer.name));
                    found.raw.insert(peer.name.to_owned(), json!({ "left_out": error.to_string() }));
                }
            }
        }
        Err(error) => {
            say(&format!("left out, since their packages cannot be had: LangChain, LlamaIndex ({error})"));
        }
    }
    Ok(found)
}

/// Says how many MB of files it takes in a second.
async fn ours(redrive: &Redrive, corpus: &Corpus, found: &mut Found) -> Result<f64, Failure> {
    let who = "Redrive";
    let place = redrive.place("once")?;
    let once = redrive.index(&place, &corpus.folder).await?;
    let (chunks, wanted) = (once.figure("/size/chunks")?, texts::chunks(&place)?);
    let distinct = texts::embedded(&place)?.len();
    let again = redrive.index(&place, &corpus.folder).await?;
    let place = redrive.place("killed")?;
    let killed =
        redrive.begin(&place, &corpus.folder)?.end(|| texts::vectors(&place) >= distinct as i64 / 2).await?;
    if killed.well {
        say("  Redrive was done before it could be killed");
    }
    let kept = texts::vectors(&place);
    let after = redrive.index(&place, &corpus.folder).await?;
    // The report counts chunks, and some chunks share a text; tokens are counted once for each text that is embedded.
    let tokens = |one: &Indexed| one.report["usage"]["tokens_in"].as_f64().unwrap_or(0.0);
    let twice = tokens(&after) / tokens(&once) - 1.0;
    let there = texts::chunks(&place)?;
    let missing = wanted.difference(&there).count();
    let mb = corpus.bytes as f64 / 1e6;
    found.add(who, "chunks per second", chunks / once.ran.seconds, Goal::None);
    found.add(who, "MB of files per second", mb / once.ran.seconds, Goal::None);
    found.add(who, "seconds", once.ran.seconds, Goal::None);
    found.add(who, "MB, main process", once.ran.peak_mb, Goal::None);
    found.add(who, "seconds of a second run without a change", again.ran.seconds, Goal::None);
    found.add(who, "texts embedded in it", again.figure("/embedded")?, Goal::AtMost(0.0));
    found.add(who, "killed: texts embedded when it was", kept as f64, Goal::None);
    found.add(who, "killed: seconds of the run after", after.ran.seconds, Goal::None);
    found.add(who, "killed: tokens recorded twice / all", twice, Goal::AtMost(0.0));
    found.add(who, "killed: texts under way, perhaps embedded twice", after.crashes("embed"), Goal::None);
    found.add(who, "killed: chunks missing in the end", missing as f64, Goal::AtMost(0.0));
    found.add(
        who,
        "killed: chunks too many in the end",
        there.difference(&wanted).count() as f64,
        Goal::AtMost(0.0),
    );
    found.raw.insert(
        who.to_owned(),
        json!({
            "once": once.json(), "again": again.json(), "killed": killed.json(), "after": after.json(),
            "chunks": chunks, "distinct": distinct,
        }),
    );
    Ok(mb / once.ran.seconds)
}

async fn theirs(
    peer: &Peer,
    ours: f64,
    python: &Path,
    corpus: &Corpus,
    folder: &Path,
    found: &mut Found,
) -> Result<(), Failure> {
    let (who, mb) = (peer.name, corpus.bytes as f64 / 1e6);
    let place = folder.join(peer.script);
    let once = peer.run(python, corpus, &place.join("once")).await?;
    let wanted: u64 = once.embedded.values().sum();
    let again = peer.run(python, corpus, &place.join("once")).await?;
    let state = place.join("killed");
    let killed = peer.start(python, corpus, &state)?.end(|| lines(&state) >= wanted / 2).await?;
    if killed.well {
        say(&format!("  {who} was done before it could be killed"));
    }
    let kept = lines(&state);
    let after = peer.run(python, corpus, &state).await?;
    let total: u64 = after.embedded.values().sum();
    found.add(who, "chunks per second", once.rows / once.seconds, Goal::None);
    found.add(who, "MB of files per second", mb / once.seconds, Goal::None);
    found.add(who, "Redrive's MB per second / this", ours / (mb / once.seconds), Goal::None);
    found.add(who, "seconds", once.seconds, Goal::None);
    found.add(who, "MB, main process", once.ran.peak_mb, Goal::None);
    found.add(who, "seconds of a second run without a change", again.seconds, Goal::None);
    let more = again.embedded.values().sum::<u64>() - wanted;
    found.add(who, "texts embedded in it", more as f64, Goal::None);
    found.add(who, "killed: texts embedded when it was", kept as f64, Goal::None);
    found.add(who, "killed: seconds of the run after", after.seconds, Goal::None);
    found.add(who, "killed: texts embedded twice", total as f64 - wanted as f64, Goal::None);
    found.add(who, "killed: chunks missing in the end", once.distinct - after.distinct, Goal::None);
    found.add(who, "killed: chunks too many in the end", after.rows - once.rows, Goal::None);
    let told = |told: &Told| {
        let mut raw = told.ran.json();
        raw["work_seconds"] = json!(round(told.seconds));
        raw["rows"] = json!(told.rows);
        raw["distinct"] = json!(told.distinct);
        raw["texts_embedded"] = json!(told.embedded.values().sum::<u64>());
        raw["texts_different"] = json!(told.embedded.len());
        raw
    };
    found.raw.insert(
        who.to_owned(),
        json!({ "once": told(&once), "again": told(&again), "killed": killed.json(), "after": told(&after) }),
    );
    Ok(())
}

impl Peer {
    fn start(&self, python: &Path, corpus: &Corpus, state: &Path) -> Result<Watched, Failure> {
        let mut command = Command::new(python);
        command.arg("-B").arg(Path::new(HERE).join("index").join(self.script));
        command.arg(&corpus.folder).arg(state).arg(log(state)).arg(self.chunk);
        command.env("ANONYMIZED_TELEMETRY", "False");
        Watched::start(&mut command, state)
    }

    async fn run(&self, python: &Path, corpus: &Corpus, state: &Path) -> Result<Told, Failure> {
        let ran = self.start(python, corpus, state)?.end(|| false).await?;
        if !ran.well {
            return Err(ran.errors.lines().last().unwrap_or("it failed").to_owned().into());
        }
        let told: Value = ran.document()?;
        let figure = |name: &str| told[name].as_f64().ok_or_else(|| format!("{} told no {name}", self.name));
        let mut embedded = BTreeMap::new();
        for line in fs::read_to_string(log(state))?.lines() {
            *embedded.entry(line.to_owned()).or_default() += 1;
        }
        let (seconds, rows, distinct) = (figure("seconds")?, figure("rows")?, figure("distinct")?);
        say(&format!("  {}: {seconds:.1} s, {rows} chunks", self.name));
        Ok(Told { seconds, rows, distinct, embedded, ran })
    }
}

fn log(state: &Path) -> PathBuf {
    state.join("embedded")
}

/// Texts that were embedded so far.
fn lines(state: &Path) -> u64 {
    fs::read_to_string(log(state)).map_or(0, |text| text.lines().count() as u64)
}
