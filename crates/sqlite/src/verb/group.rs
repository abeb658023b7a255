//! How many dead items have alike errors, kept in the transaction of what it counts.

use std::collections::BTreeMap;

use redrive_core::id::ItemSeq;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::time::Timestamp;
use redrive_store::sql::ItemColumns;
use redrive_store::{Error, Group, ItemFilter};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use crate::error::Result;
use crate::row::limit as sql_limit;
use crate::verb::item::one;
use crate::verb::query::Conditions;

/// What stands for a class where there is none.
const NO_CLASS: i64 = -1;

/// What dead items are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: String,
    run: i64,
    stage: u16,
    class: i64,
    reason: i64,
}

/// Some items that came or went, and when the first and the last of them had died.
#[derive(Debug, Clone, Copy)]
struct Span {
    n: i64,
    first: i64,
    last: i64,
}

/// What one transaction changes.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    came: BTreeMap<Key, Span>,
    went: BTreeMap<Key, Span>,
}

fn count(among: &mut BTreeMap<Key, Span>, key: Key, at: i64) {
    let known = among.entry(key).or_insert(Span { n: 0, first: at, last: at });
    *known = Span { n: known.n + 1, first: known.first.min(at), last: known.last.max(at) };
}

impl Groups {
    /// An item is as it is now.
    pub(crate) fn is_now(&mut self, item: &Item) {
        if let Some(key) = key(item) {
            count(&mut self.came, key, item.updated_at.0);
        }
    }

    /// An item is not any more as it was.
    pub(crate) fn was(&mut self, item: &Item) {
        if let Some(key) = key(item) {
            count(&mut self.went, key, item.updated_at.0);
        }
    }

    /// Writes what came and went.
    pub(crate) fn finish(&self, tx: &Connection) -> Result<()> {
        let mut less = tx.prepare_cached(
            "UPDATE dead_group SET n = n - ?6, stale = stale OR ?7 <= first_at OR ?8 >= last_at
             WHERE grp = ?1 AND run = ?2 AND stage = ?3 AND class = ?4 AND reason = ?5",
        )?;
        let mut none = tx.prepare_cached(
            "DELETE FROM dead_group
             WHERE grp = ?1 AND run = ?2 AND stage = ?3 AND class = ?4 AND reason = ?5 AND n <= 0",
        )?;
        for (Key { group, run, stage, class, reason }, Span { n, first, last }) in &self.went {
            less.execute((group, run, stage, class, reason, n, first, last))?;
            none.execute((group, run, stage, class, reason))?;
        }
        let mut more = tx.prepare_cached(
            "INSERT INTO dead_group (grp, run, stage, class, reason, n, first_at, last_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (grp, run, stage, class, reason) DO UPDATE SET n = n + excluded.n,
                 first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)",
        )?;
        for (Key { group, run, stage, class, reason }, Span { n, first, last }) in &self.came {
            more.execute((group, run, stage, class, reason, n, first, last))?;
        }
        Ok(())
    }
}

fn key(item: &Item) -> Option<Key> {
    let State::Dead { reason } = item.state else { return None };
    let columns = ItemColumns::from(item);
    Some(Key {
        group: columns.group.unwrap_or_default().to_owned(),
        run: item.run.0,
        stage: item.stage.0,
        class: columns.class.unwrap_or(NO_CLASS),
        reason: reason as i64,
    })
}

/// Whether groups can be told by what is counted alone.
fn is_counted(filter: &ItemFilter) -> bool {
    let ItemFilter { parent, top, text, since, until, ids, key, failed, unseen, state, .. } = filter;
    parent.is_none()
        && !top
        && text.is_none()
        && since.is_none()
        && until.is_none()
        && ids.is_none()
        && key.is_none()
        && !failed
        && unseen.is_none()
        && state.is_none_or(|state| state == StateKind::Dead)
}

/// Reads the largest groups of dead items; `None` where they have to be counted one by one.
pub(crate) fn largest(conn: &Connection, filter: &ItemFilter, limit: usize) -> Result<Option<Vec<Group>>> {
    if !is_counted(filter) {
        return Ok(None);
    }
    let (wanted, mut values) = counted(filter)?;
    values.push(Value::from(sql_limit(limit)));
    let mut select = conn.prepare_cached(&format!(
        "SELECT grp, sum(n) AS n, min(first_at), max(last_at), max(stale) FROM dead_group {wanted}
         GROUP BY grp ORDER BY n DESC, grp LIMIT ?"
    ))?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let group: String = row.get(0)?;
        let told = Span { n: row.get(1)?, first: row.get(2)?, last: row.get(3)? };
        let stale: bool = row.get(4)?;
        groups.push(whole(conn, filter, group, told, stale)?);
    }
    Ok(Some(groups))
}

/// Whether a group has no more dead items than these.
pub(crate) fn has_at_most(conn: &Connection, group: &str, most: u64) -> Result<bool> {
    let mut select = conn.prepare_cached("SELECT coalesce(sum(n), 0) FROM dead_group WHERE grp = ?1")?;
    let n: i64 = select.query_row([group], |row| row.get(0))?;
    Ok(n.unsigned_abs() <= most)
}

/// The conditions of a filter on what is counted.
fn counted(filter: &ItemFilter) -> Result<(String, Vec<Value>)> {
    let by_row = ItemFilter { state: None, reason: None, ..filter.clone() };
    let mut conditions = Conditions::of(&by_row)?;
    if let Some(reason) = filter.reason {
        conditions.add("reason = ?", [Value::from(reason as i64)]);
    }
    Ok((conditions.text(), conditions.values))
}

/// A group with one of its items, and with its times where those are not known any more.
fn whole(conn: &Connection, filter: &ItemFilter, group: String, told: Span, stale: bool) -> Result<Group> {
    let among = ItemFilter { state: Some(StateKind::Dead), group: None, ..filter.clone() };
    let mut conditions = Conditions::of(&among)?;
    match group.is_empty() {
        true => conditions.add("(grp IS NULL OR grp = '')", []),
        false => conditions.add("grp = ?", [Value::Text(group.clone())]),
    }
    let wanted = conditions.text();
    let first = format!("SELECT seq FROM item INDEXED BY item_dead_group {wanted} ORDER BY seq LIMIT 1");
    let mut select = conn.prepare_cached(&first)?;
    let seq: Option<i64> =
        select.query_row(params_from_iter(&conditions.values), |row| row.get(0)).optional()?;
    let gone = || Error::Corrupt(format!("the dead items of group {group:?} are counted and not there"));
    let example = one(conn, ItemSeq(seq.ok_or_else(gone)?))?.ok_or_else(gone)?;
    let (first, last) = match stale {
        false => (told.first, told.last),
        true => conn
            .prepare_cached(&format!(
                "SELECT min(updated_at), max(updated_at) FROM item INDEXED BY item_dead_group {wanted}"
            ))?
            .query_row(params_from_iter(&conditions.values), |row| Ok((row.get(0)?, row.get(1)?)))?,
    };
    let message = example.last.as_ref();
    Ok(Group {
        items: told.n.cast_unsigned(),
        run: example.run,
        stage: example.stage,
        class: message.map(|last| last.class),
        message: message.map(|last| last.message.to_string()).unwrap_or_default(),
        example: example.id,
        first_at: Timestamp(first),
        last_at: Timestamp(last),
        group,
    })
}

/// Groups that are counted otherwise than their items are there, in words.
pub(crate) fn miscounted(conn: &Connection) -> Result<Vec<String>> {
    let mut select = conn.prepare(
        "SELECT grp, run, max(there), max(counted) FROM (
             SELECT coalesce(grp, '') AS grp, run, stage, coalesce(class, -1) AS class, dead_reason AS reason,
                    count(*) AS there, 0 AS counted
             FROM item INDEXED BY item_dead_group WHERE state = 7 GROUP BY 1, 2, 3, 4, 5
             UNION ALL
             SELECT grp, run, stage, class, reason, 0, n FROM dead_group)
         GROUP BY grp, run, stage, class, reason HAVING max(there) <> max(counted)",
    )?;
    let words = select.query_map([], |row| {
        let (group, run): (String, i64) = (row.get(0)?, row.get(1)?);
        let (there, counted): (i64, i64) = (row.get(2)?, row.get(3)?);
        Ok(format!("group {group:?} of run r{run} counts {counted} dead items, and there are {there}"))
    })?;
    Ok(words.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::MIGRATIONS;
    use crate::open;

    #[test]
    fn a_group_that_is_counted_wrong_is_named() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        assert_eq!(miscounted(&conn).unwrap(), Vec::<String>::new());
        conn.execute("INSERT INTO dead_group VALUES ('g', 1, 0, 0, 0, 3, 10, 20, 0)", []).unwrap();
        assert_eq!(
            miscounted(&conn).unwrap(),
            ["group \"g\" of run r1 counts 3 dead items, and there are 0"]
        );
    }

    #[test]
    fn the_last_that_leaves_takes_its_group_along_and_one_at_the_edge_makes_its_times_doubtful() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        let key = Key { group: "g".to_owned(), run: 1, stage: 0, class: 0, reason: 0 };
        let rows = || {
            let mut select = conn.prepare("SELECT n, first_at, last_at, stale FROM dead_group").unwrap();
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
            rows.unwrap().collect::<rusqlite::Result<Vec<(i64, i64, i64, i64)>>>().unwrap()
        };
        let mut groups = Groups::default();
        [10, 20, 30].into_iter().for_each(|at| count(&mut groups.came, key.clone(), at));
        groups.finish(&conn).unwrap();
        let gone = |at: &[i64]| {
            let mut groups = Groups::default();
            at.iter().for_each(|at| count(&mut groups.went, key.clone(), *at));
            groups.finish(&conn).unwrap();
        };
        gone(&[20]);
        assert_eq!(rows(), [(2, 10, 30, 0)]);
        gone(&[30]);
        assert_eq!(rows(), [(1, 10, 30, 1)]);
        gone(&[10]);
        assert_eq!(rows(), []);
    }
}
