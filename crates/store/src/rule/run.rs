//! What becomes of a run that is changed, and whose source is read.

use redrive_core::fact::Fact;
use redrive_core::id::RunId;
use redrive_core::status::Control;

use crate::Error;
use crate::request::Cursor;
use crate::run::{RunChange, RunEnd, RunRow};

/// A run as a change leaves it, and what the world is told of that.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedRun {
    /// The run.
    pub row: RunRow,
    /// The facts.
    pub facts: Vec<Fact>,
}

/// Says what a change makes of a run; `live` is whether it has unfinished items, and asked only of one that is to be finished.
///
/// A cancelled run stays cancelled, one with unfinished items is not finished, a budget is kept only over the one it was made
/// from, and of what stages found out the first of a name stays. Nobody is at a run that has ended, whoever has yet to hear of it.
///
/// # Errors
/// Those of `live`.
pub fn changed_run<E>(
    mut row: RunRow,
    change: RunChange,
    live: impl Fn() -> Result<bool, E>,
) -> Result<ChangedRun, E> {
    let mut facts = Vec::new();
    if let Some(asked) = change.control.filter(|_| row.control != Control::Cancelled) {
        facts.extend(Fact::of_control(row.id, row.control, asked.control, asked.at));
        (row.control, row.reason) = (asked.control, asked.reason);
    }
    if let Some(budget) = change.budget.filter(|budget| budget.was == row.budget) {
        row.budget = Some(budget.becomes);
    }
    let definition = change.definition.filter(|text| *text != row.spec.definition);
    let folder = change.folder.filter(|folder| *folder != row.spec.folder);
    row.edition += u32::from(definition.is_some() || folder.is_some());
    row.spec.definition = definition.unwrap_or(row.spec.definition);
    row.spec.folder = folder.unwrap_or(row.spec.folder);
    if let Some(end) = change.end {
        let finished_at = match end {
            RunEnd::Finished(at) if !live()? => Some(at),
            RunEnd::IfDone(at) if row.finished_at.is_none() && row.admitted_all && !live()? => Some(at),
            RunEnd::IfDone(_) => row.finished_at,
            RunEnd::Finished(_) | RunEnd::GoesOn => None,
        };
        facts.extend(Fact::of_finish(row.id, row.finished_at, finished_at));
        if finished_at.is_none() {
            reopen(&mut row);
        }
        row.finished_at = finished_at;
    }
    row.pause = change.pause.unwrap_or(row.pause);
    row.idle =
        change.idle.filter(|idle| idle.since.is_some() || row.finished_at.is_none()).unwrap_or(row.idle);
    if let Some((name, number)) = change.learn {
        row.learnt.entry(name).or_insert(number);
    }
    Ok(ChangedRun { row, facts })
}

/// Has a run go on that may have ended: nobody was at it since then.
pub fn reopen(row: &mut RunRow) {
    row.idle.since = row.idle.since.or(row.finished_at);
    row.finished_at = None;
}

/// Says whether a run takes what a reading of its source has.
///
/// # Errors
/// [`Error::RunCancelled`] and [`Error::Overtaken`].
pub fn takes(run: RunId, control: Control, reading: u32, submitted: u32) -> Result<(), Error> {
    if control == Control::Cancelled {
        return Err(Error::RunCancelled { run });
    }
    if reading > submitted {
        return Err(Error::Overtaken { reading });
    }
    Ok(())
}

/// A run whose source is begun to be read anew from a position.
///
/// # Errors
/// [`Error::Overtaken`] when somebody has begun another reading than the last one that is known.
pub fn begun_reading(mut row: RunRow, last: u32, position: Option<String>) -> Result<RunRow, Error> {
    if row.reading != last {
        return Err(Error::Overtaken { reading: row.reading });
    }
    reopen(&mut row);
    Ok(RunRow { reading: row.reading + 1, cursor: position, admitted_all: false, duplicates: 0, ..row })
}

/// How far a run's source is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// In the source's own terms.
    pub cursor: Option<String>,
    /// Whether it was read to the end.
    pub admitted_all: bool,
    /// Lines that repeated an earlier one.
    pub duplicates: u64,
}

impl Progress {
    /// How far it is read after a submission in which so many lines repeated an earlier one. Two may read one source at once:
    /// the one that is behind does not take back what the other has reached.
    #[must_use]
    pub fn after(self, cursor: &Cursor, repeated: u64) -> Self {
        let duplicates = self.duplicates + cursor.duplicates + repeated;
        if self.admitted_all {
            return Self { duplicates, ..self };
        }
        Self { cursor: Some(cursor.position.clone()), admitted_all: cursor.done, duplicates }
    }
}
