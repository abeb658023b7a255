//! Items as rows, and back.

use std::sync::Arc;

use redrive_core::failure::{Class, Kind};
use redrive_core::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use redrive_core::item::{DeadReason, Item, LastFailure, State, StateKind};
use redrive_core::policy::Cause;
use redrive_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Result, strange};

/// The columns that [`item`] reads, in its order.
macro_rules! item_columns {
    () => {
        "seq, id, run, parent, key, version, origin, stage, state, due, cause, worker, since, generation, rev, \
         attempt, failures, throttles, crashes, first_failed_at, filtered, dead_reason, class, kind, message, grp, \
         shared, created_at, updated_at, deadline, reading, was, earlier"
    };
}
pub(crate) use item_columns;

/// How many columns [`item_columns`] has: the next one follows here.
pub(crate) const ITEM_COLUMNS: usize = 33;

/// Reads an item from a row that begins with [`item_columns`].
pub(crate) fn item(row: &Row<'_>) -> Result<Item> {
    Ok(Item {
        seq: ItemSeq(row.get(0)?),
        id: ItemId(row.get(1)?),
        run: RunId(row.get(2)?),
        parent: row.get::<_, Option<i64>>(3)?.map(ItemSeq),
        key: text(row, 4)?,
        version: ContentHash(row.get(5)?),
        origin: row.get::<_, i64>(6)?.cast_unsigned(),
        reading: row.get(30)?,
        stage: StageNo(row.get(7)?),
        state: state(row)?,
        generation: row.get(13)?,
        rev: Rev(row.get(14)?),
        attempt: row.get(15)?,
        failures: row.get(16)?,
        throttles: row.get(17)?,
        crashes: row.get(18)?,
        earlier: row.get(32)?,
        first_failed_at: time(row, 19)?,
        last: last_failure(row)?,
        created_at: Timestamp(row.get(27)?),
        updated_at: Timestamp(row.get(28)?),
        deadline: time(row, 29)?,
    })
}

fn state(row: &Row<'_>) -> Result<State> {
    let code: u8 = row.get(8)?;
    let kind = StateKind::from_code(code).ok_or_else(|| strange("state", code))?;
    Ok(match kind {
        StateKind::Waiting => State::Waiting { due: Timestamp(row.get(9)?), cause: cause(row.get(10)?)? },
        StateKind::Running => {
            State::Running { worker: WorkerId(row.get(11)?), since: Timestamp(row.get(12)?) }
        }
        StateKind::Joining => State::Joining,
        StateKind::Succeeded => State::Succeeded,
        StateKind::Filtered => State::Filtered { reason: row.get(20)? },
        StateKind::Superseded => State::Superseded { was: was(row.get(31)?)? },
        StateKind::Cancelled => State::Cancelled,
        StateKind::Dead => State::Dead { reason: dead_reason(row.get(21)?)? },
    })
}

/// What a superseded item was. An older schema did not say; such an item starts over when its content is back.
fn was(code: Option<u8>) -> Result<StateKind> {
    let Some(code) = code else { return Ok(StateKind::Waiting) };
    StateKind::from_code(code).ok_or_else(|| strange("state", code))
}

fn last_failure(row: &Row<'_>) -> Result<Option<LastFailure>> {
    let Some(code) = row.get::<_, Option<i64>>(22)? else { return Ok(None) };
    Ok(Some(LastFailure {
        class: class(code)?,
        kind: kind(row.get(23)?)?,
        message: text(row, 24)?,
        group: text(row, 25)?,
        shared: row.get(26)?,
    }))
}

/// The class with that number.
pub(crate) fn class(code: i64) -> Result<Class> {
    coded(&Class::ALL, code, "failure class")
}

/// The reason with that number.
pub(crate) fn dead_reason(code: i64) -> Result<DeadReason> {
    coded(&DeadReason::ALL, code, "dead reason")
}

/// The kind with that number.
pub(crate) fn kind(code: i64) -> Result<Kind> {
    coded(&Kind::ALL, code, "failure kind")
}

/// The cause with that number, where there is one.
pub(crate) fn cause(code: Option<i64>) -> Result<Option<Cause>> {
    code.map(|code| coded(&Cause::ALL, code, "cause of a wait")).transpose()
}

fn coded<T: Copy>(all: &[T], code: i64, what: &str) -> Result<T> {
    let known = usize::try_from(code).ok().and_then(|index| all.get(index));
    known.copied().ok_or_else(|| strange(what, code))
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// A text column, without an allocation in between.
pub(crate) fn text(row: &Row<'_>, column: usize) -> Result<Arc<str>> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Arc::from(text)),
            Err(_) => Err(strange("text", "a column with broken UTF-8")),
        },
        other => Err(strange("text", format!("{:?}", other.data_type()))),
    }
}

/// The columns of an item's state and last failure, each `None` where the state has no such data.
#[derive(Default)]
pub(crate) struct Fields<'a> {
    pub(crate) state: u8,
    pub(crate) lane: bool,
    pub(crate) due: Option<i64>,
    pub(crate) cause: Option<i64>,
    pub(crate) worker: Option<i64>,
    pub(crate) since: Option<i64>,
    pub(crate) filtered: Option<&'a str>,
    pub(crate) dead_reason: Option<i64>,
    pub(crate) class: Option<i64>,
    pub(crate) kind: Option<i64>,
    pub(crate) message: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) shared: Option<bool>,
    pub(crate) was: Option<u8>,
}

impl<'a> Fields<'a> {
    /// Takes an item's state apart.
    pub(crate) fn of(item: &'a Item) -> Self {
        let mut fields = Self { state: item.state.kind().code(), lane: item.attempt > 0, ..Self::default() };
        match &item.state {
            State::Waiting { due, cause } => {
                fields.due = Some(due.0);
                fields.cause = cause.map(|cause| cause as i64);
            }
            State::Running { worker, since } => {
                fields.worker = Some(worker.0);
                fields.since = Some(since.0);
            }
            State::Filtered { reason } => fields.filtered = Some(reason),
            State::Dead { reason } => fields.dead_reason = Some(*reason as i64),
            State::Superseded { was } => fields.was = Some(was.code()),
            State::Joining | State::Succeeded | State::Cancelled => {}
        }
        if let Some(last) = &item.last {
            fields.class = Some(last.class as i64);
            fields.kind = Some(last.kind as i64);
            fields.message = Some(&last.message);
            fields.group = Some(&last.group);
            fields.shared = Some(last.shared);
        }
        fields
    }
}

/// A limit as SQL wants it.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
