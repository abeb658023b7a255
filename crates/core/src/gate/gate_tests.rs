//! A gate against a made-up service, in made-up time.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::*;

/// How a service says that there were too many calls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hints {
    None,
    Exact,
    WholeSeconds,
}

#[derive(Clone, Copy)]
struct Service {
    per_second: f64,
    burst: f64,
    hints: Hints,
    headers: bool,
    rejects_cost: bool,
    level: f64,
    at: i64,
}

impl Service {
    fn new(per_second: f64, burst: f64, hints: Hints) -> Self {
        Self { per_second, burst, hints, headers: false, rejects_cost: false, level: burst, at: 0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "small")]
    fn call(&mut self, now: i64) -> (bool, Option<Duration>, Limits) {
        self.level = (self.level + self.per_second * (now - self.at) as f64 / 1_000.0).min(self.burst);
        self.at = now;
        let passes = self.level >= 1.0;
        if passes || self.rejects_cost {
            self.level = (self.level - 1.0).max(-5.0 * self.per_second);
        }
        let missing = (1.0 - self.level).max(0.0) / self.per_second;
        let hint = match self.hints {
            Hints::None => None,
            Hints::Exact => Some(Duration::from_secs_f64(missing)),
            Hints::WholeSeconds => Some(Duration::from_secs_f64(missing.ceil().max(1.0))),
        };
        let limits = self.headers.then(|| Allowance {
            limit: Some(self.burst),
            remaining: self.level.max(0.0).floor(),
            reset: Duration::from_secs_f64((self.burst - self.level) / self.per_second),
        });
        (passes, hint.filter(|_| !passes), Limits { requests: limits, tokens: None })
    }
}

struct Played {
    took: f64,
    rejected: usize,
    passed: Vec<i64>,
}

impl Played {
    fn goodput(&self, service: Service, items: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let possible = (items as f64 - service.burst) / service.per_second;
        possible / self.took
    }

    #[expect(clippy::cast_precision_loss, reason = "small")]
    fn rejects_per_success(&self) -> f64 {
        self.rejected as f64 / self.passed.len() as f64
    }

    fn between(&self, from: i64, to: i64) -> usize {
        self.passed.iter().filter(|at| (from..to).contains(*at)).count()
    }
}

/// Lets `items` through a gate as fast as it lets them; `steps` change the service's rate.
fn play(mut service: Service, items: usize, workers: usize, steps: &[(i64, f64)]) -> Played {
    let spec = GateSpec { max_concurrency: 64, ..GateSpec::default() };
    let names: Vec<String> = (0..workers).map(|n| format!("w{n}")).collect();
    let mut gates: Vec<Gate> = names
        .iter()
        .map(|name| Gate::new(spec.clone(), GateState::default(), name.clone(), Timestamp(0)))
        .collect();
    let mut store = GateState::default();
    // Ends of calls: (-when, number, worker, started, passes, hint, limits).
    let mut ends: BinaryHeap<(i64, usize)> = BinaryHeap::new();
    let mut calls = Vec::new();
    let (mut left, mut now, mut seed) = (items, 0_i64, 1_u64);
    let mut played = Played { took: 0.0, rejected: 0, passed: Vec::new() };
    let mut steps = steps.iter().peekable();
    while played.passed.len() < items {
        assert!(now < 3_600_000, "it ends");
        while let Some((_, rate)) = steps.next_if(|(at, _)| *at <= now) {
            service.call(now);
            service.per_second = *rate;
        }
        while let Some((at, _)) = ends.peek().filter(|(at, _)| -at <= now) {
            debug_assert!(-at <= now);
            let Some((_, n)) = ends.pop() else { break };
            let (worker, permit, passes, hint, limits): (usize, Permit, bool, Option<Duration>, Limits) =
                calls[n];
            let sign = if passes { Sign::Answered } else { Sign::Throttled { hint } };
            gates[worker].ended(permit, &Lesson { sign, tokens: None, limits }, Timestamp(now));
            if passes {
                played.passed.push(now);
            } else {
                played.rejected += 1;
                left += 1;
            }
        }
        for (worker, gate) in gates.iter_mut().enumerate() {
            while left > 0
                && let Ok(permit) = gate.admit(0, Timestamp(now))
            {
                left -= 1;
                let (passes, hint, limits) = service.call(now);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let jitter = i64::try_from((seed >> 33) % 81).unwrap_or(0) - 40;
                let took = if passes { 200 + jitter } else { 20 };
                ends.push((-(now + took), calls.len()));
                calls.push((worker, permit, passes, hint, limits));
            }
            // Workers tell each other through the store.
            if workers > 1 && now % 250 == 0 {
                gate.merge(&store, Timestamp(now));
            }
            if let Some(state) = gate.to_save(Timestamp(now)) {
                gate.merge(&store, Timestamp(now));
                store = gate.to_save(Timestamp(now)).unwrap_or(state);
                gate.saved(&store, Timestamp(now));
            }
        }
        now += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let took = now as f64 / 1_000.0;
    played.took = took;
    played
}

#[test]
fn a_limit_is_used_up_with_few_calls_turned_away() {
    for workers in [1, 3] {
        for (hints, burst) in [
            (Hints::None, 50.0),
            (Hints::Exact, 50.0),
            (Hints::WholeSeconds, 50.0),
            (Hints::None, 5.0),
            (Hints::Exact, 5.0),
        ] {
            let service = Service::new(50.0, burst, hints);
            let played = play(service, 6_000, workers, &[]);
            let (goodput, rejects) = (played.goodput(service, 6_000), played.rejects_per_success());
            // Workers that share a bucket learn of each other's cuts a moment later, and each looks at its own calls.
            let least = if workers > 1 { 0.91 } else { 0.97 };
            assert!(
                goodput >= least && rejects <= 0.06,
                "{hints:?} burst {burst} workers {workers}: {goodput:.3} with {rejects:.3} rejects per success"
            );
        }
    }
}

#[test]
fn with_headers_hardly_any_call_is_turned_away() {
    let service = Service { headers: true, ..Service::new(50.0, 50.0, Hints::Exact) };
    let played = play(service, 6_000, 1, &[]);
    let (goodput, rejects) = (played.goodput(service, 6_000), played.rejects_per_success());
    assert!(goodput >= 0.97 && rejects <= 0.005, "{goodput:.3} with {rejects:.4}");
}

#[test]
fn calls_that_are_turned_away_may_cost_quota_without_a_collapse() {
    for hints in [Hints::None, Hints::Exact, Hints::WholeSeconds] {
        let service = Service { rejects_cost: true, ..Service::new(50.0, 50.0, hints) };
        let played = play(service, 6_000, 1, &[]);
        let goodput = played.goodput(service, 6_000);
        assert!(goodput >= 0.85, "{hints:?} {goodput:.3}");
    }
}

#[test]
fn a_limit_that_changes_is_found_within_seconds() {
    for hints in [Hints::None, Hints::Exact, Hints::WholeSeconds] {
        let steps = [(40_000, 25.0), (80_000, 100.0)];
        let played = play(Service::new(50.0, 50.0, hints), 7_000, 1, &steps);
        let (after_down, after_up) = (played.between(50_000, 60_000), played.between(90_000, 100_000));
        // With whole seconds a pause is longer than what this bucket saves up.
        let least = if hints == Hints::WholeSeconds { 750 } else { 900 };
        assert!(after_down >= 225 && after_up >= least, "{hints:?}: {after_down} of 250, {after_up} of 1000");
    }
}

fn gate(spec: GateSpec) -> Gate {
    Gate::new(spec, GateState::default(), "w1", Timestamp(0))
}

fn quick_breaker() -> GateSpec {
    let breaker = BreakerSpec {
        min_calls: 3,
        open_for: Duration::from_secs(10),
        pause_after: Duration::from_secs(60),
        ..BreakerSpec::default()
    };
    GateSpec { breaker: Some(breaker), ..GateSpec::default() }
}

fn lesson(sign: Sign<'_>) -> Lesson<'_> {
    Lesson { sign, tokens: None, limits: Limits::default() }
}

const FAILED: Sign<'_> = Sign::Failed { calls: 1, lost: false, fresh: true };

fn call(gate: &mut Gate, sign: Sign<'_>, at: i64) -> Option<Notice> {
    let permit = gate.admit(0, Timestamp(at)).expect("it is open");
    gate.ended(permit, &lesson(sign), Timestamp(at + 1))
}

#[test]
fn a_dependency_that_is_away_is_tried_out_by_one_call_at_a_time() {
    let mut gate = gate(quick_breaker());
    assert_eq!(call(&mut gate, FAILED, 0), None);
    assert_eq!(call(&mut gate, FAILED, 10), None);
    assert_eq!(call(&mut gate, FAILED, 20), Some(Notice::Away));
    let first = gate.closed_until(Timestamp(30)).expect("it is away");
    assert!((500..=1_100).contains(&first.0), "a hiccup is soon over: {first:?}");
    assert_eq!((gate.room(Timestamp(30)), gate.opens_at(1, Timestamp(30))), (0, Some(first)));
    let probe = gate.admit(0, first).expect("it is tried out");
    assert!(probe.is_probe());
    assert!(gate.admit(0, Timestamp(first.0 + 1)).is_err(), "one at a time");
    let failed = Timestamp(first.0 + 80);
    assert_eq!(gate.ended(probe, &lesson(FAILED), failed), None, "it is known to be away");
    let second = gate.closed_until(failed).expect("it is still away");
    let probe = gate.admit(0, second).expect("it is tried out again");
    let back = Timestamp(second.0 + 100);
    assert_eq!(gate.ended(probe, &lesson(Sign::Answered), back), Some(Notice::Back));
    assert!(gate.admit(0, Timestamp(back.0 + 1)).is_ok());
    assert!(gate.admit(0, Timestamp(back.0 + 1)).is_err(), "and then it begins with one call at a time");
}

/// The times between the probes of an outage, in milliseconds.
fn probes(sign: Sign<'_>, count: usize) -> Vec<i64> {
    let mut gate = gate(quick_breaker());
    for at in [0, 10, 20] {
        call(&mut gate, sign, at);
    }
    let (mut last, mut waits) = (Timestamp(21), Vec::new());
    for _ in 0..count {
        let at = gate.closed_until(last).expect("it is away");
        waits.push(at.0 - last.0);
        let probe = gate.admit(0, at).expect("it is tried out");
        last = Timestamp(at.0 + 1);
        gate.ended(probe, &lesson(sign), last);
    }
    waits
}

#[test]
fn probes_begin_soon_become_rarer_and_are_never_in_step_with_an_outage() {
    let lost = Sign::Failed { calls: 1, lost: true, fresh: true };
    let waits = probes(lost, 40);
    assert!(waits[0] <= 1_000 && waits[0] < waits[2] && waits[1] < waits[3], "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 12_500), "{waits:?}");
    let late = &waits[8..];
    assert!(late.iter().max() > late.iter().min().map(|least| least + 2_000).as_ref(), "{late:?}");
    // Two of every ten seconds are bad: of forty probes many meet the good eight.
    let mut at = 0;
    let good = waits.iter().filter(|wait| {
        at += **wait;
        at % 10_000 < 8_000
    });
    assert!(good.count() >= 20);
    let answered = probes(FAILED, 20);
    assert!(
        answered.iter().all(|wait| *wait <= 3_200),
        "one that answers is tried out more often: {answered:?}"
    );
}

#[test]
fn after_somebody_let_it_go_on_an_answer_is_an_answer() {
    let mut gate = gate(quick_breaker());
    for at in [0, 10, 20] {
        call(&mut gate, FAILED, at);
    }
    let mut state = gate.shared().clone();
    state.resume(Timestamp(70_000));
    gate.merge(&state, Timestamp(70_000));
    let probe = gate.admit(0, Timestamp(70_000)).expect("it is tried out at once");
    assert_eq!(gate.ended(probe, &lesson(FAILED), Timestamp(70_010)), Some(Notice::Back));
    assert!(!gate.is_away(), "so that failures are spent, and the run ends");
    for at in 71_000..71_100 {
        call(&mut gate, FAILED, at);
        assert!(!gate.is_away(), "it is not taken for away by the same again");
    }
    call(&mut gate, Sign::Answered, 72_000);
    let away = (73_000..73_100).any(|at| call(&mut gate, FAILED, at) == Some(Notice::Away));
    assert!(away, "after a call has passed it may be");
}

#[test]
fn away_for_too_long_needs_somebody_and_a_resume_tries_at_once() {
    let mut gate = gate(quick_breaker());
    for at in [0, 10, 20] {
        call(&mut gate, FAILED, at);
    }
    assert_eq!(gate.needs_somebody(Timestamp(60_020)), None);
    assert!(matches!(gate.needs_somebody(Timestamp(60_021)), Some((None, _))));
    let mut state = gate.shared().clone();
    state.resume(Timestamp(70_000));
    gate.merge(&state, Timestamp(70_000));
    assert_eq!(gate.needs_somebody(Timestamp(70_000)), None);
    assert!(gate.admit(0, Timestamp(70_000)).is_ok_and(|permit| permit.is_probe()));
}

#[test]
fn a_probe_that_taught_nothing_is_made_again() {
    let mut gate = gate(quick_breaker());
    for at in [0, 10, 20] {
        call(&mut gate, FAILED, at);
    }
    let probe = gate.admit(0, Timestamp(11_000)).expect("it is tried out");
    gate.broken_off(probe);
    assert!(gate.admit(0, Timestamp(11_001)).is_ok());
}

#[test]
fn a_hint_closes_it_for_everybody_and_outlives_the_worker() {
    let mut one = gate(GateSpec::default());
    let hint = Some(Duration::from_secs(30));
    call(&mut one, Sign::Throttled { hint }, 0);
    assert_eq!(one.closed_until(Timestamp(2)), Some(Timestamp(30_001)));
    let saved = one.to_save(Timestamp(2)).expect("it is urgent");
    let text = saved.write();
    let restarted = Gate::new(GateSpec::default(), GateState::read(&text).unwrap(), "w2", Timestamp(5_000));
    assert_eq!(restarted.closed_until(Timestamp(5_000)), Some(Timestamp(30_001)));
    let mut other = gate(GateSpec::default());
    other.merge(&saved, Timestamp(3));
    assert_eq!(other.admit(0, Timestamp(4)), Err(Some(Timestamp(30_001))));
}

#[test]
fn a_hint_beyond_the_cap_parks_it_and_one_call_tries_it_out() {
    let mut gate = gate(GateSpec { hint_cap: Duration::from_secs(60), ..GateSpec::default() });
    let years = Duration::from_secs(10 * 365 * 86_400);
    let notice = call(&mut gate, Sign::Throttled { hint: Some(years) }, 0);
    assert_eq!(notice, Some(Notice::Parked(years)));
    assert_eq!(gate.shared().standing(Timestamp(5)).state, "parked");
    let probe = gate.admit(0, Timestamp(60_001)).expect("the cap is over");
    assert!(gate.admit(0, Timestamp(60_001)).is_err());
    gate.ended(probe, &lesson(Sign::Answered), Timestamp(60_100));
    assert_eq!(gate.shared().standing(Timestamp(60_100)).state, "open");
}

#[test]
fn exhausted_credit_waits_for_somebody_and_is_told_once() {
    let mut gate = gate(GateSpec::default());
    let (first, second) = (gate.admit(0, Timestamp(0)).unwrap(), gate.admit(0, Timestamp(0)).unwrap());
    let quota = Sign::Quota { why: "no credit" };
    assert_eq!(gate.ended(first, &lesson(quota), Timestamp(1)), Some(Notice::Paused("no credit".to_owned())));
    assert_eq!(gate.ended(second, &lesson(quota), Timestamp(2)), None);
    assert_eq!(gate.admit(0, Timestamp(i64::MAX / 2)), Err(None));
    let mut state = gate.to_save(Timestamp(3)).unwrap();
    assert!(state.standing(Timestamp(3)).why.contains("no credit"));
    state.resume(Timestamp(9));
    gate.merge(&state, Timestamp(9));
    assert!(gate.admit(0, Timestamp(9)).is_ok());
}

#[test]
fn an_operators_word_stands_against_what_workers_write_at_the_same_time() {
    let mut worker = gate(GateSpec::default());
    let mut stored = worker.to_save(Timestamp(0)).unwrap_or_default();
    stored.stop("maintenance".to_owned(), Timestamp(5));
    call(&mut worker, Sign::Answered, 6);
    worker.merge(&stored, Timestamp(8));
    assert_eq!(worker.admit(0, Timestamp(9)), Err(None));
    assert_eq!(worker.shared().totals.calls, 1, "and what was counted meanwhile is not lost");
    let mut resumed = worker.shared().clone();
    resumed.resume(Timestamp(10));
    worker.merge(&resumed, Timestamp(11));
    assert!(worker.admit(0, Timestamp(12)).is_ok());
}

#[test]
fn given_limits_hold_and_what_was_overdrawn_is_remembered() {
    let spec = GateSpec { tokens_per_minute: Some(10_000), ..GateSpec::default() };
    let mut gate = gate(spec.clone());
    let permit = gate.admit(10_000, Timestamp(0)).expect("a full bucket");
    let answered = Lesson { tokens: Some(8_000), ..lesson(Sign::Answered) };
    gate.ended(permit, &answered, Timestamp(100));
    let Err(Some(next)) = gate.admit(5_000, Timestamp(100)) else { panic!("it is used up") };
    assert!((44_000..=49_000).contains(&next.0), "what was not used is given back: {next:?}");
    let saved = gate.to_save(Timestamp(2_000)).expect("it is due");
    let restarted = Gate::new(spec, saved, "w2", Timestamp(3_000));
    let opens = restarted.opens_at(1, Timestamp(3_000)).expect("it opens");
    assert!((40_000..=49_000).contains(&opens.0), "{opens:?}");
}

#[test]
fn workers_that_come_together_share_and_no_more_than_asked_for_is_under_way() {
    for (most, workers) in [(6, 3), (1, 4), (2, 4), (4, 4), (6, 4), (7, 3), (20, 6)] {
        let spec = GateSpec { max_concurrency: most, ..GateSpec::default() };
        let mut gates: Vec<Gate> = (0..workers)
            .map(|n| {
                let mut state = GateState::default();
                state.window.limit = 64.0;
                Gate::new(spec.clone(), state, format!("w{n}"), Timestamp(0))
            })
            .collect();
        let mut stored = GateState::default();
        for gate in &mut gates {
            call(gate, Sign::Answered, 0);
            assert!(gate.is_urgent(), "others know at once that there is one more");
            let state = gate.to_save(Timestamp(1)).expect("it is urgent");
            stored.merge(&state, Totals::default(), Timestamp(1));
        }
        let mut places = [0, 4_999, 5_000].map(|_| Vec::new());
        for gate in &mut gates {
            gate.merge(&stored, Timestamp(2));
            for (places, now) in places.iter_mut().zip([2, 4_999, 5_000]) {
                places.push(gate.places(Timestamp(now)));
            }
        }
        let whole = usize::try_from(most).expect("small");
        assert!(places.iter().all(|all| all.iter().sum::<usize>() == whole), "{most}: {places:?}");
        assert_eq!(places[0] != places[2], whole % workers > 0, "they take turns with what is left over");
        let mut under_way = 0;
        for gate in &mut gates {
            while gate.admit(0, Timestamp(2)).is_ok() {
                under_way += 1;
            }
        }
        assert_eq!(under_way, whole);
    }
}

#[test]
fn a_parked_dependency_that_fails_is_tried_out_again_later_and_by_one_worker() {
    let spec = GateSpec { hint_cap: Duration::from_secs(60), breaker: None, ..GateSpec::default() };
    let mut one = gate(spec.clone());
    call(&mut one, Sign::Throttled { hint: Some(Duration::from_secs(1_000_000)) }, 0);
    let probe = one.admit(0, Timestamp(60_001)).expect("the cap is over");
    let told = one.to_save(Timestamp(60_001)).expect("it is urgent");
    let mut other = Gate::new(spec, told, "w2", Timestamp(60_002));
    assert!(other.admit(0, Timestamp(60_002)).is_err(), "one worker tries it out");
    one.ended(probe, &lesson(FAILED), Timestamp(60_100));
    let Err(Some(again)) = one.admit(0, Timestamp(60_101)) else { panic!("not again at once") };
    assert!((67_600..=72_600).contains(&again.0), "{again:?}");
}

#[test]
fn a_slow_start_is_not_undone_by_what_another_worker_remembers() {
    let mut one = gate(quick_breaker());
    let mut state = one.shared().clone();
    state.window.limit = 33.0;
    for at in [0, 10, 20] {
        call(&mut one, FAILED, at);
    }
    let probe = one.admit(0, Timestamp(20_000)).expect("it is tried out");
    one.ended(probe, &lesson(Sign::Answered), Timestamp(20_100));
    one.merge(&state, Timestamp(20_200));
    assert!(one.shared().window.limit < 2.0, "{}", one.shared().window.limit);
}

#[test]
fn a_slow_rate_outlives_the_worker() {
    let spec = GateSpec { requests_per_minute: Some(3), ..GateSpec::default() };
    let mut one = gate(spec.clone());
    call(&mut one, Sign::Answered, 0);
    let saved = one.to_save(Timestamp(1_500)).expect("it is time");
    let mut restarted = Gate::new(spec, saved, "w2", Timestamp(2_000));
    let Err(Some(next)) = restarted.admit(0, Timestamp(2_000)) else { panic!("three a minute") };
    assert!((19_000..=21_000).contains(&next.0), "{next:?}");
}

#[test]
fn calls_that_are_turned_away_at_random_are_not_answered_by_going_ever_slower() {
    let mut gate = gate(GateSpec { max_concurrency: 16, ..GateSpec::default() });
    let (mut passed, mut seed, mut open) = (0, 5_u64, Vec::new());
    for now in 0..30_000 {
        open.retain(|(ends, permit, passes)| {
            if *ends <= now {
                let sign = if *passes { Sign::Answered } else { Sign::Throttled { hint: None } };
                gate.ended(*permit, &lesson(sign), Timestamp(now));
                passed += u32::from(*passes);
            }
            *ends > now
        });
        while let Ok(permit) = gate.admit(0, Timestamp(now)) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            open.push((now + 10, permit, (seed >> 33) % 100 >= 15));
        }
    }
    assert!(passed > 3_000, "{passed} in 30 s");
}

#[test]
fn what_answers_say_of_limits_is_not_believed_for_longer_than_a_hint() {
    let mut gate = gate(GateSpec { hint_cap: Duration::from_secs(60), ..GateSpec::default() });
    let years = Allowance { limit: Some(60.0), remaining: 0.0, reset: Duration::from_secs(315_360_000) };
    let permit = gate.admit(0, Timestamp(0)).expect("it is open");
    let limits = Limits { requests: Some(years), tokens: None };
    gate.ended(permit, &Lesson { sign: Sign::Answered, tokens: None, limits }, Timestamp(1));
    let opens = gate.opens_at(1, Timestamp(1)).expect("it opens");
    assert!(opens.0 <= 60_001, "{opens:?}");
    assert!(gate.shared().standing(Timestamp(2)).why.contains("0 requests are left"));
    let mut resumed = gate.shared().clone();
    resumed.resume(Timestamp(3));
    gate.merge(&resumed, Timestamp(3));
    assert_eq!(gate.opens_at(1, Timestamp(3)), Some(Timestamp(3)), "an operator knows better");
}

#[test]
fn nothing_at_a_gate_lasts_longer_because_a_clock_was_ahead() {
    let days = 2 * 86_400_000;
    let ahead = Timestamp(days + 50_000);
    let spec = GateSpec { requests_per_minute: Some(60), ..GateSpec::default() };
    let mut gate = Gate::new(spec.clone(), GateState::default(), "one", ahead);
    let hint = Some(Duration::from_secs(30));
    let permit = gate.admit(1, ahead).expect("open");
    gate.ended(permit, &lesson(Sign::Throttled { hint }), ahead);
    let written = gate.to_save(ahead).expect("urgent").write();
    let now = Timestamp(50_000);
    // Another process with the right clock reads it.
    let read = GateState::read_at(&written, ahead, now).unwrap();
    let other = Gate::new(spec, read, "two", now);
    let until = other.closed_until(now).expect("still closed");
    assert!(until <= now.after(Duration::from_secs(40)), "{until:?}");
    assert!(other.opens_at(1, now).is_some_and(|opens| opens <= now.after(Duration::from_secs(90))));
    // The same process finds its clock put back.
    gate.put_back(days, now);
    assert_eq!(gate.closed_until(now), Some(until));
    // A clock that is behind, or a little ahead, changes nothing.
    let same = GateState::read_at(&written, ahead, Timestamp(ahead.0 - 500)).unwrap();
    assert_eq!(same, GateState::read(&written).unwrap());
}

#[test]
fn a_probe_that_was_put_off_by_a_clock_ahead_is_due_when_it_was_meant_to_be() {
    let spec = GateSpec { hint_cap: Duration::from_secs(10), ..GateSpec::default() };
    let days = 2 * 86_400_000;
    let (parked, now) = (Timestamp(1_000), Timestamp(20_000));
    let ahead = Timestamp(now.0 + days);
    let mut gate = Gate::new(spec.clone(), GateState::default(), "one", parked);
    let permit = gate.admit(1, parked).expect("open");
    gate.ended(permit, &lesson(Sign::Throttled { hint: Some(Duration::from_secs(3_600)) }), parked);
    assert!(gate.shared().parked.is_some());
    // The clock is put forward, a call tries it out and fails: since when it is parked says nothing of when it is tried again.
    let probe = gate.admit(1, ahead).expect("it is to be tried out");
    gate.ended(probe, &lesson(Sign::Failed { calls: 1, fresh: true, lost: false }), ahead);
    let soon = Timestamp(gate.closed_until(ahead).expect("parked").0 - days);
    let written = gate.to_save(ahead).expect("urgent").write();
    gate.put_back(days, now);
    assert_eq!(gate.closed_until(now), Some(soon), "the same process");
    let other = Gate::new(spec, GateState::read_at(&written, ahead, now).unwrap(), "two", now);
    assert_eq!(other.closed_until(now), Some(soon), "another one");
}

#[test]
fn a_probe_is_due_when_it_was_meant_to_be_though_its_clock_was_put_right_before_it_was_written() {
    let spec = quick_breaker();
    let (days, now) = (2 * 86_400_000, Timestamp(50_000));
    let ahead = Timestamp(now.0 + days);
    let mut gate = Gate::new(spec.clone(), GateState::default(), "one", ahead);
    while gate.closed_until(ahead).is_none() {
        let permit = gate.admit(1, ahead).expect("open");
        gate.ended(permit, &lesson(Sign::Failed { calls: 1, fresh: true, lost: false }), ahead);
    }
    let written = gate.to_save(ahead).expect("urgent").write();
    let other = Gate::new(spec, GateState::read_at(&written, now, now).unwrap(), "two", now);
    assert!(other.closed_until(now).is_some_and(|until| until < now.after(Duration::from_secs(60))));
}

#[test]
fn a_rate_that_was_used_up_by_a_clock_ahead_is_there_again_as_soon() {
    let days = 2 * 86_400_000;
    let (ahead, now) = (Timestamp(days + 50_000), Timestamp(50_000));
    let spec = GateSpec { requests_per_minute: Some(6), tokens_per_minute: Some(60), ..GateSpec::default() };
    let mut gate = Gate::new(spec, GateState::default(), "one", ahead);
    let permit = gate.admit(30, ahead).expect("open");
    gate.ended(permit, &lesson(Sign::Answered), ahead);
    assert_eq!(gate.room(ahead), 0);
    gate.put_back(days, now);
    assert_eq!(gate.room(now), 0, "it is still used up");
    let later = now.after(Duration::from_secs(40));
    assert!(gate.room(later) > 0, "nobody has to ask for a call that nothing was fetched for");
}

#[test]
fn a_clock_that_is_put_forward_makes_no_outage_longer() {
    let spec = GateSpec {
        breaker: Some(BreakerSpec { min_calls: 1, ..BreakerSpec::default() }),
        ..GateSpec::default()
    };
    let mut gate = gate(spec);
    let permit = gate.admit(1, Timestamp(1_000)).expect("open");
    gate.ended(permit, &lesson(Sign::Failed { calls: 1, fresh: true, lost: false }), Timestamp(1_000));
    assert!(gate.is_away());
    let hour = 3_600_000;
    let now = Timestamp(2_000 + hour);
    assert!(gate.needs_somebody(now).is_some(), "so long would be an outage");
    gate.put_forward(hour, now);
    assert_eq!(gate.needs_somebody(now), None, "it has been away for a second");
}

#[test]
fn what_an_older_version_wrote_is_read_and_what_a_newer_one_wrote_is_refused() {
    let mut state = GateState::default();
    state.stop("looked into".to_owned(), Timestamp(5));
    let written = state.write();
    assert_eq!(GateState::read(&written), Ok(state));
    assert_eq!(GateState::read("{}"), Ok(GateState::default()));
    let newer = written.replace("operator", "budget_of_the_team");
    assert_ne!(newer, written);
    assert!(GateState::read(&newer).is_err(), "else the pause would be lifted");
    for strange in ["", "{", "null"] {
        assert!(GateState::read(strange).is_err(), "{strange}");
    }
}
