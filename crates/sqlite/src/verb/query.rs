//! Items by filter. Every value is a bound parameter; only state codes, which are ours, are written into the text,
//! because SQLite uses a partial index only when it can see them.

use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_core::time::Timestamp;
use redrive_store::{ChangeQuery, Error, Group, ItemFilter, ItemQuery};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::Result;
use crate::row::{self, item_columns, limit as sql_limit};
use crate::verb::item::{collect, one};
use crate::verb::{counter, group};

/// Reads a page of items.
pub(crate) fn items(conn: &Connection, query: &ItemQuery) -> Result<Vec<Item>> {
    let (sql, values) = page(query)?;
    let mut select = conn.prepare_cached(&sql)?;
    collect(select.query(params_from_iter(values))?, row::item)
}

fn page(query: &ItemQuery) -> Result<(String, Vec<Value>)> {
    let mut filter = Conditions::of(&query.filter)?;
    if let Some(after) = query.after {
        filter.add("seq > ?", [Value::from(after.0)]);
    }
    let wanted = filter.text();
    filter.values.push(Value::from(sql_limit(query.limit)));
    let index = index(&query.filter, dead(&query.filter));
    let sql =
        format!(concat!("SELECT ", item_columns!(), " FROM item {} {} ORDER BY seq LIMIT ?"), index, wanted);
    Ok((sql, filter.values))
}

/// Reads a page of items by when they changed last.
pub(crate) fn items_by_change(conn: &Connection, query: &ChangeQuery) -> Result<Vec<Item>> {
    let index = change_index(conn, &query.filter)?;
    let (sql, values) = by_change(query, index)?;
    let mut select = conn.prepare_cached(&sql)?;
    collect(select.query(params_from_iter(values))?, row::item)
}

/// The statement for it. Which items are on the page is found along the index; only these are then looked at.
fn by_change(query: &ChangeQuery, index: &str) -> Result<(String, Vec<Value>)> {
    let mut filter = Conditions::of(&query.filter)?;
    let (beyond, way) = if query.newest_first { ("<", "DESC") } else { (">", "ASC") };
    if let Some((at, ItemSeq(seq))) = query.after {
        filter.add(&format!("(updated_at, seq) {beyond} (?, ?)"), [Value::from(at.0), Value::from(seq)]);
    }
    let wanted = filter.text();
    filter.values.push(Value::from(sql_limit(query.limit)));
    let sql = format!(
        concat!(
            "SELECT ",
            item_columns!(),
            " FROM item WHERE seq IN (SELECT seq FROM item {} {} ORDER BY updated_at {}, seq {} LIMIT ?) ",
            "ORDER BY updated_at {}, seq {}"
        ),
        index, wanted, way, way, way, way
    );
    Ok((sql, filter.values))
}

/// The index to read along by when items changed. Dead ones have one in that order; where a run or a group has few of all
/// dead items, those are sorted instead.
fn change_index(conn: &Connection, filter: &ItemFilter) -> Result<&'static str> {
    if !dead(filter) || filter.ids.is_some() || filter.parent.is_some() {
        return Ok(index(filter, dead(filter)));
    }
    let is_small = match (&filter.group, filter.run) {
        (Some(name), _) => group::has_at_most(conn, name, SORTED)?,
        (None, Some(run)) => counter::in_state(conn, run, StateKind::Dead)? <= SORTED,
        (None, None) => false,
    };
    Ok(if is_small { index(filter, true) } else { "INDEXED BY item_dead_when" })
}

/// Whether only dead items can be meant.
fn dead(filter: &ItemFilter) -> bool {
    filter.reason.is_some() || filter.state == Some(StateKind::Dead)
}

/// The index to read along, where SQLite by itself would read along a larger one.
fn index(filter: &ItemFilter, dead: bool) -> &'static str {
    if filter.ids.is_some() || filter.parent.is_some() {
        return "";
    }
    match (dead, filter.run, &filter.group, filter.state) {
        (true, _, Some(_), _) => "INDEXED BY item_dead_group",
        (true, Some(_), None, _) => "INDEXED BY item_dead",
        (true, None, None, _) => "INDEXED BY item_dead_any",
        (false, Some(_), ..) if filter.verdict.is_some() => "INDEXED BY item_verdict",
        (false, Some(_), _, Some(StateKind::Joining)) => "INDEXED BY item_joining",
        (false, ..) => "",
    }
}

/// So many dead items are sorted in next to no time.
const SORTED: u64 = 2_000;
/// Runs with no more dead items than this are grouped along their own index, with a look at each item.
const FEW: u64 = 20_000;

/// The index to group along: the one that has all that is asked for, unless a run has few of all dead items.
fn group_index(conn: &Connection, filter: &ItemFilter) -> Result<&'static str> {
    let covered = filter.text.is_none()
        && filter.key.is_none()
        && filter.ids.is_none()
        && filter.parent.is_none()
        && filter.unseen.is_none()
        && !filter.top
        && !filter.failed;
    let few = match filter.run {
        Some(run) => counter::in_state(conn, run, StateKind::Dead)? <= FEW,
        None => false,
    };
    Ok(if covered && !few { "INDEXED BY item_dead_group" } else { index(filter, true) })
}

/// The statement that counts groups. Those without a name are one, whether they have none or an empty one.
fn counted(filter: &ItemFilter, index: &str) -> Result<(String, Vec<Value>)> {
    let mut conditions = Conditions::of(filter)?;
    conditions.parts.push(format!("state = {}", StateKind::Dead.code()));
    let sql = format!(
        "SELECT coalesce(grp, '') AS name, sum(n) AS n, min(least), min(first), max(last) FROM (
             SELECT grp, count(*) AS n, min(seq) AS least, min(updated_at) AS first, max(updated_at) AS last
             FROM item {index} {} GROUP BY grp)
         GROUP BY name ORDER BY n DESC, name LIMIT ?",
        conditions.text()
    );
    Ok((sql, conditions.values))
}

/// Reads the largest groups of dead items.
pub(crate) fn groups(conn: &Connection, filter: &ItemFilter, limit: usize) -> Result<Vec<Group>> {
    if let Some(counted) = group::largest(conn, filter, limit)? {
        return Ok(counted);
    }
    let (sql, mut values) = counted(filter, group_index(conn, filter)?)?;
    values.push(Value::from(sql_limit(limit)));
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let example = ItemSeq(row.get(2)?);
        let gone = || Error::Corrupt(format!("item {} is in an index only", example.0));
        let example = one(conn, example)?.ok_or_else(gone)?;
        let last = example.last.as_ref();
        groups.push(Group {
            group: row.get(0)?,
            items: row.get::<_, i64>(1)?.cast_unsigned(),
            run: example.run,
            stage: example.stage,
            class: last.map(|last| last.class),
            message: last.map(|last| last.message.to_string()).unwrap_or_default(),
            example: example.id,
            first_at: Timestamp(row.get(3)?),
            last_at: Timestamp(row.get(4)?),
        });
    }
    Ok(groups)
}

/// Conditions, and the values for their question marks.
#[derive(Default)]
pub(super) struct Conditions {
    parts: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    /// The same as [`ItemFilter::matches`], in SQL.
    pub(super) fn of(filter: &ItemFilter) -> Result<Self> {
        let mut all = Self::default();
        let blob = |id: ItemId| Value::Blob(id.0.to_vec());
        let time = |at: Timestamp| Value::from(at.0);
        let text = |text: &str| Value::Text(text.to_owned());
        if let Some(RunId(run)) = filter.run {
            all.add("run = ?", [Value::from(run)]);
        }
        if let Some(state) = filter.state {
            all.parts.push(format!("state = {}", state.code()));
        }
        if !filter.stages.is_empty() {
            all.add("stage IN (SELECT value FROM json_each(?))", [Value::Text(json(&filter.stages)?)]);
        }
        if let Some(ItemSeq(parent)) = filter.parent {
            all.add("parent = ?", [Value::from(parent)]);
        }
        if filter.top {
            all.add("parent IS NULL", []);
        }
        if let Some(class) = filter.class {
            all.add("class = ?", [Value::from(class as i64)]);
        }
        if let Some(reason) = filter.reason {
            all.parts.push(format!("state = {}", StateKind::Dead.code()));
            all.add("dead_reason = ?", [Value::from(reason as i64)]);
        }
        if let Some(group) = &filter.group {
            all.add("grp = ?", [text(group)]);
        }
        if let Some(part) = &filter.text {
            // Not LIKE, which has wildcards and folds case.
            all.add("(instr(key, ?) > 0 OR instr(message, ?) > 0)", [text(part), text(part)]);
        }
        if let Some(since) = filter.since {
            all.add("updated_at >= ?", [time(since)]);
        }
        if let Some(until) = filter.until {
            all.add("updated_at < ?", [time(until)]);
        }
        if let Some((low, high)) = filter.ids {
            all.add("id BETWEEN ? AND ?", [blob(low), blob(high)]);
        }
        if let Some(key) = &filter.key {
            all.add("key = ?", [text(key)]);
        }
        if let Some(reading) = filter.unseen {
            all.add("state NOT IN (5, 6)", []);
            all.add(
                "reading <> ? AND origin >= ?",
                [Value::from(reading.number), Value::from(reading.agreed.cast_signed())],
            );
        }
        if let Some(verdict) = filter.verdict {
            all.add("verdict = ?", [Value::from(verdict.code())]);
        }
        if filter.failed {
            all.add("(failures + crashes > 0 OR state = 7)", []);
        }
        Ok(all)
    }

    pub(super) fn add<const N: usize>(&mut self, part: &str, values: [Value; N]) {
        self.parts.push(part.to_owned());
        self.values.extend(values);
    }

    pub(super) fn text(&self) -> String {
        if self.parts.is_empty() { String::new() } else { format!("WHERE {}", self.parts.join(" AND ")) }
    }
}

fn json(stages: &[StageNo]) -> Result<String> {
    serde_json::to_string(stages)
        .map_err(|error| Error::Internal(format!("a list of stages: {error}")).into())
}

#[cfg(test)]
mod tests {
    use redrive_core::item::DeadReason;
    use redrive_core::verdict::Verdict;

    use super::*;
    use crate::migrate::MIGRATIONS;
    use crate::open;

    /// What SQLite would do for a statement, with the instructions of its program.
    fn explained(conn: &Connection, how: &str, sql: &str, values: &[Value], column: usize) -> Vec<String> {
        let mut explain = conn.prepare(&format!("{how} {sql}")).unwrap();
        let rows = explain.query_map(params_from_iter(values), |row| row.get(column)).unwrap();
        rows.map(std::result::Result::unwrap).collect()
    }

    #[test]
    fn groups_are_counted_without_a_look_at_the_items() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        let filter = ItemFilter {
            run: Some(RunId(1)),
            stages: vec![StageNo(0)],
            class: Some(redrive_core::failure::Class::Final),
            reason: Some(DeadReason::Final),
            since: Some(Timestamp(1)),
            ..ItemFilter::default()
        };
        for filter in [ItemFilter::default(), filter] {
            let (sql, mut values) = counted(&filter, "INDEXED BY item_dead_group").unwrap();
            values.push(Value::from(9));
            let plan = explained(&conn, "EXPLAIN QUERY PLAN", &sql, &values, 3).join("; ");
            assert!(plan.contains("item_dead_group"), "{plan}");
            let program = explained(&conn, "EXPLAIN", &sql, &values, 1);
            let looks = |step: &String| matches!(step.as_str(), "SeekRowid" | "FinishSeek" | "NotExists");
            assert!(!program.iter().any(looks), "{program:?}");
        }
        // One that has to look at the items, and one of a run that has next to no dead items, go by other indexes.
        let text = ItemFilter { text: Some("x".to_owned()), ..ItemFilter::default() };
        assert_eq!(group_index(&conn, &text).unwrap(), "INDEXED BY item_dead_any");
        let run = ItemFilter { run: Some(RunId(1)), ..ItemFilter::default() };
        assert_eq!(group_index(&conn, &run).unwrap(), "INDEXED BY item_dead");
    }

    #[test]
    fn a_page_is_read_along_an_index_and_never_sorted() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        let none = ItemFilter::default;
        let run = Some(RunId(1));
        let mut filters = vec![
            (none(), "SEARCH item USING INTEGER PRIMARY KEY"),
            (ItemFilter { run, ..none() }, "item_run"),
            (ItemFilter { run, reason: Some(DeadReason::Final), ..none() }, "item_dead "),
            (ItemFilter { state: Some(StateKind::Dead), ..none() }, "item_dead_any"),
            (
                ItemFilter { reason: Some(DeadReason::Final), group: Some("g".to_owned()), ..none() },
                "item_dead_group",
            ),
            (ItemFilter { parent: Some(ItemSeq(1)), ..none() }, "item_child"),
            (ItemFilter { run, verdict: Some(Verdict::Failed), ..none() }, "item_verdict"),
        ];
        for state in StateKind::ALL {
            let index = match state {
                StateKind::Joining => "item_joining",
                StateKind::Dead => "item_dead ",
                _ => "item_run",
            };
            filters.push((ItemFilter { run, state: Some(state), ..none() }, index));
        }
        for (filter, index) in filters {
            let (sql, values) = page(&ItemQuery { filter, after: Some(ItemSeq(5)), limit: 9 }).unwrap();
            let plan = explained(&conn, "EXPLAIN QUERY PLAN", &sql, &values, 3).join("; ");
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }

    #[test]
    fn the_last_dead_items_are_found_without_a_look_at_others_and_never_sorted() {
        let conn = open::in_memory(MIGRATIONS).unwrap();
        let filter = ItemFilter {
            run: Some(RunId(1)),
            stages: vec![StageNo(0)],
            reason: Some(DeadReason::Final),
            group: Some("g".to_owned()),
            ..ItemFilter::default()
        };
        for filter in [ItemFilter { state: Some(StateKind::Dead), ..ItemFilter::default() }, filter] {
            let after = Some((Timestamp(5), ItemSeq(5)));
            let query = ChangeQuery { filter, newest_first: true, after, limit: 9 };
            let (sql, values) = by_change(&query, "INDEXED BY item_dead_when").unwrap();
            let plan = explained(&conn, "EXPLAIN QUERY PLAN", &sql, &values, 3).join("; ");
            assert!(plan.contains("COVERING INDEX item_dead_when"), "{plan}");
        }
        // Few are sorted: those of a run or a group that has next to none.
        let run =
            ItemFilter { run: Some(RunId(1)), reason: Some(DeadReason::Final), ..ItemFilter::default() };
        assert_eq!(change_index(&conn, &run).unwrap(), "INDEXED BY item_dead");
        let any = ItemFilter { reason: Some(DeadReason::Final), ..ItemFilter::default() };
        assert_eq!(change_index(&conn, &any).unwrap(), "INDEXED BY item_dead_when");
    }
}
