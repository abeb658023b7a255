//! How fast something goes, and how long what is left of it takes: from looks at a count that grows.

use std::collections::VecDeque;
use std::time::Duration;

use redrive_core::time::Timestamp;

/// Looks older than this say nothing about now.
const WINDOW: Duration = Duration::from_secs(30);
/// Before somebody has looked for so long, nothing is said: the first moments are bursts and start-up.
const FIRST: Duration = Duration::from_secs(2);
/// Looks closer together than this are one.
const APART: Duration = Duration::from_millis(250);

/// Looks at a count that grows, of the last half minute.
///
/// It knows no clock: each look brings its time. What was counted before the first look has no part in the rate, so that a run
/// that is gone on with does not seem to fly at first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pace {
    looks: VecDeque<Look>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    at: Timestamp,
    count: u64,
}

impl Pace {
    /// Takes a look: so many were finished by then.
    ///
    /// It begins anew where the count went down (items were sent back) or the clock did.
    pub fn look(&mut self, at: Timestamp, count: u64) {
        if self.looks.back().is_some_and(|last| at < last.at || count < last.count) {
            self.looks.clear();
        }
        // The last look is always kept as it is; the one before it has to be apart from the one before that.
        if let [.., before, last] = *self.looks.make_contiguous()
            && last.at.since(before.at) < APART
        {
            self.looks.pop_back();
        }
        self.looks.push_back(Look { at, count });
        // The newest of those that are too old stays: the window begins there.
        while self.looks.get(1).is_some_and(|second| at.since(second.at) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    /// How many a second lately: zero when none was finished for half a minute, `None` while that cannot be known.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let span = last.at.since(first.at);
        #[expect(clippy::cast_precision_loss, reason = "a rate is told to two or three places")]
        let grown = (last.count - first.count) as f64;
        (span >= FIRST).then(|| grown / span.as_secs_f64())
    }

    /// How long so many more take as things go now, where the last of them is not due before `due`; `None` when that is not
    /// known, or nothing moves.
    #[must_use]
    pub fn left(&self, remaining: u64, due: Duration) -> Option<Duration> {
        if remaining == 0 {
            return Some(Duration::ZERO);
        }
        let rate = self.per_second().filter(|rate| *rate > 0.0)?;
        #[expect(clippy::cast_precision_loss, reason = "a time left is told to two places")]
        let seconds = remaining as f64 / rate;
        // What waits is begun when it is due, however fast others go until then.
        Duration::try_from_secs_f64(seconds).ok().map(|left| left.max(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that waits is due later than now.
    const NOW: Duration = Duration::ZERO;

    /// A pace after looks at (milliseconds, count).
    fn after(looks: &[(i64, u64)]) -> Pace {
        let mut pace = Pace::default();
        for (ms, count) in looks {
            pace.look(Timestamp(*ms), *count);
        }
        pace
    }

    #[test]
    fn nothing_is_said_of_the_first_seconds() {
        assert_eq!(Pace::default().per_second(), None);
        assert_eq!(after(&[(0, 500)]).per_second(), None);
        let early = after(&[(0, 0), (150, 40), (1_900, 50)]);
        assert_eq!((early.per_second(), early.left(10, NOW)), (None, None));
    }

    #[test]
    fn what_was_finished_before_the_first_look_has_no_part_in_it() {
        let pace = after(&[(0, 100_000), (1_000, 100_010), (4_000, 100_040)]);
        assert_eq!(pace.per_second(), Some(10.0));
        assert_eq!(pace.left(600, NOW), Some(Duration::from_secs(60)));
    }

    #[test]
    fn only_the_last_half_minute_counts() {
        let fast_then_slow: Vec<(i64, u64)> = (0..=100)
            .map(|s: i64| (s * 1_000, if s < 50 { s.unsigned_abs() * 100 } else { 5_000 + s.unsigned_abs() }))
            .collect();
        let rate = after(&fast_then_slow).per_second().unwrap();
        assert!((0.9..1.1).contains(&rate), "{rate}");
    }

    #[test]
    fn no_less_is_left_than_until_the_last_that_waits_is_due() {
        let fast = after(&[(0, 0), (10_000, 190)]);
        assert!(fast.left(10, NOW).is_some_and(|left| left < Duration::from_secs(1)));
        let due = Duration::from_secs(22);
        assert_eq!(fast.left(10, due), Some(due));
        assert_eq!(
            fast.left(19_000, due),
            Some(Duration::from_secs(1_000)),
            "what takes longer takes longer"
        );
        assert_eq!(fast.left(0, due), Some(Duration::ZERO), "nothing is left");
    }

    #[test]
    fn what_stands_still_goes_at_zero_and_has_no_end() {
        let pace = after(&[(0, 0), (5_000, 500), (10_000, 500), (20_000, 500), (36_000, 500)]);
        assert_eq!((pace.per_second(), pace.left(1, NOW)), (Some(0.0), None));
        assert_eq!(pace.left(0, NOW), Some(Duration::ZERO));
    }

    #[test]
    fn it_begins_anew_when_items_were_sent_back_or_the_clock_was_put_back() {
        assert_eq!(after(&[(0, 0), (5_000, 500), (6_000, 300)]).per_second(), None);
        assert_eq!(after(&[(0, 0), (5_000, 500), (6_000, 300), (10_000, 340)]).per_second(), Some(10.0));
        assert_eq!(after(&[(9_000, 0), (5_000, 500)]).per_second(), None);
    }

    #[test]
    fn however_often_somebody_looks_it_keeps_few_looks_and_sees_the_last() {
        let often: Vec<(i64, u64)> = (0..=60_000).map(|ms: i64| (ms, ms.unsigned_abs() / 100)).collect();
        let pace = after(&often);
        assert!(pace.looks.len() < 130, "{}", pace.looks.len());
        let rate = pace.per_second().unwrap();
        assert!((9.8..10.2).contains(&rate), "{rate}");
    }

    #[test]
    fn looks_that_are_minutes_apart_are_enough() {
        assert_eq!(after(&[(0, 0), (600_000, 600)]).per_second(), Some(1.0));
    }
}
