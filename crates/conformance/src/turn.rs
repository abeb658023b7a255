//! What a worker does at one go: commit, gates and claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::id::{RunId, WorkerId};
use redrive_core::item::{Item, NewItem, StateKind};
use redrive_core::tally::Metric;
use redrive_store::{
    Applied, Claim, Commit, Error, GateRow, Retired, RunChange, Slot, Store, Submit, Turn, Turned,
};

use crate::world::{LEASE, PART, SPLIT, START, STORE, World, new_worker, passed, split};

fn gate(name: &str, rev: i64) -> GateRow {
    GateRow { name: name.to_owned(), rev, state: "{}".to_owned(), updated_at: START }
}

fn claim(world: &World, slots: Vec<Slot>) -> Option<Claim> {
    Some(Claim { worker: world.worker, slots, pauses: 0, now: world.now })
}

fn commit(world: &World, held: &[Item]) -> Commit {
    let changes = held.iter().map(|item| world.decide(item, passed()).into()).collect();
    Commit { changes, now: world.now, ..Commit::default() }
}

async fn turn(world: &World, turn: Turn) -> Turned {
    world.store.turn(turn).await.expect("a turn")
}

fn keys(turned: &Turned) -> Vec<String> {
    let claimed = turned.claimed.as_ref().expect("a claim");
    claimed.items.iter().map(|given| given.item.key.to_string()).collect()
}

pub(crate) async fn an_empty_turn_does_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let before = world.items().await;
    let turned = turn(&world, Turn::default()).await;
    assert_eq!((turned.applied, turned.gates), (Ok(Vec::new()), Ok(Vec::new())));
    assert!(turned.claimed.expect("nothing was asked").items.is_empty());
    assert_eq!(world.items().await, before);
}

pub(crate) async fn all_parts_are_written_and_answered(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = [world.claim_one(SPLIT).await];
    let asked = Turn {
        commit: Some(commit(&world, &held)),
        gates: vec![gate("llm", 0), gate("late", 7)],
        claim: claim(&world, vec![world.slot(SPLIT, 9)]),
    };
    let turned = turn(&world, asked).await;
    assert_eq!(turned.applied, Ok(vec![Applied::Done]));
    assert_eq!(turned.gates, Ok(vec![Applied::Done, Applied::Stale]));
    assert_eq!(keys(&turned), ["b", "c"]);
    for given in turned.claimed.expect("a claim").items {
        assert_eq!(world.item(&given.item).await, given.item);
        assert_eq!(*given.payload, *given.item.key.as_bytes());
    }
    assert_eq!(world.item(&held[0]).await.stage, STORE);
    assert_eq!(world.store.gates().await.expect("gates"), [gate("llm", 1)]);
    world.assert_counters().await;
}

pub(crate) async fn a_claim_finds_what_the_commit_made_due(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["whole", "family"]).await;
    let held = world.claim(SPLIT, 2).await;
    let changes = vec![
        world.decide(&held[0].item, passed()).into(),
        world.decide(&held[1].item, split(&["first", "second"])).into(),
    ];
    let turned = turn(
        &world,
        Turn {
            commit: Some(Commit { changes, now: world.now, ..Commit::default() }),
            claim: claim(&world, vec![world.slot(STORE, 5), world.slot(PART, 1)]),
            ..Turn::default()
        },
    )
    .await;
    assert_eq!(turned.applied, Ok(vec![Applied::Done; 2]));
    assert_eq!(keys(&turned), ["whole", "first"], "one that goes on, and a child that came with its parent");
    world.assert_counters().await;
}

pub(crate) async fn a_refused_commit_takes_nothing_else_back(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = [world.claim_one(SPLIT).await];
    let nowhere = Some((RunId(999), RunChange::default()));
    let asked = || Turn {
        commit: Some(Commit { run: nowhere.clone(), ..commit(&world, &held) }),
        gates: vec![gate("llm", 0)],
        claim: claim(&world, vec![world.slot(SPLIT, 9), world.slot(STORE, 9)]),
    };
    let turned = turn(&world, asked()).await;
    assert!(matches!(turned.applied, Err(Error::NotFound(_))), "{:?}", turned.applied);
    assert_eq!(turned.gates, Ok(vec![Applied::Done]));
    assert_eq!(keys(&turned), ["b"], "and nothing of the commit was there to be claimed");
    assert_eq!(world.item(&held[0]).await, held[0], "nothing of the commit is left");
    let again = turn(&world, asked()).await;
    assert_eq!(again.gates, Ok(vec![Applied::Stale]), "the gate was written once");
    world.assert_counters().await;
}

pub(crate) async fn a_stale_change_keeps_nobody_from_claiming(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held: Vec<Item> = world.claim(SPLIT, 2).await.into_iter().map(|held| held.item).collect();
    world.happen(&held[0], passed()).await;
    let turned = turn(
        &world,
        Turn {
            commit: Some(commit(&world, &held)),
            gates: Vec::new(),
            claim: claim(&world, vec![world.slot(SPLIT, 9)]),
        },
    )
    .await;
    assert_eq!(turned.applied, Ok(vec![Applied::Stale, Applied::Done]));
    assert_eq!(keys(&turned), ["c"]);
    world.assert_counters().await;
}

pub(crate) async fn a_retired_worker_records_and_gets_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = [world.claim_one(SPLIT).await];
    world.store.retire(world.worker, Retired::Lost).await.expect("retire");
    let turned = turn(
        &world,
        Turn {
            commit: Some(commit(&world, &held)),
            gates: Vec::new(),
            claim: claim(&world, vec![world.slot(SPLIT, 9)]),
        },
    )
    .await;
    assert_eq!(turned.applied, Ok(vec![Applied::Done]), "nobody else has taken it over");
    assert_eq!(keys(&turned), [""; 0]);
}

pub(crate) async fn a_snapshot_refuses_a_turn(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    world.admit(&["a"]).await;
    let snapshot = store.snapshot().await.expect("snapshot").store;
    let asked = Turn { claim: claim(&world, vec![world.slot(SPLIT, 1)]), ..Turn::default() };
    assert!(matches!(snapshot.turn(asked).await, Err(Error::ReadOnly(_))));
    assert_eq!(world.claim(SPLIT, 9).await.len(), 1);
}

/// Fifty workers take turns until all is done: each records what it was given and is given more.
pub(crate) async fn many_workers_take_turns_without_overlap(store: Arc<dyn Store>) {
    const WORKERS: usize = 50;
    const ITEMS: usize = 400;
    let world = Arc::new(World::new(store).await);
    let keys: Vec<String> = (0..ITEMS).map(|n| format!("k{n}")).collect();
    let items = keys.iter().enumerate().map(|(n, key)| NewItem::new(key.as_str(), key.as_bytes(), n as u64));
    let submit = Submit { items: items.collect(), ..world.submission(&[]) };
    world.store.submit(submit).await.expect("submit");
    let workers = (0..WORKERS).map(|n| tokio::spawn(take_turns(world.clone(), n)));
    let workers: Vec<_> = workers.collect();
    let mut given = BTreeSet::new();
    for worker in workers {
        for (id, stage) in worker.await.expect("no panic") {
            assert!(given.insert((id, stage)), "{id} was given twice at one stage");
        }
    }
    assert_eq!(given.len(), 2 * ITEMS, "each at both stages");
    let done = world.counters().await;
    let succeeded = done.get(&(STORE, Metric::State(StateKind::Succeeded)));
    assert_eq!(succeeded.copied(), i64::try_from(ITEMS).ok());
    world.assert_counters().await;
}

async fn take_turns(
    world: Arc<World>,
    n: usize,
) -> Vec<(redrive_core::id::ItemId, redrive_core::id::StageNo)> {
    let new = new_worker(&format!("w{n}"));
    let worker: WorkerId = world.store.register(new, START.after(LEASE), START).await.expect("worker");
    let (mut held, mut mine) = (Vec::<Item>::new(), Vec::new());
    loop {
        let slots = vec![world.slot(SPLIT, 5), world.slot(STORE, 5)];
        let asked = Turn {
            commit: (!held.is_empty()).then(|| commit(&world, &held)),
            gates: Vec::new(),
            claim: Some(Claim { worker, slots, pauses: 0, now: world.now }),
        };
        let turned = turn(&world, asked).await;
        assert_eq!(turned.applied, Ok(vec![Applied::Done; held.len()]));
        held = turned.claimed.expect("a claim").items.into_iter().map(|given| given.item).collect();
        if held.is_empty() {
            return mine;
        }
        mine.extend(held.iter().map(|item| (item.id, item.stage)));
    }
}
