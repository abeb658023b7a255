//! A gate before a service that loses calls, in made-up time.

use std::collections::BTreeMap;

use super::*;

/// A number from 0 to 1, the same for the same seed.
fn dice(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    f64::from(u32::try_from(*seed >> 33).unwrap_or(0)) / f64::from(u32::MAX >> 1)
}

/// How many seconds `items` take that are called again until they pass, when a share of the calls gets lost; calls take
/// 0.43 to 1.3 s, and `capacity` of them are worked on at once: more are lost by three in four.
fn play(items: usize, lost: f64, capacity: usize) -> i64 {
    let spec = GateSpec { max_concurrency: 32, ..GateSpec::default() };
    let mut gate = Gate::new(spec, GateState::default(), "w", Timestamp(0));
    let mut ends: BTreeMap<(i64, usize), (Permit, bool)> = BTreeMap::new();
    let (mut left, mut passed, mut now, mut calls, mut seed) = (items, 0, 0_i64, 0, 11_u64);
    while passed < items {
        assert!(now < 3_600_000, "it ends");
        while let Some(((at, _), (permit, passes))) = ends.pop_first() {
            if at > now {
                calls += 1;
                ends.insert((at, calls), (permit, passes));
                break;
            }
            let sign =
                if passes { Sign::Answered } else { Sign::Failed { calls: 1, lost: true, fresh: true } };
            gate.ended(permit, &Lesson { sign, tokens: None, limits: Limits::default() }, Timestamp(now));
            passed += usize::from(passes);
            left += usize::from(!passes);
        }
        while left > 0 {
            let Ok(permit) = gate.admit(1, Timestamp(now)) else { break };
            left -= 1;
            calls += 1;
            let share = if ends.len() >= capacity { 0.75 } else { lost };
            let passes = dice(&mut seed) >= share;
            #[expect(clippy::cast_possible_truncation, reason = "a second or so")]
            let took = if passes { 430 + (dice(&mut seed) * 870.0) as i64 } else { 200 };
            ends.insert((now + took, calls), (permit, passes));
        }
        now += 5;
    }
    now / 1_000
}

#[test]
fn a_few_lost_calls_cost_no_more_than_themselves() {
    let calm = play(2_000, 0.0, 1_000);
    for percent in [1.0, 3.0] {
        let lossy = play(2_000, percent / 100.0, 1_000);
        assert!(lossy * 10 <= calm * 12, "{percent} %: {lossy} s, without losses {calm} s");
    }
}

#[test]
fn a_service_that_loses_what_is_too_much_is_asked_for_less() {
    let within = play(1_000, 0.0, 1_000);
    let beyond = play(1_000, 0.0, 16);
    // Sixteen at once take twice as long as thirty-two; being lost again and again would take far longer.
    assert!(beyond <= within * 4, "{beyond} s, with room for all {within} s");
}
