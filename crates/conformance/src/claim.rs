//! Leasing due items.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::Event;
use redrive_core::failure::Class;
use redrive_core::item::{State, StateKind};
use redrive_core::order::Order;
use redrive_core::status::Control;
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_store::{ClaimedItem, RunChange, Slot, Store};

use crate::world::{PART, SPLIT, START, STORE, World, failed, new_run, passed};

pub(crate) async fn claim_equals_decide(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    for held in world.claim(SPLIT, 2).await {
        world.happen(&held.item, failed(Class::Retryable, "oops")).await;
    }
    world.advance(Duration::from_secs(30));
    for _ in 0..3 {
        let waiting = world.items().await;
        let claimed = world.claim(SPLIT, 1).await.remove(0).item;
        let before = waiting.iter().find(|item| item.seq == claimed.seq).expect("it was there");
        let decided = world.decide(before, Event::Claimed { worker: world.worker });
        assert_eq!(claimed, decided.after);
        assert_eq!(world.item(&claimed).await, decided.after);
        assert!(decided.record.is_none() && decided.mark.is_none() && decided.payload.is_none());
    }
    world.assert_counters().await;
}

pub(crate) async fn a_paused_run_gives_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let other = world.store.create_run(new_run("other"), START).await.expect("run").id;
    let paused =
        [Control::Paused, Control::PausedBudget, Control::PausedQuota, Control::PausedOutage, Control::Go];
    for control in paused {
        let change = RunChange::ask(control, None, START);
        world.store.change_run(world.run, change).await.expect("change");
        let slots = vec![Slot { run: other, ..world.slot(SPLIT, 9) }, world.slot(SPLIT, 9)];
        let claimed = world.claim_slots(slots).await;
        assert_eq!(claimed.items.len(), usize::from(control == Control::Go), "{control:?}");
        assert_eq!(claimed.next_due, None);
    }
}

pub(crate) async fn who_has_another_edition_of_a_pipeline_gets_nothing_and_is_told(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let edition = |text: &str| {
        let definition = Some(text.to_owned());
        world.store.change_run(world.run, RunChange { definition, ..RunChange::default() })
    };
    assert_eq!(edition("another").await.expect("change").edition, 1);
    assert_eq!(edition("another").await.expect("change").edition, 1, "the same text");
    let old = world.claim_slots(vec![world.slot(SPLIT, 1)]).await;
    assert!(old.items.is_empty() && old.outdated);
    let new = world.claim_slots(vec![Slot { edition: 1, ..world.slot(SPLIT, 1) }]).await;
    assert!(new.items.len() == 1 && !new.outdated);
    assert_eq!(edition("a third").await.expect("change").edition, 2);
    let old = world.claim_slots(vec![Slot { edition: 1, ..world.slot(SPLIT, 1) }]).await;
    assert!(old.items.is_empty() && old.outdated);
}

pub(crate) async fn only_due_items_are_given(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let due = world.now.after(Duration::from_secs(10));
    world.happen(&dead[0], Event::Redriven { due, payload: None, policy: None }).await;
    assert!(world.claim(SPLIT, 9).await.is_empty());
    world.now = Timestamp(due.0 - 1);
    assert!(world.claim(SPLIT, 9).await.is_empty());
    world.now = due;
    assert_eq!(keys(&world.claim(SPLIT, 9).await), ["a"]);
    assert!(world.claim(SPLIT, 0).await.is_empty());
}

pub(crate) async fn next_due_is_the_earliest_later_one(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b", "c"], "no").await;
    assert_eq!(world.claim_slots(vec![world.slot(SPLIT, 9)]).await.next_due, None);
    for (item, seconds) in dead.iter().zip([30, 10, 20]) {
        let due = START.after(Duration::from_secs(seconds));
        world.happen(item, Event::Redriven { due, payload: None, policy: None }).await;
    }
    world.admit(&["d", "e"]).await;
    let soonest = Some(START.after(Duration::from_secs(10)));
    let claimed = world.claim_slots(vec![world.slot(STORE, 9), world.slot(SPLIT, 1)]).await;
    assert_eq!(claimed.items.len(), 1);
    assert_eq!(claimed.next_due, soonest, "items left over because of the limit are due, not due later");
    let other = world.claim_slots(vec![world.slot(STORE, 9)]).await;
    assert_eq!(other.next_due, None, "only the stages asked for");
}

pub(crate) async fn fresh_first_keeps_a_share_for_retries(store: Arc<dyn Store>) {
    let world = lanes(store).await;
    let slot = |reserved, limit| Slot { order: Order::FreshFirst, reserved, ..world.slot(SPLIT, limit) };
    assert_eq!(keys(&world.claim_slots(vec![slot(1, 3)]).await.items), ["r0", "f0", "f1"]);
    assert_eq!(keys(&world.claim_slots(vec![slot(0, 2)]).await.items), ["f2", "f3"]);
    assert_eq!(keys(&world.claim_slots(vec![slot(0, 9)]).await.items), ["r1", "r2", "r3"]);
}

pub(crate) async fn retry_first_keeps_a_share_for_new_items(store: Arc<dyn Store>) {
    let world = lanes(store).await;
    let slot = |reserved, limit| Slot { order: Order::RetryFirst, reserved, ..world.slot(SPLIT, limit) };
    assert_eq!(keys(&world.claim_slots(vec![slot(1, 3)]).await.items), ["r0", "r1", "f0"]);
    assert_eq!(keys(&world.claim_slots(vec![slot(0, 2)]).await.items), ["r2", "r3"]);
    assert_eq!(keys(&world.claim_slots(vec![slot(0, 9)]).await.items), ["f1", "f2", "f3"]);
}

pub(crate) async fn oldest_lets_both_lanes_compete(store: Arc<dyn Store>) {
    let world = lanes(store).await;
    assert_eq!(keys(&world.claim(SPLIT, 5).await), ["r0", "r1", "r2", "r3", "f0"]);
    assert_eq!(keys(&world.claim(SPLIT, 9).await), ["f1", "f2", "f3"]);
}

pub(crate) async fn items_come_by_slot_and_order_of_submission(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b", "c"], "no").await;
    for (item, seconds) in dead.iter().zip([3, 2, 1]) {
        let due = START.after(Duration::from_secs(seconds));
        world.happen(item, Event::Redriven { due, payload: None, policy: None }).await;
    }
    world.admit(&["d", "e"]).await;
    world.advance(Duration::from_secs(10));
    let first = world.claim(SPLIT, 2).await;
    assert_eq!(keys(&first), ["d", "e"], "due first goes first");
    world.happen(&first[0].item, passed()).await;
    let both = world.claim_slots(vec![world.slot(STORE, 9), world.slot(SPLIT, 2)]).await.items;
    assert_eq!(keys(&both), ["d", "b", "c"], "by slot, and within it by submission, whatever was due first");
    let twice = world.claim_slots(vec![world.slot(SPLIT, 1), world.slot(SPLIT, 1)]).await.items;
    assert_eq!(keys(&twice), ["a"], "no item for two slots");
}

pub(crate) async fn a_stage_gives_only_its_own(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim_one(SPLIT).await;
    let moved = world.happen(&held, passed()).await;
    assert_eq!((moved.stage, moved.attempt, moved.state.kind()), (STORE, 0, StateKind::Waiting));
    assert!(world.claim(PART, 9).await.is_empty());
    assert_eq!(keys(&world.claim(STORE, 9).await), ["a"]);
    assert_eq!(keys(&world.claim(SPLIT, 9).await), ["b"]);
}

pub(crate) async fn a_claim_is_counted(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = world.claim(SPLIT, 2).await;
    assert!(held.iter().all(|held| {
        held.item.attempt == 1
            && *held.payload == *held.item.key.as_bytes()
            && held.item.state == State::Running { worker: world.worker, since: world.now }
    }));
    let counters = world.counters().await;
    assert_eq!(counters.get(&(SPLIT, Metric::State(StateKind::Running))), Some(&2));
    assert_eq!(counters.get(&(SPLIT, Metric::State(StateKind::Waiting))), Some(&1));
    world.assert_counters().await;
}

/// Four due retries r0 … r3, older than four new items f0 … f3.
async fn lanes(store: Arc<dyn Store>) -> World {
    let mut world = World::new(store).await;
    world.admit(&["r0", "r1", "r2", "r3"]).await;
    for held in world.claim(SPLIT, 4).await {
        world.happen(&held.item, failed(Class::Retryable, "oops")).await;
    }
    world.advance(Duration::from_secs(20));
    world.admit(&["f0", "f1", "f2", "f3"]).await;
    world
}

fn keys(items: &[ClaimedItem]) -> Vec<&str> {
    items.iter().map(|held| &*held.item.key).collect()
}
