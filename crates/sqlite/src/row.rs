//! Items as rows, and back.

use std::sync::Arc;

use redrive_core::answer::Handed;
use redrive_core::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::policy::OwnPolicy;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdicts;
use redrive_store::sql::ItemColumns;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::{Result, strange};

/// The columns that [`item`] reads, in its order.
macro_rules! item_columns {
    () => {
        "seq, id, run, parent, key, version, origin, stage, state, due, cause, worker, since, generation, rev, \
         attempt, failures, throttles, crashes, first_failed_at, filtered, dead_reason, class, kind, message, grp, \
         shared, created_at, updated_at, deadline, reading, was, earlier, found, policy, handed, failing_since"
    };
}
pub(crate) use item_columns;

/// How many columns [`item_columns`] has: the next one follows here.
pub(crate) const ITEM_COLUMNS: usize = 37;

/// Reads an item from a row that begins with [`item_columns`].
pub(crate) fn item(row: &Row<'_>) -> Result<Item> {
    let columns = columns(row)?;
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
        state: columns.state()?,
        generation: row.get(13)?,
        rev: Rev(row.get(14)?),
        attempt: row.get(15)?,
        failures: row.get(16)?,
        throttles: row.get(17)?,
        crashes: row.get(18)?,
        earlier: row.get(32)?,
        first_failed_at: time(row, 19)?,
        failing_since: time(row, 36)?,
        last: columns.last()?,
        verdicts: verdicts(row, 33)?,
        created_at: Timestamp(row.get(27)?),
        updated_at: Timestamp(row.get(28)?),
        deadline: time(row, 29)?,
        policy: own_policy(row, 34)?,
        handed: handed(row, 35)?,
    })
}

/// The columns of an item's state and last failure.
fn columns<'r>(row: &'r Row<'_>) -> Result<ItemColumns<'r>> {
    Ok(ItemColumns {
        state: row.get(8)?,
        lane: false,
        due: row.get(9)?,
        cause: row.get(10)?,
        worker: row.get(11)?,
        since: row.get(12)?,
        filtered: text_if_any(row, 20)?,
        dead_reason: row.get(21)?,
        class: row.get(22)?,
        kind: row.get(23)?,
        message: text_if_any(row, 24)?,
        group: text_if_any(row, 25)?,
        shared: row.get(26)?,
        was: row.get(31)?,
    })
}

fn verdicts(row: &Row<'_>, column: usize) -> Result<Verdicts> {
    let Some(text) = text_if_any(row, column)? else { return Ok(Verdicts::default()) };
    Verdicts::from_text(text).ok_or_else(|| strange("list of verdicts", text))
}

fn own_policy(row: &Row<'_>, column: usize) -> Result<Option<OwnPolicy>> {
    let Some(text) = text_if_any(row, column)? else { return Ok(None) };
    OwnPolicy::from_text(text).map(Some).ok_or_else(|| strange("policy of an item", text))
}

fn handed(row: &Row<'_>, column: usize) -> Result<Option<Handed>> {
    let Some(text) = text_if_any(row, column)? else { return Ok(None) };
    Handed::from_text(text).map(Some).ok_or_else(|| strange("hand-over", text))
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// A text column, without an allocation in between.
pub(crate) fn text(row: &Row<'_>, column: usize) -> Result<Arc<str>> {
    let text = text_if_any(row, column)?;
    text.map(Arc::from).ok_or_else(|| strange("text", "an empty column"))
}

fn text_if_any<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(strange("text", "a column with broken UTF-8")),
        },
        other => Err(strange("text", format!("{:?}", other.data_type()))),
    }
}

/// A limit as SQL wants it.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
