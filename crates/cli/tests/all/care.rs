//! Room that is given back, copies of a store, and long commands that tell how far they are.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Place, Server, array, count, key, one_stage, samples, wait};

const PASS: &str = "kind = \"pass\"";
/// Lines with this much text each make a store of several megabytes.
const LARGE: usize = 3_000;

/// Samples that each carry so many bytes.
fn heavy(name: &str, items: usize) -> String {
    let text = "x".repeat(1_500);
    (0..items).map(|n| format!("{{\"id\":\"{name}{n:05}\",\"text\":\"{text}\"}}\n")).collect()
}

fn files(place: &Place) -> BTreeSet<String> {
    let names =
        std::fs::read_dir(place.path(".")).expect("a folder").map(|file| file.expect("a file").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).expect("there").len()
}

#[test]
fn compact_gives_room_back_and_says_how_much() {
    let place = Place::with(&one_stage(PASS), &heavy("a", LARGE));
    place.run(&["run", "p.toml"]).expect(0);
    // Somebody removed much by other means: the file stays as large.
    let file = place.path(".redrive/state.db");
    let conn = rusqlite::Connection::open(&file).expect("opened");
    conn.execute_batch(
        "CREATE TABLE ballast (b BLOB); INSERT INTO ballast VALUES (zeroblob(3000000)); DROP TABLE ballast;",
    )
    .expect("filled");
    drop(conn);
    let before = size(&file);
    let done = place.run(&["compact", "--json"]).expect(0).json();
    let after = size(&file);
    assert!(after + 2_900_000 < before, "{before} → {after}");
    assert_eq!((count(&done["bytes_before"]), count(&done["bytes_after"])), (before, after));
    assert!(done["took_ms"].is_u64() && done["contents"].is_u64(), "{done}");
    let again = place.run(&["compact"]).expect(0);
    assert!(again.stdout.starts_with("there was no room to give back: the store has "), "{}", again.stdout);
    assert_eq!(again.stderr, "");
    place.check();
    assert_eq!(count(&place.json(&["show"])["counts"]["succeeded"]), LARGE as u64);
}

/// The file is written anew by way of its log: how far that is can be seen there.
#[test]
fn a_compact_that_is_killed_leaves_a_whole_store_and_nothing_else() {
    let place = Place::with(&one_stage(PASS), &heavy("a", LARGE));
    place.run(&["run", "p.toml"]).expect(0);
    place.write("in.jsonl", heavy("b", LARGE));
    place.run(&["run", "p.toml", "--new"]).expect(0);
    let conn = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    conn.execute("UPDATE run SET finished_at = 1000 WHERE id = 1", []).expect("changed");
    drop(conn);
    place.run(&["prune", "--older-than", "1h", "--yes"]).expect(0);
    std::fs::create_dir(place.path("aside")).expect("made");
    let (file, log) = (place.path(".redrive/state.db"), place.path(".redrive/state.db-wal"));
    let aside = place.path("aside").display().to_string();
    let env = [("SQLITE_TMPDIR", aside.as_str()), ("TMPDIR", aside.as_str())];
    let (before, mut broken_off) = (size(&file), 0);
    for part in [0, 1, 2, 3] {
        let mut compact = place.start_with(&["compact"], &env, b"");
        let written = || std::fs::metadata(&log).map_or(0, |log| log.len());
        while written() <= before / 2 * part / 4 && !compact.has_ended() {
            std::hint::spin_loop();
        }
        broken_off += u32::from(compact.kill().killed_by() == Some(9));
        place.check();
        assert_eq!(count(&place.json(&["show"])["counts"]["succeeded"]), LARGE as u64);
        let left = std::fs::read_dir(&aside).expect("a folder").count();
        assert_eq!(left, 0, "nothing is left of the copy, {part} parts in four written");
    }
    assert!(broken_off > 0, "not one was killed at its work");
    place.run(&["compact"]).expect(0);
    assert!(size(&file) < before, "{before} → {}", size(&file));
    let kept: BTreeSet<String> = std::fs::read_dir(place.path(".redrive"))
        .expect("a folder")
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    assert_eq!(kept, BTreeSet::from(["state.db".to_owned()]));
    place.check();
}

#[test]
fn compact_refuses_while_a_worker_is_at_work_and_names_it() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let started = place.start(&["run", "p.toml"]);
    server.until_open(1);
    let refused = place.run(&["compact"]).expect(2);
    assert!(
        refused.stderr.contains("worker w1 is at work on r1; it would have to wait"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("hint: say it again when the work is done"), "{}", refused.stderr);
    // One that was killed is not waited for.
    started.kill();
    wait::until("the killed worker is not waited for", || place.run(&["compact"]).code() == Some(0));
    server.release();
    place.check();
}

#[test]
fn a_prune_that_leaves_much_room_names_compact() {
    let place = Place::with(&one_stage(PASS), &heavy("a", LARGE));
    place.run(&["run", "p.toml"]).expect(0);
    place.write("in.jsonl", heavy("b", LARGE * 2));
    place.run(&["run", "p.toml", "--new"]).expect(0);
    // The first run is forgotten, the second is not over: a third of the file is free, less than is rewritten unasked.
    let conn = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    conn.execute("UPDATE run SET finished_at = 1000 WHERE id = 1", []).expect("changed");
    drop(conn);
    let args = ["prune", "--older-than", "1h", "--yes"];
    let pruned = place.run(&args).expect(0);
    assert!(pruned.stdout.starts_with("forgot 1 run with 3,000 items"), "{}", pruned.stdout);
    assert!(pruned.stderr.contains("are free; `redrive compact` gives them back"), "{}", pruned.stderr);
    let quiet = place.run(&["prune", "--older-than", "1h", "--yes", "--quiet"]).expect(0);
    assert_eq!(quiet.stderr, "");
    place.run(&["compact"]).expect(0);
    let small = place.run(&args).expect(0);
    assert!(!small.stderr.contains("compact"), "{}", small.stderr);
}

/// A store with a run that has 40 items, one of them dead.
fn stored() -> (Server, Place) {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0007" => crate::support::Answer::status(422, "not like this"),
        _ => crate::support::Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(40));
    place.run(&["run", "p.toml"]).expect(0);
    (server, place)
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let (_server, place) = stored();
    let before = files(&place);
    let done = place.run(&["backup", "copy.db", "--json"]).expect(0).json();
    assert_eq!(
        (done["file"].as_str(), count(&done["bytes"])),
        (Some("copy.db"), size(&place.path("copy.db")))
    );
    assert!(done["took_ms"].is_u64(), "{done}");
    let mode = std::fs::metadata(place.path("copy.db")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner reads it, as the store itself");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("copy.db"), open).expect("set");
    place.run(&["backup", "copy.db", "--overwrite"]).expect(0);
    let mode = std::fs::metadata(place.path("copy.db")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "also where it takes the place of a file that others could read");
    let made: BTreeSet<String> = files(&place).difference(&before).cloned().collect();
    assert_eq!(made, BTreeSet::from(["copy.db".to_owned()]), "nothing is left beside it");
    // What becomes of the store later is not in the copy, nor the other way round.
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let of_copy = ["--store", "sqlite:copy.db"];
    let dead = place.json(&[&["dead", "list"][..], &of_copy].concat());
    assert_eq!(array(&dead["items"]).len(), 1);
    assert_eq!(dead["items"][0]["key"], key(7));
    assert_eq!(place.json(&[&["check"][..], &of_copy].concat())["ok"], true);
    place.run(&[&["dead", "purge", "--all", "--yes"][..], &of_copy].concat()).expect(0);
    place.check();
    let told = place.run(&["backup", "again.db"]).expect(0);
    assert!(
        told.stdout.contains(" copied to again.db in ") && told.stdout.ends_with("; the copy is whole\n")
    );
    assert_eq!(told.stderr, "", "no progress where there is no terminal");
}

#[test]
fn a_backup_is_made_while_others_write() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2", server.stage())), &samples(300));
    let started = place.start(&["run", "p.toml"]);
    server.until_open(2);
    place.until_json(&["show"], |report| report["admitted_all"] == true);
    place.run(&["backup", "copy.db"]).expect(0);
    server.release();
    started.finish().expect(0);
    let of_copy = ["--store", "sqlite:copy.db", "--json"];
    let report = place.run(&[&["show"][..], &of_copy].concat()).expect(0).json();
    assert_eq!(count(&report["counts"]["admitted"]), 300);
    assert_eq!(count(&report["counts"]["succeeded"]), 0, "nothing had passed at that moment");
    assert_eq!(place.run(&[&["check"][..], &of_copy].concat()).expect(0).json()["ok"], true);
    assert_eq!(count(&place.json(&["show"])["counts"]["succeeded"]), 300);
}

#[test]
fn a_backup_replaces_only_a_store_and_only_when_told() {
    let (_server, place) = stored();
    place.run(&["backup", "copy.db"]).expect(0);
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let kept = std::fs::read(place.path("copy.db")).expect("there");
    let refused = place.run(&["backup", "copy.db"]).expect(2);
    assert!(refused.stderr.contains("copy.db cannot be written: it is there already"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--overwrite"), "{}", refused.stderr);
    assert_eq!(std::fs::read(place.path("copy.db")).expect("there"), kept);
    place.run(&["backup", "copy.db", "--overwrite"]).expect(0);
    let dead = place.json(&["dead", "list", "--store", "sqlite:copy.db"]);
    assert_eq!(array(&dead["items"]).len(), 0, "the newer copy is there");
    place.write("notes.txt", "mine");
    place.write("new.db-wal", "left by another");
    std::fs::create_dir(place.path("folder")).expect("made");
    std::os::unix::fs::symlink(".redrive/state.db", place.path("link.db")).expect("linked");
    let store = std::fs::read(place.path(".redrive/state.db")).expect("there");
    for (file, why) in [
        ("notes.txt", "is no store"),
        ("p.toml", "is no store"),
        ("in.jsonl", "is no store"),
        ("new.db", "new.db-wal is beside it"),
        ("folder", "it is a directory"),
        ("missing/copy.db", "there is no folder"),
        ("-", "it is no regular file"),
        ("/dev/null", "it is no regular file"),
        (".redrive/state.db", "it is the store"),
        ("link.db", "it is the store"),
        (".redrive/state.db-wal", "it is a part of the store"),
        (".redrive/state.db-shm", "it is a part of the store"),
    ] {
        let refused = place.run(&["backup", file, "--overwrite"]).expect(2);
        assert!(refused.stderr.contains(why), "{file}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{file}");
    }
    assert_eq!(place.read("notes.txt"), "mine");
    assert_eq!(std::fs::read(place.path(".redrive/state.db")).expect("there"), store);
    place.check();
}

#[test]
fn a_backup_that_is_killed_leaves_nothing_under_the_name() {
    let (_server, place) = stored();
    let killed = place.run_with(&["backup", "copy.db"], &[("REDRIVE_CRASH_AT", "results.before_rename")]);
    assert_eq!(killed.killed_by(), Some(9));
    assert!(!place.path("copy.db").exists());
    let left = || files(&place).into_iter().filter(|name| name.ends_with(".part")).count();
    assert_eq!(left(), 1);
    place.run(&["backup", "other.db"]).expect(0);
    assert_eq!(left(), 1, "what is left of another file is not looked at");
    place.run(&["backup", "copy.db"]).expect(0);
    assert_eq!(left(), 0, "what the killed one left is gone");
    let whole = std::fs::read(place.path("copy.db")).expect("there");
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    let args = ["backup", "copy.db", "--overwrite"];
    let killed = place.run_with(&args, &[("REDRIVE_CRASH_AT", "results.before_rename")]);
    assert_eq!(killed.killed_by(), Some(9));
    assert_eq!(std::fs::read(place.path("copy.db")).expect("there"), whole, "the copy before is as it was");
}

#[test]
fn an_operation_that_was_killed_after_a_page_has_counted_it() {
    let server = Server::start(|_| crate::support::Answer::status(422, "not like this"));
    let place = Place::with(&one_stage(&format!("{}\nbatch = 100", server.stage())), &samples(1_100));
    place.run(&["run", "p.toml"]).expect(4);
    let purge = ["dead", "purge", "--all", "--yes"];
    let killed = place.run_with(&purge, &[("REDRIVE_CRASH_AT", "purge.after_page:1")]);
    assert_eq!(killed.killed_by(), Some(9));
    let operations = place.json(&["dead", "operations"]);
    let broken_off = &operations["operations"][0];
    assert_eq!((broken_off["state"].as_str(), count(&broken_off["changed"])), (Some("open"), 500));
    let told = place.run(&purge).expect(0);
    assert!(told.stdout.starts_with("1,100 items removed"), "{}", told.stdout);
    assert_eq!(told.stderr, "", "no progress where there is no terminal");
    place.check();
}
