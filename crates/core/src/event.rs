//! What can happen to an item, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::HandOver;
use crate::attempt::AttemptRecord;
use crate::fact::Facts;
use crate::failure::Failure;
use crate::id::{ContentHash, Rev, StageNo, WorkerId};
use crate::index::Effect;
use crate::item::{Item, NewItem, Payload, StateKind};
use crate::policy::OwnPolicy;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// Something that happened to an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker took it.
    Claimed {
        /// The worker.
        worker: WorkerId,
    },
    /// Its attempt ended with this reply.
    Finished(ItemReply),
    /// Whoever it was handed over to answers.
    Answered(ItemReply),
    /// It was taken because no answer has come for as long as one was awaited.
    Unanswered,
    /// It was taken but never started, and is given back.
    Released,
    /// It was started and then broken off by a clean stop.
    Interrupted,
    /// Its holder vanished.
    LeaseExpired,
    /// Its deadline passed before it was started.
    DeadlinePassed,
    /// Its content was found damaged when it was taken: there is nothing to start with.
    ContentDamaged {
        /// In what way, in the store's words.
        what: String,
    },
    /// The clock was put back since it was last changed, so that what it waits for would come late.
    ClockSteppedBack,
    /// All of its children are finished.
    ChildrenSettled(ChildTally),
    /// A child of it lives again, so that it has to join once more.
    ChildReopened {
        /// The stage that gave the children.
        stage: StageNo,
    },
    /// Its run was cancelled.
    CancelRequested,
    /// It is not what its source has any more.
    Superseded(Gone),
    /// One of its stages, the one it ended at, is configured otherwise now.
    Reconfigured,
    /// Its content, superseded before, is the present one again.
    Restored {
        /// The content it was submitted with; `None` for a child, which goes on where it was with what it has.
        payload: Option<Payload>,
    },
    /// An operator says when it goes on that waits.
    Rescheduled {
        /// Not to be claimed earlier.
        due: Timestamp,
    },
    /// An operator wants it done again, from a stage that it has passed.
    Rerun {
        /// The stage.
        stage: StageNo,
        /// What that stage was given.
        payload: Payload,
    },
    /// An operator sends it back from the dead.
    Redriven {
        /// Not to be claimed earlier.
        due: Timestamp,
        /// New content, when it was edited.
        payload: Option<Payload>,
        /// The policy that it goes under at this stage, in place of the stage's own.
        policy: Option<OwnPolicy>,
    },
    /// An operator gives it up.
    Killed {
        /// The operator's words.
        why: String,
    },
}

/// Why an item is not what its source has any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// A newer version of the same key was admitted.
    Newer,
    /// It left its source.
    Removed,
    /// A stage it has passed is configured otherwise now, and what that stage was given is not kept: it is read again.
    Reconfigured,
}

/// What a stage said of one item.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemReply {
    /// It passed; the content for the next stage, or `None` when it stays the same.
    Output(Option<Payload>),
    /// It passed, and this is written into the index together with that; the content as for `Output`.
    Indexed(Effect, Option<Payload>),
    /// It passed, and this was found of it; the content as for `Output`.
    Judged(Verdict, Option<Payload>),
    /// It passed without a call: the output for this input was known, and what was found of it then.
    Reused(Payload, Option<Verdict>),
    /// It was taken out.
    Filtered(String),
    /// It becomes these children.
    Children(Vec<NewItem>),
    /// It failed.
    Failed {
        /// How.
        failure: Failure,
        /// Whether it was a whole batch that failed, with no item to blame.
        shared: bool,
    },
    /// The dependency turned it away, and its gate answers for that: nothing is spent.
    TurnedAway {
        /// How.
        failure: Failure,
        /// How long until the gate may let it through.
        wait: Duration,
    },
    /// Somebody else has it now, and answers later.
    HandedOver(HandOver),
}

/// How an item's children ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildTally {
    /// Children that succeeded or were filtered.
    pub done: u64,
    /// Children that are dead.
    pub dead: u64,
    /// Children that were cancelled or superseded.
    pub gone: u64,
    /// Children that are not finished.
    pub live: u64,
}

/// A parent's state as derived from its children (law L11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// Some are not finished.
    Open,
    /// All are done.
    Complete,
    /// Some are dead.
    CompleteWithFailures,
    /// None is done, and at least one is dead.
    Failed,
}

impl ChildTally {
    /// Derives the parent's state.
    #[must_use]
    pub fn joined(self) -> Joined {
        match self {
            Self { live: 1.., .. } => Joined::Open,
            Self { dead: 0, .. } => Joined::Complete,
            Self { done: 0, .. } => Joined::Failed,
            Self { .. } => Joined::CompleteWithFailures,
        }
    }
}

/// What follows from an event: everything that has to be written, in one transaction, or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The change number the item must still have.
    pub guard: Rev,
    /// Where the item was.
    pub from: Place,
    /// How often it had failed or crashed at that stage.
    pub tries: u32,
    /// Whether none of these was since it was admitted, or sent back last.
    pub anew: bool,
    /// The policy of its own that it went under so far, where it had one.
    pub under: Option<OwnPolicy>,
    /// The item as it is to be, with its new change number.
    pub after: Item,
    /// New content, where it changed.
    pub payload: Option<Payload>,
    /// The attempt that ended by this.
    pub record: Option<AttemptRecord>,
    /// Items that come into being below it.
    pub children: Option<Children>,
    /// What is written into the index.
    pub effect: Option<Effect>,
    /// A mark in the item's history that is not an attempt.
    pub mark: Option<Mark>,
    /// From first failure to passing the stage, for an item that passed after failing, sent back in between or not.
    pub healed: Option<Duration>,
    /// What the world is told of it.
    pub facts: Facts,
}

/// Where an item stands, as counters see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Stage.
    pub stage: StageNo,
    /// State.
    pub kind: StateKind,
    /// Dead reason and class, for the counters of the dead.
    pub dead: Option<crate::tally::DeadMark>,
    /// What was found of it, where it has succeeded.
    pub verdict: Option<Verdict>,
    /// Whether it is handed over, and its answer awaited.
    pub awaited: bool,
}

/// Children to be admitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Children {
    /// The stage they begin at.
    pub stage: StageNo,
    /// Their deadline, the parent's own.
    pub deadline: Option<Timestamp>,
    /// The children.
    pub items: Vec<NewItem>,
}

/// Everything a [`Mark`] can say.
pub const MARKS: [&str; 14] = [
    "redriven",
    "edited",
    "cancelled",
    "superseded",
    "restored",
    "killed",
    "joined",
    "reopened",
    "expired",
    "removed",
    "reconfigured",
    "stepped",
    "rescheduled",
    "rerun",
];

/// Something in an item's life that was not an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// What: one of [`MARKS`].
    pub what: &'static str,
    /// More about it.
    pub detail: Arc<str>,
}

/// What the mark of an item says that was sent back with other content. It names the content, so that who says the same again
/// can be told from who says something else.
#[must_use]
pub fn edited_to(content: &[u8]) -> String {
    let mark: String = ContentHash::of(&[content]).to_string().chars().take(12).collect();
    format!("sent back with other content ({mark})")
}
