//! How an attempt can fail, as a type. A failure is classified once, where it arises.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::redact;

/// Longest error text that is kept, in bytes.
pub const MAX_MESSAGE: usize = 2_000;

/// What a failure means for the item it happened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Another try cannot help.
    Final,
    /// Another try may help.
    Retryable,
    /// No answer in time.
    Timeout,
    /// The dependency asks for less; spends no attempt.
    RateLimited,
    /// Credit is exhausted; a human has to act.
    Quota,
    /// The request was too large; it may pass when split.
    Oversized,
    /// The process that did the work died.
    Crash,
}

impl Class {
    /// Every class, in a fixed order.
    pub const ALL: [Self; 7] = [
        Self::Final,
        Self::Retryable,
        Self::Timeout,
        Self::RateLimited,
        Self::Quota,
        Self::Oversized,
        Self::Crash,
    ];

    /// The name used in JSON, SQL, metrics and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Retryable => "retryable",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Quota => "quota",
            Self::Oversized => "oversized",
            Self::Crash => "crash",
        }
    }

    /// The class of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a failure came from, within its class; what matchers, statistics and per-kind limits look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The handler itself named the class.
    Handler,
    /// A 4xx status.
    Client,
    /// A 5xx status.
    Server,
    /// The connection could not be made, or broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// The answer could not be used: not the protocol, wrong ids, too large.
    Answer,
    /// A database or file could not be written.
    Database,
    /// A child process died, or a stage panicked.
    Process,
    /// The worker that held the item vanished.
    Worker,
    /// Memory ran out in a child process.
    Memory,
    /// The input itself is unusable.
    Input,
    /// Nothing is known about it: retryable, with a low limit of its own.
    Unknown,
    /// The service does not let us in: the key, the account, or this very request. Others tell which.
    Access,
}

impl Kind {
    /// Every kind, in a fixed order.
    pub const ALL: [Self; 13] = [
        Self::Handler,
        Self::Client,
        Self::Server,
        Self::Connection,
        Self::Timeout,
        Self::Answer,
        Self::Database,
        Self::Process,
        Self::Worker,
        Self::Memory,
        Self::Input,
        Self::Unknown,
        Self::Access,
    ];

    /// The name used in JSON, SQL, metrics and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Client => "client",
            Self::Server => "server",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Answer => "answer",
            Self::Database => "database",
            Self::Process => "process",
            Self::Worker => "worker",
            Self::Memory => "memory",
            Self::Input => "input",
            Self::Unknown => "unknown",
            Self::Access => "access",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One failure of one attempt: classified, redacted, bounded in size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What it means.
    pub class: Class,
    /// Where it came from.
    pub kind: Kind,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the dependency asked to be left alone.
    pub hint: Option<Duration>,
    /// Error text: secrets removed, at most [`MAX_MESSAGE`] bytes. Private so that no text gets in unredacted.
    message: String,
}

impl Failure {
    /// Makes a failure from any error bytes: they are decoded leniently, redacted and truncated.
    #[must_use]
    pub fn new(class: Class, kind: Kind, message: impl AsRef<[u8]>) -> Self {
        Self { class, kind, status: None, hint: None, message: redact::clean(message.as_ref(), MAX_MESSAGE) }
    }

    /// Adds the HTTP status it came with.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds the wait the dependency asked for.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<Duration>) -> Self {
        self.hint = hint;
        self
    }

    /// The error text, safe to show and to store.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {}", self.class, self.kind, self.message)
    }
}

/// The line of an error that tells most: the first, or the last of a traceback, which ends with what was wrong.
#[must_use]
pub fn headline(message: &str) -> &str {
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    if first.starts_with("Traceback") { lines.next_back().unwrap_or(first) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_is_told_by_its_last_line() {
        let trace = "Traceback (most recent call last):\n  File \"w.py\", line 3\n    go()\nValueError: no such unit\n";
        assert_eq!(headline(trace), "ValueError: no such unit");
        assert_eq!(headline("\n HTTP 422: not like this.\nbody"), "HTTP 422: not like this.");
        assert_eq!((headline("Traceback"), headline("")), ("Traceback", ""));
    }
}
