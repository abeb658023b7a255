//! What must be true when everything has ended: sets are compared, not sums.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::attempt::Outcome;
use redrive_core::id::ItemId;
use redrive_core::item::{Item, State};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::progress::Unheard;
use redrive_engine::report::Runs;
use redrive_store::Store;

use super::{Known, Oracle, Ruling, broken};
use crate::hub::at_once;

impl Oracle {
    /// Checks the end of a run. `lines` are the items that the source's lines have to be, as far as their keys are theirs
    /// alone; `keys` are those of all lines.
    ///
    /// # Errors
    /// What is wrong.
    pub fn at_the_end(
        &mut self,
        store: &dyn Store,
        lines: &[ItemId],
        keys: &[Arc<str>],
        now: Timestamp,
    ) -> Ruling {
        self.told(store)?;
        self.whole(store, true)?;
        let mut ended: BTreeSet<ItemId> = self.purged.values().map(|(id, _)| *id).collect();
        for known in self.items.values() {
            if !known.item.state.kind().is_terminal() {
                return broken("L7", format!("{} never ended: {:?}", known.item.key, known.item.state));
            }
            ended.insert(known.item.id);
            self.calls_within_attempts(known)?;
            self.final_content(known)?;
        }
        if ended != self.admitted {
            let lost = self.admitted.difference(&ended).count();
            return broken("L1", format!("{lost} items were admitted and never ended"));
        }
        if self.control != Control::Cancelled {
            self.lines_as_submitted(lines)?;
            self.nothing_but(keys)?;
        }
        self.engine_agrees(store, now)
    }

    /// L2: no handler was called for an attempt that is not on record.
    fn calls_within_attempts(&self, known: &Known) -> Ruling {
        let never_called = [Outcome::Reused, Outcome::Expired];
        let could = known.attempts.iter().filter(|row| !never_called.contains(&row.outcome)).count();
        if known.called as usize > could {
            return broken(
                "L2",
                format!("{} was called {} times, {could} attempts tell of it", known.item.key, known.called),
            );
        }
        Ok(())
    }

    /// L5: an item that succeeded went through every stage of its list, once. A parent that was reopened went through the
    /// stages after its children as if for the first time.
    fn final_content(&self, known: &Known) -> Ruling {
        if known.item.state != State::Succeeded {
            return Ok(());
        }
        let (mut stage, mut payload) = (Some(known.base.0), known.base.1.clone());
        while let Some(no) = stage {
            let passed_by =
                |row: &redrive_core::attempt::AttemptRecord| row.stage == no && row.outcome.is_pass();
            let expanded = known.attempts.iter().rfind(|row| passed_by(row)).map(|row| row.outcome);
            if expanded != Some(Outcome::Expanded) {
                payload = self.script.output(no, &payload).unwrap_or(payload);
            }
            stage = self.recipe.plan.stage(no).and_then(|stage| stage.next);
        }
        if payload != known.payload {
            return broken(
                "L5",
                format!("{} succeeded with other content than its stages give", known.item.key),
            );
        }
        Ok(())
    }

    /// L6: what the source last said is what was worked on.
    fn lines_as_submitted(&self, lines: &[ItemId]) -> Ruling {
        for id in lines {
            match self.ids.get(id).and_then(|seq| self.items.get(seq)) {
                Some(Known { item: Item { state: State::Superseded { .. }, key, .. }, .. }) => {
                    return broken("L6", format!("the present content of {key} is superseded"));
                }
                None if !self.was_purged(*id, *id) => {
                    return broken("L1", format!("line {id} is not there"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// L1: what left the source is taken out.
    fn nothing_but(&self, keys: &[Arc<str>]) -> Ruling {
        for known in self.items.values().filter(|known| known.item.parent.is_none()) {
            let taken_out = matches!(known.item.state, State::Superseded { .. } | State::Cancelled);
            let of_line =
                |key: &Arc<str>| *key == known.item.key || known.item.key.starts_with(&format!("{key}#"));
            if !taken_out && !keys.iter().any(of_line) {
                let (key, state) = (&known.item.key, known.item.state.kind());
                return broken("L1", format!("{key} is not in the source any more, and is {state}"));
            }
        }
        Ok(())
    }

    /// `redrive check` says the same.
    fn engine_agrees(&self, store: &dyn Store, now: Timestamp) -> Ruling {
        let plan = self.recipe.plan.clone();
        match at_once(redrive_engine::report::check(store, Runs::All, |_| Some(plan.clone()), now, &Unheard))
        {
            Ok(report) => match report.laws.iter().flat_map(|law| &law.violations).next() {
                Some(found) => broken("check", format!("{}: {}", found.law, found.what)),
                None => Ok(()),
            },
            Err(error) => broken("check", error.to_string()),
        }
    }

    /// L9: attempts that a clean stop broke off are on record as such.
    ///
    /// # Errors
    /// When one is on record as a failure.
    pub fn on_broken_off(&self, worker: redrive_core::id::WorkerId, items: &[(ItemId, u32)]) -> Ruling {
        for (id, attempt) in items {
            let Some(known) = self.ids.get(id).and_then(|seq| self.items.get(seq)) else { continue };
            let its = known.attempts.iter().rfind(|row| row.worker == worker && row.attempt == *attempt);
            match its.map(|row| row.outcome) {
                Some(Outcome::Interrupted | Outcome::Cancelled) | None => {}
                Some(other) => {
                    return broken(
                        "L9",
                        format!("a clean stop of {worker} left {other} on {}", known.item.key),
                    );
                }
            }
        }
        Ok(())
    }
}
