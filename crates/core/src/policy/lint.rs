//! Policies that are valid and yet probably not meant.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::backoff::Backoff;
use super::rules::{Policy, RetryOn};
use super::simulate::span;

/// Attempts without any wait between them from which on a warning is due.
const IMMEDIATE_MANY: u32 = 10;

/// What a policy is used in; what is not known is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LintContext {
    /// The stage's timeout.
    pub timeout: Option<Duration>,
    /// How long a worker holds an item without renewing its claim.
    pub lease: Option<Duration>,
    /// The greatest age of an item.
    pub deadline: Option<Duration>,
    /// How long the whole run may take.
    pub budget: Option<Duration>,
}

/// Something that is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The key it is about, relative to the policy.
    pub key: String,
    /// What will happen.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Looks for contradictions between a policy and what it is used in.
///
/// A retry span shorter than a provider's rate window is none: throttles spend no attempt.
#[must_use]
pub fn lint(policy: &Policy, context: &LintContext) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |key: &str, message: String| found.push(Warning { key: key.to_owned(), message });
    let deadline = [context.deadline, policy.deadline()].into_iter().flatten().min();
    match policy.max_attempts() {
        None if deadline.is_none() => {
            warn("max_attempts", "the policy never gives up and items have no deadline".to_owned());
        }
        None => {}
        Some(max) => {
            let waits = span(policy, max);
            let work = context.timeout.unwrap_or_default().saturating_mul(max.get());
            let total = waits.saturating_add(work);
            if deadline.is_some_and(|deadline| waits >= deadline) {
                warn("max_attempts", past("the waits alone", waits, "deadline", deadline));
            } else if deadline.is_some_and(|deadline| total > deadline) {
                warn("max_attempts", past("waits and timeouts", total, "deadline", deadline));
            }
            if context.budget.is_some_and(|budget| total > budget) {
                warn(
                    "max_attempts",
                    past("waits and timeouts", total, "time budget of the run", context.budget),
                );
            }
            if max.get() == 1 && policy.tiers().iter().any(|tier| tier.backoff != Backoff::None) {
                warn("backoff", "never used: max_attempts = 1 is the first try only".to_owned());
            }
        }
    }
    if let (Some(timeout), Some(lease)) = (context.timeout, context.lease) {
        let longest = policy.longest_timeout(timeout);
        if longest > lease {
            warn("timeout_growth", past("a timeout, grown after timeouts,", longest, "lease", Some(lease)));
        }
    }
    let at_once = policy.max_attempts().map_or(IMMEDIATE_MANY, |max| max.get().min(IMMEDIATE_MANY));
    if at_once == IMMEDIATE_MANY && (1..IMMEDIATE_MANY).all(|n| policy.nominal(n).0.is_zero()) {
        warn("backoff", format!("{IMMEDIATE_MANY} or more attempts follow each other without a wait"));
    }
    if policy.retry_on() == Some(&RetryOn::None) && policy.max_attempts().is_none_or(|max| max.get() > 1) {
        warn("retry_on", "\"none\" makes every failure final; max_attempts is never used".to_owned());
    }
    found
}

fn past(what: &str, span: Duration, limit: &str, of: Option<Duration>) -> String {
    let (span, of) = (span.as_secs(), of.unwrap_or_default().as_secs());
    format!("{what} take {span} s, the {limit} is {of} s: the last attempts may never run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Limit, PolicySpec, presets};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn keys(spec: PolicySpec, context: LintContext) -> Vec<String> {
        lint(&spec.build().unwrap(), &context).into_iter().map(|warning| warning.key).collect()
    }

    #[test]
    fn presets_are_clean_within_a_day() {
        let context = LintContext {
            timeout: Some(Duration::from_secs(60)),
            lease: Some(Duration::from_secs(300)),
            deadline: Some(24 * HOUR),
            budget: None,
        };
        for preset in presets() {
            assert_eq!(lint(&preset.policy, &context), [], "{}", preset.name);
        }
    }

    #[test]
    fn contradictions_are_found() {
        let context = LintContext { deadline: Some(HOUR), ..LintContext::default() };
        assert_eq!(keys(PolicySpec::of_preset("daemon"), context), ["max_attempts"]);
        assert_eq!(keys(PolicySpec::of_preset("self-healing"), LintContext::default()), ["max_attempts"]);
        let budget = LintContext { budget: Some(Duration::from_secs(1)), ..context };
        assert_eq!(keys(PolicySpec::default(), budget), ["max_attempts"]);
        let once = PolicySpec { max_attempts: Some(Limit::Attempts(1)), ..PolicySpec::default() };
        assert_eq!(keys(once, context), ["backoff"]);
        let hammer =
            PolicySpec { max_attempts: Some(Limit::Attempts(50)), ..PolicySpec::of_preset("interactive") };
        assert_eq!(keys(hammer, context), ["backoff"]);
        let never = PolicySpec { retry_on: Some(RetryOn::None), ..PolicySpec::default() };
        assert_eq!(keys(never, context), ["retry_on"]);
        let long = LintContext { timeout: Some(HOUR), lease: Some(HOUR), ..LintContext::default() };
        assert_eq!(keys(PolicySpec::default(), long), ["timeout_growth"]);
    }
}
