//! What a policy comes to, under the deadline of the pipeline it is used in.

use std::time::Duration;

use redrive_core::budget::{BudgetSpec, trips_after};
use redrive_core::item::DeadReason;
use redrive_core::policy::{MAX_ATTEMPTS, Policy, Step, outlook, timeline};
use redrive_core::time::millis;
use serde::Serialize;

/// Waits that are listed; every preset repeats its last one by then.
const FIRST_WAITS: usize = 12;

/// What to expect when each attempt fails with the same probability, independently.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The share of attempts that fail.
    pub failure_rate: f64,
    /// The number of items.
    pub items: u64,
    /// Calls per item; infinite (null in JSON) when every call fails and nothing ends it.
    pub expected_calls_per_item: f64,
    /// Calls for all items.
    pub expected_calls: f64,
    /// The probability that an item is given up.
    pub p_dead: f64,
    /// The number of items that are given up.
    pub expected_dead: f64,
    /// The waits until an item that always fails is given up, without jitter; none is never.
    pub time_to_dead_ms: Option<i64>,
    /// Why it is given up then.
    pub dead_reason: Option<&'static str>,
    /// The items of the stage after which the failure budget pauses the run, if those that die are evenly spread; none
    /// is never.
    pub paused_after: Option<u64>,
    /// Why it pauses it then.
    pub pause_reason: Option<String>,
}

impl Forecast {
    /// The same with when a failure budget would be spent.
    pub(super) fn under(mut self, budget: Option<&BudgetSpec>) -> Self {
        // What expires spends nothing.
        let dies = self.dead_reason == Some(DeadReason::Exhausted.name());
        if let Some((n, excess)) =
            budget.filter(|_| dies).and_then(|budget| trips_after(budget, self.p_dead, self.items))
        {
            (self.paused_after, self.pause_reason) = (Some(n), Some(excess.to_string()));
        }
        self
    }
}

/// Where a deadline ends a policy before its attempts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The attempts that start within the deadline.
    pub attempts: u64,
    /// When the last of them starts. An item whose next wait would pass the deadline is dead at once.
    pub last_start: Duration,
}

/// Where the deadline ends the policy; none where it does not.
pub(super) fn cut(policy: &Policy, deadline: Option<Duration>) -> Option<Cut> {
    let deadline = deadline?;
    let steps = timeline(policy, usize::try_from(MAX_ATTEMPTS).unwrap_or(usize::MAX));
    let within = steps.partition_point(|step| step.starts_at_nominal <= deadline);
    let last = steps.get(within.checked_sub(1)?)?;
    let attempts = u64::from(last.attempt);
    if within < steps.len() {
        return Some(Cut { attempts, last_start: last.starts_at_nominal });
    }
    if policy.max_attempts().is_some() || last.wait_nominal.is_zero() {
        return None;
    }
    // An endless policy has long come to its longest wait, which repeats.
    let left = deadline.saturating_sub(last.starts_at_nominal);
    let more = left.as_nanos() / last.wait_nominal.as_nanos();
    let repeats = u32::try_from(more).unwrap_or(u32::MAX);
    let last_start = last.starts_at_nominal.saturating_add(last.wait_nominal.saturating_mul(repeats));
    Some(Cut { attempts: attempts.saturating_add(repeats.into()), last_start })
}

/// The first attempts that can run.
pub(super) fn steps(policy: &Policy, cut: Option<&Cut>, shown: usize) -> Vec<Step> {
    let most = cut.map_or(usize::MAX, |cut| usize::try_from(cut.attempts).unwrap_or(usize::MAX));
    timeline(policy, shown.min(most))
}

/// What to expect of so many items.
#[expect(clippy::cast_precision_loss, reason = "an expectation needs no exact count")]
pub(super) fn forecast(
    policy: &Policy,
    deadline: Option<Duration>,
    failure_rate: f64,
    items: u64,
) -> Forecast {
    let whole = outlook(policy, failure_rate, items);
    let reason = whole.time_to_dead.map(|_| DeadReason::Exhausted.name());
    let whole = Forecast {
        failure_rate,
        items,
        expected_calls_per_item: whole.expected_calls_per_item,
        expected_calls: whole.expected_calls,
        p_dead: whole.p_dead,
        expected_dead: whole.expected_dead,
        time_to_dead_ms: whole.time_to_dead.map(millis),
        dead_reason: reason,
        paused_after: None,
        pause_reason: None,
    };
    let Some(cut) = cut(policy, deadline) else { return whole };
    let (attempts, items_float) = (cut.attempts as f64, items as f64);
    let p_dead = failure_rate.powf(attempts);
    let calls = if failure_rate >= 1.0 { attempts } else { (1.0 - p_dead) / (1.0 - failure_rate) };
    Forecast {
        expected_calls_per_item: calls,
        expected_calls: calls * items_float,
        p_dead,
        expected_dead: p_dead * items_float,
        time_to_dead_ms: Some(millis(cut.last_start)),
        dead_reason: Some(DeadReason::Expired.name()),
        ..whole
    }
}

/// The first waits, without jitter.
#[must_use]
pub fn first_waits(policy: &Policy) -> Vec<Duration> {
    timeline(policy, FIRST_WAITS + 1).into_iter().skip(1).map(|step| step.wait_nominal).collect()
}

/// The sum of all waits; none where there is no end.
#[must_use]
pub fn span(policy: &Policy) -> Option<Duration> {
    outlook(policy, 0.0, 0).time_to_dead
}

#[cfg(test)]
mod tests {
    use redrive_core::policy::{Backoff, Limit, PolicySpec, preset};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_deadline_that_is_met_changes_nothing() {
        let policy = &preset("daemon").unwrap().policy;
        let (with, without) = (forecast(policy, Some(24 * HOUR), 0.5, 10), forecast(policy, None, 0.5, 10));
        assert_eq!((with.p_dead, with.dead_reason), (without.p_dead, Some("exhausted")));
        assert_eq!(with.time_to_dead_ms, Some(7_380_000));
    }

    #[test]
    fn a_deadline_ends_what_does_not_end_by_itself() {
        let policy = &preset("self-healing").unwrap().policy;
        let day = forecast(policy, Some(24 * HOUR), 1.0, 10);
        // 0, 1, 6, 16, 36 and 76 minutes, then hourly: the 28th starts after 22 h 16 min + 1 h.
        assert!((day.expected_calls_per_item - 28.0).abs() < 1e-9, "{}", day.expected_calls_per_item);
        assert!((day.expected_dead - 10.0).abs() < 1e-9);
        assert_eq!((day.time_to_dead_ms, day.dead_reason), (Some((76 + 22 * 60) * 60_000), Some("expired")));
        assert!(forecast(policy, None, 1.0, 10).expected_calls.is_infinite());
    }

    #[test]
    fn more_attempts_than_are_looked_at_are_counted() {
        let spec = PolicySpec {
            max_attempts: Some(Limit::Endless),
            backoff: Some(Backoff::Fixed { delay: Duration::from_secs(1) }),
            ..PolicySpec::default()
        };
        let policy = spec.build().unwrap();
        assert_eq!(cut(&policy, Some(24 * HOUR)).map(|cut| cut.attempts), Some(86_401));
        let spec = PolicySpec {
            backoff: Some(Backoff::None),
            max_attempts: Some(Limit::Endless),
            ..PolicySpec::default()
        };
        assert!(cut(&spec.build().unwrap(), Some(HOUR)).is_none());
    }
}
