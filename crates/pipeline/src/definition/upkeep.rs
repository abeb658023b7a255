//! What is done for a pipeline without somebody asking: dead items sent back, what has ended forgotten, somebody told.

use std::time::Duration;

use redrive_core::failure::Class;
use redrive_core::item::DeadReason;

/// Dead items that are sent back without somebody asking. What is given must hold of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleDef {
    /// Its name, unique in the pipeline.
    pub name: String,
    /// When.
    pub when: When,
    /// Whose last failure has this class.
    pub class: Option<Class>,
    /// Dead for this reason.
    pub reason: Option<DeadReason>,
    /// At this stage.
    pub stage: Option<String>,
    /// Whose key or last failure contains this text.
    pub text: Option<String>,
    /// At most so many an hour.
    pub at_most: u64,
    /// So many go first, and the others only when all of these have passed.
    pub canary: Option<u64>,
}

/// When a rule holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// This gate is open again after the item died.
    GateOpen(String),
    /// The stage it died at is configured otherwise than when it did.
    ConfigurationChanged,
}

/// How long what has ended is kept; none is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionDef {
    /// Finished runs without dead items, after their end.
    pub runs: Option<Duration>,
    /// Finished runs with dead items, after their end.
    pub runs_with_dead: Option<Duration>,
    /// Dead items, after their death.
    pub dead: Option<Duration>,
    /// Items that succeeded or were filtered, after that.
    pub succeeded: Option<Duration>,
}

/// Somebody who is told when something happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyDef {
    /// What is told.
    pub on: Vec<NotifyOn>,
    /// Who is told.
    pub target: NotifyTarget,
    /// So many dead items within [`NotifyDef::dead_within`] are told of; default 10.
    pub dead_count: u32,
    /// The span of that; default 1 h.
    pub dead_within: Duration,
    /// How long an item may be due before that is told; default 10 min.
    pub starved_after: Duration,
}

/// What can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyOn {
    /// A run has ended.
    RunEnded,
    /// A run was paused, by whatever.
    RunPaused,
    /// Many items have died of late.
    DeadGrowth,
    /// Items are due for long, and nobody takes them.
    Starved,
    /// A gate waits for somebody.
    GatePaused,
}

impl NotifyOn {
    /// Everything that can be told.
    pub const ALL: [Self; 5] =
        [Self::RunEnded, Self::RunPaused, Self::DeadGrowth, Self::Starved, Self::GatePaused];

    /// The name used in pipeline files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RunEnded => "run.ended",
            Self::RunPaused => "run.paused",
            Self::DeadGrowth => "dead.growth",
            Self::Starved => "items.starved",
            Self::GatePaused => "gate.paused",
        }
    }
}

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyTarget {
    /// Whoever listens there, by a webhook.
    Url {
        /// Where, by POST.
        url: String,
        /// The environment variable with the secret it is signed with; none does not sign.
        secret_env: Option<String>,
    },
    /// A program that speaks the handler protocol.
    Command {
        /// Program and arguments.
        command: Vec<String>,
    },
}
