//! The lives of many items, read in a few requests.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Content, History, ItemContent, Result, RunRow, Store};

use super::sentence::{Around, sentence};
use super::{Explanation, NEWEST};
use crate::report::crew::Crew;

/// Bytes of content that are asked for at a time.
const BYTES: usize = 8 << 20;

/// What is kept of an item.
#[derive(Debug, Clone)]
pub struct Life {
    /// The item.
    pub item: Item,
    /// The id of the item it came from.
    pub parent: Option<ItemId>,
    /// Its content; `None` when it is gone meanwhile.
    pub content: Option<Content>,
    /// What happened to it.
    pub history: History,
}

/// Reads the lives of items, in the order asked for. What is not there is left out, and those whose contents are too large
/// to be read together stay for the next call: at least one is read.
///
/// # Errors
/// When the store fails.
pub async fn read_lives(store: &dyn Store, items: Vec<ItemSeq>) -> Result<Vec<Life>> {
    let found = store.contents(items, BYTES).await?;
    let histories = store.histories(found.iter().map(|found| found.item.seq).collect(), NEWEST).await?;
    let parents: BTreeSet<ItemSeq> = found.iter().filter_map(|found| found.item.parent).collect();
    let parents = match parents.is_empty() {
        true => Vec::new(),
        false => store.items_of(parents.into_iter().collect()).await?,
    };
    let parents: BTreeMap<ItemSeq, ItemId> = parents.iter().map(|parent| (parent.seq, parent.id)).collect();
    let lives = found.into_iter().zip(histories).map(|(ItemContent { item, content }, history)| {
        let parent = item.parent.and_then(|parent| parents.get(&parent).copied());
        Life { item, parent, content: Some(content), history }
    });
    Ok(lives.collect())
}

/// Tells the life of an item that is over: it waits neither for a gate nor for children.
#[must_use]
pub fn explain_life(life: &Life, row: &RunRow, plan: &Plan, now: Timestamp) -> Explanation {
    let around = Around { row, plan, gate: None, paused: None, crew: &Crew::default(), now };
    Explanation::of(life, plan, sentence(&life.item, &around))
}
