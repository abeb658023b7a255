//! The limits of a plan together: calls and tokens, with steps over time.

use std::time::Duration;

use redrive_core::time::{Timestamp, millis};

use crate::chance::{Purpose, draw};
use crate::meter::{Full, Kind, Meter, Rate};
use crate::plan::{Limit, Neighbours, Told};
use crate::told::{self, Left};

/// What a call meets at the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It is let through, and was counted.
    Open,
    /// It is rejected: the limit's name, and for how long.
    Closed {
        /// `requests` or `tokens`.
        of: &'static str,
        /// The limit per minute.
        per_minute: u64,
        /// Until there is room.
        wait: Duration,
    },
    /// It is larger than the limit of tokens as a whole.
    TooLarge {
        /// The most tokens that a call can have.
        most: u64,
    },
}

/// The limits with what is left of them.
#[derive(Debug)]
pub(crate) struct Limits {
    requests: Option<Meter>,
    tokens: Option<Meter>,
    /// The calls of a day, where headers tell those. Nobody is turned away by it.
    day: Option<Meter>,
    seed: u64,
    steps_done: usize,
    /// Periods of the neighbours that have begun.
    periods: u64,
}

impl Limits {
    /// Nothing taken yet.
    pub(crate) fn new(plan: &Limit, seed: u64) -> Self {
        let day = plan.requests.filter(|_| plan.headers == Told::Groq).map(|rate| Rate {
            kind: Kind::Bucket,
            burst: rate.per_minute.saturating_mul(24 * 60),
            ..rate
        });
        Self {
            requests: plan.requests.map(Meter::new),
            tokens: plan.tokens.map(Meter::new),
            day: day.map(Meter::new),
            seed,
            steps_done: 0,
            periods: 0,
        }
    }

    /// A call of so many tokens comes, so long after the first one.
    pub(crate) fn pass(&mut self, plan: &Limit, at: Duration, tokens: u64) -> Gate {
        self.advance(plan, at);
        let of_requests = self.requests.as_ref().map_or(Ok(()), |meter| meter.room(1));
        let of_tokens = self.tokens.as_ref().map_or(Ok(()), |meter| meter.room(tokens));
        let gate = match (of_requests, of_tokens) {
            (Ok(()), Ok(())) => {
                self.requests.iter_mut().chain(&mut self.day).for_each(|meter| meter.take(1));
                self.tokens.iter_mut().for_each(|meter| meter.take(tokens));
                return Gate::Open;
            }
            (_, Err(Full::Forever)) => {
                return Gate::TooLarge { most: self.tokens.as_ref().map_or(0, Meter::limit) };
            }
            (Err(Full::For(ms)), Ok(())) => closed("requests", self.requests.as_ref(), ms),
            (Ok(()), Err(Full::For(ms))) => closed("tokens", self.tokens.as_ref(), ms),
            (Err(Full::For(calls)), Err(Full::For(texts))) if texts > calls => {
                closed("tokens", self.tokens.as_ref(), texts)
            }
            (Err(Full::For(ms)), Err(Full::For(_))) => closed("requests", self.requests.as_ref(), ms),
            // One call always fits: a limit of less than one is refused with the plan.
            (Err(Full::Forever), _) => closed("requests", self.requests.as_ref(), 1_000),
        };
        if plan.rejected_calls_consume {
            let debt = u64::try_from(millis(plan.debt)).unwrap_or(0);
            self.requests.iter_mut().for_each(|meter| meter.punish(debt));
        }
        gate
    }

    /// What is left, in the headers of whoever the plan says. `tokens` are those of the call.
    pub(crate) fn headers(&self, told: Told, tokens: u64, now: Timestamp) -> Vec<(&'static str, String)> {
        let left = Left {
            requests: self.requests.as_ref(),
            tokens: self.tokens.as_ref(),
            day: self.day.as_ref(),
            cost: tokens,
        };
        told::headers(told, &left, now)
    }

    /// Lets time pass, through every step that became due: each rate holds until the next one begins.
    fn advance(&mut self, plan: &Limit, at: Duration) {
        let to = |span: Duration| u64::try_from(millis(span)).unwrap_or(0);
        while let Some(step) = plan.steps.get(self.steps_done).filter(|step| step.after <= at) {
            for (meter, rate) in [(&mut self.requests, step.requests), (&mut self.tokens, step.tokens)] {
                if let (Some(meter), Some(rate)) = (meter, rate) {
                    meter.advance(to(step.after));
                    meter.change(rate);
                }
            }
            self.steps_done += 1;
        }
        if let (Some(rate), Some(neighbours)) = (plan.requests, plan.neighbours) {
            self.share(rate, neighbours, at);
        }
        let all = self.requests.iter_mut().chain(&mut self.tokens).chain(&mut self.day);
        all.for_each(|meter| meter.advance(to(at)));
    }

    /// Lets the neighbours take another part in every period that has begun.
    fn share(&mut self, rate: Rate, neighbours: Neighbours, at: Duration) {
        let Some(meter) = &mut self.requests else { return };
        let every = u64::try_from(millis(neighbours.every)).unwrap_or(1).max(1);
        let begun = u64::try_from(millis(at)).unwrap_or(0) / every + 1;
        // Nobody calls for that long; what came in meanwhile is no more than the burst.
        self.periods = self.periods.max(begun.saturating_sub(10_000));
        while self.periods < begun {
            meter.advance(self.periods * every);
            let part = neighbours.share * draw(self.seed, Purpose::Neighbours, self.periods);
            meter.change(rate.without(part));
            self.periods += 1;
        }
    }
}

fn closed(of: &'static str, meter: Option<&Meter>, ms: u64) -> Gate {
    Gate::Closed { of, per_minute: meter.map_or(0, Meter::per_minute), wait: Duration::from_millis(ms) }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
