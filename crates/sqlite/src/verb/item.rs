//! Reading single items and families.

use redrive_core::event::ChildTally;
use redrive_core::id::{ItemSeq, RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{Content, ItemContent, NextDue, Settled, StageDue, rule, sql};
use rusqlite::{Connection, OptionalExtension, Row, Rows};

use crate::content;
use crate::error::Result;
use crate::row::{self, item_columns, limit as sql_limit};
use crate::verb::line::{Line, awaited, fresh, retry};

/// Reads all rows.
pub(crate) fn collect<T>(mut rows: Rows<'_>, read: impl Fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// Reads one item.
pub(crate) fn one(conn: &Connection, seq: ItemSeq) -> Result<Option<Item>> {
    let mut select = conn.prepare_cached(concat!("SELECT ", item_columns!(), " FROM item WHERE seq = ?1"))?;
    let mut rows = select.query([seq.0])?;
    rows.next()?.map(row::item).transpose()
}

/// Reads these items.
pub(crate) fn some(conn: &Connection, items: &[ItemSeq]) -> Result<Vec<Item>> {
    let mut found = Vec::with_capacity(items.len());
    for seq in items {
        found.extend(one(conn, *seq)?);
    }
    Ok(found)
}

/// Reads one item's content.
pub(crate) fn payload(conn: &Connection, seq: ItemSeq) -> Result<Option<Content>> {
    let mut select = conn.prepare_cached("SELECT payload, content, payload_sum FROM item WHERE seq = ?1")?;
    let mut rows = select.query([seq.0])?;
    rows.next()?.map(|row| content::read(conn, row, 0)).transpose()
}

/// Reads items with their contents, and no more after so many bytes.
pub(crate) fn contents(conn: &Connection, items: &[ItemSeq], most: usize) -> Result<Vec<ItemContent>> {
    let mut select = conn.prepare_cached(concat!(
        "SELECT ",
        item_columns!(),
        ", payload, content, payload_sum FROM item WHERE seq = ?1"
    ))?;
    let (mut found, mut bytes) = (Vec::with_capacity(items.len()), 0);
    for seq in items {
        let mut rows = select.query([seq.0])?;
        let Some(row) = rows.next()? else { continue };
        let (item, content) = (row::item(row)?, content::read(conn, row, row::ITEM_COLUMNS)?);
        bytes += content.bytes();
        found.push(ItemContent { item, content });
        if bytes >= most {
            break;
        }
    }
    Ok(found)
}

/// Counts an item's children by how they stand.
pub(crate) fn children(conn: &Connection, parent: ItemSeq) -> Result<ChildTally> {
    let mut tally = ChildTally::default();
    let mut select =
        conn.prepare_cached("SELECT state, count(*) FROM item WHERE parent = ?1 GROUP BY state")?;
    let mut rows = select.query([parent.0])?;
    while let Some(row) = rows.next()? {
        let code: i64 = row.get(0)?;
        let n: u64 = row.get::<_, i64>(1)?.cast_unsigned();
        rule::item::tally(&mut tally, sql::state(code)?, n);
    }
    Ok(tally)
}

/// Reads joining items of a run none of whose children is live.
pub(crate) fn settled(conn: &Connection, run: RunId, limit: usize) -> Result<Vec<Settled>> {
    let mut select = conn.prepare_cached(concat!(
        "SELECT ",
        item_columns!(),
        " FROM item INDEXED BY item_joining WHERE state = 2 AND run = ?1 AND NOT EXISTS (
              SELECT 1 FROM item AS child INDEXED BY item_live_child
              WHERE child.parent = item.seq AND child.parent IS NOT NULL AND child.state IN (0, 1, 2))
          ORDER BY seq LIMIT ?2"
    ))?;
    let joined = collect(select.query((run.0, sql_limit(limit)))?, row::item)?;
    let settled =
        joined.into_iter().map(|item| children(conn, item.seq).map(|children| Settled { item, children }));
    settled.collect()
}

macro_rules! ahead {
    () => {
        " AND due > ?3 AND updated_at > ?3 LIMIT ?4"
    };
}

/// The next stage of a run where something waits.
fn next_stage(conn: &Connection, run: RunId, after: i64) -> Result<Option<u16>> {
    let mut ready = conn.prepare_cached(NEXT_READY)?;
    let mut awaited = conn.prepare_cached(NEXT_AWAITED)?;
    let ready: Option<u16> = ready.query_row((run.0, after), |row| row.get(0))?;
    let awaited: Option<u16> = awaited.query_row((run.0, after), |row| row.get(0))?;
    Ok(ready.into_iter().chain(awaited).min())
}

const NEXT_READY: &str = "SELECT min(stage) FROM item INDEXED BY item_ready
     WHERE state = 0 AND handed IS NULL AND run = ?1 AND stage > ?2";
const NEXT_AWAITED: &str = "SELECT min(stage) FROM item INDEXED BY item_awaited
     WHERE state = 0 AND handed IS NOT NULL AND run = ?1 AND stage > ?2";

/// Reads waiting items of a run that a clock wrote which was ahead of this moment. Only those that are due later than that
/// are looked at, stage by stage.
pub(crate) fn ahead(conn: &Connection, run: RunId, than: Timestamp, limit: usize) -> Result<Vec<Item>> {
    let mut found = Vec::new();
    let mut last = -1;
    while let Some(stage) = next_stage(conn, run, last)? {
        last = i64::from(stage);
        for line in Line::ALL {
            let mut select = conn.prepare_cached(match line {
                Line::Fresh => concat!("SELECT ", item_columns!(), " FROM item ", fresh!(), ahead!()),
                Line::Retry => concat!("SELECT ", item_columns!(), " FROM item ", retry!(), ahead!()),
                Line::Awaited => concat!("SELECT ", item_columns!(), " FROM item ", awaited!(), ahead!()),
            })?;
            let room = sql_limit(limit.saturating_sub(found.len()));
            found.extend(collect(select.query((run.0, stage, than.0, room))?, row::item)?);
        }
    }
    found.sort_unstable_by_key(|item: &Item| item.seq);
    Ok(found)
}

/// Reads when the next waiting item of a run is due.
pub(crate) fn next_due(conn: &Connection, run: RunId) -> Result<NextDue> {
    let dues = dues(conn, run)?;
    let at = dues.iter().map(|due| due.at).min();
    let retry = dues.iter().filter(|due| due.line == Line::Retry).map(|due| due.at).min();
    Ok(NextDue { at, any_fresh: dues.iter().any(|due| due.line == Line::Fresh), retry })
}

/// Reads when the next and the last waiting item of each stage of a run are due.
pub(crate) fn due_by_stage(conn: &Connection, run: RunId) -> Result<Vec<StageDue>> {
    let mut stages: Vec<StageDue> = Vec::new();
    for Due { stage, line, at } in dues(conn, run)? {
        let mut latest = conn.prepare_cached(match line {
            Line::Fresh => concat!("SELECT due FROM item ", fresh!(), " ORDER BY due DESC LIMIT 1"),
            Line::Retry => concat!("SELECT due FROM item ", retry!(), " ORDER BY due DESC LIMIT 1"),
            Line::Awaited => concat!("SELECT due FROM item ", awaited!(), " ORDER BY due DESC LIMIT 1"),
        })?;
        let last = Timestamp(latest.query_row((run.0, stage.0), |row| row.get(0))?);
        match stages.last_mut().filter(|before| before.stage == stage) {
            Some(before) => (before.at, before.last) = (before.at.min(at), before.last.max(last)),
            None => stages.push(StageDue { stage, at, last }),
        }
    }
    Ok(stages)
}

/// When the next waiting item of a line is due.
pub(crate) struct Due {
    pub(crate) stage: StageNo,
    pub(crate) line: Line,
    pub(crate) at: Timestamp,
}

/// Reads when the next waiting item of each line of each stage is due, by stage: one look at an index for each.
pub(crate) fn dues(conn: &Connection, run: RunId) -> Result<Vec<Due>> {
    let (mut dues, mut last) = (Vec::new(), -1);
    while let Some(stage) = next_stage(conn, run, last)? {
        last = i64::from(stage);
        for line in Line::ALL {
            let mut select = conn.prepare_cached(match line {
                Line::Fresh => concat!("SELECT due FROM item ", fresh!(), " ORDER BY due LIMIT 1"),
                Line::Retry => concat!("SELECT due FROM item ", retry!(), " ORDER BY due LIMIT 1"),
                Line::Awaited => concat!("SELECT due FROM item ", awaited!(), " ORDER BY due LIMIT 1"),
            })?;
            let earliest = select.query_row((run.0, stage), |row| row.get::<_, i64>(0)).optional()?;
            dues.extend(earliest.map(|at| Due { stage: StageNo(stage), line, at: Timestamp(at) }));
        }
    }
    Ok(dues)
}
