//! The unit of accounting, and the states it can be in.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answer::Handed;
use crate::failure::{Class, Kind};
use crate::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use crate::policy::{Cause, OwnPolicy};
use crate::time::Timestamp;
use crate::verdict::{Verdict, Verdicts};

/// JSON bytes of an item, shared rather than copied.
pub type Payload = Arc<[u8]>;

/// A file, message, chunk, thread or sample on its way through the stages.
///
/// `attempt`, `failures`, `throttles`, `crashes`, `first_failed_at` and `policy` belong to the present stage and generation and
/// start anew with either; what they were before is in the attempt rows, which are never changed. `earlier` and `failing_since`
/// are of the generations before, and start anew with the stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Place in the order of submission.
    pub seq: ItemSeq,
    /// Public name.
    pub id: ItemId,
    /// The run it belongs to.
    pub run: RunId,
    /// The item it was expanded from.
    pub parent: Option<ItemSeq>,
    /// Identity in its source.
    pub key: Arc<str>,
    /// Hash of the content it was submitted with.
    pub version: ContentHash,
    /// Line or ordinal in its source, as it was when it was last seen there.
    pub origin: u64,
    /// The reading of the source that last saw it; see [`Reading`](crate::reading::Reading).
    pub reading: u32,
    /// The stage it is at, or ended at.
    pub stage: StageNo,
    /// What it is doing.
    pub state: State,
    /// How often it was sent back from the dead.
    pub generation: u32,
    /// Number of its last change; the fencing token while it runs.
    pub rev: Rev,
    /// Attempts given at this stage, the running one included.
    pub attempt: u32,
    /// Attempts that failed and spent one of `max_attempts`.
    pub failures: u32,
    /// Attempts that were throttled; they spend nothing.
    pub throttles: u32,
    /// Attempts whose process died under them.
    pub crashes: u32,
    /// Failures and crashes at this stage before it was last sent back.
    pub earlier: u32,
    /// When it first failed at this stage since it was last sent back.
    pub first_failed_at: Option<Timestamp>,
    /// When it first failed at this stage before it was last sent back.
    pub failing_since: Option<Timestamp>,
    /// The last failure, until a stage is passed.
    pub last: Option<LastFailure>,
    /// What the stages that it has passed found of it.
    pub verdicts: Verdicts,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it stops being worth another try.
    pub deadline: Option<Timestamp>,
    /// The policy that it goes under here, where that is not the stage's own.
    pub policy: Option<OwnPolicy>,
    /// What is known of its attempt while that is handed over: whoever has it answers later.
    pub handed: Option<Handed>,
}

/// What an item is doing; each state owns the data that is valid in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits for its due time and a worker.
    Waiting {
        /// Not to be claimed earlier.
        due: Timestamp,
        /// Why it waits; `None` when it has not been tried at this stage.
        cause: Option<Cause>,
    },
    /// Is held by a worker.
    Running {
        /// The holder; the lease lives as long as the holder's.
        worker: WorkerId,
        /// When it was claimed.
        since: Timestamp,
    },
    /// Waits for its children.
    Joining,
    /// Passed its last stage.
    Succeeded,
    /// Was taken out on purpose by a stage.
    Filtered {
        /// The stage's reason.
        reason: String,
    },
    /// A newer version of the same key took its place, or it left its source.
    Superseded {
        /// What it was before. What had ended well need not be worked on again when its content is back.
        was: StateKind,
    },
    /// Was taken out by an operator together with its run.
    Cancelled,
    /// Is parked with a reason, its history, and a way back.
    Dead {
        /// Why.
        reason: DeadReason,
    },
}

/// A state without its data, for counting and querying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// See [`State::Waiting`].
    Waiting,
    /// See [`State::Running`].
    Running,
    /// See [`State::Joining`].
    Joining,
    /// See [`State::Succeeded`].
    Succeeded,
    /// See [`State::Filtered`].
    Filtered,
    /// See [`State::Superseded`].
    Superseded,
    /// See [`State::Cancelled`].
    Cancelled,
    /// See [`State::Dead`].
    Dead,
}

impl StateKind {
    /// Every state, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Running,
        Self::Joining,
        Self::Succeeded,
        Self::Filtered,
        Self::Superseded,
        Self::Cancelled,
        Self::Dead,
    ];

    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The state with that number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name used in JSON, metrics and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Joining => "joining",
            Self::Succeeded => "succeeded",
            Self::Filtered => "filtered",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Whether nothing more happens to the item unless somebody asks for it.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Waiting | Self::Running | Self::Joining => false,
            Self::Succeeded | Self::Filtered | Self::Superseded | Self::Cancelled | Self::Dead => true,
        }
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl State {
    /// The state without its data.
    #[must_use]
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Waiting { .. } => StateKind::Waiting,
            Self::Running { .. } => StateKind::Running,
            Self::Joining => StateKind::Joining,
            Self::Succeeded => StateKind::Succeeded,
            Self::Filtered { .. } => StateKind::Filtered,
            Self::Superseded { .. } => StateKind::Superseded,
            Self::Cancelled => StateKind::Cancelled,
            Self::Dead { .. } => StateKind::Dead,
        }
    }
}

/// Why an item is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// Another try could not help.
    Final,
    /// Its attempts are spent.
    Exhausted,
    /// Its deadline passed.
    Expired,
    /// It was running when its worker or its process died, too often.
    Quarantined,
    /// Somebody said so.
    Operator,
}

impl DeadReason {
    /// Every reason, in the order of their codes.
    pub const ALL: [Self; 5] =
        [Self::Final, Self::Exhausted, Self::Expired, Self::Quarantined, Self::Operator];

    /// The name used in JSON, SQL, metrics and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Quarantined => "quarantined",
            Self::Operator => "operator",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The last failure at the present stage, as shown in lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// What it meant.
    pub class: Class,
    /// Where it came from.
    pub kind: Kind,
    /// Redacted text; empty until the item is dead, for it is in the attempt's row as well.
    pub message: Arc<str>,
    /// Group of alike errors; empty until the item is dead.
    pub group: Arc<str>,
    /// Whether it hit a whole batch, so that this item need not be the culprit.
    pub shared: bool,
}

/// Which of the queues of a stage a waiting item stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Not yet tried at this stage.
    Fresh,
    /// Tried before.
    Retry,
    /// Handed over: it is looked at again when its answer is to be asked for, or stays away.
    Answer,
}

impl Item {
    /// How often it failed or crashed at its stage, in this and all earlier generations. Being turned away is no try.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.earlier.saturating_add(self.failures).saturating_add(self.crashes)
    }

    /// Its verdict: what the last stage that found anything found. It is a part of the result, so only an item that has
    /// succeeded has one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self.state {
            State::Succeeded => self.verdicts.last(),
            State::Waiting { .. }
            | State::Running { .. }
            | State::Joining
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => None,
        }
    }

    /// The queue it stands in while it waits.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match (self.attempt, &self.handed) {
            (_, Some(_)) => Lane::Answer,
            (0, None) => Lane::Fresh,
            (_, None) => Lane::Retry,
        }
    }

    /// Whether its source could not give it as a usable item: it died before any stage saw it, and what is kept of it may
    /// be a part only.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.was_refused() && matches!(self.state, State::Dead { .. })
    }

    /// The same, whatever became of it since.
    pub(crate) fn was_refused(&self) -> bool {
        self.attempt == 0 && self.last.as_ref().is_some_and(|last| last.kind == Kind::Input)
    }
}

/// An item to be admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// Identity in its source.
    pub key: Arc<str>,
    /// Content.
    pub payload: Payload,
    /// Line or ordinal in its source.
    pub origin: u64,
    /// Set when the source already knows that it cannot be worked on: it is admitted as dead.
    pub refused: Option<LastFailure>,
}

impl NewItem {
    /// An item with this key and content.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, payload: impl Into<Payload>, origin: u64) -> Self {
        Self { key: key.into(), payload: payload.into(), origin, refused: None }
    }

    /// Hash of the content.
    #[must_use]
    pub fn version(&self) -> ContentHash {
        ContentHash::of(&[&self.payload])
    }
}

/// Where new items begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The run they are admitted to.
    pub run: RunId,
    /// The item they are expanded from.
    pub parent: Option<ItemSeq>,
    /// The stage they begin at.
    pub stage: StageNo,
    /// The reading that saw them; 0 for what is expanded from an item.
    pub reading: u32,
    /// When they stop being worth a try.
    pub deadline: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

impl Entry {
    /// The item that a new one begins as: waiting and due, or dead when its source refused it.
    #[must_use]
    pub fn item(&self, new: &NewItem, seq: ItemSeq, id: ItemId, version: ContentHash) -> Item {
        let state = match new.refused {
            Some(_) => State::Dead { reason: DeadReason::Final },
            None => State::Waiting { due: self.now, cause: None },
        };
        Item {
            seq,
            id,
            run: self.run,
            parent: self.parent,
            key: new.key.clone(),
            version,
            origin: new.origin,
            reading: self.reading,
            stage: self.stage,
            state,
            generation: 0,
            rev: Rev(0),
            attempt: 0,
            failures: 0,
            throttles: 0,
            crashes: 0,
            earlier: 0,
            first_failed_at: None,
            failing_since: None,
            last: new.refused.clone(),
            verdicts: Verdicts::default(),
            created_at: self.now,
            updated_at: self.now,
            deadline: self.deadline,
            policy: None,
            handed: None,
        }
    }
}
