//! The real binary, as its users run it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use super::contestant::{Contestant, Ran};
use crate::Failure;
use crate::report::round;

/// A stage of a pipeline, as it stands in the file.
pub fn http(name: &str, url: &str, concurrency: usize) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\nkind = \"http\"\nurl = \"{url}/work\"\nconcurrency = {concurrency}\n"
    )
}

/// The binary, with a folder for pipelines and stores.
#[derive(Debug, Clone)]
pub struct Redrive {
    binary: PathBuf,
    folder: PathBuf,
}

/// How a run of it ended.
pub struct Run {
    /// The process.
    pub ran: Ran,
    /// The report that it printed; null when it was ended from outside.
    pub report: Value,
}

impl Redrive {
    /// Takes a copy of the binary that stands beside this one, so that a build meanwhile changes nothing.
    pub fn find(folder: &Path) -> Result<Self, Failure> {
        let beside = std::env::current_exe()?.with_file_name("redrive");
        let binary = folder.join("redrive");
        fs::copy(&beside, &binary).map_err(|error| {
            format!("there is no `redrive` beside this program ({error}): cargo build --release -p redrive")
        })?;
        Ok(Self { binary, folder: folder.to_owned() })
    }

    /// A folder of its own for a contestant.
    pub fn place(&self, name: &str) -> Result<PathBuf, Failure> {
        let place = self.folder.join(name);
        fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// Starts a run over so many items with a text of so many letters. The state is in `store`.
    pub fn start(
        &self,
        name: &str,
        stages: &str,
        items: usize,
        text: usize,
        store: &Path,
    ) -> Result<Contestant, Failure> {
        let mut lines = String::new();
        for n in 0..items {
            // Different letters, so that every text is another one.
            let head = format!("{n:06}");
            writeln!(lines, "{}", json!({ "n": n, "text": head.clone() + &"x".repeat(text - head.len()) }))?;
        }
        self.start_with(name, stages, &lines, store)
    }

    /// The same over these items, one JSON document a line.
    pub fn start_with(
        &self,
        name: &str,
        stages: &str,
        lines: &str,
        store: &Path,
    ) -> Result<Contestant, Failure> {
        let place = self.place(name)?;
        fs::write(place.join("items.jsonl"), lines)?;
        let source = "[source]\nkind = \"jsonl\"\npath = \"items.jsonl\"\n";
        fs::write(place.join("pipeline.toml"), format!("name = \"{name}\"\n{source}\n{stages}"))?;
        let mut command = Command::new(&self.binary);
        command
            .args(["run", "pipeline.toml", "--json", "--quiet", "--store"])
            .arg(format!("sqlite:{}", store.display()));
        Contestant::start(&mut command, &place)
    }

    /// The same to its end.
    pub async fn run(
        &self,
        name: &str,
        stages: &str,
        items: usize,
        text: usize,
        most: Duration,
    ) -> Result<Run, Failure> {
        let store = self.place(name)?.join("state.db");
        let contestant = self.start(name, stages, items, text, &store)?;
        self.end(name, contestant, most).await
    }

    /// Waits for the end of a run, or for so long.
    pub async fn end(&self, name: &str, contestant: Contestant, most: Duration) -> Result<Run, Failure> {
        let ran = contestant.end(most, || false).await?;
        let report = serde_json::from_str(&ran.printed).unwrap_or(Value::Null);
        if ran.finished && report.is_null() {
            let errors = fs::read_to_string(self.place(name)?.join("errors")).unwrap_or_default();
            return Err(format!("{name}: no report: {}", errors.trim()).into());
        }
        Ok(Run { ran, report })
    }
}

impl Run {
    /// Items given up; `None` when it did not say.
    pub fn dead(&self) -> Option<u64> {
        self.report["counts"]["dead"].as_u64()
    }

    /// Attempts that failed, being turned away not counted.
    pub fn failures(&self) -> Option<u64> {
        self.report["attempts"]["failures"].as_u64()
    }

    /// What the run says of itself.
    pub fn json(&self) -> Value {
        json!({
            "status": self.report["status"], "counts": self.report["counts"], "attempts": self.report["attempts"],
            "process_seconds": round(self.ran.seconds), "cpu_seconds": round(self.ran.cpu),
        })
    }
}
