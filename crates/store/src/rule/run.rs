//! What becomes of a run that is changed.

use redrive_core::fact::Fact;
use redrive_core::status::Control;

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
/// from, and of what stages found out the first of a name stays.
///
/// # Errors
/// Those of `live`.
pub fn changed_run<E>(
    mut row: RunRow,
    change: RunChange,
    live: impl FnOnce() -> Result<bool, E>,
) -> Result<ChangedRun, E> {
    let mut facts = Vec::new();
    if let Some(asked) = change.control.filter(|_| row.control != Control::Cancelled) {
        facts.extend(Fact::of_control(row.id, row.control, asked.control, asked.at));
        (row.control, row.reason) = (asked.control, asked.reason);
    }
    if let Some(budget) = change.budget.filter(|budget| budget.was == row.budget) {
        row.budget = Some(budget.becomes);
    }
    if let Some(definition) = change.definition.filter(|text| *text != row.spec.definition) {
        row.edition += 1;
        row.spec.definition = definition;
    }
    if let Some(end) = change.end {
        let finished_at = match end {
            RunEnd::Finished(at) if !live()? => Some(at),
            RunEnd::Finished(_) | RunEnd::GoesOn => None,
        };
        facts.extend(Fact::of_finish(row.id, row.finished_at, finished_at));
        row.finished_at = finished_at;
    }
    row.pause = change.pause.unwrap_or(row.pause);
    row.idle = change.idle.unwrap_or(row.idle);
    if let Some((name, number)) = change.learn {
        row.learnt.entry(name).or_insert(number);
    }
    Ok(ChangedRun { row, facts })
}
