//! What the reading verbs are asked and what they answer.

use std::sync::Arc;

use redrive_core::attempt::AttemptRecord;
use redrive_core::event::{ChildTally, Mark, Place};
use redrive_core::failure::Class;
use redrive_core::id::{ItemId, ItemSeq, OperationId, RunId, StageNo};
use redrive_core::item::{DeadReason, Item, Payload, StateKind};
use redrive_core::reading::Reading;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Which items; everything that is given must hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ItemFilter {
    /// In this run.
    pub run: Option<RunId>,
    /// In this state.
    pub state: Option<StateKind>,
    /// At one of these stages of the run; empty: at any.
    pub stages: Vec<StageNo>,
    /// Expanded from this item.
    pub parent: Option<ItemSeq>,
    /// Only items that were not expanded from another.
    pub top: bool,
    /// Whose last failure has this class.
    pub class: Option<Class>,
    /// Dead for this reason.
    pub reason: Option<DeadReason>,
    /// Whose last failure is in this group.
    pub group: Option<String>,
    /// Whose last failure or key contains this text.
    pub text: Option<String>,
    /// Changed at or after this time.
    pub since: Option<Timestamp>,
    /// Changed before this time.
    pub until: Option<Timestamp>,
    /// With an id in this range.
    pub ids: Option<(ItemId, ItemId)>,
    /// With exactly this key.
    pub key: Option<String>,
    /// Succeeded with this verdict.
    pub verdict: Option<Verdict>,
    /// Dead, or failed at least once at its present stage.
    pub failed: bool,
    /// Not seen by this reading of the source, and not taken out.
    #[serde(skip)]
    pub unseen: Option<Reading>,
}

impl ItemFilter {
    /// Whether an item is meant.
    #[must_use]
    pub fn matches(&self, item: &Item) -> bool {
        let last = item.last.as_ref();
        let reason = match item.state {
            redrive_core::item::State::Dead { reason } => Some(reason),
            _ => None,
        };
        self.run.is_none_or(|run| item.run == run)
            && self.state.is_none_or(|state| item.state.kind() == state)
            && (self.stages.is_empty() || self.stages.contains(&item.stage))
            && self.parent.is_none_or(|parent| item.parent == Some(parent))
            && (!self.top || item.parent.is_none())
            && self.class.is_none_or(|class| last.is_some_and(|last| last.class == class))
            && self.reason.is_none_or(|wanted| reason == Some(wanted))
            && self.group.as_ref().is_none_or(|group| last.is_some_and(|last| *last.group == **group))
            && self.text.as_ref().is_none_or(|text| {
                item.key.contains(&**text) || last.is_some_and(|last| last.message.contains(&**text))
            })
            && self.since.is_none_or(|since| item.updated_at >= since)
            && self.until.is_none_or(|until| item.updated_at < until)
            && self.ids.is_none_or(|(low, high)| low <= item.id && item.id <= high)
            && self.key.as_ref().is_none_or(|key| *item.key == **key)
            && self.verdict.is_none_or(|verdict| item.verdict() == Some(verdict))
            && (!self.failed || item.failures + item.crashes > 0 || reason.is_some())
            && self.unseen.is_none_or(|reading| {
                let taken_out = matches!(item.state.kind(), StateKind::Superseded | StateKind::Cancelled);
                !reading.has_seen(item) && !taken_out
            })
    }
}

/// A page of items, in the order of submission.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItemQuery {
    /// Which.
    pub filter: ItemFilter,
    /// Only later ones than this.
    pub after: Option<ItemSeq>,
    /// At most so many.
    pub limit: usize,
}

/// A page of items by when they changed last, and in the order of submission where that is the same.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeQuery {
    /// Which.
    pub filter: ItemFilter,
    /// Whether the last come first.
    pub newest_first: bool,
    /// Only those that come after one that changed then and has this number.
    pub after: Option<(Timestamp, ItemSeq)>,
    /// At most so many.
    pub limit: usize,
}

/// A content as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// As it was written.
    Whole(Payload),
    /// Not as it was written, and in what way.
    Damaged(String),
}

impl Content {
    /// The content, where it is as it was written.
    #[must_use]
    pub fn whole(self) -> Option<Payload> {
        match self {
            Self::Whole(payload) => Some(payload),
            Self::Damaged(_) => None,
        }
    }

    /// How many bytes it has, as far as they could be read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Whole(payload) => payload.len(),
            Self::Damaged(_) => 0,
        }
    }
}

/// An item with its content, as both are at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemContent {
    /// The item.
    pub item: Item,
    /// Its content.
    pub content: Content,
}

/// A joining item none of whose children is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The item.
    pub item: Item,
    /// How its children ended.
    pub children: ChildTally,
}

/// When something of a run is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NextDue {
    /// When the next waiting item is; `None` when none waits.
    pub at: Option<Timestamp>,
    /// Whether any waiting item was never tried.
    pub any_fresh: bool,
    /// When the next of those is that were tried before and wait for no answer; `None` when there is none.
    pub retry: Option<Timestamp>,
}

/// When something of one stage of a run is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StageDue {
    /// The stage.
    pub stage: StageNo,
    /// When its next waiting item is due; where that is past, since when an item waits for its turn.
    pub at: Timestamp,
    /// When the last of those that wait at it is due.
    pub last: Timestamp,
}

/// One counter of a run's attempts, for one configuration of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigCounter {
    /// Mark of the stage's configuration.
    pub config: i64,
    /// The counter.
    pub counter: Counter,
}

/// Which runs' counters are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSet {
    /// Those of every run.
    All,
    /// Those of these runs.
    Of(Vec<RunId>),
}

/// The counters of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCounters {
    /// The run.
    pub run: RunId,
    /// Its counters that are not zero, by stage and metric.
    pub counters: Vec<Counter>,
}

/// Something that a store holds and that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The item it belongs to, where it belongs to one.
    pub item: Option<ItemId>,
    /// That item's key.
    pub key: Option<String>,
    /// In what way it is damaged.
    pub what: String,
}

/// Dead items with alike errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The group's mark.
    pub group: String,
    /// How many items.
    pub items: u64,
    /// Run of one of them.
    pub run: RunId,
    /// Stage of one of them.
    pub stage: StageNo,
    /// Class of their failure.
    pub class: Option<Class>,
    /// Message of one of them.
    pub message: String,
    /// One of them.
    pub example: ItemId,
    /// When the first of them changed last.
    pub first_at: Timestamp,
    /// When the last of them changed last.
    pub last_at: Timestamp,
}

/// What happened to an item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Its attempts, in the order they ended.
    pub attempts: Vec<AttemptRecord>,
    /// Everything else that happened to it, in order.
    pub marks: Vec<Mark>,
    /// What is older than that, where not all was asked for.
    pub earlier: Earlier,
}

/// How much of a history was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Earlier {
    /// So many attempts.
    pub attempts: u64,
    /// So much of everything else.
    pub marks: u64,
}

impl Earlier {
    /// Whether all was asked for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Where an attempt stands among those of its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptPlace {
    /// How often the item had been sent back.
    pub generation: u32,
    /// The stage.
    pub stage: StageNo,
    /// Its number there.
    pub attempt: u32,
}

impl From<&AttemptRecord> for AttemptPlace {
    fn from(record: &AttemptRecord) -> Self {
        Self { generation: record.generation, stage: record.stage, attempt: record.attempt }
    }
}

/// What is left of a purged item. Its content, its history and its errors are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The number it had; smaller than any item's for those of stores of older versions, which did not write it down.
    pub seq: ItemSeq,
    /// Its id. A child that was purged and that its parent gives again has the same.
    pub id: ItemId,
    /// The run it belonged to.
    pub run: RunId,
    /// Its key.
    pub key: Arc<str>,
    /// Where it stood; stores of older versions did not write it down.
    pub was: Option<Place>,
    /// When it was purged.
    pub at: Timestamp,
    /// By which operation.
    pub operation: OperationId,
    /// Who asked for that; `None` when the operation is not known.
    pub actor: Option<String>,
}

/// A page of tombstones, in the order of submission. Everything that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TombstoneQuery {
    /// In this run.
    pub run: Option<RunId>,
    /// With an id in this range.
    pub ids: Option<(ItemId, ItemId)>,
    /// With exactly this key.
    pub key: Option<String>,
    /// Only later ones than this.
    pub after: Option<ItemSeq>,
    /// At most so many.
    pub limit: usize,
}

impl TombstoneQuery {
    /// Whether a tombstone is meant, wherever the page begins.
    #[must_use]
    pub fn matches(&self, tombstone: &Tombstone) -> bool {
        self.run.is_none_or(|run| tombstone.run == run)
            && self.ids.is_none_or(|(low, high)| low <= tombstone.id && tombstone.id <= high)
            && self.key.as_ref().is_none_or(|key| *tombstone.key == **key)
    }
}
