//! Time zones: those of this machine, and those that come with the program.

use jiff::tz::{AmbiguousOffset, TimeZone};
use redrive_core::schedule::Zone;
use redrive_core::time::Timestamp;

/// What can be done about a zone that nobody knows.
pub(crate) const UNKNOWN_HINT: &str = "time zones have names such as Europe/Berlin; \"UTC\" is the default";

/// A time zone that is known.
pub(crate) struct KnownZone(TimeZone);

impl KnownZone {
    /// Finds a zone by its name.
    ///
    /// # Errors
    /// When nobody knows it.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        if name == "UTC" {
            return Ok(Self(TimeZone::UTC));
        }
        let found = TimeZone::get(name);
        found.map(Self).map_err(|_| format!("time zone {name:?} is not known"))
    }
}

/// The nearest moment that can be expressed there.
fn moment(ms: i64) -> jiff::Timestamp {
    let end = if ms < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(ms).unwrap_or(end)
}

fn before(local: i64, offset: jiff::tz::Offset) -> i64 {
    local.saturating_sub(i64::from(offset.seconds()) * 1_000)
}

impl Zone for KnownZone {
    fn local(&self, at: Timestamp) -> i64 {
        at.0.saturating_add(i64::from(self.0.to_offset(moment(at.0)).seconds()) * 1_000)
    }

    fn moment(&self, local: i64) -> Timestamp {
        let shown = TimeZone::UTC.to_datetime(moment(local));
        match self.0.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => Timestamp(before(local, offset)),
            AmbiguousOffset::Fold { before: first, .. } => Timestamp(before(local, first)),
            AmbiguousOffset::Gap { after, .. } => {
                // By the clocks after the gap it would be a moment before it, and the gap is the next change.
                let earlier = before(local, after);
                let change = self.0.following(moment(earlier)).next();
                Timestamp(change.map_or(earlier, |change| change.timestamp().as_millisecond()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::schedule::{Cron, next_after};

    use super::*;

    /// Berlin's rules, which need no file.
    fn berlin() -> KnownZone {
        KnownZone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone"))
    }

    fn times(expression: &str, after: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression).expect("an expression");
        let after: jiff::Timestamp = after.parse().expect("a time");
        let mut at = Timestamp(after.as_millisecond());
        let next = || {
            at = next_after(&cron, &berlin(), at).expect("a time");
            at.to_string()[..16].to_owned()
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn a_time_that_does_not_exist_is_at_the_end_of_the_gap() {
        let found = times("30 2 * * *", "2026-03-28T00:00:00Z", 3);
        assert_eq!(found, ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]);
        // Those that are skipped and the one at the end of the gap are one.
        let found = times("*/30 * * * *", "2026-03-29T00:00:00Z", 3);
        assert_eq!(found, ["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"]);
    }

    #[test]
    fn a_time_that_is_twice_is_the_first() {
        let found = times("30 2 * * *", "2026-10-24T00:00:00Z", 3);
        assert_eq!(found, ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]);
        let found = times("0 * * * *", "2026-10-24T23:30:00Z", 3);
        assert_eq!(found, ["2026-10-25T00:00", "2026-10-25T02:00", "2026-10-25T03:00"]);
    }

    #[test]
    fn a_zone_that_is_not_known_is_named() {
        let unknown = KnownZone::find("Mars/Olympus").map(|_| ()).expect_err("there is none");
        assert_eq!(unknown, "time zone \"Mars/Olympus\" is not known");
        // They come with the program, whatever the machine has.
        assert!(KnownZone::find("UTC").is_ok() && KnownZone::find("Europe/Berlin").is_ok());
    }
}
