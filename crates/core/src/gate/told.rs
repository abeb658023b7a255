//! What a service's answers say about its limits, made into a pace.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{Allowance, Limits};
use crate::time::{Timestamp, millis};

/// A limit that is whole again only after longer than this is no reason to go slowly: it is used up first.
const LONG: Duration = Duration::from_secs(120);

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
    /// How long until there is all of it again, in milliseconds.
    pub reset_ms: i64,
}

impl Pace {
    /// What may be used per second so that it lasts; infinite when there is no need to be slow.
    ///
    /// Where a limit is a window, what is left is spread over the time until the next one begins. Where it is a bucket
    /// that fills all the time, the same rule comes to rest at the rate it fills at, with the bucket half full.
    #[must_use]
    pub fn per_second(&self, now: Timestamp) -> f64 {
        let reset = Duration::from_millis(u64::try_from(self.reset_ms).unwrap_or(0));
        if now.since(self.at) >= reset || reset.is_zero() {
            return f64::INFINITY;
        }
        let limit = self.limit.unwrap_or(self.remaining).max(1.0);
        if reset > LONG && self.remaining > limit * 0.02 {
            return f64::INFINITY;
        }
        // Never nothing at all: only an answer can tell that there is more again.
        (self.remaining + limit * 0.02) / reset.as_secs_f64()
    }
}

impl Told {
    /// Takes in what an answer said.
    pub(super) fn hear(&mut self, limits: &Limits, now: Timestamp) {
        let pace = |said: &Allowance| Pace {
            at: now,
            limit: said.limit,
            remaining: said.remaining.max(0.0),
            reset_ms: millis(said.reset),
        };
        if let Some(said) = &limits.requests {
            self.requests = Some(pace(said));
        }
        if let Some(said) = &limits.tokens {
            self.tokens = Some(pace(said));
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
