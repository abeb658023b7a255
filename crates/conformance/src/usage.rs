//! What attempts consumed, and attempts that a gate answers for.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::attempt::Outcome;
use redrive_core::event::{Event, ItemReply};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::StageNo;
use redrive_core::item::{Item, State};
use redrive_core::policy::Cause;
use redrive_core::tally::Metric;
use redrive_core::usage::Usage;
use redrive_store::{Applied, ItemRev, OperationKind, Prune, RunChange, Store};

use crate::world::{SPLIT, START, STORE, World, failed, new_operation, passed};

fn used(tokens_in: u64, tokens_out: u64, nano_usd: Option<u64>) -> Usage {
    Usage { tokens_in, tokens_out, nano_usd }
}

/// Lets something happen to an item that consumed this much.
async fn happen(world: &World, item: &Item, event: Event, usage: Option<Usage>) {
    let mut transition = world.decide(item, event);
    transition.record.as_mut().expect("an attempt").usage = usage;
    assert_eq!(world.commit(vec![transition]).await, [Applied::Done]);
}

async fn usages(world: &World, item: &Item) -> Vec<Option<Usage>> {
    let history = world.store.history(item.seq).await.expect("history");
    history.attempts.into_iter().map(|record| record.usage).collect()
}

pub(crate) async fn usage_comes_back_with_the_attempt(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    let all = [
        None,
        Some(used(0, 0, None)),
        Some(used(0, 0, Some(0))),
        Some(used(12_345, 0, Some(246_900))),
        Some(used(7, u64::MAX, None)),
        Some(used(u64::MAX, 1 << 63, Some(u64::MAX))),
        Some(used(1, 2, Some(3))),
    ];
    for usage in &all[..all.len() - 1] {
        let held = world.claim_one(SPLIT).await;
        happen(&world, &held, failed(Class::RateLimited, "slow down"), *usage).await;
        world.advance(Duration::from_secs(600));
        assert!(world.renew().await);
    }
    let held = world.claim_one(SPLIT).await;
    happen(&world, &held, passed(), all[all.len() - 1]).await;
    assert_eq!(usages(&world, &item).await, all);
    world.assert_counters().await;
}

pub(crate) async fn a_turned_away_item_is_kept_as_decided(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a"]).await;
    let wait = Duration::from_millis(4_321);
    for (n, class) in (1..).zip(Class::ALL) {
        let held = world.claim_one(SPLIT).await;
        let failure = Failure::new(class, Kind::Server, "no").with_status(503);
        let after = world.happen(&held, Event::Finished(ItemReply::TurnedAway { failure, wait })).await;
        assert_eq!((after.failures, after.throttles, after.crashes), (0, n, 0), "{class}");
        assert_eq!(after.state, State::Waiting { due: world.now.after(wait), cause: Some(Cause::Gate) });
        let history = world.store.history(held.seq).await.expect("history");
        let record = history.attempts.last().expect("a record");
        assert_eq!((record.outcome, record.wait), (Outcome::Throttled, Some((wait, Cause::Gate))));
        world.assert_counters().await;
        world.advance(wait);
        assert!(world.renew().await);
    }
    let held = world.claim_one(SPLIT).await;
    assert_eq!(world.happen(&held, passed()).await.throttles, 0);
    world.assert_counters().await;
}

/// Tokens in and out, price and tokens without a price, as counted at a stage.
async fn counted(world: &World, stage: StageNo) -> [i64; 4] {
    let counters = world.counters().await;
    [Metric::TokensIn, Metric::TokensOut, Metric::NanoUsd, Metric::UnpricedTokens]
        .map(|metric| counters.get(&(stage, metric)).copied().unwrap_or(0))
}

pub(crate) async fn usage_is_counted_per_stage(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let usages = [Some(used(100, 10, Some(5))), Some(used(20, 2, None)), None];
    for (held, usage) in world.claim(SPLIT, 3).await.iter().zip(usages) {
        happen(&world, &held.item, failed(Class::RateLimited, "slow down"), usage).await;
        world.assert_counters().await;
    }
    assert_eq!(counted(&world, SPLIT).await, [120, 12, 5, 22], "a failed attempt was paid for all the same");
    world.advance(Duration::from_secs(600));
    assert!(world.renew().await);
    for held in world.claim(SPLIT, 3).await {
        happen(&world, &held.item, passed(), Some(used(1, 1, Some(1)))).await;
    }
    for held in world.claim(STORE, 2).await {
        happen(&world, &held.item, passed(), Some(used(0, 7, Some(0)))).await;
    }
    assert_eq!(counted(&world, SPLIT).await, [123, 15, 8, 22]);
    assert_eq!(counted(&world, STORE).await, [0, 14, 0, 0], "free is a price");
    world.assert_counters().await;
}

pub(crate) async fn a_stale_attempt_consumes_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let mut late = world.decide(&held, passed());
    late.record.as_mut().expect("an attempt").usage = Some(used(1_000, 1_000, None));
    happen(&world, &held, passed(), Some(used(1, 2, None))).await;
    assert_eq!(world.commit(vec![late]).await, [Applied::Stale]);
    assert_eq!(counted(&world, SPLIT).await, [1, 2, 0, 3]);
    world.assert_counters().await;
}

pub(crate) async fn sums_of_usage_stop_at_the_largest_number(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let most = i64::MAX.cast_unsigned();
    let usages = [used(most - 1, u64::MAX, Some(most)), used(1, 0, None), used(u64::MAX, 5, Some(1))];
    for (held, usage) in world.claim(SPLIT, 3).await.iter().zip(usages) {
        happen(&world, &held.item, passed(), Some(usage)).await;
        world.assert_counters().await;
    }
    assert_eq!(counted(&world, SPLIT).await, [i64::MAX, i64::MAX, i64::MAX, 1]);
}

pub(crate) async fn a_purge_leaves_what_was_consumed(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    for held in world.claim(SPLIT, 2).await {
        happen(&world, &held.item, failed(Class::Final, "no"), Some(used(10, 1, Some(3)))).await;
    }
    let dead = world.items().await.remove(0);
    let operation = new_operation(OperationKind::Purge);
    assert_eq!(world.store.purge(vec![ItemRev::from(&dead)], operation, world.now).await, Ok(1));
    assert_eq!(counted(&world, SPLIT).await, [20, 2, 6, 0], "what was paid stays paid");
    assert_eq!(usages(&world, &dead).await, []);
}

pub(crate) async fn a_pruned_run_leaves_no_counters_of_usage(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    let other = World::new(store.clone()).await;
    for world in [&world, &other] {
        world.admit(&["a"]).await;
        let held = world.claim_one(SPLIT).await;
        happen(world, &held, failed(Class::Final, "no"), Some(used(10, 1, None))).await;
    }
    let finished = RunChange::finished(START);
    store.change_run(world.run, finished).await.expect("change");
    let pruned = store
        .prune(
            Prune {
                finished_before: START.after(Duration::from_secs(1)),
                with_dead: true,
                only: None,
                limit: 9,
            },
            None,
        )
        .await;
    assert_eq!(pruned.expect("prune").runs, 1);
    assert_eq!(store.counters(world.run).await, Ok(Vec::new()));
    assert_eq!(counted(&other, SPLIT).await, [10, 1, 0, 11]);
    other.assert_counters().await;
}
