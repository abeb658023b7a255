//! What a service says about its own limits.

use std::time::Duration;

/// What an answer's headers said about the service's limits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// About requests.
    pub requests: Option<Allowance>,
    /// About tokens.
    pub tokens: Option<Allowance>,
}

impl Limits {
    /// The same, with no limit that takes longer than this to be whole again: a service may say anything.
    #[must_use]
    pub fn within(self, longest: Duration) -> Self {
        let within = |said: Allowance| Allowance { reset: said.reset.min(longest), ..said };
        Self { requests: self.requests.map(within), tokens: self.tokens.map(within) }
    }
}

/// One limit, as a service tells it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Allowance {
    /// The most there ever is.
    pub limit: Option<f64>,
    /// What is left.
    pub remaining: f64,
    /// How long until there is all of it again.
    pub reset: Duration,
}
