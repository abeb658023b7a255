//! Dead items are listed, one by one and in groups.

mod groups;
mod order;

use redrive_core::failure::Class;
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{DeadReason, Item, State};
use serde::{Deserialize, Serialize};

use super::{Selection, Which};
use crate::Floor;
use crate::error::Result;
use crate::operations::Doomed;
use crate::runs::Runs;

pub use groups::{DeadGroup, DeadGroups, GroupPage, Groups, group_page, groups, open_groups};
pub use order::DeadOrder;

/// Most items of a page.
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
