//! The columns of an item's state and last failure, there and back.

use std::sync::Arc;

use redrive_core::id::WorkerId;
use redrive_core::item::{Item, LastFailure, State, StateKind};
use redrive_core::time::Timestamp;

use super::code::{self, Unknown};

/// The columns of an item's state and last failure, each `None` where the state has no such data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemColumns<'a> {
    /// Number of its state.
    pub state: u8,
    /// Whether it was tried before: which of a stage's queues it stands in.
    pub lane: bool,
    /// When it is due.
    pub due: Option<i64>,
    /// Number of what it waits for.
    pub cause: Option<i64>,
    /// Its holder.
    pub worker: Option<i64>,
    /// Since when it is held.
    pub since: Option<i64>,
    /// Why it was filtered.
    pub filtered: Option<&'a str>,
    /// Number of the reason that it is dead for.
    pub dead_reason: Option<i64>,
    /// Number of its last failure's class.
    pub class: Option<i64>,
    /// Number of its last failure's kind.
    pub kind: Option<i64>,
    /// Its last failure's text.
    pub message: Option<&'a str>,
    /// Its last failure's group.
    pub group: Option<&'a str>,
    /// Whether that failure hit a whole batch.
    pub shared: Option<bool>,
    /// Number of the state it had when it was superseded.
    pub was: Option<u8>,
}

impl<'a> From<&'a Item> for ItemColumns<'a> {
    fn from(item: &'a Item) -> Self {
        let mut columns = Self { state: item.state.kind().code(), lane: item.attempt > 0, ..Self::default() };
        match &item.state {
            State::Waiting { due, cause } => {
                columns.due = Some(due.0);
                columns.cause = cause.map(|cause| cause as i64);
            }
            State::Running { worker, since } => {
                columns.worker = Some(worker.0);
                columns.since = Some(since.0);
            }
            State::Filtered { reason } => columns.filtered = Some(reason),
            State::Dead { reason } => columns.dead_reason = Some(*reason as i64),
            State::Superseded { was } => columns.was = Some(was.code()),
            State::Joining | State::Succeeded | State::Cancelled => {}
        }
        if let Some(last) = &item.last {
            columns.class = Some(last.class as i64);
            columns.kind = Some(last.kind as i64);
            columns.message = Some(&last.message);
            columns.group = Some(&last.group);
            columns.shared = Some(last.shared);
        }
        columns
    }
}

impl ItemColumns<'_> {
    /// The state that the columns stand for.
    ///
    /// # Errors
    /// When a number stands for nothing, or a column is missing that the state has.
    pub fn state(&self) -> Result<State, Unknown> {
        let kind = code::state(i64::from(self.state))?;
        let missing = |what| Unknown { what, code: -1 };
        Ok(match kind {
            StateKind::Waiting => State::Waiting {
                due: Timestamp(self.due.ok_or(missing("due time"))?),
                cause: self.cause.map(code::cause).transpose()?,
            },
            StateKind::Running => State::Running {
                worker: WorkerId(self.worker.ok_or(missing("worker"))?),
                since: Timestamp(self.since.ok_or(missing("time of a claim"))?),
            },
            StateKind::Joining => State::Joining,
            StateKind::Succeeded => State::Succeeded,
            StateKind::Filtered => {
                State::Filtered { reason: self.filtered.ok_or(missing("reason of a filter"))?.to_owned() }
            }
            // An older schema did not say what it was; such an item starts over when its content is back.
            StateKind::Superseded => State::Superseded {
                was: self.was.map_or(Ok(StateKind::Waiting), |was| code::state(i64::from(was)))?,
            },
            StateKind::Cancelled => State::Cancelled,
            StateKind::Dead => {
                State::Dead { reason: code::dead_reason(self.dead_reason.ok_or(missing("dead reason"))?)? }
            }
        })
    }

    /// The last failure that the columns stand for.
    ///
    /// # Errors
    /// When a number stands for nothing, or a column is missing that a failure has.
    pub fn last(&self) -> Result<Option<LastFailure>, Unknown> {
        let Some(class) = self.class else { return Ok(None) };
        let missing = |what| Unknown { what, code: -1 };
        Ok(Some(LastFailure {
            class: code::class(class)?,
            kind: code::kind(self.kind.ok_or(missing("failure kind"))?)?,
            message: Arc::from(self.message.ok_or(missing("message"))?),
            group: Arc::from(self.group.ok_or(missing("group"))?),
            shared: self.shared.ok_or(missing("note whether a failure was shared"))?,
        }))
    }
}
