//! Which runs have something to do, and in which order they are served.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_core::reading::Reading;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{
    Cursor, Has, NewRun, Retired, RunChange, Store, Submit, WorkFilter, WorkList, WorkPosition, WorkQuery,
};

use crate::world::{SPLIT, START, World, failed, new_run, passed};

fn query(now: Timestamp) -> WorkQuery {
    WorkQuery { filter: WorkFilter::default(), after: None, limit: 100, looks: 100, later: false, now }
}

fn found(list: &WorkList) -> Vec<(RunId, Has)> {
    list.runs.iter().map(|open| (open.row.id, open.has)).collect()
}

/// Says that the source of a run was read to its end.
async fn read_to_the_end(world: &World, run: RunId) {
    let cursor = Some(Cursor { position: "end".to_owned(), done: true, duplicates: 0 });
    let submit = Submit { run, reading: Reading::NONE, cursor, ..world.submission(&[]) };
    world.store.submit(submit).await.expect("read");
}

async fn run_of(world: &World, new: NewRun) -> RunId {
    world.store.create_run(new, START).await.expect("a run").id
}

pub(crate) async fn a_run_is_listed_for_what_it_has(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let list = |query| world.store.work_list(query);
    let now = world.now;
    assert_eq!(found(&list(query(now)).await.expect("read")), [(world.run, Has::Source)]);
    world.admit(&["a"]).await;
    read_to_the_end(&world, world.run).await;
    assert_eq!(found(&list(query(now)).await.expect("read")), [(world.run, Has::Due)]);
    let claimed = world.claim_one(SPLIT).await;
    assert_eq!(found(&list(query(now)).await.expect("read")), [], "somebody works on it");
    world.happen(&claimed, failed(Class::Retryable, "later")).await;
    let waiting = list(query(now)).await.expect("read");
    assert_eq!(found(&waiting), [], "its retry is not due");
    let due = waiting.next_due.expect("it is due some time");
    assert!(due > now);
    let later = list(WorkQuery { later: true, ..query(now) }).await.expect("read");
    assert_eq!(found(&later), [(world.run, Has::Later)]);
    assert_eq!(found(&list(query(due)).await.expect("read")), [(world.run, Has::Due)]);
}

pub(crate) async fn a_listed_run_says_how_many_items_wait(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    world.claim_one(SPLIT).await;
    let list = world.store.work_list(query(world.now)).await.expect("read");
    assert_eq!(list.runs.iter().map(|open| open.waiting).collect::<Vec<_>>(), [2]);
}

pub(crate) async fn a_stamp_changes_when_somebody_writes(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let before = world.store.stamp().await.expect("read");
    world.store.run(world.run).await.expect("read");
    assert_eq!(world.store.stamp().await, Ok(before), "nobody wrote");
    world.admit(&["a"]).await;
    assert_ne!(world.store.stamp().await, Ok(before));
}

pub(crate) async fn a_run_of_a_lost_worker_is_listed(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    read_to_the_end(&world, world.run).await;
    world.claim_one(SPLIT).await;
    world.store.retire(world.worker, Retired::Lost).await.expect("retire");
    let list = world.store.work_list(query(world.now)).await.expect("read");
    assert_eq!(found(&list), [(world.run, Has::Orphans)]);
}

pub(crate) async fn a_run_without_work_is_listed_until_it_is_called_finished(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    read_to_the_end(&world, world.run).await;
    let list = || world.store.work_list(query(world.now));
    assert_eq!(found(&list().await.expect("read")), [(world.run, Has::End)]);
    world.store.change_run(world.run, RunChange::finished(START)).await.expect("finished");
    assert_eq!(found(&list().await.expect("read")), []);
}

pub(crate) async fn a_standing_run_is_listed_for_its_items_only(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.store.change_run(world.run, RunChange::ask(Control::Paused, None, START)).await.expect("paused");
    world.run = run_of(&world, new_run(&NewRun::inbox(None))).await;
    let list = || world.store.work_list(query(world.now));
    assert_eq!(
        found(&list().await.expect("read")),
        [],
        "it has no source and no end, and the other one is paused"
    );
    world.admit(&["a"]).await;
    assert_eq!(found(&list().await.expect("read")), [(world.run, Has::Due)]);
}

pub(crate) async fn runs_are_listed_by_priority_and_number_in_pages(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let mut expected = vec![(0, world.run)];
    for priority in [0, 5, -2, 5, i32::MAX, i32::MIN] {
        let new = NewRun { priority, ..new_run(&format!("source {}", expected.len())) };
        expected.push((priority, run_of(&world, new).await));
    }
    expected.sort_by_key(|(priority, run)| (-i64::from(*priority), *run));
    let expected: Vec<RunId> = expected.into_iter().map(|(_, run)| run).collect();
    for (limit, looks) in [(100, 100), (3, 100), (100, 3), (1, 1)] {
        let (mut seen, mut after): (Vec<RunId>, Option<WorkPosition>) = (Vec::new(), None);
        loop {
            let page = WorkQuery { after, limit, looks, ..query(world.now) };
            let list = world.store.work_list(page).await.expect("read");
            seen.extend(list.runs.iter().map(|open| open.row.id));
            after = list.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "{limit} at a time, {looks} looks");
    }
}

pub(crate) async fn a_filter_takes_categories_and_pipelines(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let night = NewRun { category: Some("night".to_owned()), ..new_run("a") };
    let night = run_of(&world, night).await;
    let other = NewRun { pipeline: "it's \"other\"".to_owned(), ..new_run("b") };
    let other = run_of(&world, other).await;
    let list = |categories: &[&str], pipelines: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let filter = WorkFilter {
            categories: names(categories),
            pipelines: names(pipelines),
            but_pipelines: Vec::new(),
        };
        world.store.work_list(WorkQuery { filter, ..query(world.now) })
    };
    let runs = |list: WorkList| -> Vec<RunId> { list.runs.iter().map(|open| open.row.id).collect() };
    assert_eq!(runs(list(&[], &[]).await.expect("read")), [world.run, night, other]);
    assert_eq!(runs(list(&["night", "day"], &[]).await.expect("read")), [night]);
    assert_eq!(runs(list(&[], &["it's \"other\""]).await.expect("read")), [other]);
    assert_eq!(runs(list(&["night"], &["it's \"other\""]).await.expect("read")), []);
}

pub(crate) async fn parents_whose_children_ended_elsewhere_are_listed(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a"]).await;
    read_to_the_end(&world, world.run).await;
    let parent = world.claim_one(SPLIT).await;
    world.happen(&parent, crate::world::split(&["x"])).await;
    for stage in [crate::world::PART, redrive_core::id::StageNo(2)] {
        let child = world.claim_one(stage).await;
        world.happen(&child, passed()).await;
    }
    world.advance(Duration::from_secs(1));
    let list = world.store.work_list(query(world.now)).await.expect("read");
    assert_eq!(found(&list), [(world.run, Has::Parents)]);
}

pub(crate) async fn a_worker_says_anew_which_runs_it_works_on(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.store.attend(world.worker, vec![world.run]).await.expect("told");
    let workers = world.store.workers().await.expect("read");
    assert!(workers[0].attends(world.run, world.now));
    world.store.attend(world.worker, Vec::new()).await.expect("told");
    let workers = world.store.workers().await.expect("read");
    assert!(!workers[0].attends(world.run, world.now));
    world.store.retire(world.worker, Retired::Stopped).await.expect("retired");
    world.store.attend(world.worker, vec![world.run]).await.expect("no error");
}
