//! What becomes of an operation that is saved.

use crate::run::OperationState;

/// The state that an operation is saved with: one that was stopped stays so. Whoever works on it need not know of that yet.
#[must_use]
pub fn saved_state(kept: Option<OperationState>, asked: OperationState) -> OperationState {
    match kept {
        Some(OperationState::Cancelled) => OperationState::Cancelled,
        Some(OperationState::Open | OperationState::Done) | None => asked,
    }
}
