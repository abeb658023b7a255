//! What the writing verbs are asked and what they answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::event::Transition;
use redrive_core::fact::Fact;
use redrive_core::id::{
    ContentHash, FactId, ItemId, ItemSeq, OperationId, Rev, RunId, StageNo, StoreId, WorkerId,
};
use redrive_core::item::{Item, NewItem, Payload};
use redrive_core::order::Order;
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use serde::Serialize;

use crate::run::{GateRow, Operation, RunChange};
use crate::{Error, Result};

/// Items to be admitted to a run, and how far its source then is read.
#[derive(Debug, Clone)]
pub struct Submit {
    /// The run.
    pub run: RunId,
    /// The stage they begin at.
    pub stage: StageNo,
    /// The reading of the source that has them. An older one than the run's is refused: [`Error::Overtaken`](crate::Error).
    pub reading: Reading,
    /// The items.
    pub items: Vec<NewItem>,
    /// When they stop being worth a try.
    pub deadline: Option<Timestamp>,
    /// Admits an item even though another version of its key is there.
    pub new_versions: bool,
    /// Transitions that go with it. When one of them is stale, nothing at all is written: [`Error::Busy`](crate::Error).
    pub changes: Vec<Change>,
    /// How far the source is read with these. Not written when an answer is [`Submitted::Changed`].
    pub cursor: Option<Cursor>,
    /// The time.
    pub now: Timestamp,
}

impl Submit {
    /// The items that were superseded and are brought back with it.
    #[must_use]
    pub fn brought_back(&self) -> BTreeSet<ItemId> {
        let restored = |change: &&Change| {
            let mark = change.transition.mark.as_ref();
            mark.is_some_and(|mark| mark.what == "restored")
        };
        self.changes.iter().filter(restored).map(|change| change.transition.after.id).collect()
    }
}

/// How far a source is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// In the source's own terms.
    pub position: String,
    /// Whether that was the end.
    pub done: bool,
    /// Lines of this reading that repeated an earlier one, besides those of this very submission, which the store counts
    /// itself.
    pub duplicates: u64,
}

/// What became of one submitted item, in the order they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// It is new.
    Admitted(ItemId),
    /// The same key with the same content was submitted before: from the same place of the source, or by an older reading.
    /// Or it was purged, and is left alone.
    Known(ItemId),
    /// The same key with the same content, from another place that this reading has seen as well.
    Duplicate(ItemId),
    /// The key is there with other content that has not been superseded, or with this content that has been. Nothing was
    /// written for it.
    Changed(Box<Item>),
}

/// What a worker wants.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Who.
    pub worker: WorkerId,
    /// From where, and how many.
    pub slots: Vec<Slot>,
    /// The last change of what is paused that the worker knows, [`Pauses::rev`](crate::Pauses). Nothing is claimed with another
    /// one than the store's.
    pub pauses: i64,
    /// The time.
    pub now: Timestamp,
}

/// One place to claim from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// The run. Nothing is claimed from a run that is not to go on.
    pub run: RunId,
    /// The edition of its pipeline that the worker has. Nothing is claimed with another one than the run's.
    pub edition: u32,
    /// The stage.
    pub stage: StageNo,
    /// Who goes first.
    pub order: Order,
    /// Places reserved for the lane that goes second.
    pub reserved: usize,
    /// At most so many.
    pub limit: usize,
}

/// What a worker got.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// Items, now running, each with its attempt number and fencing token, by slot and order of submission.
    pub items: Vec<ClaimedItem>,
    /// Items that are running likewise, but whose content is damaged.
    pub damaged: Vec<DamagedItem>,
    /// When the earliest item that is not due yet will be, over all slots.
    pub next_due: Option<Timestamp>,
    /// Whether a run has another edition of its pipeline than was asked with.
    pub outdated: bool,
    /// Whether somebody has paused or resumed a pipeline or a stage since: nothing was given.
    pub unaware: bool,
}

/// One claimed item.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedItem {
    /// As it is now.
    pub item: Item,
    /// Its content.
    pub payload: Payload,
}

/// One claimed item that there is nothing to work on with.
#[derive(Debug, Clone, PartialEq)]
pub struct DamagedItem {
    /// As it is now.
    pub item: Item,
    /// In what way its content is damaged.
    pub what: String,
}

/// What a worker does at one go: what ended, what its gates learnt and what it wants next.
///
/// The parts are done in this order, so that a claim finds what the commit before it made due.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// What ended.
    pub commit: Option<Commit>,
    /// What the gates learnt; each is written as [`Store::save_gates`](crate::Store::save_gates) says.
    pub gates: Vec<GateRow>,
    /// What is wanted next.
    pub claim: Option<Claim>,
}

impl Turn {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commit.is_none() && self.gates.is_empty() && self.claim.is_none()
    }
}

/// What became of each part of a [`Turn`]. A part that was not asked for is answered with nothing.
///
/// A part that is refused here left nothing behind, and the others are as their own answers say.
#[derive(Debug, Clone)]
pub struct Turned {
    /// What became of each change, in the order given.
    pub applied: Result<Vec<Applied>>,
    /// What became of each gate, in the order given.
    pub gates: Result<Vec<Applied>>,
    /// What was claimed.
    pub claimed: Result<Claimed>,
}

impl From<Error> for Turned {
    /// The answer of a store that failed as a whole: whatever that error says holds for every part.
    fn from(error: Error) -> Self {
        Self { applied: Err(error.clone()), gates: Err(error.clone()), claimed: Err(error) }
    }
}

/// Transitions to be written in one transaction.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// What to write.
    pub changes: Vec<Change>,
    /// Write all of them or none.
    pub all_or_nothing: bool,
    /// Write none of them when this run was cancelled; each is then answered as stale.
    pub unless_cancelled: Option<RunId>,
    /// A change to a run, in the same transaction.
    pub run: Option<(RunId, RunChange)>,
    /// Progress of an operation, in the same transaction.
    pub operation: Option<Operation>,
    /// The time.
    pub now: Timestamp,
}

/// An operation and the items that it means, as they were seen.
#[derive(Debug, Clone)]
pub struct Freeze {
    /// The operation; it gets its number by this.
    pub operation: Operation,
    /// Its items.
    pub items: Vec<ItemRev>,
    /// Nothing is written when the same actor has an operation with a larger number than this: somebody else was faster.
    pub unless_newer_than: Option<OperationId>,
}

/// One transition and what goes with it. What the world is told of it is in the transition.
#[derive(Debug, Clone)]
pub struct Change {
    /// The transition.
    pub transition: Transition,
    /// Keeps the transition's payload as the stage's output for this input, with what its attempt found.
    pub output: Option<OutputKey>,
    /// Forgets what the item was the last to write of outputs with these marks: they are to be made anew.
    pub forgets: Vec<i64>,
}

impl From<Transition> for Change {
    fn from(transition: Transition) -> Self {
        Self { transition, output: None, forgets: Vec::new() }
    }
}

/// Names a stage's output: what was done, to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputKey {
    /// Mark of the stage's configuration.
    pub config: i64,
    /// Hash of its input.
    pub input: ContentHash,
}

impl OutputKey {
    /// Names the content that an item had when a stage expanded it, for when a child that lives again takes it back there.
    #[must_use]
    pub fn expansion(item: ItemId, stage: StageNo) -> Self {
        Self { config: 0, input: ContentHash::of(&[b"expanded", &item.0, &stage.0.to_le_bytes()]) }
    }
}

/// A stage's output as it is kept, with what the stage found then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// The output.
    pub payload: Payload,
    /// What was found of the item it was made of.
    pub verdict: Option<Verdict>,
}

/// Something the world is told, kept until the relay has passed it on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptFact {
    /// Its number, given once.
    pub id: FactId,
    /// The fact.
    pub fact: Fact,
}

impl KeptFact {
    /// The name by which the world knows it again when it is passed on twice.
    #[must_use]
    pub fn message_id(&self, store: StoreId) -> String {
        format!("{store}-{}", self.id.0)
    }
}

/// An item as it was seen: what was decided for it holds while it has this change number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRev {
    /// The item.
    pub seq: ItemSeq,
    /// Its change number.
    pub rev: Rev,
}

impl From<&Item> for ItemRev {
    fn from(item: &Item) -> Self {
        Self { seq: item.seq, rev: item.rev }
    }
}

/// What became of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It is written.
    Done,
    /// The item had changed since; nothing was written for it.
    Stale,
}

/// What to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prune {
    /// Runs that finished before this, with everything in them.
    pub finished_before: Timestamp,
    /// Those with dead items too; they are spared otherwise.
    pub with_dead: bool,
    /// Only this run; `None`: all of them.
    pub only: Option<RunId>,
    /// At most so many items a call.
    pub limit: usize,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Items removed, with their attempts.
    pub items: u64,
    /// How many of them were dead.
    pub dead: u64,
    /// Tombstones removed.
    pub tombstones: u64,
    /// Runs removed.
    pub runs: u64,
    /// Contents and outputs nobody refers to any more.
    pub contents: u64,
    /// Whether there is more.
    pub more: bool,
}

/// What a store is scrubbed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scrub {
    /// Bytes of what was removed.
    Leftovers,
    /// Room in its file, where more than half of it is free.
    Room,
    /// All the room that is free in its file, however little and however large the file is. It is refused where it cannot
    /// be done.
    All,
}

/// Hears how far a copy is: bytes that are written, and bytes in all.
pub type CopyHeard = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How scrubbing went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Contents that nobody referred to any more.
    pub contents: u64,
    /// Bytes by which the file is smaller.
    pub given_back: u64,
    /// Bytes that it has now.
    pub bytes: u64,
    /// How many of them are free: rewriting the file would give them back.
    pub free: u64,
    /// What could not be done, and what to do about it.
    pub left: Option<String>,
}
