//! Kinds of facts, and sets of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// What kind of thing happened. Facts of one change are told in the order that they have here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// An item was admitted.
    Admitted,
    /// Its attempt failed, or its worker died under it.
    Failed,
    /// A dependency, or its gate, turned it away; it spent nothing.
    Throttled,
    /// It is to be tried again after a failure.
    RetryScheduled,
    /// It was handed over, and its answer is awaited.
    HandedOver,
    /// It became children, and waits for them.
    Expanded,
    /// Its children are finished.
    Joined,
    /// It left a stage forward.
    StagePassed,
    /// It passed its last stage.
    Succeeded,
    /// A stage took it out.
    Filtered,
    /// It is given up.
    Dead,
    /// It is given up because workers died under it.
    Quarantined,
    /// It is not what its source has any more.
    Superseded,
    /// Its run was cancelled.
    Cancelled,
    /// It was sent back from the dead.
    Redriven,
    /// Its content is the present one again.
    Restored,
    /// It goes again from a stage that is configured otherwise now.
    Reconfigured,
    /// It goes again from a stage that it had passed, because somebody wants it to.
    Rerun,
    /// A child of it lives again.
    Reopened,
    /// It was removed for good.
    Purged,
    /// A run was created.
    RunCreated,
    /// A run was stopped for now.
    RunPaused,
    /// A run goes on.
    RunResumed,
    /// A run was cancelled.
    RunCancelled,
    /// Every item of a run has ended. It is told again when the run goes on and ends once more.
    RunFinished,
}

impl FactKind {
    /// Every kind, in the order in which those of one change are told.
    pub const ALL: [Self; 25] = [
        Self::Admitted,
        Self::Failed,
        Self::Throttled,
        Self::RetryScheduled,
        Self::HandedOver,
        Self::Expanded,
        Self::Joined,
        Self::StagePassed,
        Self::Succeeded,
        Self::Filtered,
        Self::Dead,
        Self::Quarantined,
        Self::Superseded,
        Self::Cancelled,
        Self::Redriven,
        Self::Restored,
        Self::Reconfigured,
        Self::Rerun,
        Self::Reopened,
        Self::Purged,
        Self::RunCreated,
        Self::RunPaused,
        Self::RunResumed,
        Self::RunCancelled,
        Self::RunFinished,
    ];

    /// The name by which messages are routed. Stores keep it, and others bind to it: it stays.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admitted => "item.admitted",
            Self::Failed => "item.failed",
            Self::Throttled => "item.throttled",
            Self::RetryScheduled => "item.retry_scheduled",
            Self::HandedOver => "item.handed_over",
            Self::Expanded => "item.expanded",
            Self::Joined => "item.joined",
            Self::StagePassed => "item.stage_passed",
            Self::Succeeded => "item.succeeded",
            Self::Filtered => "item.filtered",
            Self::Dead => "item.dead",
            Self::Quarantined => "item.quarantined",
            Self::Superseded => "item.superseded",
            Self::Cancelled => "item.cancelled",
            Self::Redriven => "item.redriven",
            Self::Restored => "item.restored",
            Self::Reconfigured => "item.reconfigured",
            Self::Rerun => "item.rerun",
            Self::Reopened => "item.reopened",
            Self::Purged => "item.purged",
            Self::RunCreated => "run.created",
            Self::RunPaused => "run.paused",
            Self::RunResumed => "run.resumed",
            Self::RunCancelled => "run.cancelled",
            Self::RunFinished => "run.finished",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) fn has_due(self) -> bool {
        matches!(self, Self::RetryScheduled | Self::Throttled | Self::Redriven | Self::HandedOver)
    }

    pub(super) fn is_death(self) -> bool {
        matches!(self, Self::Dead | Self::Quarantined)
    }

    pub(super) fn has_class(self) -> bool {
        self.is_death() || matches!(self, Self::Failed | Self::Throttled | Self::RetryScheduled)
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for FactKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A set of kinds: a number, so that a transition costs no more for having one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u32);

impl Kinds {
    pub(super) fn of(kinds: &[FactKind]) -> Self {
        Self(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u32))
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = FactKind> {
        FactKind::ALL.into_iter().filter(move |kind| self.0 & 1 << *kind as u32 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_order_is_that_of_the_list() {
        for (place, kind) in FactKind::ALL.into_iter().enumerate() {
            assert_eq!(FactKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind as usize, place);
        }
        assert_eq!(FactKind::from_name("item.gone"), None);
    }
}
