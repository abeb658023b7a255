//! A byte that changed on the disk: what it belongs to is named, and everything else goes on. And `check` beside workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;

use crate::support::{
    Answer, Names, Place, Ran, Server, array, count, key, keys, names, one_stage, quick_retry, samples, text,
    wait,
};

fn store(place: &Place) -> Connection {
    let store = Connection::open(place.path(".redrive/state.db")).expect("it opens");
    store.busy_timeout(Duration::from_secs(10)).expect("set");
    store
}

/// Damages the content of one item: a byte of it is another one, and nobody wrote that.
fn damage(place: &Place, key: &str) {
    let flip = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x81;
    };
    let store = store(place);
    let (seq, inline, hash): (i64, Option<Vec<u8>>, Option<Vec<u8>>) = store
        .query_row("SELECT seq, payload, content FROM item WHERE key = ?1", [key], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .expect("the item is there");
    match (inline, hash) {
        (Some(mut bytes), _) => {
            flip(&mut bytes);
            store.execute("UPDATE item SET payload = ?2 WHERE seq = ?1", (seq, bytes)).expect("written");
        }
        (None, hash) => {
            let mut bytes: Vec<u8> = store
                .query_row("SELECT body FROM content WHERE hash = ?1", [&hash], |row| row.get(0))
                .expect("it is there");
            flip(&mut bytes);
            store.execute("UPDATE content SET body = ?2 WHERE hash = ?1", (hash, bytes)).expect("written");
        }
    }
}

/// The keys of the items that `check --json` says are damaged.
fn damaged_keys(place: &Place) -> Names {
    let report = place.run(&["check", "--json"]).json();
    array(&report["damage"]).iter().map(|damage| text(&damage["key"])).collect()
}

/// Samples of about so many bytes.
fn sized(n: usize, bytes: usize) -> String {
    let line = |n: usize| format!("{{\"id\":\"{}\",\"n\":{n},\"pad\":\"{}\"}}\n", key(n), "x".repeat(bytes));
    (0..n).map(line).collect()
}

/// A run whose items were all turned away once and wait.
fn waiting(items: usize, bytes: usize) -> (Server, Place) {
    let server = Server::start(|call| {
        if call.item().attempt == 1 { Answer::status(500, "not yet") } else { Answer::all(call) }
    });
    let retry = quick_retry(3).replace("20ms", "2s");
    let stage = format!("{}\nconcurrency = 8\ngate = \"plain\"\n{retry}", server.stage());
    let pipeline = format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage));
    let place = Place::with(&pipeline, &sized(items, bytes));
    place.run(&["run", "p.toml", "--max-wait", "0s", "--json"]).expect(3);
    (server, place)
}

#[test]
fn one_damaged_content_is_that_items_death_and_the_run_goes_on() {
    for bytes in [100, 3_000] {
        let (_server, place) = waiting(40, bytes);
        damage(&place, &key(20));
        let checked = place.run(&["check"]).expect(1).stdout;
        assert!(checked.contains(&key(20)) && checked.contains("its content is damaged"), "{checked}");
        let doctor = place.run(&["doctor"]).expect(1).stdout;
        assert!(doctor.contains(&key(20)) && doctor.contains("its content is damaged"), "{doctor}");
        let ran = place.run(&["run", "p.toml", "--results", "out.jsonl", "--json"]).expect(0);
        assert!(ran.stderr.contains(&key(20)) && ran.stderr.contains("damaged"), "{}", ran.stderr);
        let mut others = keys(40);
        others.remove(&key(20));
        assert_eq!(place.result_keys(), others, "{bytes} bytes");
        let dead = place.dead();
        assert_eq!(dead.len(), 1);
        assert_eq!((&dead[0]["key"], &dead[0]["reason"]), (&Value::from(key(20)), &Value::from("final")));
        assert!(text(&dead[0]["message"]).starts_with("its content is damaged"), "{}", dead[0]);
        let told = place.run(&["explain", &key(20)]).expect(0).stdout;
        assert!(told.contains("its content is damaged"), "{told}");
        // Every law holds; the damage is named until somebody brings the content again.
        let report = place.run(&["check", "--json"]).expect(1).json();
        assert!(array(&report["laws"]).iter().all(|law| law["ok"] == true), "{report:#}");
        assert_eq!(damaged_keys(&place), names([key(20)]));
    }
}

#[test]
fn a_damaged_item_can_be_killed_listed_exported_and_brought_back() {
    let (_server, place) = waiting(10, 3_000);
    damage(&place, &key(3));
    damage(&place, &key(4));
    place.run(&["kill", &key(3)]).expect(0);
    assert_eq!(place.dead_keys(), names([key(3)]));
    place.run(&["run", "p.toml", "--json"]).expect(3);
    assert_eq!(place.dead_keys(), names([key(3), key(4)]));
    place.run(&["dead", "groups"]).expect(0);
    let exported = place.run(&["dead", "export"]).expect(1);
    assert!(exported.stderr.contains(&key(3)) && exported.stderr.contains(&key(4)), "{}", exported.stderr);
    // What is damaged is dead again when it is only sent back …
    place.run(&["dead", "redrive", "--all", "--work", "--json"]).expect(3);
    assert_eq!(place.dead_keys(), names([key(3), key(4)]));
    // … and lives when its content is brought again.
    let mended: String = exported
        .stdout
        .lines()
        .map(|line| {
            let mut life: Value = serde_json::from_str(line).expect("JSON");
            let n: u64 = text(&life["item"]["key"])[1..].parse().expect("a number");
            life["item"]["payload"] = serde_json::json!({ "id": life["item"]["key"], "n": n });
            format!("{life}\n")
        })
        .collect();
    place.write("mended.jsonl", mended);
    place.run(&["dead", "import", "mended.jsonl"]).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0);
    assert_eq!(place.result_keys(), keys(10));
    assert_eq!(place.results()[&key(4)]["twice"], 8);
    place.check();
}

#[test]
fn a_damaged_result_is_found_by_check_whatever_its_size() {
    for bytes in [0, 5_000] {
        let server = Server::start(move |call| {
            let results: Vec<Value> = call
                .items
                .iter()
                .map(|item| serde_json::json!({ "id": item.id, "output": { "k": item.key, "p": "y".repeat(bytes) } }))
                .collect();
            Answer::results(&results)
        });
        let place = Place::with(&one_stage(&server.stage()), &samples(20));
        place.run_pipeline(0);
        place.check();
        damage(&place, &key(7));
        assert_eq!(damaged_keys(&place), names([key(7)]), "{bytes} bytes");
        let ran = place.run(&["results", "r1", "-o", "again.jsonl"]).expect(1);
        assert!(ran.stderr.contains(&key(7)), "{}", ran.stderr);
        assert_eq!(crate::support::results(&place.read("again.jsonl")).len(), 19);
    }
}

/// Starts so many processes that work on one run.
fn workers(place: &Place, n: usize) -> Vec<crate::support::Started> {
    (0..n).map(|_| place.start(&["run", "p.toml", "--json"])).collect()
}

#[test]
fn check_beside_four_working_processes_never_gives_a_false_alarm_and_finds_what_is_planted() {
    const ITEMS: usize = 1_500;
    let enough = Arc::new(AtomicBool::new(false));
    let seen = enough.clone();
    let server = Server::start(move |call| {
        wait::work(Duration::from_millis(8));
        let item = call.item();
        if item.key == key(ITEMS - 1) {
            wait::until("enough was checked", || seen.load(Ordering::SeqCst));
        }
        match item.payload["n"].as_u64().unwrap_or(0) % 10 {
            3 if item.attempt == 1 => Answer::status(503, "again"),
            7 => Answer::results(&[crate::support::server::failed(item, "final", "never")]),
            _ => Answer::all(call),
        }
    });
    let stage = format!("{}\nconcurrency = 6\ngate = \"plain\"\n{}", server.stage(), quick_retry(3));
    let second =
        format!("[[stage]]\nname = \"again\"\n{}\nconcurrency = 6\ngate = \"plain\"\n", server.stage());
    let pipeline = format!("{}{second}[gate.plain]\nbreaker = false\n", one_stage(&stage));
    let place = Place::with(&pipeline, &samples(ITEMS));
    let mut running = workers(&place, 4);
    server.until_called(50);
    // Nobody claims an item that is due in a day, so the one that was changed stays where it is.
    let last: i64 = store(&place)
        .query_row("SELECT max(seq) FROM item WHERE state = 0", [], |row| row.get(0))
        .expect("some wait");
    let put_off = |store: &Connection, by: i64| {
        let sql = "UPDATE item SET due = due + ?1 WHERE state = 0 AND seq = ?2";
        assert_eq!(store.execute(sql, [by, last]).expect("written"), 1);
    };
    plant_beside_workers(&place, put_off, 86_400_000, "L12");
    let (mut checks, mut while_working) = (0, 0);
    while running.iter_mut().any(|worker| !worker.has_ended()) {
        let ran = place.run(&["check", "--json"]);
        assert_eq!(ran.code(), Some(0), "check {checks}: {}\n{}", ran.stdout, ran.stderr);
        let states = place.json(&["show"]);
        while_working += usize::from(count(&states["counts"]["running"]) > 0);
        checks += 1;
        if checks % 5 == 0 && checks <= 20 {
            plant_beside_workers(&place, miscount, 1, "L1 ");
        }
        enough.store(checks >= 20, Ordering::SeqCst);
    }
    assert!(while_working >= 20, "{checks} checks, {while_working} of them while items ran");
    running.into_iter().for_each(|worker| drop(worker.finish()));
    place.check();
    plant_and_find(&place);
}

/// Plants a fault while others work, finds it, and takes it out again.
fn plant_beside_workers(place: &Place, change: impl Fn(&Connection, i64), by: i64, law: &str) {
    change(&store(place), by);
    let ran = place.run(&["check"]);
    change(&store(place), -by);
    let told = ran.stdout.lines().any(|line| line.starts_with(law) && line.contains("BROKEN"));
    assert!(ran.code() == Some(1) && told, "{law}: {}{}", ran.stdout, ran.stderr);
}

/// Changes what is kept of how many items were admitted.
fn miscount(store: &Connection, by: i64) {
    let sql = "UPDATE counter SET n = n + ?1 WHERE metric = (SELECT min(metric) FROM counter)";
    assert!(store.execute(sql, [by]).expect("written") > 0);
}

/// A mistake that somebody could make in a store, and the words by which `check` tells it.
fn plant_and_find(place: &Place) {
    let path = place.path(".redrive/state.db");
    drop(store(place));
    let sound = std::fs::read(&path).expect("read");
    let found = |ran: &Ran, words: &str| ran.code() == Some(1) && ran.stdout.contains(words);
    let planted = [
        ("UPDATE counter SET n = n + 1 WHERE metric = (SELECT min(metric) FROM counter)", "L1   "),
        ("DELETE FROM attempt WHERE item = 5", "L2   "),
        ("UPDATE item SET payload = CAST('{}' AS BLOB) WHERE seq = 9", "its content is damaged"),
        ("UPDATE item SET payload_sum = payload_sum + 1 WHERE seq = 9", "its content is damaged"),
    ];
    for (sql, words) in planted {
        store(place).execute_batch(sql).expect("written");
        let ran = place.run(&["check"]);
        assert!(found(&ran, words), "{sql}: {}{}", ran.stdout, ran.stderr);
        std::fs::write(&path, &sound).expect("written");
    }
    place.check();
    let id: Vec<u8> =
        store(place).query_row("SELECT id FROM item WHERE seq = 5", [], |row| row.get(0)).expect("there");
    let places: Vec<usize> = (0..sound.len() - 16).filter(|at| sound[*at..at + 16] == id[..]).collect();
    let lost = places.iter().any(|at| {
        let mut damaged = sound.clone();
        damaged[at + 15] ^= 1;
        std::fs::write(&path, damaged).expect("written");
        found(&place.run(&["check"]), "missing from index item_id")
    });
    assert!(lost, "an index that lost a row is found");
}

#[test]
fn an_empty_file_is_no_store_to_those_who_read_and_a_new_one_to_those_who_run() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    place.write("empty.db", "");
    let store = ["--store", "sqlite:empty.db"];
    for command in [
        &["check"][..],
        &["runs"],
        &["show"],
        &["dead", "list"],
        &["stats"],
        &["resume", "r1"],
        &["prune", "--older-than", "0s", "--yes"],
    ] {
        let ran = place.run(&[command, &store].concat()).expect(2);
        assert!(ran.stderr.contains("empty.db is empty: it has 0 bytes"), "{command:?}: {}", ran.stderr);
        assert_eq!(std::fs::metadata(place.path("empty.db")).expect("there").len(), 0);
    }
    let ran = place.run(&[&["run", "p.toml"][..], &store].concat()).expect(0);
    assert!(ran.stderr.contains("a new store begins in it"), "{}", ran.stderr);
    place.run(&[&["check"][..], &store].concat()).expect(0);
    let again = place.run(&[&["run", "p.toml"][..], &store].concat());
    assert!(!again.stderr.contains("a new store begins"), "{}", again.stderr);
}

#[test]
fn a_pipe_a_device_and_a_dangling_link_as_store_are_refused_at_once() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe.db")).status();
    assert!(made.expect("mkfifo is everywhere").success());
    std::os::unix::fs::symlink("nowhere/at/all.db", place.path("link.db")).expect("made");
    let told = [
        ("pipe.db", "is a named pipe, not a file"),
        ("/dev/null", "is a device, not a file"),
        ("link.db", "is a symbolic link to nowhere/at/all.db, which is not there"),
    ];
    for (path, words) in told {
        for command in [&["runs"][..], &["check"], &["run", "p.toml"]] {
            let url = format!("sqlite:{path}");
            let ran = place.run(&[command, &["--store", &url]].concat()).expect(2);
            assert!(ran.stderr.contains(words), "{command:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_store_made_under_a_strange_umask_can_be_opened_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    let binary = env!("CARGO_BIN_EXE_redrive");
    let ran = std::process::Command::new("sh")
        .args(["-c", "umask 777; exec \"$0\" run p.toml --quiet", binary])
        .current_dir(place.path(""))
        .output()
        .expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mode = |name: &str| std::fs::metadata(place.path(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(".redrive"), mode(".redrive/state.db")), (0o700, 0o600));
    place.run(&["check"]).expect(0);
}

#[test]
fn a_store_that_is_taken_away_under_a_run_is_told_and_not_called_completed() {
    const ITEMS: usize = 60;
    let server = Server::start(|call| {
        wait::work(Duration::from_millis(40));
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start(&["run", "p.toml"]);
    wait::until("some are done", || server.count() > 10);
    std::fs::rename(place.path(".redrive"), place.path("elsewhere")).expect("moved");
    let ran = started.finish();
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("store") || ran.stderr.contains("state.db"), "{}", ran.stderr);
}
