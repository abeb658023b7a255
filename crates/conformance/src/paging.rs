//! Reading in pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::Event;
use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_store::{
    ChangeQuery, Earlier, ItemFilter, ItemQuery, NextDue, RunChange, RunCounters, RunFilter, RunSet,
    StageDue, Store, Submit,
};

use crate::world::{SPLIT, START, World, failed, new_run, passed, split};

pub(crate) async fn pages_show_every_item_once_while_items_change(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    world.admit(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let filter = ItemFilter { run: Some(world.run), top: true, ..ItemFilter::default() };
    let mut seen = BTreeMap::new();
    let mut after = None;
    loop {
        let query = ItemQuery { filter: filter.clone(), after, limit: 3 };
        let page = world.store.items(query).await.expect("items");
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        for item in page {
            *seen.entry(item.id).or_insert(0) += 1;
        }
        for (n, held) in world.claim(SPLIT, 4).await.into_iter().enumerate() {
            let event = match n {
                0 => passed(),
                1 => failed(Class::Final, "no"),
                2 => split(&["x", "y"]),
                _ => Event::Released,
            };
            world.happen(&held.item, event).await;
        }
    }
    assert_eq!(seen.len(), 40);
    assert!(seen.values().all(|times| *times == 1));
    world.assert_counters().await;
}

pub(crate) async fn items_come_by_when_they_changed_last(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c", "d", "e"]).await;
    // The last that was submitted dies first, two of them at one moment.
    for (n, claimed) in world.claim(SPLIT, 5).await.into_iter().rev().enumerate() {
        if n != 2 {
            world.advance(Duration::from_secs(1));
        }
        world.happen(&claimed.item, failed(Class::Final, "no")).await;
    }
    let dead = ItemFilter { state: Some(StateKind::Dead), ..ItemFilter::default() };
    let in_pages = async |filter: &ItemFilter, newest_first: bool| {
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let query = ChangeQuery { filter: filter.clone(), newest_first, after, limit: 2 };
            let page = world.store.items_by_change(query).await.expect("items");
            let Some(last) = page.last() else { return keys.join(" ") };
            after = Some((last.updated_at, last.seq));
            keys.extend(page.iter().map(|item| item.key.to_string()));
        }
    };
    assert_eq!(in_pages(&dead, true).await, "a b d c e");
    assert_eq!(in_pages(&dead, false).await, "e c d b a");
    let elsewhere = ItemFilter { run: Some(RunId(99)), ..dead };
    assert_eq!(in_pages(&elsewhere, true).await, "");
}

pub(crate) async fn runs_come_newest_first(store: Arc<dyn Store>) {
    let mut ids = Vec::new();
    for source in ["a", "b", "a", "c"] {
        let new =
            redrive_store::NewRun { category: Some("mail".to_owned()), priority: -3, ..new_run(source) };
        let row = store.create_run(new.clone(), START).await.expect("run");
        assert_eq!((&row.spec, row.control, row.created_at), (&new, Control::Go, START));
        assert_eq!(store.run(row.id).await, Ok(Some(row.clone())));
        ids.push(row.id);
    }
    let list = |filter: RunFilter, before, limit| {
        let store = store.clone();
        async move {
            let rows = store.runs(filter, before, limit).await.expect("runs");
            rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
        }
    };
    let all = RunFilter::default;
    assert_eq!(list(all(), None, 9).await, [ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(list(all(), None, 2).await, [ids[3], ids[2]]);
    assert_eq!(list(all(), Some(ids[2]), 9).await, [ids[1], ids[0]]);
    let of_a = RunFilter {
        source: Some("a".to_owned()),
        pipeline: Some("pipeline".to_owned()),
        ..RunFilter::default()
    };
    assert_eq!(list(of_a, None, 9).await, [ids[2], ids[0]]);
    let finished = RunChange::finished(START);
    store.change_run(ids[3], finished).await.expect("change");
    let cancelled = RunChange::ask(Control::Cancelled, None, START);
    store.change_run(ids[1], cancelled).await.expect("change");
    assert_eq!(list(RunFilter { unfinished: true, ..all() }, None, 9).await, [ids[2], ids[0]]);
    assert_eq!(list(RunFilter { pipeline: Some("x".to_owned()), ..all() }, None, 9).await, []);
}

pub(crate) async fn runs_with_dead_items_are_found(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    let other = store.create_run(new_run("other"), START).await.expect("a run").id;
    store.submit(Submit { run: other, ..world.submission(&["live"]) }).await.expect("submit");
    let with_dead = async || {
        let filter = RunFilter { with_dead: true, ..RunFilter::default() };
        let rows = store.runs(filter, None, 9).await.expect("runs");
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(with_dead().await, []);
    let dead = world.bury(&["a"], "no").await;
    assert_eq!(with_dead().await, [world.run]);
    world.happen(&dead[0], Event::Redriven { due: world.now, payload: None, policy: None }).await;
    assert_eq!(with_dead().await, []);
}

pub(crate) async fn the_newest_of_a_history_comes_in_pages(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let mut item = world.bury(&["a"], "no").await.remove(0);
    for _ in 0..4 {
        let redriven = Event::Redriven { due: world.now, payload: None, policy: None };
        world.happen(&item, redriven).await;
        world.advance(Duration::from_secs(1));
        let held = world.claim_one(SPLIT).await;
        item = world.happen(&held, failed(Class::Final, "no")).await;
    }
    let whole = world.store.history(item.seq).await.expect("history");
    assert_eq!((whole.attempts.len(), whole.marks.len()), (5, 4));
    assert!(whole.earlier.is_nothing());
    let read = async |newest| {
        let mut found = world.store.histories(vec![item.seq], newest).await.expect("histories");
        found.pop().expect("one")
    };
    let newest = read(3).await;
    assert_eq!((&newest.attempts[..], &newest.marks[..]), (&whole.attempts[2..], &whole.marks[1..]));
    assert_eq!(newest.earlier, Earlier { attempts: 2, marks: 1 });
    assert_eq!(read(5).await, whole);
    let (mut pages, mut before) = (Vec::new(), None);
    loop {
        let page = world.store.attempts(item.seq, before, 2).await.expect("attempts");
        let Some(last) = page.last() else { break };
        before = Some(last.into());
        pages.extend(page);
    }
    pages.reverse();
    assert_eq!(pages, whole.attempts);
}

pub(crate) async fn next_due_of_a_run_is_its_earliest(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    assert_eq!(world.store.next_due(world.run).await, Ok(NextDue::default()));
    world.admit(&["a", "b"]).await;
    assert_eq!(
        world.store.next_due(world.run).await,
        Ok(NextDue { at: Some(START), any_fresh: true, retry: None })
    );
    let held = world.claim(SPLIT, 2).await;
    assert_eq!(world.store.next_due(world.run).await, Ok(NextDue::default()));
    let later = world.happen(&held[0].item, failed(Class::Retryable, "oops")).await;
    let redrive_core::item::State::Waiting { due, .. } = later.state else { panic!("it waits") };
    assert_eq!(
        world.store.next_due(world.run).await,
        Ok(NextDue { at: Some(due), any_fresh: false, retry: Some(due) }),
        "only a retry is left"
    );
    world.advance(Duration::from_millis(10));
    let passed_on = world.happen(&held[1].item, passed()).await;
    assert_eq!(
        world.store.next_due(world.run).await,
        Ok(NextDue { at: Some(world.now), any_fresh: true, retry: Some(due) }),
        "at any stage"
    );
    let of = |stage, at, last| StageDue { stage, at, last };
    let each = world.store.due_by_stage(world.run).await.expect("due by stage");
    let alone = [of(later.stage, due, due), of(passed_on.stage, world.now, world.now)];
    assert_eq!(each, alone, "each stage has its own");
    world.admit(&["c"]).await;
    let each = world.store.due_by_stage(world.run).await.expect("due by stage");
    let redrive_core::item::State::Waiting { due: fresh, .. } = world.items().await[2].state else {
        panic!("it waits")
    };
    assert_eq!(
        each[0],
        of(later.stage, fresh.min(due), fresh.max(due)),
        "the next and the last of both lanes"
    );
    assert_ne!(each[0].at, each[0].last);
    let other = world.store.create_run(new_run("other"), START).await.expect("run").id;
    assert_eq!(world.store.due_by_stage(other).await, Ok(Vec::new()));
    assert_eq!(world.store.next_due(other).await, Ok(NextDue::default()));
}

pub(crate) async fn counters_of_many_runs_are_those_of_each(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    assert_eq!(store.counters_of_all(RunSet::All).await, Ok(Vec::new()));
    let mut runs = vec![world.run];
    for source in ["second", "third", "empty"] {
        runs.push(store.create_run(new_run(source), START).await.expect("a run").id);
    }
    for (run, keys) in runs.iter().zip([&["a", "b"][..], &["c"], &["d"]]) {
        let submission = Submit { run: *run, ..world.submission(keys) };
        store.submit(submission).await.expect("submit");
    }
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, failed(Class::Final, "no")).await;
    let mut each = Vec::new();
    for run in &runs[..3] {
        each.push(RunCounters { run: *run, counters: store.counters(*run).await.expect("counters") });
    }
    assert_eq!(store.counters_of_all(RunSet::All).await, Ok(each.clone()), "by run, the empty one left out");
    let some = vec![runs[2], runs[0], RunId(4_711), runs[3], runs[0]];
    let [first, _, third] = <[RunCounters; 3]>::try_from(each).expect("three");
    assert_eq!(store.counters_of_all(RunSet::Of(some)).await, Ok(vec![first, third]));
    assert_eq!(store.counters_of_all(RunSet::Of(Vec::new())).await, Ok(Vec::new()));
}

pub(crate) async fn many_items_and_histories_come_as_one_by_one(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.bury(&["a", "b"], "no").await;
    world.admit(&["c"]).await;
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, Event::Killed { why: "enough".to_owned() }).await;
    let all = world.items().await;
    let missing = redrive_core::id::ItemSeq(all.iter().map(|item| item.seq.0).max().unwrap_or(0) + 1);
    // In no order of theirs, one of them twice, and one that is not there.
    let asked = vec![all[2].seq, missing, all[0].seq, all[2].seq];
    let found = world.store.items_of(asked.clone()).await.expect("items");
    assert_eq!(found, [all[2].clone(), all[0].clone(), all[2].clone()]);
    let histories = world.store.histories(asked.clone(), usize::MAX).await.expect("histories");
    assert_eq!(histories.len(), asked.len());
    for (seq, history) in asked.into_iter().zip(&histories) {
        assert_eq!(*history, world.store.history(seq).await.expect("history"));
    }
    assert!(histories[0].marks.len() == 1 && histories[2].attempts.len() == 1);
    assert_eq!(world.store.items_of(Vec::new()).await.expect("items"), []);
    assert_eq!(world.store.histories(Vec::new(), 9).await.expect("histories"), []);
}
