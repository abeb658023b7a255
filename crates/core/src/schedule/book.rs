//! What is kept of a schedule, and what is decided when its times have come.
//!
//! Every time is decided once: those up to [`Book::through`] are, whatever a clock says later. A decision to fire is kept
//! before anything is done about it, so whoever comes after a crash knows that it was made.

use serde::{Deserialize, Serialize};

use super::cron::Cron;
use super::next::{Recent, Zone, recent};
use crate::id::RunId;
use crate::time::{Timestamp, millis};
use std::time::Duration;

/// A time that is noticed later than this was missed.
pub const ON_TIME: Duration = Duration::from_secs(60);
/// Most times that are made up for.
pub const MOST_MISSED: usize = 100;
/// How long somebody may take to begin a run before another one does it.
pub const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// What becomes of a time at which the run before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// It waits for the end of that run; a further one is skipped.
    Queue,
    /// It fires: the run that is there reads its source once more.
    Allow,
}

/// What becomes of times at which nobody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// One firing for all of them.
    #[default]
    Once,
    /// Nothing.
    Skip,
    /// A firing for each, one after the other, at most [`MOST_MISSED`].
    All,
}

/// When, and by which rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The expression.
    pub cron: String,
    /// The name of the time zone.
    pub time_zone: String,
    /// What becomes of a time at which the run before has not ended.
    pub overlap: Overlap,
    /// What becomes of times at which nobody looked.
    pub missed: Missed,
}

impl Rule {
    /// Whether the same times are meant.
    fn has_times_of(&self, other: &Self) -> bool {
        (&self.cron, &self.time_zone) == (&other.cron, &other.time_zone)
    }
}

/// A time that is being fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    /// The time.
    pub due: Timestamp,
    /// Who begins the run.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
}

/// A time that was fired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// The time.
    pub due: Timestamp,
    /// When it was.
    pub at: Timestamp,
    /// The run that was begun or gone on with; `None` where that failed.
    pub run: Option<RunId>,
    /// Why no run could be begun.
    pub failed: Option<String>,
}

/// Why a time was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// The run before had not ended.
    Overlap,
    /// Another time waited for its end already.
    Queued,
    /// Nobody looked then.
    Missed,
}

/// The last time that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The time.
    pub due: Timestamp,
    /// When that was decided.
    pub at: Timestamp,
    /// Why.
    pub why: Skip,
}

/// All that is kept of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// When, and by which rules.
    pub rule: Rule,
    /// Times up to and with this one are decided.
    pub through: Timestamp,
    /// Times that wait for their turn.
    pub queue: Vec<Timestamp>,
    /// The one whose turn it is.
    pub firing: Option<Firing>,
    /// The one that was fired last.
    pub last: Option<Fired>,
    /// The one that was skipped last.
    pub skipped: Option<Skipped>,
    /// How many were fired.
    pub times_fired: u64,
    /// How many were skipped, as far as they were counted.
    pub times_skipped: u64,
}

impl Book {
    /// Begins now: no time before this is meant.
    #[must_use]
    pub fn new(rule: Rule, now: Timestamp) -> Self {
        Self {
            rule,
            through: now,
            queue: Vec::new(),
            firing: None,
            last: None,
            skipped: None,
            times_fired: 0,
            times_skipped: 0,
        }
    }

    /// Takes over a rule that was edited. Other times are meant from now on only; what waits goes on.
    pub fn edit(&mut self, rule: Rule, now: Timestamp) {
        if !self.rule.has_times_of(&rule) {
            self.through = now;
        }
        self.rule = rule;
    }

    /// Decides about the times that have come. `busy` says whether the run before has not ended.
    pub fn look(&mut self, cron: &Cron, zone: &dyn Zone, now: Timestamp, busy: bool) {
        if now <= self.through {
            // A clock that was put back brings nothing again.
            return;
        }
        let Recent { mut times, more } = recent(cron, zone, self.through, now, MOST_MISSED);
        let Some(newest) = times.last().copied() else { return };
        self.through = newest;
        let on_time = now.since(newest) <= ON_TIME;
        let late = match self.rule.missed {
            Missed::All => 0,
            Missed::Once => times.len() - 1,
            Missed::Skip => times.len() - usize::from(on_time),
        };
        let meant = times.split_off(late);
        if more || !times.is_empty() {
            let due = times.last().or(meant.first()).copied().unwrap_or(newest);
            self.skip(due, now, Skip::Missed, times.len().max(1));
        }
        let makes_up = meant.len() > 1;
        for due in meant {
            let waits = self.firing.is_some() || !self.queue.is_empty();
            match self.rule.overlap {
                _ if makes_up => self.queue.push(due),
                Overlap::Skip if busy || waits => self.skip(due, now, Skip::Overlap, 1),
                Overlap::Queue if !self.queue.is_empty() => self.skip(due, now, Skip::Queued, 1),
                Overlap::Skip | Overlap::Queue | Overlap::Allow => self.queue.push(due),
            }
        }
        let surplus = self.queue.len().saturating_sub(MOST_MISSED);
        if surplus > 0 {
            let gone: Vec<Timestamp> = self.queue.drain(..surplus).collect();
            self.skip(gone[surplus - 1], now, Skip::Missed, surplus);
        }
    }

    fn skip(&mut self, due: Timestamp, at: Timestamp, why: Skip, times: usize) {
        self.skipped = Some(Skipped { due, at, why });
        self.times_skipped += times as u64;
    }

    /// Takes the time whose turn it is, in somebody's name; `None` where there is none, or somebody else is at it.
    pub fn take(&mut self, by: &str, now: Timestamp, busy: bool) -> Option<Timestamp> {
        if let Some(firing) = &mut self.firing {
            // By a clock that was put, both ways mean that nobody is known to be at it.
            let held = now.0.saturating_sub(firing.since.0).saturating_abs();
            if firing.by != by && held <= millis(BEGINS_WITHIN) {
                return None;
            }
            (firing.by, firing.since) = (by.to_owned(), now);
            return Some(firing.due);
        }
        if self.queue.is_empty() || (busy && self.rule.overlap != Overlap::Allow) {
            return None;
        }
        let due = self.queue.remove(0);
        self.firing = Some(Firing { due, by: by.to_owned(), since: now });
        Some(due)
    }

    /// Notes what became of the time whose turn it was.
    pub fn fired(&mut self, at: Timestamp, begun: Result<RunId, String>) {
        let Some(firing) = self.firing.take() else { return };
        let (run, failed) = match begun {
            Ok(run) => (Some(run), None),
            Err(why) => (None, Some(why)),
        };
        self.times_fired += 1;
        self.last = Some(Fired { due: firing.due, at, run, failed });
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
