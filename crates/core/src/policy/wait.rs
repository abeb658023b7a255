//! What a policy answers.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What comes after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, after a wait.
    Retry(Wait),
    /// No further attempt.
    GiveUp,
}

/// How long an item waits, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The length of the wait.
    pub delay: Duration,
    /// The reason for its length.
    pub cause: Cause,
}

/// Why an item waits as long as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It does not wait.
    Immediate,
    /// The policy's backoff.
    Backoff,
    /// The backoff of a later tier.
    SlowTier,
    /// The dependency said how long.
    Hint,
    /// The dependency asked for less without saying how long to wait.
    Throttle,
    /// The dependency asked for a wait above the policy's limit for hints.
    Parked,
    /// Credit is exhausted: it waits for somebody to act.
    Quota,
    /// The process that ran it died.
    Crash,
    /// It waits until the gate of its stage lets it through.
    Gate,
    /// It was handed over, and its answer comes later.
    Answer,
}

impl Cause {
    /// Every cause, in a fixed order.
    pub const ALL: [Self; 10] = [
        Self::Immediate,
        Self::Backoff,
        Self::SlowTier,
        Self::Hint,
        Self::Throttle,
        Self::Parked,
        Self::Quota,
        Self::Crash,
        Self::Gate,
        Self::Answer,
    ];

    /// The name used in JSON, SQL, metrics and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::Backoff => "backoff",
            Self::SlowTier => "slow_tier",
            Self::Hint => "hint",
            Self::Throttle => "throttle",
            Self::Parked => "parked",
            Self::Quota => "quota",
            Self::Crash => "crash",
            Self::Gate => "gate",
            Self::Answer => "answer",
        }
    }

    /// The cause of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_equal_their_json() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_name(cause.name()), Some(cause));
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{cause}\""));
        }
    }
}
