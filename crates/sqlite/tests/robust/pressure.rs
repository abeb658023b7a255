//! A full disk, rivals for one file, and bad commands beside good ones.

use std::sync::Arc;

use redrive_core::attempt::{AttemptRecord, Outcome};
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply, Transition};
use redrive_core::id::{RunId, StageNo, WorkerId};
use redrive_core::item::Item;
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::time::Timestamp;
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Applied, Claim, Commit, Error, NewWorker, Slot, Store, Submitted};

use crate::life::{NOW, all_ids, block_on, new_run, submission};

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.db");
    let options = Options { max_pages: Some(120), ..Options::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let mut admitted = Vec::new();
    let run = block_on(store.create_run(new_run(), NOW)).unwrap().id;
    let mut next = 0;
    let refused = loop {
        match block_on(store.submit(submission(run, next..next + 20, 400))) {
            Ok(answers) => admitted.extend(answers.into_iter().map(|answer| match answer {
                Submitted::Admitted(id) => id,
                other => panic!("{other:?}"),
            })),
            Err(error) => break error,
        }
        next += 20;
    };
    assert!(matches!(&refused, Error::Full(text) if text.contains("full.db")), "{refused}");
    assert!(refused.is_passing() && admitted.len() > 40);
    assert_eq!(block_on(all_ids(&store)).unwrap(), admitted, "reading goes on");
    let counted: i64 = block_on(store.counters(run)).unwrap().iter().map(|counter| counter.n).sum();
    assert_eq!(counted, 2 * i64::try_from(admitted.len()).unwrap(), "admitted and waiting");
    drop(store);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(block_on(all_ids(&store)).unwrap(), admitted);
    let again = block_on(store.submit(submission(run, next..next + 20, 400))).unwrap();
    assert!(again.iter().all(|answer| matches!(answer, Submitted::Admitted(_))), "work goes on");
}

#[test]
fn two_stores_on_one_file_do_not_lock_each_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    let stores: Vec<_> =
        (0..2).map(|_| Arc::new(SqliteStore::open(&path, Options::default()).unwrap())).collect();
    let run = block_on(stores[0].create_run(new_run(), NOW)).unwrap().id;
    let threads: Vec<_> = stores
        .iter()
        .cloned()
        .zip([0, 1_000])
        .map(|(store, first)| {
            std::thread::spawn(move || {
                block_on(async {
                    let worker = worker(&*store).await;
                    let mut got = Vec::new();
                    for n in 0..40 {
                        let first = first + n * 5;
                        store.submit(submission(run, first..first + 5, 50)).await.unwrap();
                        got.extend(claim(&*store, run, worker, 4).await);
                    }
                    got
                })
            })
        })
        .collect();
    let mut seqs: Vec<_> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).map(|item| item.seq).collect();
    let total = seqs.len();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!((seqs.len(), total), (320, 320), "no item went to both");
    assert_eq!(block_on(all_ids(&*stores[1])).unwrap().len(), 400);
}

#[test]
fn many_may_create_the_same_store_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        let openers: Vec<_> = (0..6)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let store = SqliteStore::open(&path, Options::default())?;
                    block_on(store.create_run(new_run(), NOW))
                })
            })
            .collect();
        let mut ids: Vec<_> =
            openers.into_iter().map(|opener| opener.join().unwrap().unwrap().id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn a_bad_command_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("group.db"), Options::default()).unwrap());
    block_on(async {
        let run = store.create_run(new_run(), NOW).await.unwrap().id;
        let worker = worker(&*store).await;
        store.submit(submission(run, 0..20, 50)).await.unwrap();
        let held = claim(&*store, run, worker, 20).await;
        let mut changes: Vec<Transition> = held.iter().map(passed).collect();
        // The same attempt twice is a mistake in the program: it breaks the table's key.
        let first = changes.remove(0);
        let record = first.record.clone().unwrap();
        assert_eq!(store.commit(commit(first)).await, Ok(vec![Applied::Done]));
        let twice = AttemptRecord { outcome: Outcome::Failed, ..record };
        let bad = block(&*store, &held[0], twice).await;
        let mut all = Vec::new();
        for (n, change) in changes.into_iter().enumerate() {
            if n == 7 {
                all.push(commit(bad.clone()));
            }
            all.push(commit(change));
        }
        // Polled together, they are queued together, and most share one transaction.
        let running: Vec<_> = all
            .into_iter()
            .map(|commit| {
                let store = store.clone();
                tokio::spawn(async move { store.commit(commit).await })
            })
            .collect();
        let mut answers = Vec::new();
        for one in running {
            answers.push(one.await.unwrap());
        }
        let bad = answers.remove(7);
        assert!(matches!(&bad, Err(Error::Internal(text)) if text.contains("attempt")), "{bad:?}");
        assert!(answers.iter().all(|answer| *answer == Ok(vec![Applied::Done])), "{answers:?}");
        let counters = store.counters(run).await.unwrap();
        let metric = redrive_core::tally::Metric::Outcome(Outcome::Succeeded);
        let succeeded = redrive_core::tally::Counter { stage: StageNo(0), metric, n: 20 };
        assert!(counters.contains(&succeeded), "{counters:?}");
    });
}

#[test]
fn a_closed_store_is_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("close.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let run = block_on(store.create_run(new_run(), NOW)).unwrap().id;
    block_on(store.submit(submission(run, 0..50, 50))).unwrap();
    drop(store);
    assert!(!folder.path().join("close.db-wal").exists(), "the log was moved into the file");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(block_on(all_ids(&store)).unwrap().len(), 50);
}

#[test]
fn a_store_in_memory_answers_at_once() {
    let store = SqliteStore::in_memory().unwrap();
    let mut waiting = std::task::Context::from_waker(std::task::Waker::noop());
    let mut future = store.create_run(new_run(), NOW);
    assert!(future.as_mut().poll(&mut waiting).is_ready());
    let mut future = store.workers();
    assert!(future.as_mut().poll(&mut waiting).is_ready());
}

pub(crate) async fn worker(store: &dyn Store) -> WorkerId {
    let new = NewWorker { name: "w".to_owned(), identity: "1".to_owned(), runs: Vec::new() };
    store.register(new, Timestamp::MAX, NOW).await.unwrap()
}

pub(crate) async fn claim(store: &dyn Store, run: RunId, worker: WorkerId, limit: usize) -> Vec<Item> {
    let slot = Slot { run, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit };
    let claimed = store.claim(Claim { worker, slots: vec![slot], pauses: 0, now: NOW }).await.unwrap();
    claimed.items.into_iter().map(|held| held.item).collect()
}

fn passed(item: &Item) -> Transition {
    decided(item, ItemReply::Output(None))
}

pub(crate) fn decided(item: &Item, reply: ItemReply) -> Transition {
    let stage = StagePlan {
        name: "only".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").unwrap().policy.clone(),
        timeout: std::time::Duration::from_secs(1),
        config: 1,
        child_failure: ChildFailure::Continue,
    };
    let at = Moment { now: NOW, draw: Draw::MIDDLE };
    decide(item, Event::Finished(reply), &Plan::new(vec![stage], None), at).unwrap()
}

fn commit(transition: Transition) -> Commit {
    Commit { changes: vec![transition.into()], now: NOW, ..Commit::default() }
}

/// A change of an item that fits its change number and carries an attempt that is there already.
async fn block(store: &dyn Store, item: &Item, record: AttemptRecord) -> Transition {
    let current = store.item(item.seq).await.unwrap().unwrap();
    let mut transition = passed(item);
    transition.guard = current.rev;
    transition.after.rev = current.rev.next();
    transition.record = Some(record);
    transition
}
