//! Points in time and spans, as plain values. Nothing here reads a clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, in integer milliseconds since the Unix epoch (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The latest moment that can be expressed: used as "never".
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the moment `span` later, saturating at the end of time.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// Returns the span from `earlier` to `self`, or zero when the clock stepped back between them.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// How far clocks of one store may differ, and how far one may be put, without anybody having to mend what was written.
pub const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Notices that a clock was put forward or back, by a second one that only runs on.
///
/// Readings are compared with the one before, so that a clock that is slewed, or gains and loses a little, is not taken for
/// one that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    offset: i64,
}

impl Steps {
    /// Begins with a reading of both.
    #[must_use]
    pub fn new(clock: Timestamp, uptime: Duration) -> Self {
        Self { offset: clock.0.saturating_sub(millis(uptime)) }
    }

    /// Compares a reading of both with the last one: by how many milliseconds the clock was put meanwhile, forward or
    /// (negative) back, if that is more than [`CLOCK_SLACK`].
    pub fn look(&mut self, clock: Timestamp, uptime: Duration) -> Option<i64> {
        let before = std::mem::replace(self, Self::new(clock, uptime));
        let step = self.offset.saturating_sub(before.offset);
        (step.saturating_abs() > millis(CLOCK_SLACK)).then_some(step)
    }
}

impl fmt::Display for Timestamp {
    /// Writes it as RFC 3339 in UTC, to the millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        // Civil date from a day count, years beginning in March so that the leap day comes last.
        let shifted = days.saturating_add(719_468);
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
    }
}

/// Whole milliseconds of a span, saturating.
#[must_use]
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in cases {
            assert_eq!(Timestamp(ms).to_string(), text);
        }
        assert!(!Timestamp(i64::MAX).to_string().is_empty() && !Timestamp(i64::MIN).to_string().is_empty());
    }

    #[test]
    fn a_step_is_told_once_and_a_drift_never() {
        let secs = Duration::from_secs;
        let mut steps = Steps::new(Timestamp(1_000_000), secs(5));
        assert_eq!(steps.look(Timestamp(1_010_000), secs(15)), None);
        assert_eq!(steps.look(Timestamp(1_021_000 + 3_600_000), secs(26)), Some(3_600_000));
        assert_eq!(steps.look(Timestamp(1_022_000 + 3_600_000), secs(27)), None);
        assert_eq!(steps.look(Timestamp(1_023_000), secs(28)), Some(-3_600_000));
        let drift =
            (1..5_000_u64).map(|n| (Timestamp(1_023_000 + i64::try_from(n).unwrap() * 1_001), secs(28 + n)));
        assert!(drift.into_iter().all(|(clock, uptime)| steps.look(clock, uptime).is_none()));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
