//! What a service said to an item that it turned away: that item does not come back before.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::attempt::Outcome;
use redrive_core::failure::{Class, Failure};
use redrive_core::id::{ItemId, StageNo};
use redrive_core::policy::Policy;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Reply};

use super::{Oracle, Ruling, broken};
use crate::met::Met;

/// Who asks for as long means everybody.
const LONG_HINT: Duration = Duration::from_secs(30);

/// Until when items are to leave their service alone.
pub(super) type Hints = BTreeMap<(ItemId, StageNo), Told>;

/// What an item was told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// Until when, by the clock of the worker that heard it, and how far that was off.
    until: Timestamp,
    off: i64,
    /// In which attempt: one who dies before it is recorded takes it along.
    attempt: u32,
}

impl Oracle {
    /// An answer reaches a worker that asked for these items.
    pub fn on_hints(&mut self, stage: StageNo, items: &[(ItemId, u32)], answer: &Answer, now: Timestamp) {
        let Some((.., spec)) = self.gate_at(stage) else { return };
        let hint = |policy: &Policy, failure: &Failure| {
            let failure = policy.reclassify(failure.clone());
            // Longer ones are kept by the gate.
            let own = |hint: &Duration| *hint <= spec.hint_cap && *hint < LONG_HINT;
            failure.hint.filter(|hint| failure.class == Class::RateLimited && own(hint))
        };
        let off = now.0 - self.hub.now();
        // One of a few items of a batch waits by its policy.
        let whole = match &answer.reply {
            Reply::Whole(failure) => Some(failure),
            Reply::Items(_) | Reply::Part { .. } => None,
        };
        for &(item, attempt) in items {
            let known = self.ids.get(&item).and_then(|seq| self.items.get(seq));
            let policy = known.and_then(|known| self.recipe.plan.policy_of(&known.item));
            match policy.zip(whole).and_then(|(policy, failure)| hint(policy, failure)) {
                Some(hint) => self.hints.insert((item, stage), Told { until: now.after(hint), off, attempt }),
                None => self.hints.remove(&(item, stage)),
            };
        }
    }

    /// An operator let gates go on, or made them forget: what was said before is void.
    pub(super) fn forget_hints(&mut self) {
        self.hints.clear();
    }

    /// A call for these items starts.
    ///
    /// # Errors
    /// When one of them was told to come later, by a clock that agrees with this one.
    pub fn on_hinted_call(
        &self,
        stage: StageNo,
        items: impl Iterator<Item = ItemId>,
        now: Timestamp,
    ) -> Ruling {
        for item in items {
            let Some(Told { until, off, attempt }) = self.hints.get(&(item, stage)).copied() else {
                continue;
            };
            let known = self.ids.get(&item).and_then(|seq| self.items.get(seq));
            let last = known.and_then(|known| known.attempts.last());
            let recorded =
                last.is_some_and(|row| row.outcome == Outcome::Throttled && row.attempt == attempt);
            if recorded && now.0 - self.hub.now() == off && now < until {
                return broken("item-hint", format!("{item} is called before {until}, as it was told"));
            }
            self.hub.meet(Met::HintKept);
        }
        Ok(())
    }
}
