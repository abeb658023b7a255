//! What the daemon takes: pages of very many dead items, sending them back, writing them out, followers, doing nothing.

mod beside;
mod daemon;
mod goals;
mod many;
mod pages;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Scratch, binary, external, triage};
use crate::engine::runtime;
use crate::report::{save, say};
use crate::{Common, Failure, facts, process};

/// Measures each part on a store of the same dead items.
pub fn run(common: &Common) -> Result<(), Failure> {
    let (scratch, shape) = (Scratch::new(common)?, common.shape(1_000_000));
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let binary = binary()?;
    let dead = scratch.folder().join("dead.db");
    triage::stored::dead(&dead, shape)?;
    let size = std::fs::metadata(&dead)?.len() as f64 / 1e6;
    say(&format!("{} dead items in a store of {size:.0} MB", shape.items));
    let mut results = runtime()?.block_on(async {
        let pages = pages::measure(&binary, &dead, shape.items).await?;
        let export = many::export(&binary, &dead).await?;
        let idle = beside::idle(&binary, &dead).await?;
        let redrive = many::redrive(&binary, &copy(&scratch, &dead)?, false).await?;
        let worked = many::redrive(&binary, &copy(&scratch, &dead)?, true).await?;
        let followers = beside::followers(&binary, scratch.folder(), common.repeat).await?;
        Ok::<_, Failure>(json!({
            "pages": pages, "export": export, "idle": idle, "redrive": redrive,
            "redrive_while_worked_on": worked, "followers": followers,
        }))
    })?;
    results["external"] = external::measure(&scratch, common, external::ITEMS)?;
    let goals = goals::compare(&results);
    let result = json!({
        "facts": facts, "load_after": process::load(), "items": shape.items, "store_mb": size.round(),
        "repeat": common.repeat, "results": results, "goals": goals,
    });
    save(common.json.as_deref(), &result)
}

/// A copy of the store to be changed.
fn copy(scratch: &Scratch, made: &Path) -> Result<PathBuf, Failure> {
    let store = scratch.store()?;
    std::fs::copy(made, &store)?;
    Ok(store)
}
