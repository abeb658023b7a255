//! One file per measurement.

pub mod batch;
pub mod calibrate;
pub mod engine;
pub mod external;
pub mod failing;
pub mod floor;
pub mod flow;
pub mod index;
pub mod latency;
pub mod mail;
pub mod memory;
pub mod relay;
pub mod restart;
pub mod runs;
pub mod serve;
pub mod trace;
pub mod triage;
mod verdict;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Common, Failure};

/// A folder that is removed at the end.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes one where the figures are wanted.
    pub fn new(common: &Common) -> Result<Self, Failure> {
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("redrive-bench-");
            builder
        };
        Ok(Self(match &common.folder {
            Some(folder) => builder().tempdir_in(folder)?,
            None => builder().tempdir()?,
        }))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A place for a new store; what was there is removed.
    pub fn store(&self) -> Result<PathBuf, Failure> {
        let folder = self.0.path().join("store");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder.join("bench.db"))
    }
}

/// The binary that stands beside this one.
fn binary() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe()?.with_file_name("redrive");
    if beside.is_file() {
        return Ok(beside);
    }
    Err("there is no `redrive` beside this program: cargo build --release -p redrive".into())
}
