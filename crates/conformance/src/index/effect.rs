//! What an outcome writes into the index is written with it or not at all.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::{Event, ItemReply};
use redrive_core::id::RunId;
use redrive_core::index::{Effect, Over, Publish};
use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_store::index::{Doc, FoundChunk, IndexSize};
use redrive_store::{Applied, Change, Commit, Error, Retired, RunChange, Submit};

use super::Both;
use super::shelf::{Shelf, doc, keep, key_of, seen, version};
use crate::world::START;

/// A shelf with a published document and a vector that no chunk uses, and one effect of each kind that would change it.
async fn prepared(both: Arc<dyn Both>) -> (Shelf, Vec<Effect>) {
    let mut shelf = Shelf::new(both).await;
    shelf.both.observe(shelf.no(), vec![seen("a", 1, None)]).await.expect("observe");
    shelf.put_text("a", "old", "1", "an old text").await;
    shelf.publish("a", "1", 7).await;
    let model = shelf.model();
    shelf.write(vec![keep(model, "kept", [4, 3, 2, 1])]).await;
    let mut chunk = shelf.chunk("a", "new", "2", "a new text");
    chunk.vector = Some(key_of(model, "kept"));
    let effects = vec![
        keep(model, "never kept", [1, 1, 1, 1]),
        Effect::Put(chunk.into()),
        Effect::Publish(Publish {
            doc: doc(shelf.no(), "a"),
            version: version("2"),
            edition: version("2"),
            over: Over::Any,
            facts: None,
            mark: 8,
        }),
        Effect::Forget(doc(shelf.no(), "a")),
    ];
    (shelf, effects)
}

type Look = (Vec<Doc>, Vec<FoundChunk>, IndexSize, Vec<bool>);

async fn look(shelf: &Shelf) -> Look {
    let keys = vec![key_of(shelf.model(), "never kept"), key_of(shelf.model(), "kept")];
    (
        shelf.docs().await,
        shelf.chunks().await,
        shelf.both.size(shelf.no()).await.expect("size"),
        shelf.both.known(keys).await.expect("known"),
    )
}

async fn changes(shelf: &mut Shelf, effects: Vec<Effect>) -> Vec<Change> {
    let items = shelf.running(effects.len()).await;
    items.iter().zip(effects).map(|(item, effect)| shelf.change(item, effect)).collect()
}

pub(super) async fn an_effect_is_written_with_its_outcome(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    for effect in effects {
        let before = look(&shelf).await;
        let item = shelf.running(1).await.remove(0);
        let change = shelf.change(&item, effect);
        let after = change.transition.after.clone();
        shelf.commit(vec![change]).await;
        assert_eq!(shelf.world.item(&item).await, after);
        assert_eq!(after.state.kind(), StateKind::Succeeded);
        assert_ne!(look(&shelf).await, before);
    }
    shelf.world.assert_counters().await;
    shelf.assert_whole().await;
}

pub(super) async fn a_stale_change_writes_nothing_into_the_index(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    for effect in effects {
        let item = shelf.running(1).await.remove(0);
        let change = shelf.change(&item, effect);
        shelf.world.happen(&item, Event::Finished(ItemReply::Output(None))).await;
        let commit = Commit { changes: vec![change], now: shelf.world.now, ..Commit::default() };
        assert_eq!(shelf.both.commit(commit).await, Ok(vec![Applied::Stale]));
        assert_eq!(look(&shelf).await, before);
    }
}

pub(super) async fn a_late_worker_writes_nothing_into_the_index(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    let late = changes(&mut shelf, effects).await;
    shelf.both.retire(shelf.world.worker, Retired::Lost).await.expect("retire");
    for orphan in shelf.both.orphans(shelf.world.run, shelf.world.now, 9).await.expect("orphans") {
        shelf.world.happen(&orphan, Event::LeaseExpired).await;
    }
    shelf.world.advance(Duration::from_secs(600));
    let commit = Commit { changes: late, now: shelf.world.now, ..Commit::default() };
    assert_eq!(shelf.both.commit(commit).await, Ok(vec![Applied::Stale; 4]));
    assert_eq!(look(&shelf).await, before);
}

pub(super) async fn a_failed_all_or_nothing_leaves_the_index(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    let whole = changes(&mut shelf, effects.clone()).await;
    let item = shelf.running(1).await.remove(0);
    let spoiler = shelf.change(&item, effects[0].clone());
    shelf.world.happen(&item, Event::Finished(ItemReply::Output(None))).await;
    let twice = whole[1].clone();
    for last in [spoiler, twice] {
        let changes = whole.iter().cloned().chain([last]).collect();
        let commit = Commit { changes, all_or_nothing: true, now: shelf.world.now, ..Commit::default() };
        assert_eq!(shelf.both.commit(commit).await, Ok(vec![Applied::Stale; 5]));
        assert_eq!(look(&shelf).await, before);
    }
    let commit = Commit { changes: whole, all_or_nothing: true, now: shelf.world.now, ..Commit::default() };
    assert_eq!(shelf.both.commit(commit).await, Ok(vec![Applied::Done; 4]));
    assert_eq!(look(&shelf).await.3, [true, true]);
}

pub(super) async fn a_cancelled_run_writes_nothing_into_the_index(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    let changes = changes(&mut shelf, effects).await;
    let cancel = RunChange::ask(Control::Cancelled, None, START);
    shelf.both.change_run(shelf.world.run, cancel).await.expect("cancel");
    let unless_cancelled = Some(shelf.world.run);
    let commit = Commit { changes, unless_cancelled, now: shelf.world.now, ..Commit::default() };
    assert_eq!(shelf.both.commit(commit).await, Ok(vec![Applied::Stale; 4]));
    assert_eq!(look(&shelf).await, before);
}

pub(super) async fn an_unknown_run_fails_the_effects_too(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    let changes = changes(&mut shelf, effects).await;
    let run = Some((RunId(4_711), RunChange::default()));
    let commit = Commit { changes, run, now: shelf.world.now, ..Commit::default() };
    assert!(matches!(shelf.both.commit(commit).await, Err(Error::NotFound(_))));
    assert_eq!(look(&shelf).await, before);
}

pub(super) async fn effects_come_with_a_submission_or_not_at_all(both: Arc<dyn Both>) {
    let (mut shelf, effects) = prepared(both).await;
    let before = look(&shelf).await;
    let good = changes(&mut shelf, effects[..2].to_vec()).await;
    let item = shelf.running(1).await.remove(0);
    let stale = shelf.change(&item, effects[3].clone());
    shelf.world.happen(&item, Event::Finished(ItemReply::Output(None))).await;
    let submit = |changes| Submit { changes, ..shelf.world.submission(&["with it"]) };
    let spoilt = submit(good.iter().cloned().chain([stale]).collect());
    assert!(matches!(shelf.both.submit(spoilt).await, Err(Error::Busy(_))));
    assert_eq!(look(&shelf).await, before);
    shelf.both.submit(submit(good)).await.expect("submit");
    assert_eq!(
        (shelf.keys().await, look(&shelf).await.3),
        (vec!["a/old".into(), "a/new".into()], vec![true; 2])
    );
}

pub(super) async fn effects_of_one_commit_are_written_in_order(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    let chunk = |key: &str, of: &str| Effect::Put(shelf.chunk("a", key, of, "text").into());
    let publish = |of: &str| {
        Effect::Publish(Publish {
            doc: doc(shelf.no(), "a"),
            version: version(of),
            edition: version(of),
            over: Over::Any,
            facts: None,
            mark: 1,
        })
    };
    let effects = vec![
        keep(model, "text", [1, 0, 0, 0]),
        chunk("x", "1"),
        Effect::Forget(doc(shelf.no(), "a")),
        chunk("y", "1"),
        chunk("z", "2"),
        publish("2"),
        chunk("late", "1"),
    ];
    shelf.write(effects).await;
    assert_eq!(shelf.keys().await, ["a/z", "a/late"]);
    assert_eq!(shelf.doc("a").await.expect("there").rev, 2);
    shelf.assert_whole().await;
}

pub(super) async fn many_may_write_into_one_document_at_once(both: Arc<dyn Both>) {
    const WRITERS: usize = 16;
    let mut shelf = Shelf::new(both).await;
    let items = shelf.running(2 * WRITERS).await;
    let running: Vec<_> = items
        .chunks(2)
        .enumerate()
        .map(|(n, pair)| {
            let chunk = shelf.chunk("a", &format!("k{n}"), "1", "the same text");
            let kept = keep(shelf.model(), "the same text", [1, 2, 3, 4]);
            let effects = [kept, Effect::Put(chunk.into())];
            let changes = pair.iter().zip(effects).map(|(item, effect)| shelf.change(item, effect)).collect();
            let commit = Commit { changes, now: shelf.world.now, ..Commit::default() };
            let both = shelf.both.clone();
            tokio::spawn(async move { both.commit(commit).await })
        })
        .collect();
    for one in running {
        assert_eq!(one.await.expect("a writer"), Ok(vec![Applied::Done; 2]));
    }
    let size = shelf.both.size(shelf.no()).await.expect("size");
    assert_eq!((size.chunks, size.vectors), (WRITERS as u64, 1));
    assert_eq!((shelf.docs().await.len(), shelf.word("same").await.len()), (1, WRITERS));
    shelf.world.assert_counters().await;
    shelf.assert_whole().await;
}
