//! Numbers that stand for things. A number is never given to something else: databases of older versions have it.

use redrive_core::failure::{Class, Kind};
use redrive_core::item::{DeadReason, StateKind};
use redrive_core::policy::Cause;
use redrive_core::verdict::Verdict;

use crate::run::{OperationKind, OperationState};

/// A number that stands for nothing that this version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{code} is no {what}")]
pub struct Unknown {
    /// What it should be.
    pub what: &'static str,
    /// The number.
    pub code: i64,
}

fn coded<T: Copy>(all: &[T], code: i64, what: &'static str) -> Result<T, Unknown> {
    let known = usize::try_from(code).ok().and_then(|index| all.get(index));
    known.copied().ok_or(Unknown { what, code })
}

/// The state with that number.
///
/// # Errors
/// When there is none, as for all that follow.
pub fn state(code: i64) -> Result<StateKind, Unknown> {
    coded(&StateKind::ALL, code, "state")
}

/// The failure class with that number.
///
/// # Errors
/// When there is none.
pub fn class(code: i64) -> Result<Class, Unknown> {
    coded(&Class::ALL, code, "failure class")
}

/// The failure kind with that number.
///
/// # Errors
/// When there is none.
pub fn kind(code: i64) -> Result<Kind, Unknown> {
    coded(&Kind::ALL, code, "failure kind")
}

/// The dead reason with that number.
///
/// # Errors
/// When there is none.
pub fn dead_reason(code: i64) -> Result<DeadReason, Unknown> {
    coded(&DeadReason::ALL, code, "dead reason")
}

/// The cause of a wait with that number.
///
/// # Errors
/// When there is none.
pub fn cause(code: i64) -> Result<Cause, Unknown> {
    coded(&Cause::ALL, code, "cause of a wait")
}

/// The verdict with that number.
///
/// # Errors
/// When there is none.
pub fn verdict(code: i64) -> Result<Verdict, Unknown> {
    coded(&Verdict::ALL, code, "verdict")
}

const OPERATION_KINDS: [OperationKind; 14] = [
    OperationKind::Redrive,
    OperationKind::Purge,
    OperationKind::Cancel,
    OperationKind::Retry,
    OperationKind::Rerun,
    OperationKind::Import,
    OperationKind::Prune,
    OperationKind::Pause,
    OperationKind::Resume,
    OperationKind::Close,
    OperationKind::Reset,
    OperationKind::Stop,
    OperationKind::Kill,
    OperationKind::Note,
];
const OPERATION_STATES: [OperationState; 4] =
    [OperationState::Open, OperationState::Done, OperationState::Cancelled, OperationState::Frozen];

/// The number of a kind of operation.
#[must_use]
pub fn operation_kind_code(kind: OperationKind) -> i64 {
    match kind {
        OperationKind::Redrive => 0,
        OperationKind::Purge => 1,
        OperationKind::Cancel => 2,
        OperationKind::Retry => 3,
        OperationKind::Rerun => 4,
        OperationKind::Import => 5,
        OperationKind::Prune => 6,
        OperationKind::Pause => 7,
        OperationKind::Resume => 8,
        OperationKind::Close => 9,
        OperationKind::Reset => 10,
        OperationKind::Stop => 11,
        OperationKind::Kill => 12,
        OperationKind::Note => 13,
    }
}

/// The kind of operation with that number.
///
/// # Errors
/// When there is none.
pub fn operation_kind(code: i64) -> Result<OperationKind, Unknown> {
    coded(&OPERATION_KINDS, code, "kind of operation")
}

/// The number of an operation's state.
#[must_use]
pub fn operation_state_code(state: OperationState) -> i64 {
    match state {
        OperationState::Open => 0,
        OperationState::Done => 1,
        OperationState::Cancelled => 2,
        OperationState::Frozen => 3,
    }
}

/// The state of an operation with that number.
///
/// # Errors
/// When there is none.
pub fn operation_state(code: i64) -> Result<OperationState, Unknown> {
    coded(&OPERATION_STATES, code, "state of an operation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_stands_for_what_it_was_given_to_and_no_other_does() {
        for (code, state) in (0..).zip(StateKind::ALL) {
            assert_eq!((super::state(code), i64::from(state.code())), (Ok(state), code));
        }
        for (code, class) in (0..).zip(Class::ALL) {
            assert_eq!((super::class(code), class as i64), (Ok(class), code));
        }
        for (code, kind) in (0..).zip(Kind::ALL) {
            assert_eq!((super::kind(code), kind as i64), (Ok(kind), code));
        }
        for (code, reason) in (0..).zip(DeadReason::ALL) {
            assert_eq!((dead_reason(code), reason as i64), (Ok(reason), code));
        }
        for (code, cause) in (0..).zip(Cause::ALL) {
            assert_eq!((super::cause(code), cause as i64), (Ok(cause), code));
        }
        for (code, verdict) in (0..).zip(Verdict::ALL) {
            assert_eq!((super::verdict(code), i64::from(verdict.code())), (Ok(verdict), code));
        }
        for kind in OPERATION_KINDS {
            assert_eq!(operation_kind(operation_kind_code(kind)), Ok(kind));
        }
        for state in OPERATION_STATES {
            assert_eq!(operation_state(operation_state_code(state)), Ok(state));
        }
        assert_eq!(state(8), Err(Unknown { what: "state", code: 8 }));
        assert_eq!(class(-1).unwrap_err().to_string(), "-1 is no failure class");
    }
}
