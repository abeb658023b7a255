//! Workers, their leases, and what becomes of what they hold.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::Event;
use redrive_core::failure::Class;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::item::{Item, State};
use redrive_core::time::Timestamp;
use redrive_store::{NewWorker, Retired, Store};

use crate::world::{LEASE, SPLIT, START, World, failed, new_run, new_worker, passed};

pub(crate) async fn a_retired_worker_gets_nothing(store: Arc<dyn Store>) {
    for how in [Retired::Stopped, Retired::Lost] {
        let world = World::new(store.clone()).await;
        world.admit(&["a"]).await;
        world.store.retire(world.worker, how).await.expect("retire");
        assert!(world.claim(SPLIT, 9).await.is_empty());
        assert!(!world.renew().await);
        assert!(world.claim(SPLIT, 9).await.is_empty());
        world.assert_counters().await;
    }
    let mut nobody = World::new(store).await;
    nobody.admit(&["a"]).await;
    nobody.worker = WorkerId(4_711);
    assert!(nobody.claim(SPLIT, 9).await.is_empty(), "a worker nobody knows");
    assert!(!nobody.renew().await);
    nobody.store.retire(nobody.worker, Retired::Lost).await.expect("retiring nobody is no error");
}

pub(crate) async fn a_lost_worker_is_not_renewed_back(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    world.claim_one(SPLIT).await;
    world.store.retire(world.worker, Retired::Lost).await.expect("retire");
    assert_eq!(orphans(&world, world.now).await.len(), 1, "free at once, long before the lease is over");
    assert!(!world.renew().await);
    world.store.retire(world.worker, Retired::Stopped).await.expect("retire");
    assert!(!world.renew().await);
    assert_eq!(orphans(&world, world.now).await.len(), 1);
}

pub(crate) async fn an_expired_worker_gets_nothing(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    world.now = START.after(LEASE);
    assert_eq!(world.claim(SPLIT, 1).await.len(), 1, "the last moment of a lease belongs to it");
    world.now = Timestamp(world.now.0 + 1);
    let claimed = world.claim_slots(vec![world.slot(SPLIT, 9)]).await;
    assert!(claimed.items.is_empty() && claimed.next_due.is_none());
}

pub(crate) async fn a_renewed_worker_goes_on(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    world.claim_one(SPLIT).await;
    world.advance(2 * LEASE);
    assert_eq!(orphans(&world, world.now).await.len(), 1);
    assert!(world.renew().await, "nobody has taken the lease away yet");
    assert!(orphans(&world, world.now).await.is_empty());
    assert_eq!(world.claim(SPLIT, 9).await.len(), 1);
}

pub(crate) async fn orphans_are_those_without_a_living_holder(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let all = world.admit(&["a", "b", "c", "d", "e"]).await;
    world.claim(SPLIT, 2).await;
    let first = world.worker;
    world.worker =
        world.store.register(new_worker("two"), START.after(3 * LEASE), START).await.expect("worker");
    world.claim(SPLIT, 2).await;
    let seqs = |items: &[Item]| items.iter().map(|item| item.seq).collect::<Vec<_>>();
    assert!(orphans(&world, START.after(LEASE)).await.is_empty());
    assert_eq!(seqs(&orphans(&world, START.after(2 * LEASE)).await), seqs(&all[..2]));
    assert_eq!(seqs(&orphans(&world, START.after(4 * LEASE)).await), seqs(&all[..4]));
    world.store.retire(world.worker, Retired::Lost).await.expect("retire");
    assert_eq!(seqs(&orphans(&world, START).await), seqs(&all[2..4]));
    world.store.retire(first, Retired::Stopped).await.expect("retire");
    assert_eq!(
        seqs(&orphans(&world, START).await),
        seqs(&all[..4]),
        "whatever a retired worker held is free"
    );
    assert_eq!(world.store.orphans(world.run, START, 3).await.expect("orphans").len(), 3);
    let other = world.store.create_run(new_run("other"), START).await.expect("run").id;
    assert!(world.store.orphans(other, START, 9).await.expect("orphans").is_empty(), "those of the run only");
    for orphan in orphans(&world, START).await {
        world.happen(&orphan, Event::LeaseExpired).await;
    }
    assert!(orphans(&world, START).await.is_empty());
    world.assert_counters().await;
}

pub(crate) async fn the_clock_may_step_back(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a"]).await;
    world.now = Timestamp(START.0 - 5_000);
    let claimed = world.claim_slots(vec![world.slot(SPLIT, 9)]).await;
    assert!(claimed.items.is_empty(), "it is due later than now");
    assert_eq!(claimed.next_due, Some(START));
    world.now = START;
    let held = world.claim_one(SPLIT).await;
    world.now = Timestamp(START.0 - 5_000);
    assert!(orphans(&world, world.now).await.is_empty());
    let after = world.happen(&held, passed()).await;
    assert_eq!(after.state, State::Waiting { due: world.now, cause: None });
    let history = world.store.history(held.seq).await.expect("history");
    assert!(history.attempts[0].ended_at >= history.attempts[0].started_at);
    world.assert_counters().await;
}

pub(crate) async fn what_a_clock_ahead_wrote_is_found_and_mended(store: Arc<dyn Store>) {
    const DAYS: i64 = 2 * 86_400_000;
    let mut world = World::new(store).await;
    world.admit(&["right"]).await;
    world.now = Timestamp(START.0 + DAYS);
    assert!(world.renew().await);
    let items = world.admit(&["fresh", "failed"]).await;
    let held: Vec<Item> = world.claim(SPLIT, 3).await.into_iter().map(|claimed| claimed.item).collect();
    for claimed in held.iter().filter(|item| item.seq != items[0].seq) {
        world.happen(claimed, failed(Class::Retryable, "no")).await;
    }
    world.happen(held.iter().find(|item| item.seq == items[0].seq).expect("held"), Event::Released).await;
    world.now = START;
    let ahead = |world: &World, limit: usize| {
        let (store, run) = (world.store.clone(), world.run);
        async move { store.ahead(run, START, limit).await.expect("ahead") }
    };
    let found = ahead(&world, 9).await;
    let keys: Vec<&str> = found.iter().map(|item| &*item.key).collect();
    assert_eq!(keys, ["right", "fresh", "failed"], "in the order of submission");
    assert_eq!(ahead(&world, 2).await.len(), 2);
    let other = world.store.create_run(new_run("other"), START).await.expect("run").id;
    assert!(world.store.ahead(other, START, 9).await.expect("ahead").is_empty(), "those of the run only");
    for item in &found {
        let State::Waiting { due, .. } = item.state else { panic!("{item:?}") };
        let wait = due.since(item.updated_at);
        let after = world.happen(item, Event::ClockSteppedBack).await;
        assert!(matches!(after.state, State::Waiting { due, .. } if due == START.after(wait)), "{after:?}");
    }
    assert!(ahead(&world, 9).await.is_empty());
    assert_eq!(world.store.history(found[2].seq).await.expect("history").marks[0].what, "stepped");
    world.assert_counters().await;
}

pub(crate) async fn leases_say_by_which_clock_they_were_given(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let listed = world.store.workers().await.expect("workers");
    assert_eq!((listed[0].lease_until, listed[0].renewed_at), (START.after(LEASE), Some(START)));
    world.advance(LEASE / 3);
    assert!(world.renew().await);
    let listed = world.store.workers().await.expect("workers");
    assert_eq!((listed[0].lease_until, listed[0].renewed_at), (world.now.after(LEASE), Some(world.now)));
}

pub(crate) async fn retired_workers_are_not_listed(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let later = START.after(Duration::from_secs(5));
    let two = world.store.register(new_worker("two"), later, START).await.expect("worker");
    let listed = world.store.workers().await.expect("workers");
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [world.worker, two]);
    assert_eq!(
        (&listed[1].spec, listed[1].lease_until, listed[1].started_at),
        (&new_worker("two"), later, START)
    );
    world.store.retire(two, Retired::Stopped).await.expect("retire");
    let listed = world.store.workers().await.expect("workers");
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [world.worker]);
}

pub(crate) async fn held_items_come_in_pages(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let all = world.admit(&["a", "b", "c", "d", "e"]).await;
    let held = world.claim(SPLIT, 4).await;
    world.happen(&held[1].item, passed()).await;
    let page = |after, limit| world.store.held(world.worker, after, limit);
    let seqs = |items: Vec<Item>| items.iter().map(|item| item.seq).collect::<Vec<_>>();
    assert_eq!(seqs(page(None, 2).await.expect("held")), [all[0].seq, all[2].seq]);
    assert_eq!(seqs(page(Some(all[2].seq), 2).await.expect("held")), [all[3].seq]);
    assert!(page(Some(all[3].seq), 2).await.expect("held").is_empty());
}

async fn orphans(world: &World, now: Timestamp) -> Vec<Item> {
    world.store.orphans(world.run, now, 99).await.expect("orphans")
}

pub(crate) async fn a_worker_says_which_runs_it_works_on(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let other = world.store.create_run(new_run("other"), START).await.expect("a run").id;
    let both = NewWorker { runs: vec![other, world.run], ..new_worker("misleading on r1") };
    let id = world.store.register(both, START.after(LEASE), START).await.expect("a worker");
    let workers = world.store.workers().await.expect("workers");
    let attends = |run, now| -> Vec<_> {
        workers.iter().filter(|worker| worker.attends(run, now)).map(|worker| worker.id).collect()
    };
    assert_eq!(attends(world.run, START), [id], "the first worker said nothing of runs");
    assert_eq!(attends(other, START.after(LEASE)), [id], "until the lease is over");
    assert_eq!(attends(other, Timestamp(START.after(LEASE).0 + 1)), []);
    assert_eq!(attends(RunId(other.0 + 1), START), []);
}
