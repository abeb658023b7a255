//! Writing transitions.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::BudgetChange;
use redrive_core::event::{Event, ItemReply};
use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, RunId};
use redrive_core::item::{NewItem, Payload, StateKind};
use redrive_core::status::Control;
use redrive_core::verdict::Verdict;
use redrive_store::{
    Applied, Change, Commit, Content, Error, ItemRev, KeptOutput, OperationKind, OutputKey, RunChange, Store,
    Submit,
};

use crate::world::{LEASE, SPLIT, STORE, World, failed, new_operation, new_worker, passed};

pub(crate) async fn stale_token_cannot_commit(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a"]).await;
    let first = world.claim_one(SPLIT).await;
    let late = world.decide(&first, passed());
    world.store.retire(world.worker, redrive_store::Retired::Lost).await.expect("retire");
    let orphan = world.store.orphans(world.run, world.now, 9).await.expect("orphans").remove(0);
    world.happen(&orphan, Event::LeaseExpired).await;
    world.advance(Duration::from_secs(600));
    world.worker =
        world.store.register(new_worker("two"), world.now.after(LEASE), world.now).await.expect("worker");
    let second = world.claim_one(SPLIT).await;
    assert!(second.rev > first.rev, "every claim has a token of its own");
    assert_eq!(world.commit(vec![late]).await, [Applied::Stale]);
    assert_eq!(world.item(&second).await, second, "nothing of the late result was written");
    assert_eq!(world.store.history(second.seq).await.expect("history").attempts.len(), 1);
    world.happen(&second, passed()).await;
    world.assert_counters().await;
}

pub(crate) async fn all_or_nothing_writes_nothing_when_one_is_stale(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = world.claim(SPLIT, 3).await;
    world.happen(&held[1].item, passed()).await;
    let before = (world.items().await, world.counters().await);
    let mut commit = Commit { all_or_nothing: true, now: world.now, ..Commit::default() };
    commit.changes = held.iter().map(|held| world.decide(&held.item, passed()).into()).collect();
    let budget = Some(BudgetChange { was: None, becomes: "x".to_owned() });
    commit.run = Some((world.run, RunChange { budget, ..RunChange::default() }));
    commit.operation = Some(new_operation(OperationKind::Redrive));
    assert_eq!(world.store.commit(commit.clone()).await, Ok(vec![Applied::Stale; 3]));
    assert_eq!((world.items().await, world.counters().await), before);
    assert_eq!(world.store.run(world.run).await.expect("run").expect("there").budget, None);
    assert_eq!(world.store.operations(None, 9).await, Ok(Vec::new()));
    commit.changes.remove(1);
    assert_eq!(world.store.commit(commit).await, Ok(vec![Applied::Done; 2]));
    world.assert_counters().await;
}

pub(crate) async fn others_commit_beside_a_stale_one(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = world.claim(SPLIT, 3).await;
    world.happen(&held[1].item, passed()).await;
    let all = held.iter().map(|held| world.decide(&held.item, passed())).collect();
    assert_eq!(world.commit(all).await, [Applied::Done, Applied::Stale, Applied::Done]);
    assert!(world.items().await.iter().all(|item| item.stage == STORE));
    world.assert_counters().await;
}

pub(crate) async fn run_and_operation_change_with_the_items(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let pause = RunChange::ask(Control::PausedQuota, Some("no credit".to_owned()), world.now);
    let commit = Commit {
        changes: vec![world.decide(&held, failed(Class::Quota, "pay")).into()],
        run: Some((world.run, pause)),
        operation: Some(new_operation(OperationKind::Cancel)),
        now: world.now,
        ..Commit::default()
    };
    assert_eq!(world.store.commit(commit).await, Ok(vec![Applied::Done]));
    let run = world.store.run(world.run).await.expect("run").expect("there");
    assert_eq!((run.control, run.reason.as_deref()), (Control::PausedQuota, Some("no credit")));
    assert_eq!(world.store.operations(None, 9).await.expect("operations").len(), 1);
    assert_eq!(world.item(&held).await.state.kind(), StateKind::Waiting);
}

pub(crate) async fn unknown_run_fails_the_whole_commit(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let commit = Commit {
        changes: vec![world.decide(&held, passed()).into()],
        run: Some((RunId(4_711), RunChange::default())),
        now: world.now,
        ..Commit::default()
    };
    assert!(matches!(world.store.commit(commit).await, Err(Error::NotFound(_))));
    assert_eq!(world.item(&held).await, held);
    world.assert_counters().await;
}

pub(crate) async fn a_purged_item_is_stale(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a"], "no").await.remove(0);
    let late = world.decide(&dead, Event::Redriven { due: world.now, payload: None, policy: None });
    let operation = new_operation(OperationKind::Purge);
    assert_eq!(world.store.purge(vec![ItemRev::from(&dead)], operation, world.now).await, Ok(1));
    assert_eq!(world.commit(vec![late]).await, [Applied::Stale]);
    assert!(world.items().await.is_empty());
}

pub(crate) async fn attempts_are_kept_in_order(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    for round in 0..4 {
        let held = world.claim_one(SPLIT).await;
        let event = match round {
            0 => Event::Interrupted,
            1 => failed(Class::RateLimited, "slow down"),
            2 => failed(Class::Retryable, "oops"),
            _ => passed(),
        };
        world.happen(&held, event).await;
        world.advance(Duration::from_secs(3_600));
        assert!(world.renew().await);
    }
    let last = world.claim_one(STORE).await;
    let transition = world.decide(&last, passed());
    let expected = transition.record.clone().expect("a record");
    assert_eq!(world.commit(vec![transition]).await, [Applied::Done]);
    let history = world.store.history(item.seq).await.expect("history");
    let numbers: Vec<_> = history.attempts.iter().map(|record| (record.stage, record.attempt)).collect();
    assert_eq!(numbers, [(SPLIT, 1), (SPLIT, 2), (SPLIT, 3), (SPLIT, 4), (STORE, 1)]);
    assert_eq!(history.attempts.last(), Some(&expected));
    assert_eq!(history.attempts[2].failure.as_ref().expect("failed").status, Some(503));
    assert!(history.attempts[2].wait.is_some());
    world.assert_counters().await;
}

pub(crate) async fn contents_of_every_size_come_back(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let content = |size: usize, seed: u8| -> Payload { (0..size).map(|n| (n as u8) ^ seed).collect() };
    let sizes = [0, 1, 2_047, 2_048, 2_049, 100_000];
    for (n, size) in sizes.into_iter().enumerate() {
        let new = NewItem::new(format!("k{n}"), content(size, 1), n as u64);
        let again = NewItem::new(format!("again{n}"), content(size, 1), n as u64);
        let submit = Submit { items: vec![new, again], ..world.submission(&[]) };
        world.store.submit(submit).await.expect("submit");
        for held in world.claim(SPLIT, 2).await {
            assert_eq!(held.payload, content(size, 1), "{size} bytes");
            for (to, seed) in [(size, 2), (100_000 - size, 3), (size, 2)] {
                let new = content(to, seed);
                let current = world.item(&held.item).await;
                let event = match current.state.kind() {
                    StateKind::Running => Event::Finished(ItemReply::Output(Some(new.clone()))),
                    StateKind::Waiting => Event::Killed { why: "enough".to_owned() },
                    _ => Event::Redriven { due: world.now, payload: Some(new.clone()), policy: None },
                };
                let transition = world.decide(&current, event);
                let changed = transition.payload.is_some();
                let before = world.store.payload(held.item.seq).await.expect("payload").expect("there");
                assert_eq!(world.commit(vec![transition]).await, [Applied::Done]);
                let after = world.store.payload(held.item.seq).await.expect("payload");
                assert_eq!(after, Some(if changed { Content::Whole(new) } else { before }));
            }
        }
    }
}

pub(crate) async fn contents_come_with_their_items_until_they_are_too_many(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let large: Payload = vec![b'7'; 5_000].into();
    let new = |key: &str, payload: Payload, n| NewItem::new(key.to_owned(), payload, n);
    let items = vec![
        new("a", Arc::from(*b"1"), 0),
        new("b", large.clone(), 1),
        new("c", Arc::from(*b"3"), 2),
        new("d", Arc::from(*b"4"), 3),
    ];
    world.store.submit(Submit { items, ..world.submission(&[]) }).await.expect("submit");
    let all = world.items().await;
    let seqs: Vec<_> = all.iter().map(|item| item.seq).collect();
    let read = async |seqs: Vec<_>, most| {
        let found = world.store.contents(seqs, most).await.expect("contents");
        found.into_iter().map(|found| (found.item, found.content.whole().expect("whole"))).collect::<Vec<_>>()
    };
    let whole = read(seqs.clone(), usize::MAX).await;
    assert_eq!(whole.iter().map(|(item, _)| item).collect::<Vec<_>>(), all.iter().collect::<Vec<_>>());
    assert_eq!(whole[1].1, large);
    let backwards: Vec<_> = seqs.iter().rev().copied().collect();
    assert_eq!(read(backwards, usize::MAX).await, whole.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(read(seqs.clone(), 0).await, whole[..1], "at least one");
    assert_eq!(read(seqs.clone(), 1).await, whole[..1]);
    assert_eq!(read(seqs.clone(), 2).await, whole[..2], "the one that goes over is whole");
    assert_eq!(read(seqs[2..].to_vec(), 2).await, whole[2..]);
    // An item and its content are of one moment.
    let held = world.claim_one(SPLIT).await;
    let moved = world.happen(&held, passed()).await;
    let found = read(vec![redrive_core::id::ItemSeq(9_999), held.seq], usize::MAX).await;
    let content = world.store.payload(held.seq).await.expect("payload").and_then(Content::whole);
    assert_eq!(found, [(moved, content.expect("there"))], "what is not there is left out");
    assert_eq!(read(Vec::new(), usize::MAX).await, []);
}

pub(crate) async fn outputs_are_found_by_what_was_done_to_what(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let key = |config, input: &[u8]| OutputKey { config, input: ContentHash::of(&[input]) };
    let outputs: [Payload; 2] = [Arc::from(&b"small"[..]), Arc::from(vec![7_u8; 9_000])];
    let held = world.claim(SPLIT, 2).await;
    for (held, output) in held.iter().zip(&outputs) {
        let reply = match held.item.key.as_ref() {
            "a" => ItemReply::Output(Some(output.clone())),
            _ => ItemReply::Judged(Verdict::NeedsReview, Some(output.clone())),
        };
        let transition = world.decide(&held.item, Event::Finished(reply));
        let change = Change { output: Some(key(10, held.item.key.as_bytes())), ..Change::from(transition) };
        let stale = change.clone();
        let commit = |change| Commit { changes: vec![change], now: world.now, ..Commit::default() };
        assert_eq!(world.store.commit(commit(change)).await, Ok(vec![Applied::Done]));
        let stale = Change { output: Some(key(99, b"never")), ..stale };
        assert_eq!(world.store.commit(commit(stale)).await, Ok(vec![Applied::Stale]));
    }
    let keys = vec![key(10, b"b"), key(99, b"never"), key(11, b"a"), key(10, b"a")];
    let kept = |at: usize, verdict| Some(KeptOutput { payload: outputs[at].clone(), verdict });
    let expected = vec![kept(1, Some(Verdict::NeedsReview)), None, None, kept(0, None)];
    assert_eq!(world.store.outputs(keys).await, Ok(expected));
}

pub(crate) async fn outputs_that_are_to_be_made_anew_are_forgotten_of_their_item_alone(
    store: Arc<dyn Store>,
) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let key = |config, input: &[u8]| OutputKey { config, input: ContentHash::of(&[input]) };
    let commit = |change| Commit { changes: vec![change], now: world.now, ..Commit::default() };
    let mut last = Vec::new();
    for held in world.claim(SPLIT, 2).await {
        let output: Payload = Arc::from(&b"made"[..]);
        let transition = world.decide(&held.item, Event::Finished(ItemReply::Output(Some(output))));
        last.push(transition.after.clone());
        let change = Change { output: Some(key(10, held.item.key.as_bytes())), ..Change::from(transition) };
        assert_eq!(world.store.commit(commit(change)).await, Ok(vec![Applied::Done]));
    }
    let forget = |item: &redrive_core::item::Item, marks: &[i64]| {
        let transition = world.decide(item, Event::Killed { why: "so".to_owned() });
        Change { forgets: marks.to_vec(), ..Change::from(transition) }
    };
    let is_kept = async || {
        let found = world.store.outputs(vec![key(10, b"a"), key(10, b"b")]).await.expect("outputs");
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    let mut stale = forget(&last[0], &[10]);
    stale.transition.guard = redrive_core::id::Rev(0);
    assert_eq!(world.store.commit(commit(stale)).await, Ok(vec![Applied::Stale]));
    assert_eq!(is_kept().await, [true, true], "a stale change forgets nothing");
    assert_eq!(world.store.commit(commit(forget(&last[0], &[9, 10]))).await, Ok(vec![Applied::Done]));
    assert_eq!(is_kept().await, [false, true]);
    assert_eq!(world.store.commit(commit(forget(&last[1], &[11]))).await, Ok(vec![Applied::Done]));
    assert_eq!(is_kept().await, [false, true]);
}

pub(crate) async fn counters_equal_a_recount_after_every_step(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c", "d", "e"]).await;
    world.assert_counters().await;
    for class in [Class::Final, Class::Timeout, Class::RateLimited, Class::Crash, Class::Retryable] {
        for held in world.claim(SPLIT, 3).await {
            world.assert_counters().await;
            let after = world.happen(&held.item, failed(class, "oops")).await;
            world.assert_counters().await;
            if after.state.kind() == StateKind::Dead {
                world.happen(&after, Event::Redriven { due: world.now, payload: None, policy: None }).await;
                world.assert_counters().await;
            }
        }
        world.advance(Duration::from_secs(4_000));
        assert!(world.renew().await);
    }
    for held in world.claim(SPLIT, 9).await {
        world.happen(&held.item, passed()).await;
        world.assert_counters().await;
    }
    let healed: i64 = world
        .counters()
        .await
        .iter()
        .filter(|((_, metric), _)| matches!(metric, redrive_core::tally::Metric::HealedIn(_)))
        .map(|(_, n)| n)
        .sum();
    assert!(healed > 0, "an item that failed and passed is counted as healed");
}
