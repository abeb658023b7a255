//! How long a client takes who knows what the service will do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use redrive_rehearse::Plan;

use super::case::{Case, Limit, Tell};

/// Microseconds on the way to the service and back beside the jitter.
const WAY: u64 = 1_000;

/// Seconds from the first call to the last good answer, if the limit is used up at every moment, calls that have no room are
/// never made, and nothing is decided or written in between.
pub fn ideal(case: &Case, plan: &Plan, jitter: Duration) -> f64 {
    let late = jitter.as_secs_f64() / 2.0;
    let latency = f64::from(case.latency) / 1e3 + late;
    let items = case.good() as f64;
    let by_places = by_places(case, plan, late);
    let by_limit = match case.limit {
        Limit::None => 0.0,
        Limit::Bucket { burst, .. } => filled(plan, items - f64::from(burst)) + latency,
        Limit::Steps | Limit::Neighbours { .. } => filled(plan, items - 50.0) + latency,
        Limit::Tokens { rate, burst } => (items - f64::from(burst)) / rate + latency,
        Limit::Window { most, seconds } | Limit::Sliding { most, seconds, .. } => {
            ((items - 1.0) / f64::from(most)).floor() * f64::from(seconds) + latency
        }
        Limit::AtOnce { most, .. } => (items / f64::from(most)).ceil() * latency,
        Limit::Random { share } => {
            // So many times in a row the unluckiest of so many items is turned away.
            let in_a_row = (items.ln() / -share.ln()).floor();
            let hint = if let Tell::Always(seconds) = case.tell { f64::from(seconds) } else { 0.0 };
            by_places / (1.0 - share) + in_a_row * hint
        }
        Limit::Spells { every, lasts, .. } => {
            let good = f64::from(every - lasts);
            by_places + ((by_places - latency) / good).floor() * f64::from(lasts)
        }
        Limit::Crowd { servers, .. } => items / f64::from(servers) * latency,
        Limit::Dropped { share } => by_places * (1.0 + share) + latency,
    };
    by_limit.max(by_places)
}

/// When the last of all calls ends if each is made as soon as one of the places is free.
fn by_places(case: &Case, plan: &Plan, late: f64) -> f64 {
    let late = Duration::from_secs_f64(late) + Duration::from_micros(WAY);
    let mut free: BinaryHeap<Reverse<Duration>> = BinaryHeap::new();
    let mut end = Duration::ZERO;
    for call in 1..=case.good() as u64 {
        let starts = if free.len() < case.at_once * case.processes {
            Duration::ZERO
        } else {
            free.pop().map_or(Duration::ZERO, |Reverse(at)| at)
        };
        let ends = starts + late + plan.latency_of(call, 1);
        end = end.max(ends);
        free.push(Reverse(ends));
    }
    end.as_secs_f64()
}

/// When a rate that may change has given so many.
fn filled(plan: &Plan, mut items: f64) -> f64 {
    const STEP: Duration = Duration::from_millis(10);
    let mut now = Duration::ZERO;
    while items > 0.0 {
        let per_minute = plan.calls_per_minute(now).unwrap_or(u64::MAX);
        items -= per_minute as f64 / 60.0 * STEP.as_secs_f64();
        now += STEP;
    }
    now.as_secs_f64()
}
