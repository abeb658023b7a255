//! Chance on top of a wait, so that items that failed together do not come back together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backoff::scaled;
use crate::draw::Draw;

/// How a wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    None,
    /// By this fraction to either side: 0.25 is ±25 %.
    Proportional(f64),
    /// Anywhere between zero and the wait.
    Full,
    /// Anywhere between half the wait and the wait.
    Equal,
}

impl Jitter {
    /// Spreads a wait. None exceeds the cap, and waits at the cap are drawn from below it rather than clipped to it: what
    /// failed together would come back together.
    #[must_use]
    pub fn apply(self, delay: Duration, draw: Draw, cap: Duration) -> Duration {
        self.at(self.below(delay, cap), draw.value()).min(cap)
    }

    /// The shortest and the longest wait that [`Jitter::apply`] can give.
    #[must_use]
    pub fn bounds(self, delay: Duration, cap: Duration) -> (Duration, Duration) {
        let delay = self.below(delay, cap);
        (self.at(delay, 0.0).min(cap), self.at(delay, 1.0).min(cap))
    }

    /// The wait that is spread in place of one whose spread would go beyond the cap.
    fn below(self, delay: Duration, cap: Duration) -> Duration {
        match self {
            Self::Proportional(fraction) => delay.min(scaled(cap, 1.0 / (1.0 + fraction))),
            Self::None | Self::Full | Self::Equal => delay,
        }
    }

    fn at(self, delay: Duration, draw: f64) -> Duration {
        match self {
            Self::None => delay,
            Self::Proportional(fraction) => scaled(delay, 1.0 - fraction + 2.0 * fraction * draw),
            Self::Full => scaled(delay, draw),
            Self::Equal => scaled(delay, 0.5 + 0.5 * draw),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_at_the_cap_stay_spread_below_it() {
        for (jitter, least) in [(Jitter::Proportional(0.25), 240), (Jitter::Full, 0), (Jitter::Equal, 200)] {
            let cap = Duration::from_millis(400);
            let draws = (0..1_200).map(|n| Draw::new(f64::from(n) / 1_200.0));
            let waits: Vec<u128> = draws.map(|draw| jitter.apply(cap, draw, cap).as_millis()).collect();
            assert!(waits.iter().all(|wait| (least..=400).contains(wait)), "{jitter:?}");
            let fullest = (0..=400).map(|ms| waits.iter().filter(|wait| **wait == ms).count()).max();
            assert!(fullest <= Some(10), "{jitter:?}: {fullest:?} of 1,200 waits are the same");
        }
    }

    #[test]
    fn the_middle_draw_leaves_a_proportional_wait_as_it_is() {
        assert_eq!(Jitter::Proportional(0.25).apply(2 * SECOND, Draw::MIDDLE, Duration::MAX), 2 * SECOND);
    }

    #[test]
    fn bounds_are_those_of_the_kind() {
        let bounds = |jitter: Jitter| jitter.bounds(4 * SECOND, Duration::MAX);
        assert_eq!(bounds(Jitter::None), (4 * SECOND, 4 * SECOND));
        assert_eq!(bounds(Jitter::Proportional(0.25)), (3 * SECOND, 5 * SECOND));
        assert_eq!(bounds(Jitter::Full), (Duration::ZERO, 4 * SECOND));
        assert_eq!(bounds(Jitter::Equal), (2 * SECOND, 4 * SECOND));
    }

    #[test]
    fn the_mean_of_the_second_wait_of_a_sample_is_two_seconds() {
        let draws = (0..1_000).map(|i| Draw::new(f64::from(i) / 1_000.0));
        let total: Duration =
            draws.map(|draw| Jitter::Proportional(0.25).apply(2 * SECOND, draw, 60 * SECOND)).sum();
        let mean = total.as_millis() / 1_000;
        assert!((1_980..=2_020).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn waits_stay_within_bounds(
            ms in 0_u64..u64::MAX, cap in 0_u64..u64::MAX, bits in any::<u64>(), fraction in 0.0_f64..=1.0, kind in 0..4,
        ) {
            let jitter = [Jitter::None, Jitter::Proportional(fraction), Jitter::Full, Jitter::Equal]
                [usize::try_from(kind).unwrap()];
            let (delay, cap) = (Duration::from_millis(ms), Duration::from_millis(cap));
            let wait = jitter.apply(delay, Draw::from_bits(bits), cap);
            let (low, high) = jitter.bounds(delay, cap);
            prop_assert!(low <= wait && wait <= high && wait <= cap);
        }
    }
}
