//! Admitting items.

use std::sync::Arc;

use redrive_core::event::{Event, Gone, ItemReply};
use redrive_core::failure::{Class, Kind};
use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::item::{DeadReason, LastFailure, NewItem, State, StateKind};
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_store::{Cursor, Error, ItemFilter, ItemQuery, RunChange, RunRow, Store, Submit, Submitted};

use crate::world::{SPLIT, World};

pub(crate) async fn the_same_item_is_admitted_once(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let first = world.store.submit(world.submission(&["a", "b"])).await.expect("submit");
    let id = |key: &str| ItemId::derive(world.run, None, key, ContentHash::of(&[key.as_bytes()]));
    assert_eq!(first, [Submitted::Admitted(id("a")), Submitted::Admitted(id("b"))]);
    world.claim_one(SPLIT).await;
    let second = world.store.submit(world.submission(&["a", "b"])).await.expect("submit");
    assert_eq!(second, [Submitted::Known(id("a")), Submitted::Known(id("b"))]);
    assert_eq!(world.items().await.len(), 2);
    let other = World::new(world.store.clone()).await;
    let elsewhere = other.store.submit(other.submission(&["a"])).await.expect("submit");
    assert!(matches!(elsewhere[..], [Submitted::Admitted(other)] if other != id("a")), "another run");
    world.assert_counters().await;
    other.assert_counters().await;
}

pub(crate) async fn another_place_is_a_duplicate(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    for (origin, expected) in [(0, Submitted::Known(item.id)), (7, Submitted::Duplicate(item.id))] {
        let submit = Submit { items: vec![NewItem::new("a", &b"a"[..], origin)], ..world.submission(&[]) };
        assert_eq!(world.store.submit(submit).await, Ok(vec![expected]));
    }
    let large = Submit { items: vec![NewItem::new("z", &b"z"[..], u64::MAX)], ..world.submission(&[]) };
    assert!(matches!(world.store.submit(large.clone()).await.expect("submit")[..], [Submitted::Admitted(_)]));
    assert!(matches!(world.store.submit(large).await.expect("submit")[..], [Submitted::Known(_)]));
}

pub(crate) async fn other_content_is_changed(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    let answers = world.store.submit(version(&world, "new")).await.expect("submit");
    assert_eq!(answers, [Submitted::Changed(Box::new(item.clone()))]);
    assert_eq!(world.items().await, [item]);
    world.assert_counters().await;
}

pub(crate) async fn new_versions_are_admitted_beside(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let old = world.admit(&["a"]).await.remove(0);
    let submit = Submit { new_versions: true, ..version(&world, "new") };
    let answers = world.store.submit(submit.clone()).await.expect("submit");
    assert!(
        matches!(answers[..], [Submitted::Admitted(id)] if id != old.id && id.versions() == old.id.versions())
    );
    assert!(matches!(world.store.submit(submit).await.expect("submit")[..], [Submitted::Known(_)]));
    assert_eq!(world.items().await.len(), 2);
    world.assert_counters().await;
}

pub(crate) async fn a_superseded_version_is_no_obstacle(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let old = world.admit(&["a"]).await.remove(0);
    world.happen(&old, Event::Superseded(Gone::Newer)).await;
    let answers = world.store.submit(version(&world, "new")).await.expect("submit");
    assert!(matches!(answers[..], [Submitted::Admitted(_)]));
    let third = world.store.submit(version(&world, "third")).await.expect("submit");
    assert!(matches!(&third[..], [Submitted::Changed(item)] if item.id != old.id));
    world.assert_counters().await;
}

pub(crate) async fn content_that_was_superseded_is_not_simply_known(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let old = world.admit(&["a"]).await.remove(0);
    let gone = world.happen(&old, Event::Superseded(Gone::Newer)).await;
    let cursor = Some(Cursor { position: "9".to_owned(), done: true, duplicates: 0 });
    let submit = Submit { cursor: cursor.clone(), ..world.submission(&["a"]) };
    let answers = world.store.submit(submit.clone()).await.expect("submit");
    assert_eq!(answers, [Submitted::Changed(Box::new(gone.clone()))]);
    assert_eq!(world.store.run(world.run).await.expect("run").expect("it").cursor, None);
    let back = world.decide(&gone, Event::Restored { payload: Some((*b"a").into()) });
    let restored = Submit { new_versions: true, changes: vec![back.into()], ..submit };
    assert_eq!(world.store.submit(restored.clone()).await, Ok(vec![Submitted::Known(old.id)]));
    assert_eq!(world.items().await[0].state.kind(), StateKind::Waiting);
    assert!(world.store.run(world.run).await.expect("run").expect("it").admitted_all);
    assert!(
        matches!(world.store.submit(restored).await, Err(Error::Busy(_))),
        "a stale change refuses all of it"
    );
    world.assert_counters().await;
}

pub(crate) async fn a_stale_change_takes_the_whole_submission_back(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    let late = world.decide(&item, Event::Superseded(Gone::Newer));
    world.claim_one(SPLIT).await;
    let before = world.items().await;
    let submit = Submit { changes: vec![late.into()], ..world.submission(&["b", "c"]) };
    assert!(matches!(world.store.submit(submit).await, Err(Error::Busy(_))));
    assert_eq!(world.items().await, before);
    world.assert_counters().await;
}

pub(crate) async fn a_source_that_was_read_to_its_end_stays_so(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    for (position, done) in [("5", false), ("9", true), ("7", false)] {
        let cursor = Some(Cursor { position: position.to_owned(), done, duplicates: 0 });
        world.store.submit(Submit { cursor, ..world.submission(&[position]) }).await.expect("submit");
    }
    let row = world.store.run(world.run).await.expect("run").expect("it");
    assert_eq!((row.cursor.as_deref(), row.admitted_all), (Some("9"), true));
}

pub(crate) async fn the_cursor_waits_for_a_changed_item(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let cursor = Cursor { position: "line 9".to_owned(), done: true, duplicates: 2 };
    let mut submit = Submit { cursor: Some(cursor), ..version(&world, "new") };
    submit.items.push(NewItem::new("b", &b"b"[..], 9));
    world.store.submit(submit.clone()).await.expect("submit");
    let row = row(&world).await;
    assert_eq!((row.cursor, row.admitted_all, row.duplicates), (None, false, 0));
    assert_eq!(world.items().await.len(), 2, "what could be admitted was");
    submit.new_versions = true;
    world.store.submit(submit).await.expect("submit");
    let row = self::row(&world).await;
    assert_eq!((row.cursor.as_deref(), row.admitted_all, row.duplicates), (Some("line 9"), true, 2));
    world.assert_counters().await;
}

pub(crate) async fn repeated_lines_are_counted_with_the_cursor(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let cursor = |position: &str| Cursor { position: position.to_owned(), done: false, duplicates: 1 };
    let mut submit = Submit { cursor: Some(cursor("2")), ..world.submission(&["a", "b"]) };
    submit.items.push(NewItem::new("a", &b"a"[..], 40));
    world.store.submit(submit).await.expect("submit");
    assert_eq!(row(&world).await.duplicates, 2, "the one the source told of, and the one that was found");
    let again = Submit { cursor: Some(cursor("3")), ..world.submission(&["a"]) };
    world.store.submit(again).await.expect("submit");
    let row = row(&world).await;
    assert_eq!((row.cursor.as_deref(), row.duplicates), (Some("3"), 3));
}

pub(crate) async fn a_later_reading_finds_an_item_again_wherever_it_stands(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let before = world.admit(&["a", "b", "c"]).await;
    // What was admitted is of the first reading.
    assert_eq!(world.store.begin_reading(world.run, 0, None).await, Ok(1));
    let number = world.store.begin_reading(world.run, 1, Some("there".to_owned())).await.expect("begun");
    let row = row(&world).await;
    assert_eq!((row.reading, row.cursor.as_deref(), row.admitted_all), (number, Some("there"), false));
    // "a" was before the place where this reading starts; "c" moved up to where "b" was, and "b" is gone.
    let reading = Reading { number, agreed: 1 };
    let items = vec![
        NewItem::new("c", &b"c"[..], 1),
        NewItem::new("a", &b"a"[..], 2),
        NewItem::new("c", &b"c"[..], 3),
    ];
    let submit = Submit { items, reading, ..world.submission(&[]) };
    let id = |at: usize| before[at].id;
    let expected = vec![Submitted::Known(id(2)), Submitted::Duplicate(id(0)), Submitted::Duplicate(id(2))];
    assert_eq!(world.store.submit(submit).await, Ok(expected));
    let after = world.items().await;
    assert_eq!(
        (after[2].origin, after[2].reading, after[2].rev),
        (1, number, before[2].rev),
        "no change of the item"
    );
    assert_eq!(after[..2], before[..2]);
    let filter = ItemFilter { run: Some(world.run), unseen: Some(reading), ..ItemFilter::default() };
    let unseen = |filter: ItemFilter| world.store.items(ItemQuery { filter, after: None, limit: 9 });
    let left = unseen(filter.clone()).await.expect("items");
    assert_eq!(left.iter().map(|item| item.id).collect::<Vec<_>>(), [id(1)]);
    world.happen(&left[0], Event::Superseded(Gone::Removed)).await;
    assert_eq!(unseen(filter).await, Ok(Vec::new()), "what is taken out is not looked for");
    world.assert_counters().await;
}

pub(crate) async fn what_an_older_reading_still_says_is_refused(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    assert_eq!(world.store.begin_reading(world.run, 0, None).await, Ok(1));
    assert_eq!(world.store.begin_reading(world.run, 0, None).await, Err(Error::Overtaken { reading: 1 }));
    assert_eq!(world.store.begin_reading(world.run, 1, None).await, Ok(2));
    let late = world.store.submit(world.submission(&["a"])).await;
    assert_eq!(late, Err(Error::Overtaken { reading: 2 }));
    assert!(world.items().await.is_empty());
    let present = Submit { reading: Reading { number: 2, agreed: 0 }, ..world.submission(&["a"]) };
    assert!(matches!(world.store.submit(present).await.expect("submit")[..], [Submitted::Admitted(_)]));
    assert!(matches!(world.store.begin_reading(RunId(4_711), 0, None).await, Err(Error::NotFound(_))));
}

pub(crate) async fn a_reading_opens_a_finished_run_and_counts_repeated_lines_anew(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let cursor = Cursor { position: "9".to_owned(), done: true, duplicates: 3 };
    world.store.submit(Submit { cursor: Some(cursor), ..world.submission(&[]) }).await.expect("submit");
    let finished = RunChange::finished(world.now);
    assert!(world.store.change_run(world.run, finished).await.expect("changed").finished_at.is_some());
    world.store.begin_reading(world.run, 0, None).await.expect("begun");
    let row = row(&world).await;
    assert_eq!((row.finished_at, row.duplicates, row.admitted_all, row.cursor), (None, 0, false, None));
}

pub(crate) async fn what_a_superseded_item_was_is_kept(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let item = world.admit(&["a"]).await.remove(0);
    let filtered = world.claim_one(SPLIT).await;
    let filtered = world.happen(&filtered, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    let gone = world.happen(&filtered, Event::Superseded(Gone::Removed)).await;
    let kept = world.store.item(item.seq).await.expect("item").expect("it");
    assert_eq!((&kept.state, &kept), (&State::Superseded { was: StateKind::Filtered }, &gone));
    let back = world.happen(&kept, Event::Restored { payload: Some((*b"a").into()) }).await;
    assert_eq!(back.state.kind(), StateKind::Filtered, "it is not worked on again");
    world.assert_counters().await;
}

pub(crate) async fn a_refused_item_is_dead_at_once(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let refused = LastFailure {
        class: Class::Final,
        kind: Kind::Input,
        message: Arc::from("not JSON"),
        group: Arc::from("g"),
        shared: false,
    };
    let bad = NewItem { refused: Some(refused.clone()), ..NewItem::new("bad", &b"{"[..], 3) };
    let deadline = Some(Timestamp(world.now.0 + 5));
    let submit = Submit { items: vec![bad], deadline, ..world.submission(&[]) };
    world.store.submit(submit).await.expect("submit");
    let item = world.items().await.remove(0);
    assert_eq!(item.state, State::Dead { reason: DeadReason::Final });
    assert_eq!((item.last.clone(), item.deadline, item.attempt), (Some(refused), deadline, 0));
    assert!(world.claim(SPLIT, 9).await.is_empty());
    world.assert_counters().await;
}

pub(crate) async fn unknown_run_is_refused(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let submit = Submit { run: RunId(4_711), ..world.submission(&["a"]) };
    assert!(matches!(world.store.submit(submit).await, Err(Error::NotFound(_))));
    assert!(world.items().await.is_empty());
}

pub(crate) async fn keys_within_one_call_are_compared(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let items = [("a", "x", 1), ("a", "x", 1), ("a", "x", 2), ("a", "y", 3)];
    let items = items.map(|(key, content, origin)| NewItem::new(key, content.as_bytes(), origin));
    let submit = Submit { items: items.to_vec(), ..world.submission(&[]) };
    let answers = world.store.submit(submit).await.expect("submit");
    assert!(matches!(
        answers[..],
        [Submitted::Admitted(_), Submitted::Known(_), Submitted::Duplicate(_), Submitted::Changed(_)]
    ));
    world.assert_counters().await;
}

/// The key "a" with this content.
fn version(world: &World, content: &str) -> Submit {
    Submit { items: vec![NewItem::new("a", content.as_bytes(), 0)], ..world.submission(&[]) }
}

async fn row(world: &World) -> RunRow {
    world.store.run(world.run).await.expect("run").expect("there")
}

pub(crate) async fn what_is_handed_in_is_seen_by_no_reading(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let hand_in = |content: &[u8], origin| Submit {
        reading: Reading::NONE,
        items: vec![NewItem::new("a", content, origin)],
        cursor: Some(Cursor { position: "open".to_owned(), done: false, duplicates: 0 }),
        ..world.submission(&[])
    };
    let first = world.store.submit(hand_in(b"a", 1)).await.expect("submit");
    let [Submitted::Admitted(id)] = first[..] else { panic!("{first:?}") };
    for origin in [1, 7] {
        let again = world.store.submit(hand_in(b"a", origin)).await;
        assert_eq!(again, Ok(vec![Submitted::Known(id)]), "from any place");
    }
    let other = world.store.submit(hand_in(b"b", 1)).await.expect("submit");
    assert!(matches!(&other[..], [Submitted::Changed(item)] if item.id == id), "{other:?}");
    let row = row(&world).await;
    assert_eq!((row.duplicates, row.admitted_all, row.reading), (0, false, 0));
    assert!(!Reading::NONE.has_seen(&world.items().await[0]));
}
