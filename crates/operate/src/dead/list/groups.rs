//! Dead items in groups of alike errors, the largest first.

use std::collections::BTreeMap;

use redrive_core::failure::Class;
use redrive_core::id::ItemId;
use redrive_store::{Group, GroupNote, ItemFilter};
use serde::{Deserialize, Serialize};

use super::super::{Selection, Which};
use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::Runs;

/// Most groups of a list.
const MOST: usize = 500;
/// Where several runs are meant, so many groups of each are added up at least: one may be small in each of them and large in all.
const OF_EACH: usize = 10_000;

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

/// Which page of groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Groups {
    /// Of which items.
    pub which: Which,
    /// Only those that need a person.
    pub open: bool,
    /// At most so many.
    pub limit: usize,
    /// Goes on after this cursor, from `next` of the page before.
    pub after: Option<String>,
}

/// A page of groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupPage {
    /// The groups, largest first.
    pub items: Vec<DeadGroup>,
    /// Where the next page goes on; `None` when this is the last.
    pub next: Option<String>,
}

/// Groups dead items by alike errors.
///
/// # Errors
/// When what is named does not exist, or the store fails.
pub async fn groups(floor: &Floor, which: &Which, limit: usize) -> Result<DeadGroups> {
    let filters = Selection::of(floor, which).await?.filters;
    let mut largest = Merged::read(floor, filters, limit.max(1)).await?.groups;
    largest.truncate(limit.max(1));
    Ok(DeadGroups { groups: told(floor, largest).await?, looked_after: 0 })
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

/// One page of groups after another, the largest first. Where they grow and shrink meanwhile, one may be shown twice or not at all.
///
/// # Errors
/// When what is named does not exist, the cursor is none, or the store fails.
pub async fn group_page(floor: &Floor, request: &Groups) -> Result<GroupPage> {
    let after = request.after.as_deref().map(Place::read).transpose()?;
    let filters = Selection::of(floor, &request.which).await?.filters;
    let limit = request.limit.clamp(1, MOST);
    let mut asked = after.as_ref().map_or(0, |place| place.shown) + limit + 1;
    loop {
        let Merged { groups, complete } = Merged::read(floor, filters.clone(), asked).await?;
        let later = groups.into_iter().enumerate().filter(|(_, group)| {
            after.as_ref().is_none_or(|place| (place.items, &group.group) > (group.items, &place.group))
        });
        let (places, later): (Vec<usize>, Vec<Group>) = later.unzip();
        let rest = told(floor, later).await?.into_iter().zip(places);
        let mut rest: Vec<_> = rest.filter(|(group, _)| group.open || !request.open).collect();
        if rest.len() <= limit && !complete {
            asked = asked.saturating_mul(2);
            continue;
        }
        let more = rest.len() > limit;
        rest.truncate(limit);
        let last = rest.last().filter(|_| more);
        let next = last.map(|(last, at)| format!("{}.{}.{}", last.items, at + 1, last.group));
        return Ok(GroupPage { items: rest.into_iter().map(|(group, _)| group).collect(), next });
    }
}

/// Where a page ended: how large the last group was, how many were seen up to it, and its name.
struct Place {
    items: u64,
    shown: usize,
    group: String,
}

impl Place {
    fn read(cursor: &str) -> Result<Self> {
        let wrong = || Error::wrong("that is no cursor of this list").hint("take `next` of the page before");
        Self::parts(cursor).ok_or_else(wrong)
    }

    fn parts(cursor: &str) -> Option<Self> {
        let mut parts = cursor.splitn(3, '.');
        let (items, shown) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u32>().ok()?);
        Some(Self { items, shown: usize::try_from(shown).ok()?, group: parts.next()?.to_owned() })
    }
}

/// Groups of all that is meant, the largest first.
struct Merged {
    groups: Vec<Group>,
    /// Whether there are no others.
    complete: bool,
}

impl Merged {
    async fn read(floor: &Floor, filters: Vec<ItemFilter>, asked: usize) -> Result<Self> {
        let asked = if filters.len() > 1 { asked.max(OF_EACH) } else { asked };
        let (mut merged, mut complete) = (BTreeMap::<String, Group>::new(), true);
        for filter in filters {
            let found = floor.store.groups(filter, asked).await?;
            complete &= found.len() < asked;
            for group in found {
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
        let mut groups: Vec<Group> = merged.into_values().collect();
        groups.sort_by(|a, b| b.items.cmp(&a.items).then_with(|| a.group.cmp(&b.group)));
        Ok(Self { groups, complete })
    }
}

/// Groups with the names of their stages, and what was written about them.
async fn told(floor: &Floor, groups: Vec<Group>) -> Result<Vec<DeadGroup>> {
    let runs = Runs::of(&*floor.store);
    let notes = floor.store.group_notes().await?;
    let mut told = Vec::with_capacity(groups.len());
    for group in groups {
        let stage = runs.stage_name(group.run, group.stage).await?;
        let note = notes.iter().find(|note| note.group == group.group);
        told.push(DeadGroup::new(group, stage, note));
    }
    Ok(told)
}

impl DeadGroup {
    fn new(group: Group, stage: String, note: Option<&GroupNote>) -> Self {
        let acknowledged_at = note.and_then(|note| note.acknowledged_at);
        Self {
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
        }
    }
}
