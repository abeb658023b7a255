//! What follows from what people and sources say of an item: take it out, bring it back, do it again, go now.

use super::{Desk, Illegal};
use crate::event::{Gone, Transition, edited_to};
use crate::failure::{Class, Failure, Kind};
use crate::id::StageNo;
use crate::item::{DeadReason, Payload, State, StateKind};
use crate::policy::OwnPolicy;
use crate::time::Timestamp;

/// What is noted of an item that is told when to go: where that was, so that it is known for which wait it was said.
pub(crate) fn rescheduled(stage: &str, attempt: u32) -> String {
    format!("at {stage}, before attempt {}", attempt.saturating_add(1))
}

/// What the mark of an item says that was sent back under a policy of its own.
fn under_its_own(policy: &OwnPolicy) -> String {
    format!("under a policy of its own: {policy}")
}

impl Desk<'_> {
    pub(super) fn cancelled(&self) -> Result<Transition, Illegal> {
        self.taken_out(State::Cancelled, "cancelled", "its run was cancelled")
    }

    pub(super) fn superseded(&self, gone: Gone) -> Result<Transition, Illegal> {
        let (what, detail) = match gone {
            Gone::Newer => ("superseded", "a newer version was admitted"),
            Gone::Removed => ("removed", "it is not in its source any more"),
            Gone::Reconfigured => {
                ("reconfigured", "a stage it had passed is configured otherwise; it is read again")
            }
        };
        let was = match gone {
            Gone::Newer | Gone::Removed => self.item.state.kind(),
            // What it has become is out of date: it starts over when it is read again.
            Gone::Reconfigured => StateKind::Waiting,
        };
        let mut next = self.to(State::Superseded { was });
        next.mark = Some(self.mark(what, detail));
        match &self.item.state {
            State::Waiting { .. }
            | State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Dead { .. } => next.record = self.broken_off(),
            State::Filtered { reason } => {
                next.mark = Some(self.mark(what, &format!("{detail}; it was filtered: {reason}")));
            }
            State::Superseded { .. } | State::Cancelled => return self.illegal("it is taken out already"),
        }
        Ok(next)
    }

    pub(super) fn reconfigured(&self) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Dead { .. } | State::Filtered { .. } => {}
            State::Running { .. } => {
                // Whoever holds it would give it what the stage did before.
                let mut next = self.interrupted()?;
                let detail =
                    "its stage is configured otherwise; it was taken from a worker that goes by the old one";
                next.mark = Some(self.mark("reconfigured", detail));
                return Ok(next);
            }
            State::Waiting { .. }
            | State::Joining
            | State::Succeeded
            | State::Superseded { .. }
            | State::Cancelled => {
                return self.illegal("only an item that is at a stage, or ended at it, can go again from it");
            }
        }
        if self.item.is_refused() {
            return self.illegal("its source refused it");
        }
        let mut next = self.begin_anew(self.at.now);
        next.mark =
            Some(self.mark("reconfigured", "its stage is configured otherwise; it goes again from there"));
        Ok(next)
    }

    pub(super) fn killed(&self, why: &str) -> Result<Transition, Illegal> {
        let why = crate::redact::clean(why.as_bytes(), 500);
        let mut next = self.taken_out(State::Dead { reason: DeadReason::Operator }, "killed", &why)?;
        let failure = Failure::new(Class::Final, Kind::Handler, why);
        next.after.last = Some(self.fatal(&failure));
        Ok(next)
    }

    fn taken_out(&self, state: State, what: &'static str, detail: &str) -> Result<Transition, Illegal> {
        let mut next = self.to(state);
        match self.item.state {
            State::Waiting { .. } | State::Running { .. } | State::Joining => next.record = self.broken_off(),
            State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => return self.illegal("it is finished already"),
        }
        next.mark = Some(self.mark(what, detail));
        Ok(next)
    }

    pub(super) fn restored(&self, payload: Option<Payload>) -> Result<Transition, Illegal> {
        let was = match self.item.state {
            State::Superseded { was } => was,
            // It was cancelled with a parent that was given up and lives again.
            State::Cancelled if self.item.parent.is_some() => StateKind::Waiting,
            State::Waiting { .. }
            | State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Cancelled
            | State::Dead { .. } => return self.illegal("only a superseded item can be restored"),
        };
        let ended = match was {
            StateKind::Succeeded => Some(State::Succeeded),
            // A line that its source could not give is no better for being back.
            StateKind::Dead if self.item.was_refused() => Some(State::Dead { reason: DeadReason::Final }),
            StateKind::Filtered => {
                Some(State::Filtered { reason: "filtered before, with the same content".to_owned() })
            }
            StateKind::Waiting
            | StateKind::Running
            | StateKind::Joining
            | StateKind::Superseded
            | StateKind::Cancelled
            | StateKind::Dead => None,
        };
        if let Some(ended) = ended {
            // It was worked on to its end, and that is paid for: what it became is what it is.
            let mut next = self.to(ended);
            next.mark =
                Some(self.mark("restored", "its content is the present one again; it had ended already"));
            return Ok(next);
        }
        let mut next = self.begin_anew(self.at.now);
        if self.item.parent.is_none() && self.item.stage != StageNo(0) {
            next.after.stage = StageNo(0);
            next.after.verdicts.forget_from(StageNo(0));
            next.after.earlier = 0;
            next.after.failing_since = None;
        }
        next.mark = Some(self.mark("restored", "its content is the present one again"));
        next.payload = payload;
        Ok(next)
    }

    /// A wait is made shorter or longer: its failures and its deadline stay as they are.
    pub(super) fn rescheduled(&self, due: Timestamp) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Waiting { due: was, .. } if was == due || was.max(due) <= self.at.now => {
                return self.illegal("it is due then already");
            }
            State::Waiting { .. } => {}
            State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => return self.illegal("only a waiting item can be told when to go"),
        }
        if self.plan.deadline_of(self.item).is_some_and(|deadline| due > deadline) {
            return self.illegal("it is not worth a try any more then");
        }
        let mut next = match &self.item.handed {
            // An answer can be asked for sooner or later; until when it is awaited stays as it is.
            Some(handed) if due > handed.until => return self.illegal("no answer is awaited then any more"),
            Some(handed) => self.awaiting(handed.clone(), due),
            None => self.to(State::Waiting { due, cause: None }),
        };
        next.mark = Some(self.mark("rescheduled", &rescheduled(&self.stage.name, self.item.attempt)));
        Ok(next)
    }

    /// An item that has ended goes again from a stage it had passed, with what that stage was given.
    pub(super) fn rerun(&self, stage: StageNo, payload: Payload) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Succeeded | State::Filtered { .. } | State::Dead { .. } => {}
            State::Waiting { .. }
            | State::Running { .. }
            | State::Joining
            | State::Superseded { .. }
            | State::Cancelled => return self.illegal("only an item that has ended can be done again"),
        }
        if self.item.parent.is_some() || self.item.is_refused() || stage > self.item.stage {
            return self.illegal("it has not passed that stage");
        }
        let mut next = self.begin_anew(self.at.now);
        if stage != self.item.stage {
            next.after.stage = stage;
            next.after.verdicts.forget_from(stage);
            next.after.earlier = 0;
            next.after.failing_since = None;
        }
        next.payload = Some(payload);
        next.mark = Some(self.mark("rerun", "somebody wants it done again; it goes again from there"));
        Ok(next)
    }

    /// Waiting in a new generation, with counters and deadline that start anew, and with what the stages before found.
    fn begin_anew(&self, due: Timestamp) -> Transition {
        let mut next = self.to(State::Waiting { due, cause: None });
        next.after.generation = self.item.generation.saturating_add(1);
        next.after.earlier = self.item.tries();
        next.after.attempt = 0;
        next.after.failures = 0;
        next.after.throttles = 0;
        next.after.crashes = 0;
        next.after.first_failed_at = None;
        // Being taken out ends a failure as passing does.
        let is_over = matches!(self.item.state, State::Filtered { .. });
        next.after.failing_since = self.failing_since().filter(|_| !is_over);
        next.after.last = None;
        next.after.policy = None;
        next.after.verdicts.forget_from(self.item.stage);
        next.after.deadline = self.plan.deadline().map(|span| self.at.now.max(due).after(span));
        next
    }

    pub(super) fn redriven(
        &self,
        due: Timestamp,
        payload: Option<Payload>,
        policy: Option<OwnPolicy>,
    ) -> Result<Transition, Illegal> {
        match self.item.state {
            State::Dead { .. } => {}
            State::Waiting { .. }
            | State::Running { .. }
            | State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled => return self.illegal("only a dead item can be redriven"),
        }
        if payload.is_none() && self.item.is_refused() {
            return self.illegal("its source refused it; mend it there, or import it with other content");
        }
        let mut next = self.begin_anew(due);
        next.mark = Some(match &payload {
            Some(payload) => self.mark("edited", &edited_to(payload)),
            None => self.mark("redriven", &policy.as_ref().map(under_its_own).unwrap_or_default()),
        });
        next.after.policy = policy;
        next.payload = payload;
        Ok(next)
    }
}
