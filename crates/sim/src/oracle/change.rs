//! Submissions, commits and purges: what each must do to the model, and what it must never do.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::event::Transition;
use redrive_core::failure::Kind;
use redrive_core::id::{ItemId, ItemSeq, Rev};
use redrive_core::item::{DeadReason, Item, NewItem, Payload, State, StateKind};
use redrive_core::tally::{Metric, place};
use redrive_store::{Applied, Commit, ItemFilter, ItemQuery, Store, Submit, Submitted};

use super::{Known, Oracle, Verdict, broken};
use crate::hub::at_once;
use crate::met::Met;

/// Items that must have come into being: their id, parent and content.
type Expected = BTreeMap<ItemId, (Option<ItemSeq>, NewItem)>;

impl Oracle {
    /// Takes in a submission.
    ///
    /// # Errors
    /// What is wrong with the answers, or with what was written.
    pub fn on_submit(&mut self, store: &dyn Store, submit: &Submit, told: &[Submitted]) -> Verdict {
        let mut expected = Expected::new();
        for (new, told) in submit.items.iter().zip(told) {
            let id = ItemId::derive(submit.run, None, &new.key, new.version());
            let there = self.ids.contains_key(&id) || expected.contains_key(&id);
            match told {
                Submitted::Admitted(as_id) if *as_id == id && !there => {
                    expected.insert(id, (None, new.clone()));
                }
                Submitted::Known(as_id) | Submitted::Duplicate(as_id) if *as_id == id && there => {
                    self.hub.meet(Met::Resubmitted);
                }
                Submitted::Changed(_) if !there && !submit.new_versions => {}
                told => return broken("L1", format!("{} was submitted and answered {told:?}", new.key)),
            }
            if new.refused.is_some() {
                self.hub.meet(Met::SecondContent);
            }
        }
        let n = i64::try_from(expected.len()).unwrap_or(0);
        self.hub.log("admitted", &[n], || format!("{n} of {}", submit.items.len()));
        let touched = self.take_new(store, expected)?;
        for seq in &touched {
            let item = &self.items[seq].item;
            if item.stage != submit.stage || item.deadline != submit.deadline || item.created_at != submit.now {
                return broken("L1", format!("{} was admitted otherwise than asked", item.key));
            }
        }
        self.row(store)?;
        self.verify(store, &touched)
    }

    /// Takes in a commit.
    ///
    /// # Errors
    /// What is wrong with the answers, or with what was written.
    pub fn on_commit(&mut self, store: &dyn Store, commit: &Commit, applied: &[Applied]) -> Verdict {
        if applied.len() != commit.changes.len() {
            return broken("L3", format!("{} answers to {} changes", applied.len(), commit.changes.len()));
        }
        let done = applied.iter().filter(|applied| **applied == Applied::Done).count();
        if commit.all_or_nothing && done != 0 && done != applied.len() {
            return broken("L3", format!("{done} of {} written of a commit of all or nothing", applied.len()));
        }
        let mut expected = Expected::new();
        let mut touched = Vec::with_capacity(done);
        for (change, applied) in commit.changes.iter().zip(applied) {
            let transition = &change.transition;
            let live = self.items.get(&transition.after.seq).is_some_and(|known| known.item.rev == transition.guard);
            match (applied, live) {
                (Applied::Done, true) => {
                    self.apply(transition, &mut expected)?;
                    touched.push(transition.after.seq);
                }
                (Applied::Done, false) => {
                    return broken("L3", format!("{} was changed with a stale token", transition.after.key));
                }
                (Applied::Stale, true) if !commit.all_or_nothing => {
                    return broken("L3", format!("{} was not changed with a live token", transition.after.key));
                }
                (Applied::Stale, _) => self.hub.meet(Met::Stale),
            }
        }
        self.log_commit(commit, applied);
        touched.extend(self.take_new(store, expected)?);
        if commit.run.is_some() {
            self.row(store)?;
        }
        self.verify(store, &touched)
    }

    fn log_commit(&self, commit: &Commit, applied: &[Applied]) {
        let done = applied.iter().filter(|applied| **applied == Applied::Done).count();
        self.hub.log("committed", &[i64::try_from(done).unwrap_or(0)], || {
            let each = commit.changes.iter().zip(applied).map(|(change, applied)| {
                let after = &change.transition.after;
                let ended = change.transition.record.as_ref().map_or("-", |record| record.outcome.name());
                let mark = change.transition.mark.as_ref().map_or("", |mark| mark.what);
                format!("{}@{} {ended} {mark} -> {:?} {applied:?}", after.key, after.stage.0, after.state.kind())
            });
            each.collect::<Vec<_>>().join("; ")
        });
    }

    fn apply(&mut self, transition: &Transition, expected: &mut Expected) -> Verdict {
        let Transition { after, record, mark, children, payload, from, .. } = transition;
        let Some(known) = self.items.get(&after.seq) else { return Ok(()) };
        allowed(&known.item, transition)?;
        if place(&known.item) != *from {
            return broken("L1", format!("{} was counted out of {from:?}, and stands elsewhere", after.key));
        }
        self.content(transition)?;
        let outcome = record.as_ref().map(|record| (record.stage, Metric::Outcome(record.outcome)));
        if let Some((stage, metric)) = outcome {
            self.add(stage, metric, 1);
        }
        if let Some(children) = children {
            for new in &children.items {
                let id = ItemId::derive(after.run, Some(after.id), &new.key, new.version());
                if !self.ids.contains_key(&id) {
                    expected.insert(id, (Some(after.seq), new.clone()));
                }
            }
        }
        self.met(transition);
        let Some(known) = self.items.get_mut(&after.seq) else { return Ok(()) };
        known.attempts.extend(record.clone());
        known.marks.extend(mark.clone());
        if let Some(payload) = payload {
            known.payload = payload.clone();
            if mark.as_ref().is_some_and(|mark| mark.what == "redriven") {
                known.base = (after.stage, payload.clone());
            }
        }
        let before = std::mem::replace(&mut known.item, after.clone());
        self.stand(&before, -1);
        self.stand(after, 1);
        Ok(())
    }

    /// L5: what a stage is said to have given is what the script computes from what it was given.
    fn content(&self, transition: &Transition) -> Verdict {
        let Some(known) = self.items.get(&transition.after.seq) else { return Ok(()) };
        let stage = known.item.stage;
        let wanted: Option<Payload> = match transition.record.as_ref().map(|record| record.outcome) {
            Some(Outcome::Succeeded | Outcome::Reused) => self.script.output(stage, &known.payload),
            _ => return Ok(()),
        };
        if transition.payload != wanted {
            return broken("L5", format!("{} has an output of stage {} that is not its own", known.item.key, stage.0));
        }
        Ok(())
    }

    fn met(&self, transition: &Transition) {
        let outcome = transition.record.as_ref().map(|record| record.outcome);
        let worker = |kind: Kind| kind == Kind::Worker;
        let lost = transition.record.as_ref().and_then(|record| record.failure.as_ref()).is_some_and(|f| worker(f.kind));
        let mut all = Vec::new();
        all.extend(lost.then_some(Met::Takeover));
        all.extend((outcome == Some(Outcome::Reused)).then_some(Met::Reused));
        all.extend(match transition.after.state {
            State::Dead { reason: DeadReason::Expired } => Some(Met::Expired),
            State::Dead { reason: DeadReason::Quarantined } => Some(Met::Quarantined),
            State::Dead { reason: DeadReason::Exhausted } => Some(Met::Exhausted),
            State::Superseded => Some(Met::Superseded),
            _ => None,
        });
        all.extend(transition.mark.as_ref().and_then(|mark| match mark.what {
            "redriven" if transition.payload.is_some() => Some(Met::Edited),
            "redriven" => Some(Met::Redrive),
            "reopened" => Some(Met::Reopened),
            "joined" => Some(Met::Joined),
            _ => None,
        }));
        all.into_iter().for_each(|met| self.hub.meet(met));
    }

    /// Takes in a purge.
    ///
    /// # Errors
    /// L1: what went is what was asked for, with what came from it, and all of it was finished.
    pub fn on_purge(&mut self, store: &dyn Store, asked: &[(ItemSeq, Rev)], gone: u64) -> Verdict {
        let mut went = 0;
        for (seq, rev) in asked {
            let still = self.items.get(seq).is_some_and(|known| {
                known.item.rev == *rev && known.item.state.kind().is_terminal()
            });
            let mut family = if still { vec![*seq] } else { Vec::new() };
            while let Some(seq) = family.pop() {
                family.extend(self.children.remove(&seq).unwrap_or_default());
                let Some(known) = self.items.remove(&seq) else { continue };
                if !known.item.state.kind().is_terminal() {
                    return broken("L1", format!("{} was purged while it was {:?}", known.item.key, known.item.state));
                }
                self.ids.remove(&known.item.id);
                self.purged.insert(known.item.id);
                self.stand(&known.item, -1);
                self.add(known.item.stage, Metric::Purged, 1);
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
    fn take_new(&mut self, store: &dyn Store, mut expected: Expected) -> Result<Vec<ItemSeq>, crate::hub::Broken> {
        let query = ItemQuery { filter: ItemFilter::default(), after: Some(self.last_seq), limit: 100_000 };
        let new = if expected.is_empty() { Vec::new() } else { at_once(store.items(query)).unwrap_or_default() };
        let mut touched = Vec::with_capacity(new.len());
        for item in new {
            let Some((parent, asked)) = expected.remove(&item.id) else {
                return broken("L1", format!("{} came from nowhere", item.key));
            };
            let fits = item.parent == parent && item.key == asked.key && item.attempt == 0 && item.rev == Rev(0);
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
        self.hub.score(|score| score.items += 1);
        self.admitted.insert(item.id);
        self.purged.remove(&item.id);
        self.ids.insert(item.id, item.seq);
        if let Some(parent) = item.parent {
            self.children.entry(parent).or_default().push(item.seq);
        }
        let (base, attempts, marks) = ((item.stage, payload.clone()), Vec::new(), Vec::new());
        self.items.insert(item.seq, Known { item, attempts, marks, payload, base, called: 0 });
    }

    fn row(&mut self, store: &dyn Store) -> Verdict {
        match at_once(store.run(self.run)) {
            Ok(Some(row)) => self.on_run(&row),
            other => broken("L1", format!("the run is {other:?}")),
        }
    }
}

/// Which moves there are; finished states are left only by redrive, reopening and a newer version.
fn allowed(before: &Item, transition: &Transition) -> Verdict {
    let after = &transition.after;
    let mark = transition.mark.as_ref().map_or("", |mark| mark.what);
    let fits = match (before.state.kind(), after.state.kind(), mark) {
        (StateKind::Dead, StateKind::Waiting, "redriven") => after.generation == before.generation + 1,
        (StateKind::Dead | StateKind::Succeeded, StateKind::Joining, "reopened") => true,
        (StateKind::Dead, StateKind::Superseded, "superseded") => true,
        (from, ..) => !from.is_terminal(),
    };
    if !fits {
        return broken("L3", format!("{} went from {:?} to {:?} by {mark:?}", before.key, before.state, after.state));
    }
    if after.rev <= before.rev || after.id != before.id || after.parent != before.parent || after.key != before.key {
        return broken("L3", format!("{} changed its name or its token went back", before.key));
    }
    let ended = transition.record.as_ref().map(|record| (record.stage, record.generation, record.attempt));
    let running = before.state.kind() == StateKind::Running;
    let given_back = running && after.state.kind() == StateKind::Waiting && after.attempt + 1 == before.attempt;
    match ended {
        Some(ended) if !running || ended != (before.stage, before.generation, before.attempt) => {
            broken("L2", format!("{} got a record of {ended:?}", before.key))
        }
        None if running && !given_back => broken("L2", format!("an attempt of {} ended without a record", before.key)),
        _ => Ok(()),
    }
}
