use super::*;
use crate::plan::Plan;

fn plan(text: &str) -> Plan {
    Plan::parse(&format!("[limit]\n{text}"), "test").expect("a plan")
}

/// How many of these calls, at these milliseconds, pass.
fn passed(text: &str, calls: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let plan = plan(text);
    let mut limits = Limits::new(&plan.limit, plan.seed);
    let opens = |at: &u64| limits.pass(&plan.limit, Duration::from_millis(*at), 1) == Gate::Open;
    calls.into_iter().filter(opens).collect()
}

fn wait(gate: &Gate) -> u64 {
    match gate {
        Gate::Closed { wait, .. } => u64::try_from(wait.as_millis()).expect("short"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bucket_passes_its_burst_and_then_its_rate_exactly() {
    // Ten a second: one each 100 ms, whatever is tried in between.
    let times = passed("requests_per_second = 10\nburst = 3", 0..=1_000);
    let expected: Vec<u64> = [0, 1, 2].into_iter().chain((1..=10).map(|n| n * 100)).collect();
    assert_eq!(times, expected);
}

#[test]
fn rates_that_do_not_divide_a_millisecond_are_not_rounded() {
    // Seven a second for a minute: 420 and the burst, not one more.
    let times = passed("requests_per_second = 7\nburst = 2", 0..=60_000);
    assert_eq!(times.len(), 422);
}

#[test]
fn a_window_passes_its_number_and_starts_anew() {
    let times =
        passed("requests_per_second = 2\nkind = \"window\"", [0, 1, 2, 999, 1_000, 1_001, 1_002, 5_500]);
    assert_eq!(times, [0, 1, 1_000, 1_001, 5_500]);
    let plan = plan("requests_per_minute = 1\nkind = \"window\"");
    let mut limits = Limits::new(&plan.limit, plan.seed);
    assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 1), Gate::Open);
    assert_eq!(wait(&limits.pass(&plan.limit, Duration::from_millis(500), 1)), 59_500);
}

#[test]
fn the_wait_that_is_told_is_the_shortest_that_passes() {
    let plan = plan("requests_per_second = 3\nburst = 1");
    let mut limits = Limits::new(&plan.limit, plan.seed);
    limits.pass(&plan.limit, Duration::ZERO, 1);
    let told = wait(&limits.pass(&plan.limit, Duration::from_millis(1), 1));
    assert_eq!(told, 333, "a third of a second, rounded up, less the millisecond that passed");
    let early = limits.pass(&plan.limit, Duration::from_millis(told), 1);
    assert_ne!(early, Gate::Open);
    assert_eq!(limits.pass(&plan.limit, Duration::from_millis(1 + told), 1), Gate::Open);
}

#[test]
fn rejected_calls_make_debt_up_to_a_cap() {
    let text = "requests_per_second = 10\nburst = 1\nrejected_calls_consume = true\ndebt = \"2s\"";
    let plan = plan(text);
    let mut limits = Limits::new(&plan.limit, plan.seed);
    assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 1), Gate::Open);
    assert_eq!(wait(&limits.pass(&plan.limit, Duration::ZERO, 1)), 100);
    assert_eq!(wait(&limits.pass(&plan.limit, Duration::ZERO, 1)), 200, "the rejection before took one");
    let rejected = (0..100).filter(|_| limits.pass(&plan.limit, Duration::ZERO, 1) != Gate::Open).count();
    assert_eq!(rejected, 100);
    assert_eq!(wait(&limits.pass(&plan.limit, Duration::ZERO, 1)), 2_100, "two seconds and the one call");
    // Who leaves it alone that long passes.
    assert_eq!(limits.pass(&plan.limit, Duration::from_millis(2_100), 1), Gate::Open);
}

#[test]
fn debt_is_carried_into_the_next_windows() {
    let text = "requests_per_second = 10\nkind = \"window\"\nrejected_calls_consume = true\ndebt = \"3s\"";
    let calls = [0; 26].into_iter().chain([1_000; 2]).chain([2_000; 6]);
    let times = passed(text, calls);
    // 16 rejections at first, 2 more a second later; 18 - 10 are left of the second window, so 2 places of the third.
    assert_eq!(times.iter().filter(|at| **at == 0).count(), 10);
    assert_eq!(times.iter().filter(|at| **at == 1_000).count(), 0);
    assert_eq!(times.iter().filter(|at| **at == 2_000).count(), 2);
}

#[test]
fn steps_change_the_rate_from_their_moment_on() {
    let text = "requests_per_second = 10\nburst = 1\nsteps = [{ after = \"1s\", requests_per_second = 2 }, { after = \"3s\", requests_per_second = 5 }]";
    let times = passed(text, 0..4_000);
    let within = |from: u64, to: u64| times.iter().filter(|at| (from..to).contains(at)).count();
    // 0, 100 … 900; then 1000, 1500, 2000, 2500; then 3000, 3200 … 3800.
    assert_eq!((within(0, 1_000), within(1_000, 3_000), within(3_000, 4_000)), (10, 4, 5));
}

#[test]
fn a_rate_before_a_step_is_refilled_at_the_old_rate() {
    let text = "requests_per_second = 1\nburst = 10\nsteps = [{ after = \"2s\", requests_per_second = 100 }]";
    let plan = plan(text);
    let mut limits = Limits::new(&plan.limit, plan.seed);
    (0..10).for_each(|_| assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 1), Gate::Open));
    let later = Duration::from_millis(2_000);
    let open = (0..10).filter(|_| limits.pass(&plan.limit, later, 1) == Gate::Open).count();
    assert_eq!(open, 2, "two seconds at one a second");
}

#[test]
fn tokens_are_limited_beside_requests_and_neither_is_taken_alone() {
    let plan = plan("requests_per_second = 1\nburst = 2\ntokens_per_minute = 600\ntoken_burst = 100");
    let mut limits = Limits::new(&plan.limit, plan.seed);
    assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 80), Gate::Open);
    let full = limits.pass(&plan.limit, Duration::ZERO, 80);
    assert!(matches!(full, Gate::Closed { of: "tokens", per_minute: 600, .. }), "{full:?}");
    assert_eq!(wait(&full), 6_000, "60 tokens at 10 a second");
    // The rejected one left the second place among the calls free.
    assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 20), Gate::Open);
    assert_eq!(limits.pass(&plan.limit, Duration::ZERO, 101), Gate::TooLarge { most: 100 });
}

#[test]
fn headers_tell_what_is_left() {
    let plan = plan("requests_per_second = 10\nburst = 5\ntokens_per_minute = 6000\ntoken_burst = 6000");
    let mut limits = Limits::new(&plan.limit, plan.seed);
    limits.pass(&plan.limit, Duration::ZERO, 1_000);
    let headers: std::collections::BTreeMap<_, _> =
        limits.headers(Told::OpenAi, 1_000, Timestamp(0)).into_iter().collect();
    assert_eq!(headers["x-ratelimit-limit-requests"], "600");
    assert_eq!(headers["x-ratelimit-remaining-requests"], "4");
    assert_eq!(headers["x-ratelimit-reset-requests"], "100ms");
    assert_eq!(headers["x-ratelimit-limit-tokens"], "6000");
    assert_eq!(headers["x-ratelimit-remaining-tokens"], "5000");
    assert_eq!(headers["x-ratelimit-reset-tokens"], "10s");
}

#[test]
fn time_that_steps_back_changes_nothing() {
    assert_eq!(passed("requests_per_second = 1\nburst = 1", [1_000, 0, 500, 1_500, 2_000]), [1_000, 2_000]);
}

#[test]
fn a_window_can_be_of_any_length() {
    let times = passed(
        "requests_per_second = 1\nkind = \"window\"\nwindow = \"2s\"",
        [0, 1, 2, 1_999, 2_000, 2_001, 2_002],
    );
    assert_eq!(times, [0, 1, 2_000, 2_001]);
}

#[test]
fn a_sliding_window_holds_in_any_span() {
    let text = "requests_per_second = 1\nkind = \"sliding\"\nwindow = \"2s\"";
    assert_eq!(passed(text, [0, 1_500, 1_999, 2_000, 2_100, 3_499, 3_500]), [0, 1_500, 2_000, 3_500]);
    let plan = plan(text);
    let mut limits = Limits::new(&plan.limit, plan.seed);
    for at in [0, 300] {
        limits.pass(&plan.limit, Duration::from_millis(at), 1);
    }
    assert_eq!(
        wait(&limits.pass(&plan.limit, Duration::from_millis(500), 1)),
        1_500,
        "the first one has to go"
    );
}

#[test]
fn who_keeps_calling_a_counting_sliding_window_never_passes() {
    let text = "requests_per_second = 1\nkind = \"sliding\"\nwindow = \"2s\"";
    let counting = format!("{text}\nrejected_calls_consume = true");
    let calls = || (0..20).map(|n| n * 500);
    assert_eq!(passed(&counting, calls()), [0, 500], "four calls in any two seconds are too many");
    assert_eq!(passed(text, calls()).len(), 10);
    let calls = [0, 1, 500, 2_001, 2_002];
    assert_eq!(passed(&counting, calls), [0, 1, 2_001], "the rejected one counts for one");
    assert_eq!(passed(text, calls), [0, 1, 2_001, 2_002]);
}

#[test]
fn neighbours_take_another_part_in_each_period() {
    let text = "requests_per_second = 100\nburst = 1\nneighbours = { share = 0.9, every = \"5s\" }";
    let times = passed(text, 0..50_000);
    let mut rates: Vec<usize> = (0..10)
        .map(|n| times.iter().filter(|at| (n * 5_000..(n + 1) * 5_000).contains(*at)).count())
        .collect();
    assert!(rates.iter().all(|rate| (49..=501).contains(rate)), "{rates:?}");
    rates.sort_unstable();
    rates.dedup();
    assert!(rates.len() >= 8 && rates[0] < 200 && rates[rates.len() - 1] > 300, "{rates:?}");
}
