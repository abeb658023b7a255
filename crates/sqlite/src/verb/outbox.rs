//! Facts that are to be passed on.

use redrive_core::fact::{Fact, FactKind};
use redrive_core::id::{FactId, ItemId, RunId, StageNo, StoreId};
use redrive_core::time::Timestamp;
use redrive_store::{Error, KeptFact, OutboxView, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Result;
use crate::row::limit as sql_limit;
use crate::sequence::Sequence;
use crate::verb::item::collect;

/// Takes in what the world is told within one transaction, where facts are kept.
pub(crate) struct Outbox {
    /// Whether a relay has asked for facts. One by which an item is handed over is kept in any case: it is what the item waits for.
    keeps: bool,
    numbers: Sequence,
}

impl Outbox {
    /// Looks whether facts are kept. It is in the store, not with the process: one that did not know of the relay would else
    /// leave holes in what the world is told.
    pub(crate) fn of(tx: &Connection) -> Result<Self> {
        let mut select = tx.prepare_cached("SELECT 1 FROM outbox WHERE keeps")?;
        Ok(Self { keeps: select.exists([])?, numbers: Sequence::facts() })
    }

    /// Adds facts.
    pub(crate) fn tell(&mut self, tx: &Connection, facts: impl IntoIterator<Item = Fact>) -> Result<()> {
        for fact in facts {
            if self.keeps || fact.route.is_some() {
                add(tx, self.numbers.next(tx)?, &fact)?;
            }
        }
        Ok(())
    }

    /// Writes down how far the numbers got.
    pub(crate) fn finish(self, tx: &Connection) -> Result<()> {
        self.numbers.save(tx)
    }
}

/// Adds a few facts, where any are kept.
pub(crate) fn tell(tx: &Connection, facts: impl IntoIterator<Item = Fact>) -> Result<()> {
    let mut outbox = Outbox::of(tx)?;
    outbox.tell(tx, facts)?;
    outbox.finish(tx)
}

fn add(tx: &Connection, seq: i64, fact: &Fact) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO fact (seq, what, run, item, key, stage, generation, attempt, at, due, class, reason, route)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        seq,
        fact.kind.name(),
        fact.run.0,
        fact.item.map(|item| item.0),
        fact.key,
        fact.stage.map(|stage| stage.0),
        fact.generation,
        fact.attempt,
        fact.at.0,
        fact.due.map(|due| due.0),
        fact.class.map(|class| class as i64),
        fact.reason,
        fact.route,
    ])?;
    Ok(())
}

/// Has facts kept, and gives the store's name.
pub(crate) fn open(tx: &Connection, proposed: StoreId) -> Result<StoreId> {
    tx.prepare_cached(
        "INSERT INTO outbox (only, store, keeps) VALUES (1, ?1, 1) ON CONFLICT (only) DO UPDATE SET keeps = 1",
    )?
    .execute([proposed.0.cast_signed()])?;
    let name = tx.prepare_cached("SELECT store FROM outbox")?.query_row([], |row| row.get::<_, i64>(0))?;
    Ok(StoreId(name.cast_unsigned()))
}

/// Has no more facts kept.
pub(crate) fn close(tx: &Connection) -> Result<()> {
    tx.prepare_cached("UPDATE outbox SET keeps = 0")?.execute([])?;
    Ok(())
}

/// Reads the oldest facts.
pub(crate) fn oldest(conn: &Connection, limit: usize) -> Result<Vec<KeptFact>> {
    let mut select = conn.prepare_cached(
        "SELECT seq, what, run, item, key, stage, generation, attempt, at, due, class, reason, route
         FROM fact ORDER BY seq LIMIT ?1",
    )?;
    collect(select.query([sql_limit(limit)])?, read)
}

/// Says whether facts are kept, and what waits.
pub(crate) fn view(conn: &Connection, most: usize) -> Result<OutboxView> {
    let kept = conn.prepare_cached("SELECT 1 FROM outbox WHERE keeps")?.exists([])?;
    let mut count = conn.prepare_cached("SELECT count(*) FROM (SELECT 1 FROM fact LIMIT ?1)")?;
    let waiting: i64 = count.query_row([sql_limit(most)], |row| row.get(0))?;
    let mut oldest = conn.prepare_cached("SELECT at FROM fact ORDER BY seq LIMIT 1")?;
    let oldest = oldest.query_row([], |row| row.get(0)).optional()?.map(Timestamp);
    Ok(OutboxView { kept, waiting: waiting.cast_unsigned(), oldest })
}

fn read(row: &Row<'_>) -> Result<KeptFact> {
    let what: String = row.get(1)?;
    let unknown = || Error::Unreadable { what: "a fact".to_owned(), why: format!("it says {what:?}") };
    let fact = Fact {
        kind: FactKind::from_name(&what).ok_or_else(unknown)?,
        run: RunId(row.get(2)?),
        item: row.get::<_, Option<[u8; 16]>>(3)?.map(ItemId),
        key: row.get(4)?,
        stage: row.get::<_, Option<u16>>(5)?.map(StageNo),
        generation: row.get(6)?,
        attempt: row.get(7)?,
        at: Timestamp(row.get(8)?),
        due: row.get::<_, Option<i64>>(9)?.map(Timestamp),
        class: row.get::<_, Option<i64>>(10)?.map(sql::class).transpose()?,
        reason: row.get(11)?,
        token: None,
        route: row.get(12)?,
    };
    Ok(KeptFact { id: FactId(row.get(0)?), fact: fact.named() })
}

/// Forgets facts that have been passed on.
pub(crate) fn passed_on(tx: &Connection, facts: &[FactId]) -> Result<()> {
    let mut delete = tx.prepare_cached("DELETE FROM fact WHERE seq = ?1")?;
    for fact in facts {
        delete.execute([fact.0])?;
    }
    Ok(())
}
