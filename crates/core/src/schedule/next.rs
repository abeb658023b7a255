//! The times that an expression means, in a time zone.

use crate::time::Timestamp;

use super::cron::Cron;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// A day that is meant comes within so many days: from one 29 February to the next, over a year without one.
const DAYS_AHEAD: i64 = 8 * 366 + 1;

/// A time zone. Local times are milliseconds, counted as if they were UTC.
pub trait Zone {
    /// What the clocks show at a moment.
    fn local(&self, at: Timestamp) -> i64;
    /// When the clocks show a time: at the first of two moments, and at the end of the gap where they never do.
    fn moment(&self, local: i64) -> Timestamp;
}

/// The first time after a moment. A time that clocks skip is at the end of the gap, one that they show twice is the first
/// of the two, and times that fall on one moment are one.
pub fn next_after(cron: &Cron, zone: &dyn Zone, after: Timestamp) -> Option<Timestamp> {
    // A later local time is never an earlier moment, so none before this one is after that moment.
    let mut local = zone.local(after).div_euclid(MINUTE) * MINUTE;
    loop {
        local = next_local(cron, local)?;
        let at = zone.moment(local);
        if at > after {
            return Some(at);
        }
        local += MINUTE;
    }
}

/// The first local time that is meant, from this one on.
fn next_local(cron: &Cron, from: i64) -> Option<i64> {
    let first = from.div_euclid(DAY);
    let minute = u32::try_from(from.rem_euclid(DAY) / MINUTE).ok()?;
    (first..first + DAYS_AHEAD).find_map(|day| {
        let Date { month, day_of_month, weekday } = Date::of(day);
        if !cron.has_day(month, day_of_month, weekday) {
            return None;
        }
        let minute = cron.minute_from(if day == first { minute } else { 0 })?;
        Some(day * DAY + i64::from(minute) * MINUTE)
    })
}

struct Date {
    month: u8,
    day_of_month: u8,
    weekday: u8,
}

impl Date {
    /// The date of a day, counted from 1 January 1970, a Thursday.
    fn of(day: i64) -> Self {
        // Years that begin in March have their leap day at the end.
        let day_of_era = (day + 719_468).rem_euclid(146_097);
        let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * march + 2) / 5 + 1;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let small = |value: i64| u8::try_from(value).unwrap_or(0);
        Self {
            month: small(month),
            day_of_month: small(day_of_month),
            weekday: small((day + 4).rem_euclid(7)),
        }
    }
}

/// The last times of a span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recent {
    /// The last ones, in order.
    pub times: Vec<Timestamp>,
    /// Whether there are earlier ones in the span.
    pub more: bool,
}

/// The last `most` times after a moment, up to and with another. However long the span is, this costs about as much as the
/// times it gives.
pub fn recent(cron: &Cron, zone: &dyn Zone, after: Timestamp, upto: Timestamp, most: usize) -> Recent {
    let mut span = DAY;
    loop {
        let from = after.max(Timestamp(upto.0.saturating_sub(span)));
        let mut found = Recent::default();
        let mut at = from;
        while let Some(time) = next_after(cron, zone, at).filter(|time| *time <= upto) {
            if found.times.len() == most {
                found.times.remove(0);
                found.more = true;
            }
            found.times.push(time);
            at = time;
        }
        if from == after || found.more {
            return found;
        }
        span = span.saturating_mul(8);
    }
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;
