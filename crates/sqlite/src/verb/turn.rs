//! What a worker does at one go: commit, gates and claim in one transaction.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_store::{Change, Claim, Commit, Error, Turn, Turned};
use rusqlite::Connection;

use crate::error::{Fault, Result};
use crate::options::{FaultHook, INDEX_WRITE};
use crate::verb::{claim, commit, gate};

/// A turn on its way.
///
/// It is tried without savepoints, which would copy every page that it changes. When a part fails, the transaction is taken
/// back, and the turn is run once more with a savepoint around each part, so that the bad part fails alone.
pub(crate) struct Turning {
    turn: Turn,
    fails: FaultHook,
    carefully: AtomicBool,
}

impl Turning {
    pub(crate) fn new(turn: Turn, fails: FaultHook) -> Self {
        Self { turn, fails, carefully: AtomicBool::new(false) }
    }

    /// About how many rows it writes.
    pub(crate) fn rows(&self) -> usize {
        let Turn { commit, gates, claim } = &self.turn;
        commit.as_ref().map_or(0, rows_of_commit) + gates.len() + claim.as_ref().map_or(0, rows_of_claim)
    }

    /// Does the parts, in order.
    pub(crate) fn run(&self, tx: &Connection) -> Result<Turned> {
        let Turn { commit, gates, claim } = &self.turn;
        Ok(Turned {
            applied: self.part(tx, |tx| {
                commit
                    .as_ref()
                    .map_or_else(|| Ok(Vec::new()), |commit| commit_or_fail(tx, commit, self.fails))
            })?,
            gates: self.part(tx, |tx| gate::save(tx, gates))?,
            claimed: self.part(tx, |tx| {
                claim.as_ref().map_or_else(|| Ok(Default::default()), |claim| claim::claim(tx, claim))
            })?,
        })
    }

    fn part<T>(
        &self,
        tx: &Connection,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<redrive_store::Result<T>> {
        if !self.carefully.load(Ordering::Relaxed) {
            return work(tx).map(Ok).inspect_err(|_| self.carefully.store(true, Ordering::Relaxed));
        }
        tx.execute_batch("SAVEPOINT part")?;
        match work(tx) {
            Ok(made) => {
                tx.execute_batch("RELEASE part")?;
                Ok(Ok(made))
            }
            // Some faults end the whole transaction, and with it the parts before.
            Err(fault) if tx.is_autocommit() => Err(fault),
            Err(fault) => {
                tx.execute_batch("ROLLBACK TO part; RELEASE part")?;
                Ok(Err(fault.at(path(tx).as_ref())))
            }
        }
    }
}

/// The file that a connection writes.
fn path(tx: &Connection) -> &str {
    tx.path().filter(|path| !path.is_empty()).unwrap_or(":memory:")
}

/// Commits, unless a test makes a write into the index fail.
pub(crate) fn commit_or_fail(
    tx: &Connection,
    commit: &Commit,
    fails: FaultHook,
) -> Result<Vec<redrive_store::Applied>> {
    let applied = commit::commit(tx, commit)?;
    let indexes = commit.changes.iter().any(|change| change.transition.effect.is_some());
    if indexes && fails(INDEX_WRITE) {
        let error = Error::Unavailable("a write into the index was made to fail".to_owned());
        return Err(Fault::Store(error));
    }
    Ok(applied)
}

/// About how many rows a commit writes.
pub(crate) fn rows_of_commit(commit: &Commit) -> usize {
    let children =
        |change: &Change| change.transition.children.as_ref().map_or(0, |children| children.items.len());
    commit.changes.iter().map(|change| 1 + children(change)).sum()
}

/// About how many rows a claim writes.
pub(crate) fn rows_of_claim(claim: &Claim) -> usize {
    claim.slots.iter().map(|slot| slot.limit).fold(0, usize::saturating_add)
}
