//! Counting what happened lately.

use std::collections::VecDeque;

use crate::time::Timestamp;

/// Width of a slice in milliseconds.
const SLICE: i64 = 100;
/// Slices that are kept: ten seconds.
const SLICES: i64 = 100;

/// Counts per tenth of a second.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Meter {
    slices: VecDeque<(i64, u32)>,
    since: Option<Timestamp>,
}

impl Meter {
    pub(super) fn count(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
        let slice = now.0.div_euclid(SLICE);
        match self.slices.back_mut() {
            Some((at, n)) if *at >= slice => *n = n.saturating_add(1),
            _ => self.slices.push_back((slice, 1)),
        }
        while self.slices.front().is_some_and(|(at, _)| *at <= slice - SLICES) {
            self.slices.pop_front();
        }
    }

    /// How many per second in the last so many milliseconds.
    pub(super) fn per_second(&self, ms: i64, now: Timestamp) -> f64 {
        let lived = self.since.map_or(0, |since| now.0 - since.0);
        let ms = ms.min(lived).clamp(SLICE, SLICE * SLICES);
        let first = (now.0 - ms).div_euclid(SLICE);
        let n: u64 = self.slices.iter().filter(|(at, _)| *at > first).map(|(_, n)| u64::from(*n)).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let rate = n as f64 * 1_000.0 / ms as f64;
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_rate_of_the_last_while() {
        let mut meter = Meter::default();
        for n in 0..1_000 {
            meter.count(Timestamp(n * 20));
        }
        let rate = meter.per_second(2_000, Timestamp(20_000));
        assert!((45.0..=51.0).contains(&rate), "{rate}");
        assert!(meter.per_second(2_000, Timestamp(40_000)) < 1e-9);
        assert!(meter.slices.len() <= 101);
    }
}
