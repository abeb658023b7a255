//! What a service's answers say about its limits, made into a pace.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{Allowance, Limits};
use crate::time::{Timestamp, millis};

/// A limit that is whole again only after longer than this, in milliseconds, is no reason to go slowly: it is used up first.
const LONG: i64 = 120_000;
/// For how long what is left is believed where nobody says when there is more, in milliseconds.
const UNTOLD: i64 = 10_000;
/// A limit of fewer than this is used up all the time: that says little.
const SMALL: f64 = 20.0;
/// The part of a limit below which it is used with care.
const RESERVE: f64 = 0.2;

/// What is known from a service's answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// About requests.
    pub requests: Option<Pace>,
    /// About tokens.
    pub tokens: Option<Pace>,
}

/// A limit as it was last told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// When.
    pub at: Timestamp,
    /// The most there ever is.
    pub limit: Option<f64>,
    /// What was left.
    pub remaining: f64,
    /// How long until there is all of it again, in milliseconds; 0 where that was not told.
    pub reset_ms: i64,
    /// Whether it fills all the time, like a bucket, or at once, like a window; unknown at first.
    #[serde(default)]
    pub(super) fills: Option<bool>,
    /// When it was first told of the present one, and what `reset_ms` was then.
    #[serde(default)]
    anchor: (Timestamp, i64),
}

impl Pace {
    /// What may be used per second; infinite when there is no need to be slow.
    ///
    /// What is left is spent before anything waits: a window is whole again when it says, however fast it was used up. Near
    /// its end a bucket is asked for what flows into it, and a window for what lasts until the next one begins.
    #[must_use]
    pub fn per_second(&self, now: Timestamp) -> f64 {
        self.for_calls(0.0, f64::INFINITY, now)
    }

    /// The same where so much of it is under way that it does not know of, and so much is wanted in all.
    pub(super) fn for_calls(&self, under_way: f64, wanted: f64, now: Timestamp) -> f64 {
        let reset = if self.reset_ms > 0 { self.reset_ms } else { UNTOLD };
        if now.0.saturating_sub(self.at.0) >= reset {
            return f64::INFINITY;
        }
        let left = self.remaining - under_way;
        let limit = self.limit.unwrap_or(self.remaining).max(1.0);
        let seconds = Duration::from_millis(reset.unsigned_abs()).as_secs_f64();
        if left > limit * RESERVE || self.remaining >= wanted {
            return f64::INFINITY;
        }
        if self.reset_ms == 0 {
            // Most limits that do not say so are of a minute.
            return limit / 60.0;
        }
        if self.fills == Some(true) && self.limit.is_some() {
            let flow = (limit - self.remaining).max(0.0) / seconds;
            return flow * (left / (limit * RESERVE / 2.0)).clamp(0.5, 1.5);
        }
        if reset > LONG && self.remaining > limit * 0.02 {
            return f64::INFINITY;
        }
        // Never nothing at all: only an answer can tell that there is more again.
        (left.max(0.0) + limit * 0.02) / seconds
    }

    /// Whether nothing is left of a window, until a time that was told. A bucket has something long before it is full, and
    /// what is told of it need not be what turns calls away: some tell what comes in a minute, and hold far less.
    pub(super) fn is_used_up(&self, now: Timestamp) -> bool {
        let large = self.limit.is_some_and(|limit| limit >= SMALL);
        let window = self.fills == Some(false);
        self.remaining < 1.0 && large && window && now.0.saturating_sub(self.at.0) < self.reset_ms
    }

    /// Whether less than this is left, as it was told last.
    pub(super) fn is_short_of(&self, wanted: f64, now: Timestamp) -> bool {
        self.remaining < wanted && now.0.saturating_sub(self.at.0) < self.reset_ms.max(UNTOLD)
    }

    /// The same limit as it is told later: what became of the time until all of it is there again tells what it is.
    fn goes_on(&self, later: Self) -> Self {
        let (since, first) = self.anchor;
        let passed = later.at.0.saturating_sub(since.0);
        let whole = |ms: i64| ms % 1_000 == 0;
        let least = if whole(first) && whole(later.reset_ms) { 4_000 } else { 200 };
        let anew = later.remaining > self.remaining + 0.3 * later.limit.unwrap_or(self.remaining);
        if anew || self.reset_ms == 0 {
            return Self { fills: self.fills, ..later };
        }
        if passed < least {
            return Self { fills: self.fills, anchor: self.anchor, ..later };
        }
        // A window's time runs down with the clock; a bucket's does not.
        Self { fills: Some((first - later.reset_ms) * 2 < passed), ..later }
    }
}

impl Told {
    /// Takes in what an answer said.
    pub(super) fn hear(&mut self, limits: &Limits, now: Timestamp) {
        let pace = |said: &Allowance, before: Option<Pace>| {
            let reset_ms = millis(said.reset);
            let pace = Pace {
                at: now,
                limit: said.limit,
                remaining: said.remaining.max(0.0),
                reset_ms,
                fills: None,
                anchor: (now, reset_ms),
            };
            Some(before.map_or(pace, |before| before.goes_on(pace)))
        };
        if let Some(said) = &limits.requests {
            self.requests = pace(said, self.requests);
        }
        if let Some(said) = &limits.tokens {
            self.tokens = pace(said, self.tokens);
        }
    }

    pub(super) fn merge(&mut self, theirs: &Self) {
        let newer = |ours: &mut Option<Pace>, theirs: &Option<Pace>| {
            if theirs.map(|pace| pace.at) > ours.map(|pace| pace.at) {
                *ours = *theirs;
            }
        };
        newer(&mut self.requests, &theirs.requests);
        newer(&mut self.tokens, &theirs.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_and_a_window_are_both_used_up_without_being_turned_away() {
        // A bucket of 50 that fills at 50 a second.
        let (mut level, mut sent, mut due) = (50.0_f64, 0, 0.0_f64);
        let mut told = Told::default();
        for ms in 0..20_000_i64 {
            level = (level + 0.05).min(50.0);
            let rate = told.requests.map_or(f64::INFINITY, |pace| pace.per_second(Timestamp(ms))).min(400.0);
            due += rate / 1_000.0;
            while due >= 1.0 {
                due -= 1.0;
                level -= 1.0;
                sent += 1;
                assert!(level >= 0.0, "turned away after {sent}");
                let said = Allowance {
                    limit: Some(50.0),
                    remaining: level.floor(),
                    reset: Duration::from_secs_f64((50.0 - level).max(0.0) / 50.0),
                };
                told.hear(&Limits { requests: Some(said), tokens: None }, Timestamp(ms));
            }
        }
        assert!((990..=1_055).contains(&sent), "{sent} in 20 s");
    }
}
