//! What follows once it is known that a limit turned calls away: the rate is measured and cut, the gate is closed or parked.

use std::time::Duration;

use super::evidence::LimitKind;
use super::rate::Seen;
use super::{Closed, Gate};
use crate::time::{Timestamp, millis};

/// A shorter time between two calls that were turned away tells nothing of a rate, in seconds.
const SHORTEST_BETWEEN: f64 = 1.0;
/// A pause at least this long makes calls begin slowly afterwards.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// What is left at least of a rate that was known, where few calls are turned away, and where most are.
pub(super) const LEAST_LEFT: f64 = 0.8;
/// See above.
pub(super) const LEAST_LEFT_OF_MOST: f64 = 0.3;

/// What has happened since a call was turned away, over all workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SinceCut {
    since: Timestamp,
    /// Calls that passed.
    pub(super) passed: f64,
    /// How long it was closed.
    closed: Duration,
    /// Calls that a bucket may have saved up meanwhile.
    pub(super) saved: f64,
}

impl SinceCut {
    pub(super) fn new(since: Timestamp) -> Self {
        Self { since, passed: 0.0, closed: Duration::ZERO, saved: 0.0 }
    }
}

impl Gate {
    /// So many of this worker's, as many as that is over all workers.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand calls at most")]
    pub(super) fn everywhere(&self, calls: usize, now: Timestamp) -> f64 {
        calls as f64 / self.share(now)
    }

    /// Whether the rate was cut so lately that it is not known yet whether that was enough.
    pub(super) fn has_just_measured(&self, now: Timestamp) -> bool {
        let lately = |cut: SinceCut| now.since(cut.since).as_secs_f64() < SHORTEST_BETWEEN;
        self.shared.rate.measured(now).is_some() && self.since_cut.is_some_and(lately)
    }

    /// What was seen lately of the dependency.
    pub(super) fn seen(&self, rtt: f64, pause: Option<Duration>, now: Timestamp) -> Seen {
        let all = 1.0 / self.share(now);
        // Long enough for some calls to have been made, however slow the rate is.
        let some = 20.0 / self.started.per_second(5_000, now).max(2.0);
        let span = (2.0 * rtt).max(some).clamp(1.0, 10.0);
        let lately = millis(Duration::from_secs_f64(span));
        let passed = self.passed.per_second(lately, now) * all;
        // A bucket that was full may have hidden how fast is too fast: it is between what passed in no time, and what that
        // is in a second.
        let in_a_second = passed.min(self.passed_since_open.max(1.0));
        Seen {
            started: self.started.per_second(lately, now) * all,
            passed,
            guess: (passed * in_a_second).sqrt(),
            between: None,
            rtt,
            least: 0.0,
            few: false,
            pause: pause.unwrap_or_default().as_secs_f64(),
        }
    }

    /// Goes below the rate at which calls are turned away, to no less than a share of the rate that was known.
    pub(super) fn cut(&mut self, seen: Seen, least: f64, of: LimitKind, now: Timestamp) {
        let known = self.shared.rate.measured(now);
        let between = self.between(known, now);
        let few = least == LEAST_LEFT;
        // Whatever was measured, in whatever moment: a lower limit is found by the next cuts.
        let allowed =
            Some(self.shared.rate.allowed(now)).filter(|rate| rate.is_finite()).unwrap_or(seen.guess);
        let floor = allowed.min(seen.guess.max(seen.passed)) * LEAST_LEFT_OF_MOST;
        let least = known.map_or(floor, |known| known * least);
        let seen = Seen { between, few, least, ..seen };
        let rtt = seen.rtt;
        self.shared.rate.cut(&seen, now);
        self.shared.evidence.find(of, now);
        self.since_cut.get_or_insert(SinceCut::new(now));
        self.shared.window.cut(self.shared.rate.ceiling.unwrap_or(0.0) * rtt * 1.25 + 1.0, now);
    }

    /// What has passed per second since a call was turned away the time before. Begins anew when that is long enough ago.
    ///
    /// What a bucket saved up during a pause passed afterwards; what did not fit into it is lost, and says nothing of the
    /// rate: so pauses count, but not so much that the rate would be lower than it was known to be. Where none is known, what may
    /// have been saved up is taken off.
    fn between(&mut self, known: Option<f64>, now: Timestamp) -> Option<f64> {
        let SinceCut { since, passed, closed, saved } = self.since_cut?;
        let seconds = now.since(since).as_secs_f64();
        let open = (seconds - closed.as_secs_f64()).max(0.05);
        let shortest = if known.is_some() { SHORTEST_BETWEEN } else { SHORTEST_BETWEEN / 4.0 };
        (seconds >= shortest).then(|| {
            self.since_cut = None;
            // Of a short time those count that started in it: others ended in it that had started long before.
            let passed = if seconds < SHORTEST_BETWEEN { self.passed_after(since, now) } else { passed };
            let while_open = match known {
                Some(known) => (passed / open).min(known),
                None => (passed - saved).max(0.0) / open,
            };
            (passed / seconds).max(while_open)
        })
    }

    /// Calls that started after that and passed, or will, over all workers.
    fn passed_after(&self, since: Timestamp, now: Timestamp) -> f64 {
        self.everywhere(self.recent.after(since, now).passed, now)
    }

    /// Leaves it alone for as long as is granted, and then lets one call try it out.
    pub(super) fn park(&mut self, granted: Duration, asked: Duration, now: Timestamp) {
        let until = now.after(granted);
        self.shared.parked =
            Some(Closed { since: now, until, decided_at: now, asked_ms: Some(millis(asked)) });
        self.shared.rate.paused(until);
        self.urgent = true;
    }

    pub(super) fn close(&mut self, span: Duration, asked: Option<Duration>, now: Timestamp) {
        let until = now.after(span);
        if self.shared.closed.as_ref().is_some_and(|closed| closed.until >= until) {
            return;
        }
        let before = self.shared.closed.as_ref().map_or(now, |closed| closed.until.max(now));
        let rate = self.shared.rate.allowed(now) * self.share(now);
        if asked.is_some() && rate.is_finite() && span < LONG_PAUSE && self.shared.rate.cuts_in_a_row < 2 {
            // What would have passed meanwhile may be made up for: a limit that is a bucket or a window fills up.
            self.requests.fill(now, rate);
            let held_back = rate * until.since(before).as_secs_f64();
            self.requests.give(held_back.min(self.saved * self.share(now)));
        }
        if span >= LONG_PAUSE {
            self.shared.window.ramp(now);
        }
        self.shared.rate.paused(until);
        if let Some(cut) = &mut self.since_cut {
            cut.closed += until.since(before);
        }
        self.passed_since_open = 0.0;
        let since = self
            .shared
            .closed
            .as_ref()
            .filter(|closed| closed.until > now)
            .map_or(now, |closed| closed.since);
        self.shared.closed = Some(Closed { since, until, decided_at: now, asked_ms: asked.map(millis) });
        self.urgent = true;
    }
}
