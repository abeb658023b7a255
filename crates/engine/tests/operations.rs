//! An operation on many items whose process dies between two pages, and another process that goes on with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::Event;
use redrive_core::id::{OperationId, RunId, StageNo};
use redrive_core::item::{Item, NewItem, StateKind};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_engine::admin::{self, Done, Forget, Redrive, Request};
use redrive_engine::env::Env;
use redrive_store::{
    Commit, Error, ItemFilter, ItemQuery, MemoryStore, NewRun, Operation, OperationState, RunChange, Store,
    Submit,
};

#[path = "operations/paced.rs"]
mod paced;
#[path = "operations/sets.rs"]
mod sets;

/// More than two pages of items.
const DEAD: usize = 1_200;

fn plan() -> Plan {
    let only = StagePlan {
        name: "only".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: Duration::from_secs(60),
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    Plan::new(vec![only], None)
}

fn a_run(source: &str) -> NewRun {
    NewRun {
        pipeline: "p".to_owned(),
        source: source.to_owned(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: String::new(),
    }
}

/// A store with a run whose items are all dead.
async fn graveyard() -> (Arc<MemoryStore>, RunId) {
    let store = Arc::new(MemoryStore::new());
    let run = store.create_run(a_run("s"), Timestamp(1)).await.expect("a run").id;
    bury(&*store, run, DEAD).await;
    (store, run)
}

/// Has so many items of a run die.
async fn bury(store: &dyn Store, run: RunId, items: usize) {
    let item = |n: usize| NewItem::new(format!("item {n}"), n.to_string().as_bytes(), n as u64);
    let submit = Submit {
        run,
        stage: StageNo(0),
        reading: Reading::FIRST,
        items: (0..items).map(item).collect(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: None,
        now: Timestamp(1),
    };
    store.submit(submit).await.expect("submitted");
    let filter = ItemFilter { run: Some(run), ..ItemFilter::default() };
    let all = ItemQuery { filter, after: None, limit: usize::MAX };
    let (plan, at) = (plan(), Moment { now: Timestamp(2), draw: Draw::MIDDLE });
    let killed = |item: &Item| {
        let event = Event::Killed { why: "for the test".to_owned() };
        decide(item, event, &plan, at).expect("a waiting item can be given up").into()
    };
    let changes = store.items(all).await.expect("items").iter().map(killed).collect();
    store.commit(Commit { changes, now: at.now, ..Commit::default() }).await.expect("committed");
}

async fn in_state(store: &dyn Store, state: StateKind) -> usize {
    let filter = ItemFilter { state: Some(state), ..ItemFilter::default() };
    store.items(ItemQuery { filter, after: None, limit: usize::MAX }).await.expect("items").len()
}

/// A redrive by a process that dies when it begins its second page.
async fn broken_off(store: &Arc<MemoryStore>, request: &Redrive) -> Operation {
    broken_off_at(store, request, Env::system()).await
}

async fn broken_off_at(store: &Arc<MemoryStore>, request: &Redrive, env: Env) -> Operation {
    let (store, request) = (store.clone(), request.clone());
    let process = tokio::spawn({
        let store = store.clone();
        async move {
            let pages = AtomicU32::new(0);
            let plans = |_: RunId| {
                assert!(pages.fetch_add(1, Ordering::SeqCst) == 0, "the process dies here");
                Some(plan())
            };
            admin::redrive(&*store, &plans, &request, "ann", &env).await
        }
    });
    assert!(process.await.expect_err("it died").is_panic());
    let open = store.open_operations(None, 9).await.expect("operations");
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].state, open[0].changed), (OperationState::Open, 500), "one page is done");
    open[0].clone()
}

#[tokio::test]
async fn another_process_finishes_a_redrive_from_its_row_alone() {
    let (store, run) = graveyard().await;
    let filter = ItemFilter { run: Some(run), ..ItemFilter::default() };
    let left = broken_off(&store, &Redrive { rate: Some(1_000.0), ..Redrive::of(filter) }).await;
    let done = admin::go_on(&*store, left.id, &|_| Some(plan()), &Env::system()).await.expect("it goes on");
    let all = Done { operation: left.id, changed: DEAD as u64, skipped: 0 };
    assert_eq!(done, Some(all));
    assert_eq!(in_state(&*store, StateKind::Waiting).await, DEAD);
    let row = store.operation(left.id).await.expect("read").expect("there");
    assert_eq!((row.state, row.actor.as_str()), (OperationState::Done, "ann"), "it stays hers");
    let again = admin::go_on(&*store, left.id, &|_| Some(plan()), &Env::system()).await;
    assert_eq!(again, Ok(None), "nothing is left to do");
}

#[tokio::test]
async fn a_limit_holds_over_both_processes() {
    let (store, _) = graveyard().await;
    let request = Redrive { limit: Some(700), ..Redrive::of(ItemFilter::default()) };
    let left = broken_off(&store, &request).await;
    admin::go_on(&*store, left.id, &|_| Some(plan()), &Env::system()).await.expect("it goes on");
    assert_eq!(in_state(&*store, StateKind::Waiting).await, 700);
    assert_eq!(in_state(&*store, StateKind::Dead).await, DEAD - 700);
}

/// Looked for among the newest hundred, it would count as never begun.
#[tokio::test]
async fn an_old_operation_is_gone_on_with_and_stopped_however_many_are_newer() {
    let (store, _) = graveyard().await;
    let request = Redrive::of(ItemFilter::default());
    let left = broken_off(&store, &request).await;
    for _ in 0..1_100 {
        let newer = Operation { id: OperationId(0), state: OperationState::Done, ..left.clone() };
        store.save_operation(newer).await.expect("saved");
    }
    assert_eq!(admin::stop_operation(&*store, left.id, Timestamp(9)).await, Ok(true));
    assert_eq!(store.open_operations(None, 9).await, Ok(Vec::new()));
    let after_stop = admin::go_on(&*store, left.id, &|_| Some(plan()), &Env::system()).await;
    assert_eq!(after_stop, Ok(None), "a stopped operation stays stopped");
    let anew = admin::redrive(&*store, &|_| Some(plan()), &request, "bob", &Env::system()).await;
    let anew = anew.expect("redriven");
    assert!(anew.operation > left.id && anew.changed == 700, "{anew:?}");
}

#[tokio::test]
async fn what_a_newer_version_asked_is_left_to_it() {
    let (store, _) = graveyard().await;
    let request = Request::Purge { filter: ItemFilter::default() };
    let row = Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: OperationState::Open,
        actor: "ann".to_owned(),
        request: r#"{"kind":"purge_older_than","days":3}"#.to_owned(),
        after: None,
        changed: 0,
        skipped: 0,
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    };
    let id = store.save_operation(row).await.expect("saved");
    let refused = admin::go_on(&*store, id, &|_| Some(plan()), &Env::system()).await;
    assert!(matches!(refused, Err(Error::Unreadable { .. })), "{refused:?}");
    assert_eq!(in_state(&*store, StateKind::Dead).await, DEAD);
}

/// A prune that somebody asked for and died before its first page, and two runs: one that was old enough then, one that only
/// is by now.
#[tokio::test]
async fn another_process_forgets_what_was_old_enough_when_it_was_asked_for() {
    let (store, old) = graveyard().await;
    store.change_run(old, RunChange::finished(Timestamp(1_000))).await.expect("finished");
    let young = store.create_run(a_run("t"), Timestamp(2)).await.expect("run").id;
    store.change_run(young, RunChange::finished(Timestamp(8_000))).await.expect("finished");
    let request = Request::Prune(Forget { older_than_ms: 5_000, with_dead: true });
    let row = Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: OperationState::Open,
        actor: "ann".to_owned(),
        request: request.written().expect("written"),
        after: None,
        changed: 0,
        skipped: 0,
        created_at: Timestamp(9_000),
        updated_at: Timestamp(9_000),
    };
    let id = store.save_operation(row).await.expect("saved");
    let done = admin::go_on(&*store, id, &|_| Some(plan()), &Env::system()).await;
    assert_eq!(done, Ok(Some(Done { operation: id, changed: DEAD as u64, skipped: 0 })));
    assert_eq!(store.run(old).await, Ok(None));
    assert!(store.run(young).await.expect("read").is_some(), "it was not old enough when ann asked");
    let row = store.operation(id).await.expect("read").expect("there");
    assert_eq!((row.state, row.actor.as_str()), (OperationState::Done, "ann"));
    // Said again by bob, it is an operation of his own and means what is old enough now.
    let asked = Forget { older_than_ms: 5_000, with_dead: true };
    let (gone, done) = admin::prune(&*store, asked, "bob", &Env::system()).await.expect("pruned");
    assert_eq!((gone.runs, done.changed), (1, 0));
    assert!(done.operation > id);
}
