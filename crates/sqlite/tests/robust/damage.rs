//! A byte that changed on the disk is seen, wherever it is, and concerns nobody but the item it belongs to.

use std::fs;
use std::path::{Path, PathBuf};

use redrive_core::id::{ContentHash, StageNo};
use redrive_core::item::NewItem;
use redrive_core::order::Order;
use redrive_core::time::Timestamp;
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Claim, Content, Damage, NewWorker, Slot, Store, Submit};
use rusqlite::Connection;

use crate::life::{NOW, block_on, new_run, submission};

const SMALL: usize = 200;
const LARGE: usize = 5_000;

/// A store with 20 items of inline content and 5 of large content, closed.
fn store_of_25(folder: &Path) -> PathBuf {
    let path = folder.join("items.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    block_on(async {
        let run = store.create_run(new_run(), NOW).await.unwrap().id;
        store.submit(submission(run, 0..20, SMALL)).await.unwrap();
        store.submit(submission(run, 20..25, LARGE)).await.unwrap();
    });
    path
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn found(path: &Path) -> Vec<Damage> {
    let store = SqliteStore::open(path, Options::default()).unwrap();
    block_on(store.damage(99)).unwrap()
}

/// Flips the lowest bit of a byte at every place of the file where these bytes are, and returns how many there were.
fn flip(path: &Path, bytes: &[u8]) -> usize {
    let mut file = fs::read(path).unwrap();
    let places: Vec<usize> =
        file.windows(bytes.len()).enumerate().filter(|(_, at)| *at == bytes).map(|(at, _)| at).collect();
    places.iter().for_each(|at| file[at + bytes.len() / 2] ^= 1);
    fs::write(path, file).unwrap();
    places.len()
}

fn padded(n: u64, size: usize) -> Vec<u8> {
    format!("{n:>size$}").into_bytes()
}

#[test]
fn a_flipped_byte_is_found_and_its_item_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(store_of_25(folder.path())).unwrap();
    for (n, size) in [(7, SMALL), (22, LARGE)] {
        let path = folder.path().join(format!("flip {n}.db"));
        fs::write(&path, &whole).unwrap();
        assert_eq!(found(&path), []);
        // The end of a large content, padding and number, is in one page of its own.
        let content = padded(n, size);
        assert!(flip(&path, &content[size - 100..]) > 0);
        let damage = found(&path);
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!(damage[0].key.as_deref(), Some(&*format!("key {n}")));
        assert!(
            damage[0].item.is_some() && damage[0].what.starts_with("its content is damaged: "),
            "{damage:?}"
        );
    }
}

#[test]
fn a_row_that_an_index_has_lost_is_found_whatever_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let run = redrive_core::id::RunId(1);
    for n in 0..300 {
        // Above the size up to which a file is read through when it is opened.
        block_on(store.submit(submission(run, 1_000 + n..1_001 + n, 60_000))).unwrap();
    }
    let id = block_on(crate::life::all_ids(&store)).unwrap()[3];
    drop(store);
    assert!(fs::metadata(&path).unwrap().len() > 16 << 20);
    let whole = fs::read(&path).unwrap();
    let places: Vec<usize> =
        whole.windows(16).enumerate().filter(|(_, at)| *at == id.0).map(|(at, _)| at).collect();
    // In its table, in the index, and where pages were before they were divided.
    let lost = places.iter().filter(|at| {
        let mut file = whole.clone();
        file[*at + 15] ^= 1;
        fs::write(&path, file).unwrap();
        found(&path).iter().any(|damage| damage.what.contains("missing from index item_id"))
    });
    assert_eq!(lost.count(), 2, "the row and the index do not agree, whichever of them was changed");
}

#[test]
fn a_page_of_a_large_store_that_was_zeroed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    for n in 0..300 {
        let run = redrive_core::id::RunId(1);
        block_on(store.submit(submission(run, 1_000 + n..1_001 + n, 60_000))).unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4_096;
    for page in [pages / 3, pages / 2, pages - 1] {
        let mut damaged = whole.clone();
        damaged[page * 4_096..(page + 1) * 4_096].fill(0);
        fs::write(&path, damaged).unwrap();
        assert_ne!(found(&path), [], "page {page}");
    }
}

#[test]
fn what_was_kept_before_there_were_sums_is_looked_at_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    change(&path, "UPDATE item SET payload_sum = NULL");
    assert_eq!(found(&path), []);
    // One that no stage has passed has what it was submitted with; one that a stage has passed has JSON.
    change(&path, "UPDATE item SET payload = CAST('{\"n\":1}' AS BLOB) WHERE seq IN (5, 6)");
    change(&path, "UPDATE item SET payload = x'7bff' WHERE seq = 7");
    for seq in [6, 7] {
        change(
            &path,
            &format!(
                "INSERT INTO attempt (item, generation, stage, attempt, started_at, ended_at, outcome, worker, config)
                 VALUES ({seq}, 0, 0, 1, 1, 1, 0, 1, 1)"
            ),
        );
    }
    let keys: Vec<String> = found(&path).into_iter().filter_map(|damage| damage.key).collect();
    assert_eq!(keys, ["key 4", "key 6"], "the sixth item's content may be what a stage made of it");
}

#[test]
fn a_lost_content_and_a_damaged_output_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    let sum = ContentHash::of(&[b"\"kept\""]).short();
    change(
        &path,
        &format!(
            "DELETE FROM content WHERE rowid = 2;
             UPDATE content SET body = x'00' WHERE rowid = 3;
             INSERT INTO output (config, input, run, payload, payload_sum)
             VALUES (1, zeroblob(16), 1, CAST('\"kept\"' AS BLOB), {sum}),
                    (2, zeroblob(16), 1, CAST('\"kepT\"' AS BLOB), {sum})"
        ),
    );
    let damage = found(&path);
    let keys: Vec<&str> = damage.iter().filter_map(|damage| damage.key.as_deref()).collect();
    assert_eq!(keys, ["key 21", "key 22"]);
    assert!(
        damage[0].what.contains("is missing") && damage[1].what.contains("not what was written"),
        "{damage:?}"
    );
    assert!(damage[2].item.is_none() && damage[2].what.contains("0000000000000002"), "{damage:?}");
    assert_eq!(damage.len(), 3);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let key = |config| redrive_store::OutputKey { config, input: ContentHash([0; 16]) };
    let outputs = block_on(store.outputs(vec![key(1), key(2)])).unwrap();
    assert!(outputs[0].is_some() && outputs[1].is_none(), "a damaged output is as good as none");
}

#[test]
fn a_claim_hands_out_what_is_damaged_apart_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    change(
        &path,
        "UPDATE item SET payload = CAST('other' AS BLOB) WHERE seq = 3;
         UPDATE content SET body = zeroblob(5000) WHERE rowid = 1;
         DELETE FROM content WHERE rowid = 2",
    );
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    block_on(async {
        let run = redrive_core::id::RunId(1);
        let new = NewWorker { name: "w".to_owned(), identity: "1".to_owned(), runs: Vec::new() };
        let worker = store.register(new, Timestamp(9_999), NOW).await.unwrap();
        let slot = Slot { run, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit: 99 };
        let claimed = store.claim(Claim { worker, slots: vec![slot], pauses: 0, now: NOW }).await.unwrap();
        let damaged: Vec<&str> = claimed.damaged.iter().map(|damaged| &*damaged.item.key).collect();
        assert_eq!(damaged, ["key 2", "key 20", "key 21"]);
        assert_eq!(claimed.items.len(), 22, "all others are handed out");
        assert!(claimed.damaged.iter().all(|damaged| damaged.item.attempt == 1));
        assert_eq!(
            store.held(worker, None, 99).await.unwrap().len(),
            25,
            "the damaged ones are held as well"
        );
        let content = store.payload(claimed.damaged[0].item.seq).await.unwrap();
        assert!(matches!(content, Some(Content::Damaged(_))), "{content:?}");
    });
}

#[test]
fn a_content_that_is_brought_again_mends_the_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_of_25(folder.path());
    change(&path, "UPDATE content SET body = zeroblob(5000) WHERE rowid = 1");
    assert_eq!(found(&path).len(), 1);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let again = NewItem::new("the same content", padded(20, LARGE), 99);
    let submit = Submit { items: vec![again], ..submission(redrive_core::id::RunId(1), 0..0, 0) };
    block_on(store.submit(submit)).unwrap();
    assert_eq!(block_on(store.damage(99)).unwrap(), []);
}
