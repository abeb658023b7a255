//! Exit codes, and how a failure is told.

use std::io::Write;
use std::process::ExitCode;

use redrive_core::status::RunStatus;

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

/// A command that could not do what it was asked for.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Wrong usage or configuration: the person can mend it.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE_CODE, message: message.into(), hint: None }
    }

    /// Something broke.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into(), hint: None }
    }

    /// The run is paused and was not worked on.
    pub fn paused(message: impl Into<String>) -> Self {
        Self { code: PAUSED, message: message.into(), hint: None }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds what can be done about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<redrive_store::Error> for Failure {
    fn from(error: redrive_store::Error) -> Self {
        use redrive_store::Error as E;
        let message = error.to_string();
        match error {
            E::NotFound(_) => Self::usage(message).hint("`redrive runs` lists the runs of this store"),
            E::RunCancelled { .. } => Self::usage(message),
            E::IndexReplaced => Self::usage(message).hint("run the same command again"),
            E::Newer { .. } | E::Unreadable { .. } => Self::usage(message).hint("use the version of redrive that made it, or a newer one"),
            E::Foreign(_) => Self::usage(message).hint("name another file with --store sqlite:PATH; this one was left as it is"),
            E::Open(_) => Self::usage(message).hint("name another place with --store sqlite:PATH"),
            E::ReadOnly(_) => Self::usage(message)
                .hint("`check`, `runs`, `show`, `search` and the like work on it; to change it, its file and its folder have to be writable"),
            E::Corrupt(_) => Self::internal(message)
                .hint("the file was left as it is; `redrive doctor` says more, `sqlite3 FILE .recover` may save what is left"),
            E::Full(_) => Self::internal(message).hint("make room; the same command then goes on, nothing is lost"),
            E::Busy(_) | E::Overtaken { .. } => Self::internal(message).hint("another process holds the store; try again"),
            E::Unavailable(_) | E::Internal(_) => Self::internal(message),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error.to_string())
    }
}

/// Tells a failure and gives its exit code.
pub fn report(failure: &Failure) -> ExitCode {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: {}", safe(&failure.message));
    if let Some(hint) = &failure.hint {
        let _ = writeln!(err, "hint: {}", safe(hint));
    }
    failure.code.into()
}
