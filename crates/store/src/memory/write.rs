//! The verbs that change items.

use redrive_core::event::{Children, Transition};
use redrive_core::fact::Fact;
use redrive_core::id::{ItemId, ItemSeq, RunId};
use redrive_core::item::{Entry, Item, Lane, NewItem, State as ItemState, StateKind};
use redrive_core::order::{Candidate, pick};
use redrive_core::status::Control;
use redrive_core::tally::Deltas;
use redrive_core::time::Timestamp;

use super::state::{Kept, State};
use crate::query::History;
use crate::request::{
    Applied, Change, Claim, Claimed, ClaimedItem, Commit, ItemRev, KeptOutput, Prune, Pruned, Slot, Submit,
    Submitted, Turn, Turned,
};
use crate::rule::item::{entry_of_children, may_purge, tombstone};
use crate::rule::operation::member;
use crate::rule::run::{Progress, reopen, takes};
use crate::rule::submit::{Asked, Known, Version, known_as};
use crate::run::Operation;
use crate::{Error, Result};

impl State {
    pub(super) fn submit(&mut self, submit: Submit) -> Result<Vec<Submitted>> {
        let Some(run) = self.runs.get(&submit.run) else {
            return Err(Error::NotFound(format!("run {}", submit.run)));
        };
        takes(run.id, run.control, run.reading, submit.reading.number)?;
        let mut back = submit.brought_back();
        if !submit.changes.is_empty() {
            let commit = Commit {
                changes: submit.changes,
                all_or_nothing: true,
                now: submit.now,
                ..Commit::default()
            };
            if self.commit(commit)?.contains(&Applied::Stale) {
                return Err(Error::Busy("an item changed meanwhile".to_owned()));
            }
        }
        let entry = Entry {
            run: submit.run,
            parent: None,
            stage: submit.stage,
            reading: submit.reading.number,
            deadline: submit.deadline,
            now: submit.now,
        };
        let mut deltas = Deltas::default();
        let mut answers = Vec::with_capacity(submit.items.len());
        for new in submit.items {
            let id = ItemId::derive(submit.run, None, &new.key, new.version());
            let (origin, reading) = (new.origin, submit.reading);
            let asked =
                Asked { id, origin, reading, new_versions: submit.new_versions, back: back.remove(&id) };
            answers.push(self.submit_one(new, asked, &entry, &mut deltas)?);
        }
        self.count(&deltas);
        if self.any_live(submit.run)
            && let Some(run) = self.runs.get_mut(&submit.run)
        {
            reopen(run);
        }
        let repeated =
            answers.iter().filter(|answer| matches!(answer, Submitted::Duplicate(_))).count() as u64;
        let changed = answers.iter().any(|answer| matches!(answer, Submitted::Changed(_)));
        if let (Some(cursor), Some(run)) =
            (submit.cursor.filter(|_| !changed), self.runs.get_mut(&submit.run))
        {
            let (admitted_all, duplicates) = (run.admitted_all, run.duplicates);
            let progress = Progress { cursor: run.cursor.take(), admitted_all, duplicates };
            let progress = progress.after(&cursor, repeated);
            (run.cursor, run.admitted_all) = (progress.cursor, progress.admitted_all);
            run.duplicates = progress.duplicates;
        }
        Ok(answers)
    }

    /// Admits one item, unless it is known.
    fn submit_one(
        &mut self,
        new: NewItem,
        asked: Asked,
        entry: &Entry,
        deltas: &mut Deltas,
    ) -> Result<Submitted> {
        let id = asked.id;
        if !self.ids.contains_key(&id) && self.was_purged(id) {
            return Ok(Submitted::Known(id));
        }
        Ok(match known_as(asked, self.versions(id).map(Ok::<_, Error>))? {
            Some(Known::Same) => Submitted::Known(id),
            Some(Known::Elsewhere) => Submitted::Duplicate(id),
            Some(Known::Before(seq)) => {
                self.seen_again(seq, asked.reading.number, asked.origin);
                Submitted::Known(id)
            }
            Some(Known::Otherwise(seq)) if !asked.new_versions => {
                Submitted::Changed(Box::new(self.items[&seq].item.clone()))
            }
            Some(Known::Otherwise(_)) | None => {
                self.admit(new, id, entry, deltas);
                Submitted::Admitted(id)
            }
        })
    }

    /// All versions of a key.
    fn versions(&self, id: ItemId) -> impl Iterator<Item = Version> {
        let (low, high) = id.versions();
        self.ids.range(low..=high).map(|(_, seq)| &self.items[seq].item).map(|item| Version {
            seq: item.seq,
            id: item.id,
            origin: item.origin,
            reading: item.reading,
            superseded: matches!(item.state, ItemState::Superseded { .. }),
        })
    }

    /// Notes where an item stands in its source now. That is no change of the item: whoever holds it, holds it still.
    fn seen_again(&mut self, seq: ItemSeq, reading: u32, origin: u64) {
        if let Some(kept) = self.items.get_mut(&seq) {
            kept.item.reading = reading;
            kept.item.origin = origin;
        }
    }

    fn admit(&mut self, new: NewItem, id: ItemId, entry: &Entry, deltas: &mut Deltas) {
        self.last_item += 1;
        let item = entry.item(&new, ItemSeq(self.last_item), id, new.version());
        deltas.admitted(&item);
        self.outbox.tell(Fact::of_admitted(&item));
        self.keep(Kept { item, payload: new.payload, history: History::default() });
    }

    fn keep(&mut self, kept: Kept) {
        self.ids.insert(kept.item.id, kept.item.seq);
        self.items.insert(kept.item.seq, kept);
    }

    pub(super) fn claim(&mut self, claim: &Claim) -> Claimed {
        if claim.pauses != self.pauses.rev {
            return Claimed { unaware: true, ..Claimed::default() };
        }
        let mut claimed = Claimed::default();
        for slot in &claim.slots {
            let run = self.runs.get(&slot.run);
            claimed.outdated |= run.is_some_and(|run| run.edition != slot.edition);
            let goes_on = run.is_some_and(|run| run.control == Control::Go && run.edition == slot.edition);
            if !goes_on || !self.holds(claim.worker, claim.now) {
                continue;
            }
            let (fresh, retry, next_due) = self.candidates(slot, claim.now);
            let (from_fresh, from_retry) = pick(slot.order, slot.reserved, slot.limit, &fresh, &retry);
            let mut chosen: Vec<ItemSeq> = fresh[..from_fresh]
                .iter()
                .chain(&retry[..from_retry])
                .map(|candidate| candidate.seq)
                .collect();
            chosen.sort_unstable();
            for seq in &chosen {
                let Some(kept) = self.items.get_mut(seq) else { continue };
                kept.item.state = ItemState::Running { worker: claim.worker, since: claim.now };
                kept.item.rev = kept.item.rev.next();
                let begun = u32::from(kept.item.handed.is_none());
                kept.item.attempt = kept.item.attempt.saturating_add(begun);
                kept.item.updated_at = claim.now;
                claimed.items.push(ClaimedItem { item: kept.item.clone(), payload: kept.payload.clone() });
            }
            let mut deltas = Deltas::default();
            deltas.claimed(slot.run, slot.stage, i64::try_from(chosen.len()).unwrap_or(i64::MAX));
            self.count(&deltas);
            claimed.next_due = claimed.next_due.into_iter().chain(next_due).min();
        }
        claimed
    }

    /// Due items of each lane in the order of their due times, cut at the limit, and when the next one is due.
    fn candidates(&self, slot: &Slot, now: Timestamp) -> (Vec<Candidate>, Vec<Candidate>, Option<Timestamp>) {
        let mut due_now: Vec<(Lane, Timestamp, Candidate)> = Vec::new();
        let mut next_due: Option<Timestamp> = None;
        for kept in self.items.values() {
            let item = &kept.item;
            if item.run != slot.run || item.stage != slot.stage {
                continue;
            }
            if let ItemState::Waiting { due, .. } = item.state {
                if due <= now {
                    let candidate = Candidate { seq: item.seq, created_at: item.created_at };
                    due_now.push((item.lane(), due, candidate));
                } else {
                    next_due = next_due.into_iter().chain([due]).min();
                }
            }
        }
        due_now.sort_by_key(|(_, due, candidate)| (*due, candidate.seq));
        let of = |fresh: bool| -> Vec<Candidate> {
            let of_lane = due_now.iter().filter(|(its, _, _)| (*its == Lane::Fresh) == fresh);
            of_lane.map(|(_, _, candidate)| *candidate).take(slot.limit).collect()
        };
        // Whoever looks after an answer stands in one line with what was tried before.
        (of(true), of(false), next_due)
    }

    pub(super) fn turn(&mut self, turn: Turn) -> Turned {
        Turned {
            applied: turn.commit.map_or_else(|| Ok(Vec::new()), |commit| self.commit(commit)),
            gates: Ok(self.save_gates(turn.gates)),
            claimed: Ok(turn.claim.map(|claim| self.claim(&claim)).unwrap_or_default()),
        }
    }

    pub(super) fn commit(&mut self, commit: Commit) -> Result<Vec<Applied>> {
        if let Some((run, _)) = &commit.run
            && !self.runs.contains_key(run)
        {
            return Err(Error::NotFound(format!("run {run}")));
        }
        let stale = |state: &Self, transition: &Transition| {
            state.items.get(&transition.after.seq).is_none_or(|kept| kept.item.rev != transition.guard)
        };
        let mut seqs: Vec<ItemSeq> =
            commit.changes.iter().map(|change| change.transition.after.seq).collect();
        seqs.sort_unstable();
        let twice = seqs.windows(2).any(|pair| pair[0] == pair[1]);
        let cancelled = commit
            .unless_cancelled
            .is_some_and(|run| self.runs.get(&run).is_none_or(|run| run.control == Control::Cancelled));
        if cancelled {
            return Ok(vec![Applied::Stale; commit.changes.len()]);
        }
        if commit.all_or_nothing
            && (twice || commit.changes.iter().any(|change| stale(self, &change.transition)))
        {
            return Ok(vec![Applied::Stale; commit.changes.len()]);
        }
        let lively = commit.changes.iter().filter(|change| !stale(self, &change.transition));
        for effect in lively.filter_map(|change| change.transition.effect.as_ref()) {
            self.index.accepts(effect)?;
        }
        let mut answers = Vec::with_capacity(commit.changes.len());
        let mut deltas = Deltas::default();
        let mut members = Vec::new();
        for change in commit.changes {
            if stale(self, &change.transition) {
                answers.push(Applied::Stale);
                continue;
            }
            members.extend(member(&change.transition));
            self.apply(change, &mut deltas, commit.now);
            answers.push(Applied::Done);
        }
        self.count(&deltas);
        if let Some((run, change)) = commit.run {
            self.change_run(run, change)?;
        }
        if let Some(operation) = commit.operation {
            let operation = self.save_operation(operation);
            self.members.extend(members.into_iter().map(|member| ((operation, member.item), member)));
        }
        Ok(answers)
    }

    fn apply(&mut self, change: Change, deltas: &mut Deltas, now: Timestamp) {
        let Change { transition, output, forgets } = change;
        deltas.transition(&transition);
        self.outbox.tell(Fact::of_transition(&transition));
        let Transition { after, payload, record, children, effect, mark, .. } = transition;
        if !forgets.is_empty() {
            self.outputs.retain(|key, (_, by, _)| *by != after.seq || !forgets.contains(&key.config));
        }
        if let (Some(key), Some(payload)) = (output, &payload) {
            let verdict = record.as_ref().and_then(|record| record.verdict);
            let output = KeptOutput { payload: payload.clone(), verdict };
            self.outputs.insert(key, (after.run, after.seq, output));
        }
        if let Some(effect) = effect {
            self.index.apply(effect);
        }
        if let Some(children) = children {
            self.admit_children(&after, children, deltas, now);
        }
        if let Some(kept) = self.items.get_mut(&after.seq) {
            // Where it stands in its source is not a transition's to say: it may have been seen elsewhere since.
            let (origin, reading) = (kept.item.origin, kept.item.reading);
            kept.item = Item { origin, reading, ..after };
            kept.payload = payload.unwrap_or_else(|| kept.payload.clone());
            kept.history.attempts.extend(record);
            kept.history.marks.extend(mark);
        }
    }

    fn admit_children(&mut self, parent: &Item, children: Children, deltas: &mut Deltas, now: Timestamp) {
        let entry = entry_of_children(parent, &children, now);
        for new in children.items {
            let id = ItemId::derive(parent.run, Some(parent.id), &new.key, new.version());
            // A stage that runs again gives the same children; those that are there stay as they are.
            if self.ids.contains_key(&id) {
                continue;
            }
            self.admit(new, id, &entry, deltas);
        }
    }

    pub(super) fn purge(&mut self, items: &[ItemRev], operation: Operation, now: Timestamp) -> u64 {
        let operation = self.save_operation(operation);
        let mut deltas = Deltas::default();
        let mut gone = 0;
        for asked in items {
            if !self.items.get(&asked.seq).is_some_and(|kept| may_purge(&kept.item, *asked)) {
                continue;
            }
            for seq in self.with_descendants(asked.seq) {
                if let Some(kept) = self.items.remove(&seq) {
                    self.ids.remove(&kept.item.id);
                    deltas.purged(&kept.item);
                    self.outbox.tell(Fact::of_purged(&kept.item, now));
                    self.outputs.retain(|_, (_, by, _)| *by != seq);
                    self.tombstones.insert(seq, tombstone(&kept.item, operation, now));
                    gone += 1;
                }
            }
        }
        self.count(&deltas);
        gone
    }

    fn was_purged(&self, id: ItemId) -> bool {
        self.tombstones.values().any(|tombstone| tombstone.id == id)
    }

    /// An item and everything that came from it.
    fn with_descendants(&self, seq: ItemSeq) -> Vec<ItemSeq> {
        let mut family = vec![seq];
        let mut at = 0;
        while at < family.len() {
            let parent = family[at];
            let children = self.items.values().filter(|kept| kept.item.parent == Some(parent));
            family.extend(children.map(|kept| kept.item.seq));
            at += 1;
        }
        family
    }

    pub(super) fn prune(&mut self, prune: Prune) -> Pruned {
        let mut pruned = Pruned::default();
        let old: Vec<RunId> = self
            .runs
            .values()
            .filter(|run| run.finished_at.is_some_and(|at| at < prune.finished_before))
            .filter(|run| prune.only.is_none_or(|only| only == run.id))
            .map(|run| run.id)
            .filter(|run| prune.with_dead || !self.any_dead(*run))
            .collect();
        for run in old {
            let left = prune.limit - usize::try_from(pruned.items).unwrap_or(prune.limit).min(prune.limit);
            let of_run: Vec<ItemSeq> =
                self.items.values().filter(|kept| kept.item.run == run).map(|kept| kept.item.seq).collect();
            let mut deltas = Deltas::default();
            for seq in of_run.iter().take(left) {
                if let Some(kept) = self.items.remove(seq) {
                    self.ids.remove(&kept.item.id);
                    deltas.forgotten(&kept.item);
                    pruned.dead += u64::from(kept.item.state.kind() == StateKind::Dead);
                    pruned.items += 1;
                }
            }
            self.count(&deltas);
            if of_run.len() > left {
                pruned.more = true;
                return pruned;
            }
            let room = prune.limit - usize::try_from(pruned.contents).unwrap_or(prune.limit).min(prune.limit);
            let outputs: Vec<_> =
                self.outputs.iter().filter(|(_, (of, _, _))| *of == run).map(|(key, _)| *key).collect();
            for key in outputs.iter().take(room) {
                self.outputs.remove(key);
                pruned.contents += 1;
            }
            if outputs.len() > room {
                pruned.more = true;
                return pruned;
            }
            let before = self.tombstones.len();
            self.tombstones.retain(|_, tombstone| tombstone.run != run);
            pruned.tombstones += (before - self.tombstones.len()) as u64;
            self.keep_what_grows(run);
            self.counters.retain(|(of, _, _), _| *of != run);
            self.config_counters.retain(|(of, _, _, _), _| *of != run);
            self.runs.remove(&run);
            pruned.runs += 1;
        }
        pruned
    }
}
