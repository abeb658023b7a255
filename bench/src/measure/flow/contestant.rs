//! Starts contestants as processes of their own, and ends them when their time is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::clock::{Watch, pause};
use crate::{Failure, process};

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How a process ended.
#[derive(Debug)]
pub struct Ran {
    /// What it printed.
    pub printed: String,
    /// Whether it ended by itself.
    pub finished: bool,
    /// Seconds of its life.
    pub seconds: f64,
    /// Seconds of CPU that it used.
    pub cpu: f64,
}

/// A process with its output in a file.
pub struct Contestant {
    child: Child,
    printed: PathBuf,
    watch: Watch,
    cpu: f64,
}

impl Contestant {
    /// Starts it in a folder.
    pub fn start(command: &mut Command, folder: &Path) -> Result<Self, Failure> {
        let printed = folder.join("printed");
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&printed)?)
            .stderr(fs::File::create(folder.join("errors"))?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{:?} cannot be started: {error}", command.as_std().get_program()))?;
        Ok(Self { child, printed, watch: Watch::start(), cpu: 0.0 })
    }

    /// Asks it to end, so that it ends those that it started, and waits for that.
    pub async fn terminate(self) -> Result<(), Failure> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        Command::new("kill").arg(pid.to_string()).status().await?;
        self.end(Duration::from_secs(5), || false).await.map(drop)
    }

    /// Waits until it ends, its time is over, or nobody needs it any more.
    pub async fn end(mut self, most: Duration, enough: impl Fn() -> bool + Send) -> Result<Ran, Failure> {
        let finished = loop {
            if let Some(pid) = self.child.id() {
                self.cpu = self.cpu.max(process::cpu_seconds_of(&pid.to_string()));
            }
            if self.child.try_wait()?.is_some() {
                break true;
            }
            if self.watch.elapsed() >= most || enough() {
                self.child.kill().await?;
                break false;
            }
            pause(LOOK).await;
        };
        let printed = String::from_utf8_lossy(&fs::read(&self.printed)?).into_owned();
        Ok(Ran { printed, finished, seconds: self.watch.seconds(), cpu: self.cpu })
    }
}

impl Ran {
    /// The last line that is a JSON document by itself.
    pub fn last_document(&self) -> Value {
        self.printed.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null)
    }
}
