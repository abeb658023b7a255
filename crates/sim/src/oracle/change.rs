//! Commits: what each must do to the model, and what it must never do.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::attempt::Outcome;
use redrive_core::event::Transition;
use redrive_core::failure::Kind;
use redrive_core::id::{ItemId, ItemSeq, StageNo};
use redrive_core::item::{DeadReason, Item, Payload, State, StateKind};
use redrive_core::status::Control;
use redrive_core::tally::{Metric, place};
use redrive_core::verdict::Verdict;
use redrive_store::{Applied, ClaimedItem, Commit, Pause, RunChange, RunEnd, RunRow, Store};

use super::admit::Expected;
use super::{Known, Oracle, Ruling, broken};
use crate::hub::{Broken, at_once};
use crate::met::Met;

impl Oracle {
    /// Takes in a commit.
    ///
    /// # Errors
    /// What is wrong with the answers, or with what was written.
    pub fn on_commit(&mut self, store: &dyn Store, commit: &Commit, applied: &[Applied]) -> Ruling {
        let touched = self.committed(store, commit, applied, &[])?;
        self.verify(store, &touched)
    }

    /// Takes in what a commit did to its items; `given` are those that were claimed after it, before anybody could look.
    pub(super) fn committed(
        &mut self,
        store: &dyn Store,
        commit: &Commit,
        applied: &[Applied],
        given: &[ClaimedItem],
    ) -> Result<Vec<ItemSeq>, Broken> {
        if applied.len() != commit.changes.len() {
            return broken("L3", format!("{} answers to {} changes", applied.len(), commit.changes.len()));
        }
        let done = applied.iter().filter(|applied| **applied == Applied::Done).count();
        if commit.all_or_nothing && done != 0 && done != applied.len() {
            return broken(
                "L3",
                format!("{done} of {} written of a commit of all or nothing", applied.len()),
            );
        }
        let refused = commit.unless_cancelled.is_some() && self.control == Control::Cancelled;
        if refused && done != 0 {
            return broken("control", format!("{done} changes of a cancelled run were written"));
        }
        let may_refuse = refused || (commit.all_or_nothing && !self.fits_together(commit));
        let mut expected = Expected::new();
        let mut touched = Vec::with_capacity(done);
        for (change, applied) in commit.changes.iter().zip(applied) {
            let transition = &change.transition;
            match (applied, self.is_live_token(transition)) {
                (Applied::Done, true) => {
                    self.apply(transition, &mut expected)?;
                    touched.push(transition.after.seq);
                }
                (Applied::Done, false) => {
                    return broken("L3", format!("{} was changed with a stale token", transition.after.key));
                }
                (Applied::Stale, true) if !may_refuse => {
                    return broken(
                        "L3",
                        format!("{} was not changed with a live token", transition.after.key),
                    );
                }
                (Applied::Stale, _) => self.hub.meet(Met::Stale),
            }
        }
        self.log_commit(commit, applied);
        touched.extend(self.take_new(store, expected, given)?);
        let written = !refused && (!commit.all_or_nothing || done == applied.len());
        if let Some((_, change)) = &commit.run {
            let (before, budget) = (self.control, self.budget.clone());
            let row = self.row(store)?;
            if written {
                as_asked(before, budget, change, &row, self.live)?;
            }
        }
        Ok(touched)
    }

    /// Whether a transition was decided for what its item is now.
    pub(super) fn is_live_token(&self, transition: &Transition) -> bool {
        self.items.get(&transition.after.seq).is_some_and(|known| known.item.rev == transition.guard)
    }

    /// Whether nothing keeps a commit of all or nothing from being written.
    fn fits_together(&self, commit: &Commit) -> bool {
        let seqs: BTreeSet<_> = commit.changes.iter().map(|change| change.transition.after.seq).collect();
        seqs.len() == commit.changes.len()
            && commit.changes.iter().all(|change| self.is_live_token(&change.transition))
    }

    fn log_commit(&self, commit: &Commit, applied: &[Applied]) {
        let done = applied.iter().filter(|applied| **applied == Applied::Done).count();
        self.hub.log("committed", &[i64::try_from(done).unwrap_or(0)], || {
            let each = commit.changes.iter().zip(applied).map(|(change, applied)| {
                let after = &change.transition.after;
                let ended = change.transition.record.as_ref().map_or("-", |record| record.outcome.name());
                let mark = change.transition.mark.as_ref().map_or("", |mark| mark.what);
                format!(
                    "{}@{} {ended} {mark} -> {:?} {applied:?}",
                    after.key,
                    after.stage.0,
                    after.state.kind()
                )
            });
            each.collect::<Vec<_>>().join("; ")
        });
    }

    pub(super) fn apply(&mut self, transition: &Transition, expected: &mut Expected) -> Ruling {
        let Transition { after, record, mark, children, payload, from, .. } = transition;
        let Some(known) = self.items.get(&after.seq) else { return Ok(()) };
        allowed(&known.item, transition)?;
        self.goes_under(&known.item, transition)?;
        if place(&known.item) != *from {
            return broken("L1", format!("{} was counted out of {from:?}, and stands elsewhere", after.key));
        }
        self.content(transition)?;
        let found = self.found(known, transition)?;
        self.joins(transition)?;
        in_time(known, transition)?;
        self.damaged(known, transition)?;
        self.blame(&known.item, transition)?;
        if mark.as_ref().is_some_and(|mark| matches!(mark.what, "stepped" | "rescheduled")) {
            // A clock was put right, or somebody said otherwise, and with it until when it waits.
            self.hints.remove(&(after.id, after.stage));
        }
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
        known.found = found;
        if children.is_some() {
            known.expanded = Some(known.payload.clone());
        }
        if let Some(payload) = payload {
            known.payload = payload.clone();
            if record.is_none() {
                known.base = (after.stage, payload.clone());
            }
        }
        let (origin, reading) = (known.item.origin, known.item.reading);
        let before = std::mem::replace(&mut known.item, Item { origin, reading, ..after.clone() });
        self.untold.moved(&before, transition);
        self.stand(&before, -1);
        self.stand(after, 1);
        if before.state.kind() != StateKind::Dead {
            self.bury(after);
        }
        Ok(())
    }

    /// L5: what a stage is said to have given is what the script computes from what it was given; nothing else changes
    /// content but an operator's edit, a line that changed back, and a join that is open again.
    fn content(&self, transition: &Transition) -> Ruling {
        let Some(known) = self.items.get(&transition.after.seq) else { return Ok(()) };
        let stage = known.item.stage;
        let mark = transition.mark.as_ref().map_or("", |mark| mark.what);
        let wanted: Option<Payload> = match (transition.record.as_ref().map(|record| record.outcome), mark) {
            // What a handler knows to need no call is kept as it is.
            (Some(Outcome::Reused), _) if self.script.recalls(stage) && transition.payload.is_some() => {
                Some(known.payload.clone())
            }
            (Some(Outcome::Succeeded | Outcome::Reused), _) => self.script.output(stage, &known.payload),
            (Some(Outcome::Expanded), _) if transition.payload.is_some() => Some(known.payload.clone()),
            // What had ended already has its last content.
            (_, "restored") if transition.after.state.kind().is_terminal() => None,
            (_, "restored") if known.item.parent.is_none() => Some(known.first.clone()),
            (_, "restored") => None,
            (_, "reopened") if transition.after.stage != stage => known.expanded.clone(),
            (_, "rerun") => Some(self.was_given(known, transition.after.stage)),
            (_, "redriven" | "edited") => return Ok(()),
            _ => None,
        };
        if transition.payload != wanted {
            return broken(
                "L5",
                format!("{} has content at stage {} that is not its own, {mark}", known.item.key, stage.0),
            );
        }
        Ok(())
    }

    /// L3: what a stage is said to have found is what the script finds, the last one is the item's, and what is to be passed
    /// anew is forgotten.
    fn found(&self, known: &Known, transition: &Transition) -> Result<BTreeMap<StageNo, Verdict>, Broken> {
        let (mut found, after) = (known.found.clone(), &transition.after);
        if let Some(record) = transition.record.as_ref() {
            let scripted = match record.outcome {
                Outcome::Succeeded | Outcome::Reused => self.script.verdict(record.stage, &known.payload),
                _ => None,
            };
            if record.verdict != scripted {
                let (key, stage, said) = (&after.key, record.stage.0, record.verdict);
                return broken("L3", format!("stage {stage} finds {scripted:?} of {key}, not {said:?}"));
            }
            if record.outcome.is_pass() {
                found.retain(|stage, _| *stage < record.stage);
                found.extend(scripted.map(|verdict| (record.stage, verdict)));
            }
        }
        if !matches!(after.state, State::Succeeded | State::Superseded { .. } | State::Cancelled) {
            found.retain(|stage, _| *stage < after.stage);
        }
        let kept: BTreeMap<StageNo, Verdict> =
            after.verdicts.stages().filter_map(|stage| Some((stage, after.verdicts.of(stage)?))).collect();
        if kept != found {
            return broken("L3", format!("{} was found {kept:?}, and was to be {found:?}", after.key));
        }
        if after.verdict().is_some() {
            self.hub.meet(Met::Judged);
        }
        Ok(found)
    }

    /// What a stage was given of an item, by what it was submitted with; one that ended at the stage still has it.
    fn was_given(&self, known: &Known, stage: StageNo) -> Payload {
        let ended = matches!(known.item.state.kind(), StateKind::Filtered | StateKind::Dead);
        if ended && known.item.stage == stage {
            return known.payload.clone();
        }
        let plan = &self.recipe.plan;
        let (mut payload, mut next) = (known.first.clone(), plan.stages().next().map(|(no, _)| no));
        while let Some(no) = next.filter(|no| *no != stage) {
            payload = self.script.output(no, &payload).unwrap_or(payload);
            next = plan.stage(no).and_then(|stage| stage.next);
        }
        payload
    }

    /// L11: a parent goes on when its children are finished, not when they were taken out.
    fn joins(&self, transition: &Transition) -> Ruling {
        let gone = self.tally(transition.after.seq).gone;
        let joined = transition.mark.as_ref().is_some_and(|mark| mark.what == "joined");
        if joined && gone > 0 && self.control != Control::Cancelled {
            let key = &transition.after.key;
            return broken("L11", format!("{key} was joined without {gone} children that were taken out"));
        }
        Ok(())
    }

    /// An item whose content is damaged dies of that, and of nothing else, unless somebody takes it out of its worker's hands.
    fn damaged(&self, known: &Known, transition: &Transition) -> Ruling {
        if known.damaged != Some(known.item.rev) {
            return Ok(());
        }
        let last = transition.after.last.as_ref();
        let dies = transition.after.state == State::Dead { reason: DeadReason::Final }
            && last.is_some_and(|last| last.message.starts_with("its content is damaged"));
        let outcome = transition.record.as_ref().map(|record| record.outcome);
        let taken = matches!(outcome, Some(Outcome::Crashed | Outcome::Cancelled));
        if dies || taken {
            return Ok(());
        }
        let state = &transition.after.state;
        broken("damage", format!("{} is damaged, and {state:?} instead of dead of that", known.item.key))
    }

    fn met(&self, transition: &Transition) {
        let outcome = transition.record.as_ref().map(|record| record.outcome);
        let worker = |kind: Kind| kind == Kind::Worker;
        let lost = transition
            .record
            .as_ref()
            .and_then(|record| record.failure.as_ref())
            .is_some_and(|f| worker(f.kind));
        let mut all = Vec::new();
        all.extend(lost.then_some(Met::Takeover));
        all.extend((outcome == Some(Outcome::Reused)).then_some(Met::Reused));
        let failure = transition.record.as_ref().and_then(|record| record.failure.as_ref());
        let unanswered =
            |message: &str| message.starts_with("no answer within") && message.ends_with("handed over");
        all.extend(failure.filter(|failure| unanswered(&failure.message)).map(|_| Met::Unanswered));
        all.extend(transition.after.handed.as_ref().map(|_| match transition.from.awaited {
            true => Met::AskedInVain,
            false => Met::HandedOver,
        }));
        all.extend(match transition.after.state {
            State::Dead { reason: DeadReason::Expired } => Some(Met::Expired),
            State::Dead { reason: DeadReason::Quarantined } => Some(Met::Quarantined),
            State::Dead { reason: DeadReason::Exhausted } => Some(Met::Exhausted),
            State::Superseded { .. } => Some(Met::Superseded),
            _ => None,
        });
        all.extend(transition.mark.as_ref().and_then(|mark| match mark.what {
            "edited" => Some(Met::Edited),
            "redriven" => Some(Met::Redrive),
            "reopened" => Some(Met::Reopened),
            "joined" => Some(Met::Joined),
            "killed" => Some(Met::Killed),
            "restored" => Some(Met::Restored),
            "stepped" => Some(Met::ClockMended),
            "rescheduled" => Some(Met::Rescheduled),
            "rerun" => Some(Met::Rerun),
            _ => None,
        }));
        all.into_iter().for_each(|met| self.hub.meet(met));
    }

    pub(crate) fn row(&mut self, store: &dyn Store) -> Result<RunRow, Broken> {
        match at_once(store.run(self.run)) {
            Ok(Some(row)) => self.on_run(&row).map(|()| row),
            other => broken("L1", format!("the run is {other:?}")),
        }
    }
}

/// Whether a run was changed as asked. A cancelled run stays so, and one with live items is not finished.
pub(super) fn as_asked(
    before: Control,
    kept: Option<String>,
    change: &RunChange,
    row: &RunRow,
    live: u64,
) -> Ruling {
    let control = change.control.as_ref().is_none_or(|asked| asked.control == row.control);
    let budget = match &change.budget {
        Some(asked) if asked.was == kept => row.budget.as_ref() == Some(&asked.becomes),
        Some(_) | None => row.budget == kept,
    };
    let finished = match change.end {
        Some(RunEnd::Finished(at)) if live == 0 => row.finished_at == Some(at),
        Some(RunEnd::IfDone(_)) => row.finished_at.is_none() || live == 0 && row.admitted_all,
        Some(RunEnd::Finished(_) | RunEnd::GoesOn) => row.finished_at.is_none(),
        None => true,
    };
    let paused = change.pause.is_none_or(|pause| pause == row.pause);
    // Nobody is at a run that has ended, whoever says so.
    let ended = |idle: Pause| idle.since.is_none() && row.finished_at.is_some();
    let idle = change.idle.is_none_or(|idle| idle == row.idle || ended(idle));
    if (control || before == Control::Cancelled) && budget && finished && paused && idle {
        return Ok(());
    }
    broken("control", format!("{change:?} was asked of the run, and it is {:?}", row.control))
}

/// Deadlines do not run while the run is paused.
fn in_time(known: &Known, transition: &Transition) -> Ruling {
    let expired = transition.record.as_ref().is_some_and(|record| record.outcome == Outcome::Expired);
    match (&known.item.state, known.item.deadline) {
        (State::Running { since, .. }, Some(deadline))
            if expired && since.0 <= deadline.0.saturating_add(known.paused_ms) =>
        {
            broken(
                "deadline",
                format!("{} expired, {} ms of pauses not counted", known.item.key, known.paused_ms),
            )
        }
        _ => Ok(()),
    }
}

/// Which moves there are; finished states are left only by redrive, rerun, reopening, a newer version or none in the source, and the
/// way back to it: what had ended well has ended then, too.
fn allowed(before: &Item, transition: &Transition) -> Ruling {
    let after = &transition.after;
    let mark = transition.mark.as_ref().map_or("", |mark| mark.what);
    let fits = match (before.state.kind(), after.state.kind(), mark) {
        (StateKind::Dead, StateKind::Waiting, "redriven" | "edited") => {
            after.generation == before.generation + 1
        }
        (from @ (StateKind::Superseded | StateKind::Cancelled), StateKind::Waiting, "restored") => {
            let may = from == StateKind::Superseded || before.parent.is_some();
            may && after.generation == before.generation + 1 && after.attempt == 0
        }
        (StateKind::Dead | StateKind::Succeeded | StateKind::Filtered, StateKind::Waiting, "rerun") => {
            let fresh = after.generation == before.generation + 1 && after.attempt == 0;
            fresh && after.stage <= before.stage && before.parent.is_none()
        }
        (StateKind::Dead | StateKind::Succeeded, StateKind::Joining, "reopened") => true,
        (StateKind::Superseded, ended, "restored") => {
            before.state == State::Superseded { was: ended } && after.generation == before.generation
        }
        (
            from @ (StateKind::Dead | StateKind::Succeeded | StateKind::Filtered),
            StateKind::Superseded,
            "superseded" | "removed",
        ) => after.state == State::Superseded { was: from },
        (StateKind::Waiting, to, "rescheduled") => {
            let spent =
                |item: &Item| (item.generation, item.attempt, item.failures, item.throttles, item.crashes);
            to == StateKind::Waiting && spent(after) == spent(before) && after.deadline == before.deadline
        }
        (from, ..) => !from.is_terminal(),
    };
    if !fits {
        return broken(
            "L3",
            format!("{} went from {:?} to {:?} by {mark:?}", before.key, before.state, after.state),
        );
    }
    if after.rev <= before.rev
        || after.id != before.id
        || after.parent != before.parent
        || after.key != before.key
    {
        return broken("L3", format!("{} changed its name or its token went back", before.key));
    }
    let ended = transition.record.as_ref().map(|record| (record.stage, record.generation, record.attempt));
    let running = before.state.kind() == StateKind::Running || before.handed.is_some();
    let given_back =
        running && after.state.kind() == StateKind::Waiting && after.attempt + 1 == before.attempt;
    // An attempt that is handed over stays open, with its number.
    let open = after.handed.is_some() && after.attempt == before.attempt && after.stage == before.stage;
    match ended {
        Some(_) if after.handed.is_some() => {
            broken("L2", format!("{} is handed over, and its attempt has ended", before.key))
        }
        Some(ended) if !running || ended != (before.stage, before.generation, before.attempt) => {
            broken("L2", format!("{} got a record of {ended:?}", before.key))
        }
        None if running && !given_back && !open => {
            broken("L2", format!("an attempt of {} ended without a record", before.key))
        }
        _ => Ok(()),
    }
}
