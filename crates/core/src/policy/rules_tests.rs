use proptest::prelude::*;

use super::*;
use crate::classify::from_status;
use crate::policy::{Limit, OverrideSpec, PolicySpec, preset, presets};

const SECOND: Duration = Duration::from_secs(1);

fn failure(class: Class, kind: Kind) -> Failure {
    Failure::new(class, kind, "boom")
}

fn server() -> Failure {
    failure(Class::Retryable, Kind::Server)
}

fn of(name: &str) -> Policy {
    preset(name).unwrap().policy.clone()
}

fn retry(next: Next) -> Wait {
    match next {
        Next::Retry(wait) => wait,
        Next::GiveUp => panic!("gave up"),
    }
}

fn with(retry_on: Option<&[&str]>, final_on: &[&str]) -> Policy {
    let read =
        |words: &[&str]| words.iter().map(|word| Matcher::from_word(word).unwrap()).collect::<Vec<_>>();
    let spec = PolicySpec {
        retry_on: retry_on.map(|words| RetryOn::List(read(words))),
        final_on: Some(read(final_on)),
        ..PolicySpec::default()
    };
    spec.build().unwrap()
}

#[test]
fn max_attempts_counts_the_first_try() {
    let policy = of("sample");
    assert_eq!(retry(policy.after_failure(2, &server(), Draw::MIDDLE)).delay, 2 * SECOND);
    assert_eq!(policy.after_failure(3, &server(), Draw::MIDDLE), Next::GiveUp);
    assert_eq!(of("none").after_failure(1, &server(), Draw::MIDDLE), Next::GiveUp);
}

#[test]
fn the_slow_tier_follows_the_fast_one() {
    let policy = of("index");
    let waits: Vec<_> = (1..=5).map(|n| retry(policy.after_failure(n, &server(), Draw::MIDDLE))).collect();
    assert_eq!(waits[2], Wait { delay: Duration::ZERO, cause: Cause::Immediate });
    assert_eq!(waits[3], Wait { delay: 60 * SECOND, cause: Cause::SlowTier });
    assert_eq!(waits[4], Wait { delay: 300 * SECOND, cause: Cause::SlowTier });
}

#[test]
fn an_unknown_kind_has_a_limit_of_its_own_only_where_one_is_given() {
    let unknown = failure(Class::Retryable, Kind::Unknown);
    for preset in presets() {
        let known = failure(Class::Retryable, Kind::Handler);
        assert_eq!(
            preset.policy.most_failures_like(&unknown),
            preset.policy.most_failures_like(&known),
            "{}",
            preset.name
        );
    }
    let given = PolicySpec { unknown_limit: Some(Limit::Attempts(2)), ..PolicySpec::of_preset("daemon") };
    let given = given.build().unwrap();
    assert!(matches!(given.after_failure(1, &unknown, Draw::MIDDLE), Next::Retry(_)));
    assert_eq!(given.after_failure(2, &unknown, Draw::MIDDLE), Next::GiveUp);
    assert_eq!(of("none").after_failure(1, &unknown, Draw::MIDDLE), Next::GiveUp);
    assert!(matches!(of("self-healing").after_failure(99, &unknown, Draw::MIDDLE), Next::Retry(_)));
}

#[test]
fn final_and_oversized_failures_are_given_up() {
    for class in [Class::Final, Class::Oversized] {
        assert_eq!(of("daemon").after_failure(1, &failure(class, Kind::Client), Draw::MIDDLE), Next::GiveUp);
    }
}

#[test]
fn a_hint_is_a_floor_for_a_failure_too() {
    let busy = server().with_hint(Some(30 * SECOND));
    let wait = retry(of("sample").after_failure(1, &busy, Draw::new(0.0)));
    assert_eq!(wait, Wait { delay: 30 * SECOND, cause: Cause::Hint });
    let short = server().with_hint(Some(Duration::from_millis(1)));
    assert_eq!(retry(of("daemon").after_failure(1, &short, Draw::MIDDLE)).delay, 60 * SECOND);
}

#[test]
fn hints_are_spread_upwards_and_parked_above_the_cap() {
    let policy = of("sample");
    let wait = policy.after_throttle(1, Some(100 * SECOND), Draw::new(1.0));
    assert!(wait.delay > 104 * SECOND && wait.delay <= 105 * SECOND);
    assert_eq!(wait.cause, Cause::Hint);
    let parked = policy.after_throttle(1, Some(7_200 * SECOND), Draw::new(0.0));
    assert_eq!(parked, Wait { delay: 3_600 * SECOND, cause: Cause::Parked }, "no longer than the cap");
    assert_eq!(policy.after_throttle(1, Some(Duration::MAX), Draw::new(0.0)), parked);
    // Whatever the class.
    for class in [Class::Retryable, Class::Timeout] {
        let failed = failure(class, Kind::Server).with_hint(Some(90_000 * SECOND));
        assert_eq!(retry(policy.after_failure(1, &failed, Draw::new(0.0))), parked);
    }
}

#[test]
fn a_throttle_without_hint_grows_to_a_minute_at_least() {
    let policy = of("interactive");
    let waits: Vec<_> =
        [1, 2, 7, 50].map(|n| policy.after_throttle(n, None, Draw::MIDDLE).delay.as_secs()).to_vec();
    // At the cap they are spread below it: the middle of 36 to 60 s.
    assert_eq!(waits, [1, 2, 48, 48]);
    assert_eq!(policy.after_throttle(50, None, Draw::new(1.0)).delay.as_secs(), 60);
    assert_eq!(policy.after_throttle(3, Some(Duration::ZERO), Draw::MIDDLE).delay, 4 * SECOND);
    assert_eq!(of("daemon").after_throttle(99, None, Draw::MIDDLE).delay, 2_880 * SECOND);
}

#[test]
fn the_fifth_crash_gives_up() {
    let policy = of("sample");
    assert_eq!(
        retry(policy.after_crash(1, Kind::Process, Draw::MIDDLE)),
        Wait { delay: SECOND, cause: Cause::Crash }
    );
    assert_eq!(retry(policy.after_crash(2, Kind::Process, Draw::MIDDLE)).delay, 2 * SECOND);
    assert_eq!(retry(policy.after_crash(4, Kind::Process, Draw::MIDDLE)).delay, 8 * SECOND);
    assert_eq!(policy.after_crash(5, Kind::Process, Draw::MIDDLE), Next::GiveUp);
}

#[test]
fn only_a_timeout_lengthens_the_timeout() {
    let policy = of("sample");
    assert_eq!(policy.timeout(SECOND, 2, Some(Class::Retryable)), SECOND);
    assert_eq!(policy.timeout(SECOND, 1, Some(Class::Timeout)), Duration::from_millis(1_500));
    assert_eq!(policy.timeout(SECOND, u32::MAX, Some(Class::Timeout)), 4 * SECOND);
}

#[test]
fn the_most_specific_override_wins() {
    let rule = |matcher, max_attempts, backoff| OverrideSpec { matcher, max_attempts, backoff };
    let spec = PolicySpec {
        max_attempts: Some(Limit::Attempts(8)),
        overrides: vec![
            rule(Matcher::Class(Class::Retryable), None, Some(Backoff::Fixed { delay: 9 * SECOND })),
            rule(Matcher::Kind(Kind::Database), Some(4), Some(Backoff::None)),
        ],
        ..PolicySpec::default()
    };
    let policy = spec.build().unwrap();
    let database = failure(Class::Retryable, Kind::Database);
    assert_eq!(retry(policy.after_failure(3, &database, Draw::MIDDLE)).cause, Cause::Immediate);
    assert_eq!(policy.after_failure(4, &database, Draw::MIDDLE), Next::GiveUp);
    assert_eq!(retry(policy.after_failure(4, &server(), Draw::MIDDLE)).delay, 9 * SECOND);
}

#[test]
fn an_override_may_raise_the_limit() {
    let matcher = Matcher::Class(Class::Timeout);
    let rule = OverrideSpec { matcher, max_attempts: Some(6), backoff: None };
    let policy = PolicySpec { overrides: vec![rule], ..PolicySpec::default() }.build().unwrap();
    let late = failure(Class::Timeout, Kind::Timeout);
    assert!(matches!(policy.after_failure(5, &late, Draw::MIDDLE), Next::Retry(_)));
    assert_eq!(policy.after_failure(6, &late, Draw::MIDDLE), Next::GiveUp);
    assert_eq!(policy.after_failure(5, &server(), Draw::MIDDLE), Next::GiveUp);
}

#[test]
fn full_jitter_does_not_make_throttles_spin() {
    let policy = PolicySpec { jitter: Some(Jitter::Full), ..PolicySpec::default() }.build().unwrap();
    assert!(policy.after_throttle(1, None, Draw::new(0.0)).delay >= SECOND / 2);
    assert!(retry(policy.after_crash(1, Kind::Process, Draw::new(0.0))).delay >= SECOND / 2);
}

#[test]
fn a_list_decides_what_is_retried() {
    let policy = with(Some(&["404", "5xx", "timeout"]), &[]);
    let class = |failure| policy.reclassify(failure).class;
    assert_eq!(class(from_status(404, b"", None)), Class::Retryable);
    assert_eq!(class(from_status(504, b"", None)), Class::Timeout);
    assert_eq!(class(from_status(429, b"", None)), Class::Final);
    assert_eq!(class(failure(Class::Crash, Kind::Process)), Class::Final);
    assert_eq!(class(failure(Class::Crash, Kind::Worker)), Class::Crash);
    assert_eq!(class(from_status(402, b"", None)), Class::Quota);
    assert_eq!(class(from_status(413, b"", None)), Class::Oversized);
}

#[test]
fn final_on_wins_but_a_hundred_does_not_name_quota() {
    let policy = with(Some(&["5xx"]), &["503", "4xx", "quota"]);
    assert_eq!(policy.reclassify(from_status(503, b"", None)).class, Class::Final);
    assert_eq!(policy.reclassify(from_status(500, b"", None)).class, Class::Retryable);
    assert_eq!(policy.reclassify(from_status(402, b"", None)).class, Class::Final);
    let hundred = with(None, &["4xx"]);
    assert_eq!(hundred.reclassify(from_status(402, b"", None)).class, Class::Quota);
    assert_eq!(hundred.reclassify(from_status(429, b"", None)).class, Class::Final);
}

#[test]
fn all_and_none_are_what_they_say() {
    let with = |retry_on| PolicySpec { retry_on: Some(retry_on), ..PolicySpec::default() }.build().unwrap();
    assert_eq!(with(RetryOn::All).reclassify(from_status(400, b"", None)).class, Class::Retryable);
    assert_eq!(with(RetryOn::None).reclassify(from_status(500, b"", None)).class, Class::Final);
}

#[test]
fn self_healing_flags_but_does_not_give_up() {
    let policy = of("self-healing");
    assert!(!policy.looks_permanent(23) && policy.looks_permanent(24));
    assert!(matches!(policy.after_failure(u32::MAX, &server(), Draw::MIDDLE), Next::Retry(_)));
    assert!(!of("sample").looks_permanent(u32::MAX));
}

proptest! {
    #[test]
    fn any_counters_get_an_answer(
        which in 0..presets().len(), n in any::<u32>(), bits in any::<u64>(), hint in proptest::option::of(any::<u64>()),
        class in 0..Class::ALL.len(), kind in 0..Kind::ALL.len(),
    ) {
        let policy = &presets()[which].policy;
        let (draw, hint) = (Draw::from_bits(bits), hint.map(Duration::from_secs));
        let failed = failure(Class::ALL[class], Kind::ALL[kind]).with_hint(hint);
        let _ = policy.after_failure(n, &failed, draw);
        let _ = policy.after_crash(n, Kind::Process, draw);
        let wait = policy.after_throttle(n, hint, draw);
        prop_assert!(wait.delay >= hint.unwrap_or_default().min(policy.hint_cap()));
        prop_assert!(hint.is_none() || wait.delay <= policy.hint_cap().max(Duration::from_secs(75)) + 5 * SECOND);
        prop_assert!(wait.delay >= Duration::from_millis(750));
        prop_assert!(policy.timeout(SECOND, n, Some(Class::ALL[class])) <= 4 * SECOND);
    }

    #[test]
    fn a_wait_never_exceeds_the_maximum(n in 1_u32..3, bits in any::<u64>()) {
        let wait = retry(of("sample").after_failure(n, &server(), Draw::from_bits(bits)));
        prop_assert!(wait.delay <= 60 * SECOND);
    }
}
