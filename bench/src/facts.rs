//! What the figures depend on: the disk, the library, the machine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::clock::Watch;
use crate::report::{Spread, round, say};
use crate::{Failure, process};

const BLOCK: usize = 8 << 10;
const WRITES: u64 = 400;
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Measures the disk of `folder` and gathers the rest.
pub fn gather(folder: &Path) -> Result<Value, Failure> {
    let rates = (0..3).map(|_| fdatasync_rate(folder)).collect::<Result<Vec<_>, _>>()?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    Ok(json!({
        "fdatasync_per_s": Spread::of(rates).json(),
        "sqlite": redrive_sqlite::library_version(),
        "synchronous": "FULL",
        "journal": "WAL, automatic checkpoint every 4000 pages",
        "cores": cores,
        "load_before": round(process::load()),
        "commit": output("git", &["-C", HERE, "rev-parse", "--short", "HEAD"]),
        "changed_files": output("git", &["-C", HERE, "status", "--porcelain", "--", "../crates"]).lines().count(),
        "kernel": output("uname", &["-r"]),
        "folder": folder.display().to_string(),
    }))
}

/// Prints the facts as one line above a result.
pub fn show(facts: &Value) {
    say(&format!(
        "fdatasync of 8 kB: {} /s ({}–{}); SQLite {} {}, {} cores, load {}, commit {} (+{} changed files)",
        facts["fdatasync_per_s"]["median"],
        facts["fdatasync_per_s"]["min"],
        facts["fdatasync_per_s"]["max"],
        text(&facts["sqlite"]),
        text(&facts["synchronous"]),
        facts["cores"],
        facts["load_before"],
        text(&facts["commit"]),
        facts["changed_files"],
    ));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// How often a second 8 kB can be written and waited for, in a file that has its size already.
fn fdatasync_rate(folder: &Path) -> Result<f64, Failure> {
    let path = folder.join("fdatasync");
    let file = File::create(&path)?;
    let block = vec![7_u8; BLOCK];
    for at in 0..64 {
        file.write_all_at(&block, at * BLOCK as u64)?;
    }
    file.sync_all()?;
    let watch = Watch::start();
    for n in 0..WRITES {
        file.write_all_at(&block, (n % 64) * BLOCK as u64)?;
        file.sync_data()?;
    }
    let rate = WRITES as f64 / watch.seconds();
    std::fs::remove_file(path)?;
    Ok(rate.round())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output();
    ran.map(|ran| String::from_utf8_lossy(&ran.stdout).trim().to_owned()).unwrap_or_default()
}
