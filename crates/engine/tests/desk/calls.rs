//! What a desk claims, how it calls, what it makes of replies.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::budget::BudgetSpec;
use redrive_core::draw::Draw;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Kind};
use redrive_core::item::{DeadReason, LastFailure, State};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::handler::Reply;
use redrive_engine::worker::{Desk, Halt};
use redrive_store::Applied;

use crate::{NOW, claimed, commit, desk, keys, passes, recipe, server_error};

/// Plays a desk to its end against a server that fails every call holding one of `poison`.
fn play(desk: &mut Desk, poison: &BTreeSet<&str>) -> usize {
    let mut open = desk.next_calls(NOW);
    let mut calls = 0;
    while let Some(call) = open.pop() {
        calls += 1;
        let bad = keys(&call).iter().any(|key| poison.contains(key.as_str()));
        let reply = if bad { server_error() } else { passes(&call) };
        desk.finished(call.id, reply.into(), NOW);
        open.extend(desk.next_calls(NOW));
    }
    calls
}

#[test]
fn it_asks_for_what_it_can_start_and_no_more() {
    let recipe = recipe(4, 3, "sample", None);
    let mut desk = desk(&recipe, Vec::new());
    assert_eq!(desk.wants(NOW)[0].limit, 12);
    let slots = desk.wants(NOW);
    desk.accept(&slots, (1..=12).map(claimed).collect(), BTreeMap::new(), NOW);
    assert!(desk.wants(NOW).is_empty());
    let calls = desk.next_calls(NOW);
    assert_eq!(calls.iter().map(|call| call.request.items.len()).collect::<Vec<_>>(), [4, 4, 4]);
    assert!(desk.wants(NOW).is_empty());
    desk.finished(calls[0].id, passes(&calls[0]).into(), NOW);
    assert_eq!(desk.wants(NOW)[0].limit, 4);
}

#[test]
fn one_poison_item_is_alone_to_blame() {
    let recipe = recipe(64, 1, "none", None);
    let mut desk = desk(&recipe, (1..=64).map(claimed).collect());
    let calls = play(&mut desk, &BTreeSet::from(["17"]));
    assert!(calls <= 1 + 2 * 6 + 1, "{calls} calls");
    let commit = commit(&mut desk);
    assert_eq!(commit.changes.len(), 64);
    for change in &commit.changes {
        let after = &change.transition.after;
        let dead = matches!(after.state, State::Dead { reason: DeadReason::Exhausted });
        assert_eq!(dead, &*after.key == "17", "{}", after.key);
    }
}

#[test]
fn an_outage_stops_the_asking_and_blames_nobody() {
    let recipe = recipe(64, 1, "sample", None);
    let mut desk = desk(&recipe, (1..=64).map(claimed).collect());
    let all: Vec<String> = (1..=64).map(|n| n.to_string()).collect();
    let calls = play(&mut desk, &all.iter().map(String::as_str).collect());
    assert_eq!(calls, 3, "the batch and two more");
    for change in &commit(&mut desk).changes {
        let after = &change.transition.after;
        assert!(matches!(after.state, State::Waiting { .. }));
        assert!(after.last.as_ref().is_some_and(|last| last.shared));
    }
}

#[test]
fn an_item_that_only_failed_in_company_is_alone_at_its_last_attempt() {
    let recipe = recipe(8, 4, "sample", None);
    let last_chance = |n: i64| {
        let mut claimed = claimed(n);
        claimed.item.failures = 2;
        claimed.item.attempt = 3;
        claimed.item.last = Some(LastFailure {
            class: Class::Retryable,
            kind: Kind::Server,
            message: "HTTP 500".into(),
            group: "g".into(),
            shared: true,
        });
        claimed
    };
    let mut desk = desk(&recipe, vec![claimed(1), last_chance(2), claimed(3), last_chance(4), claimed(5)]);
    let calls: Vec<Vec<String>> = desk.next_calls(NOW).iter().map(keys).collect();
    assert_eq!(calls, [vec!["1"], vec!["2"], vec!["3"], vec!["4"]]);
}

#[test]
fn a_shape_that_does_not_pass_is_remembered() {
    let recipe = recipe(8, 1, "sample", None);
    let mut desk = desk(&recipe, (1..=8).map(claimed).collect());
    let mut open = desk.next_calls(NOW);
    while let Some(call) = open.pop() {
        let reply = if call.request.items.len() > 2 { server_error() } else { passes(&call) };
        desk.finished(call.id, reply.into(), NOW);
        open.extend(desk.next_calls(NOW));
    }
    let applied = vec![Applied::Done; commit(&mut desk).changes.len()];
    desk.committed(&applied);
    let slots = desk.wants(NOW);
    desk.accept(&slots, (11..=18).map(claimed).collect(), BTreeMap::new(), NOW);
    assert_eq!(desk.next_calls(NOW)[0].request.items.len(), 2);
}

#[test]
fn a_wrong_number_of_replies_is_a_broken_answer() {
    let recipe = recipe(2, 1, "none", None);
    let mut desk = desk(&recipe, vec![claimed(1), claimed(2)]);
    let mut open = desk.next_calls(NOW);
    while let Some(call) = open.pop() {
        desk.finished(call.id, Reply::Items(vec![ItemReply::Output(None); 7]).into(), NOW);
        open.extend(desk.next_calls(NOW));
    }
    for change in &commit(&mut desk).changes {
        let record = change.transition.record.as_ref().expect("recorded");
        assert_eq!(record.failure.as_ref().expect("failed").kind, Kind::Answer);
    }
}

#[test]
fn a_spent_budget_gives_back_what_is_not_started_and_pauses_the_run() {
    let budget = BudgetSpec { consecutive: Some(3), ..BudgetSpec::default() };
    let recipe = recipe(1, 3, "none", Some(budget));
    let mut desk = desk(&recipe, (1..=10).map(claimed).collect());
    let calls = desk.next_calls(NOW);
    for call in &calls {
        desk.finished(call.id, server_error().into(), NOW);
    }
    let commit = commit(&mut desk);
    assert!(matches!(desk.halt(), Some(Halt::Budget(_))));
    let (_, change) = commit.run.expect("the run is paused in the same transaction");
    assert_eq!(change.control.expect("changed").control, Control::PausedBudget);
    assert!(desk.wants(NOW).is_empty() && desk.next_calls(NOW).is_empty());
    let back = commit.changes.iter().filter(|change| change.transition.after.attempt == 0);
    assert_eq!(
        (commit.changes.len(), back.count()),
        (10, 7),
        "in that very transaction the rest is given back"
    );
}

#[test]
fn a_commit_whose_fate_is_unknown_is_handed_out_again_unchanged() {
    let recipe = recipe(1, 1, "sample", None);
    let mut desk = desk(&recipe, vec![claimed(1)]);
    let call = desk.next_calls(NOW).remove(0);
    desk.finished(call.id, server_error().into(), NOW);
    let first = commit(&mut desk);
    let again = desk.commit(Timestamp(900), || Draw::new(0.9)).expect("still to be written");
    assert_eq!(first.changes[0].transition, again.changes[0].transition);
    assert_eq!(desk.committed(&[Applied::Stale]), 1);
    assert!(desk.is_idle());
}

#[test]
fn an_item_past_its_deadline_is_not_called() {
    let recipe = recipe(1, 1, "sample", None);
    let mut late = claimed(1);
    late.item.deadline = Some(Timestamp(-1));
    let mut desk = desk(&recipe, vec![late]);
    assert!(desk.next_calls(NOW).is_empty());
    let dead = &commit(&mut desk).changes[0].transition.after;
    assert_eq!(dead.state, State::Dead { reason: DeadReason::Expired });
}

#[test]
fn breaking_off_gives_everything_back() {
    let recipe = recipe(2, 2, "sample", None);
    let mut desk = desk(&recipe, (1..=4).map(claimed).collect());
    let calls = desk.next_calls(NOW);
    desk.interrupt();
    assert!(!desk.is_calling());
    desk.finished(calls[0].id, passes(&calls[0]).into(), NOW);
    let commit = commit(&mut desk);
    assert_eq!(commit.changes.len(), 4);
    assert!(
        commit.changes.iter().all(|change| matches!(change.transition.after.state, State::Waiting { .. })),
        "and a late answer is dropped"
    );
}
