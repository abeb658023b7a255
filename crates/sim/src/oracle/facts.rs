//! What the world is told agrees with what became of the items, as their histories have it.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::event::Transition;
use redrive_core::fact::FactKind;
use redrive_core::id::{FactId, ItemId, StageNo};
use redrive_core::item::{DeadReason, Item, State};
use redrive_core::status::Control;
use redrive_store::{RunRow, Store};

use super::{Oracle, Ruling, broken};
use crate::hub::at_once;
use crate::met::Met;

/// One thing to be told: of which item, what, and at which stage, generation and attempt.
type Word = (Option<ItemId>, FactKind, Option<(StageNo, u32, u32)>);

/// What is to be told and was not seen yet, where facts are kept.
#[derive(Debug, Default)]
pub(super) struct Untold {
    keeps: bool,
    words: BTreeMap<Word, u64>,
    last: FactId,
}

impl Untold {
    fn of_item(&mut self, item: &Item, kinds: &[FactKind]) {
        let place = (item.stage, item.generation, item.attempt);
        kinds.iter().for_each(|kind| self.add((Some(item.id), *kind, Some(place))));
    }

    fn add(&mut self, word: Word) {
        if self.keeps {
            *self.words.entry(word).or_default() += 1;
        }
    }

    pub(super) fn admitted(&mut self, item: &Item) {
        self.of_item(item, &[FactKind::Admitted]);
        self.of_item(item, death(item));
    }

    pub(super) fn purged(&mut self, item: &Item) {
        self.of_item(item, &[FactKind::Purged]);
    }

    /// Works out from the marks in an item's history what is told of a transition, and from its attempt where it has none.
    pub(super) fn moved(&mut self, before: &Item, transition: &Transition) {
        let after = &transition.after;
        match transition.mark.as_ref().map(|mark| mark.what) {
            Some("redriven" | "edited") => self.of_item(after, &[FactKind::Redriven]),
            Some("restored") => self.of_item(after, &[FactKind::Restored]),
            Some("reopened") => self.of_item(after, &[FactKind::Reopened]),
            Some("joined") => {
                self.of_item(before, &[FactKind::Joined]);
                self.went_on_or_died(before, after);
            }
            Some("cancelled") => self.of_item(before, &[FactKind::Cancelled]),
            Some("rerun") => self.of_item(after, &[FactKind::Rerun]),
            Some("superseded" | "removed") => self.of_item(before, &[FactKind::Superseded]),
            Some("killed" | "expired") => self.of_item(before, death(after)),
            Some(_) => {}
            None => self.attempted(before, transition),
        }
    }

    fn attempted(&mut self, before: &Item, transition: &Transition) {
        let after = &transition.after;
        let Some(record) = &transition.record else {
            if after.handed.is_some() && before.handed.is_none() {
                self.of_item(before, &[FactKind::HandedOver]);
            }
            return;
        };
        match record.outcome {
            Outcome::Succeeded | Outcome::Reused => self.went_on_or_died(before, after),
            Outcome::Expanded if after.state == State::Joining => {
                self.of_item(before, &[FactKind::Expanded]);
            }
            Outcome::Expanded => self.went_on_or_died(before, after),
            Outcome::Filtered => self.of_item(before, &[FactKind::Filtered]),
            Outcome::Failed | Outcome::Crashed => {
                self.of_item(before, &[FactKind::Failed]);
                let retry = record.wait.is_some().then_some(FactKind::RetryScheduled);
                self.of_item(before, retry.as_slice());
                self.of_item(before, death(after));
            }
            Outcome::Throttled => {
                self.of_item(before, &[FactKind::Throttled]);
                self.of_item(before, death(after));
            }
            Outcome::Expired => self.of_item(before, death(after)),
            Outcome::Interrupted | Outcome::Cancelled => {}
        }
    }

    fn went_on_or_died(&mut self, before: &Item, after: &Item) {
        match after.state {
            State::Dead { .. } => self.of_item(before, death(after)),
            State::Succeeded => self.of_item(before, &[FactKind::StagePassed, FactKind::Succeeded]),
            _ => self.of_item(before, &[FactKind::StagePassed]),
        }
    }
}

fn death(item: &Item) -> &'static [FactKind] {
    match item.state {
        State::Dead { reason: DeadReason::Quarantined } => &[FactKind::Dead, FactKind::Quarantined],
        State::Dead { .. } => &[FactKind::Dead],
        _ => &[],
    }
}

impl Oracle {
    /// Says that facts are kept from now on.
    pub fn on_facts_kept(&mut self) {
        self.untold.keeps = true;
    }

    /// Works out what is told of the run as it is now.
    pub(super) fn tell_run(&mut self, row: &RunRow) {
        if self.run != row.id {
            self.untold.add((None, FactKind::RunCreated, None));
        }
        let asked = match row.control {
            same if same == self.control => None,
            Control::Go => Some(FactKind::RunResumed),
            Control::Cancelled => Some(FactKind::RunCancelled),
            _ => Some(FactKind::RunPaused),
        };
        let finished = (row.finished_at.is_some() && !self.finished).then_some(FactKind::RunFinished);
        for kind in asked.into_iter().chain(finished) {
            self.untold.add((None, kind, None));
        }
    }

    /// Compares what was told since the last time with what was to be told, and passes it on, as a relay does.
    pub(super) fn told(&mut self, store: &dyn Store) -> Ruling {
        let facts = at_once(store.facts(usize::MAX)).unwrap_or_default();
        let ids: Vec<FactId> = facts.iter().map(|kept| kept.id).collect();
        if !ids.is_sorted() || ids.first().is_some_and(|first| *first <= self.untold.last) {
            return broken("facts", format!("numbers were given again: {ids:?}"));
        }
        self.untold.last = ids.last().copied().unwrap_or(self.untold.last);
        let mut told: BTreeMap<Word, u64> = BTreeMap::new();
        for fact in facts.iter().map(|kept| &kept.fact) {
            let place = fact.stage.zip(fact.generation).zip(fact.attempt);
            let place = place.map(|((stage, generation), attempt)| (stage, generation, attempt));
            *told.entry((fact.item, fact.kind, place)).or_default() += 1;
        }
        let untold = std::mem::take(&mut self.untold.words);
        if told != untold {
            let missing = untold.iter().find(|(word, n)| told.get(word) != Some(n));
            let strange = told.iter().find(|(word, n)| untold.get(word) != Some(n));
            return broken("facts", format!("{missing:?} was to be told, and {strange:?} was"));
        }
        if self.untold.keeps && !ids.is_empty() {
            self.hub.meet(Met::Told);
            if let Err(error) = at_once(store.facts_passed_on(ids)) {
                return broken("facts", format!("they cannot be passed on: {error}"));
            }
        }
        Ok(())
    }
}
