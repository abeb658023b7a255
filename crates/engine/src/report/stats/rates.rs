//! Sums of counters that can be added up over stages, runs and days, and the shares that follow from them.
//!
//! A try is an attempt that passed, failed or crashed. A retry is a try that was not the item's first at its stage; what was
//! turned away is no try, and is counted apart.

use redrive_core::attempt::Outcome;
use redrive_core::id::StageNo;
use redrive_core::item::DeadReason;
use redrive_core::tally::{Counter, Metric};
use serde::Serialize;

/// How often items had to be tried again, and with what success.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Tries that were not an item's first.
    pub retries: u64,
    /// Those as a share of all tries.
    pub retry_share: Option<f64>,
    /// Items that had to be tried again, those that still wait for it included.
    pub retried: u64,
    /// Those as a share of the items that were tried.
    pub retry_rate: Option<f64>,
    /// Retries that passed, as a share of all retries.
    pub retry_success_rate: Option<f64>,
    /// Items that are dead now because their attempts are spent.
    pub exhausted: u64,
    /// Those as a share of the items that were tried.
    pub exhausted_rate: Option<f64>,
    /// Attempts that were turned away, as a share of all attempts.
    pub throttle_rate: Option<f64>,
}

/// What rates are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::report) struct Sums {
    pub(in crate::report) attempts: u64,
    pub(in crate::report) throttles: u64,
    pub(in crate::report) tries: u64,
    pub(in crate::report) passes: u64,
    pub(in crate::report) tried: u64,
    pub(in crate::report) first_passes: u64,
    pub(in crate::report) retried: u64,
    pub(in crate::report) exhausted: u64,
    pub(in crate::report) anew: u64,
}

impl Sums {
    /// Adds up the counters of the stages that are wanted.
    pub(in crate::report) fn of(counters: &[Counter], wanted: impl Fn(StageNo) -> bool) -> Self {
        let mut sums = Self::default();
        for Counter { metric, n, .. } in counters.iter().filter(|counter| wanted(counter.stage)) {
            sums.add(*metric, u64::try_from(*n).unwrap_or(0));
        }
        sums
    }

    fn add(&mut self, metric: Metric, n: u64) {
        match metric {
            Metric::Outcome(outcome) => {
                self.attempts += n;
                if outcome == Outcome::Throttled {
                    self.throttles += n;
                }
                if outcome.is_try() {
                    self.tries += n;
                    self.passes += if outcome.is_pass() { n } else { 0 };
                }
            }
            Metric::FirstTry => self.tried += n,
            Metric::FirstPass => self.first_passes += n,
            Metric::TriedAnew => self.anew += n,
            // One that failed once and waits has to be tried again, too.
            Metric::PassedAfter(2..) | Metric::DeadAfter(2..) | Metric::OpenAfter(_) => self.retried += n,
            Metric::DeadReason(DeadReason::Exhausted) => self.exhausted += n,
            _ => {}
        }
    }

    /// Both together.
    pub(in crate::report) fn plus(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            throttles: self.throttles + other.throttles,
            tries: self.tries + other.tries,
            passes: self.passes + other.passes,
            tried: self.tried + other.tried,
            first_passes: self.first_passes + other.first_passes,
            retried: self.retried + other.retried,
            exhausted: self.exhausted + other.exhausted,
            anew: self.anew + other.anew,
        }
    }

    /// Tries that were not an item's first.
    pub(in crate::report) fn retries(&self) -> u64 {
        self.tries.saturating_sub(self.tried)
    }

    /// Tries after one that failed since the item was admitted or sent back: what failed before that was another
    /// configuration's, or is not to be held against it.
    pub(in crate::report) fn retries_since(&self) -> u64 {
        self.retries().saturating_sub(self.anew)
    }

    /// Those as a share of all tries.
    pub(in crate::report) fn retry_share_since(&self) -> Option<f64> {
        share(self.retries_since(), self.tries)
    }

    /// Items that passed at their first try, as a share of those that were tried.
    pub(in crate::report) fn first_try_rate(&self) -> Option<f64> {
        share(self.first_passes, self.tried)
    }

    /// Tries that passed, as a share of all tries.
    pub(in crate::report) fn success_rate(&self) -> Option<f64> {
        share(self.passes, self.tries)
    }

    /// The shares that follow.
    pub(in crate::report) fn rates(&self) -> Rates {
        let retries = self.retries();
        Rates {
            retries,
            retry_share: share(retries, self.tries),
            retried: self.retried,
            // An item that was sent back from a later stage passes one twice and was tried first once.
            retry_rate: share(self.retried, self.tried.max(self.retried)),
            retry_success_rate: share(self.passes.saturating_sub(self.first_passes), retries),
            exhausted: self.exhausted,
            exhausted_rate: share(self.exhausted, self.tried.max(self.exhausted)),
            throttle_rate: share(self.throttles, self.attempts),
        }
    }
}

/// The sum of one counter of a stage.
pub(super) fn sum(counters: &[Counter], no: StageNo, of: Metric) -> u64 {
    let some = counters.iter().filter(|counter| counter.stage == no && counter.metric == of);
    some.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_tries_after_the_first_and_turned_away_is_none() {
        let of = |metric, n| Counter { stage: StageNo(0), metric, n };
        // Ten items: six pass at once, two at the second try, one is dead after three, one waits after one.
        let counters = [
            of(Metric::Outcome(Outcome::Succeeded), 8),
            of(Metric::Outcome(Outcome::Failed), 5),
            of(Metric::Outcome(Outcome::Crashed), 1),
            of(Metric::Outcome(Outcome::Throttled), 6),
            of(Metric::FirstTry, 10),
            of(Metric::FirstPass, 6),
            of(Metric::PassedAfter(1), 6),
            of(Metric::PassedAfter(2), 2),
            of(Metric::DeadAfter(3), 1),
            of(Metric::OpenAfter(1), 1),
            of(Metric::DeadReason(DeadReason::Exhausted), 1),
        ];
        let sums = Sums::of(&counters, |_| true);
        let rates = sums.rates();
        assert_eq!((sums.tries, rates.retries, rates.retried, rates.exhausted), (14, 4, 4, 1));
        assert_eq!((rates.retry_rate, rates.retry_success_rate), (Some(0.4), Some(0.5)));
        assert_eq!((rates.throttle_rate, rates.exhausted_rate), (Some(0.3), Some(0.1)));
        assert_eq!(sums.plus(sums).rates().retry_rate, rates.retry_rate);
        assert_eq!(Sums::default().rates(), Rates::default());
        assert_eq!(Sums::of(&counters, |stage| stage == StageNo(1)), Sums::default());
    }
}
