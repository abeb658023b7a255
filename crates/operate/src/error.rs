//! Why a request was not answered, by what whoever asked can do about it.

mod code;

use std::fmt;

use redrive_pipeline::Problem;
use serde::Serialize;

pub use code::Code;

/// What kind of refusal an [`Error`] is: the command line gives each an exit code, a server a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What was asked for does not exist.
    NotFound,
    /// It exists, and how it stands does not allow what was asked.
    Refused,
    /// The request, a pipeline, a setting or the environment is wrong: whoever asked can mend it.
    Wrong,
    /// Whoever asks may not do that.
    Forbidden,
    /// The run is paused, and has to be resumed first.
    Paused,
    /// Somebody else holds the store; the same request may go well later.
    Busy,
    /// Something broke that should not.
    Internal,
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Error {
    /// What kind of refusal it is.
    pub kind: Kind,
    /// What went wrong, for programs.
    pub code: Code,
    /// What went wrong.
    pub message: String,
    /// What can be done about it, where that is known.
    pub hint: Option<String>,
    /// What is wrong with a pipeline, each with its line and key; empty for any other error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// What every request is answered with.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        let code = match kind {
            Kind::NotFound => Code::NotFound,
            Kind::Refused => Code::Refused,
            Kind::Wrong => Code::InvalidRequest,
            Kind::Forbidden => Code::Forbidden,
            Kind::Paused => Code::RunPaused,
            Kind::Busy => Code::StoreBusy,
            Kind::Internal => Code::Internal,
        };
        Self { kind, code, message: message.into(), hint: None, problems: Vec::new() }
    }

    /// Says more exactly what went wrong.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// What was asked for does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// How things stand does not allow what was asked.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// The request is wrong, or what it names.
    pub fn wrong(message: impl Into<String>) -> Self {
        Self::new(Kind::Wrong, message)
    }

    /// Whoever asks may not do that.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message)
    }

    /// It may go well later.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(Kind::Busy, message).code(Code::Crowded)
    }

    /// The run is paused.
    pub fn paused(message: impl Into<String>) -> Self {
        Self::new(Kind::Paused, message)
    }

    /// Something broke.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Adds what can be done about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what is wrong with a pipeline.
    #[must_use]
    pub fn with_problems(mut self, problems: Vec<Problem>) -> Self {
        self.code = Code::InvalidPipeline;
        self.problems = problems;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<redrive_store::Error> for Error {
    fn from(error: redrive_store::Error) -> Self {
        use redrive_store::Error as E;
        let message = error.to_string();
        match error {
            E::NotFound(_) => Self::not_found(message).hint("`redrive runs` lists the runs of this store"),
            E::RunCancelled { .. } => Self::refused(message).code(Code::RunCancelled),
            E::IndexReplaced => {
                Self::refused(message).code(Code::IndexReplaced).hint("run the same command again")
            }
            E::Newer { .. } | E::Unreadable { .. } => Self::wrong(message)
                .code(Code::StoreNewer)
                .hint("use the version of redrive that made it, or a newer one"),
            E::Foreign(_) => Self::wrong(message)
                .code(Code::StoreForeign)
                .hint("name another file with --store sqlite:PATH; this one was left as it is"),
            E::Open(_) => Self::wrong(message)
                .code(Code::StoreCannotOpen)
                .hint("name another place with --store sqlite:PATH"),
            E::ReadOnly(_) => Self::refused(message).code(Code::StoreReadOnly).hint(
                "`check`, `runs`, `show`, `search` and the like work on it; to change it, its file and its folder have to be writable",
            ),
            E::Corrupt(_) => Self::internal(message).code(Code::StoreDamaged).hint(
                "the file was left as it is; `redrive doctor` says more, `sqlite3 FILE .recover` may save what is left",
            ),
            E::Full(_) => Self::internal(message)
                .code(Code::StoreFull)
                .hint("make room; the same command then goes on, nothing is lost"),
            E::Busy(_) | E::Overtaken { .. } => {
                Self::new(Kind::Busy, message).hint("another process holds the store; try again")
            }
            E::Gone(_) => Self::internal(message)
                .code(Code::StoreGone)
                .hint("start it again; stop all that work on a store before its file is replaced"),
            E::Unavailable(_) => Self::internal(message).code(Code::StoreUnavailable),
            E::Internal(_) => Self::internal(message),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_is_snake_case() {
        let names: std::collections::BTreeSet<String> = Code::ALL
            .iter()
            .filter_map(|code| Some(serde_json::to_value(code).ok()?.as_str()?.to_owned()))
            .collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')),
            "{names:?}"
        );
        // The list is as long as the last one's number says.
        assert_eq!(Code::ALL.len(), Code::Internal as usize + 1);
    }
}
