//! Forgetting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::{Event, ItemReply};
use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, ItemSeq, Rev, StageNo};
use redrive_core::item::{Item, NewItem, Payload, StateKind};
use redrive_core::tally::{Metric, place};
use redrive_store::{
    Applied, Change, Commit, ItemRev, Operation, OperationKind, OperationState, OutputKey, Prune, RunChange,
    Scrub, Store, Submit, Submitted, Tombstone, TombstoneQuery,
};

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
    let gone = world.store.purge(vec![ItemRev::from(&dead)], operation, world.now).await;
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
    assert_eq!(of(|metric| *metric == Metric::Purged(StateKind::Dead)), 2);
    assert_eq!(
        of(|metric| *metric == Metric::Purged(StateKind::Waiting)),
        1,
        "it stays counted as what it was"
    );
    assert_eq!(of(|metric| matches!(metric, Metric::State(_))), 1);
    assert_eq!(of(|metric| matches!(metric, Metric::DeadReason(_) | Metric::DeadClass(_))), 0);
    assert_eq!(world.store.operations(None, 9).await.expect("operations")[0].changed, 1);
}

pub(crate) async fn purge_leaves_what_changed_or_is_not_finished(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let waiting = world.admit(&["c"]).await.remove(0);
    world.happen(&dead[0], Event::Redriven { due: world.now, payload: None, policy: None }).await;
    let wanted = vec![
        ItemRev::from(&dead[0]),
        ItemRev { rev: Rev(dead[1].rev.0 - 1), ..ItemRev::from(&dead[1]) },
        ItemRev::from(&waiting),
        ItemRev { seq: ItemSeq(4_711), rev: Rev(0) },
    ];
    let mut operation = new_operation(OperationKind::Purge);
    operation.state = OperationState::Done;
    assert_eq!(world.store.purge(wanted, operation, world.now).await, Ok(0));
    assert_eq!(world.items().await.len(), 3);
    assert_eq!(world.store.operations(None, 9).await.expect("operations")[0].state, OperationState::Done);
    world.assert_counters().await;
}

pub(crate) async fn tombstones_tell_what_was_purged(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let kept = world.bury(&["c"], "no").await;
    assert_eq!(tombstones(&world, TombstoneQuery::default()).await, []);
    world.advance(Duration::from_secs(7));
    let operation = new_operation(OperationKind::Purge);
    let id = world.store.save_operation(operation.clone()).await.expect("saved");
    let operation = Operation { id, ..operation };
    let all = dead.iter().map(ItemRev::from).collect();
    assert_eq!(world.store.purge(all, operation, world.now).await, Ok(2));
    let expected = |item: &Item| Tombstone {
        seq: item.seq,
        id: item.id,
        run: world.run,
        key: item.key.clone(),
        was: Some(place(item)),
        at: world.now,
        operation: id,
        actor: Some("tester".to_owned()),
    };
    let both: Vec<Tombstone> = dead.iter().map(expected).collect();
    let none = TombstoneQuery::default;
    assert_eq!(tombstones(&world, none()).await, both);
    assert_eq!(tombstones(&world, TombstoneQuery { run: Some(world.run), ..none() }).await, both);
    let by_key = TombstoneQuery { key: Some("a".to_owned()), ..none() };
    assert_eq!(tombstones(&world, by_key).await, [expected(&dead[0])]);
    let by_id = TombstoneQuery { ids: Some(dead[1].id.versions()), ..none() };
    assert_eq!(tombstones(&world, by_id).await, [expected(&dead[1])]);
    let living = TombstoneQuery { ids: Some((kept[0].id, kept[0].id)), ..none() };
    assert_eq!(tombstones(&world, living).await, []);
    let page = TombstoneQuery { limit: 1, ..none() };
    assert_eq!(world.store.tombstones(page.clone()).await.as_deref(), Ok(&both[..1]));
    let next = TombstoneQuery { after: Some(both[0].seq), ..page };
    assert_eq!(world.store.tombstones(next).await.as_deref(), Ok(&both[1..]));
    let other = World::new(world.store.clone()).await;
    let none_there = TombstoneQuery { run: Some(other.run), ..none() };
    assert_eq!(tombstones(&world, none_there).await, []);
}

pub(crate) async fn a_purged_item_is_known_and_not_admitted_again(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await.remove(0);
    purge(&world, &dead).await;
    let before = world.counters().await;
    let answers = world.store.submit(world.submission(&["a", "b", "c"])).await.expect("submit");
    assert_eq!(answers[0], Submitted::Known(dead.id), "it is left alone");
    assert!(matches!(answers[1..], [Submitted::Known(_), Submitted::Admitted(_)]), "{answers:?}");
    assert_eq!(world.by_id(dead.id).await, None);
    let elsewhere = NewItem::new("a", *b"a", 9);
    let other_place = Submit { items: vec![elsewhere], new_versions: true, ..world.submission(&[]) };
    assert_eq!(world.store.submit(other_place).await.as_deref(), Ok(&[Submitted::Known(dead.id)][..]));
    let after = world.counters().await;
    assert_eq!(after[&(SPLIT, Metric::Admitted)], before[&(SPLIT, Metric::Admitted)] + 1);
    assert_eq!(after[&(SPLIT, Metric::Purged(StateKind::Dead))], 1);
    // Other content is another version, and another run has items of its own.
    let edited = Submit { items: vec![NewItem::new("a", *b"edited", 0)], ..world.submission(&[]) };
    let answers = world.store.submit(edited).await.expect("submit");
    assert!(matches!(answers[..], [Submitted::Admitted(_)]), "{answers:?}");
    World::new(world.store.clone()).await.admit(&["a"]).await;
}

pub(crate) async fn a_purged_child_that_is_given_again_is_admitted_and_purged_anew(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let parent = world.happen(&held, split(&["x", "y"])).await;
    let child = world.claim_one(PART).await;
    let dead = world.happen(&child, failed(Class::Final, "no")).await;
    let parent = world.happen(&parent, Event::Killed { why: "enough".to_owned() }).await;
    purge(&world, &dead).await;
    let before = world.counters().await;
    let back = world.happen(&parent, Event::Redriven { due: world.now, payload: None, policy: None }).await;
    let held = world.claim_one(SPLIT).await;
    assert_eq!(held.seq, back.seq);
    world.happen(&held, split(&["x", "y"])).await;
    let again = world.by_id(dead.id).await.expect("it is there again");
    assert_eq!((again.attempt, again.state.kind()), (0, StateKind::Waiting));
    assert!(again.seq > dead.seq, "a new item with the old name");
    assert_eq!(world.store.history(again.seq).await, Ok(redrive_store::History::default()));
    // Each purge has its tombstone, and each admission was one.
    let of = |counters: &BTreeMap<(StageNo, Metric), i64>, metric| counters.get(&(PART, metric)).copied();
    let after = world.counters().await;
    assert_eq!((of(&before, Metric::Admitted), of(&after, Metric::Admitted)), (Some(2), Some(3)));
    assert_eq!(of(&after, Metric::Purged(StateKind::Dead)), Some(1));
    let again = world.happen(&again, Event::Killed { why: "again".to_owned() }).await;
    purge(&world, &again).await;
    assert_eq!(of(&world.counters().await, Metric::Purged(StateKind::Dead)), Some(2));
    let both = tombstones(&world, TombstoneQuery::default()).await;
    assert_eq!(
        both.iter().map(|one| (one.seq, one.id)).collect::<Vec<_>>(),
        [(dead.seq, dead.id), (again.seq, dead.id)]
    );
}

pub(crate) async fn a_purge_takes_kept_outputs_with_it(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let key = |n: u8| OutputKey { config: 1, input: ContentHash([n; 16]) };
    let mut kept = Vec::new();
    for (n, held) in (0..).zip(world.claim(SPLIT, 2).await) {
        let output = Event::Finished(ItemReply::Output(Some(Arc::from(&b"output"[..]))));
        let transition = world.decide(&held.item, output);
        kept.push(transition.after.clone());
        let change = Change { output: Some(key(n)), ..Change::from(transition) };
        let commit = Commit { changes: vec![change], now: world.now, ..Commit::default() };
        world.store.commit(commit).await.expect("commit");
    }
    let outputs = || world.store.outputs(vec![key(0), key(1)]);
    assert!(outputs().await.expect("outputs").iter().all(Option::is_some));
    let dead = world.happen(&kept[0], Event::Killed { why: "enough".to_owned() }).await;
    purge(&world, &dead).await;
    let left: Vec<bool> = outputs().await.expect("outputs").iter().map(Option::is_some).collect();
    assert_eq!(left, [false, true], "its own goes, that of another stays");
    let scrubbed = world.store.scrub(Scrub::Leftovers).await.expect("scrubbed");
    assert_eq!(scrubbed.left, None);
    assert!(outputs().await.expect("outputs")[1].is_some() && world.items().await.len() == 1);
}

pub(crate) async fn giving_room_back_changes_nothing_that_is_kept(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.bury(&["a", "b"], "no").await;
    let before = world.items().await;
    let scrubbed = world.store.scrub(Scrub::All).await.expect("scrubbed");
    assert_eq!((scrubbed.left, scrubbed.free), (None, 0));
    assert_eq!(world.items().await, before);
    world.assert_counters().await;
}

pub(crate) async fn prune_spares_runs_with_dead_items_unless_told(store: Arc<dyn Store>) {
    let good = World::new(store.clone()).await;
    good.admit(&["a"]).await;
    let held = good.claim_one(SPLIT).await;
    good.happen(&held, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    let bad = World::new(store.clone()).await;
    bad.bury(&["a", "b"], "no").await;
    let cleaned = World::new(store.clone()).await;
    let dead = cleaned.bury(&["a"], "no").await.remove(0);
    purge(&cleaned, &dead).await;
    for world in [&good, &bad, &cleaned] {
        finish(world).await;
    }
    let prune = Prune {
        finished_before: START.after(Duration::from_secs(1)),
        with_dead: false,
        only: None,
        limit: 10,
    };
    let pruned = store.prune(prune, None).await.expect("prune");
    assert_eq!((pruned.items, pruned.runs, pruned.dead, pruned.tombstones), (1, 2, 0, 1));
    assert_eq!(bad.items().await.len(), 2, "dead letters are not forgotten unasked");
    assert_eq!(tombstones(&cleaned, TombstoneQuery::default()).await, [], "they go with their run");
    bad.assert_counters().await;
    let pruned = store.prune(Prune { with_dead: true, ..prune }, None).await.expect("prune");
    assert_eq!((pruned.items, pruned.runs, pruned.dead, pruned.more), (2, 1, 2, false));
    assert_eq!(bad.store.run(bad.run).await, Ok(None));
}

pub(crate) async fn prune_goes_in_pages(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let items = (0..25_u8).map(|n| NewItem::new(format!("k{n}"), vec![n % 4; 5_000], u64::from(n)));
    let submit = Submit { items: items.collect(), ..world.submission(&[]) };
    world.store.submit(submit).await.expect("submit");
    for held in world.claim(SPLIT, 25).await {
        world.happen(&held.item, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    }
    let kept = World::new(world.store.clone()).await;
    let new = NewItem::new("kept", vec![1_u8; 5_000], 0);
    let submit = Submit { items: vec![new], ..kept.submission(&[]) };
    kept.store.submit(submit).await.expect("submit");
    finish(&world).await;
    let prune = Prune {
        finished_before: START.after(Duration::from_secs(1)),
        with_dead: true,
        only: None,
        limit: 10,
    };
    let mut pages = Vec::new();
    loop {
        let pruned = world.store.prune(prune, None).await.expect("prune");
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

pub(crate) async fn prune_pages_are_counted_by_their_operation(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.bury(&["a", "b", "c"], "no").await;
    finish(&world).await;
    let prune =
        Prune { finished_before: START.after(Duration::from_secs(1)), with_dead: true, only: None, limit: 2 };
    let mut operation = new_operation(OperationKind::Prune);
    operation.id = world.store.save_operation(operation.clone()).await.expect("saved");
    let row = || async { world.store.operation(operation.id).await.expect("read").expect("there") };
    world.store.prune(prune, Some(operation.clone())).await.expect("prune");
    assert_eq!((row().await.changed, world.items().await.len()), (2, 1), "as many as the page took");
    // Somebody stops it while its second page is under way: the page counts, and it stays stopped.
    let stopped = Operation { state: OperationState::Cancelled, ..row().await };
    world.store.save_operation(stopped).await.expect("saved");
    let second = Operation { changed: 2, ..operation.clone() };
    world.store.prune(prune, Some(second)).await.expect("prune");
    assert_eq!((row().await.changed, row().await.state), (3, OperationState::Cancelled));
    assert_eq!(world.store.operations(None, 9).await.expect("operations").len(), 1);
}

pub(crate) async fn prune_leaves_young_and_unfinished_runs(store: Arc<dyn Store>) {
    let young = World::new(store.clone()).await;
    let open = World::new(store.clone()).await;
    young.bury(&["a"], "no").await;
    open.bury(&["a"], "no").await;
    finish(&young).await;
    let prune = Prune { finished_before: START, with_dead: true, only: None, limit: 10 };
    assert_eq!(store.prune(prune, None).await, Ok(redrive_store::Pruned::default()));
    let later = Prune {
        finished_before: START.after(Duration::from_secs(1)),
        with_dead: true,
        only: None,
        limit: 10,
    };
    let pruned = store.prune(later, None).await.expect("prune");
    assert_eq!((pruned.items, pruned.runs, pruned.more), (1, 1, false));
    assert_eq!(open.items().await.len(), 1);
    let again = store.create_run(crate::world::new_run("source"), START).await.expect("run");
    assert!(again.id > open.run, "numbers of runs are not given again");
}

pub(crate) async fn prune_takes_one_run_when_it_is_named(store: Arc<dyn Store>) {
    let named = World::new(store.clone()).await;
    let other = World::new(store.clone()).await;
    let open = World::new(store.clone()).await;
    for world in [&named, &other, &open] {
        world.admit(&["a"]).await;
        let held = world.claim_one(SPLIT).await;
        world.happen(&held, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    }
    finish(&named).await;
    finish(&other).await;
    let later = START.after(Duration::from_secs(1));
    let only = |run| Prune { finished_before: later, with_dead: false, only: Some(run), limit: 10 };
    let pruned = store.prune(only(named.run), None).await.expect("prune");
    assert_eq!((pruned.items, pruned.runs, pruned.more), (1, 1, false));
    assert_eq!(store.prune(only(open.run), None).await.expect("prune").runs, 0, "it is not finished");
    assert_eq!(store.prune(only(named.run), None).await.expect("prune").runs, 0, "it is gone");
    assert_eq!(store.run(named.run).await, Ok(None));
    for world in [&other, &open] {
        assert_eq!(world.items().await.len(), 1);
        world.assert_counters().await;
    }
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
    assert_eq!(world.commit(vec![late]).await, [Applied::Stale]);
    assert_eq!(world.item(&other).await, other);
}

pub(crate) async fn outputs_are_forgotten_with_the_run_that_wrote_them_last(store: Arc<dyn Store>) {
    let (old, new) = (World::new(store.clone()).await, World::new(store.clone()).await);
    let key = |name: &str| OutputKey { config: 7, input: ContentHash::of(&[name.as_bytes()]) };
    // Both runs have `shared`, and the younger one wrote it last.
    for (world, names) in [(&old, ["a", "b", "shared"]), (&new, ["c", "shared", "d"])] {
        world.admit(&names).await;
        for held in world.claim(SPLIT, 3).await {
            let output: Payload = Arc::from(format!("{} of {}", held.item.key, world.run).into_bytes());
            let transition = world.decide(&held.item, Event::Finished(ItemReply::Output(Some(output))));
            let change = Change { output: Some(key(&held.item.key)), ..Change::from(transition) };
            let commit = Commit { changes: vec![change], now: world.now, ..Commit::default() };
            assert_eq!(store.commit(commit).await, Ok(vec![Applied::Done]));
            let current = world.item(&held.item).await;
            world.happen(&current, Event::CancelRequested).await;
        }
    }
    finish(&old).await;
    let prune = Prune {
        finished_before: START.after(Duration::from_secs(1)),
        with_dead: false,
        only: None,
        limit: 2,
    };
    let mut pages = Vec::new();
    loop {
        let pruned = store.prune(prune, None).await.expect("prune");
        pages.push((pruned.items, pruned.contents, pruned.runs));
        if !pruned.more {
            break;
        }
    }
    assert_eq!(
        pages,
        [(2, 0, 0), (1, 2, 1)],
        "three items in pages of two, and the two outputs with the last"
    );
    let left = store.outputs(["a", "b", "shared", "c", "d"].map(key).to_vec()).await.expect("outputs");
    let there: Vec<bool> = left.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, false, true, true, true]);
    let shared = format!("shared of {}", new.run);
    assert_eq!(left[2].as_ref().map(|kept| &*kept.payload), Some(shared.as_bytes()));
}

async fn tombstones(world: &World, query: TombstoneQuery) -> Vec<Tombstone> {
    let query = TombstoneQuery { limit: query.limit.max(99), ..query };
    world.store.tombstones(query).await.expect("tombstones")
}

async fn purge(world: &World, item: &Item) {
    let operation = new_operation(OperationKind::Purge);
    assert_eq!(world.store.purge(vec![ItemRev::from(item)], operation, world.now).await, Ok(1));
}

async fn finish(world: &World) {
    let change = RunChange::finished(world.now);
    world.store.change_run(world.run, change).await.expect("change");
}
