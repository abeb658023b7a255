//! From replies to a commit.

use redrive_core::budget::BudgetChange;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply, Transition};
use redrive_core::failure::Class;
use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Change, Commit, ControlChange, OutputKey, Pause, Result, RunChange, RunRow};

use super::{Desk, Ended, Halt, Sent};
use crate::{journal, pause_words, shared, trace};

/// Most items in one commit; what is left goes into the next.
const COMMIT_LIMIT: usize = 2_000;
/// A failure budget is saved with every death, and after so many finished items.
const SAVE_BUDGET_EVERY: u32 = 200;

impl Desk {
    /// Decides what has ended and hands out the commit, or the same one again when its fate is unknown.
    pub fn commit(&mut self, now: Timestamp, mut draw: impl FnMut() -> Draw) -> Option<Commit> {
        self.leave_closed_gates(now);
        if self.in_commit.is_empty() {
            while self.in_commit.len() < COMMIT_LIMIT
                && let Some(ended) = self.ended.pop_front()
            {
                self.decide(ended, Moment { now, draw: draw() });
            }
        }
        let run = (!self.halt_saved).then(|| (self.run, self.halting(now))).or_else(|| {
            let dead = self
                .in_commit
                .iter()
                .any(|sent| sent.change.transition.after.state.kind() == StateKind::Dead);
            let save = dead || self.unsaved >= SAVE_BUDGET_EVERY || self.budget.is_behind();
            let budget = save.then(|| self.save_budget()).flatten();
            budget.map(|budget| (self.run, RunChange { budget: Some(budget), ..RunChange::default() }))
        });
        if run.is_some() {
            self.unsaved = 0;
        }
        if self.in_commit.is_empty() && run.is_none() {
            return None;
        }
        let changes = self.in_commit.iter().map(|sent| sent.change.clone()).collect();
        Some(Commit { changes, run, now, ..Commit::default() })
    }

    fn decide(&mut self, ended: Ended, at: Moment) {
        let Ended { claimed, event, usage, receipt } = ended;
        if let Event::Finished(ItemReply::Failed { failure, .. }) = &event
            && self.recipe.reclassified(&claimed.item, failure).class == Class::Quota
        {
            self.stop(Halt::Quota(failure.message().to_owned()));
        }
        let output = match &event {
            Event::Finished(ItemReply::Output(Some(_)) | ItemReply::Judged(_, Some(_))) => {
                self.output_key(&claimed)
            }
            _ => None,
        };
        match decide(&claimed.item, event, &self.plan, at) {
            Ok(mut transition) => {
                if let Some(record) = &mut transition.record {
                    record.usage = usage;
                }
                let mut output = output;
                let goes_on =
                    self.recipe.plan.stage(claimed.item.stage).is_some_and(|stage| stage.next.is_some());
                if transition.children.is_some() && goes_on {
                    transition.payload = Some(claimed.payload.clone());
                    output = Some(OutputKey::expansion(claimed.item.id, claimed.item.stage));
                }
                self.observe(&transition);
                let change = Change { output, ..Change::from(transition) };
                self.in_commit.push(Sent { change, claimed, receipt });
            }
            // A held item can end in every way the desk knows; anything else is a mistake that must not be hidden.
            Err(illegal) => tracing::error!(%illegal, "an outcome could not be decided"),
        }
    }

    fn observe(&mut self, transition: &Transition) {
        let kind = transition.after.state.kind();
        if kind.is_terminal() {
            self.bereft.extend(transition.after.parent);
        }
        if transition.children.is_some() {
            // Its children may all be known and finished already.
            self.bereft.insert(transition.after.seq);
        }
        self.spend(transition);
    }

    /// Takes in a transition that whoever looks after the run has committed.
    pub fn hear_of(&mut self, transition: &Transition) {
        journal::committed(&self.plan, transition);
        self.spend(transition);
    }

    /// Takes a transition into account that was committed, here or by whoever looks after the run, in the budget of the
    /// stage it is from.
    pub fn spend(&mut self, transition: &Transition) {
        self.died |= transition.after.state.kind() == StateKind::Dead;
        let Some(spec) = &self.recipe.budget else { return };
        self.unsaved = self.unsaved.saturating_add(1);
        if let Some(breach) = self.budget.observe(spec, &self.plan, transition) {
            self.stop(Halt::Budget(breach));
        }
    }

    /// Whether items may have died since this was last asked; `looked`: somebody else may have had them die.
    pub fn take_died(&mut self, looked: bool) -> bool {
        std::mem::take(&mut self.died) || looked
    }

    fn halting(&mut self, now: Timestamp) -> RunChange {
        let control = self.halt.as_ref().and_then(pauses);
        let control =
            control.map(|(control, reason)| ControlChange { control, reason: Some(reason), at: now });
        let pause = Some(Pause { since: Some(now), before_ms: self.paused_ms });
        RunChange { control, budget: self.save_budget(), pause, ..RunChange::default() }
    }

    /// What the others should know about the budget: the same again until it is known what became of it.
    pub fn save_budget(&mut self) -> Option<BudgetChange> {
        if self.budget_sent.is_none() {
            self.budget_sent = self.budget.save();
        }
        self.budget_sent.clone()
    }

    /// Takes in the budget that is kept with the run. `true` when all that was seen here is in it.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote it: nothing is written over it.
    pub fn hear_budget(&mut self, row: &RunRow) -> Result<bool> {
        let Some(spec) = &self.recipe.budget else { return Ok(true) };
        let heard = self.budget.hear(row.budget.as_deref(), spec, &self.plan);
        self.budget_sent = None;
        if let Some(breach) = heard.map_err(|why| shared::unreadable_budget(self.run, &why))? {
            self.stop(Halt::Budget(breach));
        }
        Ok(!self.budget.is_behind())
    }

    /// The commit was written. Stale items belong to somebody else now and are dropped; returns how many, without those that
    /// were answered while they were handed over.
    pub fn committed(&mut self, applied: &[Applied]) -> usize {
        if !std::mem::replace(&mut self.halt_saved, true)
            && let Some((control, why)) = self.halt.as_ref().and_then(pauses)
        {
            journal::run_halted(self.run, control, &why);
        }
        let mut dropped = 0;
        for (sent, applied) in self.in_commit.iter().zip(applied) {
            let is_kept = *applied == Applied::Done;
            // Whoever answers before it is written that the item was handed over takes nothing from anybody.
            dropped += usize::from(!is_kept && sent.change.transition.after.handed.is_none());
            if is_kept {
                journal::committed(&self.plan, &sent.change.transition);
                trace::committed(&self.traced, &self.plan, &sent.change.transition);
            }
            sent.receipt.iter().for_each(|receipt| receipt.ended(is_kept));
        }
        self.budget_sent = None;
        self.in_commit.clear();
        dropped
    }
}

/// What is asked of a run that is halted like this, and why; `None` where it is not the worker that asks.
fn pauses(halt: &Halt) -> Option<(Control, String)> {
    match halt {
        Halt::Budget(breach) => Some((Control::PausedBudget, breach.to_string())),
        Halt::DeadLetters { dead, most } => Some((Control::PausedBudget, pause_words::full(*dead, *most))),
        Halt::Quota(reason) => Some((Control::PausedQuota, reason.clone())),
        Halt::Outage(reason) => Some((Control::PausedOutage, reason.clone())),
        Halt::Asked(_) | Halt::Outdated | Halt::Stopping => None,
    }
}
