//! When items are due that are sent back at a rate.

use std::time::Duration;

use redrive_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::env::Env;

/// So far ahead of their moments items are put in line: whoever does it looks about once a second.
const AHEAD: Duration = Duration::from_secs(2);

/// A row of moments, one for each item: the first item that it counts is due at once, each next one a step of the rate later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// When the first item is due that it counts.
    pub from: Timestamp,
    /// So many were sent back before, and are not counted.
    pub before: u64,
}

impl Pace {
    /// One that begins now and counts all.
    pub(super) fn all(env: &Env) -> Self {
        Self { from: env.clock.now(), before: 0 }
    }

    /// When an item is due before which so many were sent back.
    pub(super) fn due(self, sent: u64, rate: Option<f64>) -> Timestamp {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let counted = sent.saturating_sub(self.before) as f64;
        let seconds = rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| counted / rate);
        self.from.after(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// The pace that is kept now that so many were sent back: this one while its next moment is to come, and otherwise one
    /// that begins now. What was not used of it is lost, so that no more than the rate ever goes in a second.
    pub(super) fn kept(self, sent: u64, rate: Option<f64>, now: Timestamp) -> Self {
        let goes_on = rate.is_some() && sent >= self.before && self.due(sent, rate) >= now;
        if goes_on { self } else { Self { from: now, before: sent } }
    }

    /// The same, where nothing is put in line before its time is near: a next moment that is further away was made by a clock
    /// that was ahead, and nobody waits for it.
    pub(super) fn kept_near(self, sent: u64, rate: f64, now: Timestamp) -> Self {
        let furthest = Self { from: now, before: 0 }.due(3, Some(rate)).after(AHEAD);
        match self.due(sent, Some(rate)) > furthest {
            true => Self { from: now, before: sent },
            false => self.kept(sent, Some(rate), now),
        }
    }

    /// How many more may be put in line now that so many were: those that are due soon, and the one after them, so that a run
    /// is not taken for finished between two items.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturated"
    )]
    pub(super) fn room(self, sent: u64, rate: f64, now: Timestamp) -> u64 {
        let soon = now.after(AHEAD).0.saturating_sub(self.from.0);
        if soon < 0 {
            return 0;
        }
        let moments = (soon as f64 / 1_000.0 * rate).floor() as u64;
        moments.saturating_add(2).saturating_sub(sent.saturating_sub(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_goes_on_where_it_was_and_begins_anew_when_it_was_left() {
        let (rate, begun) = (Some(4.0), Pace { from: Timestamp(1_000), before: 10 });
        assert_eq!(begun.due(10, rate), Timestamp(1_000));
        assert_eq!(begun.due(13, rate), Timestamp(1_750));
        assert_eq!(begun.kept(13, rate, Timestamp(1_100)), begun);
        assert_eq!(begun.kept(13, rate, Timestamp(1_750)), begun);
        assert_eq!(begun.kept(13, rate, Timestamp(1_751)), Pace { from: Timestamp(1_751), before: 13 });
        assert_eq!(begun.due(13, None), Timestamp(1_000), "without a rate all are due at once");
        assert_eq!(begun.kept(13, None, Timestamp(900)), Pace { from: Timestamp(900), before: 13 });
    }

    #[test]
    fn what_is_due_soon_is_put_in_line_and_one_more() {
        let begun = Pace { from: Timestamp(1_000), before: 10 };
        let room = |sent, now| begun.room(sent, 2.0, Timestamp(now));
        assert_eq!(room(10, 1_000), 6, "five within two seconds, and one more");
        assert_eq!(room(16, 1_000), 0);
        assert_eq!(room(16, 1_499), 0);
        assert_eq!(room(16, 1_500), 1);
        assert_eq!(begun.room(11, 0.001, Timestamp(500_000)), 1, "the next one waits in line");
        assert_eq!(begun.room(12, 0.001, Timestamp(500_000)), 0);
        assert!(begun.room(10, 1e6, Timestamp(1_000)) > 1_000_000);
        assert_eq!(begun.room(10, 2.0, Timestamp(-9_000)), 0);
    }

    #[test]
    fn a_clock_that_was_ahead_holds_nothing_up() {
        let begun = Pace { from: Timestamp(1_000_000), before: 0 };
        assert_eq!(begun.kept_near(10, 2.0, Timestamp(1_002_000)), begun);
        for (sent, now) in [(10, 500_000), (7_200, 1_001_000)] {
            let now = Timestamp(now);
            assert_eq!(begun.kept_near(sent, 2.0, now), Pace { from: now, before: sent });
        }
    }
}
