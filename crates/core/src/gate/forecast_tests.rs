use super::*;
use crate::gate::{Gate, GateState, Lesson, Limits, Sign};
use crate::policy::preset;
use crate::time::Timestamp;

fn spec(requests: Option<u64>, tokens: Option<u64>) -> GateSpec {
    GateSpec { requests_per_minute: requests, tokens_per_minute: tokens, ..GateSpec::default() }
}

fn work(items: u64, batch: u32, tokens: Option<u64>) -> Work {
    Work {
        items,
        calls_per_item: 1.0,
        batch,
        batch_tokens: None,
        tokens_per_item: tokens,
        concurrency: Some(16),
        latency: None,
    }
}

fn seconds(span: Option<Duration>) -> f64 {
    span.map_or(f64::NAN, |span| span.as_secs_f64())
}

/// Lets the work through a real gate and says how many seconds that takes.
fn play(spec: &GateSpec, work: &Work) -> f64 {
    let mut gate = Gate::new(spec.clone(), GateState::default(), "w", Timestamp(0));
    let latency = i64::try_from(work.latency.unwrap_or_default().as_millis()).unwrap();
    let most = usize::try_from(work.concurrency.unwrap()).unwrap();
    let (mut left, mut now, mut under_way) = (work.items, 0_i64, Vec::new());
    loop {
        assert!(now < 10_000_000, "it ends");
        while let Some(at) = under_way.iter().position(|(ends, _, _)| *ends <= now) {
            let (_, permit, tokens) = under_way.remove(at);
            let lesson = Lesson { sign: Sign::Answered, tokens: Some(tokens), limits: Limits::default() };
            gate.ended(permit, &lesson, Timestamp(now));
        }
        while left > 0 && under_way.len() < most {
            let size = left.min(work.items_per_request(spec));
            let tokens = size * work.tokens_per_item.unwrap_or(0);
            let Ok(permit) = gate.admit(tokens, Timestamp(now)) else { break };
            left -= size;
            under_way.push((now + latency, permit, tokens));
        }
        if left == 0 && under_way.is_empty() {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            return now as f64 / 1_000.0;
        }
        now += 5;
    }
}

#[test]
fn the_second_call_waits_until_the_first_is_paid_back() {
    let (spec, work) = (spec(Some(3), Some(10_000)), work(47, 25, Some(400)));
    let found = passage(&spec, &[work]);
    assert_eq!((found.requests, found.tokens), (2.0, Some(18_800.0)));
    assert!((seconds(found.by_requests) - 20.0).abs() < 1e-6, "a request every 20 s");
    assert!((seconds(found.by_tokens) - 60.0).abs() < 1e-6);
    assert_eq!((found.time, found.held_by), (found.by_tokens, Some(Hold::Tokens)));
    assert_eq!(found.unknown, [Unknown::Latency]);
    let played = play(&spec, &work);
    assert!((played - 60.0).abs() < 0.5, "the gate itself takes {played} s");
}

#[test]
fn a_real_gate_takes_about_as_long() {
    let latency = Some(Duration::from_millis(400));
    let table = [
        (spec(Some(600), None), work(1_000, 1, None), Hold::Requests),
        (spec(Some(6), None), work(50, 5, None), Hold::Requests),
        (spec(Some(600), Some(60_000)), work(500, 4, Some(200)), Hold::Tokens),
        (spec(None, Some(60_000)), work(200, 1, Some(900)), Hold::Tokens),
        (
            spec(Some(6_000), Some(10_000_000)),
            Work { concurrency: Some(3), ..work(400, 1, Some(10)) },
            Hold::Concurrency,
        ),
        (GateSpec { max_concurrency: 4, ..spec(None, None) }, work(400, 1, None), Hold::Concurrency),
    ];
    for (spec, work, hold) in table {
        let work = Work { latency, ..work };
        let found = passage(&spec, &[work]);
        let (expected, played) = (seconds(found.time), play(&spec, &work));
        assert_eq!(found.held_by, Some(hold), "{spec:?} {work:?}");
        assert!((played / expected - 1.0).abs() < 0.05, "{expected} s expected, {played} s played: {work:?}");
    }
}

#[test]
fn retries_take_their_part() {
    let retried = Work { calls_per_item: 1.25, ..work(1_000, 10, Some(100)) };
    let found = passage(&spec(Some(10), None), &[retried]);
    assert!((found.requests - 125.0).abs() < 1e-9 && (found.retried - 0.2).abs() < 1e-9, "{found:?}");
    assert_eq!(found.tokens, Some(125_000.0));
    assert!((seconds(found.time) - 744.0).abs() < 1e-6, "{found:?}");
    let endless = passage(&spec(Some(10), None), &[Work { calls_per_item: f64::INFINITY, ..retried }]);
    assert_eq!((endless.time, endless.requests), (Some(Duration::MAX), f64::INFINITY));
    let none = passage(
        &spec(Some(10), Some(10_000)),
        &[Work { items: 0, calls_per_item: f64::INFINITY, ..retried }],
    );
    assert_eq!((none.requests, none.retried, none.time), (0.0, 0.0, Some(Duration::ZERO)));
}

#[test]
fn what_nobody_said_is_unknown() {
    let found = passage(&spec(None, None), &[work(100, 1, None)]);
    assert_eq!((found.time, found.held_by), (None, None));
    assert_eq!(found.unknown, [Unknown::Limits, Unknown::Latency]);
    let found = passage(&spec(Some(60), Some(1_000)), &[work(100, 1, None)]);
    assert_eq!((found.by_tokens, found.held_by), (None, Some(Hold::Requests)));
    assert_eq!(found.unknown, [Unknown::TokensPerItem, Unknown::Latency]);
    let timed = Work { latency: Some(Duration::from_secs(2)), ..work(160, 1, None) };
    let found = passage(&spec(None, None), &[timed]);
    assert_eq!((seconds(found.time), found.held_by), (20.0, Some(Hold::Concurrency)));
    assert_eq!(found.unknown, [Unknown::Limits]);
    let found = passage(&spec(None, None), &[Work { concurrency: None, ..timed }]);
    assert_eq!((found.time, found.unknown.last()), (None, Some(&Unknown::Concurrency)));
}

#[test]
fn stages_that_share_a_gate_add_up() {
    let latency = Some(Duration::from_secs(1));
    let (one, two) = (Work { latency, ..work(60, 1, None) }, Work { latency, ..work(120, 2, None) });
    let spec = GateSpec { max_concurrency: 20, ..spec(Some(60), None) };
    let found = passage(&spec, &[one, two]);
    assert_eq!((found.requests, found.at_once), (120.0, Some(20)));
    assert!(
        (seconds(found.time) - 120.0).abs() < 1e-6,
        "119 s until the last one starts, and a second for it"
    );
    assert!((seconds(found.by_concurrency) - 6.0).abs() < 1e-6);
}

#[test]
fn what_can_never_pass_is_refused_and_what_fits_is_tried() {
    let found = passage(&spec(None, Some(1_000)), &[work(10, 1, Some(2_001))]);
    assert!(found.refused && found.time.is_none() && found.requests == 0.0, "{found:?}");
    let found = passage(&spec(None, Some(1_000)), &[work(10, 8, Some(1_500))]);
    assert!(!found.refused && found.requests == 10.0, "one item a call: {found:?}");
}

#[test]
fn what_cannot_pass_within_the_deadline_can_be_told() {
    let hour = Duration::from_secs(3_600);
    assert_eq!(items_within(&spec(Some(3), None), &work(1_000, 5, None), hour), Some(905));
    assert_eq!(items_within(&spec(Some(3), Some(1_000)), &work(1_000, 5, Some(100)), hour), Some(600));
    assert_eq!(items_within(&spec(None, None), &work(1_000, 5, Some(100)), hour), None);
}

fn passing(policy: &Policy) -> Passing<'_> {
    Passing {
        stage: "s",
        concurrency: 16,
        batch: 1,
        batch_tokens: None,
        max_tokens: None,
        max_item_tokens: None,
        policy,
    }
}

#[test]
fn contradictions_between_a_gate_and_its_stages_are_found() {
    let policy = &preset("sample").unwrap().policy;
    let (plain, day) = (passing(policy), Some(Duration::from_secs(86_400)));
    let keys = |spec: &GateSpec, stage: Passing<'_>, deadline, consecutive| -> Vec<String> {
        let found = spec.lint("g", &[stage], deadline, consecutive);
        found.into_iter().map(|warning| warning.key).collect()
    };
    assert_eq!(keys(&GateSpec::default(), plain, day, Some(25)), [""; 0]);
    assert_eq!(keys(&GateSpec::default(), plain, None, None), [""; 0]);
    assert_eq!(
        keys(&GateSpec { max_concurrency: 64, ..spec(Some(3_000), Some(1_000_000)) }, plain, day, Some(25)),
        [""; 0]
    );

    let few = GateSpec { max_concurrency: 4, ..GateSpec::default() };
    assert_eq!(keys(&few, plain, day, None), ["stage.s.concurrency"]);
    let tight = spec(None, Some(10_000));
    let large = Passing {
        batch_tokens: Some(12_000),
        max_tokens: Some(20_001),
        max_item_tokens: Some(20_001),
        ..plain
    };
    assert_eq!(
        keys(&tight, large, day, None),
        ["stage.s.batch_tokens", "stage.s.max_tokens", "stage.s.max_item_tokens"]
    );
    let short = Some(Duration::from_secs(30));
    assert_eq!(
        keys(&spec(Some(2), None), plain, short, None),
        ["gate.g.hint_cap", "gate.g.breaker.pause_after", "gate.g.requests_per_minute"]
    );
    let slow = Passing { max_tokens: Some(4_000), ..plain };
    assert!(
        keys(&spec(None, Some(6_000)), slow, short, None).contains(&"gate.g.tokens_per_minute".to_owned())
    );
    let at_once = passing(&preset("none").unwrap().policy);
    assert_eq!(keys(&GateSpec::default(), at_once, day, Some(10)), ["gate.g.breaker.min_calls"]);
    assert_eq!(keys(&GateSpec::default(), at_once, day, Some(25)), [""; 0]);
    assert_eq!(keys(&GateSpec { breaker: None, ..GateSpec::default() }, at_once, day, Some(10)), [""; 0]);
}
