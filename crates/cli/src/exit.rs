//! Exit codes, and how an error is told.

use std::io::Write;
use std::process::ExitCode;

use redrive_core::status::RunStatus;
use redrive_operate::{Error, Kind};
use redrive_pipeline::Problem;

use crate::output::note;
use crate::output::text::safe;

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

/// Told to stop.
pub fn interrupted() -> ExitCode {
    INTERRUPTED.into()
}

/// The exit code that goes with a run's status.
pub fn of(status: RunStatus) -> ExitCode {
    ExitCode::from(match status {
        RunStatus::Completed => 0,
        RunStatus::PartialSuccess | RunStatus::PartiallyCompleted => PARTIAL,
        RunStatus::Failed | RunStatus::Cancelled => FAILED,
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused => {
            PAUSED
        }
        RunStatus::Running | RunStatus::Interrupted => INTERRUPTED,
    })
}

/// How bad a status is, for the worst of several.
pub fn severity(status: RunStatus) -> u8 {
    match status {
        RunStatus::Completed => 0,
        RunStatus::PartialSuccess | RunStatus::PartiallyCompleted => 1,
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused => 2,
        RunStatus::Failed | RunStatus::Cancelled => 3,
        RunStatus::Running | RunStatus::Interrupted => 4,
    }
}

/// The exit code that goes with an error.
fn code(error: &Error) -> u8 {
    match error.kind {
        Kind::NotFound | Kind::Refused | Kind::Wrong => USAGE_CODE,
        Kind::Paused => PAUSED,
        Kind::Busy | Kind::Internal => INTERNAL,
    }
}

/// Tells an error, with everything that is wrong in a pipeline, and gives its exit code.
pub fn report(error: &Error) -> ExitCode {
    error.problems.iter().for_each(tell);
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: {}", safe(&error.message));
    if let Some(hint) = &error.hint {
        let _ = writeln!(err, "hint: {}", safe(hint));
    }
    code(error).into()
}

/// Tells one problem of a pipeline file.
fn tell(problem: &Problem) {
    note(&safe(&problem.to_string()));
    if let Some(hint) = &problem.hint {
        note(&format!("  hint: {}", safe(hint)));
    }
}
