//! A command and the processes it starts: how long, how much processor, how much memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::{Watch, pause};
use crate::report::round;
use crate::{Failure, process};

/// How often it is looked at whether the command has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Every how many looks the whole tree is looked at.
const TREE: u32 = 10;

/// One process, as it was seen last.
#[derive(Debug, Clone, Default)]
struct Seen {
    told: String,
    peak_mb: f64,
    cpu: f64,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    /// What it printed.
    pub printed: String,
    /// What it complained of.
    pub errors: String,
    /// Whether it ended by itself and well.
    pub well: bool,
    /// Seconds of its life.
    pub seconds: f64,
    /// CPU seconds of the process itself.
    pub cpu: f64,
    /// CPU seconds of the processes it started.
    pub cpu_of_children: f64,
    /// Its highest resident memory, in MB.
    pub peak_mb: f64,
    /// What each of the others was told, with its CPU seconds and its highest resident memory.
    children: Vec<Seen>,
}

/// A command that goes on.
pub struct Watched {
    child: Child,
    folder: PathBuf,
    watch: Watch,
    peak_mb: f64,
    children: BTreeMap<u32, Seen>,
}

impl Watched {
    /// Starts a command; what it prints goes into files in the folder.
    pub fn start(command: &mut Command, folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder)?;
        let watch = Watch::start();
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("printed"))?)
            .stderr(fs::File::create(folder.join("errors"))?)
            .spawn()
            .map_err(|error| format!("{:?} cannot be started: {error}", command.get_program()))?;
        Ok(Self { child, folder: folder.to_owned(), watch, peak_mb: 0.0, children: BTreeMap::new() })
    }

    /// Waits until it ends, or kills it as soon as `enough` says so.
    pub async fn end(mut self, mut enough: impl FnMut() -> bool) -> Result<Ran, Failure> {
        let pid = self.child.id();
        let mut looks = 0_u32;
        let standing = loop {
            // Nobody else asks for its end, so it cannot be gone before this has seen it ended.
            let standing = process::standing(pid).ok_or("a process vanished")?;
            if standing.ended {
                break standing;
            }
            self.peak_mb = self.peak_mb.max(process::peak_rss_mb_of(pid));
            if looks.is_multiple_of(TREE) {
                self.look_at_tree(pid);
                if enough() {
                    self.child.kill()?;
                }
            }
            looks += 1;
            pause(LOOK).await;
        };
        let seconds = self.watch.seconds();
        let well = self.child.wait()?.success();
        let children: Vec<Seen> = self.children.into_values().collect();
        // What the kernel adds up is exact, but it leaves out children that outlived their parent.
        let seen: f64 = children.iter().map(|child| child.cpu).sum();
        let text = |name: &str| {
            fs::read(self.folder.join(name)).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        Ok(Ran {
            printed: text("printed")?,
            errors: text("errors")?,
            well,
            seconds,
            cpu: standing.own,
            cpu_of_children: standing.children.max(seen),
            peak_mb: self.peak_mb,
            children,
        })
    }

    fn look_at_tree(&mut self, pid: u32) {
        for child in process::children_of(pid) {
            let seen = self.children.entry(child).or_default();
            if seen.told.is_empty() {
                seen.told = process::told(child);
            }
            seen.peak_mb = seen.peak_mb.max(process::peak_rss_mb_of(child));
            seen.cpu = process::standing(child).map_or(seen.cpu, |standing| standing.own);
        }
    }
}

impl Ran {
    /// The last line that is a JSON document by itself, or the whole that is one.
    pub fn document(&self) -> Result<Value, Failure> {
        let line = || self.printed.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        let found = serde_json::from_str(&self.printed).ok().or_else(line);
        found.ok_or_else(|| format!("no document was printed: {}", self.errors.trim()).into())
    }

    /// The highest resident memory of one of the processes told so, in MB.
    pub fn peak_mb_of(&self, told: &str) -> f64 {
        let ours = self.children.iter().filter(|child| child.told.starts_with(told));
        ours.map(|child| child.peak_mb).fold(0.0, f64::max)
    }

    /// The highest resident memory of all processes together, at most, in MB.
    pub fn peak_mb_of_all(&self) -> f64 {
        self.peak_mb + self.children.iter().map(|child| child.peak_mb).sum::<f64>()
    }

    /// CPU seconds of the processes told so, as they were seen last.
    pub fn cpu_of(&self, told: &str) -> f64 {
        self.children.iter().filter(|child| child.told.starts_with(told)).map(|child| child.cpu).sum()
    }

    /// CPU seconds of all of them.
    pub fn cpu_of_all(&self) -> f64 {
        self.cpu + self.cpu_of_children
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let child = |child: &Seen| json!({ "told": child.told, "peak_mb": round(child.peak_mb), "cpu_seconds": round(child.cpu) });
        json!({
            "seconds": round(self.seconds), "cpu_seconds": round(self.cpu),
            "cpu_seconds_of_children": round(self.cpu_of_children), "peak_mb": round(self.peak_mb),
            "children": self.children.iter().map(child).collect::<Vec<_>>(),
        })
    }
}
