//! What a plan will do that can be told in advance, so that others can say what was possible.

use std::time::Duration;

use super::{Latency, Plan};
use crate::chance::{Purpose, draw, normal};

impl Plan {
    /// How long the answer to the n-th call takes, with so many items in it and no other calls beside it. Calls count from 1.
    #[must_use]
    pub fn latency_of(&self, call: u64, items: usize) -> Duration {
        let latency = &self.latency;
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        let plain = latency.base.saturating_add(latency.per_item.saturating_mul(items));
        plain.mul_f64(stray(latency, draw(self.seed, Purpose::Jitter, call)))
    }

    /// The calls per minute that its limit lets in at a time since the first call, after steps and neighbours.
    #[must_use]
    pub fn calls_per_minute(&self, at: Duration) -> Option<u64> {
        let steps = self.limit.steps.iter().take_while(|step| step.after <= at);
        let rate = steps.filter_map(|step| step.requests).last().or(self.limit.requests)?;
        let Some(neighbours) = self.limit.neighbours else { return Some(rate.per_minute) };
        let every = neighbours.every.as_millis().max(1);
        let period = u64::try_from(at.as_millis() / every).unwrap_or(u64::MAX);
        let part = neighbours.share * draw(self.seed, Purpose::Neighbours, period);
        Some(rate.without(part).per_minute)
    }
}

/// How many times as long as usual a call takes.
fn stray(latency: &Latency, draw: f64) -> f64 {
    match latency.p99 {
        None => 1.0 + latency.jitter * (2.0 * draw - 1.0),
        Some(p99) => (p99.as_secs_f64() / latency.base.as_secs_f64()).powf(normal(draw) / normal(0.99)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::parse(text, "test").expect("a plan")
    }

    #[test]
    fn one_call_in_a_hundred_takes_as_long_as_the_tail_says() {
        let plan = plan("[latency]\nbase = \"200ms\"\np99 = \"5s\"");
        let times = |draw| 0.2 * stray(&plan.latency, draw);
        assert!((times(0.5) - 0.2).abs() < 0.001 && (times(0.99) - 5.0).abs() < 0.001);
        assert!(times(0.01) > 0.007 && times(0.01) < 0.009, "as much shorter on the other side");
        let long = (1..=10_000).filter(|call| plan.latency_of(*call, 1) >= Duration::from_secs(5)).count();
        assert!((70..=130).contains(&long), "{long} of 10,000");
    }

    #[test]
    fn the_limit_is_known_in_advance() {
        let at = |plan: &Plan, s: u64| plan.calls_per_minute(Duration::from_secs(s)).expect("a limit");
        let steps = plan(
            "[limit]\nrequests_per_second = 50\nsteps = [{ after = \"20s\", requests_per_second = 10 }]",
        );
        assert_eq!((at(&steps, 19), at(&steps, 20)), (3_000, 600));
        let others = plan("[limit]\nrequests_per_second = 50\nneighbours = { share = 0.9, every = \"5s\" }");
        assert_eq!(at(&others, 0), at(&others, 4));
        assert_ne!(at(&others, 4), at(&others, 5));
        assert!((0..100).all(|s| (300..=3_000).contains(&at(&others, s))));
        assert_eq!(plan("").calls_per_minute(Duration::ZERO), None);
    }
}
