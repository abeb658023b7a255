//! Reading everything through once: the file, by SQLite's own check, and every content, against its hash.

use std::collections::BTreeSet;

use redrive_core::attempt::Outcome;
use redrive_core::id::{ContentHash, ItemId, ItemSeq};
use redrive_store::{Content, Damage};
use rusqlite::{Connection, Row};

use crate::content;
use crate::error::Result;
use crate::verb::group;

/// Rows that are asked for at a time.
const PAGE: i64 = 500;

/// Names what is not as it was written, at most so many.
pub(crate) fn all(conn: &Connection, limit: usize) -> Result<Vec<Damage>> {
    let mut found = Found { damages: Vec::new(), limit };
    found.or_end(file(conn, limit))?.into_iter().for_each(|what| found.add(None, what));
    found.or_end(group::miscounted(conn))?.into_iter().for_each(|what| found.add(None, what));
    let looked = contents(conn).and_then(|bad| {
        items(conn, &bad, &mut found)?;
        outputs(conn, &bad, &mut found)
    });
    found.or_end(looked)?;
    Ok(found.damages)
}

struct Found {
    damages: Vec<Damage>,
    limit: usize,
}

impl Found {
    fn add(&mut self, item: Option<(ItemId, String)>, what: String) {
        if self.damages.len() < self.limit {
            let (item, key) = item.unzip();
            self.damages.push(Damage { item, key, what });
        }
    }

    /// What cannot be read because the file is damaged ends the look, and is itself what was looked for.
    fn or_end<T: Default>(&mut self, looked: Result<T>) -> Result<T> {
        match looked {
            Err(fault) if fault.is_damage() => {
                self.add(None, fault.words());
                Ok(T::default())
            }
            looked => looked,
        }
    }
}

/// SQLite's own look at pages, cells, indexes and constraints. It knows nothing of what is in a value.
fn file(conn: &Connection, limit: usize) -> Result<Vec<String>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut check = conn.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Compares the large contents with their hashes; returns those that differ. It is no damage where nobody has them any more.
fn contents(conn: &Connection) -> Result<BTreeSet<ContentHash>> {
    let mut page =
        conn.prepare("SELECT rowid, hash FROM content WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?;
    let mut bad = BTreeSet::new();
    let mut after = i64::MIN;
    loop {
        let read = |row: &Row<'_>| Ok((row.get(0)?, ContentHash(row.get(1)?)));
        let hashes: Vec<(i64, ContentHash)> =
            page.query_map((after, PAGE), read)?.collect::<rusqlite::Result<_>>()?;
        let Some((last, _)) = hashes.last() else { break };
        after = *last;
        for (_, hash) in hashes {
            if let Content::Damaged(_) = content::of_hash(conn, hash)? {
                bad.insert(hash);
            }
        }
    }
    Ok(bad)
}

/// What is wrong with the content of a row, if anything is. Large contents have been compared already.
fn judge(
    conn: &Connection,
    row: &Row<'_>,
    column: usize,
    bad: &BTreeSet<ContentHash>,
) -> Result<Option<String>> {
    if let Some(hash) = row.get::<_, Option<[u8; 16]>>(column + 1)?.map(ContentHash) {
        let there = || -> Result<bool> {
            Ok(conn.prepare_cached("SELECT 1 FROM content WHERE hash = ?1")?.exists([&hash.0])?)
        };
        let whole = !bad.contains(&hash) && there()?;
        return Ok(if whole { None } else { damage_of(content::of_hash(conn, hash)?) });
    }
    Ok(damage_of(content::read(conn, row, column)?))
}

fn damage_of(content: Content) -> Option<String> {
    match content {
        Content::Whole(_) => None,
        Content::Damaged(what) => Some(what),
    }
}

fn items(conn: &Connection, bad: &BTreeSet<ContentHash>, found: &mut Found) -> Result<()> {
    let mut select = conn.prepare("SELECT seq, id, key, version, payload, content, payload_sum FROM item")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let what = match judge(conn, row, 4, bad)? {
            None => without_sum(conn, row)?,
            what => what,
        };
        if let Some(what) = what {
            let item = (ItemId(row.get(1)?), row.get(2)?);
            found.add(Some(item), format!("its content is damaged: {what}"));
        }
    }
    Ok(())
}

/// A content in the row from before there were sums: what an item was submitted with has the hash that the item is known
/// by, and what a stage made of it is JSON.
fn without_sum(conn: &Connection, row: &Row<'_>) -> Result<Option<String>> {
    let (payload, sum): (Option<Vec<u8>>, Option<i64>) = (row.get(4)?, row.get(6)?);
    let Some(payload) = payload.filter(|_| sum.is_none()) else { return Ok(None) };
    let version = ContentHash(row.get(3)?);
    if ContentHash::of(&[&payload]) == version {
        return Ok(None);
    }
    if is_first(conn, ItemSeq(row.get(0)?))? {
        return Ok(Some("it is not what was submitted".to_owned()));
    }
    Ok(not_json(&payload))
}

/// Whether an item has the content it was submitted with: no stage gave it another, and nobody edited it.
fn is_first(conn: &Connection, seq: ItemSeq) -> Result<bool> {
    let mut passed = conn.prepare_cached("SELECT outcome FROM attempt WHERE item = ?1")?;
    let outcomes = passed.query_map([seq.0], |row| row.get::<_, u8>(0))?;
    for outcome in outcomes {
        if Outcome::from_code(outcome?).is_none_or(Outcome::is_pass) {
            return Ok(false);
        }
    }
    let mut edited =
        conn.prepare_cached("SELECT 1 FROM mark WHERE item = ?1 AND what IN ('redriven', 'edited')")?;
    Ok(!edited.exists([seq.0])?)
}

fn not_json(payload: &[u8]) -> Option<String> {
    let error = serde_json::from_slice::<&serde_json::value::RawValue>(payload).err()?;
    Some(format!("it is no longer JSON: {error}"))
}

fn outputs(conn: &Connection, bad: &BTreeSet<ContentHash>, found: &mut Found) -> Result<()> {
    let mut select = conn.prepare("SELECT config, input, payload, content, payload_sum FROM output")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(what) = judge(conn, row, 2, bad)? {
            let (config, input): (i64, [u8; 16]) = (row.get(0)?, row.get(1)?);
            let input = ContentHash(input);
            found.add(None, format!("the kept output {config:016x} of {input} is damaged: {what}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Fault;

    #[test]
    fn what_is_no_json_is_told() {
        assert_eq!(not_json(b"{\"n\":1}"), None);
        assert!(not_json(b"{\"n\":\xff1}").is_some());
        assert!(not_json(b"").is_some());
    }

    #[test]
    fn damage_ends_the_look_and_is_told_and_other_faults_are_faults() {
        let mut found = Found { damages: Vec::new(), limit: 9 };
        let corrupt = Fault::Store(redrive_store::Error::Corrupt("a page".to_owned()));
        assert!(found.or_end::<()>(Err(corrupt)).is_ok());
        assert_eq!(found.damages.len(), 1);
        let busy = Fault::Store(redrive_store::Error::Busy("somebody".to_owned()));
        assert!(found.or_end::<()>(Err(busy)).is_err());
    }
}
