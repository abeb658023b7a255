//! What the world is told.

use std::sync::Arc;

use redrive_core::id::FactId;
use redrive_core::item::Item;
use redrive_store::{Applied, Change, Commit, Fact, Store};

use crate::world::{SPLIT, World, passed};

pub(crate) async fn facts_come_in_order_until_passed_on(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = world.claim(SPLIT, 3).await;
    let changes = held.iter().map(|held| change(&world, &held.item)).collect();
    assert_eq!(commit(&world, changes).await, [Applied::Done; 3]);
    let facts = world.store.facts(9).await.expect("facts");
    assert!(
        facts.iter().zip(&held).all(|(fact, held)| fact.item == held.item.id && fact.body == *held.item.key)
    );
    assert!(facts.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(world.store.facts(2).await.expect("facts"), facts[..2], "the oldest first");
    world.store.facts_passed_on(vec![facts[0].id, facts[1].id]).await.expect("passed on");
    assert_eq!(world.store.facts(9).await.expect("facts"), facts[2..]);
}

/// A fact with a smaller number than one that was passed on may not have been seen yet.
pub(crate) async fn only_listed_facts_are_passed_on(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c", "d"]).await;
    let held = world.claim(SPLIT, 4).await;
    commit(&world, held.iter().map(|held| change(&world, &held.item)).collect()).await;
    let facts = world.store.facts(9).await.expect("facts");
    let (second, last) = (facts[1].id, facts[3].id);
    world.store.facts_passed_on(vec![last, second, second, FactId(i64::MAX)]).await.expect("passed on");
    assert_eq!(world.store.facts(9).await.expect("facts"), [facts[0].clone(), facts[2].clone()]);
    world.store.facts_passed_on(vec![second]).await.expect("it is forgotten already");
    world.store.facts_passed_on(Vec::new()).await.expect("none is listed");
    assert_eq!(world.store.facts(9).await.expect("facts").len(), 2);
}

pub(crate) async fn a_stale_change_has_no_fact(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let late = change(&world, &held);
    world.happen(&held, passed()).await;
    assert_eq!(commit(&world, vec![late]).await, [Applied::Stale]);
    assert!(world.store.facts(9).await.expect("facts").is_empty());
}

pub(crate) async fn numbers_of_facts_are_not_given_again(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let mut last = FactId(0);
    for held in world.claim(SPLIT, 2).await {
        commit(&world, vec![change(&world, &held.item)]).await;
        let facts = world.store.facts(9).await.expect("facts");
        assert_eq!(facts.len(), 1);
        assert!(facts[0].id > last, "else the relay would forget a fact it never passed on");
        last = facts[0].id;
        world.store.facts_passed_on(vec![last]).await.expect("passed on");
    }
}

fn change(world: &World, item: &Item) -> Change {
    let fact = Fact { id: FactId(0), item: item.id, what: "passed".to_owned(), body: item.key.to_string() };
    Change { fact: Some(fact), ..Change::from(world.decide(item, passed())) }
}

async fn commit(world: &World, changes: Vec<Change>) -> Vec<Applied> {
    let commit = Commit { changes, now: world.now, ..Commit::default() };
    world.store.commit(commit).await.expect("commit")
}
