//! Whether memory grows with the number of items.

use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Scratch;
use crate::engine::{Bench, measured, runtime};
use crate::material::Pass;
use crate::report::{round, save, say, table};
use crate::{Common, Failure, facts, process};

const SMALL: usize = 10_000;

/// Submits and drains a small and a large number of items, each in a process of its own.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let large = common.items.unwrap_or(2_000_000);
    let (few, many) = (in_child(common, SMALL)?, in_child(common, large)?);
    let row = |child: &Value| {
        let of = |name: &str| child[name].to_string();
        vec![of("items"), of("peak_rss_mb"), of("items_per_s"), of("store_mb")]
    };
    table(&["items", "peak RSS, MB", "items/s", "store, MB"], &[row(&few), row(&many)]);
    let peak = |child: &Value| child["peak_rss_mb"].as_f64().unwrap_or(0.0);
    let growth = round(peak(&many) - peak(&few));
    say(&format!("growth: {growth} MB"));
    save(common.json.as_deref(), &json!({ "facts": facts, "runs": [few, many], "growth_mb": growth }))
}

fn in_child(common: &Common, items: usize) -> Result<Value, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("memory-child").args(["--items", &items.to_string()]);
    command.args(["--batch", &common.batch.to_string(), "--concurrency", &common.concurrency.to_string()]);
    if let Some(folder) = &common.folder {
        command.arg("--folder").arg(folder);
    }
    let output = command.output()?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stdout)).into())
}

/// The process that is looked at.
pub fn child(common: &Common) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(SMALL));
    let path = scratch.store()?;
    let ((), streamed) = runtime()?.block_on(async {
        let bench = Bench::create(&path, shape, Arc::new(Pass)).await?;
        measured(bench.stream()).await
    })?;
    let store = std::fs::metadata(&path)?.len() as f64 / 1e6;
    say(&json!({
        "items": shape.items,
        "peak_rss_mb": round(process::peak_rss_mb()),
        "items_per_s": (shape.items as f64 / streamed.seconds).round(),
        "store_mb": store.round(),
    })
    .to_string());
    Ok(())
}
