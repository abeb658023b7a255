//! Items: list them, find one by its id or key, tell its whole life, give it up; those that nothing happens to.

mod attempts;
pub(crate) mod cause;
mod list;
mod stuck;

use std::collections::BTreeSet;

use redrive_core::id::RunId;
use redrive_core::item::{DeadReason, Item, State};
use redrive_engine::admin::{self, Act};
use redrive_engine::report::{
    Epitaph, Explanation, ItemView, NEWEST, epitaph, explain as tell_life, find_item, find_tombstones,
};
use redrive_store::{RunFilter, RunRow, Store, Tombstone};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Code, Error, Result};
use crate::operations::Doomed;
use crate::runs::{KnownRun, Runs};
use crate::{Floor, Role};

pub use attempts::{AttemptPage, attempts};
pub use list::{ItemList, ItemRow, List, list};
pub use stuck::{Standstill, Stuck, StuckItem, StuckList, StuckPage, stuck, stuck_page};

/// Items of one name that are looked at, and those of them that are named.
const LOOKED_AT: usize = 1_000;
const NAMED: usize = 5;
/// Runs looked at in one request.
const PAGE: usize = 200;
/// How much of a name that nothing has is repeated.
const SHOWN: usize = 80;
/// Where the numbers of runs are.
const RUNS: &str = "`redrive runs` lists the runs of this store";

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
                .code(Code::ItemNotFound)
                .hint(format!("`redrive explain {id}` tells what is left of it")))
        }
    }
}

async fn find_any(store: &dyn Store, name: &ItemName) -> Result<Found> {
    let ItemName { item: name, run } = name;
    let mut items = find_item(store, name, *run, LOOKED_AT).await?;
    let mut purged = find_tombstones(store, name, *run, LOOKED_AT).await?;
    match (items.len(), purged.len()) {
        (0, 0) => Err(nothing_called(store, name, *run).await?),
        (1, 0) => Ok(Found::Item(Box::new(items.remove(0)))),
        (0, 1) => Ok(Found::Tombstone(purged.remove(0))),
        _ => {
            let living = items.iter().map(|item| (item.run, item.id, &item.key, ""));
            let gone = purged.iter().map(|gone| (gone.run, gone.id, &gone.key, ", purged"));
            let mut all: Vec<_> = living.chain(gone).collect();
            // Those of the newest run first; of one run, as they came.
            all.sort_by_key(|(run, ..)| std::cmp::Reverse(*run));
            let more = all.len().saturating_sub(NAMED);
            let some = all.iter().take(NAMED);
            let mut lines: Vec<String> = some
                .map(|(run, id, key, gone)| format!("{id} ({} in {run}{gone})", beginning(key)))
                .collect();
            let least = if items.len().max(purged.len()) < LOOKED_AT { "" } else { "at least " };
            lines.extend((more > 0).then(|| format!("and {least}{more} more")));
            let message =
                format!("several items are called {}:\n       {}", beginning(name), lines.join("\n       "));
            Err(Error::wrong(message).code(Code::ItemAmbiguous).hint("give more of the id, or --run"))
        }
    }
}

/// The run in question, or the newest, if it has not admitted all of its source.
async fn not_read_whole(store: &dyn Store, within: Option<RunId>) -> Result<Option<RunId>> {
    let row = match within {
        Some(run) => store.run(run).await?,
        None => store.runs(RunFilter::default(), None, 1).await?.into_iter().next(),
    };
    let unread = |row: &RunRow| (!row.admitted_all || row.is_part()) && !row.spec.is_standing();
    Ok(row.filter(unread).map(|row| row.id))
}

/// Nothing has this name: the run may not exist that it was looked for in, or it may be the name of a run.
async fn nothing_called(store: &dyn Store, name: &str, within: Option<RunId>) -> Result<Error> {
    if let Some(run) = within
        && store.run(run).await?.is_none()
    {
        return Ok(Error::not_found(format!("run {run} does not exist")).code(Code::RunNotFound).hint(RUNS));
    }
    let message = format!("no item has the id or key {:?}", beginning(name));
    let Ok(run) = name.parse::<RunId>() else {
        let hint = match not_read_whole(store, within).await? {
            Some(run) => format!(
                "run {run} has not read all of its source, so it may be there: `redrive show {run}` tells how far it is"
            ),
            None => "`redrive items` lists ids and keys; a key has to be given whole".to_owned(),
        };
        return Ok(Error::not_found(message).code(Code::ItemNotFound).hint(hint));
    };
    Ok(match store.run(run).await? {
        Some(_) => Error::not_found(message)
            .code(Code::ItemNotFound)
            .hint(format!("{run} is a run: `redrive show {run}` shows it")),
        None => Error::not_found(format!("{message}, and run {run} does not exist"))
            .code(Code::ItemNotFound)
            .hint(RUNS),
    })
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

/// One item's life, and how it was chosen.
#[derive(Debug)]
pub struct Explained {
    /// Its life.
    pub life: Life,
    /// The run it is in, where several have an item of that key and this is the newest of them.
    pub newest: Option<RunId>,
}

/// Tells one item's life, and why it is not running now, with the newest attempts; [`attempts`] has all of them. Of several runs that
/// have an item of that key, the newest is meant.
///
/// # Errors
/// When none or several are meant, or the store fails.
pub async fn explain(floor: &Floor, name: &ItemName) -> Result<Explained> {
    explained(floor, name, NEWEST).await
}

/// The same with all its attempts, however many these are.
///
/// # Errors
/// When none or several are meant, or the store fails.
pub async fn explain_whole(floor: &Floor, name: &ItemName) -> Result<Explained> {
    explained(floor, name, usize::MAX).await
}

async fn explained(floor: &Floor, name: &ItemName, attempts: usize) -> Result<Explained> {
    let (name, newest) = in_newest(&*floor.store, name).await?;
    Ok(Explained { life: life(floor, &name, attempts).await?, newest })
}

/// A name in the newest run that has it, and that run where several have it.
async fn in_newest(store: &dyn Store, name: &ItemName) -> Result<(ItemName, Option<RunId>)> {
    let newest = match name.run {
        Some(_) => None,
        None => newest_of_several(store, &name.item).await?,
    };
    Ok((ItemName { item: name.item.clone(), run: newest.or(name.run) }, newest))
}

/// Finds an item that is there, in the newest run that has one of that key.
async fn find_newest(store: &dyn Store, name: &ItemName) -> Result<Item> {
    let (name, _) = in_newest(store, name).await?;
    match find_any(store, &name).await? {
        Found::Item(item) => Ok(*item),
        Found::Tombstone(_) => Err(purged(&name)),
    }
}

fn purged(name: &ItemName) -> Error {
    Error::not_found(format!("item {} was purged", beginning(&name.item)))
        .code(Code::ItemNotFound)
        .hint(format!("`redrive explain {}` says what is left of it", beginning(&name.item)))
}

/// The newest run that has or had an item of this key, if several have; `None` also where the name is the beginning of an id.
async fn newest_of_several(store: &dyn Store, key: &str) -> Result<Option<RunId>> {
    let items = find_item(store, key, None, LOOKED_AT).await?;
    let purged = find_tombstones(store, key, None, LOOKED_AT).await?;
    let named = items.iter().map(|item| (&*item.key, item.run));
    let named: Vec<(&str, RunId)> = named.chain(purged.iter().map(|gone| (&*gone.key, gone.run))).collect();
    let runs: BTreeSet<RunId> = named.iter().map(|(_, run)| *run).collect();
    if runs.len() < 2 || named.iter().any(|(of, _)| *of != key) {
        return Ok(None);
    }
    // Those that were looked at are the oldest, so the runs are gone through from the newest on.
    let mut before = None;
    loop {
        let page = store.runs(RunFilter::default(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        before = Some(last.id);
        for row in &page {
            let has = !find_item(store, key, Some(row.id), 1).await?.is_empty()
                || !find_tombstones(store, key, Some(row.id), 1).await?.is_empty();
            if has {
                return Ok(Some(row.id));
            }
        }
    }
}

/// Shows one item without its content.
///
/// # Errors
/// When none or several are meant, it was purged, or the store fails.
pub async fn show(floor: &Floor, name: &ItemName) -> Result<ItemView> {
    match explain(floor, name).await?.life {
        Life::Item(life) => Ok(ItemView { payload: None, ..life.item }),
        Life::Purged(_) => Err(purged(name)),
    }
}

/// One item's content, as it is now: the text of one JSON document.
///
/// # Errors
/// When none or several are meant, whoever asks may not see it, it is damaged, or the store fails.
pub async fn payload(floor: &Floor, name: &ItemName) -> Result<Box<RawValue>> {
    floor.require_payloads()?;
    match explain(floor, name).await?.life {
        Life::Purged(_) => Err(purged(name)),
        Life::Item(life) => {
            let ItemView { id, payload, damage, .. } = life.item;
            let why = damage.unwrap_or_else(|| "it is not there".to_owned());
            payload.ok_or_else(|| Error::internal(format!("the content of item {id} cannot be read: {why}")))
        }
    }
}

async fn life(floor: &Floor, name: &ItemName, newest: usize) -> Result<Life> {
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
    let KnownRun { row, plan, .. } = &known;
    let mut life = tell_life(store, row, &item, plan, gate.as_deref(), newest, &floor.env).await?;
    if let Some(at) = Doomed::of(store).await?.at(store, &item).await? {
        life.now.push_str(&format!(
            " It is to be purged at {at}; `redrive dead operations` lists who asked for that."
        ));
    }
    if floor.asker.payloads_hidden {
        life.item.payload = None;
    }
    Ok(Life::Item(Box::new(life)))
}

/// Gives one item up: it is dead, with these words, and can be redriven.
///
/// # Errors
/// When none or several are meant, the item has ended, or the store fails.
pub async fn kill(floor: &Floor, name: &ItemName, why: &str) -> Result<Life> {
    floor.require(Role::Operator)?;
    let item = find(&*floor.store, name).await?;
    let known = Runs::of(&*floor.store).find(Some(item.run)).await?;
    if !item.state.kind().is_terminal() {
        floor.write_down(Act::KillItem { run: item.run, item: item.id, why: why.to_owned() }).await?;
    }
    let (why, id) = (floor.said(why), item.id);
    if !admin::kill(&*floor.store, &item, &known.plan, &why, &floor.env).await? {
        // Whoever says it once more, because he does not know whether he was heard, is told the same.
        let killed = State::Dead { reason: DeadReason::Operator };
        let now = floor.store.item(item.seq).await?.unwrap_or(item);
        if now.state != killed {
            let message = format!("item {} is {} already", now.id, now.state.kind());
            return Err(Error::refused(message).code(Code::ItemFinished));
        }
    }
    life(floor, &ItemName { item: id.to_string(), run: None }, NEWEST).await
}
