//! Many at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::item::NewItem;
use redrive_store::{Applied, Claim, Commit, Store, Submit, Submitted};

use crate::world::{LEASE, SPLIT, START, World, new_worker, passed};

pub(crate) async fn two_hundred_claimers_share_without_overlap(store: Arc<dyn Store>) {
    const CLAIMERS: usize = 200;
    const ITEMS: usize = 1_000;
    let world = World::new(store).await;
    let keys: Vec<String> = (0..ITEMS).map(|n| format!("k{n}")).collect();
    let items = keys.iter().enumerate().map(|(n, key)| NewItem::new(key.as_str(), key.as_bytes(), n as u64));
    let submit = Submit { items: items.collect(), ..world.submission(&[]) };
    world.store.submit(submit).await.expect("submit");
    let mut claimers = Vec::new();
    for n in 0..CLAIMERS {
        let store = world.store.clone();
        let slot = world.slot(SPLIT, 7);
        claimers.push(tokio::spawn(async move {
            let new = new_worker(&format!("w{n}"));
            let worker = store.register(new, START.after(LEASE), START).await.expect("worker");
            let mut mine = Vec::new();
            loop {
                let claim = Claim { worker, slots: vec![slot], pauses: 0, now: START };
                let page = store.claim(claim).await.expect("claim").items;
                if page.is_empty() {
                    return mine;
                }
                mine.extend(page.into_iter().map(|held| held.item.id));
            }
        }));
    }
    let mut seen = BTreeSet::new();
    for claimer in claimers {
        for id in claimer.await.expect("no panic") {
            assert!(seen.insert(id), "{id} was given twice");
        }
    }
    assert_eq!(seen.len(), ITEMS, "together they got all");
    assert!(world.items().await.iter().all(|item| item.attempt == 1 && item.rev.0 == 1));
    world.assert_counters().await;
}

pub(crate) async fn rivals_for_one_token_have_one_winner(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    for held in world.claim(SPLIT, 3).await {
        let mut rivals = Vec::new();
        for _ in 0..20 {
            let store = world.store.clone();
            let changes = vec![world.decide(&held.item, passed()).into()];
            let commit = Commit { changes, now: world.now, ..Commit::default() };
            rivals.push(tokio::spawn(async move { store.commit(commit).await.expect("commit") }));
        }
        let mut won = 0;
        for rival in rivals {
            won += usize::from(rival.await.expect("no panic") == [Applied::Done]);
        }
        assert_eq!(won, 1);
    }
    world.assert_counters().await;
}

pub(crate) async fn concurrent_submissions_admit_once(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let mut submitters = Vec::new();
    for _ in 0..20 {
        let store = world.store.clone();
        let submit = world.submission(&["a", "b", "c", "d"]);
        submitters.push(tokio::spawn(async move { store.submit(submit).await.expect("submit") }));
    }
    let mut admitted = 0;
    for submitter in submitters {
        let answers = submitter.await.expect("no panic");
        admitted += answers.iter().filter(|answer| matches!(answer, Submitted::Admitted(_))).count();
        assert!(answers.iter().all(|answer| matches!(answer, Submitted::Admitted(_) | Submitted::Known(_))));
    }
    assert_eq!(admitted, 4);
    world.assert_counters().await;
}
