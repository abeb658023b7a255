//! Noticing that a dependency is away, and finding out when it is back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spec::BreakerSpec;
use crate::time::Timestamp;

/// How soon a dependency that is away is tried out for the first time.
const FIRST_PROBE: Duration = Duration::from_millis(750);
/// Slices of the window in which calls are counted.
const SLICES: i64 = 10;

/// What workers share about a dependency that may be away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// Since when it is thought to be away.
    pub away_since: Option<Timestamp>,
    /// When it is tried out next.
    pub probe_at: Timestamp,
    /// Calls that tried it out in vain since it is away.
    pub(super) probes: u32,
    /// Somebody let it go on since a call last passed: answers that are failures are taken for what they are.
    pub(super) resumed: bool,
    /// When any of this last changed.
    pub(super) changed_at: Timestamp,
}

impl Breaker {
    /// It is away, and is tried out after this time.
    pub(super) fn open(&mut self, after: Duration, now: Timestamp) {
        self.away_since = self.away_since.or(Some(now));
        (self.probe_at, self.probes) = (now.after(after), 0);
        self.changed_at = now;
    }

    /// How long after a call that tried it out in vain the next one does: soon at first. One that `answers`, if only with
    /// failures, is tried out more often than one that nobody reaches.
    pub(super) fn wait(&self, spec: &BreakerSpec, answers: bool) -> Duration {
        let longest = if answers { (spec.open_for / 4).max(FIRST_PROBE) } else { spec.open_for };
        (FIRST_PROBE * (1 << self.probes.min(16))).min(longest).min(spec.open_for)
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.probes = 0;
        if self.away_since.take().is_some() {
            self.changed_at = now;
        }
    }

    /// Whether it has been away for so long that runs are to be paused for it.
    #[must_use]
    pub fn is_outage(&self, spec: Option<&BreakerSpec>, now: Timestamp) -> bool {
        self.away_since.zip(spec).is_some_and(|(since, spec)| now.since(since) >= spec.pause_after)
    }
}

/// Calls that ended within a part of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    number: i64,
    answered: u32,
    failed: u32,
    fresh: u32,
}

/// How calls ended lately, as one worker sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Lately {
    slices: Vec<Slice>,
    /// Calls that failed since one was answered, and those of them that were for new items.
    in_a_row: (u32, u32),
}

impl Lately {
    /// Counts a call that was answered.
    pub(super) fn answered(&mut self, spec: &BreakerSpec, now: Timestamp) {
        self.slice(spec, now).answered += 1;
        self.in_a_row = (0, 0);
    }

    /// Counts calls that failed, and says whether the dependency is to be taken for away. A few of them have to be for new
    /// items (`fresh`): what failed before and fails again may well be to blame itself.
    pub(super) fn failed(&mut self, spec: &BreakerSpec, calls: u32, fresh: bool, now: Timestamp) -> bool {
        let new = if fresh { calls } else { 0 };
        let slice = self.slice(spec, now);
        slice.failed = slice.failed.saturating_add(calls);
        slice.fresh = slice.fresh.saturating_add(new);
        self.in_a_row = (self.in_a_row.0.saturating_add(calls), self.in_a_row.1.saturating_add(new));
        let few = spec.min_calls.div_ceil(4);
        let sum = |of: fn(&Slice) -> u32| self.slices.iter().map(of).fold(0, u32::saturating_add);
        let (good, bad) = (sum(|slice| slice.answered), sum(|slice| slice.failed));
        let rate = f64::from(bad) / f64::from(good.saturating_add(bad).max(1));
        let in_a_row = self.in_a_row.0 >= spec.min_calls && self.in_a_row.1 >= few;
        let enough = good.saturating_add(bad) >= spec.min_calls && sum(|slice| slice.fresh) >= few;
        in_a_row || (enough && rate >= spec.failure_rate)
    }

    fn slice(&mut self, spec: &BreakerSpec, now: Timestamp) -> &mut Slice {
        let width = (crate::time::millis(spec.window) / SLICES).max(1);
        let number = now.0.div_euclid(width);
        self.slices.retain(|slice| slice.number > number - SLICES && slice.number <= number);
        if self.slices.last().is_none_or(|slice| slice.number != number) {
            self.slices.push(Slice { number, answered: 0, failed: 0, fresh: 0 });
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last]
    }

    pub(super) fn forget(&mut self) {
        self.slices.clear();
        self.in_a_row = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_at_its_rate_with_enough_calls_and_forgets_what_is_old() {
        let spec = BreakerSpec::default();
        let mut lately = Lately::default();
        for n in 0..19 {
            assert!(!lately.failed(&spec, 1, true, Timestamp(n * 100)), "too few to say");
        }
        assert!(lately.failed(&spec, 1, true, Timestamp(2_000)));
        lately.answered(&spec, Timestamp(3_000));
        assert!(!lately.failed(&spec, 1, true, Timestamp(60_000)), "all but one are past the window");
        let mut sudden = Lately::default();
        (0..10_000).for_each(|n| sudden.answered(&spec, Timestamp(n)));
        let opened = (0..100).find(|n| sudden.failed(&spec, 1, true, Timestamp(10_000 + n)));
        assert_eq!(opened, Some(19), "as many failures in a row say enough, however many passed before");
        let mut mixed = Lately::default();
        for n in 0..100 {
            mixed.answered(&spec, Timestamp(n * 10));
            mixed.answered(&spec, Timestamp(n * 10));
            assert!(!mixed.failed(&spec, 1, true, Timestamp(n * 10)), "a third is below half");
        }
    }

    #[test]
    fn items_that_failed_before_say_nothing_by_themselves() {
        let spec = BreakerSpec::default();
        let mut lately = Lately::default();
        assert!((0..100).all(|n| !lately.failed(&spec, 1, false, Timestamp(n))));
        let opened = (0..100).find(|n| lately.failed(&spec, 1, true, Timestamp(100 + n)));
        assert_eq!(opened, Some(4), "a few new ones beside them do");
    }
}
