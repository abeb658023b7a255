//! How a run stands, derived from its items and from what was asked of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::item::StateKind;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Work goes on.
    Running,
    /// A standing run that takes items; what it has is done, or waits for somebody who works on it.
    Open,
    /// It was handed over, and waits for somebody who works on it.
    Queued,
    /// Work is left and nobody is at it; the same command goes on.
    Interrupted,
    /// Everything is finished, and enough of it well.
    Completed,
    /// Everything is finished, at least half of it well.
    PartialSuccess,
    /// Only retries that are due later remain.
    PartiallyCompleted,
    /// Everything is finished, most of it badly.
    Failed,
    /// Stopped by its failure budget.
    PausedBudget,
    /// Stopped because credit is exhausted.
    PausedQuota,
    /// Stopped because a dependency stays away.
    PausedOutage,
    /// Stopped by an operator.
    Paused,
    /// Taken out by an operator.
    Cancelled,
}

impl RunStatus {
    /// Every status, in a fixed order.
    pub const ALL: [Self; 13] = [
        Self::Running,
        Self::Open,
        Self::Queued,
        Self::Interrupted,
        Self::Completed,
        Self::PartialSuccess,
        Self::PartiallyCompleted,
        Self::Failed,
        Self::PausedBudget,
        Self::PausedQuota,
        Self::PausedOutage,
        Self::Paused,
        Self::Cancelled,
    ];

    /// The name used in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Open => "open",
            Self::Queued => "queued",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::PartialSuccess => "partial_success",
            Self::PartiallyCompleted => "partially_completed",
            Self::Failed => "failed",
            Self::PausedBudget => "paused_budget",
            Self::PausedQuota => "paused_quota",
            Self::PausedOutage => "paused_outage",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was asked of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Go on.
    #[default]
    Go,
    /// Stop, by an operator.
    Paused,
    /// Stop: the failure budget is spent.
    PausedBudget,
    /// Stop: credit is exhausted.
    PausedQuota,
    /// Stop: a dependency stays away.
    PausedOutage,
    /// Never go on.
    Cancelled,
}

impl Control {
    const ALL: [Self; 6] =
        [Self::Go, Self::Paused, Self::PausedBudget, Self::PausedQuota, Self::PausedOutage, Self::Cancelled];

    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The control with that number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The status of a run that this was asked of; `None` for one that goes on.
    #[must_use]
    pub fn status(self) -> Option<RunStatus> {
        match self {
            Self::Go => None,
            Self::Paused => Some(RunStatus::Paused),
            Self::PausedBudget => Some(RunStatus::PausedBudget),
            Self::PausedQuota => Some(RunStatus::PausedQuota),
            Self::PausedOutage => Some(RunStatus::PausedOutage),
            Self::Cancelled => Some(RunStatus::Cancelled),
        }
    }
}

/// From which share of success on a run counts as what.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// `completed` from here.
    pub completed_at: f64,
    /// `partial_success` from here.
    pub partial_at: f64,
    /// Whether an item without all of its parts is not well: an index that lacks passages is not `completed`.
    pub whole: bool,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { completed_at: 0.95, partial_at: 0.50, whole: false }
    }
}

/// How many items are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Items that were ever admitted: the sum of all others.
    pub admitted: u64,
    /// See [`StateKind::Succeeded`].
    pub succeeded: u64,
    /// See [`StateKind::Filtered`].
    pub filtered: u64,
    /// See [`StateKind::Superseded`].
    pub superseded: u64,
    /// See [`StateKind::Cancelled`].
    pub cancelled: u64,
    /// See [`StateKind::Dead`].
    pub dead: u64,
    /// See [`StateKind::Waiting`].
    pub waiting: u64,
    /// See [`StateKind::Running`].
    pub running: u64,
    /// See [`StateKind::Joining`].
    pub joining: u64,
    /// Items that were removed for good, whatever they were.
    pub purged: u64,
}

impl Counts {
    /// The number for one state.
    pub fn of(&mut self, kind: StateKind) -> &mut u64 {
        match kind {
            StateKind::Waiting => &mut self.waiting,
            StateKind::Running => &mut self.running,
            StateKind::Joining => &mut self.joining,
            StateKind::Succeeded => &mut self.succeeded,
            StateKind::Filtered => &mut self.filtered,
            StateKind::Superseded => &mut self.superseded,
            StateKind::Cancelled => &mut self.cancelled,
            StateKind::Dead => &mut self.dead,
        }
    }

    /// Both, added up.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            admitted: self.admitted + other.admitted,
            succeeded: self.succeeded + other.succeeded,
            filtered: self.filtered + other.filtered,
            superseded: self.superseded + other.superseded,
            cancelled: self.cancelled + other.cancelled,
            dead: self.dead + other.dead,
            waiting: self.waiting + other.waiting,
            running: self.running + other.running,
            joining: self.joining + other.joining,
            purged: self.purged + other.purged,
        }
    }

    /// Items that are not finished.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.waiting + self.running + self.joining
    }

    /// Items that are finished.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.succeeded + self.filtered + self.superseded + self.cancelled + self.dead + self.purged
    }

    /// Share of success among the items that succeeded or died; 1 when there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn success_rate(&self) -> f64 {
        match self.succeeded + self.dead {
            0 => 1.0,
            judged => self.succeeded as f64 / judged as f64,
        }
    }
}

/// How somebody who worked on a run left it, where that says more than its items do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// They were told to stop.
    Stopped,
    /// Only retries that are due too late for them remain.
    Waiting,
    /// They work on many runs, and leave this one to whoever takes it next.
    ToOthers,
}

/// What a run's status is derived from.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// What was asked of it.
    pub control: Control,
    /// Whether its source was read to the end.
    pub admitted_all: bool,
    /// Whether it is a standing run that was not closed: items are handed to it, and no source is read.
    pub open: bool,
    /// Whether it was handed over to whoever works on runs.
    pub handed_over: bool,
    /// Whether somebody works on it now.
    pub attended: bool,
    /// Whether every waiting item has been tried before, so that only retries remain.
    pub only_retries: bool,
    /// Its own items, those that were purged as what they were: a purge makes no status better.
    pub counts: Counts,
    /// Parts of its items that died or were purged.
    pub lost_parts: u64,
    /// How the one who asks left it; `None` for whoever only looks.
    pub left: Option<Left>,
}

/// Derives a run's status.
#[must_use]
pub fn run_status(standing: &Standing, thresholds: Thresholds) -> RunStatus {
    let Standing { control, admitted_all, open, handed_over, attended, .. } = *standing;
    let Standing { only_retries, counts, lost_parts, left, .. } = *standing;
    match left {
        Some(Left::Stopped) => return RunStatus::Interrupted,
        Some(Left::Waiting) => return RunStatus::PartiallyCompleted,
        Some(Left::ToOthers) | None => {}
    }
    let to_others = left == Some(Left::ToOthers);
    let (attended, handed_over) = (attended && !to_others, handed_over || to_others);
    let unfinished = !admitted_all || counts.live() > 0;
    // With nothing left to keep from going on, a pause says no more than the items do.
    if let Some(asked) = control.status().filter(|asked| unfinished || *asked == RunStatus::Cancelled) {
        return asked;
    }
    if open {
        return if attended && counts.live() > 0 { RunStatus::Running } else { RunStatus::Open };
    }
    if unfinished {
        return match (attended, admitted_all && only_retries) {
            (true, _) => RunStatus::Running,
            (false, true) => RunStatus::PartiallyCompleted,
            (false, false) if handed_over => RunStatus::Queued,
            (false, false) => RunStatus::Interrupted,
        };
    }
    match counts.success_rate() {
        rate if rate >= thresholds.completed_at && thresholds.whole && lost_parts > 0 => {
            RunStatus::PartialSuccess
        }
        rate if rate >= thresholds.completed_at => RunStatus::Completed,
        rate if rate >= thresholds.partial_at => RunStatus::PartialSuccess,
        _ => RunStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(succeeded: u64, dead: u64, filtered: u64) -> RunStatus {
        let counts = Counts { succeeded, dead, filtered, ..Counts::default() };
        let standing = Standing {
            control: Control::Go,
            admitted_all: true,
            open: false,
            handed_over: false,
            attended: false,
            only_retries: false,
            counts,
            lost_parts: 0,
            left: None,
        };
        run_status(&standing, Thresholds::default())
    }

    #[test]
    fn thresholds_are_inclusive_and_filtered_items_stay_out() {
        assert_eq!(finished(95, 5, 0), RunStatus::Completed);
        assert_eq!(finished(94, 6, 1000), RunStatus::PartialSuccess);
        assert_eq!(finished(50, 50, 0), RunStatus::PartialSuccess);
        assert_eq!(finished(49, 51, 0), RunStatus::Failed);
        assert_eq!(finished(0, 0, 7), RunStatus::Completed);
        assert_eq!(finished(0, 0, 0), RunStatus::Completed);
    }

    #[test]
    fn waiting_retries_are_not_a_verdict() {
        let counts = Counts { succeeded: 10, waiting: 1, ..Counts::default() };
        let mut standing = Standing {
            control: Control::Go,
            admitted_all: true,
            open: false,
            handed_over: false,
            attended: false,
            only_retries: true,
            counts,
            lost_parts: 0,
            left: None,
        };
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::PartiallyCompleted);
        standing.only_retries = false;
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::Interrupted);
        standing.handed_over = true;
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::Queued);
        standing.attended = true;
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::Running);
        standing.control = Control::PausedBudget;
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::PausedBudget);
        standing.counts.waiting = 0;
        assert_eq!(
            run_status(&standing, Thresholds::default()),
            RunStatus::Completed,
            "nothing is left to pause"
        );
    }

    #[test]
    fn a_standing_run_is_open_until_somebody_works_on_its_items() {
        let mut standing = Standing {
            control: Control::Go,
            admitted_all: false,
            open: true,
            handed_over: true,
            attended: false,
            only_retries: false,
            counts: Counts { dead: 3, waiting: 1, ..Counts::default() },
            lost_parts: 0,
            left: None,
        };
        let status = |standing: &Standing| run_status(standing, Thresholds::default());
        assert_eq!(status(&standing), RunStatus::Open);
        standing.attended = true;
        assert_eq!(status(&standing), RunStatus::Running);
        standing.counts.waiting = 0;
        assert_eq!(status(&standing), RunStatus::Open, "somebody waits for items");
        standing.control = Control::Paused;
        assert_eq!(status(&standing), RunStatus::Paused, "what comes next would wait");
        let stopped = Standing { control: Control::Go, left: Some(Left::Stopped), ..standing };
        assert_eq!(status(&stopped), RunStatus::Interrupted);
        let closed = Standing { control: Control::Go, admitted_all: true, open: false, ..standing };
        assert_eq!(status(&closed), RunStatus::Failed);
    }

    #[test]
    fn lost_parts_count_only_where_items_have_to_be_whole() {
        let counts = Counts { succeeded: 10, ..Counts::default() };
        let standing = Standing {
            control: Control::Go,
            admitted_all: true,
            open: false,
            handed_over: false,
            attended: false,
            only_retries: false,
            counts,
            lost_parts: 1,
            left: None,
        };
        assert_eq!(run_status(&standing, Thresholds::default()), RunStatus::Completed);
        let whole = Thresholds { whole: true, ..Thresholds::default() };
        assert_eq!(run_status(&standing, whole), RunStatus::PartialSuccess);
        assert_eq!(run_status(&Standing { lost_parts: 0, ..standing }, whole), RunStatus::Completed);
        let stopped = Standing { left: Some(Left::Stopped), ..standing };
        assert_eq!(run_status(&stopped, whole), RunStatus::Interrupted);
    }
}
