//! Which facts follow from an event: the only place that says so.

use super::kind::{FactKind, Kinds};
use super::{Facts, Item};
use crate::attempt::Outcome;
use crate::event::{Event, Transition};
use crate::item::{DeadReason, State, StateKind};

/// What is left of an event once a transition was made of it: as much as its facts depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Nothing that the world is told: it was taken or given back, or its wait was mended.
    Nothing,
    /// It ended in some way, or an attempt did: the transition shows how.
    Ended,
    Joined,
    Reopened,
    Reconfigured,
    Restored,
    Redriven,
    Rerun,
}

impl Happened {
    pub(crate) fn of(event: &Event) -> Self {
        match event {
            // Claims are the most frequent change of all, and a fact of one would be stale when it arrives.
            Event::Claimed { .. }
            | Event::Released
            | Event::Interrupted
            | Event::ClockSteppedBack
            | Event::Rescheduled { .. } => Self::Nothing,
            Event::Finished(_)
            | Event::Answered(_)
            | Event::Unanswered
            | Event::LeaseExpired
            | Event::DeadlinePassed
            | Event::ContentDamaged { .. }
            | Event::CancelRequested
            | Event::Superseded(_)
            | Event::Killed { .. } => Self::Ended,
            Event::ChildrenSettled(_) => Self::Joined,
            Event::ChildReopened { .. } => Self::Reopened,
            Event::Reconfigured => Self::Reconfigured,
            Event::Restored { .. } => Self::Restored,
            Event::Redriven { .. } => Self::Redriven,
            Event::Rerun { .. } => Self::Rerun,
        }
    }
}

/// Says which facts follow from what happened to an item.
pub(crate) fn follow(happened: Happened, before: &Item, next: &Transition) -> Facts {
    let after = &next.after;
    match happened {
        Happened::Nothing => Facts::default(),
        // What is asked for again and again was told when it was handed over.
        Happened::Ended if after.handed.is_some() => {
            let told: &[FactKind] = if before.handed.is_none() { &[FactKind::HandedOver] } else { &[] };
            Facts::at(before, Kinds::of(told))
        }
        Happened::Ended => Facts::at(before, of_attempt(next).and(of_state(&after.state))),
        Happened::Joined => {
            let passed = match after.state.kind() {
                StateKind::Dead => Kinds::default(),
                _ => Kinds::of(&[FactKind::StagePassed]),
            };
            let joined = Kinds::of(&[FactKind::Joined]);
            Facts::at(before, joined.and(passed).and(of_state(&after.state)))
        }
        Happened::Reopened => Facts::at(after, Kinds::of(&[FactKind::Reopened])),
        // One that was running is only taken from its worker, and goes on as it was.
        Happened::Reconfigured if after.generation == before.generation => Facts::default(),
        Happened::Reconfigured => Facts::at(after, Kinds::of(&[FactKind::Reconfigured])),
        // What it had ended as was told when it did.
        Happened::Restored => Facts::at(after, Kinds::of(&[FactKind::Restored])),
        Happened::Redriven => Facts::at(after, Kinds::of(&[FactKind::Redriven])),
        Happened::Rerun => Facts::at(after, Kinds::of(&[FactKind::Rerun])),
    }
}

fn of_attempt(next: &Transition) -> Kinds {
    let waits = next.after.state.kind() == StateKind::Waiting;
    let Some(record) = &next.record else { return Kinds::default() };
    match record.outcome {
        Outcome::Succeeded | Outcome::Reused => Kinds::of(&[FactKind::StagePassed]),
        Outcome::Expanded if next.children.is_some() => Kinds::of(&[FactKind::Expanded]),
        // Nothing to wait for: it passed at once.
        Outcome::Expanded => Kinds::of(&[FactKind::StagePassed]),
        Outcome::Failed | Outcome::Crashed if waits => {
            Kinds::of(&[FactKind::Failed, FactKind::RetryScheduled])
        }
        Outcome::Failed | Outcome::Crashed => Kinds::of(&[FactKind::Failed]),
        Outcome::Throttled => Kinds::of(&[FactKind::Throttled]),
        Outcome::Filtered | Outcome::Interrupted | Outcome::Cancelled | Outcome::Expired => Kinds::default(),
    }
}

/// What the state tells that an item came to.
pub(super) fn of_state(state: &State) -> Kinds {
    match state {
        State::Waiting { .. } | State::Running { .. } | State::Joining => Kinds::default(),
        State::Succeeded => Kinds::of(&[FactKind::Succeeded]),
        State::Filtered { .. } => Kinds::of(&[FactKind::Filtered]),
        State::Superseded { .. } => Kinds::of(&[FactKind::Superseded]),
        State::Cancelled => Kinds::of(&[FactKind::Cancelled]),
        State::Dead { reason: DeadReason::Quarantined } => {
            Kinds::of(&[FactKind::Dead, FactKind::Quarantined])
        }
        State::Dead { .. } => Kinds::of(&[FactKind::Dead]),
    }
}
