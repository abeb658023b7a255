//! Moments for people: how long ago, or the local date and time; exactly and in UTC where that was asked for.

use jiff::tz::TimeZone;
use redrive_core::time::Timestamp;

use super::text::count;

/// How far away a moment may be to be told by its distance.
const NEAR_MS: i64 = 24 * 3_600_000;

/// How far ahead of one another clocks may be that are taken for one.
const CLOSE_MS: i64 = 2_000;

/// Tells moments, as seen from one.
#[derive(Debug, Clone)]
pub struct Times {
    /// Now.
    pub now: Timestamp,
    /// Whether moments are told exactly, in UTC.
    pub utc: bool,
    /// Where the reader is.
    pub zone: TimeZone,
}

impl Times {
    /// Tells moments to whoever sits at this machine.
    pub fn here(now: Timestamp, utc: bool) -> Self {
        Self { now, utc, zone: TimeZone::system() }
    }

    /// A moment, as a report writes it. What is no moment is given back as it is.
    pub fn say(&self, written: &str) -> String {
        read(written).map_or_else(|| written.to_owned(), |at| self.tell(at))
    }

    /// A moment: "2 min ago", "in 40 s", or its date and time.
    pub fn tell(&self, at: Timestamp) -> String {
        if self.utc {
            return at.to_string();
        }
        match at.0.saturating_sub(self.now.0) {
            -999..=0 => "now".to_owned(),
            away if away.saturating_abs() >= NEAR_MS => self.date(at),
            ago @ ..0 => format!("{} ago", distance(-ago)),
            ahead => format!("in {}", distance(ahead)),
        }
    }

    /// A moment that something is due at, as a report writes it: what is past is due now.
    pub fn due(&self, written: &str) -> String {
        match read(written) {
            Some(at) if !self.utc && at <= self.now => "now".to_owned(),
            _ => self.say(written),
        }
    }

    /// A moment at which something happened, as a report writes it. One that a clock wrote that was ahead is told by its date:
    /// what has happened is not said to come.
    pub fn say_happened(&self, written: &str) -> String {
        match read(written) {
            Some(at) if !self.utc && at.0 > self.now.0.saturating_add(CLOSE_MS) => self.date(at),
            Some(at) if !self.utc => self.tell(at.min(self.now)),
            _ => self.say(written),
        }
    }

    /// Whether a moment, as a report writes it, is over.
    pub fn is_past(&self, written: &str) -> bool {
        read(written).is_some_and(|at| at < self.now)
    }

    /// The date and time of a moment, as a report writes it, however near it is.
    pub fn say_date(&self, written: &str) -> String {
        match read(written) {
            Some(at) if !self.utc => self.date(at),
            _ => written.to_owned(),
        }
    }

    /// The local date and time of a moment, to the minute.
    pub fn date(&self, at: Timestamp) -> String {
        let Ok(moment) = jiff::Timestamp::from_millisecond(at.0) else { return at.to_string() };
        let local = moment.to_zoned(self.zone.clone());
        let (date, time) = (local.date(), local.time());
        format!(
            "{:04}-{:02}-{:02} {:02}:{:02}",
            date.year(),
            date.month(),
            date.day(),
            time.hour(),
            time.minute()
        )
    }
}

/// A moment as reports write it.
fn read(written: &str) -> Option<Timestamp> {
    written.parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_millisecond()))
}

/// A span in its largest unit. What is ahead is never said to be nearer than it is.
pub fn distance(ms: i64) -> String {
    let seconds = u64::try_from(ms).unwrap_or(0).div_ceil(1_000);
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h", count((seconds + 1_800) / 3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(utc: bool) -> Times {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        Times { now: Timestamp(1_700_000_000_000), utc, zone }
    }

    #[test]
    fn near_moments_are_told_by_their_distance_and_others_by_their_local_date() {
        let times = times(false);
        for (away, told) in [
            (0, "now"),
            (-400, "now"),
            (200, "in 1 s"),
            (40_000, "in 40 s"),
            (-42_000, "42 s ago"),
            (-125_000, "2 min ago"),
            (3 * 3_600_000, "in 3 h"),
            (-26 * 3_600_000, "2023-11-13 22:13"),
            (48 * 3_600_000, "2023-11-17 00:13"),
        ] {
            assert_eq!(times.tell(Timestamp(times.now.0 + away)), told, "{away}");
        }
    }

    #[test]
    fn what_a_report_wrote_is_read_and_exact_where_asked_for() {
        let written = "2023-11-14T22:13:20.123Z";
        assert_eq!(times(false).say(written), "in 1 s");
        assert_eq!(times(true).say(written), written);
        assert_eq!(times(false).say("never"), "never");
    }

    #[test]
    fn what_has_happened_is_never_said_to_come() {
        for (written, told) in [
            ("2023-11-14T23:13:20.000Z", "2023-11-15 01:13"),
            ("2023-11-14T22:13:21.000Z", "now"),
            ("2023-11-14T22:12:38.000Z", "42 s ago"),
            ("never", "never"),
        ] {
            assert_eq!(times(false).say_happened(written), told);
        }
        assert_eq!(times(true).say_happened("2023-11-14T23:13:20.000Z"), "2023-11-14T23:13:20.000Z");
    }
}
