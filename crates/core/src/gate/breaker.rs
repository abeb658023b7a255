//! Noticing that a dependency is away, and finding out when it is back.

use serde::{Deserialize, Serialize};

use super::spec::BreakerSpec;
use crate::time::Timestamp;

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
    /// When any of this last changed.
    pub(super) changed_at: Timestamp,
}

impl Breaker {
    pub(super) fn open(&mut self, spec: &BreakerSpec, now: Timestamp) {
        self.away_since = self.away_since.or(Some(now));
        self.probe_at = now.after(spec.open_for);
        self.changed_at = now;
    }

    pub(super) fn close(&mut self, now: Timestamp) {
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

/// How calls ended lately, as one worker sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Lately {
    /// Number of the slice, calls that were answered, calls that failed.
    slices: Vec<(i64, u32, u32)>,
    /// Calls that failed since one was answered.
    in_a_row: u32,
}

impl Lately {
    /// Counts calls, and says whether the dependency is to be taken for away.
    pub(super) fn count(&mut self, spec: &BreakerSpec, answered: u32, failed: u32, now: Timestamp) -> bool {
        let width = (crate::time::millis(spec.window) / SLICES).max(1);
        let slice = now.0.div_euclid(width);
        self.slices.retain(|(at, ..)| *at > slice - SLICES && *at <= slice);
        match self.slices.last_mut() {
            Some((at, good, bad)) if *at == slice => {
                *good = good.saturating_add(answered);
                *bad = bad.saturating_add(failed);
            }
            _ => self.slices.push((slice, answered, failed)),
        }
        let (good, bad) = self
            .slices
            .iter()
            .fold((0_u64, 0_u64), |(good, bad), (_, g, b)| (good + u64::from(*g), bad + u64::from(*b)));
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let rate = bad as f64 / (good + bad).max(1) as f64;
        self.in_a_row = if answered > 0 { 0 } else { self.in_a_row.saturating_add(failed) };
        let enough = good + bad >= u64::from(spec.min_calls);
        failed > 0 && (self.in_a_row >= spec.min_calls || (enough && rate >= spec.failure_rate))
    }

    pub(super) fn forget(&mut self) {
        self.slices.clear();
        self.in_a_row = 0;
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
            assert!(!lately.count(&spec, 0, 1, Timestamp(n * 100)), "too few to say");
        }
        assert!(lately.count(&spec, 0, 1, Timestamp(2_000)));
        lately.count(&spec, 1, 0, Timestamp(3_000));
        assert!(!lately.count(&spec, 0, 1, Timestamp(60_000)), "all but one are past the window");
        let mut sudden = Lately::default();
        (0..10_000).for_each(|n| assert!(!sudden.count(&spec, 1, 0, Timestamp(n))));
        let opened = (0..100).find(|n| sudden.count(&spec, 0, 1, Timestamp(10_000 + n)));
        assert_eq!(opened, Some(19), "as many failures in a row say enough, however many passed before");
        let mut mixed = Lately::default();
        for n in 0..100 {
            assert!(!mixed.count(&spec, 2, 1, Timestamp(n * 10)), "a third is below half");
        }
    }
}
