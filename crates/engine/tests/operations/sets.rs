//! A frozen set that is sent back, and two processes that carry it on at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64};

use async_trait::async_trait;
use redrive_core::id::ItemSeq;
use redrive_core::item::State;
use redrive_engine::admin::{Plans, SetPurge, SetRedrive};
use redrive_engine::env::{Clock, SystemClock};

use super::*;

/// A clock that stands still until it is put forward.
pub struct Manual(pub AtomicI64);

#[async_trait]
impl Clock for Manual {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
    }
}

pub fn at(start: i64) -> (Arc<Manual>, Env) {
    let clock = Arc::new(Manual(AtomicI64::new(start)));
    (clock.clone(), Env { clock, ..Env::system() })
}

pub async fn items(store: &dyn Store, state: StateKind) -> Vec<Item> {
    let filter = ItemFilter { state: Some(state), ..ItemFilter::default() };
    store.items(ItemQuery { filter, after: None, limit: usize::MAX }).await.expect("items")
}

/// Everything that is dead, frozen and under way.
pub async fn begun(store: &dyn Store, set: SetRedrive, env: &Env) -> OperationId {
    let set = SetRedrive { filters: vec![ItemFilter::default()], ..set };
    let dead = items(store, StateKind::Dead).await;
    let frozen = admin::freeze(store, &Request::RedriveSet(set), &dead, ("ann", None), true, env).await;
    frozen.expect("frozen").expect("nobody was faster").id
}

/// Ends the items that wait and are due, as dead.
pub async fn end_those_due(store: &dyn Store, now: Timestamp) {
    let due = |item: &&Item| matches!(item.state, State::Waiting { due, .. } if due <= now);
    let moment = Moment { now, draw: Draw::MIDDLE };
    let ended = |item: &Item| {
        decide(item, Event::Killed { why: "again".to_owned() }, &plan(), moment).expect("it waits").into()
    };
    let changes = items(store, StateKind::Waiting).await.iter().filter(due).map(ended).collect();
    store.commit(Commit { changes, now, ..Commit::default() }).await.expect("committed");
}

#[tokio::test]
async fn a_rate_holds_over_the_waves_of_a_set_that_is_watched() {
    let (store, _) = graveyard().await;
    let (clock, env) = at(1_000_000);
    let (rate, all_may_fail) = (Some(200.0), Some(1.0));
    let set = SetRedrive { rate, stop_at: all_may_fail, ..SetRedrive::default() };
    let operation = begun(&*store, set, &env).await;
    let mut dues: BTreeMap<ItemSeq, Timestamp> = BTreeMap::new();
    loop {
        let done = admin::go_on(&*store, operation, &|_| Some(plan()), &env).await.expect("it goes on");
        for item in items(&*store, StateKind::Waiting).await {
            let State::Waiting { due, .. } = item.state else { panic!("it waits") };
            dues.insert(item.seq, due);
        }
        if done.is_some() {
            break;
        }
        let now = Timestamp(clock.0.fetch_add(250, Ordering::SeqCst) + 250);
        end_those_due(&*store, now).await;
    }
    assert_eq!(dues.len(), DEAD);
    let mut dues: Vec<i64> = dues.into_values().map(|due| due.0).collect();
    dues.sort_unstable();
    for from in &dues {
        let within = dues.iter().filter(|due| (*from..from + 1_000).contains(*due)).count();
        assert!(within <= 201, "{within} items are due in one second");
    }
    let span = dues[DEAD - 1] - dues[0];
    assert!(span < 9_000, "a rate of 200 a second has 1,200 items done after six, and took {span} ms");
}

/// The plans of a process that is overtaken: while it is about to send its first page back, another carries the operation on.
struct Overtaken<'a> {
    store: &'a dyn Store,
    env: &'a Env,
    once: AtomicBool,
}

#[async_trait]
impl Plans for Overtaken<'_> {
    async fn plan(&self, _run: RunId) -> redrive_store::Result<Option<Plan>> {
        if !self.once.swap(true, Ordering::SeqCst) {
            let open = self.store.open_operations(None, 1).await?;
            admin::go_on(self.store, open[0].id, &|_| Some(plan()), self.env).await?;
        }
        Ok(Some(plan()))
    }
}

#[tokio::test]
async fn what_two_processes_carry_on_at_once_ends_as_done() {
    let sets = [Some(5), None].map(|canary| SetRedrive { canary, ..SetRedrive::default() });
    for set in sets {
        let (store, _) = graveyard().await;
        let (clock, env) = at(1_000_000);
        let operation = begun(&*store, SetRedrive { stop_at: set.canary.map(|_| 1.0), ..set }, &env).await;
        for _ in 0..100 {
            let plans = Overtaken { store: &*store, env: &env, once: AtomicBool::new(false) };
            admin::go_on(&*store, operation, &plans, &env).await.expect("it goes on");
            let now = Timestamp(clock.0.fetch_add(250, Ordering::SeqCst) + 250);
            pass_those_due(&*store, now).await;
        }
        let row = store.operation(operation).await.expect("read").expect("there");
        assert_eq!((row.state, row.changed, row.skipped), (OperationState::Done, DEAD as u64, 0));
    }
}

#[tokio::test]
async fn a_plain_redrive_that_another_process_finished_first_is_what_that_wrote() {
    let (store, _) = graveyard().await;
    let (_, env) = at(1_000_000);
    let request = Redrive::of(ItemFilter::default());
    let plans = Overtaken { store: &*store, env: &env, once: AtomicBool::new(false) };
    let done = admin::redrive(&*store, &plans, &request, "ann", &env).await.expect("redriven");
    assert_eq!((done.changed, done.skipped), (DEAD as u64, 0));
    let row = store.operation(done.operation).await.expect("read").expect("there");
    assert_eq!((row.state, row.changed, row.skipped), (OperationState::Done, DEAD as u64, 0));
}

/// Ends the items that wait and are due, as passed.
pub async fn pass_those_due(store: &dyn Store, now: Timestamp) {
    let moment = Moment { now, draw: Draw::MIDDLE };
    let worker = redrive_core::id::WorkerId(1);
    let due = |item: &&Item| matches!(item.state, State::Waiting { due, .. } if due <= now);
    for item in items(store, StateKind::Waiting).await.iter().filter(due) {
        let claimed = decide(item, Event::Claimed { worker }, &plan(), moment).expect("it waits");
        let reply = redrive_core::event::ItemReply::Output(None);
        let passed = decide(&claimed.after, Event::Finished(reply), &plan(), moment).expect("it was taken");
        let changes = vec![claimed.into(), passed.into()];
        store.commit(Commit { changes, now, ..Commit::default() }).await.expect("committed");
    }
}

#[tokio::test]
async fn what_dies_again_is_none_of_those_that_came_too_late() {
    let (store, run) = graveyard().await;
    let (clock, env) = at(1_000_000);
    let operation = begun(&*store, SetRedrive::default(), &env).await;
    let since = store.operation(operation).await.expect("read").expect("there").created_at;
    admin::go_on(&*store, operation, &|_| Some(plan()), &env).await.expect("it goes on").expect("done");
    let later = Timestamp(clock.0.fetch_add(1_000, Ordering::SeqCst) + 1_000);
    end_those_due(&*store, later).await;
    assert_eq!(in_state(&*store, StateKind::Dead).await, DEAD);
    let filters = [ItemFilter { run: Some(run), ..ItemFilter::default() }];
    let late = async || admin::late(&*store, operation, &filters, since).await.expect("counted");
    assert_eq!(late().await, 0, "all of them are its own");
    let submit = Submit {
        run,
        stage: StageNo(0),
        reading: Reading::FIRST,
        items: (0..3).map(|n| NewItem::new(format!("late {n}"), *b"x", 9_000 + n)).collect(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: None,
        now: later,
    };
    store.submit(submit).await.expect("submitted");
    end_those_due(&*store, later).await;
    assert_eq!(late().await, 3);
}

#[tokio::test]
async fn an_operation_that_waits_on_purpose_is_not_left_alone() {
    let (store, _) = graveyard().await;
    let (_, env) = at(1_000_000);
    let dead = items(&*store, StateKind::Dead).await;
    let set = SetPurge { filters: vec![ItemFilter::default()], undo_ms: 3_600_000, at: None };
    let purge = admin::freeze(&*store, &Request::PurgeSet(set), &dead, ("ann", None), true, &env).await;
    let purge = purge.expect("frozen").expect("nobody was faster");
    let idle = async |row: &Operation, now: i64| {
        admin::left_alone(&*store, row, Timestamp(now)).await.expect("read")
    };
    assert_eq!(idle(&purge, 4_599_999).await, None, "it can be undone");
    assert_eq!(idle(&purge, 4_600_700).await, Some(700), "nobody has removed anything since it could not be");
    // Canaries have the others wait for as long as they take.
    let set = SetRedrive { canary: Some(5), ..SetRedrive::default() };
    let operation = begun(&*store, set, &env).await;
    let row = async || store.operation(operation).await.expect("read").expect("there");
    assert_eq!(idle(&row().await, 1_700_000).await, Some(700_000), "nobody has begun it");
    admin::go_on(&*store, operation, &|_| Some(plan()), &env).await.expect("it goes on");
    assert_eq!(idle(&row().await, 1_700_000).await, None, "its canaries are under way");
    pass_those_due(&*store, Timestamp(1_700_000)).await;
    assert_eq!(idle(&row().await, 1_700_000).await, Some(700_000), "they have passed, and nobody goes on");
}
