//! A set of dead items is looked at, frozen, and sent back exactly as it was looked at, within what is allowed.

use std::collections::BTreeMap;

use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, OperationId};
use redrive_core::item::Item;
use redrive_engine::admin::{self, Seen};
use redrive_store::OutputKey;
use serde::{Deserialize, Serialize};

use super::list::DeadItem;
use super::price::Prices;
use super::{Selection, Which};
use crate::error::{Error, Result};
use crate::runs::Runs;
use crate::{Floor, Role};

/// Most items of a set.
pub const MOST_FROZEN: u64 = 10_000;
/// Items of a set that are shown.
const SHOWN: usize = 5;
/// Contents that are read at a time.
const PAGE: usize = 100;

/// Which dead items are to be frozen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Freeze {
    /// Which.
    pub which: Which,
    /// At most so many; never more than [`MOST_FROZEN`].
    pub limit: u64,
}

/// A set of dead items as they were at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// What is known of it.
    pub planned: Planned,
    seen: Vec<Seen>,
}

/// What sending a set back would mean.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The name of the set: the same items in the same condition have the same.
    pub set: String,
    /// Items that would be sent back.
    pub items: u64,
    /// Dead items that the filter means, those beyond the limit included.
    pub matching: u64,
    /// Items that cannot be sent back: only their source can mend them, or their run was cancelled.
    pub skipped: u64,
    /// What those are expected to cost whose price is known, in US dollars; `null` when none is.
    pub usd: Option<f64>,
    /// Items whose price is not known.
    pub unpriced: u64,
    /// Items whose stage has made an output of the same input before, which is used again without a call.
    pub reused: u64,
    /// The items by stage and class of their last failure, most first.
    pub by: Vec<Share>,
    /// The items that go first.
    pub first: Vec<DeadItem>,
}

/// Items of a set that died at one stage of one class of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The stage.
    pub stage: String,
    /// The class of their last failures.
    pub class: Option<Class>,
    /// How many.
    pub items: u64,
}

/// How much may be sent back at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// Most items of a set.
    pub max_items: u64,
    /// Most US dollars that a set is expected to cost; a set whose price is not known is refused then.
    pub max_usd: Option<f64>,
}

/// What became of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SentBack {
    /// The operation that did it.
    pub operation: OperationId,
    /// Items sent back.
    pub items: u64,
    /// Items that were left alone: something happened to them since the set was frozen.
    pub left_alone: u64,
}

/// Dead items that a set is made of.
pub(crate) struct Gathered {
    /// Those that would be sent back, in the order in which they would be.
    pub(crate) items: Vec<Item>,
    /// Dead items that are meant, those beyond the limit included.
    pub(crate) matching: u64,
    /// Items that cannot be sent back.
    pub(crate) skipped: u64,
}

/// Freezes the dead items that are meant, and says what sending them back would mean.
///
/// # Errors
/// When what is named does not exist, or the store fails.
pub async fn freeze(floor: &Floor, request: &Freeze) -> Result<Frozen> {
    let selection = Selection::of(floor, &request.which).await?;
    let gathered = gather(floor, &selection, request.limit.clamp(1, MOST_FROZEN)).await?;
    let planned = plan(floor, &gathered).await?;
    Ok(Frozen { planned, seen: seen(&gathered.items) })
}

/// Reads the dead items that can be sent back, at most so many.
pub(crate) async fn gather(floor: &Floor, selection: &Selection, limit: u64) -> Result<Gathered> {
    let runs = Runs::of(&*floor.store);
    let mut gathered = Gathered { items: Vec::new(), matching: 0, skipped: 0 };
    for filter in &selection.filters {
        gathered.matching += admin::count_dead(&*floor.store, filter).await?;
        let left = limit.saturating_sub(gathered.items.len() as u64);
        let asked = admin::Redrive { limit: Some(left), ..admin::Redrive::of(filter.clone()) };
        let found = admin::preview_items(&*floor.store, &runs, &asked, &floor.env).await?;
        gathered.items.extend(found.items);
        gathered.skipped += found.skipped;
    }
    Ok(gathered)
}

/// Says what sending a set back would mean.
pub(crate) async fn plan(floor: &Floor, gathered: &Gathered) -> Result<Planned> {
    let runs = Runs::of(&*floor.store);
    let Gathered { items, matching, skipped } = gathered;
    let (usd, unpriced) = price(floor, &runs, items).await?;
    let mut first = Vec::new();
    for item in items.iter().take(SHOWN) {
        first.push(DeadItem::new(item, runs.stage_name(item.run, item.stage).await?));
    }
    Ok(Planned {
        set: name_of(&seen(items)),
        items: items.len() as u64,
        matching: *matching,
        skipped: *skipped,
        usd,
        unpriced,
        reused: reused(floor, &runs, items).await?,
        by: shares(&runs, items).await?,
        first,
    })
}

fn seen(items: &[Item]) -> Vec<Seen> {
    items.iter().map(|item| Seen { item: item.seq, rev: item.rev }).collect()
}

/// Sends a frozen set back: exactly those of its items that nothing has happened to since.
///
/// # Errors
/// When it is more than is allowed, or the store fails; what was sent back before stays so.
pub async fn send_frozen(floor: &Floor, frozen: &Frozen, allowed: Allowance) -> Result<SentBack> {
    floor.require(Role::Operator)?;
    allowed.check(&frozen.planned)?;
    let runs = Runs::of(&*floor.store);
    let done = admin::redrive_seen(&*floor.store, &runs, &frozen.seen, &floor.asker.name, &floor.env).await?;
    Ok(SentBack { operation: done.operation, items: done.changed, left_alone: done.skipped })
}

impl Allowance {
    fn check(self, planned: &Planned) -> Result<()> {
        let Planned { items, usd, unpriced, .. } = planned;
        if *items > self.max_items {
            let most = self.max_items;
            return Err(Error::refused(format!(
                "the set has {items} items, and at most {most} may be sent back"
            ))
            .hint("freeze fewer of them with a limit, or have a person allow more with --max-items"));
        }
        let Some(most) = self.max_usd else { return Ok(()) };
        if *unpriced > 0 {
            let message = format!(
                "the price of {unpriced} of {items} items is not known, and at most ${most} may be spent"
            );
            return Err(Error::refused(message).hint(
                "a price is known where earlier calls of the run reported tokens and the pipeline has a [price] for the model",
            ));
        }
        let usd = usd.unwrap_or(0.0);
        if usd > most {
            let message = format!("the set is expected to cost ${usd:.6}, and at most ${most} may be spent");
            return Err(Error::refused(message)
                .hint("freeze fewer of them with a limit, or have a person allow more with --max-usd"));
        }
        Ok(())
    }
}

fn name_of(seen: &[Seen]) -> String {
    let numbers: Vec<u8> =
        seen.iter().flat_map(|one| [one.item.0.to_le_bytes(), one.rev.0.to_le_bytes()].concat()).collect();
    let mut name = ContentHash::of(&[b"frozen set", &numbers]).to_string();
    name.truncate(16);
    name
}

#[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars, and near enough above")]
async fn price(floor: &Floor, runs: &Runs<'_>, items: &[Item]) -> Result<(Option<f64>, u64)> {
    let mut prices = Prices::of(floor, runs);
    let (mut nano, mut unpriced): (u64, u64) = (0, 0);
    for item in items {
        match prices.price(item).await? {
            Some(price) => nano = nano.saturating_add(price),
            None => unpriced += 1,
        }
    }
    let known = unpriced < items.len() as u64;
    Ok((known.then_some(nano as f64 / 1e9), unpriced))
}

/// How many of the items find an output that is used again.
async fn reused(floor: &Floor, runs: &Runs<'_>, items: &[Item]) -> Result<u64> {
    let mut found = 0;
    for page in items.chunks(PAGE) {
        let mut keys = Vec::new();
        for item in page {
            let known = runs.known(item.run).await?;
            let stage =
                known.as_ref().and_then(|known| known.definition.all_stages().nth(item.stage.index()));
            let Some(config) = stage.and_then(|stage| stage.reuse_mark()) else { continue };
            let content = floor.store.payload(item.seq).await?.and_then(redrive_store::Content::whole);
            keys.extend(content.map(|content| OutputKey { config, input: ContentHash::of(&[&content]) }));
        }
        if !keys.is_empty() {
            found += floor.store.outputs(keys).await?.iter().flatten().count() as u64;
        }
    }
    Ok(found)
}

async fn shares(runs: &Runs<'_>, items: &[Item]) -> Result<Vec<Share>> {
    let mut counted: BTreeMap<(String, Option<Class>), u64> = BTreeMap::new();
    for item in items {
        let stage = runs.stage_name(item.run, item.stage).await?;
        *counted.entry((stage, item.last.as_ref().map(|last| last.class))).or_default() += 1;
    }
    let mut shares: Vec<Share> =
        counted.into_iter().map(|((stage, class), items)| Share { stage, class, items }).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.items));
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn refused(items: u64, usd: Option<f64>, unpriced: u64, allowed: (u64, Option<f64>)) -> Option<Kind> {
        let set = String::new();
        let (by, first) = (Vec::new(), Vec::new());
        let planned =
            Planned { set, items, matching: items, skipped: 0, usd, unpriced, reused: 0, by, first };
        Allowance { max_items: allowed.0, max_usd: allowed.1 }.check(&planned).err().map(|error| error.kind)
    }

    #[test]
    fn an_allowance_is_kept_to_the_item_and_the_dollar() {
        assert_eq!(refused(5, None, 5, (5, None)), None, "without a limit on money no price is needed");
        assert_eq!(refused(6, Some(0.0), 0, (5, None)), Some(Kind::Refused));
        assert_eq!(refused(5, Some(2.0), 0, (5, Some(2.0))), None);
        assert_eq!(refused(5, Some(2.01), 0, (5, Some(2.0))), Some(Kind::Refused));
        assert_eq!(refused(5, Some(0.5), 1, (5, Some(2.0))), Some(Kind::Refused), "one price is not known");
        assert_eq!(refused(0, None, 0, (5, Some(0.0))), None, "nothing costs nothing");
    }
}
