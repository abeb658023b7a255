//! What follows from a failure: another try, or death; and what is remembered of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Desk, Illegal};
use crate::attempt::Outcome;
use crate::event::Transition;
use crate::failure::{Class, Failure, Kind};
use crate::fingerprint::fingerprint;
use crate::id::WorkerId;
use crate::item::{DeadReason, LastFailure, State};
use crate::policy::{Cause, Next, Wait};
use crate::time::Timestamp;

/// How long before its deadline an item that was asked to wait for longer is tried once more.
const LAST_TRY: Duration = Duration::from_secs(1);

/// What becomes of an item that failed.
enum Fate {
    Wait(Wait),
    Dead(DeadReason),
}

impl Fate {
    fn of(next: Next, reason: DeadReason) -> Self {
        match next {
            Next::Retry(wait) => Self::Wait(wait),
            Next::GiveUp => Self::Dead(reason),
        }
    }
}

/// What an item has spent at its stage.
#[derive(Clone, Copy)]
struct Spent {
    failures: u32,
    throttles: u32,
    crashes: u32,
}

impl Desk<'_> {
    pub(super) fn failed(&self, held: (WorkerId, Timestamp), failure: Failure, shared: bool) -> Transition {
        let failure = self.policy().reclassify(failure);
        let mut spent = self.spent();
        let (outcome, fate) = match failure.class {
            Class::Final | Class::Oversized => {
                spent.failures += 1;
                (Outcome::Failed, Fate::Dead(DeadReason::Final))
            }
            Class::Retryable | Class::Timeout => {
                spent.failures += 1;
                let next = self.policy().after_failure(spent.failures, &failure, self.at.draw);
                (Outcome::Failed, Fate::of(next, DeadReason::Exhausted))
            }
            Class::RateLimited => {
                spent.throttles += 1;
                let wait = self.policy().after_throttle(spent.throttles, failure.hint, self.at.draw);
                (Outcome::Throttled, Fate::Wait(wait))
            }
            // A human has to act: the run is paused by whoever records this, and the item is due when it goes on.
            Class::Quota => {
                spent.throttles += 1;
                (Outcome::Throttled, Fate::Wait(Wait { delay: Duration::ZERO, cause: Cause::Quota }))
            }
            Class::Crash => {
                spent.crashes += 1;
                let next = self.policy().after_crash(spent.crashes, failure.kind, self.at.draw);
                (Outcome::Crashed, Fate::of(next, DeadReason::Quarantined))
            }
        };
        self.met_with(held, &failure, shared, spent, outcome, fate)
    }

    /// The gate answers for the failure: whatever its class, it spends nothing but time.
    pub(super) fn turned_away(
        &self,
        held: (WorkerId, Timestamp),
        failure: Failure,
        wait: Duration,
    ) -> Transition {
        let failure = self.policy().reclassify(failure);
        let spent = Spent { throttles: self.item.throttles.saturating_add(1), ..self.spent() };
        let fate = Fate::Wait(Wait { delay: wait, cause: Cause::Gate });
        self.met_with(held, &failure, true, spent, Outcome::Throttled, fate)
    }

    fn spent(&self) -> Spent {
        let item = self.item;
        Spent { failures: item.failures, throttles: item.throttles, crashes: item.crashes }
    }

    /// The transition to a fate, as far as the deadlines allow it.
    fn met_with(
        &self,
        held: (WorkerId, Timestamp),
        failure: &Failure,
        shared: bool,
        spent: Spent,
        outcome: Outcome,
        fate: Fate,
    ) -> Transition {
        let failing = (outcome != Outcome::Throttled).then_some(self.at.now);
        let first_failed_at = self.item.first_failed_at.map(|failed| failed.min(self.at.now)).or(failing);
        let mut last = self.last_failure(failure, shared);
        let hinted = matches!(&fate, Fate::Wait(Wait { cause: Cause::Hint | Cause::Parked, .. }));
        let (state, wait) = match self.within_deadline(fate, first_failed_at) {
            Fate::Dead(reason) => {
                if hinted {
                    let asked = failure.hint.unwrap_or_default().as_secs();
                    let text =
                        format!("{}; it asks to wait {asked} s, and the deadline is nearer", last.message);
                    last.message = Arc::from(text);
                }
                last.group = self.group(&last);
                (State::Dead { reason }, None)
            }
            Fate::Wait(Wait { delay, cause }) => {
                // What is tried again has its text in the attempt's row; writing it twice would be most of a retry's cost.
                last.message = Arc::from("");
                (State::Waiting { due: self.at.now.after(delay), cause: Some(cause) }, Some((delay, cause)))
            }
        };
        let mut next = self.to(state);
        next.after.failures = spent.failures;
        next.after.throttles = spent.throttles;
        next.after.crashes = spent.crashes;
        next.after.first_failed_at = first_failed_at;
        next.after.last = Some(last);
        next.record = Some(self.record(held, outcome, Some(failure), wait));
        next
    }

    /// A wait that would end after the item's deadline, or too long after its first failure here, is not worth waiting. One that
    /// was asked for, or is its gate's, is: an item does not expire for that alone, and has a last try just before its deadline.
    fn within_deadline(&self, fate: Fate, first_failed_at: Option<Timestamp>) -> Fate {
        let since_failing = first_failed_at.zip(self.policy().deadline());
        let patience = since_failing.map(|(failed, span)| failed.after(span).after(self.plan.grace()));
        let last_due = self.plan.deadline_of(self.item).into_iter().chain(patience).min();
        match fate {
            Fate::Wait(wait) if last_due.is_some_and(|last| self.at.now.after(wait.delay) > last) => {
                let left = last_due.map_or(Duration::ZERO, |last| last.since(self.at.now));
                match wait.cause {
                    Cause::Hint | Cause::Parked | Cause::Gate if left > LAST_TRY * 2 => {
                        Fate::Wait(Wait { delay: left - LAST_TRY, ..wait })
                    }
                    _ => Fate::Dead(DeadReason::Expired),
                }
            }
            Fate::Wait(_) | Fate::Dead(_) => fate,
        }
    }

    /// Death, whatever the policy says: no rule of it is about what a store has lost, and another try would read the same.
    pub(super) fn content_damaged(&self, what: &str) -> Result<Transition, Illegal> {
        let held = self.held("only a running item's content is read")?;
        let text = format!("its content is damaged: {what}");
        let failure = Failure::new(Class::Final, Kind::Input, text);
        let spent = Spent { failures: self.item.failures.saturating_add(1), ..self.spent() };
        Ok(self.met_with(held, &failure, false, spent, Outcome::Failed, Fate::Dead(DeadReason::Final)))
    }

    pub(super) fn deadline_passed(&self) -> Result<Transition, Illegal> {
        let last = self.item.last.clone().map(|last| {
            let text = format!("its deadline passed; the last failure was {}/{}", last.class, last.kind);
            let last = LastFailure { message: Arc::from(text), ..last };
            LastFailure { group: self.group(&last), ..last }
        });
        match self.item.state {
            State::Running { .. } if self.item.handed.is_some() => self.unanswered(),
            State::Running { worker, since } => {
                let mut next = self.to(State::Dead { reason: DeadReason::Expired });
                next.after.last = last;
                next.record = Some(self.record((worker, since), Outcome::Expired, None, None));
                Ok(next)
            }
            State::Waiting { .. } if self.item.handed.is_some() => self.unanswered(),
            State::Waiting { .. } => {
                let mut next = self.to(State::Dead { reason: DeadReason::Expired });
                next.after.last = last;
                next.mark = Some(self.mark("expired", "its deadline passed while it waited"));
                Ok(next)
            }
            State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => self.illegal("only a waiting or running item can expire"),
        }
    }

    fn last_failure(&self, failure: &Failure, shared: bool) -> LastFailure {
        LastFailure {
            class: failure.class,
            kind: failure.kind,
            message: Arc::from(failure.message()),
            group: Arc::from(""),
            shared,
        }
    }

    /// Only the dead are grouped: telling alike errors from others costs more than writing them.
    fn group(&self, last: &LastFailure) -> Arc<str> {
        Arc::from(fingerprint(last.class, &self.stage.name, &last.message))
    }

    /// The last failure of an item that dies of it.
    pub(super) fn fatal(&self, failure: &Failure) -> LastFailure {
        let last = self.last_failure(failure, false);
        LastFailure { group: self.group(&last), ..last }
    }
}
