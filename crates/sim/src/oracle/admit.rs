//! Items that come and go: submissions, children, purges.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::{ItemId, ItemSeq, Rev};
use redrive_core::item::{DeadReason, Item, NewItem, Payload, State, StateKind};
use redrive_core::reading::Reading;
use redrive_core::status::Control;
use redrive_core::tally::{Metric, place};
use redrive_store::{ClaimedItem, Error, ItemFilter, ItemQuery, ItemRev, Store, Submit, Submitted};

use super::{Known, Oracle, Ruling, broken};
use crate::hub::at_once;
use crate::met::Met;

/// Items that must have come into being: their id, parent and content.
pub(super) type Expected = BTreeMap<ItemId, (Option<ItemSeq>, NewItem)>;

impl Oracle {
    /// Takes in a submission.
    ///
    /// # Errors
    /// What is wrong with the answers, or with what was written.
    pub fn on_submit(&mut self, store: &dyn Store, submit: &Submit, told: &[Submitted]) -> Ruling {
        if self.control == Control::Cancelled {
            return broken("control", "a cancelled run took a submission".to_owned());
        }
        let mut expected = Expected::new();
        let mut touched = Vec::with_capacity(submit.changes.len());
        // Where something stood that had left and is back says nothing.
        let mut back = BTreeSet::new();
        for change in &submit.changes {
            let transition = &change.transition;
            if !self.is_live_token(transition) {
                let key = &transition.after.key;
                return broken("L3", format!("{key} was changed by a submission with a stale token"));
            }
            self.apply(transition, &mut expected)?;
            touched.push(transition.after.seq);
            if transition.mark.as_ref().is_some_and(|mark| mark.what == "restored") {
                back.insert(transition.after.id);
            }
        }
        for (new, told) in submit.items.iter().zip(told) {
            let id = ItemId::derive(submit.run, None, &new.key, new.version());
            let there = self.ids.contains_key(&id) || expected.contains_key(&id);
            let gone = self.state_of(id) == Some(StateKind::Superseded);
            let buried = !there && self.was_purged(id, id);
            match told {
                Submitted::Admitted(as_id) if *as_id == id && !there && !buried => {
                    expected.insert(id, (None, new.clone()));
                }
                Submitted::Known(as_id) | Submitted::Duplicate(as_id) if *as_id == id && there && !gone => {
                    self.hub.meet(Met::Resubmitted);
                    self.seen_again(id, submit.reading, new.origin, back.remove(&id));
                }
                // What was purged is left alone, whatever else its key has.
                Submitted::Known(as_id) if *as_id == id && buried => self.hub.meet(Met::Resubmitted),
                Submitted::Changed(other)
                    if !submit.new_versions
                        && if there {
                            other.id == id && gone
                        } else {
                            expected.contains_key(&other.id) || self.is_present(other)
                        } => {}
                told => return broken("L1", format!("{} was submitted and answered {told:?}", new.key)),
            }
            if new.refused.is_some() {
                self.hub.meet(Met::SecondContent);
            }
        }
        let n = i64::try_from(expected.len()).unwrap_or(0);
        self.hub.log("admitted", &[n], || format!("{n} of {}", submit.items.len()));
        let new = self.take_new(store, expected, &[])?;
        for seq in &new {
            let item = &self.items[seq].item;
            if item.stage != submit.stage || item.deadline != submit.deadline || item.created_at != submit.now
            {
                return broken("L1", format!("{} was admitted otherwise than asked", item.key));
            }
        }
        for item in submit.items.iter().filter(|item| submit.new_versions && item.refused.is_none()) {
            self.one_version_lives(ItemId::derive(submit.run, None, &item.key, item.version()))?;
        }
        touched.extend(new);
        self.row(store)?;
        self.verify(store, &touched)
    }

    /// Takes in that a submission was refused.
    ///
    /// # Errors
    /// L1: only a cancelled run refuses one, or an old version that moved meanwhile.
    pub fn on_submit_refused(&self, submit: &Submit, error: &Error) -> Ruling {
        let stale = || submit.changes.iter().any(|change| !self.is_live_token(&change.transition));
        match error {
            Error::RunCancelled { .. } if self.control == Control::Cancelled => self.hub.meet(Met::TooLate),
            Error::Overtaken { .. } => self.hub.log("overtaken", &[], String::new),
            Error::Busy(_) if stale() => self.hub.log("moved", &[], String::new),
            error => return broken("L1", format!("a submission was refused: {error}")),
        }
        Ok(())
    }

    /// What an older reading saw stands where this one sees it.
    fn seen_again(&mut self, id: ItemId, reading: Reading, origin: u64, back: bool) {
        let known = self.ids.get(&id).and_then(|seq| self.items.get_mut(seq));
        if let Some(known) = known.filter(|known| back || !reading.has_seen(&known.item)) {
            known.item.reading = reading.number;
            known.item.origin = origin;
        }
    }

    fn state_of(&self, id: ItemId) -> Option<StateKind> {
        self.ids.get(&id).and_then(|seq| self.items.get(seq)).map(|known| known.item.state.kind())
    }

    /// Whether an item is as it is known, and not superseded.
    fn is_present(&self, item: &Item) -> bool {
        !matches!(item.state, State::Superseded { .. })
            && self.items.get(&item.seq).is_some_and(|known| known.item == *item)
    }

    /// L6: what was submitted last is what is worked on.
    fn one_version_lives(&self, id: ItemId) -> Ruling {
        let (low, high) = id.versions();
        let kind = |seq: &ItemSeq| self.items.get(seq).map(|known| known.item.state.kind());
        for (version, seq) in self.ids.range(low..=high) {
            match kind(seq) {
                Some(StateKind::Superseded) if *version == id => {
                    return broken("L6", format!("{version} was submitted and is superseded"));
                }
                Some(kind) if *version != id && !kind.is_terminal() => {
                    return broken("L6", format!("{version} is {kind}, and {id} was submitted in its place"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes in a purge.
    ///
    /// # Errors
    /// L1: what went is what was asked for, with what came from it, and all of it was finished.
    pub fn on_purge(&mut self, store: &dyn Store, asked: &[ItemRev], gone: u64) -> Ruling {
        let mut went = 0;
        for ItemRev { seq, rev } in asked {
            let still = self
                .items
                .get(seq)
                .is_some_and(|known| known.item.rev == *rev && known.item.state.kind().is_terminal());
            let mut family = if still { vec![*seq] } else { Vec::new() };
            while let Some(seq) = family.pop() {
                family.extend(self.children.remove(&seq).unwrap_or_default());
                let Some(known) = self.items.remove(&seq) else { continue };
                if !known.item.state.kind().is_terminal() {
                    return broken(
                        "L1",
                        format!("{} was purged while it was {:?}", known.item.key, known.item.state),
                    );
                }
                self.ids.remove(&known.item.id);
                self.purged.insert(seq, (known.item.id, place(&known.item)));
                self.stand(&known.item, -1);
                self.untold.purged(&known.item);
                self.add(known.item.stage, Metric::Purged(known.item.state.kind()), 1);
                went += 1;
            }
        }
        if went > 0 {
            self.hub.meet(Met::Purge);
        }
        self.hub.log("purged", &[went], || format!("{went} items"));
        if u64::try_from(went).ok() != Some(gone) {
            return broken("L1", format!("{gone} purged, {went} were to go"));
        }
        self.verify(store, &[])
    }

    /// Reads the items that came into being since this was last asked, and compares them with those that had to.
    pub(super) fn take_new(
        &mut self,
        store: &dyn Store,
        mut expected: Expected,
        given: &[ClaimedItem],
    ) -> Result<Vec<ItemSeq>, crate::hub::Broken> {
        let query = ItemQuery { filter: ItemFilter::default(), after: Some(self.last_seq), limit: 100_000 };
        let new =
            if expected.is_empty() { Vec::new() } else { at_once(store.items(query)).unwrap_or_default() };
        let mut touched = Vec::with_capacity(new.len());
        for item in new {
            let item =
                if given.iter().any(|given| given.item == item) { before_its_claim(item) } else { item };
            let Some((parent, asked)) = expected.remove(&item.id) else {
                return broken("L1", format!("{} came from nowhere", item.key));
            };
            let fits =
                item.parent == parent && item.key == asked.key && item.attempt == 0 && item.rev == Rev(0);
            let waits = match item.state {
                State::Waiting { due, cause: None } => asked.refused.is_none() && due == item.created_at,
                State::Dead { reason: DeadReason::Final } => asked.refused.is_some(),
                _ => false,
            };
            if !fits || !waits {
                return broken("L1", format!("{} was admitted as {item:?}", item.key));
            }
            self.last_seq = item.seq;
            touched.push(item.seq);
            self.keep(item, asked.payload);
        }
        match expected.into_values().next() {
            Some((_, lost)) => broken("L1", format!("{} was admitted and is not there", lost.key)),
            None => Ok(touched),
        }
    }

    fn keep(&mut self, item: Item, payload: Payload) {
        self.add(item.stage, Metric::Admitted, 1);
        self.stand(&item, 1);
        self.bury(&item);
        self.untold.admitted(&item);
        self.hub.score(|score| score.items += 1);
        self.admitted.insert(item.id);
        self.ids.insert(item.id, item.seq);
        if let Some(parent) = item.parent {
            self.children.entry(parent).or_default().push(item.seq);
        }
        let known = Known {
            attempts: Vec::new(),
            marks: Vec::new(),
            base: (item.stage, payload.clone()),
            first: payload.clone(),
            expanded: None,
            paused_ms: 0,
            called: 0,
            found: BTreeMap::new(),
            damaged: None,
            payload,
            item,
        };
        self.items.insert(known.item.seq, known);
    }
}

/// A new item as it was admitted, when it was claimed at once.
fn before_its_claim(item: Item) -> Item {
    let admitted = item.created_at;
    let state = State::Waiting { due: admitted, cause: None };
    Item { state, rev: Rev(0), attempt: item.attempt.saturating_sub(1), updated_at: admitted, ..item }
}
