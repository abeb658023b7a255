//! Leasing due items to a worker.

use redrive_core::id::ItemSeq;
use redrive_core::item::State;
use redrive_core::order::{Candidate, pick};
use redrive_core::tally::Deltas;
use redrive_core::time::Timestamp;
use redrive_store::{Claim, Claimed, ClaimedItem, Content, DamagedItem, Slot};
use rusqlite::{Connection, OptionalExtension};

use crate::content;
use crate::error::Result;
use crate::row::{self, ITEM_COLUMNS, item_columns, limit as sql_limit};
use crate::verb::line::{Line, awaited, fresh, retry};
use crate::verb::{counter, pause, run, worker};

/// Leases due items.
pub(crate) fn claim(tx: &Connection, claim: &Claim) -> Result<Claimed> {
    let mut claimed = Claimed::default();
    if claim.pauses != pause::rev(tx)? {
        return Ok(Claimed { unaware: true, ..claimed });
    }
    if !worker::holds(tx, claim.worker, claim.now)? {
        return Ok(claimed);
    }
    let mut deltas = Deltas::default();
    for slot in &claim.slots {
        let Some(edition) = run::goes_on(tx, slot.run)? else { continue };
        if edition != slot.edition {
            claimed.outdated = true;
            continue;
        }
        let (fresh, retry) = (head(tx, slot, Line::Fresh, claim.now)?, retries(tx, slot, claim.now)?);
        let (later, [fresh, retry]) = ([fresh.later, retry.later], [fresh, retry].map(Head::candidates));
        let (from_fresh, from_retry) = pick(slot.order, slot.reserved, slot.limit, &fresh, &retry);
        let mut chosen: Vec<ItemSeq> =
            fresh[..from_fresh].iter().chain(&retry[..from_retry]).map(|candidate| candidate.seq).collect();
        chosen.sort_unstable();
        take(tx, claim, &chosen, &mut claimed)?;
        deltas.claimed(slot.run, slot.stage, sql_limit(chosen.len()));
        for later in later {
            claimed.next_due = claimed.next_due.into_iter().chain(later).min();
        }
    }
    counter::add(tx, &deltas)?;
    Ok(claimed)
}

/// The head of a lane.
struct Head {
    /// Due items in the order of their due times.
    due: Vec<(Timestamp, Candidate)>,
    /// When the first of the others will be due.
    later: Option<Timestamp>,
}

impl Head {
    fn candidates(self) -> Vec<Candidate> {
        self.due.into_iter().map(|(_, candidate)| candidate).collect()
    }
}

/// What was tried before, and what waits for an answer that is to be asked for or has not come, in one line.
fn retries(tx: &Connection, slot: &Slot, now: Timestamp) -> Result<Head> {
    let (mut tried, mut awaited) = (head(tx, slot, Line::Retry, now)?, head(tx, slot, Line::Awaited, now)?);
    if !awaited.due.is_empty() {
        tried.due.append(&mut awaited.due);
        tried.due.sort_unstable_by_key(|(due, candidate)| (*due, candidate.seq));
        tried.due.truncate(slot.limit);
    }
    tried.later = tried.later.into_iter().chain(awaited.later).min();
    Ok(tried)
}

fn head(tx: &Connection, slot: &Slot, line: Line, now: Timestamp) -> Result<Head> {
    let mut select = tx.prepare_cached(match line {
        Line::Fresh => {
            concat!("SELECT seq, created_at, due FROM item ", fresh!(), " ORDER BY due, seq LIMIT ?3")
        }
        Line::Retry => {
            concat!("SELECT seq, created_at, due FROM item ", retry!(), " ORDER BY due, seq LIMIT ?3")
        }
        Line::Awaited => {
            concat!("SELECT seq, created_at, due FROM item ", awaited!(), " ORDER BY due, seq LIMIT ?3")
        }
    })?;
    let most = slot.limit.saturating_add(1);
    let mut rows = select.query((slot.run.0, slot.stage.0, sql_limit(most)))?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        let at = Timestamp(row.get(2)?);
        if at > now {
            return Ok(Head { due, later: Some(at) });
        }
        due.push((at, Candidate { seq: ItemSeq(row.get(0)?), created_at: Timestamp(row.get(1)?) }));
    }
    // One more than is wanted is due: what is not comes behind all of those.
    let later = if due.len() == most { due_later(tx, slot, line, now)? } else { None };
    due.truncate(slot.limit);
    Ok(Head { due, later })
}

/// When the first item of a lane that is not due yet will be.
fn due_later(tx: &Connection, slot: &Slot, line: Line, now: Timestamp) -> Result<Option<Timestamp>> {
    let mut select = tx.prepare_cached(match line {
        Line::Fresh => concat!("SELECT due FROM item ", fresh!(), " AND due > ?3 ORDER BY due LIMIT 1"),
        Line::Retry => concat!("SELECT due FROM item ", retry!(), " AND due > ?3 ORDER BY due LIMIT 1"),
        Line::Awaited => concat!("SELECT due FROM item ", awaited!(), " AND due > ?3 ORDER BY due LIMIT 1"),
    })?;
    let first = select.query_row((slot.run.0, slot.stage.0, now.0), |row| row.get(0)).optional()?;
    Ok(first.map(Timestamp))
}

/// Makes the chosen items running: what `decide` says of [`Claimed`](redrive_core::event::Event::Claimed), in SQL,
/// because a claim is the one transition that a store has to make while it looks. The conformance suite compares.
fn take(tx: &Connection, claim: &Claim, chosen: &[ItemSeq], claimed: &mut Claimed) -> Result<()> {
    let mut select = tx.prepare_cached(concat!(
        "SELECT ",
        item_columns!(),
        ", payload, content, payload_sum FROM item WHERE seq = ?1"
    ))?;
    let mut update = tx.prepare_cached(
        "UPDATE item SET state = 1, lane = 1, due = NULL, cause = NULL, worker = ?2, since = ?3, rev = ?4,
                attempt = ?5, updated_at = ?3
         WHERE seq = ?1",
    )?;
    claimed.items.reserve(chosen.len());
    for seq in chosen {
        let mut rows = select.query([seq.0])?;
        let Some(found) = rows.next()? else { continue };
        let mut item = row::item(found)?;
        let content = content::read(tx, found, ITEM_COLUMNS)?;
        drop(rows);
        item.state = State::Running { worker: claim.worker, since: claim.now };
        item.rev = item.rev.next();
        // Who looks after an answer goes on with the attempt that it is awaited for.
        item.attempt = item.attempt.saturating_add(u32::from(item.handed.is_none()));
        item.updated_at = claim.now;
        update.execute((seq.0, claim.worker.0, claim.now.0, item.rev.0, item.attempt))?;
        match content {
            Content::Whole(payload) => claimed.items.push(ClaimedItem { item, payload }),
            Content::Damaged(what) => claimed.damaged.push(DamagedItem { item, what }),
        }
    }
    Ok(())
}
