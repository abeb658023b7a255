//! The real binary, as its users run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::watched::{Ran, Watched};
use crate::Failure;
use crate::report::round;

/// A copy of the binary, with a folder for stores.
pub struct Redrive {
    binary: PathBuf,
    folder: PathBuf,
}

/// An indexing run that came to its end.
pub struct Indexed {
    /// The processes.
    pub ran: Ran,
    /// The report.
    pub report: Value,
}

impl Redrive {
    /// Takes a copy of the binary that stands beside this one, so that a build meanwhile changes nothing. Where cargo
    /// started this program, cargo makes sure first that it is of the same source.
    pub fn find(folder: &Path) -> Result<Self, Failure> {
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--release", "-p", "redrive", "--manifest-path"]);
            let built = build.arg(Path::new(crate::python::HERE).join("../Cargo.toml")).status()?;
            if !built.success() {
                return Err("`redrive` cannot be built".into());
            }
        }
        let beside = std::env::current_exe()?.with_file_name("redrive");
        let binary = folder.join("redrive");
        fs::copy(&beside, &binary).map_err(|error| {
            format!("there is no `redrive` beside this program ({error}): cargo build --release -p redrive")
        })?;
        Ok(Self { binary, folder: folder.to_owned() })
    }

    /// A place for a new store and what belongs to it; what was there is removed.
    pub fn place(&self, name: &str) -> Result<PathBuf, Failure> {
        let place = self.folder.join(name);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// Begins to index a directory into the store of a place.
    pub fn begin(&self, place: &Path, directory: &Path) -> Result<Watched, Failure> {
        let mut command = Command::new(&self.binary);
        command.arg("index").arg(directory).args(["--quiet", "--json", "--store"]).arg(store(place));
        Watched::start(&mut command, place)
    }

    /// Indexes a directory into the store of a place.
    pub async fn index(&self, place: &Path, directory: &Path) -> Result<Indexed, Failure> {
        let ran = self.begin(place, directory)?.end(|| false).await?;
        if !ran.well {
            return Err(format!("redrive index failed: {} {}", ran.printed.trim(), ran.errors.trim()).into());
        }
        let report = ran.document()?;
        Ok(Indexed { ran, report })
    }

    /// A search in the store of a place.
    pub fn search(&self, place: &Path, query: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["search", query, "--json", "-k", "5", "--store"]).arg(store(place));
        command
    }
}

/// The file of a place's store.
pub fn file(place: &Path) -> PathBuf {
    place.join("state.db")
}

fn store(place: &Path) -> String {
    format!("sqlite:{}", file(place).display())
}

impl Indexed {
    /// A figure of the report's part on the index.
    pub fn figure(&self, path: &str) -> Result<f64, Failure> {
        let found = self.report["index"].pointer(path).and_then(Value::as_f64);
        found.ok_or_else(|| format!("the report has no {path}: {}", self.report).into())
    }

    /// Attempts of a stage that a crash broke off.
    pub fn crashes(&self, stage: &str) -> f64 {
        let stages = self.report["stages"].as_array().into_iter().flatten();
        let ours = stages.filter(|one| one["name"] == stage);
        ours.filter_map(|one| one["attempts"]["crashes"].as_f64()).sum()
    }

    /// What the run says of itself, and what the kernel says of it.
    pub fn json(&self) -> Value {
        let mut all = self.ran.json();
        all["status"] = self.report["status"].clone();
        all["tokens"] = self.report["usage"]["tokens_in"].clone();
        all["crashes"] = self.report["attempts"]["crashes"].clone();
        all["index"] = json!({
            "embedded": self.report["index"]["embedded"], "reused": self.report["index"]["reused"],
            "walk": self.report["index"]["walk"], "size": self.report["index"]["size"],
        });
        all["cpu_seconds_of_all"] = json!(round(self.ran.cpu_of_all()));
        all
    }
}

/// Bytes of a place's store on disk, its log included.
pub fn bytes(place: &Path) -> u64 {
    let size =
        |ending: &str| fs::metadata(place.join(format!("state.db{ending}"))).map_or(0, |file| file.len());
    size("") + size("-wal")
}
