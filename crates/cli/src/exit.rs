//! Exit codes.

use std::process::ExitCode;

use redrive_core::status::RunStatus;
use redrive_operate::{Error, Kind};

/// Something broke that should not, or a law does not hold.
const INTERNAL: u8 = 1;
/// Wrong usage or configuration.
const USAGE_CODE: u8 = 2;
/// Finished with dead or still waiting items above the threshold.
const PARTIAL: u8 = 3;
/// Failed.
const FAILED: u8 = 4;
/// Paused.
const PAUSED: u8 = 5;
/// Told to stop; the state is kept.
pub const INTERRUPTED: u8 = 130;

/// Wrong usage, as clap tells it.
pub fn usage() -> ExitCode {
    USAGE_CODE.into()
}

/// A law does not hold.
pub fn broken() -> ExitCode {
    INTERNAL.into()
}

/// Only a part went well.
pub fn partial() -> ExitCode {
    PARTIAL.into()
}

/// The exit code after work on runs: told to stop, results left out, or the worst status there is.
pub fn of_work(
    statuses: impl IntoIterator<Item = RunStatus>,
    interrupted: bool,
    results_are_whole: bool,
) -> ExitCode {
    work_code(statuses, interrupted, results_are_whole).into()
}

/// The number of the exit code after work on runs.
pub fn work_code(
    statuses: impl IntoIterator<Item = RunStatus>,
    interrupted: bool,
    results_are_whole: bool,
) -> u8 {
    match (interrupted, results_are_whole) {
        (true, _) => INTERRUPTED,
        (false, false) => INTERNAL,
        (false, true) => {
            let worst = statuses.into_iter().max_by_key(|status| severity(*status));
            status_code(worst.unwrap_or(RunStatus::Completed))
        }
    }
}

/// Told to stop.
pub fn interrupted() -> ExitCode {
    INTERRUPTED.into()
}

/// The exit code that goes with a run's status.
pub fn of(status: RunStatus) -> ExitCode {
    status_code(status).into()
}

/// The number of the exit code that goes with a run's status.
pub fn status_code(status: RunStatus) -> u8 {
    match status {
        RunStatus::Completed | RunStatus::Open => 0,
        RunStatus::PartialSuccess | RunStatus::PartiallyCompleted => PARTIAL,
        RunStatus::Failed | RunStatus::Cancelled => FAILED,
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused => {
            PAUSED
        }
        RunStatus::Running | RunStatus::Queued | RunStatus::Interrupted => INTERRUPTED,
    }
}

/// Whether a run with this status waits for somebody.
pub fn is_paused(status: RunStatus) -> bool {
    status_code(status) == PAUSED
}

/// How bad a status is, for the worst of several.
fn severity(status: RunStatus) -> u8 {
    match status {
        RunStatus::Completed | RunStatus::Open => 0,
        RunStatus::PartialSuccess | RunStatus::PartiallyCompleted => 1,
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused => 2,
        RunStatus::Failed | RunStatus::Cancelled => 3,
        RunStatus::Running | RunStatus::Queued | RunStatus::Interrupted => 4,
    }
}

/// The exit code that goes with an error.
pub fn code(error: &Error) -> ExitCode {
    error_code(error).into()
}

/// The number of the exit code that goes with an error.
pub fn error_code(error: &Error) -> u8 {
    match error.kind {
        Kind::NotFound | Kind::Refused | Kind::Wrong | Kind::Forbidden => USAGE_CODE,
        Kind::Paused => PAUSED,
        Kind::Busy | Kind::Internal => INTERNAL,
    }
}
