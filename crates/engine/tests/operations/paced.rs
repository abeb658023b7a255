//! A set that is sent back at a rate: each item when its time is near, whoever dies or stops it meanwhile.

use std::collections::BTreeMap;

use async_trait::async_trait;
use redrive_core::id::ItemSeq;
use redrive_core::item::State;
use redrive_engine::admin::{Plans, SetRedrive};

use super::sets::{Manual, at, begun, end_those_due, items, pass_those_due};
use super::*;

const ITEMS: usize = 60;
const BEGUN: i64 = 1_000_000;

/// A store with a redrive under way, and somebody who looks after it once a second.
struct World {
    store: Arc<MemoryStore>,
    clock: Arc<Manual>,
    env: Env,
    operation: OperationId,
    /// When each item was due that was sent back.
    dues: BTreeMap<ItemSeq, i64>,
}

impl World {
    async fn new(items: usize, set: SetRedrive) -> Self {
        let store = Arc::new(MemoryStore::new());
        let run = store.create_run(a_run("s"), Timestamp(1)).await.expect("a run").id;
        bury(&*store, run, items).await;
        let (clock, env) = at(BEGUN);
        let operation = begun(&*store, set, &env).await;
        Self { store, clock, env, operation, dues: BTreeMap::new() }
    }

    fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    /// Carries it on once; whether it has ended.
    async fn look(&mut self) -> bool {
        let done = admin::go_on(&*self.store, self.operation, &|_| Some(plan()), &self.env).await;
        self.note_down().await;
        done.expect("it goes on").is_some()
    }

    async fn note_down(&mut self) {
        for item in items(&*self.store, StateKind::Waiting).await {
            assert_eq!(item.generation, 1, "it is sent back once");
            let State::Waiting { due, .. } = item.state else { panic!("it waits") };
            assert_eq!(*self.dues.entry(item.seq).or_insert(due.0), due.0, "it is sent back once");
        }
    }

    fn wait(&self, millis: i64) {
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    async fn row(&self) -> Operation {
        self.store.operation(self.operation).await.expect("read").expect("there")
    }

    /// The moments, each of which has to be a step after the one before.
    fn moments(&self) -> Vec<i64> {
        let mut moments: Vec<i64> = self.dues.values().copied().collect();
        moments.sort_unstable();
        moments
    }
}

fn two_a_second() -> SetRedrive {
    SetRedrive { rate: Some(2.0), ..SetRedrive::default() }
}

#[tokio::test]
async fn a_rate_is_kept_and_nothing_is_in_line_long_before_its_time() {
    let mut world = World::new(ITEMS, two_a_second()).await;
    let mut looks = 0;
    while !world.look().await {
        let in_line = items(&*world.store, StateKind::Waiting).await.len();
        assert!(in_line <= 6, "{in_line} are in line");
        assert!(in_line > 0, "the run would be taken for finished");
        world.wait(1_000);
        pass_those_due(&*world.store, world.now()).await;
        looks += 1;
        assert!(looks < 100, "it never ends");
    }
    assert_eq!(world.dues.len(), ITEMS);
    for (n, due) in (0..).zip(world.moments()) {
        assert!((due - BEGUN - 500 * n).abs() <= 1_000, "item {n} was due after {} ms", due - BEGUN);
    }
    let row = world.row().await;
    assert_eq!((row.state, row.changed, row.skipped), (OperationState::Done, ITEMS as u64, 0));
    let took = world.now().0 - BEGUN;
    assert!((26_000..=30_000).contains(&took), "the last is in line, and it is done: after {took} ms");
}

#[tokio::test]
async fn a_set_of_which_nothing_is_left_ends_at_once_whatever_the_rate() {
    let hourly = SetRedrive { rate: Some(1.0 / 3_600.0), ..SetRedrive::default() };
    for items in [0, 1, 2] {
        let mut world = World::new(items, hourly.clone()).await;
        assert!(world.look().await, "{items} items are in line");
        assert_eq!(world.row().await.state, OperationState::Done);
    }
    let mut world = World::new(9, hourly).await;
    assert!(!world.look().await);
    assert_eq!(world.dues.len(), 2, "the first, and the next in line");
}

#[tokio::test]
async fn a_kill_in_the_middle_sends_each_once_and_keeps_the_rate() {
    let mut world = World::new(ITEMS, two_a_second()).await;
    let mut killed = 0;
    for second in 0.. {
        if second % 5 == 3 {
            let (store, env, operation) = (world.store.clone(), world.env.clone(), world.operation);
            let process = tokio::spawn(async move {
                let plans = |_: RunId| -> Option<Plan> { panic!("the process dies here") };
                admin::go_on(&*store, operation, &plans, &env).await
            });
            killed += u32::from(process.await.is_err());
            // Nobody looks after it for a while.
            world.wait(4_000);
        }
        if world.look().await {
            break;
        }
        world.wait(1_000);
        pass_those_due(&*world.store, world.now()).await;
        assert!(second < 200, "it never ends");
    }
    assert!(killed > 3, "it was killed {killed} times");
    assert_eq!(world.dues.len(), ITEMS);
    for pair in world.moments().windows(2) {
        assert!(pair[1] - pair[0] >= 500, "two are due within {} ms", pair[1] - pair[0]);
        assert!(pair[1] - pair[0] <= 5_500, "nobody waits for what is in line already");
    }
}

/// Plans of a process that dies before it comes to a run.
struct DiesBefore(RunId);

#[async_trait]
impl Plans for DiesBefore {
    async fn plan(&self, run: RunId) -> redrive_store::Result<Option<Plan>> {
        match run == self.0 {
            true => Err(Error::Internal("the process dies here".to_owned())),
            false => Ok(Some(plan())),
        }
    }
}

#[tokio::test]
async fn a_page_of_two_runs_that_is_broken_off_between_them_leaves_no_gap() {
    for rate in [None, Some(1_000.0), Some(7.0)] {
        let store = Arc::new(MemoryStore::new());
        let one = store.create_run(a_run("one"), Timestamp(1)).await.expect("a run").id;
        let other = store.create_run(a_run("other"), Timestamp(1)).await.expect("a run").id;
        // The run that goes first has the items that came last.
        bury(&*store, other, 7).await;
        bury(&*store, one, 7).await;
        let (clock, env) = at(BEGUN);
        let operation = begun(&*store, SetRedrive { rate, ..SetRedrive::default() }, &env).await;
        let broken = admin::go_on(&*store, operation, &DiesBefore(other), &env).await;
        assert!(broken.is_err(), "it died");
        assert_eq!(in_state(&*store, StateKind::Waiting).await, 7, "of the one run only");
        for _ in 0..9 {
            clock.0.fetch_add(1_000, Ordering::SeqCst);
            admin::go_on(&*store, operation, &|_| Some(plan()), &env).await.expect("it goes on");
        }
        assert_eq!(in_state(&*store, StateKind::Dead).await, 0, "at a rate of {rate:?}");
        let row = store.operation(operation).await.expect("read").expect("there");
        assert_eq!((row.state, row.changed), (OperationState::Done, 14));
    }
}

#[tokio::test]
async fn what_is_stopped_sends_no_more() {
    let mut world = World::new(300, SetRedrive { rate: Some(3.0), ..SetRedrive::default() }).await;
    for _ in 0..4 {
        assert!(!world.look().await);
        world.wait(1_000);
        pass_those_due(&*world.store, world.now()).await;
    }
    let sent = world.dues.len();
    assert!((10..=20).contains(&sent), "{sent} were sent");
    let stopped = admin::stop_operation(&*world.store, world.operation, world.now()).await;
    assert_eq!(stopped, Ok(true));
    for _ in 0..9 {
        world.wait(1_000);
        world.look().await;
    }
    assert_eq!(world.dues.len(), sent);
    let tally = admin::tally(&*world.store, world.operation).await.expect("counted");
    assert_eq!((tally.sent(), tally.pending), (sent as u64, 300 - sent as u64));
    assert_eq!(world.row().await.state, OperationState::Cancelled);
}

#[tokio::test]
async fn a_share_stops_a_small_set_at_a_rate_after_a_handful() {
    for (items, most) in [(ITEMS, 7), (20, 5), (8, 5), (5_000, 20)] {
        let mut world = World::new(items, SetRedrive { stop_at: Some(0.1), ..two_a_second() }).await;
        let mut looks = 0;
        while !world.look().await {
            world.wait(1_000);
            end_those_due(&*world.store, world.now()).await;
            looks += 1;
            assert!(looks < 30, "it is not stopped");
        }
        let row = world.row().await;
        assert_eq!(row.state, OperationState::Cancelled);
        assert!(row.request.contains("failed again, more than 10 percent"), "{}", row.request);
        let sent = world.dues.len();
        assert!((5..=most).contains(&sent), "of {items} items {sent} were sent");
    }
}

#[tokio::test]
async fn what_an_older_version_began_at_a_rate_is_gone_on_with_where_it_was() {
    let (store, _) = graveyard().await;
    let (clock, env) = at(BEGUN);
    let request = Redrive { rate: Some(10.0), ..Redrive::of(ItemFilter::default()) };
    let left = broken_off_at(&store, &request, env.clone()).await;
    clock.0.fetch_add(40_000, Ordering::SeqCst);
    admin::go_on(&*store, left.id, &|_| Some(plan()), &env).await.expect("it goes on").expect("done");
    let due = |item: &Item| match item.state {
        State::Waiting { due, .. } => due.0,
        _ => panic!("it waits"),
    };
    let mut dues: Vec<i64> = items(&*store, StateKind::Waiting).await.iter().map(due).collect();
    dues.sort_unstable();
    assert_eq!(dues.len(), DEAD);
    assert!(dues.windows(2).all(|pair| pair[1] - pair[0] == 100), "one after the other, without a gap");
}
