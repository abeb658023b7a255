//! Operations on many items, and changes to runs.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::BudgetChange;
use redrive_core::event::Event;
use redrive_core::failure::Class;
use redrive_core::id::{ItemSeq, OperationId, RunId};
use redrive_core::item::NewItem;
use redrive_core::reading::Reading;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{
    Applied, BegunRun, Change, Commit, Cursor, Error, GroupNote, NewRun, Operation, OperationKind,
    OperationState, Pause, RunChange, Store, Submit,
};

use crate::world::{SPLIT, START, World, new_operation};

pub(crate) async fn a_saved_operation_gets_a_number(store: Arc<dyn Store>) {
    assert_eq!(store.operations(None, 9).await, Ok(Vec::new()));
    let mut ids = Vec::new();
    let kinds = [OperationKind::Retry, OperationKind::Rerun, OperationKind::Import, OperationKind::Prune];
    for kind in [OperationKind::Redrive, OperationKind::Purge, OperationKind::Cancel].into_iter().chain(kinds)
    {
        ids.push(store.save_operation(new_operation(kind)).await.expect("saved"));
    }
    assert!(ids[0].0 > 0 && ids[0] < ids[1] && ids[1] < ids[2]);
    let newest = store.operations(None, 2).await.expect("operations");
    assert_eq!(newest.iter().map(|operation| operation.id).collect::<Vec<_>>(), [ids[6], ids[5]]);
    assert_eq!(newest[0], Operation { id: ids[6], ..new_operation(OperationKind::Prune) });
    let older = store.operations(Some(ids[5]), 2).await.expect("operations");
    assert_eq!(older.iter().map(|operation| operation.id).collect::<Vec<_>>(), [ids[4], ids[3]]);
    assert_eq!(store.operations(Some(ids[0]), 9).await, Ok(Vec::new()));
}

pub(crate) async fn a_note_about_a_group_is_the_last_one_written(store: Arc<dyn Store>) {
    let note = |group: &str, words: &str, at: i64| GroupNote {
        group: group.to_owned(),
        note: words.to_owned(),
        acknowledged_at: (at > 1).then_some(Timestamp(at)),
        actor: "ann".to_owned(),
        updated_at: Timestamp(at),
    };
    assert_eq!(store.group_notes().await, Ok(Vec::new()));
    for (group, words, at) in [("b", "", 2), ("a", "it's \"known\"", 1), ("b", "ticket 7", 3), ("c", "x", 1)]
    {
        store.save_group_note(note(group, words, at)).await.expect("saved");
    }
    let kept = vec![note("a", "it's \"known\"", 1), note("b", "ticket 7", 3), note("c", "x", 1)];
    assert_eq!(store.group_notes().await, Ok(kept));
    for group in ["c", "nobody's"] {
        store.save_group_note(note(group, "", 1)).await.expect("saved");
    }
    let groups: Vec<String> =
        store.group_notes().await.expect("notes").into_iter().map(|note| note.group).collect();
    assert_eq!(groups, ["a", "b"], "what says nothing is forgotten");
}

pub(crate) async fn progress_replaces_the_operation(store: Arc<dyn Store>) {
    let id = store.save_operation(new_operation(OperationKind::Redrive)).await.expect("saved");
    let progress = Operation {
        id,
        state: OperationState::Cancelled,
        after: Some(ItemSeq(17)),
        changed: 15,
        skipped: 2,
        request: "{\"a\":1}".to_owned(),
        updated_at: Timestamp(START.0 + 5),
        ..new_operation(OperationKind::Redrive)
    };
    assert_eq!(store.save_operation(progress.clone()).await, Ok(id));
    assert_eq!(store.operations(None, 9).await, Ok(vec![progress]));
    let next = store.save_operation(new_operation(OperationKind::Purge)).await.expect("saved");
    assert_ne!(next, OperationId(0));
    assert_ne!(next, id);
}

pub(crate) async fn an_operation_is_found_by_its_number(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    assert_eq!(world.store.operation(OperationId(1)).await, Ok(None));
    let mut first = new_operation(OperationKind::Purge);
    first.id = world.store.save_operation(first.clone()).await.expect("saved");
    for _ in 0..150 {
        world.store.save_operation(new_operation(OperationKind::Redrive)).await.expect("saved");
    }
    assert_eq!(world.store.operation(first.id).await, Ok(Some(first.clone())));
    assert_eq!(world.store.operation(OperationId(0)).await, Ok(None));
    assert_eq!(world.store.operation(OperationId(first.id.0 + 151)).await, Ok(None));
}

pub(crate) async fn open_operations_come_oldest_first_in_pages(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let mut open = Vec::new();
    for n in 0..150_u64 {
        let state = match n % 3 {
            0 => OperationState::Open,
            1 => OperationState::Done,
            _ => OperationState::Cancelled,
        };
        let mut operation = Operation { state, changed: n, ..new_operation(OperationKind::Redrive) };
        operation.id = world.store.save_operation(operation.clone()).await.expect("saved");
        open.extend((state == OperationState::Open).then_some(operation));
    }
    assert_eq!(world.store.open_operations(None, 99).await, Ok(open.clone()), "however many are newer");
    assert_eq!(world.store.open_operations(None, 7).await, Ok(open[..7].to_vec()));
    assert_eq!(world.store.open_operations(Some(open[6].id), 7).await, Ok(open[7..14].to_vec()));
    let done = Operation { state: OperationState::Done, ..open[0].clone() };
    world.store.save_operation(done).await.expect("saved");
    assert_eq!(world.store.open_operations(None, 99).await, Ok(open[1..].to_vec()));
    assert_eq!(world.store.open_operations(open.last().map(|last| last.id), 9).await, Ok(Vec::new()));
}

pub(crate) async fn runs_change_as_told(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let change = |change| world.store.change_run(world.run, change);
    let text = |text: &str| Some(text.to_owned());
    let paused = RunChange::ask(Control::PausedBudget, text("too many"), START);
    let row = change(RunChange { budget: budget(None, "{}"), ..paused }).await.expect("change");
    assert_eq!(
        (row.control, row.reason.clone(), row.budget.clone()),
        (Control::PausedBudget, text("too many"), text("{}"))
    );
    let row = change(RunChange { definition: text("new"), ..RunChange::default() }).await.expect("change");
    assert_eq!(
        (row.control, row.reason.clone(), row.budget.clone()),
        (Control::PausedBudget, text("too many"), text("{}"))
    );
    assert_eq!(row.spec.definition, "new");
    let row = change(RunChange::ask(Control::Go, None, START)).await.expect("change");
    assert_eq!((row.control, row.reason.clone()), (Control::Go, None));
    assert_eq!((row.pause, row.idle), (Pause::default(), Pause::default()));
    let (pause, idle) = (Pause { since: Some(START), before_ms: 5 }, Pause { since: None, before_ms: 7 });
    let row = change(RunChange { pause: Some(pause), ..RunChange::default() }).await.expect("change");
    assert_eq!((row.pause, row.idle), (pause, Pause::default()));
    let row = change(RunChange { idle: Some(idle), ..RunChange::default() }).await.expect("change");
    assert_eq!((row.pause, row.idle), (pause, idle));
    let row = change(RunChange { idle: Some(pause), ..RunChange::default() }).await.expect("change");
    assert_eq!(row.idle, pause);
    let row = change(RunChange::finished(START)).await.expect("change");
    assert_eq!((row.finished_at, row.idle), (Some(START), pause));
    let row = change(RunChange::default()).await.expect("change");
    assert_eq!(row.finished_at, Some(START));
    let row = change(RunChange::goes_on()).await.expect("change");
    assert_eq!(row.finished_at, None);
    assert_eq!(world.store.run(world.run).await, Ok(Some(row)));
}

pub(crate) async fn nobody_is_at_a_run_that_has_ended(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let later = START.after(Duration::from_secs(60));
    let change = |change| world.store.change_run(world.run, change);
    let left = |since| Pause { since: Some(since), before_ms: 5 };
    let idle = |idle| RunChange { idle: Some(idle), ..RunChange::default() };
    let ends = RunChange { idle: Some(left(later)), ..RunChange::finished(START) };
    assert_eq!(change(ends).await.expect("change").idle, left(later));
    // Somebody else who was at it has not heard of the end.
    let back = Pause { since: None, before_ms: 0 };
    assert_eq!(change(idle(back)).await.expect("change").idle, left(later));
    let row = change(RunChange::goes_on()).await.expect("change");
    assert_eq!((row.finished_at, row.idle), (None, left(later)));
    assert_eq!(change(idle(back)).await.expect("change").idle, back, "somebody is at it again");
}

pub(crate) async fn a_run_that_goes_on_was_left_alone_since_its_end_at_the_latest(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let since_the_end = Pause { since: Some(START), before_ms: 0 };
    let other = world.store.create_run(crate::world::new_run("other"), START).await.expect("created");
    for run in [world.run, other.id] {
        let row = world.store.change_run(run, RunChange::finished(START)).await.expect("change");
        assert_eq!((row.finished_at, row.idle), (Some(START), Pause::default()));
    }
    world.store.begin_reading(other.id, other.reading, None).await.expect("begun");
    world.store.submit(world.submission(&["a"])).await.expect("submitted");
    for (run, how) in [(other.id, "read anew"), (world.run, "handed in")] {
        let row = world.store.run(run).await.expect("read").expect("there");
        assert_eq!((row.finished_at, row.idle), (None, since_the_end), "{how}");
    }
    let back = RunChange { idle: Some(Pause::default()), ..RunChange::default() };
    for change in [back, RunChange::finished(START)] {
        world.store.change_run(other.id, change).await.expect("change");
    }
    let row = world.store.change_run(other.id, RunChange::goes_on()).await.expect("change");
    assert_eq!((row.finished_at, row.idle), (None, since_the_end), "sent back");
}

fn budget(was: Option<&str>, becomes: &str) -> Option<BudgetChange> {
    Some(BudgetChange { was: was.map(ToOwned::to_owned), becomes: becomes.to_owned() })
}

pub(crate) async fn a_budget_is_kept_only_over_the_one_it_was_made_from(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let save = |was: Option<&str>, becomes: &str, reason: &str| {
        let paused = RunChange::ask(Control::Paused, Some(reason.to_owned()), START);
        let change = RunChange { budget: budget(was, becomes), ..paused };
        world.store.change_run(world.run, change)
    };
    let kept = async |was: Option<&str>, becomes: &str, reason: &str| {
        let row = save(was, becomes, reason).await.expect("change");
        assert_eq!(row.reason.as_deref(), Some(reason), "the rest of the change is made in any case");
        assert_eq!(world.store.run(world.run).await, Ok(Some(row.clone())));
        row.budget
    };
    assert_eq!(kept(Some("x"), "a", "1").await, None, "there is none yet");
    assert_eq!(kept(None, "a", "2").await.as_deref(), Some("a"));
    assert_eq!(kept(None, "b", "3").await.as_deref(), Some("a"), "another one is kept by now");
    assert_eq!(kept(Some("A"), "b", "4").await.as_deref(), Some("a"));
    assert_eq!(kept(Some("a"), "", "5").await.as_deref(), Some(""));
    assert_eq!(kept(None, "b", "6").await.as_deref(), Some(""), "an empty one is one");
    assert_eq!(kept(Some(""), "c", "7").await.as_deref(), Some("c"));
    let run = Some((world.run, RunChange { budget: budget(Some("a"), "d"), ..RunChange::default() }));
    let commit = Commit { run, now: world.now, ..Commit::default() };
    assert_eq!(world.store.commit(commit.clone()).await, Ok(Vec::new()));
    let row = world.store.run(world.run).await.expect("run").expect("there");
    assert_eq!(row.budget.as_deref(), Some("c"));
}

pub(crate) async fn rivals_for_one_budget_have_one_winner(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let mut was: Option<String> = None;
    for round in 0..5 {
        let rivals = (0..20).map(|rival| {
            let (store, run) = (world.store.clone(), world.run);
            let change = BudgetChange { was: was.clone(), becomes: format!("{round} {rival}") };
            tokio::spawn(async move {
                let budget = Some(change.clone());
                let row = store.change_run(run, RunChange { budget, ..RunChange::default() }).await;
                row.expect("change").budget == Some(change.becomes)
            })
        });
        let rivals: Vec<_> = rivals.collect();
        let mut won = 0;
        for rival in rivals {
            won += usize::from(rival.await.expect("no panic"));
        }
        assert_eq!(won, 1);
        was = world.store.run(world.run).await.expect("run").expect("there").budget;
    }
}

pub(crate) async fn the_first_fact_of_a_name_is_kept(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let learn = |name: &str, number: u64| {
        let learn = Some((name.to_owned(), number));
        world.store.change_run(world.run, RunChange { learn, ..RunChange::default() })
    };
    assert_eq!(learn("embed.dimensions", 4).await.expect("kept").learnt["embed.dimensions"], 4);
    assert_eq!(learn("embed.dimensions", 8).await.expect("kept").learnt["embed.dimensions"], 4);
    let row = learn("other \"name\"", u64::MAX).await.expect("kept");
    let facts = [("embed.dimensions".to_owned(), 4), ("other \"name\"".to_owned(), u64::MAX)];
    assert_eq!(row.learnt, facts.into());
    assert_eq!(world.store.run(world.run).await, Ok(Some(row)));
    let other = world.store.create_run(crate::world::new_run("other"), START).await.expect("created");
    assert!(other.learnt.is_empty(), "another run knows nothing of it");
}

pub(crate) async fn unknown_runs_do_not_change(store: Arc<dyn Store>) {
    let changed = store.change_run(RunId(4_711), RunChange::default()).await;
    assert!(matches!(changed, Err(Error::NotFound(_))));
    assert_eq!(store.run(RunId(4_711)).await, Ok(None));
}

pub(crate) async fn a_stopped_operation_stays_stopped(store: Arc<dyn Store>) {
    let mut operation = new_operation(OperationKind::Redrive);
    operation.id = store.save_operation(operation.clone()).await.expect("saved");
    store
        .save_operation(Operation { state: OperationState::Cancelled, ..operation.clone() })
        .await
        .expect("saved");
    store.save_operation(Operation { changed: 5, ..operation.clone() }).await.expect("saved");
    let known = store.operations(None, 1).await.expect("operations").remove(0);
    assert_eq!((known.state, known.changed), (OperationState::Cancelled, 5));
}

pub(crate) async fn an_operation_that_is_done_stays_done(store: Arc<dyn Store>) {
    let mut operation = new_operation(OperationKind::Redrive);
    operation.id = store.save_operation(operation.clone()).await.expect("saved");
    for state in [OperationState::Done, OperationState::Open, OperationState::Cancelled] {
        store.save_operation(Operation { state, ..operation.clone() }).await.expect("saved");
        let known = store.operation(operation.id).await.expect("read").expect("there");
        assert_eq!(known.state, OperationState::Done, "{state:?} comes from a process that was slower");
        assert_eq!(store.open_operations(None, 9).await, Ok(Vec::new()));
    }
}

pub(crate) async fn a_cancelled_run_stays_cancelled_and_takes_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a"], "no").await.remove(0);
    let change = |control| RunChange::ask(control, None, START);
    world.store.change_run(world.run, change(Control::Cancelled)).await.expect("change");
    for control in [Control::Go, Control::PausedQuota] {
        let row = world.store.change_run(world.run, change(control)).await.expect("change");
        assert_eq!(row.control, Control::Cancelled);
    }
    assert!(matches!(world.store.submit(world.submission(&["b"])).await, Err(Error::RunCancelled { .. })));
    let back = world.decide(&dead, Event::Redriven { due: START, payload: None, policy: None });
    let commit = Commit {
        changes: vec![back.into()],
        unless_cancelled: Some(world.run),
        now: world.now,
        ..Commit::default()
    };
    assert_eq!(world.store.commit(commit).await, Ok(vec![Applied::Stale]));
    assert_eq!(world.items().await, [dead]);
}

pub(crate) async fn a_run_with_unfinished_items_is_not_finished(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let finish = || {
        let change = RunChange::finished(START);
        world.store.change_run(world.run, change)
    };
    assert_eq!(finish().await.expect("change").finished_at, None);
    let held = world.claim_one(SPLIT).await;
    assert_eq!(finish().await.expect("change").finished_at, None);
    world.happen(&held, crate::world::failed(Class::Final, "no")).await;
    assert_eq!(finish().await.expect("change").finished_at, Some(START));
}

pub(crate) async fn a_run_is_done_when_its_source_was_read_and_nothing_is_left(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let done = |at: Timestamp| world.store.change_run(world.run, RunChange::if_done(at));
    let held = world.claim_one(SPLIT).await;
    assert_eq!(done(START).await.expect("change").finished_at, None, "an item is left");
    let transition = world.decide(&held, crate::world::failed(Class::Final, "no"));
    let last = Commit {
        changes: vec![Change::from(transition)],
        run: Some((world.run, RunChange::if_done(START))),
        now: world.now,
        ..Commit::default()
    };
    world.store.commit(last).await.expect("recorded");
    let row = || async { world.store.run(world.run).await.expect("read").expect("the run") };
    assert_eq!(row().await.finished_at, None, "its source was not read to the end");
    let cursor = Some(Cursor { position: "end".to_owned(), done: true, duplicates: 0 });
    let read = Submit { reading: Reading::NONE, cursor, ..world.submission(&[]) };
    world.store.submit(read).await.expect("read");
    assert_eq!(done(START).await.expect("change").finished_at, Some(START));
    let later = START.after(Duration::from_secs(1));
    assert_eq!(done(later).await.expect("change").finished_at, Some(START), "it has ended once");
}

pub(crate) async fn an_unfinished_run_is_begun_once(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let begin = |source: &str| world.store.begin_run(crate::world::new_run(source), false, START);
    let BegunRun { row, created } = begin("source").await.expect("begun");
    assert_eq!((row.id, created), (world.run, false), "the one that is there");
    let BegunRun { row: other, created } = begin("elsewhere").await.expect("begun");
    assert!(created && other.id != world.run);
    let finish = RunChange::finished(START);
    world.store.change_run(world.run, finish).await.expect("change");
    let BegunRun { row: next, created } = begin("source").await.expect("begun");
    assert!(created && next.id != world.run, "a finished run is not gone on with");
}

pub(crate) async fn a_standing_run_that_was_closed_is_not_gone_on_with(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let begin = |source: String| world.store.begin_run(crate::world::new_run(&source), true, START);
    let inbox = || NewRun::inbox(None);
    let BegunRun { row: first, created } = begin(inbox()).await.expect("begun");
    assert!(created && first.is_open());
    assert_eq!(begin(inbox()).await.map(|begun| (begun.row.id, begun.created)), Ok((first.id, false)));
    let BegunRun { row: other, created } = begin(NewRun::inbox(Some("night"))).await.expect("begun");
    assert!(created && other.id != first.id, "every category has one of its own");
    let cursor = Some(Cursor { position: "closed".to_owned(), done: true, duplicates: 0 });
    let items = vec![NewItem::new("a", &b"a"[..], 1)];
    let close = Submit { run: first.id, reading: Reading::NONE, items, cursor, ..world.submission(&[]) };
    world.store.submit(close).await.expect("closed");
    let closed = world.store.run(first.id).await.expect("read").expect("it is there");
    assert!(!closed.is_open() && closed.finished_at.is_none(), "it still has an item to work on");
    let BegunRun { row: next, created } = begin(inbox()).await.expect("begun");
    assert!(created && next.id != first.id);
}
