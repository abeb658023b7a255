//! What a desk does at gates.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::attempt::Outcome;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{BreakerSpec, GateSpec, Limits};
use redrive_core::id::StageNo;
use redrive_core::item::{Item, State};
use redrive_core::policy::Cause;
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::worker::{Desk, NeedsSomebody};
use redrive_store::{Applied, ClaimedItem};

use crate::{NOW, claim, claimed, commit, desk, gated, keys, passes, server_error};

const S0: StageNo = StageNo(0);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A gate that is closed by three failures, and tried out after ten seconds.
fn fragile() -> GateSpec {
    let breaker = BreakerSpec { min_calls: 3, open_for: seconds(10), ..BreakerSpec::default() };
    GateSpec { breaker: Some(breaker), ..GateSpec::default() }
}

/// An item with content of so many tokens.
fn sized(n: i64, tokens: usize) -> ClaimedItem {
    ClaimedItem { payload: Arc::from(vec![b'x'; tokens]), ..claimed(n) }
}

fn throttled(hint: Option<Duration>) -> Answer {
    let failure = Failure::new(Class::RateLimited, Kind::Client, "too many").with_status(429);
    Reply::Whole(failure.with_hint(hint)).into()
}

fn no_credit() -> Answer {
    Reply::Whole(Failure::new(Class::Quota, Kind::Client, "no credit left").with_status(429)).into()
}

/// Records everything; gives the items as they are then.
fn recorded(desk: &mut Desk) -> Vec<Item> {
    let commit = commit(desk);
    desk.committed(&vec![Applied::Done; commit.changes.len()]);
    commit.changes.into_iter().map(|change| change.transition.after).collect()
}

#[test]
fn waiting_at_a_gate_claims_nothing() {
    let recipe = Arc::new(gated(1, 2, &[GateSpec::default()]));
    let mut desk = desk(&recipe, vec![claimed(1)]);
    let call = desk.next_calls(NOW).remove(0);
    desk.finished(call.id, throttled(Some(seconds(5))), NOW);
    let after = recorded(&mut desk).remove(0);
    assert_eq!((after.failures, after.throttles, after.crashes), (0, 1, 0));
    // It waits for what it was told by itself, too: other workers may not have heard of the gate yet.
    assert_eq!(after.state, State::Waiting { due: Timestamp(5_005), cause: Some(Cause::Gate) });
    assert!(desk.wants(Timestamp(4_999)).is_empty());
    assert_eq!(desk.opens_at(Timestamp(5)), Some(Timestamp(5_000)));
    let blocked = desk.blocked(S0, Timestamp(5)).expect("it is closed");
    assert_eq!((blocked.until, blocked.needs_somebody), (Some(Timestamp(5_000)), None));
    assert!(!desk.wants(Timestamp(5_000)).is_empty());
}

#[test]
fn what_was_claimed_is_given_back_when_the_gate_stays_closed() {
    let recipe = Arc::new(gated(1, 4, &[GateSpec { max_concurrency: 1, ..GateSpec::default() }]));
    let mut desk = desk(&recipe, vec![claimed(1), claimed(2)]);
    let calls = desk.next_calls(NOW);
    assert_eq!(calls.len(), 1, "one place");
    desk.finished(calls[0].id, throttled(Some(seconds(5))), NOW);
    let after = recorded(&mut desk);
    let attempts: Vec<(&str, u32)> = after.iter().map(|item| (&*item.key, item.attempt)).collect();
    assert_eq!(attempts, [("1", 1), ("2", 0)], "the second was never called for");
    assert!(desk.is_idle());
}

#[test]
fn a_batch_is_full_when_its_tokens_are() {
    let mut recipe = gated(8, 4, &[GateSpec::default()]);
    recipe.stages[0].batch_tokens = Some(10);
    let mut desk =
        desk(&Arc::new(recipe), [4, 4, 4, 1, 30].map(|tokens| sized(tokens, tokens as usize)).into());
    let calls: Vec<usize> = desk.next_calls(NOW).iter().map(|call| call.request.items.len()).collect();
    assert_eq!(calls, [2, 2, 1], "what is larger than a batch goes alone");
}

#[test]
fn an_item_that_can_never_pass_is_refused_without_a_call() {
    let spec = GateSpec { tokens_per_minute: Some(100), ..GateSpec::default() };
    let recipe = Arc::new(gated(8, 1, &[spec]));
    let mut desk = desk(&recipe, vec![sized(1, 201), sized(2, 200)]);
    let calls = desk.next_calls(NOW);
    assert_eq!(calls.iter().flat_map(keys).collect::<Vec<_>>(), ["2"], "what may fit is tried");
    let commit = commit(&mut desk);
    let record = commit.changes[0].transition.record.as_ref().expect("recorded");
    assert_eq!(record.failure.as_ref().expect("it failed").class, Class::Oversized);
    assert!(matches!(commit.changes[0].transition.after.state, State::Dead { .. }));
}

#[test]
fn a_dependency_that_is_away_is_to_blame_and_not_the_items() {
    let recipe = Arc::new(gated(1, 4, &[fragile()]));
    let mut desk = desk(&recipe, (1..=4).map(claimed).collect());
    let calls = desk.next_calls(NOW);
    assert_eq!(calls.len(), 4);
    for call in &calls {
        desk.finished(call.id, server_error().into(), NOW);
    }
    let commit = commit(&mut desk);
    let ended: Vec<(u32, Outcome)> = commit
        .changes
        .iter()
        .map(|change| {
            (change.transition.after.failures, change.transition.record.as_ref().expect("one").outcome)
        })
        .collect();
    let (failed, away) = ((1, Outcome::Failed), (0, Outcome::Throttled));
    assert_eq!(ended, [failed, failed, away, away], "from the third on the gate answers for them");
    assert!(desk.wants(Timestamp(NOW.0 + 400)).is_empty());
}

#[test]
fn a_dependency_is_tried_out_with_one_item_and_then_with_another() {
    let recipe = Arc::new(gated(1, 4, &[fragile()]));
    let mut desk = desk(&recipe, (1..=3).map(claimed).collect());
    for call in desk.next_calls(NOW) {
        desk.finished(call.id, server_error().into(), NOW);
    }
    recorded(&mut desk);
    let probe_at = Timestamp(10_000);
    let slots = desk.wants(probe_at);
    assert_eq!(slots.iter().map(|slot| slot.limit).sum::<usize>(), 1);
    claim(&mut desk, vec![claimed(4)], probe_at);
    let probes = desk.next_calls(probe_at);
    assert_eq!(probes.len(), 1);
    assert!(desk.wants(probe_at).is_empty(), "one at a time");
    desk.finished(probes[0].id, server_error().into(), probe_at);
    let Some(commit) = desk.commit(probe_at, || redrive_core::draw::Draw::MIDDLE) else { panic!("it ended") };
    let State::Waiting { due, .. } = commit.changes[0].transition.after.state else { panic!("it waits") };
    desk.committed(&[Applied::Done]);
    let again = desk.opens_at(probe_at).expect("it is tried again");
    assert!(again >= Timestamp(10_300) && due > again, "{due} is after {again}: another item is sent then");
    claim(&mut desk, vec![claimed(5)], again);
    let probe = desk.next_calls(again).remove(0);
    desk.finished(probe.id, passes(&probe).into(), again);
    assert!(!desk.wants(again).is_empty(), "it is back");
    assert_eq!(desk.blocked(S0, again), None);
}

#[test]
fn exhausted_credit_stops_every_claim_and_says_so() {
    let recipe = Arc::new(gated(1, 4, &[GateSpec::default(), GateSpec::default()]));
    let mut desk = desk(&recipe, vec![claimed(1)]);
    let call = desk.next_calls(NOW).remove(0);
    desk.finished(call.id, no_credit(), NOW);
    let after = recorded(&mut desk).remove(0);
    assert!(matches!(after.state, State::Waiting { cause: Some(Cause::Gate), .. }));
    assert_eq!(after.failures, 0);
    let later = Timestamp(1_000_000_000);
    let wanted: Vec<StageNo> = desk.wants(later).iter().map(|slot| slot.stage).collect();
    assert_eq!(wanted, [StageNo(1)], "the other gate is not concerned");
    let blocked = desk.blocked(S0, later).expect("it is paused");
    assert_eq!(blocked.until, None);
    assert_eq!(blocked.needs_somebody, Some(NeedsSomebody::Quota("gate g0: no credit left".to_owned())));
    assert_eq!(desk.blocked(StageNo(1), later), None);
    assert_eq!(desk.halt(), None, "other stages go on");
}

#[test]
fn places_are_given_back_when_calls_are_broken_off() {
    let recipe = Arc::new(gated(1, 4, &[GateSpec { max_concurrency: 2, ..GateSpec::default() }]));
    let mut desk = desk(&recipe, (1..=4).map(claimed).collect());
    assert_eq!(desk.next_calls(NOW).len(), 2);
    desk.interrupt();
    recorded(&mut desk);
    claim(&mut desk, (5..=8).map(claimed).collect(), NOW);
    assert_eq!(desk.next_calls(NOW).len(), 2);
}

#[test]
fn what_a_call_consumed_is_divided_among_its_items() {
    let recipe = Arc::new(gated(2, 1, &[GateSpec::default()]));
    let mut desk = desk(&recipe, vec![sized(1, 299), sized(2, 99)]);
    let call = desk.next_calls(NOW).remove(0);
    let usage = Usage { tokens_in: 400, tokens_out: 41, nano_usd: Some(7) };
    let reply = Reply::Items(vec![ItemReply::Output(None); 2]);
    desk.finished(
        call.id,
        Answer { reply, usage: Some(usage), limits: Limits::default(), receipt: None },
        NOW,
    );
    let commit = commit(&mut desk);
    let parts: Vec<Usage> = commit
        .changes
        .iter()
        .map(|change| change.transition.record.as_ref().and_then(|record| record.usage).expect("recorded"))
        .collect();
    assert_eq!((parts[0].tokens_in, parts[1].tokens_in), (300, 100));
    assert_eq!(parts[0].tokens_out + parts[1].tokens_out, 41);
    assert_eq!(parts.iter().filter_map(|part| part.nano_usd).sum::<u64>(), 7);
}

#[test]
fn a_batch_that_waits_for_a_place_is_no_reason_to_look_again() {
    let recipe = Arc::new(gated(2, 1, &[GateSpec::default()]));
    let mut desk = desk(&recipe, vec![claimed(1), claimed(2)]);
    let call = desk.next_calls(NOW);
    assert_eq!(call.len(), 1);
    assert_eq!(desk.opens_at(NOW), None, "nothing waits");
    let slots = [redrive_store::Slot {
        run: desk.run(),
        edition: 0,
        stage: S0,
        order: recipe.order,
        reserved: 0,
        limit: 1,
    }];
    desk.accept(&slots, vec![claimed(3)], std::collections::BTreeMap::new(), NOW);
    assert!(desk.next_calls(NOW).is_empty(), "the stage makes one call at a time");
    assert_eq!(desk.opens_at(NOW), None, "only a reply makes room");
}

#[test]
fn items_that_failed_before_and_fail_again_do_not_make_their_service_look_away() {
    let recipe = Arc::new(gated(1, 8, &[fragile()]));
    let failed_before = |n| {
        let mut claimed = claimed(n);
        claimed.item.failures = 1;
        claimed
    };
    let mut desk = desk(&recipe, (1..=8).map(failed_before).collect());
    let mut ended = 0;
    while ended < 8 {
        for call in desk.next_calls(NOW) {
            desk.finished(call.id, server_error().into(), NOW);
            ended += 1;
        }
    }
    assert!(recorded(&mut desk).iter().all(|item| item.failures == 2), "it is said of the items");
    assert_eq!(desk.blocked(S0, NOW), None);
}

#[test]
fn an_outage_is_seen_even_where_every_item_is_asked_for_alone() {
    let recipe = gated(8, 1, &[fragile()]);
    let mut stages: Vec<_> = recipe.plan.stages().map(|(_, stage)| stage.clone()).collect();
    stages[0].policy = redrive_core::policy::preset("none").expect("it is there").policy.clone();
    let recipe = Arc::new(redrive_engine::recipe::Recipe {
        plan: redrive_core::plan::Plan::new(stages, None),
        ..recipe
    });
    let mut desk = desk(&recipe, (1..=8).map(claimed).collect());
    let mut calls = 0;
    loop {
        let next = desk.next_calls(NOW);
        if next.is_empty() {
            break;
        }
        for call in next {
            calls += 1;
            desk.finished(call.id, server_error().into(), NOW);
        }
    }
    assert!(desk.blocked(S0, NOW).is_some(), "it is away after {calls} calls");
    assert!(calls < 12, "and the rest is not asked for: {calls} calls");
}
