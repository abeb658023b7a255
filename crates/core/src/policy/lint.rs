//! Policies that are valid and yet probably not meant.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::backoff::Backoff;
use super::rules::{Policy, RetryOn};
use super::simulate::span;
use crate::gate::{BreakerSpec, GateSpec, Passing};

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
    /// Whether the waits were asked for, and do not come from the preset.
    pub waits_given: bool,
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
            if context.waits_given
                && max.get() == 1
                && policy.tiers().iter().any(|tier| tier.backoff != Backoff::None)
            {
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

impl GateSpec {
    /// Looks for contradictions between a gate, the stages that pass it, and what they are used in: the greatest age of an
    /// item, and how many dead items in a row stop a run. Keys are those of a pipeline file.
    ///
    /// Some come from what a gate has by default. Whether they are worth telling depends on what was written.
    ///
    /// A `timeout` or a lease is no contradiction to a slow gate: an item waits before its call, and a lease is renewed. A
    /// `max_concurrency` above a stage's `concurrency` is none either: several processes share a gate.
    #[must_use]
    pub fn lint(
        &self,
        name: &str,
        stages: &[Passing<'_>],
        deadline: Option<Duration>,
        consecutive: Option<u32>,
    ) -> Vec<Warning> {
        let mut found: Vec<Warning> =
            stages.iter().flat_map(|stage| self.against_stage(name, stage)).collect();
        let mut warn =
            |key: &str, message: String| found.push(Warning { key: format!("gate.{name}.{key}"), message });
        if let Some(deadline) = deadline {
            let of = seconds(deadline);
            if self.hint_cap > deadline {
                let cap = seconds(self.hint_cap);
                warn(
                    "hint_cap",
                    format!(
                        "{cap} is longer than the deadline of {of}: items expire while the gate waits as long as a service may ask for; use less than {of}"
                    ),
                );
            }
            if let Some(breaker) = &self.breaker {
                outlasts(breaker, deadline, &mut warn);
            }
            if let Some((key, every)) = self.slowest(stages).filter(|(_, every)| *every >= deadline) {
                let every = seconds(every);
                warn(
                    key,
                    format!(
                        "lets one call through in {every}, and items expire after {of}: of items that come together only those of the first call pass; raise it, or the deadline"
                    ),
                );
            }
        }
        if let Some((breaker, consecutive)) = self.breaker.as_ref().zip(consecutive)
            && let Some((stage, calls)) = stages
                .iter()
                .filter_map(|stage| Some((stage, until_dead(stage, consecutive)?)))
                .min_by_key(|(_, calls)| *calls)
            && breaker.min_calls > calls
        {
            warn(
                "breaker.min_calls",
                format!(
                    "an outage spends the failure budget before the gate closes: {consecutive} items of stage {} are dead after {calls} failed {}; use min_calls = {calls}, or let the stage try again after a wait",
                    stage.stage,
                    if calls == 1 { "call" } else { "calls" }
                ),
            );
        }
        found
    }

    fn against_stage(&self, name: &str, stage: &Passing<'_>) -> Vec<Warning> {
        let mut found = Vec::new();
        let mut warn = |key: &str, message: String| {
            found.push(Warning { key: format!("stage.{}.{key}", stage.stage), message });
        };
        let most = self.max_concurrency;
        if stage.concurrency > most {
            warn(
                "concurrency",
                format!(
                    "{} calls at once are never reached: gate {name} lets {most} through; raise max_concurrency in {}, or use concurrency = {most}",
                    stage.concurrency,
                    section(name)
                ),
            );
        }
        if stage.policy.hint_cap() != Policy::default().hint_cap() {
            warn(
                "retry.hint_cap",
                format!(
                    "never used: gate {name} waits for what a service asks for; set hint_cap in {}",
                    section(name)
                ),
            );
        }
        let Some(minute) = self.tokens_per_minute else { return found };
        let refused = minute.saturating_mul(2);
        if let Some(tokens) = stage.batch_tokens.filter(|tokens| *tokens > minute) {
            warn(
                "batch_tokens",
                format!(
                    "{tokens} tokens never go into one call: gate {name} lets {minute} through in a minute, and a call takes no more; use {minute} or less"
                ),
            );
        }
        if let Some(tokens) = stage.max_tokens.filter(|tokens| *tokens > refused) {
            warn(
                "max_tokens",
                format!(
                    "every item is refused as oversized: its answer alone is counted with {tokens} tokens, and gate {name} lets {minute} through in a minute; use less, or raise tokens_per_minute"
                ),
            );
        }
        if let Some(tokens) = stage.max_item_tokens.filter(|tokens| *tokens > refused) {
            warn(
                "max_item_tokens",
                format!(
                    "items above {refused} tokens are refused before {tokens} are reached: gate {name} lets {minute} through in a minute; use {refused} or less, or raise tokens_per_minute"
                ),
            );
        }
        found
    }

    /// The time that one call takes at the gate's rate, at least, and the limit that makes it so.
    #[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
    fn slowest(&self, stages: &[Passing<'_>]) -> Option<(&'static str, Duration)> {
        let minutes = |n: f64| Duration::try_from_secs_f64(n * 60.0).unwrap_or(Duration::MAX);
        let requests =
            self.requests_per_minute.map(|limit| ("requests_per_minute", minutes(1.0 / limit as f64)));
        let tokens = self.tokens_per_minute.zip(stages.iter().filter_map(|stage| stage.max_tokens).max());
        let tokens =
            tokens.map(|(limit, tokens)| ("tokens_per_minute", minutes(tokens as f64 / limit as f64)));
        [requests, tokens].into_iter().flatten().max_by_key(|(_, every)| *every)
    }
}

fn outlasts(breaker: &BreakerSpec, deadline: Duration, warn: &mut impl FnMut(&str, String)) {
    let of = seconds(deadline);
    if breaker.open_for >= deadline {
        let open_for = seconds(breaker.open_for);
        warn(
            "breaker.open_for",
            format!(
                "{open_for} is not shorter than the deadline of {of}: items that meet an outage expire before the service is tried out; use less than {of}"
            ),
        );
    } else if breaker.pause_after >= deadline {
        let pause_after = seconds(breaker.pause_after);
        warn(
            "breaker.pause_after",
            format!(
                "{pause_after} is not shorter than the deadline of {of}: items expire in an outage before their run is paused, which would stop their clock; use less than {of}"
            ),
        );
    }
}

/// The failed calls after which so many items are dead, where nothing waits in between.
fn until_dead(stage: &Passing<'_>, items: u32) -> Option<u32> {
    let max = stage.policy.max_attempts()?.get();
    let at_once = (1..max).all(|n| stage.policy.nominal(n).0.is_zero());
    at_once.then(|| items.div_ceil(stage.batch.max(1)).saturating_mul(max))
}

/// Where a gate's keys are written. One that no stage names is made from an address, and has none.
fn section(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
        format!("[gate.{name}]")
    } else {
        "a [gate.NAME] that the stage names with gate = \"NAME\"".to_owned()
    }
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs_f64())
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
            ..LintContext::default()
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
        assert_eq!(keys(once.clone(), LintContext { waits_given: true, ..context }), ["backoff"]);
        assert_eq!(keys(once, context), [""; 0], "nobody asked for the waits of the preset");
        let hammer =
            PolicySpec { max_attempts: Some(Limit::Attempts(50)), ..PolicySpec::of_preset("interactive") };
        assert_eq!(keys(hammer, context), ["backoff"]);
        let never = PolicySpec { retry_on: Some(RetryOn::None), ..PolicySpec::default() };
        assert_eq!(keys(never, context), ["retry_on"]);
        let long = LintContext { timeout: Some(HOUR), lease: Some(HOUR), ..LintContext::default() };
        assert_eq!(keys(PolicySpec::default(), long), ["timeout_growth"]);
    }
}
