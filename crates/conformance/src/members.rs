//! The items of an operation.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::{Event, Gone};
use redrive_core::id::{ItemSeq, OperationId};
use redrive_core::item::Item;
use redrive_store::{
    Commit, Freeze, ItemRev, Member, Operation, OperationKind, OperationState, Prune, Store,
};

use crate::world::{START, World, new_operation};

fn seen(item: &Item) -> Member {
    Member { item: item.seq, rev: item.rev, sent: None }
}

fn freeze(items: &[Item]) -> Freeze {
    let operation = Operation { state: OperationState::Frozen, ..new_operation(OperationKind::Redrive) };
    Freeze { operation, items: items.iter().map(ItemRev::from).collect(), unless_newer_than: None }
}

pub(crate) async fn a_frozen_operation_has_its_items(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b", "c", "d"], "no").await;
    let first = world.store.freeze(freeze(&dead[1..])).await.expect("frozen").expect("nobody was faster");
    let second = world.store.freeze(freeze(&dead[..1])).await.expect("frozen").expect("nobody was faster");
    assert!(first < second);
    let expected: Vec<Member> = dead[1..].iter().map(seen).collect();
    let members = |operation, after, limit| world.store.members(operation, after, limit);
    assert_eq!(members(first, None, 9).await, Ok(expected.clone()));
    assert_eq!(members(first, None, 2).await, Ok(expected[..2].to_vec()));
    assert_eq!(members(first, Some(expected[1].item), 9).await, Ok(expected[2..].to_vec()));
    assert_eq!(members(second, None, 9).await, Ok(vec![seen(&dead[0])]));
    assert_eq!(members(OperationId(4_711), None, 9).await, Ok(Vec::new()));
    let row = world.store.operation(first).await.expect("read").expect("there");
    assert_eq!(row, Operation { id: first, ..freeze(&[]).operation });
    assert_eq!(world.store.open_operations(None, 9).await, Ok(Vec::new()), "nobody has started it");
    let started = Operation { state: OperationState::Open, ..row };
    world.store.save_operation(started.clone()).await.expect("saved");
    assert_eq!(world.store.open_operations(None, 9).await, Ok(vec![started]));
    assert_eq!(members(first, None, 9).await, Ok(expected), "progress leaves the items alone");
}

pub(crate) async fn what_an_operation_sent_back_is_written_with_it(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b", "c"], "no").await;
    let id = world.store.freeze(freeze(&dead[..2])).await.expect("frozen").expect("nobody was faster");
    let row = world.store.operation(id).await.expect("read").expect("there");
    let back = |item: &Item| world.decide(item, Event::Redriven { due: START, payload: None, policy: None });
    // The second change of the same item is stale, and is none of the operation's doing.
    let other = world.decide(&dead[0], Event::Superseded(Gone::Newer));
    let changes = vec![back(&dead[0]).into(), other.into(), back(&dead[2]).into()];
    let commit = Commit { changes, operation: Some(row), now: world.now, ..Commit::default() };
    world.store.commit(commit).await.expect("written");
    let sent = |item: &Item| Member { sent: Some(1), ..seen(item) };
    let members = world.store.members(id, None, 9).await;
    assert_eq!(members, Ok(vec![sent(&dead[0]), seen(&dead[1]), sent(&dead[2])]));
    // What is not written sends nothing back.
    let row = world.store.operation(id).await.expect("read").expect("there");
    let changes = vec![back(&dead[1]).into(), back(&dead[2]).into()];
    let all_or_nothing =
        Commit { changes, operation: Some(row), all_or_nothing: true, now: world.now, ..Commit::default() };
    world.store.commit(all_or_nothing).await.expect("answered");
    assert_eq!(world.store.members(id, None, 9).await, members);
}

pub(crate) async fn rivals_for_one_turn_of_an_actor_have_one_winner(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a"], "no").await;
    let stranger = Operation { actor: "somebody else".to_owned(), ..new_operation(OperationKind::Redrive) };
    let mut last = OperationId(0);
    for _ in 0..3 {
        world.store.save_operation(stranger.clone()).await.expect("saved");
        let rivals = (0..10).map(|_| {
            let (store, asked) =
                (world.store.clone(), Freeze { unless_newer_than: Some(last), ..freeze(&dead) });
            tokio::spawn(async move { store.freeze(asked).await.expect("answered") })
        });
        let rivals: Vec<_> = rivals.collect();
        let mut won = Vec::new();
        for rival in rivals {
            won.extend(rival.await.expect("no panic"));
        }
        assert_eq!(won.len(), 1);
        assert!(won[0] > last);
        last = won[0];
    }
}

pub(crate) async fn items_of_operations_that_ended_long_ago_are_forgotten(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a"], "no").await;
    let mut ids = Vec::new();
    for state in [OperationState::Open, OperationState::Done, OperationState::Frozen] {
        let asked = freeze(&dead);
        let operation = Operation { state, ..asked.operation };
        ids.push(world.store.freeze(Freeze { operation, ..asked }).await.expect("frozen").expect("alone"));
    }
    let count = async |at: usize| world.store.members(ids[at], None, 9).await.expect("members").len();
    let prune = |before, only| Prune { finished_before: before, with_dead: false, only, limit: 9 };
    let later = START.after(Duration::from_secs(1));
    world.store.prune(prune(START, None), None).await.expect("pruned");
    world.store.prune(prune(later, Some(world.run)), None).await.expect("pruned");
    assert_eq!(
        (count(0).await, count(1).await, count(2).await),
        (1, 1, 1),
        "none is old, or one run is meant"
    );
    world.store.prune(prune(later, None), None).await.expect("pruned");
    assert_eq!((count(0).await, count(1).await, count(2).await), (1, 0, 0));
    let row = world.store.operation(ids[2]).await.expect("read").expect("there");
    assert_eq!(row.state, OperationState::Cancelled, "its items are not known any more");
    assert_eq!(world.store.members(ids[0], Some(ItemSeq(i64::MAX)), 9).await, Ok(Vec::new()));
}
