//! One relay at a time passes on what a store has to tell.

use std::time::Duration;

use redrive_core::time::{Timestamp, millis};
use redrive_store::{Applied, Memo};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::Result;
use crate::memo;

/// The memo that says whose turn it is.
const MEMO: &str = "relay";
/// How long it is somebody's turn without a sign of life.
const LEASE: Duration = Duration::from_secs(30);
/// How often a sign of life is given.
const RENEW: Duration = Duration::from_secs(5);

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    /// A name that no other relay has.
    who: String,
    /// The process, by which others of the machine know that it is gone.
    process: String,
    /// Until when.
    until: i64,
}

/// The turn of one relay.
pub(super) struct Turn {
    who: String,
    /// When the last sign of life was given, by the uptime.
    renewed: Option<Duration>,
}

impl Turn {
    pub(super) fn new(who: String) -> Self {
        Self { who, renewed: None }
    }

    /// Takes the turn, or keeps it; `false` while it is somebody else's.
    pub(super) async fn take(&mut self, floor: &Floor) -> Result<bool> {
        let uptime = floor.env.clock.uptime();
        if self.renewed.is_some_and(|at| uptime.saturating_sub(at) < RENEW) {
            return Ok(true);
        }
        self.renewed = None;
        let now = floor.now();
        let found = find(floor).await?;
        let kept = found.as_ref().map(memo::read::<Holder>).transpose()?;
        if kept.is_some_and(|holder| self.is_elsewhere(floor, &holder, now)) {
            return Ok(false);
        }
        let process = floor.env.processes.identity();
        let until = now.0.saturating_add(millis(LEASE));
        let rev = found.map_or(0, |memo| memo.rev);
        if !save(floor, rev, &Holder { who: self.who.clone(), process, until }).await? {
            return Ok(false);
        }
        self.renewed = Some(uptime);
        Ok(true)
    }

    /// Lets the next one have it at once.
    pub(super) async fn give_back(&mut self, floor: &Floor) -> Result<()> {
        if self.renewed.take().is_none() {
            return Ok(());
        }
        let Some(found) = find(floor).await? else { return Ok(()) };
        let holder: Holder = memo::read(&found)?;
        if holder.who == self.who {
            save(floor, found.rev, &Holder { until: 0, ..holder }).await?;
        }
        Ok(())
    }

    fn is_elsewhere(&self, floor: &Floor, holder: &Holder, now: Timestamp) -> bool {
        holder.who != self.who && holder.until > now.0 && !floor.env.processes.is_gone(&holder.process)
    }
}

/// Whether it is the turn of somebody who lives.
pub(super) async fn is_taken(floor: &Floor) -> Result<bool> {
    let Some(found) = find(floor).await? else { return Ok(false) };
    let holder: Holder = memo::read(&found)?;
    Ok(holder.until > floor.now().0 && !floor.env.processes.is_gone(&holder.process))
}

async fn find(floor: &Floor) -> Result<Option<Memo>> {
    let memos = floor.store.memos(MEMO.to_owned()).await?;
    Ok(memos.into_iter().find(|memo| memo.name == MEMO))
}

async fn save(floor: &Floor, rev: i64, holder: &Holder) -> Result<bool> {
    let memo = Memo { name: MEMO.to_owned(), rev, state: memo::written(holder)?, updated_at: floor.now() };
    Ok(floor.store.save_memo(memo).await? == Applied::Done)
}
