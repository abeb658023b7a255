//! Dead items are listed, one by one and in groups.

mod order;

use std::collections::BTreeMap;

use redrive_core::failure::Class;
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{DeadReason, Item, State};
use redrive_store::Group;
use serde::{Deserialize, Serialize};

use super::{Selection, Which};
use crate::Floor;
use crate::error::Result;
use crate::operations::Doomed;
use crate::runs::Runs;

pub use order::DeadOrder;

/// Most items or groups of a page.
const MOST: usize = 500;

/// Which page of dead items.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct List {
    /// Which items.
    pub which: Which,
    /// In what order.
    pub order: DeadOrder,
    /// At most so many.
    pub limit: usize,
    /// Goes on after this cursor, from `next` of the page before.
    pub after: Option<String>,
}

/// A page of dead items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadList {
    /// The items, in the order that was asked for.
    pub items: Vec<DeadItem>,
    /// Where the next page goes on; `None` when this is the last.
    pub next: Option<String>,
}

/// A dead item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadItem {
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// The stage it died at.
    pub stage: String,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// The class of its last failure.
    pub class: Option<Class>,
    /// What its last failure said.
    pub message: Option<String>,
    /// How often it was attempted, in this generation.
    pub attempts: u32,
    /// How often it was sent back.
    pub generation: u32,
    /// When it died.
    pub failed_at: String,
    /// Its group of alike errors.
    pub group: Option<String>,
    /// When it is removed, where somebody has asked for that and it can still be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge_at: Option<String>,
}

impl DeadItem {
    pub(super) fn new(item: &Item, stage: String) -> Self {
        let last = item.last.as_ref();
        Self {
            id: item.id,
            key: item.key.to_string(),
            run: item.run,
            stage,
            reason: match item.state {
                State::Dead { reason } => Some(reason),
                _ => None,
            },
            class: last.map(|last| last.class),
            message: last.map(|last| last.message.to_string()),
            attempts: item.attempt,
            generation: item.generation,
            failed_at: item.updated_at.to_string(),
            group: last.map(|last| last.group.to_string()).filter(|group| !group.is_empty()),
            purge_at: None,
        }
    }
}

/// Lists dead items.
///
/// # Errors
/// When what is named does not exist, the cursor is none, or the store fails.
pub async fn list(floor: &Floor, request: &List) -> Result<DeadList> {
    let filters = Selection::of(floor, &request.which).await?.filters;
    let limit = request.limit.max(1);
    let runs = Runs::of(&*floor.store);
    let doomed = Doomed::of(&*floor.store).await?;
    // The store is asked page by page where it has this order; for another all have to be looked at once.
    let most = match request.order {
        DeadOrder::Newest | DeadOrder::Oldest => MOST,
        DeadOrder::Key | DeadOrder::Stage => usize::MAX,
    };
    let (mut items, mut next) = (Vec::new(), request.after.clone());
    loop {
        let wanted = most.min(limit - items.len());
        let page =
            order::page(&runs, &*floor.store, &filters, request.order, next.as_deref(), wanted).await?;
        for item in &page.items {
            let mut told = DeadItem::new(item, runs.stage_name(item.run, item.stage).await?);
            told.purge_at = doomed.at(&*floor.store, item).await?.map(|at| at.to_string());
            items.push(told);
        }
        next = page.next;
        if next.is_none() || items.len() >= limit {
            return Ok(DeadList { items, next });
        }
    }
}

/// The largest groups of dead items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadGroups {
    /// The groups, largest first.
    pub groups: Vec<DeadGroup>,
    /// How many were left out because somebody looks after them.
    #[serde(skip)]
    pub looked_after: u64,
}

/// Dead items with alike errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadGroup {
    /// Its name.
    pub group: String,
    /// How many items are in it.
    pub items: u64,
    /// The stage they died at.
    pub stage: String,
    /// The class of their last failures.
    pub class: Option<Class>,
    /// What one of the failures said.
    pub message: String,
    /// One of the items.
    pub example: ItemId,
    /// When the first of them died.
    pub first_at: String,
    /// When the last of them died.
    pub last_at: String,
    /// What somebody wrote about it; `null` where nobody did.
    pub note: Option<String>,
    /// When somebody said that it is known and looked after; `null` when nobody did.
    pub acknowledged_at: Option<String>,
    /// Who wrote last about it; `null` where nobody did.
    pub noted_by: Option<String>,
    /// Whether nobody has said so, or some died since: it needs a person.
    pub open: bool,
}

/// Groups dead items by alike errors.
///
/// # Errors
/// When what is named does not exist, or the store fails.
pub async fn groups(floor: &Floor, which: &Which, limit: usize) -> Result<DeadGroups> {
    let limit = limit.max(1);
    let mut merged: BTreeMap<String, Group> = BTreeMap::new();
    for filter in Selection::of(floor, which).await?.filters {
        for group in floor.store.groups(filter, limit).await? {
            merged
                .entry(group.group.clone())
                .and_modify(|known| {
                    known.items += group.items;
                    known.first_at = known.first_at.min(group.first_at);
                    known.last_at = known.last_at.max(group.last_at);
                })
                .or_insert(group);
        }
    }
    let mut largest: Vec<Group> = merged.into_values().collect();
    largest.sort_by(|a, b| b.items.cmp(&a.items).then_with(|| a.group.cmp(&b.group)));
    largest.truncate(limit);
    let runs = Runs::of(&*floor.store);
    let notes = floor.store.group_notes().await?;
    let mut groups = Vec::new();
    for group in largest {
        let stage = runs.stage_name(group.run, group.stage).await?;
        let note = notes.iter().find(|note| note.group == group.group);
        let acknowledged_at = note.and_then(|note| note.acknowledged_at);
        groups.push(DeadGroup {
            note: note.map(|note| note.note.clone()).filter(|note| !note.is_empty()),
            acknowledged_at: acknowledged_at.map(|at| at.to_string()),
            noted_by: note.map(|note| note.actor.clone()),
            open: acknowledged_at.is_none_or(|at| group.last_at > at),
            group: group.group,
            items: group.items,
            stage,
            class: group.class,
            message: group.message,
            example: group.example,
            first_at: group.first_at.to_string(),
            last_at: group.last_at.to_string(),
        });
    }
    Ok(DeadGroups { groups, looked_after: 0 })
}

/// The same, but only groups that need a person.
///
/// # Errors
/// When what is named does not exist, or the store fails.
pub async fn open_groups(floor: &Floor, which: &Which, limit: usize) -> Result<DeadGroups> {
    let DeadGroups { mut groups, .. } = groups(floor, which, MOST).await?;
    let all = groups.len();
    groups.retain(|group| group.open);
    let looked_after = (all - groups.len()) as u64;
    groups.truncate(limit.max(1));
    Ok(DeadGroups { groups, looked_after })
}
