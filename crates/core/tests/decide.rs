//! What `decide` promises, whatever order things happen in.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::answer::HandOver;
use redrive_core::attempt::Outcome;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, Gone, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use redrive_core::item::{DeadReason, Item, NewItem, State, StateKind};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::{Backoff, Cause, Limit, OwnPolicy, Policy, PolicySpec, RetryOn, preset};
use redrive_core::time::Timestamp;

fn policy(name: &str) -> Policy {
    preset(name).expect("it is there").policy.clone()
}

fn stage(name: &str, policy: Policy) -> StagePlan {
    StagePlan {
        name: name.to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy,
        timeout: Duration::from_secs(60),
        config: 9,
        child_failure: ChildFailure::Continue,
    }
}

/// split (children: embed) → publish
fn plan(with: Policy) -> Plan {
    let mut split = stage("split", with.clone());
    split.first_child = Some(StageNo(1));
    split.next = Some(StageNo(2));
    let mut embed = stage("embed", with.clone());
    embed.owner = Some(StageNo(0));
    Plan::new(vec![split, embed, stage("publish", with)], Some(Duration::from_secs(3_600)))
}

fn waiting() -> Item {
    let version = ContentHash::of(&[b"x"]);
    Item {
        seq: ItemSeq(1),
        id: ItemId::derive(RunId(1), None, "a", version),
        run: RunId(1),
        parent: None,
        key: "a".into(),
        version,
        origin: 1,
        reading: 1,
        stage: StageNo(0),
        state: State::Waiting { due: Timestamp(0), cause: None },
        generation: 0,
        rev: Rev(0),
        attempt: 0,
        failures: 0,
        throttles: 0,
        crashes: 0,
        earlier: 0,
        policy: None,
        handed: None,
        first_failed_at: None,
        failing_since: None,
        last: None,
        verdicts: redrive_core::verdict::Verdicts::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        deadline: Some(Timestamp(3_600_000)),
    }
}

fn at(now: i64) -> Moment {
    Moment { now: Timestamp(now), draw: Draw::MIDDLE }
}

fn step(item: &Item, event: Event, plan: &Plan, now: i64) -> Transition {
    decide(item, event, plan, at(now)).expect("it is legal")
}

fn claimed(item: &Item, plan: &Plan, now: i64) -> Item {
    step(item, Event::Claimed { worker: WorkerId(1) }, plan, now).after
}

fn failure(class: Class) -> Event {
    Event::Finished(ItemReply::Failed { failure: Failure::new(class, Kind::Server, "no"), shared: false })
}

fn due(item: &Item) -> i64 {
    match item.state {
        State::Waiting { due, .. } => due.0,
        ref other => panic!("{other:?} is not waiting"),
    }
}

#[test]
fn three_failures_exhaust_a_sample_and_the_wait_doubles() {
    let plan = plan(policy("sample"));
    let mut item = waiting();
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..2 {
        item = step(&claimed(&item, &plan, now), failure(Class::Retryable), &plan, now).after;
        waits.push(due(&item) - now);
        now = due(&item);
    }
    assert_eq!(waits, [1_000, 2_000]);
    let last = step(&claimed(&item, &plan, now), failure(Class::Retryable), &plan, now);
    assert_eq!(last.after.state, State::Dead { reason: DeadReason::Exhausted });
    assert_eq!((last.after.failures, last.after.attempt), (3, 3));
    assert_eq!(last.record.expect("recorded").outcome, Outcome::Failed);
}

#[test]
fn throttles_alone_never_kill_before_the_deadline_and_then_they_expire() {
    let plan = plan(policy("sample"));
    let mut item = waiting();
    let mut now = 0;
    let mut throttles = 0;
    loop {
        item = step(&claimed(&item, &plan, now), failure(Class::RateLimited), &plan, now).after;
        throttles += 1;
        assert_eq!((item.failures, item.throttles), (0, throttles));
        match item.state {
            State::Waiting { due, .. } => now = due.0,
            State::Dead { reason } => {
                assert_eq!(reason, DeadReason::Expired);
                break;
            }
            ref other => panic!("{other:?}"),
        }
        assert!(now <= 3_600_000, "a wait never ends after the deadline");
    }
    assert!(throttles > 50);
}

#[test]
fn a_hint_is_a_floor() {
    let plan = plan(policy("sample"));
    let hinted =
        Failure::new(Class::RateLimited, Kind::Client, "429").with_hint(Some(Duration::from_secs(7)));
    let event = Event::Finished(ItemReply::Failed { failure: hinted, shared: false });
    let after = step(&claimed(&waiting(), &plan, 0), event, &plan, 0).after;
    assert!(due(&after) >= 7_000);
    assert!(matches!(after.state, State::Waiting { cause: Some(Cause::Hint), .. }));
}

#[test]
fn the_fifth_crash_quarantines_and_spends_no_failure() {
    let plan = plan(policy("sample"));
    let mut item = waiting();
    for crash in 1..=5 {
        let now = if crash == 1 { 0 } else { due(&item) };
        item = step(&claimed(&item, &plan, now), Event::LeaseExpired, &plan, now).after;
        assert_eq!((item.crashes, item.failures), (crash, 0));
    }
    assert_eq!(item.state, State::Dead { reason: DeadReason::Quarantined });
}

#[test]
fn quota_waits_for_a_human_without_spending_anything() {
    let plan = plan(policy("none"));
    let after = step(&claimed(&waiting(), &plan, 0), failure(Class::Quota), &plan, 0).after;
    assert!(matches!(after.state, State::Waiting { due: Timestamp(0), cause: Some(Cause::Quota) }));
    assert_eq!((after.failures, after.throttles), (0, 1));
}

fn turned_away(class: Class, wait: Duration) -> Event {
    Event::Finished(ItemReply::TurnedAway { failure: Failure::new(class, Kind::Server, "no"), wait })
}

#[test]
fn a_turned_away_item_waits_for_the_gate_and_spends_nothing_whatever_the_class() {
    let wait = Duration::from_millis(12_345);
    for preset in ["sample", "none", "daemon", "self-healing", "interactive"] {
        let plan = plan(policy(preset));
        let mut item = waiting();
        for (n, class) in (1..).zip(Class::ALL.into_iter().cycle().take(40)) {
            let now = due(&item);
            let next = step(&claimed(&item, &plan, now), turned_away(class, wait), &plan, now);
            let expected = State::Waiting { due: Timestamp(now + 12_345), cause: Some(Cause::Gate) };
            assert_eq!(next.after.state, expected, "{preset}: {class}");
            assert_eq!((next.after.failures, next.after.throttles, next.after.crashes), (0, n, 0));
            assert_eq!(next.after.first_failed_at, None, "a closed gate is no failure of the item");
            let record = next.record.expect("recorded");
            assert_eq!((record.outcome, record.wait), (Outcome::Throttled, Some((wait, Cause::Gate))));
            assert_eq!(record.failure.expect("and why").class, class);
            item = next.after;
        }
    }
}

#[test]
fn a_turned_away_item_expires_only_when_its_deadline_would_pass() {
    let plan = plan(policy("none"));
    // It is tried a last time a second before, and dies only where that is no time any more.
    for (now, wait, expired) in [
        (0, 3_600_000, false),
        (0, 3_600_001, false),
        (0, 90_000_000, false),
        (3_597_999, 2_002, false),
        (3_598_000, 2_001, true),
        (3_599_999, 1, false),
        (3_599_999, 2, true),
    ] {
        for class in Class::ALL {
            let event = turned_away(class, Duration::from_millis(wait));
            let next = step(&claimed(&waiting(), &plan, now), event, &plan, now);
            let dead = next.after.state == State::Dead { reason: DeadReason::Expired };
            assert_eq!(dead, expired, "{class} at {now} for {wait}: {:?}", next.after.state);
            if let State::Waiting { due, .. } = next.after.state {
                let asked = now + i64::try_from(wait).expect("small");
                let last = if asked > 3_600_000 { 3_599_000 } else { asked };
                assert_eq!(due, Timestamp(last), "{class} at {now} for {wait}");
            }
            assert_eq!(next.record.expect("recorded").wait.is_none(), expired);
            let last = next.after.last.expect("it was told why");
            assert_eq!((last.group.is_empty(), last.message.is_empty()), (!expired, !expired));
            assert_eq!((next.after.failures, next.after.throttles, next.after.crashes), (0, 1, 0));
        }
    }
}

#[test]
fn failures_before_and_after_a_closed_gate_are_counted_as_if_it_had_not_been() {
    let plan = plan(policy("sample"));
    let wait = Duration::from_secs(1);
    let mut item = waiting();
    for failures in 1..=3 {
        let now = due(&item);
        item = step(&claimed(&item, &plan, now), turned_away(Class::Timeout, wait), &plan, now).after;
        let now = due(&item);
        item = step(&claimed(&item, &plan, now), failure(Class::Timeout), &plan, now).after;
        assert_eq!((item.failures, item.throttles), (failures, failures));
    }
    assert_eq!(item.state, State::Dead { reason: DeadReason::Exhausted });
}

#[test]
fn a_policy_s_own_deadline_counts_from_the_first_failure() {
    let spec = PolicySpec { deadline: Some(Duration::from_secs(90)), ..PolicySpec::of_preset("daemon") };
    let plan = plan(spec.build().expect("it is valid"));
    let after = step(&claimed(&waiting(), &plan, 0), failure(Class::Retryable), &plan, 0).after;
    assert_eq!(due(&after), 60_000);
    let again = step(&claimed(&after, &plan, 60_000), failure(Class::Retryable), &plan, 60_000).after;
    assert_eq!(again.state, State::Dead { reason: DeadReason::Expired }, "it would be due at 180 s");
}

#[test]
fn giving_back_costs_nothing_and_keeps_the_place_in_line() {
    let plan = plan(policy("sample"));
    let back = step(&claimed(&waiting(), &plan, 500), Event::Released, &plan, 900);
    assert_eq!((back.after.attempt, due(&back.after)), (0, 0));
    assert!(back.record.is_none());
    let stopped = step(&claimed(&waiting(), &plan, 500), Event::Interrupted, &plan, 900);
    assert_eq!((stopped.after.attempt, stopped.after.failures, stopped.after.crashes), (1, 0, 0));
    assert_eq!(stopped.record.expect("recorded").outcome, Outcome::Interrupted);
}

#[test]
fn passing_a_stage_starts_its_counters_anew_and_tells_how_long_it_took_to_heal() {
    let plan = plan(policy("sample"));
    let mut item = waiting();
    item.stage = StageNo(0);
    let failed = step(&claimed(&item, &plan, 0), failure(Class::Retryable), &plan, 0).after;
    let passed =
        step(&claimed(&failed, &plan, 1_500), Event::Finished(ItemReply::Output(None)), &plan, 1_700);
    assert_eq!(passed.after.stage, StageNo(2));
    assert_eq!((passed.after.attempt, passed.after.failures), (0, 0));
    assert_eq!(passed.healed, Some(Duration::from_millis(1_700)));
    assert!(passed.after.last.is_none() && passed.after.first_failed_at.is_none());
}

#[test]
fn an_item_that_was_sent_back_heals_from_its_first_failure_and_its_patience_begins_anew() {
    let plan = plan(policy("sample"));
    let redriven = |item: &Item, now: i64| {
        step(item, Event::Redriven { due: Timestamp(now), payload: None, policy: None }, &plan, now).after
    };
    let dead = step(&claimed(&waiting(), &plan, 100), failure(Class::Final), &plan, 200).after;
    let back = redriven(&dead, 5_000);
    assert_eq!((back.first_failed_at, back.failing_since), (None, Some(Timestamp(200))));
    let dead = step(&claimed(&back, &plan, 6_000), failure(Class::Final), &plan, 6_100).after;
    assert_eq!((dead.first_failed_at, dead.failing_since), (Some(Timestamp(6_100)), Some(Timestamp(200))));
    let back = claimed(&redriven(&dead, 8_000), &plan, 9_000);
    let passed = step(&back, Event::Finished(ItemReply::Output(None)), &plan, 9_200);
    assert_eq!(passed.healed, Some(Duration::from_millis(9_000)));
    assert_eq!((passed.after.first_failed_at, passed.after.failing_since), (None, None));
}

#[test]
fn a_parent_that_is_sent_back_for_its_children_heals_once() {
    let plan = plan(policy("sample"));
    let children = || Event::Finished(ItemReply::Children(vec![NewItem::new("c1", *b"1", 0)]));
    let failed = step(&claimed(&waiting(), &plan, 0), failure(Class::Retryable), &plan, 0).after;
    let joining = step(&claimed(&failed, &plan, 1_500), children(), &plan, 1_700);
    assert_eq!(joining.healed, Some(Duration::from_millis(1_700)));
    let settled = Event::ChildrenSettled(ChildTally { done: 0, dead: 1, gone: 0, live: 0 });
    let dead = step(&joining.after, settled, &plan, 2_000).after;
    let sent = Event::Redriven { due: Timestamp(3_000), payload: None, policy: None };
    let back = step(&dead, sent, &plan, 3_000).after;
    assert_eq!(step(&claimed(&back, &plan, 3_000), children(), &plan, 3_100).healed, None);
}

#[test]
fn children_decide_for_their_parent() {
    let plan = plan(policy("sample"));
    let children = vec![NewItem::new("c1", *b"1", 0), NewItem::new("c2", *b"2", 1)];
    let joining =
        step(&claimed(&waiting(), &plan, 0), Event::Finished(ItemReply::Children(children)), &plan, 1);
    assert_eq!(joining.after.state, State::Joining);
    assert_eq!(joining.children.expect("admitted").stage, StageNo(1));
    let settle = |done, dead, live| {
        decide(&joining.after, Event::ChildrenSettled(ChildTally { done, dead, gone: 0, live }), &plan, at(2))
    };
    assert!(settle(1, 0, 1).is_err(), "not while one lives");
    assert_eq!(settle(2, 0, 0).expect("legal").after.stage, StageNo(2));
    assert_eq!(settle(1, 1, 0).expect("legal").after.state.kind(), StateKind::Waiting);
    let all_dead = settle(0, 2, 0).expect("legal").after;
    assert_eq!(all_dead.state, State::Dead { reason: DeadReason::Final });
    let reopened = step(&all_dead, Event::ChildReopened { stage: StageNo(0) }, &plan, 3).after;
    assert_eq!(reopened.state, State::Joining);
}

#[test]
fn children_that_cannot_be_are_a_broken_answer() {
    let plan = plan(policy("sample"));
    let twice = vec![NewItem::new("c", *b"1", 0), NewItem::new("c", *b"2", 1)];
    let after = step(&claimed(&waiting(), &plan, 0), Event::Finished(ItemReply::Children(twice)), &plan, 1);
    assert_eq!(after.record.expect("recorded").failure.expect("failed").kind, Kind::Answer);
    assert!(after.children.is_none());
}

#[test]
fn a_redrive_is_a_new_generation_from_the_stage_that_failed() {
    let plan = plan(policy("none"));
    let mut item = waiting();
    item.stage = StageNo(2);
    let dead = step(&claimed(&item, &plan, 0), failure(Class::Retryable), &plan, 5).after;
    assert!(
        decide(&item, Event::Redriven { due: Timestamp(9), payload: None, policy: None }, &plan, at(9))
            .is_err()
    );
    let back =
        step(&dead, Event::Redriven { due: Timestamp(9), payload: None, policy: None }, &plan, 9).after;
    assert_eq!((back.generation, back.attempt, back.failures, back.stage), (1, 0, 0, StageNo(2)));
    assert_eq!(back.deadline, Some(Timestamp(3_600_009)));
}

fn own(most: u32) -> OwnPolicy {
    let backoff = Some(Backoff::Fixed { delay: Duration::from_secs(10) });
    let spec = PolicySpec { max_attempts: Some(Limit::Attempts(most)), backoff, ..PolicySpec::default() };
    OwnPolicy::new(format!("{most} times"), spec.build().expect("it is valid"))
}

#[test]
fn an_item_that_is_sent_back_under_a_policy_of_its_own_goes_by_that_and_dies_after_exactly_as_many() {
    let plan = plan(policy("none"));
    let dead = step(&claimed(&waiting(), &plan, 0), failure(Class::Retryable), &plan, 5).after;
    let sent = Event::Redriven { due: Timestamp(9), payload: None, policy: Some(own(2)) };
    let sent = step(&dead, sent, &plan, 9);
    assert_eq!(&*sent.mark.expect("noted").detail, "under a policy of its own: 2 times");
    let first = step(&claimed(&sent.after, &plan, 9), failure(Class::Retryable), &plan, 9).after;
    assert_eq!(
        (due(&first), first.policy.as_ref()),
        (10_009, Some(&own(2))),
        "its stage's own would give up"
    );
    let second = step(&claimed(&first, &plan, 10_009), failure(Class::Retryable), &plan, 10_009).after;
    assert_eq!(
        (second.state.clone(), second.failures, second.policy.clone()),
        (State::Dead { reason: DeadReason::Exhausted }, 2, Some(own(2)))
    );
    let again = Event::Redriven { due: Timestamp(20_000), payload: None, policy: None };
    assert_eq!(step(&second, again, &plan, 20_000).after.policy, None, "it was for one redrive");
}

#[test]
fn a_policy_of_its_own_belongs_to_the_stage_and_ends_with_it_and_with_every_way_to_begin_anew() {
    let plan = plan(policy("none"));
    let mut item = Item { policy: Some(own(5)), ..waiting() };
    item.stage = StageNo(0);
    let held = claimed(&item, &plan, 0);
    assert_eq!(held.policy, Some(own(5)));
    for stays in [Event::Released, Event::Interrupted, failure(Class::Retryable), failure(Class::RateLimited)]
    {
        assert_eq!(step(&held, stays.clone(), &plan, 1).after.policy, Some(own(5)), "{stays:?}");
    }
    let filtered = step(&held, Event::Finished(ItemReply::Filtered("r".into())), &plan, 1).after;
    assert_eq!(filtered.policy, Some(own(5)), "it ended under it");
    for ends in [Event::Finished(ItemReply::Output(None)), Event::Finished(ItemReply::Children(Vec::new()))] {
        assert_eq!(step(&held, ends.clone(), &plan, 1).after.policy, None, "{ends:?}");
    }
    let dead = step(&held, failure(Class::Final), &plan, 1).after;
    let away = step(&dead, Event::Superseded(Gone::Newer), &plan, 2).after;
    for (ended, anew) in [
        (&dead, Event::Redriven { due: Timestamp(3), payload: Some((*b"2").into()), policy: None }),
        (&dead, Event::Reconfigured),
        (&dead, Event::Rerun { stage: StageNo(0), payload: (*b"2").into() }),
        (&away, Event::Restored { payload: None }),
    ] {
        assert!(ended.policy.is_some());
        assert_eq!(step(ended, anew.clone(), &plan, 3).after.policy, None, "{anew:?}");
    }
}

#[test]
fn an_item_whose_content_is_damaged_is_dead_whatever_its_policy_says() {
    let stubborn = PolicySpec { retry_on: Some(RetryOn::All), ..PolicySpec::of_preset("self-healing") };
    let stubborn = stubborn.build().expect("it is valid");
    for policy in [stubborn, policy("sample"), policy("none"), policy("daemon")] {
        let plan = plan(policy);
        let held = claimed(&waiting(), &plan, 0);
        let next = step(&held, Event::ContentDamaged { what: "it has other bytes".to_owned() }, &plan, 5);
        assert_eq!(next.after.state, State::Dead { reason: DeadReason::Final });
        let last = next.after.last.expect("it says why");
        assert_eq!(
            (last.class, &*last.message),
            (Class::Final, "its content is damaged: it has other bytes")
        );
        let record = next.record.expect("the attempt is recorded");
        assert_eq!((record.attempt, record.outcome), (1, Outcome::Failed));
        assert_eq!(next.payload, None);
    }
    let event = Event::ContentDamaged { what: String::new() };
    assert!(decide(&waiting(), event, &plan(policy("sample")), at(0)).is_err(), "only what is held was read");
}

fn handed_over(within: u64, ask_in: Option<u64>) -> Event {
    let (within, ask_in) = (Duration::from_millis(within), ask_in.map(Duration::from_millis));
    Event::Finished(ItemReply::HandedOver(HandOver { within, ask_in, ticket: None, route: None }))
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Claimed { worker: WorkerId(1) }),
        Just(Event::Finished(ItemReply::Output(None))),
        Just(Event::Finished(ItemReply::Filtered("r".into()))),
        Just(Event::Finished(ItemReply::Children(vec![NewItem::new("c", *b"1", 0)]))),
        prop::sample::select(Class::ALL.to_vec()).prop_map(failure),
        (prop::sample::select(Class::ALL.to_vec()), 0_u64..60_000)
            .prop_map(|(class, wait)| turned_away(class, Duration::from_millis(wait))),
        (0_u64..40_000, prop::option::of(0_u64..9_000))
            .prop_map(|(within, ask_in)| handed_over(within, ask_in)),
        Just(Event::Answered(ItemReply::Output(None))),
        Just(Event::Unanswered),
        Just(Event::Released),
        Just(Event::Interrupted),
        Just(Event::LeaseExpired),
        Just(Event::DeadlinePassed),
        Just(Event::ClockSteppedBack),
        Just(Event::ChildrenSettled(ChildTally { done: 1, ..ChildTally::default() })),
        Just(Event::ChildReopened { stage: StageNo(0) }),
        Just(Event::CancelRequested),
        prop::sample::select(vec![Gone::Newer, Gone::Removed, Gone::Reconfigured])
            .prop_map(Event::Superseded),
        Just(Event::Reconfigured),
        (0_i64..100_000).prop_map(|due| Event::Redriven { due: Timestamp(due), payload: None, policy: None }),
        (0_i64..100_000).prop_map(|due| Event::Rescheduled { due: Timestamp(due) }),
        Just(Event::Rerun { stage: StageNo(0), payload: (*b"2").into() }),
        Just(Event::Restored { payload: Some((*b"1").into()) }),
        Just(Event::ContentDamaged { what: "gone".to_owned() }),
        Just(Event::Killed { why: "so".into() }),
    ]
}

proptest! {
    #[test]
    fn any_course_of_events_keeps_numbers_growing_and_counters_apart(
        events in prop::collection::vec((any_event(), 0_i64..30_000, 0.0..1.0), 1..60),
        preset in prop::sample::select(vec!["sample", "none", "daemon", "self-healing", "interactive"]),
    ) {
        let plan = plan(policy(preset));
        let mut item = waiting();
        let mut now = 0;
        for (event, later, draw) in events {
            now += later;
            let before = item.clone();
            let Ok(next) = decide(&item, event, &plan, Moment { now: Timestamp(now), draw: Draw::new(draw) }) else {
                continue;
            };
            item = next.after.clone();
            prop_assert_eq!(next.guard, before.rev);
            prop_assert_eq!(item.rev, before.rev.next());
            prop_assert_eq!((item.seq, item.id, item.run), (before.seq, before.id, before.run));
            let moved = item.stage != before.stage || item.generation != before.generation;
            if let Some(record) = &next.record {
                prop_assert_eq!(record.attempt, before.attempt, "the record is of the attempt that ran");
                prop_assert!(before.state.kind() == StateKind::Running || before.handed.is_some());
                prop_assert!(item.handed.is_none(), "what is recorded is over");
                let spent = [item.failures, item.throttles, item.crashes].iter().sum::<u32>();
                let had = [before.failures, before.throttles, before.crashes].iter().sum::<u32>();
                prop_assert!(moved || spent <= had + 1, "an attempt spends at most one of the three");
            }
            if let State::Waiting { due, .. } = item.state {
                prop_assert!(due < Timestamp::MAX);
            }
            let open = |item: &Item| item.state.kind() == StateKind::Running || item.handed.is_some();
            let given_back = item.attempt + 1 == before.attempt;
            prop_assert!(
                !open(&before) || open(&item) || next.record.is_some() || given_back,
                "an attempt that was open is open, recorded, or was never begun"
            );
            let awaits = matches!(item.state, State::Waiting { cause: Some(Cause::Answer), .. });
            prop_assert_eq!(awaits, item.handed.is_some() && item.state.kind() == StateKind::Waiting);
            if before.state.kind().is_terminal() {
                let way_out = ["rerun", "redriven", "edited", "superseded", "restored", "reopened", "removed", "reconfigured"];
                prop_assert!(next.mark.as_ref().is_some_and(|mark| way_out.contains(&mark.what)));
            }
        }
    }
}

#[test]
fn no_wait_is_longer_than_it_was_decided_to_be_whatever_the_clock_does() {
    let day = 86_400_000_i64;
    let plan = plan(policy("sample"));
    for step in [2 * day, 3_600_000, 1_000, 1] {
        let ahead = Timestamp(step + 5_000);
        let at = |now| Moment { now, draw: Draw::MIDDLE };
        let admitted = Item { deadline: Some(ahead.after(Duration::from_secs(3_600))), ..waiting() };
        let claimed =
            decide(&admitted, Event::Claimed { worker: WorkerId(1) }, &plan, at(ahead)).expect("due").after;
        let failure = Failure::new(Class::Retryable, Kind::Server, "no");
        let failed = Event::Finished(ItemReply::Failed { failure, shared: false });
        let failed = decide(&claimed, failed, &plan, at(ahead)).expect("held").after;
        let State::Waiting { due, .. } = failed.state else { panic!("{failed:?}") };
        let wait = due.since(ahead);
        let now = Timestamp(5_000);
        let mended = decide(&failed, Event::ClockSteppedBack, &plan, at(now)).expect("it is ahead");
        let after = mended.after;
        assert!(
            matches!(after.state, State::Waiting { due, cause: Some(Cause::Backoff) } if due == now.after(wait))
        );
        assert_eq!((after.updated_at, after.first_failed_at), (now, Some(now)));
        assert!(after.deadline <= Some(now.after(wait).after(Duration::from_secs(3_600))), "{after:?}");
        assert_eq!((after.attempt, after.failures), (failed.attempt, failed.failures), "nothing is spent");
        assert_eq!(mended.mark.expect("it is told").what, "stepped");
        // What was held then is worth a try for no longer either, however its holder lost it.
        let text = "worker w1 vanished";
        let lost = Failure::new(Class::Crash, Kind::Worker, text);
        let shared = false;
        let ends = [Event::LeaseExpired, Event::Finished(ItemReply::Failed { failure: lost, shared })];
        for event in ends.into_iter().filter(|_| step > 1_000) {
            let back = decide(&claimed, event, &plan, at(now)).expect("held").after;
            let State::Waiting { due, .. } = back.state else { panic!("{back:?}") };
            assert!(back.deadline <= Some(due.after(Duration::from_secs(3_600))), "{back:?}");
        }
        // Once is enough, and a clock that only went on changes nothing.
        for later in [now, ahead] {
            assert!(decide(&after, Event::ClockSteppedBack, &plan, at(later)).is_err());
        }
    }
}

#[test]
fn a_waiting_item_goes_when_it_is_told_and_has_spent_nothing_by_it() {
    let plan = plan(policy("sample"));
    let at = |now| Moment { now: Timestamp(now), draw: Draw::MIDDLE };
    let waits = Item {
        state: State::Waiting { due: Timestamp(90_000), cause: None },
        attempt: 2,
        failures: 2,
        deadline: Some(Timestamp(100_000)),
        ..waiting()
    };
    for due in [5_000, 40_000, 100_000] {
        let told = Event::Rescheduled { due: Timestamp(due) };
        let after = decide(&waits, told, &plan, at(5_000)).expect("it waits").after;
        assert_eq!(after.state, State::Waiting { due: Timestamp(due), cause: None });
        assert_eq!((after.attempt, after.failures, after.generation), (2, 2, waits.generation));
        assert_eq!(after.deadline, waits.deadline);
    }
    let refused = |item: &Item, due| {
        decide(item, Event::Rescheduled { due: Timestamp(due) }, &plan, at(5_000)).is_err()
    };
    assert!(refused(&waits, 100_001), "past its deadline");
    assert!(refused(&waits, 90_000), "it is due then already");
    assert!(refused(
        &Item { state: State::Waiting { due: Timestamp(1), cause: None }, ..waits.clone() },
        5_000
    ));
    assert!(refused(&Item { state: State::Succeeded, ..waits.clone() }, 5_000));
}

#[test]
fn what_has_ended_goes_again_from_a_stage_it_has_passed_with_what_that_was_given() {
    let plan = plan(policy("sample"));
    let at = Moment { now: Timestamp(5_000), draw: Draw::MIDDLE };
    let rerun = |item: &Item, stage| {
        decide(item, Event::Rerun { stage: StageNo(stage), payload: (*b"given").into() }, &plan, at)
    };
    let ended = Item { state: State::Succeeded, failures: 2, attempt: 3, ..waiting() };
    let next = rerun(&ended, ended.stage.0).expect("it has ended");
    assert_eq!(next.after.state, State::Waiting { due: Timestamp(5_000), cause: None });
    assert_eq!(
        (next.after.generation, next.after.attempt, next.after.failures),
        (ended.generation + 1, 0, 0)
    );
    assert_eq!(next.payload.as_deref(), Some(&b"given"[..]));
    assert!(rerun(&ended, ended.stage.0 + 1).is_err(), "it has not come to that stage");
    assert!(rerun(&waiting(), 0).is_err(), "it has not ended");
    let child = Item { parent: Some(ItemSeq(1)), ..ended };
    assert!(rerun(&child, 0).is_err(), "its parent has to");
}
