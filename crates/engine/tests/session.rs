//! A session with a store in memory and a clock that counts how often it was waited out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::budget::BudgetSpec;
use redrive_core::event::ItemReply;
use redrive_core::id::StageNo;
use redrive_core::item::{NewItem, Payload};
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::{PolicySpec, preset};
use redrive_core::reading::Reading;
use redrive_core::status::Thresholds;
use redrive_core::time::Timestamp;
use redrive_engine::admit::{Admission, Pace};
use redrive_engine::env::{Clock, Env, Seeded, SystemClock};
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_engine::recipe::{Recipe, StageWork};
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_engine::worker::{Ending, Halt, Session, Settings, Stop};
use redrive_store::{Claim, Cursor, MemoryStore, NewRun, NewWorker, Retired, Slot, Store, Submit};
use tokio::sync::{Notify, watch};

/// Longer than any machine takes for a few items, so that whoever waits for it has missed a word.
const TICK: Duration = Duration::from_secs(20);

/// The machine's clock, and how many ticks somebody waited for to the end.
#[derive(Default)]
struct Counting {
    ticks: AtomicU32,
}

#[async_trait]
impl Clock for Counting {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }

    async fn sleep(&self, span: Duration) {
        SystemClock.sleep(span).await;
        if span >= TICK / 2 {
            self.ticks.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Says the same of every item.
struct Says(fn() -> ItemReply);

#[async_trait]
impl Handler for Says {
    async fn call(&self, request: Request) -> Answer {
        Reply::Items(request.items.iter().map(|_| (self.0)()).collect()).into()
    }
}

fn passes() -> ItemReply {
    ItemReply::Output(None)
}

fn splits() -> ItemReply {
    let part = |n: u8| NewItem::new(format!("part {n}"), Payload::from(*b"{}"), 0);
    ItemReply::Children(vec![part(1), part(2)])
}

/// So many items in one piece.
struct Items(u8);

impl Source for Items {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        let item = |n: u8| NewItem::new(format!("item {n}"), Payload::from(*b"{}"), u64::from(n));
        Ok(Piece { items: (0..self.0).map(item).collect(), position: String::new(), done: true })
    }
}

fn stage(name: &str, next: Option<u16>, first_child: Option<u16>, owner: Option<u16>) -> StagePlan {
    StagePlan {
        name: name.to_owned(),
        next: next.map(StageNo),
        first_child: first_child.map(StageNo),
        owner: owner.map(StageNo),
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: Duration::from_secs(60),
        config: 0,
        child_failure: ChildFailure::Continue,
    }
}

fn recipe(stages: Vec<(StagePlan, fn() -> ItemReply)>) -> Recipe {
    let work = |says: fn() -> ItemReply| StageWork {
        handler: Arc::new(Says(says)),
        batch: 2,
        batch_tokens: None,
        concurrency: 2,
        gate: None,
        reuse: None,
    };
    Recipe {
        stages: stages.iter().map(|(_, says)| work(*says)).collect(),
        plan: Plan::new(stages.into_iter().map(|(plan, _)| plan).collect(), None),
        gates: Vec::new(),
        order: Order::Oldest,
        share: 0.0,
        budget: None,
        max_dead: None,
        thresholds: Thresholds::default(),
    }
}

fn new_run() -> NewRun {
    NewRun {
        pipeline: "p".to_owned(),
        source: "s".to_owned(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: String::new(),
    }
}

/// Works on a run of so many items to its end; returns how often a tick was waited for.
async fn ticks_waited_for(recipe: Recipe, items: u8) -> u32 {
    let clock = Arc::new(Counting::default());
    let env = Env { clock: clock.clone(), dice: Arc::new(Seeded::new(1)), ..Env::system() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let row = store.begin_run(new_run(), false, clock.now()).await.expect("begun").row;
    let (recipe, wake) = (Arc::new(recipe), Arc::new(Notify::new()));
    let admitting = Arc::new(AtomicBool::new(true));
    let (teller, stop) = watch::channel(Stop::No);
    let admission = Admission {
        store: store.clone(),
        recipe: recipe.clone(),
        env: env.clone(),
        run: row.id,
        last: row.reading,
        wake: wake.clone(),
        admitting: admitting.clone(),
        stop: stop.clone(),
        part: None,
        pace: Pace::Working,
    };
    let admitted = tokio::spawn(admission.admit(Box::new(Items(items))));
    let settings = Settings { lease: TICK * 9, tick: TICK, ..Settings::default() };
    let session = Session { store, recipe, env, settings, wake, admitting, stop, among: None };
    assert_eq!(session.work(row).await.expect("worked"), Ending::Finished);
    teller.send_replace(Stop::Now);
    admitted.await.expect("joined").outcome.expect("admitted");
    clock.ticks.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_small_run_never_waits_for_a_tick() {
    for items in [0, 1, 3, 20] {
        let two = || {
            recipe(vec![
                (stage("first", Some(1), None, None), passes as fn() -> ItemReply),
                (stage("second", None, None, None), passes),
            ])
        };
        assert_eq!(ticks_waited_for(two(), items).await, 0, "{items} items through two stages");
    }
}

#[tokio::test]
async fn parents_whose_children_are_done_go_on_without_waiting_for_a_tick() {
    for items in [1, 3, 20] {
        let nested = |next: Option<u16>| {
            let mut stages = vec![
                (stage("split", next, Some(1), None), splits as fn() -> ItemReply),
                (stage("part", None, None, Some(0)), passes),
            ];
            stages.extend(next.map(|_| (stage("last", None, None, None), passes as fn() -> ItemReply)));
            recipe(stages)
        };
        assert_eq!(ticks_waited_for(nested(Some(2)), items).await, 0, "{items} items with a stage after");
        assert_eq!(ticks_waited_for(nested(None), items).await, 0, "{items} items that end with their parts");
    }
}

/// Works on a run with items of which a worker held some when it vanished.
async fn after_a_worker_vanished(recipe: Recipe, items: u8, held: usize) -> Ending {
    let env = Env::system();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let now = env.clock.now();
    let row = store.create_run(new_run(), now).await.expect("created");
    let new = |n: u8| NewItem::new(format!("item {n}"), Payload::from(*b"{}"), u64::from(n));
    let cursor = Cursor { position: String::new(), done: true, duplicates: 0 };
    let submit = Submit {
        run: row.id,
        stage: StageNo(0),
        reading: Reading::FIRST,
        items: (0..items).map(new).collect(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: Some(cursor),
        now,
    };
    store.submit(submit).await.expect("submitted");
    let lost = NewWorker { name: "lost".to_owned(), identity: String::new(), runs: Vec::new() };
    let worker = store.register(lost, now.after(TICK), now).await.expect("registered");
    let slot =
        Slot { run: row.id, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit: held };
    let claimed = store.claim(Claim { worker, slots: vec![slot], pauses: 0, now }).await.expect("claimed");
    assert_eq!(claimed.items.len(), held);
    store.retire(worker, Retired::Lost).await.expect("retired");
    let (_teller, stop) = watch::channel(Stop::No);
    let (wake, admitting) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let session = Session {
        store,
        recipe: Arc::new(recipe),
        env,
        settings: Settings::default(),
        wake,
        admitting,
        stop,
        among: None,
    };
    let row = session.store.run(row.id).await.expect("read").expect("there");
    session.work(row).await.expect("worked")
}

#[tokio::test]
async fn items_that_die_with_their_worker_spend_the_budget_of_their_stage() {
    let fragile = PolicySpec { crash_limit: Some(1), ..PolicySpec::default() };
    let mut plan = stage("work", None, None, None);
    plan.policy = fragile.build().expect("it is right");
    let mut recipe = recipe(vec![(plan, passes as fn() -> ItemReply)]);
    recipe.budget = Some(BudgetSpec { consecutive: Some(3), ..BudgetSpec::default() });
    let ending = after_a_worker_vanished(recipe, 8, 3).await;
    let Ending::Halted(Halt::Budget(breach)) = ending else { panic!("{ending:?}") };
    assert_eq!(breach.to_string(), "stage work: 3 of its items died in a row");
}
