//! What a policy would do: when attempts run, and how many calls and dead items to expect.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

use super::backoff::as_millis;
use super::rules::Policy;

/// One attempt of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its number, from 1.
    pub attempt: u32,
    /// The shortest wait before it.
    #[serde(rename = "wait_min_ms", serialize_with = "as_millis")]
    pub wait_min: Duration,
    /// The wait before it without jitter.
    #[serde(rename = "wait_nominal_ms", serialize_with = "as_millis")]
    pub wait_nominal: Duration,
    /// The longest wait before it.
    #[serde(rename = "wait_max_ms", serialize_with = "as_millis")]
    pub wait_max: Duration,
    /// When it starts without jitter, if attempts take no time.
    #[serde(rename = "starts_at_nominal_ms", serialize_with = "as_millis")]
    pub starts_at_nominal: Duration,
    /// The number of its tier, from 1.
    pub tier: usize,
}

/// What to expect of many items under a failure rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// Calls per item; infinite (null in JSON) when every call fails and the policy is endless.
    pub expected_calls_per_item: f64,
    /// Calls for all items.
    pub expected_calls: f64,
    /// The probability that an item is given up.
    pub p_dead: f64,
    /// The number of items that are given up.
    pub expected_dead: f64,
    /// The waits until an item is given up, without jitter; none is never.
    pub time_to_dead: Option<Duration>,
}

/// The first `shown` attempts of an item that always fails.
#[must_use]
pub fn timeline(policy: &Policy, shown: usize) -> Vec<Step> {
    let shown = u32::try_from(shown).unwrap_or(u32::MAX);
    let last = policy.max_attempts().map_or(shown, |max| max.get().min(shown));
    let mut clock = Duration::ZERO;
    (1..=last)
        .map(|attempt| {
            if attempt == 1 {
                let zero = Duration::ZERO;
                let (wait_min, wait_nominal, wait_max, starts_at_nominal) = (zero, zero, zero, zero);
                return Step { attempt, wait_min, wait_nominal, wait_max, starts_at_nominal, tier: 1 };
            }
            let (wait_nominal, cap) = policy.nominal(attempt - 1);
            let (tier, rules, _) = policy.tier_of(attempt - 1);
            let (wait_min, wait_max) = rules.jitter.bounds(wait_nominal, cap);
            clock = clock.saturating_add(wait_nominal);
            Step { attempt, wait_min, wait_nominal, wait_max, starts_at_nominal: clock, tier: tier + 1 }
        })
        .collect()
}

/// What to expect when each call fails with this probability, independently. A rate outside 0 to 1 is clamped.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an expectation needs no exact count")]
pub fn outlook(policy: &Policy, failure_rate: f64, items: u64) -> Outlook {
    let rate = if failure_rate.is_nan() { 0.0 } else { failure_rate.clamp(0.0, 1.0) };
    let max = policy.max_attempts().map(|max| f64::from(max.get()));
    let p_dead = max.map_or(0.0, |max| rate.powf(max));
    let calls = match max {
        Some(max) if rate >= 1.0 => max,
        None if rate >= 1.0 => f64::INFINITY,
        _ => (1.0 - p_dead) / (1.0 - rate),
    };
    Outlook {
        expected_calls_per_item: calls,
        expected_calls: if items == 0 { 0.0 } else { calls * items as f64 },
        p_dead,
        expected_dead: p_dead * items as f64,
        time_to_dead: policy.max_attempts().map(|max| span(policy, max)),
    }
}

/// The sum of all waits without jitter. Limits are at most [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS), so this is short.
pub(super) fn span(policy: &Policy, max: NonZeroU32) -> Duration {
    (1..max.get()).fold(Duration::ZERO, |sum, n| sum.saturating_add(policy.nominal(n).0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{preset, presets};

    fn of(name: &str) -> &'static Policy {
        &preset(name).unwrap().policy
    }

    #[test]
    fn a_timeline_ends_with_the_last_attempt() {
        let steps = timeline(of("sample"), 10);
        let starts: Vec<_> = steps.iter().map(|step| step.starts_at_nominal.as_secs()).collect();
        assert_eq!(starts, [0, 1, 3]);
        assert_eq!((steps[2].wait_min.as_millis(), steps[2].wait_max.as_millis()), (1_500, 2_500));
    }

    #[test]
    fn an_endless_timeline_shows_as_much_as_was_asked_for() {
        let steps = timeline(of("index"), 7);
        let tiers: Vec<_> = steps.iter().map(|step| step.tier).collect();
        assert_eq!(tiers, [1, 1, 1, 1, 2, 2, 2]);
        assert_eq!(steps[6].starts_at_nominal.as_secs(), 16 * 60);
    }

    #[test]
    fn outlook_follows_from_the_rate() {
        let half = outlook(of("sample"), 0.5, 1_000);
        assert!((half.expected_calls_per_item - 1.75).abs() < 1e-9);
        assert!((half.expected_dead - 125.0).abs() < 1e-9);
        assert_eq!(half.time_to_dead, Some(Duration::from_secs(3)));
        let never = outlook(of("self-healing"), 0.5, 10);
        assert!((never.expected_calls_per_item - 2.0).abs() < 1e-9);
        assert_eq!((never.p_dead, never.time_to_dead), (0.0, None));
        assert!(outlook(of("self-healing"), 1.0, 10).expected_calls.is_infinite());
        assert!((outlook(of("daemon"), 1.0, 1).expected_calls - 8.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_rate_gives_sensible_numbers(rate in any::<f64>(), items in any::<u64>(), which in 0..presets().len()) {
            let outlook = outlook(&presets()[which].policy, rate, items);
            prop_assert!((0.0..=1.0).contains(&outlook.p_dead));
            prop_assert!(outlook.expected_calls_per_item >= 1.0 - 1e-9);
        }
    }
}
