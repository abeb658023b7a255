//! The index is written whole, kept over versions of the schema, and what is missing in it is reported.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_core::event::ItemReply;
use redrive_core::index::Effect;
use redrive_core::item::StateKind;
use redrive_sqlite::{INDEX_WRITE, Options, SqliteStore};
use redrive_store::{Applied, Commit, Error, GateRow, Index, RunFilter, Store};
use rusqlite::Connection;

use crate::life::{NOW, all_ids, block_on};
use crate::pressure::decided;
use crate::shelf::{Shelf, chunks, filled};

#[test]
fn a_chunk_that_lost_its_vector_or_document_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.db");
    block_on(async {
        let shelf = filled(&path).await;
        assert_eq!(shelf.store.index_faults(99).await, Ok(Vec::new()));
        let conn = Connection::open(&path).unwrap();
        conn.execute("DELETE FROM vector WHERE no = (SELECT vector FROM chunk WHERE key = 'k5')", [])
            .unwrap();
        let faults = shelf.store.index_faults(99).await.unwrap();
        assert!(
            faults.len() == 1 && faults[0].contains("doc 5") && faults[0].contains("vector"),
            "{faults:?}"
        );
        assert_eq!(shelf.chunks().await.len(), 39, "the others are found");
        conn.execute("DELETE FROM doc WHERE path = 'doc 2'", []).unwrap();
        let faults = shelf.store.index_faults(99).await.unwrap();
        let lost = faults.iter().filter(|fault| fault.contains("document")).count();
        assert_eq!((faults.len(), lost), (6, 5), "{faults:?}");
        assert_eq!(shelf.store.index_faults(4).await.unwrap().len(), 4);
    });
}

#[test]
fn a_chunk_without_its_vector_fails_its_whole_commit() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let mut shelf = Shelf::open(&folder.path().join("missing.db"), Options::default()).await;
        let items = shelf.running(2).await;
        let effects = vec![shelf.keep("there"), shelf.put("a", "k", "missing")];
        let refused = shelf.commit(&items, effects).await.unwrap_err();
        assert!(matches!(&refused, Error::Corrupt(text) if text.contains("chunk k of a")), "{refused}");
        let size = shelf.store.size(shelf.collection.no).await.unwrap();
        assert_eq!((size.chunks, size.vectors), (0, 0));
        for item in &items {
            assert_eq!(shelf.store.item(item.seq).await.unwrap().as_ref(), Some(item));
        }
        assert_eq!(shelf.store.docs_after(shelf.collection.no, 0, 9).await, Ok(Vec::new()));
        let effects = vec![shelf.keep("missing"), shelf.put("a", "k", "missing")];
        assert_eq!(shelf.commit(&items, effects).await, Ok(vec![Applied::Done; 2]));
    });
}

/// How often a write into the index is still to fail.
static FAILING: AtomicUsize = AtomicUsize::new(0);

fn fails(point: &'static str) -> bool {
    assert_eq!(point, INDEX_WRITE);
    FAILING.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[test]
fn a_failing_write_leaves_neither_outcome_nor_index() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { fault_hook: fails, ..Options::default() };
    block_on(async {
        let mut shelf = Shelf::open(&folder.path().join("failing.db"), options).await;
        let no = shelf.collection.no;
        shelf.write(vec![shelf.keep("old"), shelf.put("a", "old", "old"), shelf.publish("a")]).await;
        let items = shelf.running(1).await;
        let before = (
            shelf.store.counters(shelf.run).await,
            shelf.chunks().await,
            shelf.store.docs_after(no, 0, 9).await,
            shelf.store.size(no).await,
        );
        let effects = [
            shelf.keep("new"),
            shelf.put("b", "new", "old"),
            shelf.publish("a"),
            Effect::Forget(shelf.doc("a")),
        ];
        for effect in &effects {
            FAILING.store(1, Ordering::SeqCst);
            let refused = shelf.commit(&items, vec![effect.clone()]).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)) && refused.is_passing(), "{refused}");
            assert_eq!(FAILING.load(Ordering::SeqCst), 0, "the write was met");
            assert_eq!(shelf.store.item(items[0].seq).await.unwrap().as_ref(), Some(&items[0]));
            assert_eq!(shelf.store.history(items[0].seq).await.unwrap().attempts, []);
            let after = (
                shelf.store.counters(shelf.run).await,
                shelf.chunks().await,
                shelf.store.docs_after(no, 0, 9).await,
                shelf.store.size(no).await,
            );
            assert_eq!(after, before);
        }
        FAILING.store(1, Ordering::SeqCst);
        let plain = shelf.running(1).await;
        let changes = vec![decided(&plain[0], ItemReply::Output(None)).into()];
        let commit = Commit { changes, now: NOW, ..Commit::default() };
        assert_eq!(shelf.store.commit(commit).await, Ok(vec![Applied::Done]), "not a write into the index");
        FAILING.store(0, Ordering::SeqCst);
        assert_eq!(shelf.commit(&items, vec![effects[1].clone()]).await, Ok(vec![Applied::Done]));
        let item = shelf.store.item(items[0].seq).await.unwrap().unwrap();
        assert_eq!((item.state.kind(), shelf.chunks().await.len()), (StateKind::Succeeded, 2));
    });
}

#[test]
fn a_rarer_word_ranks_first() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let mut shelf = Shelf::open(&folder.path().join("words.db"), Options::default()).await;
        for (key, text) in
            [("1", "common one"), ("2", "common two"), ("3", "common three"), ("4", "rare four")]
        {
            shelf.write(vec![shelf.keep(text), shelf.put("a", key, text)]).await;
        }
        assert_eq!(shelf.containing(&["common", "rare"]).await[0], "4");
        assert_eq!(shelf.containing(&["two"]).await, ["2"]);
    });
}

#[test]
fn the_words_are_those_of_the_chunks_after_every_kind_of_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.db");
    let check = |what: &str| {
        let conn = Connection::open(&path).unwrap();
        // With rank 1 it compares the words with the text of the chunks.
        let checked = conn.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)", []);
        assert!(checked.is_ok(), "{what}: {checked:?}");
        let sums: (i64, i64) = conn
            .query_row(
                "SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM words_docsize)",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert_eq!(sums.0, sums.1, "{what}");
    };
    block_on(async {
        let mut shelf = Shelf::open(&path, Options::default()).await;
        let texts = ["plain words", "", "e\u{301}t\u{e9} \u{1f9ea}", "it's \"quoted\"", "plain words"];
        for (n, text) in texts.into_iter().enumerate() {
            let key = format!("k{}", n % 3);
            shelf.write(vec![shelf.keep(text), shelf.put("a", &key, text), shelf.put("b", &key, text)]).await;
            check(text);
        }
        shelf.write(vec![shelf.publish("a"), Effect::Forget(shelf.doc("a"))]).await;
        check("forgotten");
        shelf.store.drop_collection(shelf.collection.no).await.unwrap();
        check("dropped");
    });
}

/// Puts the rows of a file into one that the version of schema 2 would have made.
fn take_back_to_schema_2(path: &Path) {
    let old_path = path.with_extension("old");
    let old = Connection::open(&old_path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_initial.sql")).unwrap();
    old.execute_batch(include_str!("../../migrations/0002_gates_and_usage.sql")).unwrap();
    old.execute_batch(&format!("ATTACH '{}' AS new", path.display())).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut select = old.prepare(sql).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let tables =
        names("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    for table in tables {
        let columns = names(&format!(
            "SELECT name FROM pragma_table_info('{table}', 'main')
             INTERSECT SELECT name FROM pragma_table_info('{table}', 'new')"
        ));
        let columns = columns.join(", ");
        old.execute_batch(&format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}"
        ))
        .unwrap();
    }
    // Counters that it did not keep.
    old.execute("DELETE FROM main.counter WHERE metric >= 1200000", []).unwrap();
    old.execute_batch("DETACH new; PRAGMA application_id = 0x52445256; PRAGMA user_version = 2").unwrap();
    drop(old);
    std::fs::rename(&old_path, path).unwrap();
}

#[test]
fn a_file_of_schema_2_keeps_its_rows_and_gets_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.db");
    let gate = GateRow { name: "llm".to_owned(), rev: 0, state: "{}".to_owned(), updated_at: NOW };
    let (ids, gates, runs) = block_on(async {
        let shelf = filled(&path).await;
        shelf.store.save_gates(vec![gate]).await.unwrap();
        let runs = shelf.store.runs(RunFilter::default(), None, 9).await.unwrap();
        (all_ids(&shelf.store).await.unwrap(), shelf.store.gates().await.unwrap(), runs)
    });
    assert_eq!(ids.len(), 120);
    take_back_to_schema_2(&path);
    // The second time it is opened with the schema it then has.
    for _ in 0..2 {
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        block_on(async {
            assert_eq!(all_ids(&store).await.unwrap(), ids);
            assert_eq!(store.gates().await.unwrap(), gates);
            assert_eq!(store.runs(RunFilter::default(), None, 9).await.unwrap(), runs);
            assert_eq!(store.collections().await, Ok(Vec::new()));
        });
    }
    block_on(async {
        let mut shelf = Shelf::open(&path, Options::default()).await;
        shelf.write(vec![shelf.keep("text"), shelf.put("a", "k", "text")]).await;
        assert_eq!((shelf.chunks().await.len(), shelf.containing(&["text"]).await.len()), (1, 1));
    });
}

#[test]
fn the_index_survives_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.db");
    block_on(async {
        let shelf = filled(&path).await;
        let (no, before) = (shelf.collection.no, shelf.chunks().await);
        let docs = shelf.store.docs_after(no, 0, 99).await;
        drop(shelf);
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        assert_eq!((chunks(&store, no).await, store.docs_after(no, 0, 99).await), (Ok(before), docs));
        assert_eq!(store.index_faults(9).await, Ok(Vec::new()));
    });
}
