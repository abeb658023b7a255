//! Only a part of a source is admitted: its first new items, or those with certain keys.
//!
//! A reading that takes a part ends where that is reached, and says nothing of the rest: nothing is taken out because it
//! was not seen, and the next reading starts no later than where all before it was admitted.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::id::RunId;
use redrive_core::item::{NewItem, StateKind};
use redrive_core::reading::Reading;
use redrive_store::{ItemFilter, ItemQuery, Result, Store};

use super::foresee::{Foreseen, Foresight};
use crate::source::Piece;

/// Most keys that are named because they are like one that was asked for.
const MOST_NEAR: usize = 5;

/// Which part of a source is admitted, and how far that is. It is of one command, over all its readings.
#[derive(Debug, Default)]
pub struct Part {
    limit: Option<u64>,
    only: BTreeSet<String>,
    so_far: Mutex<SoFar>,
}

#[derive(Debug, Default)]
struct SoFar {
    admitted: u64,
    found: BTreeSet<String>,
    near: BTreeSet<String>,
}

/// What of a piece is admitted.
#[derive(Debug, PartialEq)]
pub(super) struct Cut {
    /// These items.
    pub(super) items: Vec<NewItem>,
    /// Whether everything that the piece has is among them.
    pub(super) whole: bool,
    /// Whether no more is to be read.
    pub(super) over: bool,
}

/// What of a piece would be taken.
#[derive(Debug, PartialEq)]
pub struct Ahead {
    /// These lines, and what would become of each.
    pub lines: Vec<(NewItem, Foreseen)>,
    /// Whether everything that the piece has is among them.
    pub whole: bool,
    /// Whether no more would be read.
    pub over: bool,
}

impl Part {
    /// At most so many items that are new or changed, of those with these keys; no keys: of all.
    #[must_use]
    pub fn new(limit: Option<u64>, only: BTreeSet<String>) -> Self {
        Self { limit, only, so_far: Mutex::default() }
    }

    /// Whether items with certain keys are wanted, wherever in the source they are.
    #[must_use]
    pub fn picks(&self) -> bool {
        !self.only.is_empty()
    }

    /// Whether it is all of the source.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.limit.is_none() && !self.picks()
    }

    /// What is left of a piece.
    pub(super) async fn cut(
        &self,
        store: &dyn Store,
        run: RunId,
        reading: Reading,
        piece: &Piece,
    ) -> Result<Cut> {
        if self.limit.is_none() {
            let items = piece.items.iter().filter(|item| self.wants(&item.key)).cloned().collect();
            return Ok(Cut { items, whole: !self.picks(), over: false });
        }
        let mut foresight = Foresight::new(Some(run), reading);
        let Ahead { lines, whole, over } = self.ahead(store, &mut foresight, piece).await?;
        Ok(Cut { items: lines.into_iter().map(|(item, _)| item).collect(), whole, over })
    }

    /// What of a piece would be taken, and what would become of it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn ahead(&self, store: &dyn Store, foresight: &mut Foresight, piece: &Piece) -> Result<Ahead> {
        let before = self.lock().admitted;
        let (mut lines, mut admitted, mut over) = (Vec::new(), before, false);
        for item in piece.items.iter().filter(|item| self.wants(&item.key)) {
            let foreseen = foresight.of(store, item).await?;
            let counts = foreseen.is_admitted();
            over = counts && self.limit.is_some_and(|limit| admitted >= limit);
            if over {
                break;
            }
            admitted += u64::from(counts);
            lines.push((item.clone(), foreseen));
        }
        self.lock().admitted = admitted;
        let whole = !over && !self.picks();
        // Where the limit is reached with the last line of a piece, what comes after it need not be read for that.
        over |= self.limit.is_some_and(|limit| admitted >= limit) && !(whole && piece.done);
        Ok(Ahead { lines, whole, over })
    }

    fn wants(&self, key: &str) -> bool {
        if !self.picks() {
            return true;
        }
        let mut so_far = self.lock();
        if self.only.contains(key) {
            so_far.found.insert(key.to_owned());
            return true;
        }
        if so_far.near.len() < MOST_NEAR && self.only.iter().any(|asked| is_near(asked, key)) {
            so_far.near.insert(key.to_owned());
        }
        false
    }

    /// The keys that were asked for and are neither in what was read of the source nor in the run.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn missing(&self, store: &dyn Store, run: Option<RunId>) -> Result<Missing> {
        let (found, near) = {
            let so_far = self.lock();
            (so_far.found.clone(), so_far.near.iter().cloned().collect())
        };
        let mut keys = Vec::new();
        for key in self.only.difference(&found) {
            let filter = ItemFilter { run, top: true, key: Some(key.clone()), ..ItemFilter::default() };
            let query = ItemQuery { filter, after: None, limit: PAGE };
            let versions = if run.is_some() { store.items(query).await? } else { Vec::new() };
            if versions.iter().all(|item| item.state.kind() == StateKind::Superseded) {
                keys.push(key.clone());
            }
        }
        Ok(Missing { none: self.picks() && keys.len() == self.only.len(), keys, near })
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of one key that are looked at.
const PAGE: usize = 500;

/// Keys that were asked for and are not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// The keys.
    pub keys: Vec<String>,
    /// Whether none of those that were asked for is there.
    pub none: bool,
    /// Keys of the source that are like them.
    pub near: Vec<String>,
}

/// Whether a key may be what somebody meant: it differs in case or in what is around it only.
fn is_near(asked: &str, key: &str) -> bool {
    let (asked, key) = (asked.trim().to_lowercase(), key.trim().to_lowercase());
    asked == key || (asked.len() >= 3 && key.contains(&asked)) || (key.len() >= 3 && asked.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_near_that_differ_in_case_or_in_what_is_around_them() {
        assert!(is_near("k0001", "K0001"));
        assert!(is_near("0001", "k0001"));
        assert!(is_near(" k0001 ", "k0001"));
        assert!(!is_near("1", "k0001"));
        assert!(!is_near("k0002", "k0001"));
    }
}
