//! From the start of a process to its first claim, with a million items waiting.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use redrive_engine::handler::{Answer, Handler, Request};
use serde_json::{Value, json};

use super::Scratch;
use crate::clock::{Watch, nanos};
use crate::engine::{Bench, runtime};
use crate::material::{Pass, Shape, recipe};
use crate::report::{Spread, round, save, say, table};
use crate::{Common, Failure, facts};

/// What the child claims at a time.
const HELD: Shape = Shape { items: 0, payload: 0, stages: 1, concurrency: 1, batch: 512 };

/// Ends the process at the first call, without any cleaning up, as a crash would.
struct Fall {
    opened: u64,
}

#[async_trait]
impl Handler for Fall {
    async fn call(&self, request: Request) -> Answer {
        let claimed = nanos() as f64 / 1e6;
        let opened = self.opened as f64 / 1e6;
        say(
            &json!({ "opened_ms": round(opened), "claimed_ms": round(claimed), "held": request.items.len() })
                .to_string(),
        );
        std::process::exit(0);
    }
}

/// Fills a store, then starts processes on it: with the file out of the cache, and in it.
pub fn run(common: &Common) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(1_000_000));
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let path = scratch.store()?;
    runtime()?.block_on(async {
        let bench = Bench::create(&path, shape, Arc::new(Pass)).await?;
        bench.submit_all().await
    })?;
    let size = std::fs::metadata(&path)?.len() as f64 / 1e6;
    say(&format!("{} items wait in a store of {size:.0} MB", shape.items));
    let mut rows = Vec::new();
    let mut result = json!({ "facts": facts, "items": shape.items, "store_mb": size.round() });
    for (name, cold) in [("cold", true), ("warm", false)] {
        let starts = (0..common.repeat).map(|_| start(&path, cold)).collect::<Result<Vec<_>, _>>()?;
        let of =
            |name: &str| Spread::of(starts.iter().map(|start| start[name].as_f64().unwrap_or(0.0)).collect());
        let (process, opened, claimed) = (of("process_ms"), of("opened_ms"), of("claimed_ms"));
        rows.push(vec![name.to_owned(), opened.text(1), claimed.text(1), process.text(1)]);
        result[name] = json!({
            "opened_ms": opened.json(), "claimed_ms": claimed.json(), "process_start_to_claim_ms": process.json(),
        });
    }
    table(&["milliseconds", "store opened", "first claim", "from process start"], &rows);
    save(common.json.as_deref(), &result)
}

/// Every start but the first finds what a dead process left: leased items, and a log that was not moved into the file.
fn start(path: &Path, cold: bool) -> Result<Value, Failure> {
    if cold {
        forget(path)?;
    }
    let watch = Watch::start();
    let child = Command::new(std::env::current_exe()?)
        .arg("restart-child")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.wait_with_output()?;
    let took = watch.seconds() * 1e3;
    let mut told: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stdout)))?;
    told["process_ms"] = json!(took);
    Ok(told)
}

/// Takes the store's files out of the system's cache.
fn forget(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().ok_or("no folder")?;
    for entry in std::fs::read_dir(folder)? {
        let mut target = std::ffi::OsString::from("of=");
        target.push(entry?.path());
        let options = ["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
        Command::new("dd").arg(target).args(options).status()?;
    }
    Ok(())
}

/// The process that is started: opens the store, claims, and falls.
pub fn child(path: &Path) -> Result<(), Failure> {
    nanos();
    runtime()?.block_on(async {
        let mut bench = Bench::reopen(path, HELD, Arc::new(Pass)).await?;
        let fall = Fall { opened: nanos() };
        bench.recipe = Arc::new(recipe(HELD, &(Arc::new(fall) as Arc<dyn Handler>))?);
        bench.drain().await
    })
}
