//! What an operator waits for when very much is dead: the real binary beside bare SQL that reads and writes the same rows.

mod bare;
pub mod stored;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::json;

use super::{Scratch, binary};
use crate::clock::Watch;
use crate::report::{Spread, save, say, table};
use crate::{Common, Failure, facts, process};

/// Something an operator asks for.
struct Task {
    name: &'static str,
    /// What is typed; `OUT` stands for a file.
    typed: &'static [&'static str],
    /// Whether it needs items that wait instead of items that are dead.
    waiting: bool,
    /// The same by bare SQL.
    bare: fn(&Path, &Path) -> rusqlite::Result<()>,
    /// The longest it may take with 200,000 items on a quiet machine, in seconds.
    wanted: f64,
}

const TASKS: &[Task] = &[
    Task {
        name: "dead groups",
        typed: &["dead", "groups", "--json"],
        waiting: false,
        bare: bare::groups,
        wanted: 0.1,
    },
    Task {
        name: "dead export",
        typed: &["dead", "export", "-o", "OUT"],
        waiting: false,
        bare: bare::export,
        wanted: 5.0,
    },
    Task { name: "check", typed: &["check", "--json"], waiting: false, bare: bare::check, wanted: 15.0 },
    Task {
        name: "dead purge --all",
        typed: &["dead", "purge", "--all", "--yes"],
        waiting: false,
        bare: bare::purge,
        wanted: 10.0,
    },
    Task {
        name: "cancel",
        typed: &["cancel", "r1", "--yes"],
        waiting: true,
        bare: bare::cancel,
        wanted: 5.0,
    },
];

/// Measures each task on a fresh copy of the same store, taking turns with bare SQL.
pub fn run(common: &Common) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(200_000));
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let binary = binary()?;
    let (dead, waiting) = (scratch.folder().join("dead.db"), scratch.folder().join("waiting.db"));
    stored::dead(&dead, shape)?;
    stored::waiting(&waiting, shape)?;
    let mut lines = Vec::new();
    let mut figures = json!({});
    for task in TASKS {
        let made = if task.waiting { &waiting } else { &dead };
        let (mut asked, mut floor, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..common.repeat {
            let (store, out) = fresh(&scratch, made)?;
            let watch = Watch::start();
            (task.bare)(&store, &out)?;
            let bare = watch.seconds();
            let wanted = left(&store, &out)?;
            let (store, out) = fresh(&scratch, made)?;
            let watch = Watch::start();
            ask(&binary, task, &store, &out)?;
            let took = watch.seconds();
            let found = left(&store, &out)?;
            if wanted != found {
                return Err(format!("{}: bare SQL left {wanted:?}, redrive {found:?}", task.name).into());
            }
            asked.push(took);
            floor.push(bare);
            ratio.push(took / bare);
        }
        let spreads = [Spread::of(asked), Spread::of(floor), Spread::of(ratio)];
        let wanted = task.wanted * shape.items as f64 / 200_000.0;
        figures[task.name] = json!({
            "seconds": spreads[0].json(), "floor_seconds": spreads[1].json(), "ratio": spreads[2].json(),
            "wanted_seconds": wanted,
        });
        let mut cells = vec![task.name.to_owned()];
        cells.extend(spreads.iter().map(|spread| spread.text(2)));
        cells.push(format!("{wanted:.2}"));
        lines.push(cells);
    }
    say(&format!(
        "\n{} items of {} B; the process as it is typed, median (min–max) of {}",
        shape.items, shape.payload, common.repeat
    ));
    table(&["", "redrive, s", "bare SQL, s", "redrive / bare", "wanted, s"], &lines);
    let result = json!({
        "facts": facts, "load_after": process::load(), "items": shape.items, "payload": shape.payload,
        "repeat": common.repeat, "results": figures,
    });
    save(common.json.as_deref(), &result)
}

/// A copy of a store to be worked on, in a folder of its own, and a place for output.
fn fresh(scratch: &Scratch, made: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let store = scratch.store()?;
    fs::copy(made, &store)?;
    let out = store.with_file_name("out.jsonl");
    Ok((store, out))
}

fn ask(binary: &Path, task: &Task, store: &Path, out: &Path) -> Result<(), Failure> {
    let out = out.display().to_string();
    let words = task.typed.iter().map(|word| if *word == "OUT" { out.as_str() } else { word });
    let ran = Command::new(binary)
        .args(words)
        .args(["--quiet", "--store", &format!("sqlite:{}", store.display())])
        .stdin(Stdio::null())
        .output()?;
    if ran.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", task.name, String::from_utf8_lossy(&ran.stderr)).into())
}

/// What both ways must agree on: what is in the store after it, and how many lines were written.
fn left(store: &Path, out: &Path) -> Result<Vec<i64>, Failure> {
    let conn = Connection::open(store)?;
    let mut found = Vec::new();
    for query in [
        "SELECT count(*) FROM item",
        "SELECT count(*) FROM item WHERE state = 6",
        "SELECT count(*) FROM item WHERE state = 7",
        "SELECT count(*) FROM attempt",
        "SELECT count(*) FROM mark",
        "SELECT count(*) FROM tombstone",
        "SELECT coalesce(sum(n * metric), 0) FROM counter WHERE metric BETWEEN 100000 AND 199999",
    ] {
        found.push(conn.query_row(query, [], |row| row.get(0))?);
    }
    let written = fs::read(out).unwrap_or_default();
    found.push(i64::try_from(written.iter().filter(|byte| **byte == b'\n').count())?);
    Ok(found)
}
