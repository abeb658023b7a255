//! The process is killed at every crash point; what it had acknowledged is there, and nothing is there by half.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_core::id::StageNo;
use redrive_core::tally::{Counter, Metric};
use redrive_sqlite::{CRASH_POINTS, Options, SqliteStore};
use redrive_store::{RunFilter, Store};

use crate::life::{NOW, all_ids, block_on, new_run, submission};

const POINT: &str = "REDRIVE_TEST_CRASH_POINT";
const HIT: &str = "REDRIVE_TEST_CRASH_HIT";
const FOLDER: &str = "REDRIVE_TEST_CRASH_FOLDER";
const BATCH: u64 = 5;

static HITS: AtomicUsize = AtomicUsize::new(0);

/// Dies at the point that the parent chose, when it comes by for the chosen time.
fn die_there(point: &'static str) {
    if std::env::var(POINT).as_deref() == Ok(point) {
        let hit = HITS.fetch_add(1, Ordering::SeqCst) + 1;
        if std::env::var(HIT).as_deref() == Ok(hit.to_string().as_str()) {
            std::process::abort();
        }
    }
}

/// The child's part: works until it dies, and writes down what was acknowledged. Does nothing when it is not a child.
#[test]
fn works_until_it_dies() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let options = Options { crash_hook: die_there, ..Options::default() };
    let store = SqliteStore::open(&folder.join("crash.db"), options).unwrap();
    block_on(async {
        let run = store.create_run(new_run(), NOW).await.unwrap().id;
        for batch in 0..20 {
            let keys = batch * BATCH..(batch + 1) * BATCH;
            store.submit(submission(run, keys, 3_000)).await.unwrap();
            fs::write(folder.join("acknowledged"), (batch + 1).to_string()).unwrap();
        }
    });
}

#[test]
fn a_killed_process_keeps_what_it_acknowledged() {
    for point in CRASH_POINTS {
        let hits: &[usize] = if *point == "sqlite.mid_migration" { &[1, 2, 3] } else { &[1, 2, 3, 9] };
        for hit in hits {
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "crash::works_until_it_dies"])
                .env(POINT, point)
                .env(HIT, hit.to_string())
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            assert!(child.status.code().is_none(), "{point} was met {hit} times, and the process died there");
            check(folder.path(), point);
        }
    }
}

fn check(folder: &Path, point: &str) {
    let acknowledged =
        fs::read_to_string(folder.join("acknowledged")).map_or(0, |text| text.parse().unwrap());
    let store = SqliteStore::open(&folder.join("crash.db"), Options::default()).unwrap();
    block_on(async {
        let items = all_ids(&store).await.unwrap().len() as u64;
        assert_eq!(items % BATCH, 0, "{point}: a submission is there whole or not at all");
        let kept = items / BATCH;
        let runs = store.runs(RunFilter::default(), None, 9).await.unwrap();
        match point {
            "sqlite.after_commit" => {
                assert!(runs.len() == 1 && kept <= acknowledged + 1 && kept >= acknowledged)
            }
            _ => assert_eq!(kept, acknowledged, "{point}"),
        }
        for run in runs {
            let counters = store.counters(run.id).await.unwrap();
            let n = i64::try_from(items).unwrap();
            let admitted = Counter { stage: StageNo(0), metric: Metric::Admitted, n };
            assert!(items == 0 || counters.contains(&admitted), "{point}: {counters:?}");
        }
    });
}
