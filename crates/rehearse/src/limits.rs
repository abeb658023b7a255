//! The limits of a plan together: calls and tokens, with steps over time.

use std::time::Duration;

use redrive_core::time::millis;

use crate::hint;
use crate::meter::{Full, Meter};
use crate::plan::Limit;

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
    steps_done: usize,
}

impl Limits {
    /// Nothing taken yet.
    pub(crate) fn new(plan: &Limit) -> Self {
        Self { requests: plan.requests.map(Meter::new), tokens: plan.tokens.map(Meter::new), steps_done: 0 }
    }

    /// A call of so many tokens comes, so long after the first one.
    pub(crate) fn pass(&mut self, plan: &Limit, at: Duration, tokens: u64) -> Gate {
        self.advance(plan, at);
        let of_requests = self.requests.as_ref().map_or(Ok(()), |meter| meter.room(1));
        let of_tokens = self.tokens.as_ref().map_or(Ok(()), |meter| meter.room(tokens));
        let gate = match (of_requests, of_tokens) {
            (Ok(()), Ok(())) => {
                self.requests.iter_mut().for_each(|meter| meter.take(1));
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

    /// What is left, in OpenAI's headers.
    pub(crate) fn headers(&self) -> Vec<(&'static str, String)> {
        let names = [
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
        ];
        let meters = [self.requests.as_ref(), self.tokens.as_ref()];
        let mut headers = Vec::with_capacity(6);
        for (names, meter) in names.into_iter().zip(meters) {
            let Some(meter) = meter else { continue };
            let values =
                [meter.per_minute().to_string(), meter.remaining().to_string(), hint::span(meter.reset())];
            headers.extend(names.into_iter().zip(values));
        }
        headers
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
        self.requests.iter_mut().chain(&mut self.tokens).for_each(|meter| meter.advance(to(at)));
    }
}

fn closed(of: &'static str, meter: Option<&Meter>, ms: u64) -> Gate {
    Gate::Closed { of, per_minute: meter.map_or(0, Meter::per_minute), wait: Duration::from_millis(ms) }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
