//! What is kept of an attempt, for ever.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Class, Kind};
use crate::id::{StageNo, WorkerId};
use crate::policy::Cause;
use crate::time::Timestamp;
use crate::usage::Usage;
use crate::verdict::Verdict;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The stage gave an output.
    Succeeded,
    /// The output was already known for this input and stage; nothing was called.
    Reused,
    /// The stage took the item out.
    Filtered,
    /// The stage gave children.
    Expanded,
    /// It failed and spent one of `max_attempts`.
    Failed,
    /// It was turned away; spends nothing.
    Throttled,
    /// Its process or worker died.
    Crashed,
    /// A clean stop broke it off; spends nothing.
    Interrupted,
    /// The item was cancelled or superseded while it ran.
    Cancelled,
    /// The deadline had passed before anything was called.
    Expired,
}

impl Outcome {
    /// Every outcome, in the order of their codes.
    pub const ALL: [Self; 10] = [
        Self::Succeeded,
        Self::Reused,
        Self::Filtered,
        Self::Expanded,
        Self::Failed,
        Self::Throttled,
        Self::Crashed,
        Self::Interrupted,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The outcome with that number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name used in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Reused => "reused",
            Self::Filtered => "filtered",
            Self::Expanded => "expanded",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Whether it says something about the item: it passed by a call, failed, or its process died. Being turned away, broken
    /// off or taken out does not.
    #[must_use]
    pub fn is_try(self) -> bool {
        matches!(self, Self::Succeeded | Self::Expanded | Self::Failed | Self::Crashed)
    }

    /// Whether the item passed the stage by it.
    #[must_use]
    pub fn is_pass(self) -> bool {
        matches!(self, Self::Succeeded | Self::Reused | Self::Expanded)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One execution of one stage for one item. Rows are added, never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Which stage.
    pub stage: StageNo,
    /// The item's generation at the time.
    pub generation: u32,
    /// 1, 2, 3 … within stage and generation.
    pub attempt: u32,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When its end was decided.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The failure, where there was one.
    pub failure: Option<AttemptFailure>,
    /// How long the item then waits, and why.
    pub wait: Option<(Duration, Cause)>,
    /// Who did it.
    pub worker: WorkerId,
    /// Mark of the stage's configuration at the time.
    pub config: i64,
    /// What it consumed, where the stage said so.
    pub usage: Option<Usage>,
    /// What the stage found of the item, where it passed and the stage said so.
    pub verdict: Option<Verdict>,
}

/// The failure part of an [`AttemptRecord`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFailure {
    /// What it meant.
    pub class: Class,
    /// Where it came from.
    pub kind: Kind,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// Redacted text.
    pub message: Arc<str>,
}
