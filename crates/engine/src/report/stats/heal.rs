//! How long items took from their first failure to passing.

use std::collections::BTreeMap;

use redrive_core::tally::{HealSpan, Metric};
use serde::Serialize;

/// How long items took from their first failure to passing.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Healing {
    /// Items that passed after failing.
    pub items: u64,
    /// Mean.
    pub mean_ms: u64,
    /// Half of them took about this, or less.
    pub p50_ms: u64,
    /// 95 % of them took about this, or less.
    pub p95_ms: u64,
    /// Half of them certainly took less than this.
    pub p50_below_ms: u64,
    /// 95 % of them certainly took less than this.
    pub p95_below_ms: u64,
}

/// Counted by ranges, those of older versions included.
#[derive(Debug, Default)]
pub(super) struct Healed {
    by_span: BTreeMap<HealSpan, u64>,
    sum_ms: u64,
}

impl Healed {
    /// Adds a counter, if it is about this.
    pub(super) fn add(&mut self, metric: Metric, n: u64) {
        let span = match metric {
            Metric::HealedIn(number) => HealSpan::of(number),
            Metric::HealedWithin(power) => HealSpan::below_power(power),
            Metric::HealMillis => {
                self.sum_ms += n;
                return;
            }
            _ => return,
        };
        *self.by_span.entry(span).or_default() += n;
    }

    /// What it comes to; `None` when nothing passed after failing.
    pub(super) fn healing(&self) -> Option<Healing> {
        let items: u64 = self.by_span.values().sum();
        if items == 0 {
            return None;
        }
        let ((p50_ms, p50_below_ms), (p95_ms, p95_below_ms)) = (self.share(items, 50), self.share(items, 95));
        Some(Healing { items, mean_ms: self.sum_ms / items, p50_ms, p95_ms, p50_below_ms, p95_below_ms })
    }

    /// About how long so many per cent took at most, and the end of the range that is in. Within a range they are taken to
    /// be evenly spread.
    fn share(&self, items: u64, percent: u64) -> (u64, u64) {
        let wanted = (items * percent).div_ceil(100).max(1);
        let mut before = 0;
        for (span, n) in &self.by_span {
            if before + n >= wanted {
                let (width, place) = (u128::from(span.to - span.from), u128::from(wanted - before));
                let within = width * (2 * place - 1) / (2 * u128::from(*n));
                return (span.from + u64::try_from(within).unwrap_or(0), span.to);
            }
            before += n;
        }
        (u64::MAX, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_times_themselves_within_a_few_per_cent() {
        let mut healed = Healed::default();
        for ms in 1..=10_000_u64 {
            healed.add(Metric::HealedIn(HealSpan::number(ms)), 1);
            healed.add(Metric::HealMillis, ms);
        }
        let told = healed.healing().unwrap();
        assert_eq!((told.items, told.mean_ms), (10_000, 5_000));
        assert!((4_900..=5_100).contains(&told.p50_ms), "{told:?}");
        assert!((9_400..=9_600).contains(&told.p95_ms), "{told:?}");
        assert!(told.p50_below_ms > 5_000 && told.p50_below_ms <= 5_632, "{told:?}");
    }

    #[test]
    fn what_an_older_version_counted_is_told_with_the_rest() {
        let mut healed = Healed::default();
        assert!(healed.healing().is_none());
        healed.add(Metric::HealedWithin(16), 1);
        healed.add(Metric::HealMillis, 40_000);
        let told = healed.healing().unwrap();
        assert_eq!((told.items, told.p50_ms, told.p50_below_ms), (1, 49_152, 65_536));
        healed.add(Metric::HealedIn(HealSpan::number(7)), 9);
        assert_eq!(healed.healing().unwrap().p50_ms, 7);
    }
}
