//! How fast to ask when nobody says so: found out from being turned away.
//!
//! Being turned away shows where the ceiling is. The rate then drops a little below it, comes back to it soon, stays
//! near it for most of the time, and only then goes above it, slowly at first: a cubic curve through the ceiling. A
//! steady limit is so touched every few seconds, by very few calls; a limit that was raised is found within seconds.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How far below the ceiling the rate drops when the ceiling was about where it was thought to be.
const SMALL_CUT: f64 = 0.95;
/// How far when nothing is known.
const LARGE_CUT: f64 = 0.7;
/// How the rate grows beyond the ceiling.
const GROWTH: f64 = 0.3;
/// The same where the ceiling is little more than a guess.
const GUESS_GROWTH: f64 = 2.0;
/// A guess stays one while the rate is so many times what passed.
const GUESSED: f64 = 1.25;
/// The shortest way back to the ceiling, in seconds.
const SHORTEST_WAY: f64 = 2.0;
/// The first.
const FIRST_WAY: f64 = 0.6;
/// The longest.
const LONGEST_WAY: f64 = 30.0;
/// After so many ways without being turned away, the ceiling is forgotten.
const FORGET_AFTER: f64 = 6.0;
/// The slowest rate, in calls per second.
const SLOWEST: f64 = 0.1;

/// What was seen of a dependency when it turned a call away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Calls per second that were started lately, by all workers.
    pub(super) started: f64,
    /// Calls per second that passed lately, by all workers.
    pub(super) passed: f64,
    /// The rate to begin with, where nothing else is known.
    pub(super) guess: f64,
    /// Calls per second that passed since it turned one away the time before, by all workers, if that is long enough ago.
    pub(super) between: Option<f64>,
    /// How long a call takes, in seconds.
    pub(super) rtt: f64,
    /// Whether few of the calls around it were turned away.
    pub(super) few: bool,
    /// The lowest ceiling that may be drawn from it.
    pub(super) least: f64,
    /// How long it then wants to be left alone, in seconds.
    pub(super) pause: f64,
}

/// The rate that a dependency is thought to bear, in requests per second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// Where calls were turned away; `None`: they never were.
    pub ceiling: Option<f64>,
    /// Since when the way back has been under way.
    since: Timestamp,
    /// Where the way back began, as a share of the ceiling.
    start: f64,
    /// Seconds of the way back to the ceiling.
    way: f64,
    /// The ceiling is little more than a guess.
    guess: bool,
    /// When the rate was last cut: calls that had started by then belong to the same burst.
    pub(super) cut_at: Timestamp,
    /// Cuts in a row without a call that passed.
    pub(super) cuts_in_a_row: u32,
}

impl Rate {
    /// The rate to ask at; infinite when no ceiling is known.
    #[must_use]
    pub fn allowed(&self, now: Timestamp) -> f64 {
        let Some(ceiling) = self.ceiling else { return f64::INFINITY };
        let x = now.since(self.since).as_secs_f64() / self.way.max(0.1) - 1.0;
        if x > FORGET_AFTER {
            return f64::INFINITY;
        }
        let growth = if self.guess { GUESS_GROWTH } else { GROWTH };
        let steepness = if x < 0.0 { 1.0 - self.start } else { growth };
        (ceiling * (1.0 + steepness * x.powi(3))).max(SLOWEST)
    }

    /// Whether it has come back to about where calls were turned away.
    pub(super) fn is_at_ceiling(&self, now: Timestamp) -> bool {
        let x = now.since(self.since).as_secs_f64() / self.way.max(0.1) - 1.0;
        self.ceiling.is_some() && now >= self.since && (-0.3..=FORGET_AFTER).contains(&x)
    }

    /// The ceiling, where it was measured and holds.
    pub(super) fn measured(&self, now: Timestamp) -> Option<f64> {
        self.ceiling.filter(|_| !self.guess && self.allowed(now).is_finite())
    }

    /// Nothing is known against any rate.
    pub(super) fn lift(&mut self, now: Timestamp) {
        *self = Self { cut_at: now, ..Self::default() };
    }

    /// Goes on as before.
    pub(super) fn restore(&mut self, before: Self, now: Timestamp) {
        let way = self.way.max(before.way);
        *self = Self { since: now, cut_at: now, way, ..before };
    }

    /// Goes down to this share of what is allowed now.
    pub(super) fn lower(&mut self, share: f64, now: Timestamp) {
        let allowed = self.allowed(now);
        self.ceiling = Some((allowed * share / SMALL_CUT).max(SLOWEST));
        (self.start, self.since, self.cut_at) = (SMALL_CUT, now, now);
        self.way = self.way.max(SHORTEST_WAY);
    }

    /// Stays where it is for now.
    pub(super) fn stay(&mut self, now: Timestamp) {
        if self.ceiling.is_some() {
            self.since = self.since.max(now);
        }
    }

    /// A call was turned away that was started after the last cut.
    pub(super) fn cut(&mut self, seen: &Seen, now: Timestamp) {
        let allowed = self.allowed(now);
        let known = self.ceiling.filter(|_| allowed.is_finite());
        // A bucket that was filled meanwhile let more pass than it gives: it is somewhere between the two.
        let still =
            |between: f64| self.guess && seen.few && allowed.is_finite() && allowed > GUESSED * between;
        let guess = seen.between.map_or(self.measured(now).is_none(), still);
        let (ceiling, start) = match (known, seen.between) {
            (_, Some(between)) if guess => ((between * allowed).sqrt(), SMALL_CUT),
            // What passed between two times of being turned away is what the dependency gave in that time; it may have
            // been able to give more. What passed in the last moments it could give; some of that may have been saved up.
            (_, Some(between)) => (f64::midpoint(between, seen.passed.max(between)).min(allowed), SMALL_CUT),
            (Some(ceiling), None) => (ceiling.min(allowed) * SMALL_CUT, SMALL_CUT),
            // A bucket that was full may have hidden how fast is too fast.
            (None, None) => (seen.guess, LARGE_CUT),
        };
        self.ceiling = Some(ceiling.max(seen.least).max(SLOWEST));
        (self.start, self.guess) = (start, guess);
        self.way = match known.filter(|_| !guess) {
            Some(_) => SHORTEST_WAY.max(8.0 * seen.rtt).max(2.0 * seen.pause).min(LONGEST_WAY),
            // The first ceiling is little more than a guess: it is soon gone beyond.
            None => FIRST_WAY.max(3.0 * seen.rtt).min(LONGEST_WAY),
        };
        self.since = now;
        self.cut_at = now;
    }

    /// A call was turned away that was started after the last cut, and none has passed since: a debt is being paid, which
    /// says nothing of the ceiling.
    pub(super) fn cut_again(&mut self, now: Timestamp) {
        self.start = LARGE_CUT;
        self.since = now;
        self.cut_at = now;
        self.cuts_in_a_row = self.cuts_in_a_row.saturating_add(1);
    }

    /// Begins its way back anew.
    pub(super) fn stay_below(&mut self, now: Timestamp) {
        (self.since, self.cut_at) = (now, now);
    }

    /// A call passed that was started after the last cut.
    pub(super) fn passed(&mut self) {
        self.cuts_in_a_row = 0;
    }

    /// The clock was put back by so many milliseconds since the last cut; growth begins at `latest` or before.
    pub(super) fn put_back(&mut self, ms: i64, latest: Timestamp) {
        for at in [&mut self.since, &mut self.cut_at] {
            *at = Timestamp(at.0.saturating_sub(ms));
        }
        self.since = self.since.min(latest);
    }

    /// Time that a pause took is no time of growth.
    pub(super) fn paused(&mut self, until: Timestamp) {
        self.since = self.since.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_to_the_ceiling_and_stays_near_it_before_it_goes_beyond() {
        let mut rate = Rate::default();
        assert!(rate.allowed(Timestamp(0)).is_infinite());
        let seen = Seen {
            started: 50.0,
            passed: 50.0,
            guess: 50.0,
            between: None,
            rtt: 0.2,
            few: false,
            least: 0.0,
            pause: 0.0,
        };
        rate.cut(&seen, Timestamp(0));
        assert!((rate.allowed(Timestamp(0)) - 35.0).abs() < 0.1, "a first cut is deep");
        rate.passed();
        assert!((rate.allowed(Timestamp(600)) - 50.0).abs() < 0.1);
        rate.cut(&Seen { between: Some(50.0), ..seen }, Timestamp(2_500));
        assert!((rate.allowed(Timestamp(2_500)) - 47.5).abs() < 0.3, "a second one is not");
        rate.passed();
        let near = (2_500..6_500).filter(|ms| (rate.allowed(Timestamp(*ms)) - 50.0).abs() < 3.0).count();
        assert!(near > 2_500, "{near} of 4,000 ms near the ceiling");
        assert!(
            rate.allowed(Timestamp(2_500 + 6_200)) > 3.6 * 50.0 * 0.9,
            "a raised limit is found within seconds"
        );
        assert!(rate.allowed(Timestamp(60_000)).is_infinite(), "and a ceiling nobody meets is forgotten");
    }

    #[test]
    fn it_never_stops_altogether() {
        let mut rate = Rate::default();
        for n in 0..100 {
            rate.cut(
                &Seen {
                    started: 0.0,
                    passed: 0.0,
                    guess: 0.0,
                    between: None,
                    rtt: 0.05,
                    few: false,
                    least: 0.0,
                    pause: 0.0,
                },
                Timestamp(n * 300),
            );
        }
        assert!(rate.allowed(Timestamp(30_000)) >= SLOWEST);
    }
}
