//! The laws, looked at by and by: a daemon checks some items a minute and goes round all of them, so that a broken law is
//! known before somebody thinks of `redrive check`. What it found is kept in the store, for every daemon's metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::id::ItemSeq;
use redrive_core::laws::Law;
use redrive_core::time::millis;
use redrive_engine::report::audit_page;
use redrive_store::{Applied, Memo, RunRow, Store};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::Result;
use crate::memo;
use crate::pipelines::definition_of;

/// How often some items are looked at, by whichever daemon comes first.
pub const EVERY: Duration = Duration::from_secs(60);
/// So many of them.
const PAGE: usize = 2_000;
/// The memo of it.
const MEMO: &str = "audit";

/// How far the auditor is, and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The last item that was looked at in this round.
    pub after: Option<i64>,
    /// Violations of this round, by law.
    pub this_round: BTreeMap<String, u64>,
    /// Those of the round before.
    pub last_round: BTreeMap<String, u64>,
    /// Rounds that came to their end.
    pub rounds: u64,
    /// Items that were looked at, ever.
    pub items: u64,
    /// When it last looked, in milliseconds.
    pub looked_at: Option<i64>,
}

impl Record {
    /// How often a law is broken, as far as is known.
    #[must_use]
    pub fn broken(&self, law: Law) -> u64 {
        let of = |round: &BTreeMap<String, u64>| round.get(&law.to_string()).copied().unwrap_or(0);
        of(&self.this_round).max(of(&self.last_round))
    }
}

/// What is known.
///
/// # Errors
/// When the store fails, or a newer version wrote it.
pub async fn record(store: &dyn Store) -> Result<Record> {
    Ok(kept(store).await?.map(|memo| memo::read(&memo)).transpose()?.unwrap_or_default())
}

async fn kept(store: &dyn Store) -> Result<Option<Memo>> {
    Ok(store.memos(MEMO.to_owned()).await?.into_iter().find(|memo| memo.name == MEMO))
}

/// Looks at the next items, unless somebody did within a minute; what is known then, where it looked.
///
/// # Errors
/// When the store fails.
pub async fn look(floor: &Floor) -> Result<Option<Record>> {
    let (store, now) = (&*floor.store, floor.now());
    let known = kept(store).await?;
    let mut record: Record = known.as_ref().map(memo::read).transpose()?.unwrap_or_default();
    let recent = |at: i64| now.0.saturating_sub(at).saturating_abs() < millis(EVERY);
    if record.looked_at.is_some_and(recent) {
        return Ok(None);
    }
    let plan = |row: &RunRow| definition_of(row).map(|definition| definition.plan());
    let page = audit_page(store, record.after.map(ItemSeq), PAGE, plan, now).await?;
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for violation in &page.violations {
        tracing::error!(target: "redrive::audit", law = %violation.law, item = ?violation.item, what = %violation.what, "a law is broken");
        *found.entry(violation.law.to_string()).or_default() += 1;
    }
    for (law, n) in found {
        // What is wrong with counters is seen with every page; it is told once.
        let seen = record.this_round.entry(law).or_default();
        *seen = n.max(*seen);
    }
    record.items += page.items;
    record.looked_at = Some(now.0);
    record.after = page.last.map(|last| last.0);
    if page.last.is_none() {
        record.last_round = std::mem::take(&mut record.this_round);
        record.rounds += 1;
    }
    let (rev, state) = (known.map_or(0, |memo| memo.rev), memo::written(&record)?);
    let memo = Memo { name: MEMO.to_owned(), rev, state, updated_at: now };
    // Where somebody was faster, that is what is known.
    Ok((store.save_memo(memo).await? == Applied::Done).then_some(record))
}
