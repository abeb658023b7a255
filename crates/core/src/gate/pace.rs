//! When the next call may start: this worker's share of places and rates.

use std::time::Duration;

use super::Gate;
use super::bucket::after;
use crate::time::Timestamp;

/// How far ahead of their start items are asked for, in seconds.
const AHEAD: f64 = 0.2;
/// How long calls may take before another one is started beside them in the beginning.
const PATIENCE: Duration = Duration::from_millis(100);

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
        let limit = self.shared.window.limit.min(f64::from(self.spec.max_concurrency)).max(1.0).floor();
        let mine = (limit * self.share(now)).round();
        if mine >= 1.0 {
            return mine as usize;
        }
        // Fewer places than workers: they take turns.
        let names: Vec<&String> = self.shared.live_members(now).map(|(name, _)| name).collect();
        let Some(at) = names.iter().position(|name| **name == self.me) else { return 1 };
        let turn = usize::try_from(now.0.div_euclid(5_000)).unwrap_or(0);
        usize::from((at + turn) % names.len().max(1) < limit as usize)
    }

    /// When one more call may start although every place is taken: calls that take long say nothing against more of them as
    /// long as nothing else does. [`Timestamp::MAX`] when only the end of a call makes room.
    pub(super) fn another_place_at(&self, now: Timestamp) -> Timestamp {
        let most = (f64::from(self.spec.max_concurrency) * self.share(now)).round().max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand calls at most")]
        let grows = self.shared.window.slow_start && (self.under_way as f64) < most;
        if grows { self.started_at.after(PATIENCE) } else { Timestamp::MAX }
    }

    #[expect(clippy::cast_precision_loss, reason = "limits far below 2^52")]
    pub(super) fn request_rate(&self, now: Timestamp) -> f64 {
        let given = self.spec.requests_per_minute.map_or(f64::INFINITY, |limit| limit as f64 / 60.0);
        let told = self.shared.told.requests.map_or(f64::INFINITY, |pace| pace.per_second(now));
        given.min(told).min(self.shared.rate.allowed(now)) * self.share(now)
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
}
