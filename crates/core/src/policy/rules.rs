//! The policy itself: the questions the engine asks.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backoff::{Backoff, as_millis, from_millis, scaled};
use super::jitter::Jitter;
use super::preset;
use super::wait::{Cause, Next, Wait};
use crate::classify::Matcher;
use crate::draw::Draw;
use crate::failure::{Class, Failure, Kind};

/// The longest a timeout grows to, as a multiple of the stage's timeout.
const TIMEOUT_GROWTH_CAP: f64 = 4.0;
/// Jitter on top of a hinted wait: this part of it, at most [`HINT_JITTER_MAX`].
const HINT_JITTER: f64 = 0.1;
const HINT_JITTER_MAX: Duration = Duration::from_secs(5);
/// The shortest first wait of a throttle without a hint, and the least it may grow to.
const THROTTLE_BASE: Duration = Duration::from_secs(1);
const THROTTLE_MAX: Duration = Duration::from_secs(60);
/// Waits after crashes, unless the policy overrides them.
const CRASH_BACKOFF: Backoff =
    Backoff::Exponential { base: Duration::from_secs(1), factor: 2.0, max: Duration::from_secs(60) };
/// Spreads throttles and crashes: those come in crowds, and must not come back at once.
const CROWD_JITTER: Jitter = Jitter::Proportional(0.25);

/// A validated retry policy. Made by [`PolicySpec::build`](super::PolicySpec::build); the default is the preset
/// `sample`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub(super) max_attempts: Option<NonZeroU32>,
    pub(super) tiers: Vec<Tier>,
    pub(super) retry_on: Option<RetryOn>,
    pub(super) final_on: Vec<Matcher>,
    pub(super) overrides: Vec<Override>,
    #[serde(
        rename = "deadline_ms",
        serialize_with = "optional_millis",
        deserialize_with = "optional_from_millis"
    )]
    pub(super) deadline: Option<Duration>,
    pub(super) crash_limit: NonZeroU32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) worker_limit: Option<NonZeroU32>,
    pub(super) unknown_limit: Option<NonZeroU32>,
    #[serde(rename = "hint_cap_ms", serialize_with = "as_millis", deserialize_with = "from_millis")]
    pub(super) hint_cap: Duration,
    pub(super) timeout_growth: f64,
    pub(super) flag_after: Option<NonZeroU32>,
}

/// A number of attempts that share a backoff. A tier owns its attempts and the waits before them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// How many attempts belong to it; none is without end.
    pub attempts: Option<NonZeroU32>,
    /// The waits, counted anew in each tier.
    pub backoff: Backoff,
    /// How the waits are spread.
    pub jitter: Jitter,
}

/// Which failures are retried, where that is not left to their class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// Every failure, also those classified as final.
    All,
    /// No failure.
    None,
    /// Those that one of the matchers matches.
    List(Vec<Matcher>),
}

/// What holds for some failures instead of the policy's own figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Override {
    /// The failures it holds for.
    pub matcher: Matcher,
    /// Their own limit, where they have one, instead of the policy's.
    pub max_attempts: Option<NonZeroU32>,
    /// Their own waits, where they have any.
    pub backoff: Option<Backoff>,
}

impl Default for Policy {
    fn default() -> Self {
        preset::sample()
    }
}

impl Policy {
    /// The number of attempts, the first one included; none is without end.
    #[must_use]
    pub fn max_attempts(&self) -> Option<NonZeroU32> {
        self.max_attempts
    }

    /// The most failures an item can have, whatever they were: an override may allow more than `max_attempts`.
    #[must_use]
    pub fn most_failures(&self) -> Option<NonZeroU32> {
        let own = self.overrides.iter().filter_map(|rule| rule.max_attempts);
        self.max_attempts.map(|most| own.fold(most, NonZeroU32::max))
    }

    /// The tiers, at least one.
    #[must_use]
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// How long after its first failure at the stage an item is still tried again, where the policy limits it.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The number of crashes at which an item is given up.
    #[must_use]
    pub fn crash_limit(&self) -> NonZeroU32 {
        self.crash_limit
    }

    /// Most crashes an item can have at a stage.
    #[must_use]
    pub fn most_crashes(&self) -> NonZeroU32 {
        self.worker_limit.map_or(self.crash_limit, |limit| limit.max(self.crash_limit))
    }

    /// How many deaths of a worker quarantine what it held, where that differs from [`Policy::crash_limit`].
    #[must_use]
    pub fn worker_limit(&self) -> Option<NonZeroU32> {
        self.worker_limit
    }

    /// The number of attempts for failures of unknown kind, where it is lower than the others'.
    #[must_use]
    pub fn unknown_limit(&self) -> Option<NonZeroU32> {
        self.unknown_limit
    }

    /// The longest hint that counts as an ordinary wait; a longer one parks the item.
    #[must_use]
    pub fn hint_cap(&self) -> Duration {
        self.hint_cap
    }

    /// Which failures are retried, where the policy says so.
    #[must_use]
    pub fn retry_on(&self) -> Option<&RetryOn> {
        self.retry_on.as_ref()
    }

    /// Tells whether so many failures look as if the item will never succeed.
    #[must_use]
    pub fn looks_permanent(&self, failures: u32) -> bool {
        self.flag_after.is_some_and(|limit| failures >= limit.get())
    }

    /// Applies `retry_on` and `final_on` to a classified failure.
    ///
    /// Quota and a vanished worker say nothing about the item, and an oversized request is split rather than
    /// retried; these stay as they are unless `final_on` names them.
    #[must_use]
    pub fn reclassify(&self, mut failure: Failure) -> Failure {
        let special = matches!(failure.class, Class::Quota | Class::Oversized)
            || (failure.class == Class::Crash && failure.kind == Kind::Worker);
        let hits = |m: &Matcher| if special { m.names(&failure) } else { m.matches(&failure) };
        if self.final_on.iter().any(hits) {
            failure.class = Class::Final;
            return failure;
        }
        if special {
            return failure;
        }
        let retried = match &self.retry_on {
            None => return failure,
            Some(RetryOn::All) => true,
            Some(RetryOn::None) => false,
            Some(RetryOn::List(matchers)) => matchers.iter().any(hits),
        };
        failure.class = match (retried, failure.class) {
            (true, Class::Final) => Class::Retryable,
            (true, class) => class,
            (false, _) => Class::Final,
        };
        failure
    }

    /// What follows a failure that counts. `failures` includes this one.
    ///
    /// A throttle that is handed in anyway is answered as one; final and oversized failures are given up.
    #[must_use]
    pub fn after_failure(&self, failures: u32, failure: &Failure, draw: Draw) -> Next {
        match failure.class {
            Class::Final | Class::Oversized => return Next::GiveUp,
            Class::RateLimited | Class::Quota => {
                return Next::Retry(self.after_throttle(failures, failure.hint, draw));
            }
            Class::Retryable | Class::Timeout | Class::Crash => {}
        }
        let special = self.special(failure);
        if self.limit(failure, special).is_some_and(|limit| failures >= limit.get()) {
            return Next::GiveUp;
        }
        let (index, tier, n) = self.tier_of(failures);
        let crashed = failure.class == Class::Crash;
        let own = special.and_then(|rule| rule.backoff.as_ref()).or(crashed.then_some(&CRASH_BACKOFF));
        let (backoff, n) = own.map_or((&tier.backoff, n), |own| (own, failures));
        let cause = match (crashed, own, index) {
            (true, ..) => Cause::Crash,
            (false, None, 1..) => Cause::SlowTier,
            (false, ..) => Cause::Backoff,
        };
        let delay = tier.jitter.apply(backoff.delay(n), draw, backoff.cap());
        let hinted = self.hinted(failure.hint, draw).filter(|hinted| hinted.delay > delay);
        let cause = if delay.is_zero() { Cause::Immediate } else { cause };
        Next::Retry(hinted.unwrap_or(Wait { delay, cause }))
    }

    /// How long an item waits that was asked to come later. `throttles` includes this one; it never gives up.
    ///
    /// A hint is a floor, spread upwards, as far as `hint_cap` grants it; a hint of nothing is treated as no hint, so that it
    /// cannot spin.
    #[must_use]
    pub fn after_throttle(&self, throttles: u32, hint: Option<Duration>, draw: Draw) -> Wait {
        if let Some(wait) = self.hinted(hint, draw) {
            return wait;
        }
        let tier = self.tier_of(1).1;
        let (factor, longest) = match &tier.backoff {
            Backoff::Exponential { factor, max, .. } => (factor.max(1.5), *max),
            Backoff::Linear { max, .. } => (2.0, *max),
            Backoff::Schedule { delays } => (2.0, delays.iter().max().copied().unwrap_or_default()),
            Backoff::None | Backoff::Fixed { .. } => (2.0, Duration::ZERO),
        };
        let base = tier.backoff.delay(1).max(THROTTLE_BASE);
        let max = longest.max(THROTTLE_MAX).max(base);
        let delay = Backoff::Exponential { base, factor, max }.delay(throttles);
        Wait { delay: crowd(tier.jitter).apply(delay, draw, max), cause: Cause::Throttle }
    }

    /// What follows the death of the process that ran the item: a child's, or with `Kind::Worker` that of the worker
    /// that held it among others. `crashes` includes this one.
    #[must_use]
    pub fn after_crash(&self, crashes: u32, kind: Kind, draw: Draw) -> Next {
        let limit = self.worker_limit.filter(|_| kind == Kind::Worker).unwrap_or(self.crash_limit);
        if crashes >= limit.get() {
            return Next::GiveUp;
        }
        let own = self.overrides.iter().find(|rule| rule.matcher == Matcher::Class(Class::Crash));
        let backoff = own.and_then(|rule| rule.backoff.as_ref()).unwrap_or(&CRASH_BACKOFF);
        let jitter = crowd(self.tier_of(1).1.jitter);
        Next::Retry(Wait {
            delay: jitter.apply(backoff.delay(crashes), draw, backoff.cap()),
            cause: Cause::Crash,
        })
    }

    /// The timeout of the next attempt: longer after a timeout, by a factor for each, at most four times as long.
    #[must_use]
    pub fn timeout(&self, base: Duration, timeouts: u32, last: Option<Class>) -> Duration {
        if last != Some(Class::Timeout) {
            return base;
        }
        let growth = self.timeout_growth.powi(i32::try_from(timeouts).unwrap_or(i32::MAX));
        scaled(base, growth.clamp(1.0, TIMEOUT_GROWTH_CAP)).max(base)
    }

    /// The longest timeout that [`Policy::timeout`] can give.
    #[must_use]
    pub fn longest_timeout(&self, base: Duration) -> Duration {
        self.timeout(base, u32::MAX, Some(Class::Timeout))
    }

    /// The wait after the n-th failure without jitter, and its cap.
    pub(super) fn nominal(&self, failures: u32) -> (Duration, Duration) {
        let (_, tier, n) = self.tier_of(failures);
        (tier.backoff.delay(n), tier.backoff.cap())
    }

    /// The tier that owns the wait after the n-th failure, its index, and the number of the wait within it.
    pub(super) fn tier_of(&self, failures: u32) -> (usize, &Tier, u32) {
        let failures = failures.max(1);
        let mut before = 0_u32;
        for (index, tier) in self.tiers.iter().enumerate() {
            let end = tier.attempts.map_or(u32::MAX, |attempts| before.saturating_add(attempts.get()));
            if failures < end || index + 1 == self.tiers.len() {
                // The first attempt of all has no wait before it; the first of a later tier has.
                let n = if index == 0 { failures } else { (failures - before).saturating_add(1) };
                return (index, tier, n);
            }
            before = end;
        }
        (0, &NO_TIER, failures)
    }

    /// How many failures like this one are an item's end; `None`: it never gives up.
    #[must_use]
    pub fn most_failures_like(&self, failure: &Failure) -> Option<NonZeroU32> {
        self.limit(failure, self.special(failure))
    }

    fn special(&self, failure: &Failure) -> Option<&Override> {
        self.overrides.iter().find(|rule| rule.matcher.matches(failure))
    }

    fn limit(&self, failure: &Failure, special: Option<&Override>) -> Option<NonZeroU32> {
        let unknown = self.unknown_limit.filter(|_| failure.kind == Kind::Unknown);
        let own = special.and_then(|rule| rule.max_attempts);
        own.or_else(|| [self.max_attempts, unknown].into_iter().flatten().min())
    }

    fn hinted(&self, hint: Option<Duration>, draw: Draw) -> Option<Wait> {
        let hint = hint.filter(|hint| !hint.is_zero())?;
        let granted = hint.min(self.hint_cap);
        let room = scaled(granted, HINT_JITTER).min(HINT_JITTER_MAX);
        let delay = granted.saturating_add(scaled(room, draw.value()));
        Some(Wait { delay, cause: if hint > self.hint_cap { Cause::Parked } else { Cause::Hint } })
    }
}

/// Stands in for the tiers of a policy without any, which cannot be built.
const NO_TIER: Tier = Tier { attempts: None, backoff: Backoff::None, jitter: Jitter::None };

/// The policy's jitter, where it spreads waits and leaves at least half of them.
fn crowd(jitter: Jitter) -> Jitter {
    match jitter {
        Jitter::Equal => jitter,
        Jitter::Proportional(fraction) if fraction > 0.0 && fraction <= 0.5 => jitter,
        Jitter::Proportional(_) | Jitter::None | Jitter::Full => CROWD_JITTER,
    }
}

fn optional_millis<S: serde::Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => as_millis(span, serializer),
        None => serializer.serialize_none(),
    }
}

fn optional_from_millis<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
