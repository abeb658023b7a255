//! The process is killed around the commit of outcomes that write into the index: both are there, or neither.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_core::index::CollectionNo;
use redrive_core::item::StateKind;
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Index, ItemQuery, Store};

use crate::life::block_on;
use crate::shelf::{Shelf, chunks};

const POINT: &str = "REDRIVE_TEST_INDEX_CRASH_POINT";
const HIT: &str = "REDRIVE_TEST_INDEX_CRASH_HIT";
const FOLDER: &str = "REDRIVE_TEST_INDEX_CRASH_FOLDER";

static HITS: AtomicUsize = AtomicUsize::new(0);

fn die_there(point: &'static str) {
    if std::env::var(POINT).as_deref() == Ok(point) {
        let hit = HITS.fetch_add(1, Ordering::SeqCst) + 1;
        if std::env::var(HIT).as_deref() == Ok(hit.to_string().as_str()) {
            std::process::abort();
        }
    }
}

/// The child's part: a chunk and its vector a round, until it dies. Does nothing when it is not a child.
#[test]
fn indexes_until_it_dies() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let options = Options { crash_hook: die_there, ..Options::default() };
    block_on(async {
        let mut shelf = Shelf::open(&folder.join("crash.db"), options).await;
        for round in 0..8 {
            let text = format!("text {round}");
            let effects = vec![shelf.keep(&text), shelf.put("a", &format!("k{round}"), &text)];
            shelf.write(effects).await;
            fs::write(folder.join("acknowledged"), (round + 1).to_string()).unwrap();
        }
    });
}

#[test]
fn a_killed_process_leaves_outcome_and_chunk_or_neither() {
    let mut rounds = BTreeSet::new();
    for point in ["sqlite.before_commit", "sqlite.after_commit"] {
        // A round is three transactions, and three come before the first.
        for hit in 4..14 {
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "index_crash::indexes_until_it_dies"])
                .env(POINT, point)
                .env(HIT, hit.to_string())
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            assert!(child.status.code().is_none(), "{point} was met {hit} times, and the process died there");
            rounds.insert((point, check(folder.path(), point)));
        }
    }
    assert!(rounds.len() >= 6, "it died in several rounds: {rounds:?}");
}

/// How many rounds are there.
fn check(folder: &Path, point: &str) -> usize {
    let acknowledged =
        fs::read_to_string(folder.join("acknowledged")).map_or(0, |text| text.parse().unwrap());
    let store = SqliteStore::open(&folder.join("crash.db"), Options::default()).unwrap();
    block_on(async {
        let items = store.items(ItemQuery { limit: 99, ..ItemQuery::default() }).await.unwrap();
        let done = items.iter().filter(|item| item.state.kind() == StateKind::Succeeded).count();
        let kept = chunks(&store, CollectionNo(1)).await.unwrap().len();
        let size = store.size(CollectionNo(1)).await.unwrap();
        assert_eq!((done, size.chunks, size.vectors), (2 * kept, kept as u64, kept as u64), "{point}");
        assert_eq!(store.index_faults(9).await, Ok(Vec::new()));
        let most = acknowledged + usize::from(point == "sqlite.after_commit");
        assert!((acknowledged..=most).contains(&kept), "{point}: {kept} of {acknowledged}");
        kept
    })
}
