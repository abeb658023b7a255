//! A store as it was at one moment.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::item::StateKind;
use redrive_store::{Commit, Content, Error, ItemFilter, ItemQuery, Prune, RunChange, RunFilter, Store};

use crate::world::{LEASE, SPLIT, World, new_run, new_worker, passed};

pub(crate) async fn a_snapshot_stays_as_it_was(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    let admitted = world.admit(&["a", "b", "c"]).await;
    let held = world.claim_one(SPLIT).await;
    let (items, counters) = (world.items().await, store.counters(world.run).await);
    let snapshot = store.snapshot().await.expect("snapshot").store;
    world.happen(&held, passed()).await;
    world.admit(&["d"]).await;
    store.create_run(new_run("another"), world.now).await.expect("run");
    let query = |state| ItemQuery {
        filter: ItemFilter { run: Some(world.run), state, ..ItemFilter::default() },
        after: None,
        limit: 99,
    };
    for _ in 0..2 {
        assert_eq!(snapshot.items(query(None)).await.expect("items"), items);
        let running = snapshot.items(query(Some(StateKind::Running))).await.expect("items");
        assert_eq!(running, std::slice::from_ref(&held));
        assert_eq!(snapshot.counters(world.run).await, counters);
        assert_eq!(snapshot.history(held.seq).await.expect("history").attempts, []);
        assert_eq!(snapshot.runs(RunFilter::default(), None, 9).await.expect("runs").len(), 1);
        assert_eq!(snapshot.payload(admitted[2].seq).await, Ok(Some(Content::Whole(Arc::from(*b"c")))));
    }
    let later = store.snapshot().await.expect("snapshot").store;
    assert_eq!(later.items(query(None)).await.expect("items"), world.items().await);
    assert_eq!(later.items(query(None)).await.expect("items").len(), 4);
}

pub(crate) async fn a_snapshot_refuses_to_be_written(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    world.admit(&["a"]).await;
    let snapshot = store.snapshot().await.expect("snapshot").store;
    let now = world.now;
    let refused = [
        snapshot.create_run(new_run("another"), now).await.err(),
        snapshot.change_run(world.run, RunChange::default()).await.err(),
        snapshot.begin_reading(world.run, 0, None).await.err(),
        snapshot.register(new_worker("two"), now.after(LEASE), now).await.err(),
        snapshot.renew(world.worker, now.after(Duration::from_secs(1)), now).await.err(),
        snapshot.submit(world.submission(&["b"])).await.err(),
        snapshot.commit(Commit { now, ..Commit::default() }).await.err(),
        snapshot
            .prune(Prune { finished_before: now, with_dead: false, only: None, limit: 9 }, None)
            .await
            .err(),
    ];
    for (at, refusal) in refused.iter().enumerate() {
        assert!(matches!(refusal, Some(Error::ReadOnly(_))), "verb {at}: {refusal:?}");
    }
    assert_eq!(world.items().await.len(), 1);
}

pub(crate) async fn what_was_just_written_is_whole(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, passed()).await;
    assert_eq!(store.damage(99).await, Ok(Vec::new()));
}
