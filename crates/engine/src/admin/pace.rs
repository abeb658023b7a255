//! When items are due that are sent back at a rate.

use std::time::Duration;

use redrive_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::env::Env;

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
}
