//! When the next call may start: this worker's share of places and rates.

use std::time::Duration;

use super::Gate;
use super::bucket::after;
use super::throttle::LONG_HINT;
use super::told::Pace;
use crate::time::Timestamp;

/// How far ahead of their start items are asked for, in seconds.
const AHEAD: f64 = 0.2;
/// How much longer than its gate an item waits that was turned away before; doubled each time.
const AGAIN: Duration = Duration::from_millis(125);
/// The same where chance turns calls away.
const BY_CHANCE: Duration = Duration::from_millis(15);
/// The longest that an item waits by itself without having been told to.
const LONGEST_WAIT: Duration = Duration::from_secs(90);
/// Within this time all workers have heard that a gate is closed.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Where a call passed so lately, items need not wait for long.
const PASSES_WITHIN: Duration = Duration::from_secs(2);
/// Calls at once that find out whether anything passes again.
const SHUT_PLACES: f64 = 2.0;
/// How long a place belongs to one of several workers that take turns, in milliseconds.
const TURN: i64 = 5_000;
/// How long calls may take before another one is started beside them after a stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long they may take in the very beginning before twice as many are started: what turns calls away does so sooner.
const FIRST_PATIENCE: Duration = Duration::from_millis(50);

/// What keeps a call from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hurdle {
    /// Nothing does.
    None,
    /// It may start then.
    Until(Timestamp),
    /// Only the end of another call makes room.
    Calls,
    /// Only a person helps.
    Somebody,
}

impl Gate {
    /// This worker's part of what all have together.
    pub(super) fn share(&self, now: Timestamp) -> f64 {
        let others = self.shared.live_members(now).filter(|(name, _)| **name != self.me).count();
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        let all = (others + 1) as f64;
        1.0 / all
    }

    /// Calls that this worker may have under way.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a few thousand")]
    pub(super) fn places(&self, now: Timestamp) -> usize {
        let limit = self.shared.window.limit.max(1.0).floor();
        let limit = if self.is_shut(now) { limit.min(SHUT_PLACES) } else { limit };
        if limit >= f64::from(self.spec.max_concurrency) {
            return self.most_places(now);
        }
        let mine = (limit * self.share(now)).round() as usize;
        let mine = if mine == 0 { self.part_of(limit as usize, now) } else { mine };
        mine.min(self.most_places(now))
    }

    /// This worker's part of what was asked for.
    fn most_places(&self, now: Timestamp) -> usize {
        self.part_of(usize::try_from(self.spec.max_concurrency).unwrap_or(usize::MAX), now)
    }

    /// This worker's part of so many places. Where they cannot be divided equally the workers take turns.
    fn part_of(&self, places: usize, now: Timestamp) -> usize {
        let others = || self.shared.live_members(now).map(|(name, _)| name).filter(|name| **name != self.me);
        let (workers, at) = (others().count() + 1, others().filter(|name| **name < self.me).count());
        let turn = usize::try_from(now.0.div_euclid(TURN)).unwrap_or(0);
        places / workers + usize::from((at + turn) % workers < places % workers)
    }

    /// Whether no call has passed since it closed because none did, nor looks as if it would.
    fn is_shut(&self, now: Timestamp) -> bool {
        self.shared.rate.cuts_in_a_row > 0 && self.recent.after(self.judged_at, now).passed == 0
    }

    /// When one more call may start although every place is taken: calls that take long say nothing against more of them as
    /// long as nothing else does. [`Timestamp::MAX`] when only the end of a call makes room.
    pub(super) fn another_place_at(&self, now: Timestamp) -> Timestamp {
        let grows = self.shared.window.slow_start && self.under_way < self.most_places(now);
        match grows {
            true if self.shared.window.is_new() => self.doubled_at.after(FIRST_PATIENCE),
            true => self.started_at.after(PATIENCE),
            false => Timestamp::MAX,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
    pub(super) fn request_rate(&self, now: Timestamp) -> f64 {
        let given = self.spec.requests_per_minute.map_or(f64::INFINITY, |limit| limit as f64 / 60.0);
        let told = self.shared.told.requests.map_or(f64::INFINITY, |pace| self.paced_by(&pace, now));
        given.min(told).min(self.shared.rate.allowed(now)) * self.share(now)
    }

    /// The rate that follows from what answers say, with what is under way and what waits, over all workers.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn paced_by(&self, pace: &Pace, now: Timestamp) -> f64 {
        let all = 1.0 / self.share(now);
        let under_way = self.under_way as f64 * all;
        let waiting = self.waiting.map_or(f64::INFINITY, |calls| calls as f64 * all);
        pace.for_calls(under_way, under_way + waiting, now)
    }

    #[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
    pub(super) fn token_rate(&self, now: Timestamp) -> f64 {
        let given = self.spec.tokens_per_minute.map_or(f64::INFINITY, |limit| limit as f64 / 60.0);
        let told = self.shared.told.tokens.map_or(f64::INFINITY, |pace| pace.per_second(now));
        given.min(told) * self.share(now)
    }

    /// What keeps a call of about so many tokens from starting: the one place that says so.
    pub(super) fn hurdle(&self, tokens: u64, now: Timestamp) -> Hurdle {
        match self.closed_until(now) {
            Some(Timestamp::MAX) => return Hurdle::Somebody,
            Some(until) => return Hurdle::Until(until),
            None => {}
        }
        if self.on_probation() {
            // A probe is one call, whatever the rates.
            return if self.under_way > 0 { Hurdle::Calls } else { Hurdle::None };
        }
        if let Some(until) = self.inquires_until(now) {
            return Hurdle::Until(until);
        }
        if self.under_way >= self.places(now) {
            match self.another_place_at(now) {
                Timestamp::MAX => return Hurdle::Calls,
                at if at > now => return Hurdle::Until(at),
                _ => {}
            }
        }
        let mut wait = self.tokens_wait(tokens, now);
        let rate = self.request_rate(now);
        if rate.is_finite() {
            let mut requests = self.requests.clone();
            requests.fill(now, rate);
            wait = wait.max(requests.wait(1.0, rate));
        }
        if wait > 0.0 { Hurdle::Until(after(now, wait)) } else { Hurdle::None }
    }

    /// How many calls are under way here.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How many calls could start soon: what items are worth being fetched for.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn room(&self, now: Timestamp) -> usize {
        let soon = match self.hurdle(1, now) {
            Hurdle::None => true,
            Hurdle::Until(at) => self.closed_until(now).is_none() && at <= after(now, AHEAD),
            Hurdle::Calls | Hurdle::Somebody => false,
        };
        if !soon || self.on_probation() {
            return usize::from(soon);
        }
        let another = usize::from(self.another_place_at(now) <= now);
        let places = self.places(now).saturating_sub(self.under_way).max(another);
        let rate = self.request_rate(now);
        if !rate.is_finite() {
            return places;
        }
        let mut requests = self.requests.clone();
        requests.fill(now, rate);
        places.min(requests.within(AHEAD, 1.0, rate).floor().clamp(0.0, 100_000.0) as usize)
    }

    fn tokens_wait(&self, tokens: u64, now: Timestamp) -> f64 {
        let rate = self.token_rate(now);
        if !rate.is_finite() {
            return 0.0;
        }
        let mut bucket = self.tokens.clone();
        bucket.fill(now, rate);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let cost = tokens as f64;
        bucket.wait(cost, rate)
    }

    /// When it is worth looking again: a call of about so many tokens may start then. `None`: only another call's end, or
    /// somebody, helps.
    #[must_use]
    pub fn opens_at(&self, tokens: u64, now: Timestamp) -> Option<Timestamp> {
        match self.hurdle(tokens, now) {
            Hurdle::None => Some(now),
            Hurdle::Until(at) => Some(at),
            Hurdle::Calls | Hurdle::Somebody => None,
        }
    }

    /// So many more calls wait to be made, where that is known: what is left of a limit that covers them need not be spread.
    pub fn expect_calls(&mut self, calls: Option<usize>) {
        self.waiting = calls;
    }

    /// How long an item waits that was turned away, as it was `before` so many times, with this hint.
    ///
    /// It waits by itself for what it was told: other workers may not have heard yet that the gate is closed. Where it is closed
    /// for a long hint, it is the gate that keeps it after a moment, so that it can go as soon as somebody opens that. One that was sent to try the dependency out, or was turned
    /// away before, waits a little longer than the gate: another one goes first then, and one that can never pass does
    /// not keep it closed.
    #[must_use]
    pub fn keeps_item(&self, before: u32, hint: Option<Duration>, probe: bool, now: Timestamp) -> Duration {
        let hint = hint.map_or(Duration::ZERO, |hint| hint.min(self.spec.hint_cap));
        let until = self.closed_until(now).filter(|until| *until < Timestamp::MAX);
        let closed = until.map_or(Duration::ZERO, |until| until.since(now));
        let own = if hint >= LONG_HINT && hint <= closed { HEARD_WITHIN } else { hint };
        if probe {
            return (closed + closed / 5).min(LONGEST_WAIT).max(own);
        }
        if hint > closed {
            return own;
        }
        let by_chance = self.shared.evidence.expected(now) > 0.0;
        let passes = self.recent.passed_at().is_some_and(|at| now.since(at) < PASSES_WITHIN);
        let (first, doublings) = match (by_chance, passes) {
            (true, _) => (BY_CHANCE, 3),
            (false, true) => (AGAIN, 3),
            (false, false) => (AGAIN, 4),
        };
        let longer = if before == 0 { return own } else { first * (1 << before.min(doublings)) };
        (closed + longer).min(LONGEST_WAIT).max(own)
    }

    /// Whether most calls pass at present.
    pub(super) fn is_passing(&self, now: Timestamp) -> bool {
        let lately = self.recent.passed_at().is_some_and(|at| now.since(at) < PASSES_WITHIN / 2);
        let calls = self.recent.last_due(16, now);
        lately && calls.passed >= calls.turned_away && !self.is_away()
    }

    /// Whether it works on calls, or lets some pass: a service that says 503 to others turns these away, and is not away itself.
    #[must_use]
    pub fn is_serving(&self, now: Timestamp) -> bool {
        let lately = self.recent.passed_at().is_some_and(|at| now.since(at) < PASSES_WITHIN / 2);
        !self.is_away() && (lately || self.recent.is_working(now))
    }

    /// A span that strays by a quarter to both sides, so that nothing comes to be in step with it.
    pub(super) fn spread(&self, span: Duration, now: Timestamp) -> Duration {
        let mut bits = self.shared.totals.calls ^ now.0.unsigned_abs().rotate_left(17);
        self.me.bytes().for_each(|byte| bits = bits.rotate_left(5) ^ u64::from(byte));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        span.mul_f64(0.75 + share / 2.0)
    }
}
