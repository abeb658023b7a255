//! Measures submit, claim and commit against the disk this is run on: `cargo run --release --example throughput`.
//!
//! Arguments: folder (default: a temporary one), items (default 50000), batch (default 500).

#![expect(clippy::disallowed_methods, reason = "a measurement needs the clock")]
#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply};
use redrive_core::id::{RunId, StageNo, WorkerId};
use redrive_core::item::NewItem;
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::time::Timestamp;
use redrive_sqlite::{Options, SqliteStore, Synchronous};
use redrive_store::{Claim, ClaimedItem, Commit, NewRun, NewWorker, Slot, Store, Submit};

const NOW: Timestamp = Timestamp(1_000_000);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = arguments.next().map_or(temporary.path().to_path_buf(), PathBuf::from);
    let items: usize = arguments.next().map_or(50_000, |text| text.parse().expect("a number"));
    let batch: usize = arguments.next().map_or(500, |text| text.parse().expect("a number"));
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let path = folder.join(format!("{synchronous:?}.db"));
        let store = SqliteStore::open(&path, Options { synchronous, ..Options::default() }).expect("a store");
        println!("{synchronous:?}, {items} items in batches of {batch}, 200 bytes each");
        let run = measure(&store, items, batch).await;
        for first in (0..items).step_by(batch) {
            store.submit(submission(run, items + first, batch.min(items - first))).await.expect("submit");
        }
        drop(store);
        bare(&path, synchronous, batch).expect("bare SQL");
    }
}

/// The same writes to the same tables, without a store around them: what SQLite itself takes.
fn bare(path: &Path, synchronous: Synchronous, batch: usize) -> rusqlite::Result<()> {
    let conn = rusqlite::Connection::open(path)?;
    conn.pragma_update(None, "synchronous", format!("{synchronous:?}"))?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.set_prepared_statement_cache_capacity(64);
    let waiting = "SELECT seq FROM item WHERE state = 0 ORDER BY seq";
    let seqs: Vec<i64> = conn.prepare(waiting)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let (mut claiming, mut committing) = (Duration::ZERO, Duration::ZERO);
    for some in seqs.chunks(batch) {
        let begun = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for seq in some {
            conn.prepare_cached(
                "UPDATE item SET state = 1, lane = 1, due = NULL, worker = 1, since = 1, rev = rev + 1, attempt = 1
                 WHERE seq = ?1",
            )?
            .execute([seq])?;
        }
        conn.execute_batch("COMMIT")?;
        claiming += begun.elapsed();
        let begun = Instant::now();
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for seq in some {
            conn.prepare_cached(
                "UPDATE item SET state = 3, worker = NULL, since = NULL, rev = rev + 1 WHERE seq = ?1 AND rev = 1",
            )?
            .execute([seq])?;
            conn.prepare_cached(
                "INSERT INTO attempt VALUES (?1, 0, 0, 1, 1, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1, 1)",
            )?
            .execute([seq])?;
        }
        conn.execute_batch("COMMIT")?;
        committing += begun.elapsed();
    }
    report("bare claim", seqs.len(), claiming);
    report("bare commit", seqs.len(), committing);
    report("bare both", seqs.len(), claiming + committing);
    Ok(())
}

async fn measure(store: &SqliteStore, items: usize, batch: usize) -> RunId {
    let run = store.create_run(new_run(), NOW).await.expect("a run").id;
    let new = NewWorker { name: "w".to_owned(), identity: "1".to_owned(), runs: Vec::new() };
    let worker = store.register(new, Timestamp::MAX, NOW).await.expect("a worker");
    let begun = Instant::now();
    for first in (0..items).step_by(batch) {
        store.submit(submission(run, first, batch.min(items - first))).await.expect("submit");
    }
    report("submit", items, begun.elapsed());
    let (mut claiming, mut committing, mut total) = (Duration::ZERO, Duration::ZERO, 0);
    loop {
        let begun = Instant::now();
        let held = claim(store, run, worker, batch).await;
        claiming += begun.elapsed();
        if held.is_empty() {
            break;
        }
        total += held.len();
        let commit = finish(&held);
        let begun = Instant::now();
        store.commit(commit).await.expect("commit");
        committing += begun.elapsed();
    }
    report("claim", total, claiming);
    report("commit", total, committing);
    report("claim + commit", total, claiming + committing);
    run
}

fn report(what: &str, n: usize, took: Duration) {
    println!(
        "  {what:<15} {:>9.0} items/s  {:>7.2} µs each",
        n as f64 / took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / n as f64
    );
}

fn new_run() -> NewRun {
    NewRun {
        pipeline: "bench".to_owned(),
        source: "none".to_owned(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: "/".to_owned(),
    }
}

fn submission(run: RunId, first: usize, count: usize) -> Submit {
    let item = |n: usize| NewItem::new(format!("item-{n}"), format!("{n:>0200}").into_bytes(), n as u64);
    Submit {
        reading: redrive_core::reading::Reading::FIRST,
        run,
        stage: StageNo(0),
        items: (first..first + count).map(item).collect(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: None,
        now: NOW,
    }
}

async fn claim(store: &SqliteStore, run: RunId, worker: WorkerId, limit: usize) -> Vec<ClaimedItem> {
    let slot = Slot { run, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit };
    store.claim(Claim { worker, slots: vec![slot], pauses: 0, now: NOW }).await.expect("claim").items
}

fn finish(held: &[ClaimedItem]) -> Commit {
    let stage = StagePlan {
        name: "only".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("a preset").policy.clone(),
        timeout: Duration::from_secs(1),
        config: 1,
        child_failure: ChildFailure::Continue,
    };
    let plan = Plan::new(vec![stage], None);
    let at = Moment { now: NOW, draw: Draw::MIDDLE };
    let passed = |held: &ClaimedItem| {
        decide(&held.item, Event::Finished(ItemReply::Output(None)), &plan, at).expect("legal")
    };
    Commit { changes: held.iter().map(|held| passed(held).into()).collect(), now: NOW, ..Commit::default() }
}
