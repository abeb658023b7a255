//! Forgetting.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::{Event, Verdict};
use redrive_core::failure::Class;
use redrive_core::id::{ItemSeq, Rev};
use redrive_core::item::{Item, NewItem, StateKind};
use redrive_core::tally::Metric;
use redrive_store::{OperationKind, OperationState, Prune, RunChange, Store, Submit, Submitted};

use crate::world::{PART, SPLIT, START, World, failed, new_operation, passed, split};

pub(crate) async fn purge_takes_descendants_and_is_counted(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim(SPLIT, 2).await;
    let parent = world.happen(&held[0].item, split(&["x", "y"])).await;
    let part = world.claim_one(PART).await;
    world.happen(&part, failed(Class::Final, "no")).await;
    let dead = world.happen(&parent, Event::Killed { why: "enough".to_owned() }).await;
    let mut operation = new_operation(OperationKind::Purge);
    operation.changed = 1;
    let gone = world.store.purge(vec![(dead.seq, dead.rev)], operation, world.now).await;
    assert_eq!(gone, Ok(3), "the item, its dead child and its waiting child");
    let left = world.items().await;
    assert_eq!(left.iter().map(|item| item.seq).collect::<Vec<_>>(), [held[1].item.seq]);
    assert_eq!(world.store.item(dead.seq).await, Ok(None));
    assert_eq!(world.store.payload(dead.seq).await, Ok(None));
    assert_eq!(world.store.history(dead.seq).await, Ok(redrive_store::History::default()));
    assert!(world.claim(PART, 9).await.is_empty());
    let counters = world.counters().await;
    let of = |wanted: fn(&Metric) -> bool| -> i64 {
        counters.iter().filter(|((_, metric), _)| wanted(metric)).map(|(_, n)| n).sum()
    };
    assert_eq!(of(|metric| *metric == Metric::Admitted), 4);
    assert_eq!(of(|metric| *metric == Metric::Purged), 3);
    assert_eq!(of(|metric| matches!(metric, Metric::State(_))), 1);
    assert_eq!(of(|metric| matches!(metric, Metric::DeadReason(_) | Metric::DeadClass(_))), 0);
    assert_eq!(world.store.operations(9).await.expect("operations")[0].changed, 1);
}

pub(crate) async fn purge_leaves_what_changed_or_is_not_finished(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let waiting = world.admit(&["c"]).await.remove(0);
    world.happen(&dead[0], Event::Redriven { due: world.now, payload: None }).await;
    let wanted = vec![
        (dead[0].seq, dead[0].rev),
        (dead[1].seq, Rev(dead[1].rev.0 - 1)),
        (waiting.seq, waiting.rev),
        (ItemSeq(4_711), Rev(0)),
    ];
    let mut operation = new_operation(OperationKind::Purge);
    operation.state = OperationState::Done;
    assert_eq!(world.store.purge(wanted, operation, world.now).await, Ok(0));
    assert_eq!(world.items().await.len(), 3);
    assert_eq!(world.store.operations(9).await.expect("operations")[0].state, OperationState::Done);
    world.assert_counters().await;
}

pub(crate) async fn a_purged_item_can_be_submitted_again(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    for _ in 0..2 {
        let dead = world.bury(&["a"], "no").await.remove(0);
        let operation = new_operation(OperationKind::Purge);
        assert_eq!(world.store.purge(vec![(dead.seq, dead.rev)], operation, world.now).await, Ok(1));
    }
    let again = world.admit(&["a"]).await.remove(0);
    assert_eq!((again.attempt, again.state.kind()), (0, StateKind::Waiting));
    assert_eq!(world.store.history(again.seq).await, Ok(redrive_store::History::default()));
}

pub(crate) async fn prune_goes_in_pages(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let items = (0..25_u8).map(|n| NewItem::new(format!("k{n}"), vec![n % 4; 5_000], u64::from(n)));
    let submit = Submit { items: items.collect(), ..world.submission(&[]) };
    world.store.submit(submit).await.expect("submit");
    for held in world.claim(SPLIT, 25).await {
        world.happen(&held.item, Event::Finished(Verdict::Filtered("dull".to_owned()))).await;
    }
    let kept = World::new(world.store.clone()).await;
    let new = NewItem::new("kept", vec![1_u8; 5_000], 0);
    let submit = Submit { items: vec![new], ..kept.submission(&[]) };
    kept.store.submit(submit).await.expect("submit");
    finish(&world).await;
    let prune = Prune { finished_before: START.after(Duration::from_secs(1)), limit: 10 };
    let mut pages = Vec::new();
    loop {
        let pruned = world.store.prune(prune).await.expect("prune");
        pages.push((pruned.items, pruned.runs));
        if !pruned.more {
            break;
        }
    }
    assert_eq!(pages[..3], [(10, 0), (10, 0), (5, 1)]);
    assert_eq!(world.store.run(world.run).await, Ok(None));
    assert_eq!(world.store.counters(world.run).await, Ok(Vec::new()));
    assert!(world.items().await.is_empty());
    assert_eq!(
        kept.claim(SPLIT, 9).await[0].payload[..],
        [1; 5_000],
        "a content that somebody else has stays"
    );
    kept.assert_counters().await;
}

pub(crate) async fn prune_leaves_young_and_unfinished_runs(store: Arc<dyn Store>) {
    let young = World::new(store.clone()).await;
    let open = World::new(store.clone()).await;
    young.bury(&["a"], "no").await;
    open.bury(&["a"], "no").await;
    finish(&young).await;
    let prune = Prune { finished_before: START, limit: 10 };
    assert_eq!(store.prune(prune).await, Ok(redrive_store::Pruned::default()));
    let later = Prune { finished_before: START.after(Duration::from_secs(1)), limit: 10 };
    let pruned = store.prune(later).await.expect("prune");
    assert_eq!((pruned.items, pruned.runs, pruned.more), (1, 1, false));
    assert_eq!(open.items().await.len(), 1);
    let again = store.create_run(crate::world::new_run("source"), START).await.expect("run");
    assert!(again.id > open.run, "numbers of runs are not given again");
}

pub(crate) async fn numbers_of_items_are_not_given_again(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let late = world.decide(&held, passed());
    let dead = world.happen(&held, failed(Class::Final, "no")).await;
    purge(&world, &dead).await;
    let submitted = world.store.submit(world.submission(&["b"])).await.expect("submit");
    assert!(matches!(submitted[..], [Submitted::Admitted(_)]));
    let other = world.claim_one(SPLIT).await;
    assert!(other.seq > dead.seq, "a token that slept through the purge must not fit another item");
    assert_eq!(world.commit(vec![late]).await, [redrive_store::Applied::Stale]);
    assert_eq!(world.item(&other).await, other);
}

async fn purge(world: &World, item: &Item) {
    let operation = new_operation(OperationKind::Purge);
    assert_eq!(world.store.purge(vec![(item.seq, item.rev)], operation, world.now).await, Ok(1));
}

async fn finish(world: &World) {
    let change = RunChange { finished_at: Some(Some(world.now)), ..RunChange::default() };
    world.store.change_run(world.run, change).await.expect("change");
}
