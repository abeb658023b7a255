//! Which runs have something to do.

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;

use crate::run::RunRow;

/// Asks for runs that have something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkQuery {
    /// Which of them.
    pub filter: WorkFilter,
    /// Only those that are served later than this one.
    pub after: Option<WorkPosition>,
    /// At most so many.
    pub limit: usize,
    /// At most so many are looked at, whether they have something to do or not.
    pub looks: usize,
    /// Also those whose items are all due later.
    pub later: bool,
    /// The time.
    pub now: Timestamp,
}

/// Which runs a worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkFilter {
    /// Only runs of these categories; empty: of all, and those without one.
    pub categories: Vec<String>,
    /// Only runs of these pipelines; empty: of all.
    pub pipelines: Vec<String>,
    /// No runs of these pipelines.
    pub but_pipelines: Vec<String>,
}

impl WorkFilter {
    /// Whether a run is one of them.
    #[must_use]
    pub fn takes(&self, row: &RunRow) -> bool {
        let category = row.spec.category.as_ref();
        (self.categories.is_empty() || category.is_some_and(|category| self.categories.contains(category)))
            && (self.pipelines.is_empty() || self.pipelines.contains(&row.spec.pipeline))
            && !self.but_pipelines.contains(&row.spec.pipeline)
    }
}

/// When a run is served: those of higher priority first, then by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkPosition {
    /// Its priority.
    pub priority: i32,
    /// Its number.
    pub run: RunId,
}

impl WorkPosition {
    /// The position of a run.
    #[must_use]
    pub fn of(row: &RunRow) -> Self {
        Self { priority: row.spec.priority, run: row.id }
    }

    /// What positions are compared by; the smallest is served first.
    #[must_use]
    pub fn key(self) -> (i64, RunId) {
        (-i64::from(self.priority), self.run)
    }
}

/// Runs that have something to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkList {
    /// The runs, in the order in which they are served.
    pub runs: Vec<OpenRun>,
    /// Where the list goes on; `None` when all were looked at.
    pub next: Option<WorkPosition>,
    /// When the first item of the others that were looked at is due.
    pub next_due: Option<Timestamp>,
}

/// A run that has something to do.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRun {
    /// The run.
    pub row: RunRow,
    /// What there is to do.
    pub has: Has,
    /// How many items wait, due or not: it has no use for more places than these need.
    pub waiting: u64,
}

/// What a run has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Has {
    /// Items that are due.
    Due,
    /// Items of a worker that is gone.
    Orphans,
    /// Parents, and nothing that they wait for can be seen.
    Parents,
    /// A source that was not read to its end, and nothing else now.
    Source,
    /// Nothing: it only has to be called finished.
    End,
    /// Items that are due later, where those were asked for.
    Later,
}

/// What a store finds out of a run to say what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunState {
    /// When its next waiting item is due.
    pub next_due: Option<Timestamp>,
    /// How many items wait.
    pub waiting: u64,
    /// Whether it has running items.
    pub running: bool,
    /// Whether some of these are nobody's any more.
    pub orphans: bool,
    /// Whether it has parents that wait for children.
    pub joining: bool,
    /// Whether its source was read to the end.
    pub read: bool,
    /// Whether it is a standing run that takes items: it has no source to be read, and no end.
    pub takes_items: bool,
}

impl RunState {
    /// What the run has to be done; `None` when there is nothing now.
    #[must_use]
    pub fn has(self, now: Timestamp, later: bool) -> Option<Has> {
        match self.next_due {
            Some(due) if due <= now => Some(Has::Due),
            _ if self.orphans => Some(Has::Orphans),
            _ if !self.read && !self.takes_items => Some(Has::Source),
            None if self.running => None,
            None if self.joining => Some(Has::Parents),
            None => Some(Has::End).filter(|_| !self.takes_items),
            Some(_) if later => Some(Has::Later),
            Some(_) => None,
        }
    }
}
