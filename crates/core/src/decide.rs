//! The state machine: the one place that says what follows from what.
//!
//! Success, failure, crash, lost lease, cancel, redrive: every event goes through [`decide`], which is handed the
//! clock and the dice as values and returns a [`Transition`] for a store to commit. It performs nothing.
//!
//! Every match over states is exhaustive on purpose: a new state has to be thought through here.

mod answer;
mod failure;
mod told;

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{AttemptFailure, AttemptRecord, Outcome};
use crate::draw::Draw;
use crate::event::{ChildTally, Children, Event, ItemReply, Joined, Mark, Transition};
use crate::fact::{Facts, Happened, follow};
use crate::failure::{Class, Failure, Kind};
use crate::id::{ItemId, StageNo, WorkerId};
use crate::item::{DeadReason, Item, NewItem, Payload, State, StateKind};
use crate::plan::{ChildFailure, Plan, StagePlan};
use crate::policy::{Cause, Policy};
use crate::tally::place;
use crate::time::{CLOCK_SLACK, Timestamp};
use crate::verdict::Verdict;

pub(crate) use told::rescheduled;

/// Most children one item may expand into; they are admitted in one transaction.
pub const MAX_CHILDREN: usize = 100_000;

/// When a decision is made, and its luck.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// The dice.
    pub draw: Draw,
}

/// An event that cannot happen to an item in its state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("item {item} is {state}: {what}")]
pub struct Illegal {
    /// Which item.
    pub item: ItemId,
    /// Its state.
    pub state: StateKind,
    /// What cannot be done.
    pub what: &'static str,
}

/// Says what follows from `event` for `item`.
///
/// # Errors
/// [`Illegal`] when the event cannot happen in the item's state; nothing is to be written then.
pub fn decide(item: &Item, event: Event, plan: &Plan, at: Moment) -> Result<Transition, Illegal> {
    let Some(stage) = plan.stage(item.stage) else {
        return Err(illegal(item, "its stage is not in this version of the pipeline"));
    };
    let desk = Desk { item, stage, plan, at };
    let happened = Happened::of(&event);
    let mut next = desk.transition(event)?;
    next.facts = follow(happened, item, &next);
    Ok(next)
}

fn illegal(item: &Item, what: &'static str) -> Illegal {
    Illegal { item: item.id, state: item.state.kind(), what }
}

/// Everything a decision looks at.
struct Desk<'a> {
    item: &'a Item,
    stage: &'a StagePlan,
    plan: &'a Plan,
    at: Moment,
}

impl Desk<'_> {
    fn transition(&self, event: Event) -> Result<Transition, Illegal> {
        match event {
            Event::Claimed { worker } => self.claimed(worker),
            Event::Finished(reply) => self.finished(reply),
            Event::Answered(reply) => self.answered(reply),
            Event::Unanswered => self.unanswered(),
            Event::Released => self.released(),
            Event::Interrupted => self.interrupted(),
            Event::LeaseExpired => self.lease_expired(),
            Event::DeadlinePassed => self.deadline_passed(),
            Event::ContentDamaged { what } => self.content_damaged(&what),
            Event::ClockSteppedBack => self.clock_stepped_back(),
            Event::ChildrenSettled(tally) => self.children_settled(tally),
            Event::ChildReopened { stage } => self.child_reopened(stage),
            Event::CancelRequested => self.cancelled(),
            Event::Superseded(gone) => self.superseded(gone),
            Event::Reconfigured => self.reconfigured(),
            Event::Restored { payload } => self.restored(payload),
            Event::Rescheduled { due } => self.rescheduled(due),
            Event::Rerun { stage, payload } => self.rerun(stage, payload),
            Event::Redriven { due, payload, policy } => self.redriven(due, payload, policy),
            Event::Killed { why } => self.killed(&why),
        }
    }

    fn illegal<T>(&self, what: &'static str) -> Result<T, Illegal> {
        Err(illegal(self.item, what))
    }

    /// The holder, for events that only a held item can have.
    fn held(&self, what: &'static str) -> Result<(WorkerId, Timestamp), Illegal> {
        match self.item.state {
            State::Running { worker, since } => Ok((worker, self.began(since))),
            State::Waiting { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => self.illegal(what),
        }
    }

    /// The policy that the item goes under.
    fn policy(&self) -> &Policy {
        self.stage.policy_of(self.item)
    }

    fn to(&self, state: State) -> Transition {
        let mut after = self.item.clone();
        after.state = state;
        after.handed = None;
        after.rev = self.item.rev.next();
        after.updated_at = self.at.now;
        let ahead = self.item.updated_at > self.at.now.after(CLOCK_SLACK);
        if ahead && matches!(self.item.state, State::Running { .. }) {
            self.mend_deadline(&mut after);
        }
        Transition {
            guard: self.item.rev,
            from: place(self.item),
            tries: self.item.tries(),
            anew: self.item.failures == 0 && self.item.crashes == 0,
            under: self.item.policy.clone(),
            after,
            payload: None,
            record: None,
            children: None,
            effect: None,
            mark: None,
            healed: None,
            facts: Facts::default(),
        }
    }

    fn claimed(&self, worker: WorkerId) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Waiting { due, .. } if due <= self.at.now => {
                let mut next = self.to(State::Running { worker, since: self.at.now });
                // Who looks after an answer goes on with the attempt that it is awaited for.
                next.after.handed.clone_from(&self.item.handed);
                let begun = u32::from(self.item.handed.is_none());
                next.after.attempt = self.item.attempt.saturating_add(begun);
                Ok(next)
            }
            State::Waiting { .. } => self.illegal("it is not due yet"),
            State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => self.illegal("only a waiting item can be claimed"),
        }
    }

    fn finished(&self, reply: ItemReply) -> Result<Transition, Illegal> {
        let held = self.held("only a running item can finish")?;
        Ok(self.ended(held, reply))
    }

    fn ended(&self, held: (WorkerId, Timestamp), reply: ItemReply) -> Transition {
        match reply {
            ItemReply::Output(payload) => self.passed(held, Outcome::Succeeded, payload, None),
            ItemReply::Judged(verdict, payload) => {
                self.passed(held, Outcome::Succeeded, payload, Some(verdict))
            }
            ItemReply::Indexed(effect, payload) => {
                let mut next = self.passed(held, Outcome::Succeeded, payload, None);
                next.effect = Some(effect);
                next
            }
            ItemReply::Reused(payload, verdict) => self.passed(held, Outcome::Reused, Some(payload), verdict),
            ItemReply::Filtered(reason) => {
                let mut next = self.to(State::Filtered { reason: reason.chars().take(500).collect() });
                next.after.last = None;
                next.record = Some(self.record(held, Outcome::Filtered, None, None));
                next
            }
            ItemReply::Children(children) => match self.refuse_children(&children) {
                Some(failure) => self.failed(held, failure, false),
                None => self.expanded(held, children),
            },
            ItemReply::Failed { failure, shared } => self.failed(held, failure, shared),
            ItemReply::TurnedAway { failure, wait } => self.turned_away(held, failure, wait),
            ItemReply::HandedOver(over) => self.handed_over(held, over),
        }
    }

    fn passed(
        &self,
        held: (WorkerId, Timestamp),
        outcome: Outcome,
        payload: Option<Payload>,
        verdict: Option<Verdict>,
    ) -> Transition {
        let mut next = self.advance();
        next.payload = payload;
        next.after.verdicts.found(self.item.stage, verdict);
        next.record = Some(AttemptRecord { verdict, ..self.record(held, outcome, None, None) });
        next.healed = self.failing_since().map(|failed| self.at.now.since(failed));
        next
    }

    /// Since when it fails here, whether it was sent back in between or not.
    fn failing_since(&self) -> Option<Timestamp> {
        self.item.failing_since.or(self.item.first_failed_at)
    }

    /// On to the next stage of the list, with counters that start anew, or to success.
    fn advance(&self) -> Transition {
        let mut next = match self.stage.next {
            Some(stage) => {
                let mut next = self.to(State::Waiting { due: self.at.now, cause: None });
                next.after.stage = stage;
                next.after.attempt = 0;
                next.after.failures = 0;
                next.after.throttles = 0;
                next.after.crashes = 0;
                next.after.earlier = 0;
                next.after.policy = None;
                next
            }
            None => self.to(State::Succeeded),
        };
        next.after.first_failed_at = None;
        next.after.failing_since = None;
        next.after.last = None;
        next
    }

    fn refuse_children(&self, children: &[NewItem]) -> Option<Failure> {
        let complaint = |text: String| Some(Failure::new(Class::Retryable, Kind::Answer, text));
        if self.stage.first_child.is_none() && !children.is_empty() {
            return complaint(format!(
                "stage {} answered with {} children, but the pipeline gives it no [[stage.children]]",
                self.stage.name,
                children.len()
            ));
        }
        if children.len() > MAX_CHILDREN {
            return complaint(format!("{} children, more than the {MAX_CHILDREN} allowed", children.len()));
        }
        let mut keys: Vec<&str> = children.iter().map(|child| &*child.key).collect();
        keys.sort_unstable();
        let twice = keys.windows(2).find(|pair| pair[0] == pair[1])?;
        complaint(format!("two children with the key {:?}", twice[0]))
    }

    fn expanded(&self, held: (WorkerId, Timestamp), children: Vec<NewItem>) -> Transition {
        let record = self.record(held, Outcome::Expanded, None, None);
        let mut next = match self.stage.first_child {
            Some(stage) if !children.is_empty() => {
                let mut next = self.to(State::Joining);
                next.after.first_failed_at = None;
                next.after.failing_since = None;
                next.after.last = None;
                next.children = Some(Children { stage, deadline: self.item.deadline, items: children });
                next
            }
            // Nothing to wait for: an item without children is complete at once.
            _ => self.advance(),
        };
        next.record = Some(record);
        next.healed = self.failing_since().map(|failed| self.at.now.since(failed));
        next
    }

    fn released(&self) -> Result<Transition, Illegal> {
        self.held("only a running item can be given back")?;
        if let Some(next) = self.goes_on_waiting() {
            return Ok(next);
        }
        let attempt = self.item.attempt.saturating_sub(1);
        // Nothing was called, so the number is given back, and a fresh item keeps its old place in line.
        let due = if attempt == 0 { self.item.created_at.min(self.at.now) } else { self.at.now };
        let mut next = self.to(State::Waiting { due, cause: None });
        next.after.attempt = attempt;
        Ok(next)
    }

    fn interrupted(&self) -> Result<Transition, Illegal> {
        let held = self.held("only a running item can be interrupted")?;
        if let Some(next) = self.goes_on_waiting() {
            return Ok(next);
        }
        let wait = (Duration::ZERO, Cause::Immediate);
        let mut next = self.to(State::Waiting { due: self.at.now, cause: Some(wait.1) });
        next.record = Some(self.record(held, Outcome::Interrupted, None, Some(wait)));
        Ok(next)
    }

    fn lease_expired(&self) -> Result<Transition, Illegal> {
        let held = self.held("only a running item has a lease")?;
        if let Some(next) = self.goes_on_waiting() {
            return Ok(next);
        }
        let text = format!("worker {} vanished while it held the item", held.0);
        Ok(self.failed(held, Failure::new(Class::Crash, Kind::Worker, text), false))
    }

    /// A deadline that a clock set which was ahead is no later than it would be if it were set now.
    fn mend_deadline(&self, after: &mut Item) {
        let begins = match after.state {
            State::Waiting { due, .. } => self.at.now.max(due),
            _ => self.at.now,
        };
        let latest = self.plan.deadline().map(|span| begins.after(span));
        after.first_failed_at = after.first_failed_at.map(|failed| failed.min(self.at.now));
        after.failing_since = after.failing_since.map(|failed| failed.min(self.at.now));
        after.deadline =
            self.item.deadline.into_iter().chain(latest).min().filter(|_| self.item.deadline.is_some());
    }

    /// A wait is as long as it was decided to be, whatever the clock did since: the same wait from now on. Deadlines that
    /// were set by a clock that was ahead are no later than they would be if they were set now.
    fn clock_stepped_back(&self) -> Result<Transition, Illegal> {
        let (due, cause) = match self.item.state {
            State::Waiting { due, cause } if self.item.updated_at > self.at.now => (due, cause),
            State::Waiting { .. } => return self.illegal("it was last changed before now"),
            State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => return self.illegal("only a waiting item waits for the clock"),
        };
        let now = self.at.now;
        let step = self.item.updated_at.since(now);
        let wait = due.since(self.item.updated_at);
        let due = due.min(now.after(wait));
        let mut next = self.to(State::Waiting { due, cause });
        next.after.handed = self.item.handed.clone().map(|handed| self.put_back(handed));
        self.mend_deadline(&mut next.after);
        let detail = format!(
            "the clock is back by {}.{:03} s; its wait of {}.{:03} s begins anew",
            step.as_secs(),
            step.subsec_millis(),
            wait.as_secs(),
            wait.subsec_millis()
        );
        next.mark = Some(self.mark("stepped", &detail));
        Ok(next)
    }

    fn children_settled(&self, tally: ChildTally) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Joining => {}
            State::Waiting { .. }
            | State::Running { .. }
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => return self.illegal("it is not waiting for children"),
        }
        let dead = match (tally.joined(), self.stage.child_failure) {
            (Joined::Open, _) => return self.illegal("some of its children are not finished"),
            (Joined::Complete, _) | (Joined::CompleteWithFailures, ChildFailure::Continue) => false,
            (Joined::Failed, _) | (Joined::CompleteWithFailures, ChildFailure::Dead) => true,
        };
        let total = tally.done + tally.dead + tally.gone;
        let mut next = if dead {
            let text = format!("{} of {total} children are dead", tally.dead);
            let mut next = self.to(State::Dead { reason: DeadReason::Final });
            next.after.last = Some(self.fatal(&Failure::new(Class::Final, Kind::Handler, text)));
            next
        } else {
            self.advance()
        };
        next.mark = Some(
            self.mark("joined", &format!("{} done, {} dead of {total} children", tally.done, tally.dead)),
        );
        Ok(next)
    }

    fn child_reopened(&self, stage: StageNo) -> Result<Transition, Illegal> {
        let mut next = self.to(State::Joining);
        match self.item.state {
            // The change number moves on, so the holder's result is refused; the stage runs again after the join.
            State::Joining
            | State::Waiting { .. }
            | State::Running { .. }
            | State::Succeeded
            | State::Dead { .. } => next.record = self.broken_off(),
            State::Filtered { .. } | State::Superseded { .. } | State::Cancelled => {
                return self.illegal("an item that was taken out does not wait for children");
            }
        }
        next.after.stage = stage;
        next.after.verdicts.forget_from(stage);
        if stage != self.item.stage {
            next.after.generation = self.item.generation.saturating_add(1);
            next.after.attempt = 0;
            next.after.failures = 0;
            next.after.throttles = 0;
            next.after.crashes = 0;
            next.after.earlier = 0;
            next.after.first_failed_at = None;
            next.after.failing_since = None;
            next.after.policy = None;
        }
        next.after.deadline = self.plan.deadline().map(|span| self.at.now.after(span));
        next.after.last = None;
        next.mark = Some(self.mark("reopened", "a child lives again"));
        Ok(next)
    }

    fn record(
        &self,
        (worker, since): (WorkerId, Timestamp),
        outcome: Outcome,
        failure: Option<&Failure>,
        wait: Option<(Duration, Cause)>,
    ) -> AttemptRecord {
        AttemptRecord {
            stage: self.item.stage,
            generation: self.item.generation,
            attempt: self.item.attempt,
            started_at: since,
            ended_at: self.at.now.max(since),
            outcome,
            failure: failure.map(|failure| AttemptFailure {
                class: failure.class,
                kind: failure.kind,
                status: failure.status,
                message: Arc::from(failure.message()),
            }),
            wait,
            worker,
            config: self.stage.config,
            usage: None,
            verdict: None,
        }
    }

    fn mark(&self, what: &'static str, detail: &str) -> Mark {
        Mark { at: self.at.now, what, detail: Arc::from(detail) }
    }
}
