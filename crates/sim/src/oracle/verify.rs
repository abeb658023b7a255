//! Reading back: the store holds what the model says, and the laws hold for it.

use std::time::Duration;

use redrive_core::attempt::AttemptRecord;
use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::State;
use redrive_core::laws::{Case, Census, Law, check_item, left_its_source};
use redrive_core::status::Control;
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::millis;
use redrive_store::{Content, ItemFilter, ItemQuery, Store, TombstoneQuery};

use super::{EVERY, Known, Oracle, Ruling, broken};
use crate::hub::at_once;

impl Oracle {
    /// Checks the touched items, those above and below them, and every counter; now and then everything.
    pub(super) fn verify(&mut self, store: &dyn Store, touched: &[ItemSeq]) -> Ruling {
        for seq in touched {
            let Some(known) = self.items.get(seq) else { continue };
            let kept = at_once(store.item(*seq)).ok().flatten();
            if kept.as_ref() != Some(&known.item) {
                return broken(
                    "L3",
                    format!("{} is {kept:?}, and was to be {:?}", known.item.key, known.item),
                );
            }
            self.laws(known, false)?;
            let around = known.item.parent.iter().chain(self.children.get(seq).into_iter().flatten());
            for near in around.filter_map(|seq| self.items.get(seq)) {
                self.laws(near, false)?;
            }
        }
        self.counters(store)?;
        self.writes += 1;
        if !self.writes.is_multiple_of(EVERY) {
            return Ok(());
        }
        self.told(store)?;
        self.whole(store, false)
    }

    /// Checks one item against the laws. Some may be broken for a moment, between two steps of one act.
    fn laws(&self, known: &Known, at_rest: bool) -> Ruling {
        let (low, high) = known.item.id.versions();
        let other = |(id, seq): (&ItemId, &ItemSeq)| {
            *id != known.item.id
                && self.items.get(seq).is_some_and(|other| {
                    !matches!(other.item.state, State::Superseded { .. }) || left_its_source(&other.marks)
                })
        };
        let case = Case {
            item: &known.item,
            attempts: &known.attempts,
            marks: &known.marks,
            plan: Some(&self.recipe.plan),
            children: self.tally(known.item.seq),
            // A successor that was purged was there all the same.
            has_successor: self.ids.range(low..=high).any(other) || self.was_purged(low, high),
        };
        let passing = |law: Law| match law {
            // A run is cancelled parents first, in several transactions.
            Law::L10 => self.control == Control::Cancelled,
            _ => false,
        };
        match check_item(&case).into_iter().find(|found| at_rest || !passing(found.law)) {
            Some(found) => broken(&found.law.to_string(), format!("{}: {}", known.item.key, found.what)),
            None => Ok(()),
        }
    }

    fn counters(&self, store: &dyn Store) -> Ruling {
        let kept = at_once(store.counters(self.run)).unwrap_or_default();
        let mine = |metric: &Metric| match metric {
            Metric::State(_)
            | Metric::DeadReason(_)
            | Metric::DeadClass(_)
            | Metric::Outcome(_)
            | Metric::Admitted
            | Metric::Verdict(_)
            | Metric::Died(_)
            | Metric::Awaited
            | Metric::Purged(_) => true,
            Metric::Forgotten(_)
            | Metric::Failure(..)
            | Metric::Status(_)
            | Metric::PassedAfter(_)
            | Metric::HealedWithin(_)
            | Metric::HealedIn(_)
            | Metric::HealMillis
            | Metric::TokensIn
            | Metric::TokensOut
            | Metric::NanoUsd
            | Metric::UnpricedTokens
            | Metric::DeadAfter(_)
            | Metric::OpenAfter(_)
            | Metric::FirstTry
            | Metric::FirstPass
            | Metric::TriedAnew
            | Metric::TookIn(_)
            | Metric::TookMillis => false,
        };
        let mut left = 0;
        for Counter { stage, metric, n } in kept.into_iter().filter(|kept| mine(&kept.metric) && kept.n != 0)
        {
            let counted = self.counts.get(&(stage, metric)).copied().unwrap_or(0);
            if counted != n {
                return broken("L1", format!("stage {}, {metric:?}: {n} kept, {counted} counted", stage.0));
            }
            left += 1;
        }
        let counted = self.counts.values().filter(|n| **n != 0).count();
        if counted != left {
            return broken("L1", format!("{left} counters kept, {counted} counted"));
        }
        Ok(())
    }

    /// L1: everything that was purged left its tombstone, and nothing else did.
    fn tombstones(&self, store: &dyn Store, census: &mut Census) -> Ruling {
        let query = TombstoneQuery { limit: 100_000, ..TombstoneQuery::default() };
        let kept = at_once(store.tombstones(query)).unwrap_or_default();
        let same = kept.len() == self.purged.len()
            && kept
                .iter()
                .zip(&self.purged)
                .all(|(kept, (seq, (id, was)))| (kept.seq, kept.id, kept.was) == (*seq, *id, Some(*was)));
        if !same {
            return broken("L1", format!("{} tombstones, and {} were purged", kept.len(), self.purged.len()));
        }
        kept.iter().for_each(|tombstone| census.observe_tombstone(tombstone.run, tombstone.was));
        Ok(())
    }

    /// Compares everything.
    pub(super) fn whole(&self, store: &dyn Store, at_rest: bool) -> Ruling {
        self.hub.score(|score| score.snapshots += 1);
        let query = ItemQuery { filter: ItemFilter::default(), after: None, limit: 100_000 };
        let all = at_once(store.items(query)).unwrap_or_default();
        if all.len() != self.items.len() {
            return broken("L1", format!("{} items kept, {} known", all.len(), self.items.len()));
        }
        let mut census = Census::default();
        self.tombstones(store, &mut census)?;
        for (item, known) in all.iter().zip(self.items.values()) {
            let history = at_once(store.history(item.seq)).unwrap_or_default();
            let same_attempts = history.attempts.len() == known.attempts.len()
                && history
                    .attempts
                    .iter()
                    .zip(&known.attempts)
                    .all(|(kept, known)| whole_ms(kept) == whole_ms(known));
            if *item != known.item || !same_attempts || history.marks != known.marks {
                let what =
                    format!("{} or its history is not as it was to be: {item:?} {history:?}", known.item.key);
                return broken("L3", what);
            }
            if at_once(store.payload(item.seq)).ok().flatten() != Some(Content::Whole(known.payload.clone()))
            {
                return broken("L5", format!("the content of {} is not as it was to be", known.item.key));
            }
            self.laws(known, at_rest)?;
            census.observe(item, &history.attempts);
        }
        let kept = at_once(store.counters(self.run)).unwrap_or_default();
        match census.compare(self.run, &kept).into_iter().next() {
            Some(found) => broken(&found.law.to_string(), found.what),
            None => Ok(()),
        }
    }
}

/// Stores keep waits in milliseconds.
fn whole_ms(row: &AttemptRecord) -> AttemptRecord {
    let wait = row.wait.map(|(wait, cause)| (Duration::from_millis(millis(wait).unsigned_abs()), cause));
    AttemptRecord { wait, ..row.clone() }
}
