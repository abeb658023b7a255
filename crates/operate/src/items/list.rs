//! Items are listed, in any state, of any run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use redrive_core::failure::Class;
use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo};
use redrive_core::item::{DeadReason, Item, State, StateKind};
use redrive_core::verdict::Verdict;
use redrive_engine::last_words::{LastWords, with_words};
use redrive_engine::report::AwaitedView;
use redrive_store::{ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::dead::{Selection, Which};
use crate::error::{Error, Result};
use crate::runs::Runs;

/// Items read at a time.
const PAGE: usize = 500;

/// Which page of items.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct List {
    /// Which items.
    pub which: Which,
    /// In this state; `None`: in any.
    pub state: Option<StateKind>,
    /// Succeeded with this verdict.
    pub verdict: Option<Verdict>,
    /// Those that came from others too.
    pub children: bool,
    /// At most so many.
    pub limit: usize,
    /// Goes on after this cursor, from `next` of the page before.
    pub after: Option<String>,
}

/// A page of items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemList {
    /// The items, in the order of submission.
    pub items: Vec<ItemRow>,
    /// Where the next page goes on; `null` when this is the last.
    pub next: Option<String>,
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemRow {
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// The stage it is at, or ended at.
    pub stage: String,
    /// Its state.
    pub state: StateKind,
    /// Its verdict, where it succeeded and a stage gave one.
    pub verdict: Option<Verdict>,
    /// Whether it came from another item.
    pub child: bool,
    /// Why it was filtered or is dead; `null` otherwise.
    pub reason: Option<String>,
    /// The class of its last failure at this stage.
    pub class: Option<Class>,
    /// What that failure said.
    pub message: Option<String>,
    /// The group of alike errors that it is in.
    pub group: Option<String>,
    /// How often it was tried at this stage.
    pub attempts: u32,
    /// How many of these failed.
    pub failures: u32,
    /// How many of these were turned away.
    pub throttles: u32,
    /// How often it was sent back.
    pub generation: u32,
    /// When it may go; `null` unless it waits.
    pub due: Option<String>,
    /// What is known of its answer, while one is awaited; `null` otherwise.
    pub awaited: Option<AwaitedView>,
    /// When it was submitted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

impl ItemRow {
    fn new(item: &Item, stage: String, words: Option<LastWords>) -> Self {
        let last = item.last.as_ref();
        let (message, group) = words.map(|words| (words.message, words.group)).unzip();
        Self {
            id: item.id,
            key: item.key.to_string(),
            run: item.run,
            stage,
            state: item.state.kind(),
            verdict: item.verdict(),
            child: item.parent.is_some(),
            reason: match &item.state {
                State::Dead { reason } => Some(DeadReason::name(*reason).to_owned()),
                State::Filtered { reason } => Some(reason.clone()),
                _ => None,
            },
            class: last.map(|last| last.class),
            message: message.map(|message| message.to_string()),
            group: group.map(|group| group.to_string()).filter(|group| !group.is_empty()),
            attempts: item.attempt,
            failures: item.failures,
            throttles: item.throttles,
            generation: item.generation,
            due: match item.state {
                State::Waiting { due, .. } => Some(due.to_string()),
                _ => None,
            },
            awaited: item.handed.as_ref().map(|handed| AwaitedView::new(item, handed)),
            created_at: item.created_at.to_string(),
            updated_at: item.updated_at.to_string(),
        }
    }
}

/// Lists items.
///
/// # Errors
/// When what is named does not exist, the cursor is none, or the store fails.
pub async fn list(floor: &Floor, request: &List) -> Result<ItemList> {
    let mut filters = Selection::in_state(floor, &request.which, request.state).await?.into_filters();
    for filter in &mut filters {
        filter.top = !request.children;
        filter.verdict = request.verdict;
    }
    let limit = request.limit.clamp(1, usize::MAX - 1);
    let (first, mut after) = read_cursor(request.after.as_deref())?;
    let mut found: Vec<(usize, ItemSeq, ItemRow)> = Vec::new();
    for (place, filter) in filters.iter().enumerate().skip(first) {
        let wanted = limit + 1 - found.len();
        let rows = rows(floor, filter, after.take(), wanted).await?;
        found.extend(rows.into_iter().map(|(seq, row)| (place, seq, row)));
        if found.len() > limit {
            break;
        }
    }
    let next = (found.len() > limit).then(|| format!("{}.{}", found[limit - 1].0, found[limit - 1].1.0));
    let items = found.into_iter().take(limit).map(|(_, _, row)| row).collect();
    Ok(ItemList { items, next })
}

/// Reads so many items on from one. What a dead item died of is at hand for a store; what one that goes on failed of is not, so
/// a text or a group is looked for here.
async fn rows(
    floor: &Floor,
    filter: &ItemFilter,
    mut after: Option<ItemSeq>,
    wanted: usize,
) -> Result<Vec<(ItemSeq, ItemRow)>> {
    let (store, runs) = (&*floor.store, Runs::of(&*floor.store));
    let of_store = ItemFilter { group: None, text: None, ..filter.clone() };
    let narrow = filter.group.is_some() || filter.text.is_some();
    let mut found = Vec::new();
    while found.len() < wanted {
        let limit = if narrow { PAGE } else { PAGE.min(wanted - found.len()) };
        let page = store.items(ItemQuery { filter: of_store.clone(), after, limit }).await?;
        let Some(last) = page.last().map(|item| item.seq) else { break };
        after = Some(last);
        let mut stages: BTreeMap<(RunId, StageNo), String> = BTreeMap::new();
        for item in &page {
            if let Entry::Vacant(place) = stages.entry((item.run, item.stage)) {
                place.insert(runs.stage_name(item.run, item.stage).await?);
            }
        }
        let stage = |item: &Item| stages.get(&(item.run, item.stage)).cloned().unwrap_or_default();
        let meant = with_words(store, page, stage, filter).await?;
        found.extend(
            meant.into_iter().map(|(item, words)| (item.seq, ItemRow::new(&item, stage(&item), words))),
        );
    }
    found.truncate(wanted);
    Ok(found)
}

/// A cursor: the place of a filter among several, and the item that the page before ended with.
fn read_cursor(cursor: Option<&str>) -> Result<(usize, Option<ItemSeq>)> {
    let Some(cursor) = cursor else { return Ok((0, None)) };
    let read = cursor.split_once('.').and_then(|(place, seq)| Some((place.parse().ok()?, seq.parse().ok()?)));
    let (place, seq) = read.ok_or_else(|| Error::wrong(format!("'{cursor}' is not a cursor")))?;
    Ok((place, Some(ItemSeq(seq))))
}
