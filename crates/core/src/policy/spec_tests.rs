use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn problems(spec: PolicySpec) -> Vec<String> {
    spec.build().unwrap_err().iter().map(ToString::to_string).collect()
}

fn exponential(base: u64, factor: f64, max: u64) -> Backoff {
    Backoff::Exponential { base: Duration::from_secs(base), factor, max: Duration::from_secs(max) }
}

fn tier(attempts: Option<u32>) -> TierSpec {
    TierSpec { attempts, backoff: Backoff::None, jitter: None }
}

#[test]
fn each_mistake_is_named_by_its_key() {
    let base = PolicySpec::default;
    let table: Vec<(PolicySpec, &str)> = vec![
        (PolicySpec::of_preset("smaple"), "preset: unknown preset \"smaple\"; known are sample, llm"),
        (PolicySpec { max_attempts: Some(Limit::Attempts(0)), ..base() }, "max_attempts: 0 is too low"),
        (
            PolicySpec { max_attempts: Some(Limit::Attempts(20_000)), ..base() },
            "max_attempts: 20000 is too high",
        ),
        (PolicySpec { jitter: Some(Jitter::Proportional(2.0)), ..base() }, "jitter: 2 is not a fraction"),
        (PolicySpec { jitter: Some(Jitter::Proportional(-0.1)), ..base() }, "jitter: -0.1 is not"),
        (PolicySpec { jitter: Some(Jitter::Proportional(f64::NAN)), ..base() }, "jitter: NaN is not"),
        (
            PolicySpec { backoff: Some(exponential(5, 2.0, 1)), ..base() },
            "backoff.base: 5s is longer than max, 1s",
        ),
        (PolicySpec { backoff: Some(exponential(0, 2.0, 1)), ..base() }, "backoff.base: must be above zero"),
        (PolicySpec { backoff: Some(exponential(1, 0.5, 9)), ..base() }, "backoff.factor: 0.5 is below 1"),
        (
            PolicySpec { backoff: Some(exponential(1, f64::INFINITY, 9)), ..base() },
            "backoff.factor: inf is below",
        ),
        (
            PolicySpec { backoff: Some(Backoff::Schedule { delays: vec![] }), ..base() },
            "backoff.delays: give 1 to",
        ),
        (PolicySpec { tiers: Some(vec![]), ..base() }, "tiers: give 1 to 16 tiers"),
        (PolicySpec { tiers: Some(vec![tier(None), tier(None)]), ..base() }, "tiers[0].attempts: missing"),
        (PolicySpec { tiers: Some(vec![tier(Some(0))]), ..base() }, "tiers[0].attempts: 0 is too low"),
        (PolicySpec { retry_on: Some(RetryOn::List(vec![])), ..base() }, "retry_on: an empty list"),
        (PolicySpec { crash_limit: Some(0), ..base() }, "crash_limit: 0 is too low"),
        (PolicySpec { unknown_limit: Some(Limit::Attempts(0)), ..base() }, "unknown_limit: 0 is too low"),
        (PolicySpec { flag_after: Some(0), ..base() }, "flag_after: 0 is too low"),
        (PolicySpec { timeout_growth: Some(f64::NAN), ..base() }, "timeout_growth: NaN is not between 1"),
        (PolicySpec { hint_cap: Some(Duration::ZERO), ..base() }, "hint_cap: must be above zero"),
        (PolicySpec { deadline: Some(Duration::ZERO), ..base() }, "deadline: must be above zero"),
    ];
    for (spec, expected) in table {
        let found = problems(spec);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let spec = PolicySpec {
        max_attempts: Some(Limit::Attempts(0)),
        jitter: Some(Jitter::Proportional(9.0)),
        backoff: Some(exponential(9, 0.0, 1)),
        tiers: Some(vec![tier(Some(3))]),
        ..PolicySpec::of_preset("nope")
    };
    let keys: Vec<_> = spec.build().unwrap_err().into_iter().map(|problem| problem.key).collect();
    assert_eq!(keys, ["preset", "jitter", "tiers", "backoff.base", "backoff.factor", "max_attempts"]);
}

#[test]
fn tiers_give_the_limit() {
    let spec = PolicySpec { tiers: Some(vec![tier(Some(4)), tier(Some(3))]), ..PolicySpec::default() };
    assert_eq!(spec.clone().build().unwrap().max_attempts().map(NonZeroU32::get), Some(7));
    let more = PolicySpec { max_attempts: Some(Limit::Attempts(8)), ..spec.clone() };
    assert!(problems(more)[0].contains("8 is more than the 7 attempts"));
    let endless = PolicySpec { max_attempts: Some(Limit::Endless), ..spec };
    assert!(problems(endless)[0].contains("the last tier has a number"));
    let open = PolicySpec { tiers: Some(vec![tier(Some(4)), tier(None)]), ..PolicySpec::default() };
    assert_eq!(open.build().unwrap().max_attempts(), None);
}

#[test]
fn scheduled_waits_are_exact_and_exponential_ones_keep_the_jitter() {
    let jitter = |backoff| {
        let spec = PolicySpec { backoff: Some(backoff), ..PolicySpec::default() };
        spec.build().unwrap().tiers()[0].jitter
    };
    assert_eq!(jitter(Backoff::Schedule { delays: vec![SECOND] }), Jitter::None);
    assert_eq!(jitter(exponential(1, 2.0, 30)), Jitter::Proportional(0.25));
}

#[test]
fn an_endless_policy_is_flagged_by_default() {
    let spec = PolicySpec { max_attempts: Some(Limit::Endless), ..PolicySpec::default() };
    assert!(spec.build().unwrap().looks_permanent(24));
}

#[test]
fn the_json_form_is_stable() {
    let policy = PolicySpec::of_preset("none").build().unwrap();
    let expected = concat!(
        r#"{"max_attempts":1,"tiers":[{"attempts":null,"backoff":{"kind":"none"},"jitter":"none"}],"#,
        r#""retry_on":null,"final_on":[],"overrides":[],"deadline_ms":null,"crash_limit":5,"unknown_limit":null,"#,
        r#""hint_cap_ms":3600000,"timeout_growth":1.5,"flag_after":null}"#
    );
    assert_eq!(serde_json::to_string(&policy).unwrap(), expected);
}
