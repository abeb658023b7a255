//! Items that come from items.

use std::sync::Arc;

use redrive_core::event::{ChildTally, Event, Gone, ItemReply};
use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, ItemId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_store::{Applied, ItemFilter, ItemQuery, Settled, Store};

use crate::world::{PART, SPLIT, STORE, World, failed, passed, split};

pub(crate) async fn children_come_with_their_parent(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let parent = world.happen(&held, split(&["x", "y"])).await;
    assert_eq!(parent.state.kind(), StateKind::Joining);
    let children = children(&world, &parent).await;
    assert_eq!(children.len(), 2);
    for (child, key) in children.iter().zip(["x", "y"]) {
        let version = ContentHash::of(&[key.as_bytes()]);
        assert_eq!(child.id, ItemId::derive(world.run, Some(parent.id), key, version));
        assert_eq!((&*child.key, child.stage, child.state.kind()), (key, PART, StateKind::Waiting));
        assert_eq!((child.run, child.created_at, child.rev.0, child.attempt), (world.run, world.now, 0, 0));
    }
    assert_eq!(*world.claim(PART, 1).await[0].payload, *b"x");
    world.assert_counters().await;
}

pub(crate) async fn a_stale_parent_has_no_children(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let late = world.decide(&held, split(&["x", "y"]));
    let freed = world.happen(&held, Event::Released).await;
    assert_eq!(freed.attempt, 0);
    assert_eq!(world.commit(vec![late]).await, [Applied::Stale]);
    assert_eq!(world.items().await, [freed]);
    world.assert_counters().await;
}

pub(crate) async fn the_same_children_come_once(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let parent = world.happen(&held, split(&["x", "y"])).await;
    for child in world.claim(PART, 9).await {
        world.happen(&child.item, failed(Class::Final, "no")).await;
    }
    let dead = world.happen(&parent, Event::Killed { why: "again".to_owned() }).await;
    world.happen(&dead, Event::Redriven { due: world.now, payload: None, policy: None }).await;
    let again = world.claim_one(SPLIT).await;
    let parent = world.happen(&again, split(&["x", "y", "z"])).await;
    let states: Vec<_> = children(&world, &parent).await.iter().map(|child| child.state.kind()).collect();
    assert_eq!(states, [StateKind::Dead, StateKind::Dead, StateKind::Waiting]);
    world.assert_counters().await;
}

pub(crate) async fn settled_are_those_without_live_children(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim(SPLIT, 2).await;
    let first = world.happen(&held[0].item, split(&["x", "y"])).await;
    let second = world.happen(&held[1].item, split(&["z"])).await;
    let settled = || world.store.settled(world.run, 9);
    assert!(settled().await.expect("settled").is_empty());
    let parts = world.claim(PART, 9).await;
    world.happen(&parts[0].item, failed(Class::Final, "no")).await;
    assert!(settled().await.expect("settled").is_empty(), "a running child is live");
    world.happen(&parts[1].item, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    let tally = ChildTally { done: 1, dead: 1, gone: 0, live: 0 };
    assert_eq!(settled().await, Ok(vec![Settled { item: first.clone(), children: tally }]));
    world.happen(&parts[2].item, Event::CancelRequested).await;
    let gone = ChildTally { gone: 1, ..ChildTally::default() };
    assert_eq!(
        settled().await,
        Ok(vec![
            Settled { item: first.clone(), children: tally },
            Settled { item: second.clone(), children: gone }
        ])
    );
    assert_eq!(
        world.store.settled(world.run, 1).await,
        Ok(vec![Settled { item: first.clone(), children: tally }])
    );
    let joined = world.happen(&first, Event::ChildrenSettled(tally)).await;
    assert_eq!(joined.stage, STORE);
    assert_eq!(settled().await, Ok(vec![Settled { item: second, children: gone }]));
    assert_eq!(world.store.history(first.seq).await.expect("history").marks[0].what, "joined");
    world.assert_counters().await;
}

pub(crate) async fn a_tally_counts_how_children_ended(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let parent = world.claim_one(SPLIT).await;
    assert_eq!(world.store.children(parent.seq).await, Ok(ChildTally::default()));
    world.happen(&parent, split(&["1", "2", "3", "4", "5", "6"])).await;
    let parts = world.claim(PART, 5).await;
    let moved = world.happen(&parts[0].item, passed()).await;
    world.claim(StageNo(2), 1).await;
    let moved = world.item(&moved).await;
    world.happen(&moved, passed()).await;
    world.happen(&parts[1].item, failed(Class::Final, "no")).await;
    world.happen(&parts[2].item, Event::Superseded(Gone::Newer)).await;
    world.happen(&parts[3].item, Event::CancelRequested).await;
    let expected = ChildTally { done: 1, dead: 1, gone: 2, live: 2 };
    assert_eq!(world.store.children(parent.seq).await, Ok(expected));
}

pub(crate) async fn grandchildren_do_not_count_for_the_grandparent(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.plan = nested();
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let parent = world.happen(&held, split(&["x"])).await;
    let part = world.claim_one(PART).await;
    let child = world.happen(&part, split(&["1", "2", "3"])).await;
    assert_eq!(world.store.children(parent.seq).await.expect("children").live, 1);
    assert_eq!(world.store.children(child.seq).await.expect("children").live, 3);
    let top = ItemFilter { run: Some(world.run), top: true, ..ItemFilter::default() };
    let page = ItemQuery { filter: top, after: None, limit: 9 };
    assert_eq!(world.store.items(page).await.expect("items"), [parent]);
    world.assert_counters().await;
}

/// A plan whose children have children.
fn nested() -> redrive_core::plan::Plan {
    let stages: Vec<_> = crate::world::plan().stages().map(|(_, stage)| stage.clone()).collect();
    let mut stages = stages;
    stages[1].first_child = Some(StageNo(2));
    stages[1].next = None;
    stages[2].owner = Some(PART);
    redrive_core::plan::Plan::new(stages, None)
}

async fn children(world: &World, parent: &Item) -> Vec<Item> {
    let filter = ItemFilter { parent: Some(parent.seq), ..ItemFilter::default() };
    world.store.items(ItemQuery { filter, after: None, limit: 99 }).await.expect("items")
}
