//! Counting what happened lately.

use std::collections::VecDeque;

use crate::time::Timestamp;

/// Width of a slice in milliseconds.
const SLICE: i64 = 100;
/// Slices that are kept: ten seconds.
const SLICES: i64 = 100;
/// Milliseconds of a minute, and of one of its slices.
const MINUTE: i64 = 60_000;
const SECOND: i64 = 1_000;

/// Counts per tenth of a second, and per second of the last minute.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Meter {
    slices: VecDeque<(i64, u32)>,
    seconds: VecDeque<(i64, u32)>,
    since: Option<Timestamp>,
}

impl Meter {
    pub(super) fn count(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
        count_in(&mut self.slices, now.0.div_euclid(SLICE), SLICES);
        count_in(&mut self.seconds, now.0.div_euclid(SECOND), MINUTE / SECOND);
    }

    /// How many there were in the last minute, to a second.
    pub(super) fn last_minute(&self, now: Timestamp) -> u32 {
        let first = (now.0 - MINUTE).div_euclid(SECOND);
        self.seconds.iter().filter(|(at, _)| *at > first).fold(0, |sum, (_, n)| sum.saturating_add(*n))
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

fn count_in(slices: &mut VecDeque<(i64, u32)>, slice: i64, most: i64) {
    match slices.back_mut() {
        Some((at, n)) if *at >= slice => *n = n.saturating_add(1),
        _ => slices.push_back((slice, 1)),
    }
    while slices.front().is_some_and(|(at, _)| *at <= slice - most) {
        slices.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_counted_and_not_guessed() {
        let mut meter = Meter::default();
        assert_eq!(meter.last_minute(Timestamp(5)), 0);
        meter.count(Timestamp(500_000));
        assert_eq!(meter.last_minute(Timestamp(500_000)), 1, "one call is one");
        for n in 0..2_000 {
            meter.count(Timestamp(510_000 + n * 9));
        }
        assert_eq!(meter.last_minute(Timestamp(528_000)), 2_001, "a gate that is younger than a minute");
        assert_eq!(meter.last_minute(Timestamp(565_000)), 2_000);
        assert_eq!(meter.last_minute(Timestamp(600_000)), 0);
        meter.count(Timestamp(600_000));
        assert_eq!(meter.last_minute(Timestamp(600_000)), 1, "after a silence");
        assert!(meter.seconds.len() <= 60);
    }

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
