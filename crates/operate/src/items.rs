//! Items: find one by its id or key, tell its whole life, give it up.

use redrive_core::id::RunId;
use redrive_core::item::Item;
use redrive_engine::admin;
use redrive_engine::report::{
    Epitaph, Explanation, epitaph, explain as tell_life, find_item, find_tombstones,
};
use redrive_store::{Store, Tombstone};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::Runs;

/// Items of one name that are looked at, and those of them that are named.
const LOOKED_AT: usize = 6;
const NAMED: usize = 5;
/// How much of a name that nothing has is repeated.
const SHOWN: usize = 80;

/// One item, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemName {
    /// Its id, the beginning of its id, or its key.
    pub item: String,
    /// Only in this run.
    pub run: Option<RunId>,
}

/// An item's life, or what is left of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Life {
    /// It is there.
    Item(Box<Explanation>),
    /// It was purged.
    Purged(Box<Epitaph>),
}

enum Found {
    Item(Box<Item>),
    Tombstone(Tombstone),
}

/// Finds the one item that is meant; one that was purged does not count.
///
/// # Errors
/// When none or several are meant, or the store fails.
pub async fn find(store: &dyn Store, name: &ItemName) -> Result<Item> {
    match find_any(store, name).await? {
        Found::Item(item) => Ok(*item),
        Found::Tombstone(tombstone) => {
            let id = tombstone.id;
            Err(Error::not_found(format!("item {id} was purged at {}", tombstone.at))
                .hint(format!("`redrive explain {id}` tells what is left of it")))
        }
    }
}

async fn find_any(store: &dyn Store, name: &ItemName) -> Result<Found> {
    let ItemName { item: name, run } = name;
    let mut items = find_item(store, name, *run, LOOKED_AT).await?;
    let mut purged = find_tombstones(store, name, *run, LOOKED_AT).await?;
    match (items.len(), purged.len()) {
        (0, 0) => Err(Error::not_found(format!("no item has the id or key {:?}", beginning(name))).hint(
            "ids are shown by `redrive dead list` and `redrive failures`; a key has to be given whole",
        )),
        (1, 0) => Ok(Found::Item(Box::new(items.remove(0)))),
        (0, 1) => Ok(Found::Tombstone(purged.remove(0))),
        _ => {
            let living = items.iter().map(|item| format!("{} ({} in {})", item.id, item.key, item.run));
            let gone =
                purged.iter().map(|gone| format!("{} ({} in {}, purged)", gone.id, gone.key, gone.run));
            let some: Vec<String> = living.chain(gone).take(NAMED).collect();
            let message = format!("several items are called {name}:\n       {}", some.join("\n       "));
            Err(Error::wrong(message).hint("give more of the id, or --run"))
        }
    }
}

/// The first line of a name, cut.
fn beginning(name: &str) -> String {
    let line = name.lines().next().unwrap_or_default();
    if line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(SHOWN - 1).collect();
    cut.push('…');
    cut
}

/// Tells one item's whole life, and why it is not running now.
///
/// # Errors
/// When none or several are meant, or the store fails.
pub async fn explain(floor: &Floor, name: &ItemName) -> Result<Life> {
    let (store, runs) = (&*floor.store, Runs::of(&*floor.store));
    let item = match find_any(store, name).await? {
        Found::Item(item) => *item,
        Found::Tombstone(tombstone) => {
            // Its run may be forgotten.
            let known = runs.known(tombstone.run).await?;
            let left = epitaph(&tombstone, known.as_ref().map(|known| &known.plan));
            return Ok(Life::Purged(Box::new(left)));
        }
    };
    let known = runs.find(Some(item.run)).await?;
    let gate = known.definition.gate_names().into_iter().nth(item.stage.index()).flatten();
    let life = tell_life(store, &known.row, &item, &known.plan, gate.as_deref(), floor.now()).await?;
    Ok(Life::Item(Box::new(life)))
}

/// Gives one item up: it is dead, with these words, and can be redriven.
///
/// # Errors
/// When none or several are meant, the item has ended, or the store fails.
pub async fn kill(floor: &Floor, name: &ItemName, why: &str) -> Result<Life> {
    let item = find(&*floor.store, name).await?;
    let known = Runs::of(&*floor.store).find(Some(item.run)).await?;
    let why = format!("{why} ({})", floor.actor);
    if !admin::kill(&*floor.store, &item, &known.plan, &why, &floor.env).await? {
        return Err(Error::refused(format!("item {} is {} already", item.id, item.state.kind())));
    }
    explain(floor, &ItemName { item: item.id.to_string(), run: None }).await
}
