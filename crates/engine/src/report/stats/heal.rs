//! How long items took from their first failure at a stage to passing it, however often they were sent back in between.

use std::collections::BTreeMap;

use redrive_core::id::StageNo;
use redrive_core::tally::{Counter, HealSpan, Metric};
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

    fn share(&self, items: u64, percent: u64) -> (u64, u64) {
        share(&self.by_span, items, percent)
    }
}

/// About how long so many per cent took at most, and the end of the range that is in. Within a range they are taken to be
/// evenly spread.
fn share(by_span: &BTreeMap<HealSpan, u64>, all: u64, percent: u64) -> (u64, u64) {
    let wanted = (all * percent).div_ceil(100).max(1);
    let mut before = 0;
    for (span, n) in by_span {
        if before + n >= wanted {
            let (width, place) = (u128::from(span.to - span.from), u128::from(wanted - before));
            let within = width * (2 * place - 1) / (2 * u128::from(*n));
            return (span.from + u64::try_from(within).unwrap_or(0), span.to);
        }
        before += n;
    }
    (u64::MAX, u64::MAX)
}

/// How long tries took, from claim to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Took {
    /// Tries that were timed.
    pub tries: u64,
    /// Mean.
    pub mean_ms: u64,
    /// Half of them took about this, or less.
    pub p50_ms: u64,
    /// 95 % of them took about this, or less.
    pub p95_ms: u64,
}

impl Took {
    /// From the counters of a stage; `None` when nothing was timed.
    pub(super) fn of(counters: &[Counter], no: StageNo) -> Option<Self> {
        let (mut by_span, mut sum_ms) = (BTreeMap::new(), 0);
        for Counter { metric, n, .. } in counters.iter().filter(|counter| counter.stage == no) {
            let n = u64::try_from(*n).unwrap_or(0);
            match metric {
                Metric::TookIn(number) => *by_span.entry(HealSpan::of(*number)).or_default() += n,
                Metric::TookMillis => sum_ms += n,
                _ => {}
            }
        }
        let tries: u64 = by_span.values().sum();
        let (p50_ms, p95_ms) = (share(&by_span, tries, 50).0, share(&by_span, tries, 95).0);
        (tries > 0).then(|| Self { tries, mean_ms: sum_ms / tries, p50_ms, p95_ms })
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
    fn the_time_of_tries_is_told_by_stage() {
        let of = |stage, metric, n| Counter { stage: StageNo(stage), metric, n };
        let counters = [
            of(0, Metric::TookIn(HealSpan::number(5)), 90),
            of(0, Metric::TookIn(HealSpan::number(1_000)), 10),
            of(0, Metric::TookMillis, 10_450),
            of(1, Metric::TookIn(HealSpan::number(7)), 1),
        ];
        let told = Took::of(&counters, StageNo(0)).unwrap();
        assert_eq!((told.tries, told.mean_ms, told.p50_ms), (100, 104, 5));
        assert!((960..=1_088).contains(&told.p95_ms), "{told:?}");
        assert_eq!(Took::of(&counters, StageNo(2)), None);
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
