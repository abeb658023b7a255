//! A policy as it is asked for, and the checks that make one of it.

use std::num::NonZeroU32;
use std::time::Duration;

use super::backoff::Backoff;
use super::jitter::Jitter;
use super::preset::{FLAG_AFTER, preset, presets};
use super::rules::{Override, Policy, RetryOn, Tier};
use crate::classify::Matcher;

/// The highest limit that can be given; more than that is meant to be without end.
pub const MAX_ATTEMPTS: u32 = 10_000;
/// Most tiers, and most delays of a schedule.
const MAX_TIERS: usize = 16;
const MAX_DELAYS: usize = 1_000;
const MAX_GROWTH: f64 = 10.0;

/// A number of attempts, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Without end.
    Endless,
    /// So many, the first one included; 1 to [`MAX_ATTEMPTS`].
    Attempts(u32),
}

/// A policy as it is asked for. Everything left out comes from the preset.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicySpec {
    /// The preset to start from; default `sample`.
    pub preset: Option<String>,
    /// The number of attempts, the first one included.
    pub max_attempts: Option<Limit>,
    /// The waits; replaces the preset's tiers by one. Fixed and scheduled waits are exact unless `jitter` is given.
    pub backoff: Option<Backoff>,
    /// How waits are spread.
    pub jitter: Option<Jitter>,
    /// Several tiers instead of one backoff.
    pub tiers: Option<Vec<TierSpec>>,
    /// Which failures are retried; default: as classified.
    pub retry_on: Option<RetryOn>,
    /// Failures that are final whatever their class; wins over `retry_on`.
    pub final_on: Option<Vec<Matcher>>,
    /// How long after its first failure at the stage an item is still tried again.
    pub deadline: Option<Duration>,
    /// Figures for some failures; the most specific matcher wins.
    pub overrides: Vec<OverrideSpec>,
    /// Crashes at which an item is given up; default 5, so that being at work during a few restarts is no verdict.
    pub crash_limit: Option<u32>,
    /// Deaths of a worker that held an item, among others, until it is quarantined; default: `crash_limit`. For stages
    /// whose work is done elsewhere, so that a worker's death says nothing of the items it held.
    pub worker_limit: Option<u32>,
    /// Attempts for failures of unknown kind, where they are to have fewer than others; default: as many as others.
    pub unknown_limit: Option<Limit>,
    /// The longest hint that is an ordinary wait; default one hour.
    pub hint_cap: Option<Duration>,
    /// What the timeout is multiplied by after each timeout, 1 to 10; default 1.5, 1 is off.
    pub timeout_growth: Option<f64>,
    /// Failures after which an item is flagged as permanent-looking; default 24 in endless policies.
    pub flag_after: Option<u32>,
}

/// A tier as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct TierSpec {
    /// How many attempts belong to it; only the last tier may leave it out, and is endless then.
    pub attempts: Option<u32>,
    /// The waits before its attempts.
    pub backoff: Backoff,
    /// How they are spread; default the policy's `jitter`, else none.
    pub jitter: Option<Jitter>,
}

/// Figures for some failures, as asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct OverrideSpec {
    /// The failures meant.
    pub matcher: Matcher,
    /// Their own limit.
    pub max_attempts: Option<u32>,
    /// Their own waits.
    pub backoff: Option<Backoff>,
}

/// One thing that is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Problem {
    /// The key it is about, relative to the policy: `backoff.base`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl PolicySpec {
    /// A spec that is just a preset.
    #[must_use]
    pub fn of_preset(name: &str) -> Self {
        Self { preset: Some(name.to_owned()), ..Self::default() }
    }

    /// Checks everything and makes the policy, or reports every problem there is.
    pub fn build(self) -> Result<Policy, Vec<Problem>> {
        let mut check = Checks::default();
        let mut policy = self.start(&mut check);
        self.set_tiers(&mut policy, &mut check);
        self.set_limits(&mut policy, &mut check);
        self.set_overrides(&mut policy, &mut check);
        if let Some(retry_on) = self.retry_on {
            check.that(retry_on != RetryOn::List(Vec::new()), "retry_on", "an empty list; use \"none\"");
            policy.retry_on = Some(retry_on);
        }
        if let Some(final_on) = self.final_on {
            policy.final_on = final_on;
        }
        if check.problems.is_empty() { Ok(policy) } else { Err(check.problems) }
    }

    fn start(&self, check: &mut Checks) -> Policy {
        let Some(name) = &self.preset else { return Policy::default() };
        preset(name).map_or_else(
            || {
                let known = presets().iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
                check.fail("preset", format!("unknown preset {name:?}; known are {known}"));
                Policy::default()
            },
            |known| known.policy.clone(),
        )
    }

    fn set_tiers(&self, policy: &mut Policy, check: &mut Checks) {
        if let Some(jitter) = self.jitter {
            check.jitter("jitter", jitter);
            policy.tiers.iter_mut().for_each(|tier| tier.jitter = jitter);
        }
        if let Some(backoff) = &self.backoff {
            check.that(self.tiers.is_none(), "tiers", "give backoff or tiers, not both");
            check.backoff("backoff", backoff);
            let exact = matches!(backoff, Backoff::None | Backoff::Fixed { .. } | Backoff::Schedule { .. });
            let inherited =
                if exact { Jitter::None } else { policy.tiers.first().map_or(Jitter::None, |t| t.jitter) };
            let jitter = self.jitter.unwrap_or(inherited);
            policy.tiers = vec![Tier { attempts: None, backoff: backoff.clone(), jitter }];
        }
        let Some(tiers) = &self.tiers else { return };
        check.that((1..=MAX_TIERS).contains(&tiers.len()), "tiers", &format!("give 1 to {MAX_TIERS} tiers"));
        for (index, tier) in tiers.iter().enumerate() {
            let key = format!("tiers[{index}]");
            check.backoff(&format!("{key}.backoff"), &tier.backoff);
            if let Some(jitter) = tier.jitter {
                check.jitter(&format!("{key}.jitter"), jitter);
            }
            match tier.attempts {
                Some(attempts) => check.count(&format!("{key}.attempts"), attempts),
                None if index + 1 == tiers.len() => {}
                None => check.fail(format!("{key}.attempts"), "missing; only the last tier may be endless"),
            }
        }
        let built = |tier: &TierSpec| Tier {
            attempts: tier.attempts.and_then(NonZeroU32::new),
            backoff: tier.backoff.clone(),
            jitter: tier.jitter.or(self.jitter).unwrap_or(Jitter::None),
        };
        policy.tiers = tiers.iter().map(built).collect();
        let total = tiers.iter().try_fold(0_u32, |sum, tier| Some(sum.saturating_add(tier.attempts?)));
        if let (Some(Limit::Attempts(max)), Some(total)) = (self.max_attempts, total) {
            let message = format!("{max} is more than the {total} attempts of the tiers; leave it out");
            check.that(max <= total, "max_attempts", &message);
        }
        policy.max_attempts = total.and_then(NonZeroU32::new);
    }

    fn set_limits(&self, policy: &mut Policy, check: &mut Checks) {
        match self.max_attempts {
            Some(Limit::Attempts(max)) => {
                check.count("max_attempts", max);
                policy.max_attempts = NonZeroU32::new(max);
            }
            Some(Limit::Endless) => {
                let bounded = self.tiers.iter().flatten().last().is_some_and(|last| last.attempts.is_some());
                check.that(!bounded, "max_attempts", "endless, but the last tier has a number of attempts");
                policy.max_attempts = None;
            }
            None => {}
        }
        match self.unknown_limit {
            Some(Limit::Attempts(limit)) => {
                check.count("unknown_limit", limit);
                policy.unknown_limit = NonZeroU32::new(limit);
            }
            Some(Limit::Endless) => policy.unknown_limit = None,
            None => {}
        }
        if let Some(limit) = self.worker_limit {
            check.count("worker_limit", limit);
            policy.worker_limit = NonZeroU32::new(limit);
        }
        if let Some(limit) = self.crash_limit {
            check.count("crash_limit", limit);
            policy.crash_limit = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
        }
        if let Some(flag) = self.flag_after {
            check.count("flag_after", flag);
            policy.flag_after = NonZeroU32::new(flag);
        } else if policy.max_attempts.is_none() {
            policy.flag_after = policy.flag_after.or(Some(FLAG_AFTER));
        }
        if let Some(growth) = self.timeout_growth {
            let message = format!("{growth} is not between 1 (off) and {MAX_GROWTH}");
            check.that((1.0..=MAX_GROWTH).contains(&growth), "timeout_growth", &message);
            policy.timeout_growth = growth;
        }
        if let Some(cap) = self.hint_cap {
            check.that(!cap.is_zero(), "hint_cap", "must be above zero");
            policy.hint_cap = cap;
        }
        if let Some(deadline) = self.deadline {
            check.that(!deadline.is_zero(), "deadline", "must be above zero");
            policy.deadline = Some(deadline);
        }
    }

    fn set_overrides(&self, policy: &mut Policy, check: &mut Checks) {
        for rule in &self.overrides {
            let key = format!("on.{}", rule.matcher);
            if let Some(max) = rule.max_attempts {
                check.count(&format!("{key}.max_attempts"), max);
            }
            if let Some(backoff) = &rule.backoff {
                check.backoff(&format!("{key}.backoff"), backoff);
            }
            policy.overrides.push(Override {
                matcher: rule.matcher.clone(),
                max_attempts: rule.max_attempts.and_then(NonZeroU32::new),
                backoff: rule.backoff.clone(),
            });
        }
        // The order of the matchers' variants is from the most specific to the least.
        policy.overrides.sort_by(|a, b| a.matcher.cmp(&b.matcher));
    }
}

/// Collects problems.
#[derive(Default)]
struct Checks {
    problems: Vec<Problem>,
}

impl Checks {
    fn fail(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { key: key.into(), message: message.into() });
    }

    fn that(&mut self, holds: bool, key: &str, message: &str) {
        if !holds {
            self.fail(key, message);
        }
    }

    fn count(&mut self, key: &str, count: u32) {
        if count == 0 {
            self.fail(key, "0 is too low: the first try counts, so 1 is the least");
        } else if count > MAX_ATTEMPTS {
            self.fail(key, format!("{count} is too high: at most {MAX_ATTEMPTS}, or \"endless\""));
        }
    }

    fn jitter(&mut self, key: &str, jitter: Jitter) {
        if let Jitter::Proportional(fraction) = jitter {
            let message = format!("{fraction} is not a fraction between 0 and 1");
            self.that((0.0..=1.0).contains(&fraction), key, &message);
        }
    }

    fn backoff(&mut self, key: &str, backoff: &Backoff) {
        match backoff {
            Backoff::None | Backoff::Fixed { .. } => {}
            Backoff::Linear { base, max } => self.range(key, *base, *max),
            Backoff::Exponential { base, factor, max } => {
                self.range(key, *base, *max);
                let message = format!("{factor} is below 1 or not a number: waits would shrink");
                self.that(factor.is_finite() && *factor >= 1.0, &format!("{key}.factor"), &message);
            }
            Backoff::Schedule { delays } => {
                let message = format!("give 1 to {MAX_DELAYS} delays");
                self.that((1..=MAX_DELAYS).contains(&delays.len()), &format!("{key}.delays"), &message);
            }
        }
    }

    fn range(&mut self, key: &str, base: Duration, max: Duration) {
        self.that(
            !base.is_zero(),
            &format!("{key}.base"),
            "must be above zero; for no wait use kind \"none\"",
        );
        self.that(base <= max, &format!("{key}.base"), &format!("{base:?} is longer than max, {max:?}"));
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
