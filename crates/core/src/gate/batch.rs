//! How many items a dependency takes in one request, where it takes fewer than it is given.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Batches that pass before a larger one is tried for the first time.
const FIRST_TRY: u32 = 16;
/// And at most.
const LAST_TRY: u32 = 4_096;

/// What is known about the size of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchSize {
    /// The largest size that is to be asked for; `None`: nothing is against the configured one.
    pub largest: Option<u32>,
    /// Batches of that size that have passed.
    passes: u32,
    /// How many have to, before a larger one is tried.
    try_after: u32,
    /// It was made larger, and none of that size has passed yet.
    grown: bool,
    /// Whole requests that failed while all their parts passed, since one passed whole.
    suspicions: u32,
    /// When it last changed.
    pub(super) changed_at: Timestamp,
}

impl BatchSize {
    /// The clock was put back, to this moment.
    pub fn set_right(&mut self, now: Timestamp) {
        self.changed_at = self.changed_at.min(now);
    }

    /// The size to ask for.
    #[must_use]
    pub fn limit(&self, configured: usize) -> usize {
        self.largest.map_or(configured, |largest| configured.min(largest as usize)).max(1)
    }

    /// Smaller requests passed where a whole one failed; `largest` is the largest of them.
    pub fn refused(&mut self, largest: usize, now: Timestamp) {
        self.largest = Some(u32::try_from(largest).unwrap_or(u32::MAX).max(1));
        (self.passes, self.grown, self.suspicions) = (0, false, 0);
        // Every larger one that failed makes the next try rarer.
        self.try_after = self.try_after.saturating_mul(4).clamp(FIRST_TRY, LAST_TRY);
        self.changed_at = now;
    }

    /// A larger request failed, and before it was known whether by its size, the dependency turned the smaller ones away
    /// that would have told. Smaller ones are asked for from now on: else every batch would end like this one.
    pub fn doubted(&mut self, largest: usize, now: Timestamp) {
        self.largest = Some(u32::try_from(largest).unwrap_or(u32::MAX).max(1));
        self.passes = 0;
        self.try_after = self.try_after.max(FIRST_TRY);
        self.changed_at = now;
    }

    /// A request failed once, and both halves of it passed: that may have been bad luck. The second time in a row it was not.
    pub fn suspected(&mut self, largest: usize, now: Timestamp) {
        self.suspicions += 1;
        // One that was only tried, beyond what is known to pass, needs no second time.
        if self.suspicions >= 2 || self.grown {
            self.refused(largest, now);
        }
    }

    /// A request of so many items passed. After enough of them a larger one is tried.
    pub fn passed(&mut self, size: usize, configured: usize, now: Timestamp) {
        if size >= self.limit(configured) {
            self.suspicions = 0;
        }
        let Some(largest) = self.largest else { return };
        if size < largest as usize {
            return;
        }
        if std::mem::take(&mut self.grown) {
            // It was right to grow: the next try need not wait as long.
            self.try_after = (self.try_after / 4).max(FIRST_TRY);
        }
        self.passes += 1;
        if self.passes < self.try_after {
            return;
        }
        self.passes = 0;
        let larger = largest.saturating_add((largest / 2).max(1));
        self.largest = ((larger as usize) < configured).then_some(larger);
        self.grown = self.largest.is_some();
        if self.largest.is_none() {
            self.try_after = 0;
        }
        self.changed_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_takes_single_items_only_is_seldom_asked_for_more() {
        let mut size = BatchSize::default();
        assert_eq!(size.limit(64), 64);
        size.refused(1, Timestamp(0));
        let mut refused = 0;
        for n in 0..5_000 {
            let asked = size.limit(64);
            if asked > 1 {
                refused += 1;
                size.refused(1, Timestamp(n));
            } else {
                size.passed(asked, 64, Timestamp(n));
            }
        }
        assert!((2..=5).contains(&refused), "{refused}");
    }

    #[test]
    fn it_grows_back_when_larger_ones_pass() {
        let mut size = BatchSize::default();
        size.refused(4, Timestamp(0));
        for n in 0..200 {
            size.passed(size.limit(64), 64, Timestamp(n));
        }
        assert_eq!(size.limit(64), 64);
    }

    #[test]
    fn one_failure_is_bad_luck_and_two_in_a_row_are_not() {
        let mut size = BatchSize::default();
        for n in 0..100 {
            size.suspected(32, Timestamp(n));
            assert_eq!(size.limit(64), 64);
            size.passed(64, 64, Timestamp(n));
        }
        size.suspected(32, Timestamp(200));
        size.suspected(32, Timestamp(201));
        assert_eq!(size.limit(64), 32);
    }
}
