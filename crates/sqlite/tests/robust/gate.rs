//! Gates are shared by the processes on one file, and outlast them.

use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Applied, GateRow, Store};

use crate::life::{NOW, block_on};

fn gate(name: &str, rev: i64, state: &str) -> GateRow {
    GateRow { name: name.to_owned(), rev, state: state.to_owned(), updated_at: NOW }
}

#[test]
fn gates_survive_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gates.db");
    let large = "x".repeat(100_000);
    for rev in 0..3 {
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        let before: Vec<GateRow> =
            if rev == 0 { Vec::new() } else { vec![gate("llm", rev, &large), gate("\u{1f6a6}", rev, "{}")] };
        assert_eq!(block_on(store.gates()), Ok(before));
        let saved = store.save_gates(vec![gate("\u{1f6a6}", rev, "{}"), gate("llm", rev, &large)]);
        assert_eq!(block_on(saved), Ok(vec![Applied::Done; 2]));
    }
}

#[test]
fn two_stores_on_one_file_do_not_overwrite_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gates.db");
    let one = SqliteStore::open(&path, Options::default()).unwrap();
    let two = SqliteStore::open(&path, Options::default()).unwrap();
    block_on(async {
        assert_eq!(one.save_gates(vec![gate("llm", 0, "one")]).await, Ok(vec![Applied::Done]));
        assert_eq!(two.save_gates(vec![gate("llm", 0, "two")]).await, Ok(vec![Applied::Stale]));
        assert_eq!(two.gates().await, Ok(vec![gate("llm", 1, "one")]));
        assert_eq!(two.save_gates(vec![gate("llm", 1, "two")]).await, Ok(vec![Applied::Done]));
        assert_eq!(one.save_gates(vec![gate("llm", 1, "one")]).await, Ok(vec![Applied::Stale]));
        assert_eq!(one.gates().await, Ok(vec![gate("llm", 2, "two")]));
    });
}
