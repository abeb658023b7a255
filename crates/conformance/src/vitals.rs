//! What monitoring asks for.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::Event;
use redrive_core::failure::Class;
use redrive_core::item::DeadReason;
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::Timestamp;
use redrive_store::{
    OperationCount, OperationKind, OperationState, Prune, PrunedCounters, Retired, RunChange, StageVitals,
    Store, Vitals, VitalsQuery,
};

use crate::world::{LEASE, SPLIT, START, STORE, World, failed, new_operation, new_worker, passed};

async fn vitals(world: &World, overdue_by: i64, most: usize) -> Vitals {
    let due_before = Timestamp(world.now.0 - overdue_by);
    let query = VitalsQuery { now: world.now, due_before, since: START, most };
    world.store.vitals(query).await.expect("vitals")
}

pub(crate) async fn what_waits_and_what_nobody_holds_is_told_by_stage(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    assert_eq!(vitals(&world, 0, 9).await, Vitals::default());
    world.admit(&["a", "b", "c", "d"]).await;
    let held = world.claim(SPLIT, 3).await;
    world.happen(&held[0].item, failed(Class::Retryable, "no")).await;
    world.happen(&held[1].item, passed()).await;
    let other = World::new(world.store.clone()).await;
    other.admit(&["x"]).await;
    let split = StageVitals { next_due: Some(START), backing_off: 1, ..StageVitals::of(world.run, SPLIT) };
    let stored = StageVitals { next_due: Some(START), ..StageVitals::of(world.run, STORE) };
    let others = StageVitals { next_due: Some(START), ..StageVitals::of(other.run, SPLIT) };
    assert_eq!(vitals(&world, 0, 9).await.stages, [split, stored, others], "nothing was due before now");
    // The worker of both vanishes, and time passes.
    world.advance(2 * LEASE);
    let split = StageVitals { orphans: 1, overdue: 2, backing_off: 0, came_due: 1, ..split };
    let late = |stage: StageVitals| StageVitals { overdue: 1, ..stage };
    assert_eq!(vitals(&world, 1_000, 9).await.stages, [split, late(stored), late(others)]);
    let split = StageVitals { overdue: 0, ..split };
    assert_eq!(vitals(&world, 999_000, 9).await.stages, [split, stored, others], "not for so long");
}

pub(crate) async fn a_retired_worker_holds_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    world.claim(SPLIT, 2).await;
    assert_eq!(vitals(&world, 0, 9).await.stages, [], "somebody has them in hand");
    world.store.retire(world.worker, Retired::Lost).await.expect("retire");
    world.store.register(new_worker("two"), START.after(LEASE), START).await.expect("a worker");
    let lost = StageVitals { orphans: 2, ..StageVitals::of(world.run, SPLIT) };
    assert_eq!(vitals(&world, 0, 9).await.stages, [lost]);
}

pub(crate) async fn counts_stop_at_the_most_that_is_asked_for(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c", "d", "e"]).await;
    for held in world.claim(SPLIT, 3).await {
        world.happen(&held.item, failed(Class::Retryable, "no")).await;
    }
    assert_eq!(vitals(&world, -1, 2).await.stages[0].backing_off, 2);
    assert_eq!(vitals(&world, -1, 2).await.stages[0].overdue, 2, "two of the new ones");
    world.advance(Duration::from_secs(600));
    assert_eq!(vitals(&world, 1, 4).await.stages[0].overdue, 4, "of both lanes together");
    assert_eq!(vitals(&world, 1, 9).await.stages[0].overdue, 5);
}

pub(crate) async fn a_death_is_counted_each_time(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let back = world.happen(&dead[0], Event::Redriven { due: world.now, payload: None, policy: None }).await;
    assert_eq!(back.generation, 1);
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, Event::Killed { why: "enough".to_owned() }).await;
    let counters = world.counters().await;
    let n = |metric: Metric| counters.get(&(SPLIT, metric)).copied().unwrap_or(0);
    assert_eq!((n(Metric::Died(DeadReason::Final)), n(Metric::DeadReason(DeadReason::Final))), (2, 1));
    assert_eq!((n(Metric::Died(DeadReason::Operator)), n(Metric::DeadReason(DeadReason::Operator))), (1, 1));
}

pub(crate) async fn what_only_grows_outlives_a_run_that_is_forgotten(store: Arc<dyn Store>) {
    let mut grown: Vec<Counter> = Vec::new();
    for round in 1..=2 {
        let world = World::new(store.clone()).await;
        world.bury(&["a", "b", "c"], "no").await;
        let counters = store.counters(world.run).await.expect("counters");
        grown = counters.into_iter().filter(|counter| counter.metric.only_grows()).collect();
        store.change_run(world.run, RunChange::finished(START)).await.expect("change");
        let finished_before = START.after(Duration::from_secs(1));
        let mut more = true;
        // A page at a time: what was counted is counted once.
        while more {
            let prune = Prune { finished_before, with_dead: true, only: None, limit: 1 };
            more = store.prune(prune, None).await.expect("prune").more;
        }
        let told = vitals(&world, 0, 9).await.pruned;
        let times = |counter: &Counter| Counter { n: counter.n * round, ..*counter };
        let counters = grown.iter().map(times).collect();
        assert_eq!(told, [PrunedCounters { pipeline: "pipeline".to_owned(), counters }], "round {round}");
    }
    let died = |counter: &Counter| counter.metric == Metric::Died(DeadReason::Final) && counter.n == 3;
    assert!(grown.iter().any(died), "{grown:?}");
}

pub(crate) async fn operations_are_counted_by_kind_and_state(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    for (kind, state) in [
        (OperationKind::Purge, OperationState::Open),
        (OperationKind::Redrive, OperationState::Done),
        (OperationKind::Purge, OperationState::Open),
    ] {
        let operation = redrive_store::Operation { state, ..new_operation(kind) };
        world.store.save_operation(operation).await.expect("saved");
    }
    let of = |kind, state, n| OperationCount { kind, state, n };
    let expected = [
        of(OperationKind::Redrive, OperationState::Done, 1),
        of(OperationKind::Purge, OperationState::Open, 2),
    ];
    assert_eq!(vitals(&world, 0, 9).await.operations, expected);
}
