//! What becomes of an operation that is saved.

use redrive_core::event::Transition;

use crate::run::{Member, OperationState};

/// The state that an operation is saved with: one that was stopped or is done stays so. Whoever works on it as well need not know
/// of that yet.
#[must_use]
pub fn saved_state(kept: Option<OperationState>, asked: OperationState) -> OperationState {
    match kept {
        Some(ended @ (OperationState::Cancelled | OperationState::Done)) => ended,
        Some(OperationState::Open | OperationState::Frozen) | None => asked,
    }
}

/// The item of an operation that a transition makes, where it is one that the operation is about: it was sent back, told to go,
/// or is done again. A parent that waits once more for a child is none.
#[must_use]
pub fn member(transition: &Transition) -> Option<Member> {
    let Transition { guard, after, mark, .. } = transition;
    let about = ["redriven", "edited", "rerun", "rescheduled"];
    mark.as_ref().filter(|mark| about.contains(&mark.what))?;
    Some(Member { item: after.seq, rev: *guard, sent: Some(after.generation) })
}
