//! `kill -9` in the middle of the work: the same command again finishes it, and hardly anything is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Answer, Place, Server, count, key, keys, one_stage, quick_retry, samples, wait};

const CONCURRENCY: usize = 16;
/// Long enough that a restart which waits for the lease of the killed process would be given up as hanging.
const LEASE: [&str; 2] = ["--lease", "1h"];

#[test]
fn three_kills_in_three_thousand_items_lose_nothing() {
    const ITEMS: usize = 3_000;
    let server = Server::start(|call| {
        wait::work(Duration::from_millis(2));
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = {CONCURRENCY}\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let args: Vec<&str> =
        ["run", "p.toml", "--results", "out.jsonl", "--json"].into_iter().chain(LEASE).collect();
    for calls in [600, 1_300, 2_000] {
        let started = place.start(&args);
        server.until_called(calls);
        assert_eq!(started.kill().killed_by(), Some(9));
        assert_eq!(place.read("out.jsonl"), "", "results are written when the work is done");
    }
    let report = place.run(&args).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(count(&report["counts"]["succeeded"]), ITEMS as u64);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let called = server.times_called();
    assert_eq!(called.keys().cloned().collect::<crate::support::Names>(), keys(ITEMS));
    let repeated: usize = called.values().map(|times| times - 1).sum();
    assert!(repeated <= 3 * CONCURRENCY, "{repeated} calls were repeated");
    // What was in the hands of a killed process is counted as a crash, called or not.
    let crashes = count(&report["attempts"]["crashes"]);
    assert!((1..=3 * CONCURRENCY as u64).contains(&crashes), "{crashes} crashes");
    assert!(repeated as u64 <= crashes);
    assert_eq!(count(&report["attempts"]["total"]), ITEMS as u64 + crashes);
    assert_eq!(place.json(&["runs"])["runs"].as_array().map(Vec::len), Some(1), "one run all the time");
    place.check();
}

/// Answers every line, and writes down every item it is asked for.
const SCRIPT: &str = r#"
import json, os, sys
log = os.open("calls.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    items = json.loads(line)["items"]
    os.write(log, "".join(item["key"] + "\n" for item in items).encode())
    results = [{"id": item["id"], "output": {"twice": item["payload"]["n"] * 2}} for item in items]
    print(json.dumps({"results": results}), flush=True)
"#;

#[test]
fn kills_between_child_processes_lose_nothing() {
    const ITEMS: usize = 1_000;
    const PROCESSES: usize = 3;
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nbatch = 2\nconcurrency = {PROCESSES}\n{}",
        quick_retry(3)
    );
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.write("work.py", SCRIPT);
    let args: Vec<&str> =
        ["run", "p.toml", "--results", "out.jsonl", "--json"].into_iter().chain(LEASE).collect();
    let calls = || place.read("calls.log").lines().count();
    for limit in [200, 500] {
        let started = place.start(&args);
        wait::until("calls", || calls() >= limit);
        assert_eq!(started.kill().killed_by(), Some(9));
    }
    let report = place.run(&args).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(place.result_keys(), keys(ITEMS));
    let mut called: BTreeMap<String, usize> = BTreeMap::new();
    for key in place.read("calls.log").lines() {
        *called.entry(key.to_owned()).or_default() += 1;
    }
    assert_eq!(called.keys().cloned().collect::<crate::support::Names>(), keys(ITEMS));
    let repeated: usize = called.values().map(|times| times - 1).sum();
    assert!(repeated <= 2 * 2 * PROCESSES, "{repeated} items were repeated");
    assert_eq!(place.results()[&key(7)]["twice"], 14);
    place.check();
}

#[test]
fn a_second_process_of_the_same_run_shares_the_work() {
    const ITEMS: usize = 800;
    let server = Server::start(|call| {
        wait::work(Duration::from_millis(2));
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = 8\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let first = place.start(&["run", "p.toml", "--json"]);
    server.until_called(20);
    let second = place.start(&["run", "p.toml", "--json"]);
    let (first, second) = (first.finish().expect(0).json(), second.finish().expect(0).json());
    assert_eq!(first["run"], second["run"]);
    assert_eq!((&first["status"], &second["status"]), (&"completed".into(), &"completed".into()));
    let once: BTreeMap<String, usize> = keys(ITEMS).into_iter().map(|key| (key, 1)).collect();
    assert_eq!(server.times_called(), once);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn processes_that_begin_at_the_same_moment_share_one_run() {
    const ITEMS: usize = 60;
    const PROCESSES: usize = 3;
    for _ in 0..4 {
        let server = Server::good();
        server.hold();
        let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(3));
        let place = Place::with(&one_stage(&stage), &samples(ITEMS));
        let started: Vec<_> = (0..PROCESSES).map(|_| place.start(&["run", "p.toml", "--json"])).collect();
        server.until_open(2 * PROCESSES);
        server.release();
        for process in started {
            let report = process.finish().expect(0).json();
            assert_eq!((&report["run"], &report["status"]), (&"r1".into(), &"completed".into()));
            assert_eq!(report["duplicates"], 0, "a source that two processes read repeats nothing");
        }
        let once: BTreeMap<String, usize> = keys(ITEMS).into_iter().map(|key| (key, 1)).collect();
        assert_eq!(server.times_called(), once);
        place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
        assert_eq!(place.result_keys(), keys(ITEMS));
        place.check();
    }
}

/// A process that slept through its lease: another one has done its work meanwhile, and what it still has in hand is
/// refused.
#[test]
fn a_process_that_was_taken_for_dead_changes_nothing() {
    const ITEMS: usize = 12;
    let woken = Arc::new(AtomicBool::new(false));
    let flag = woken.clone();
    let server = Server::start(move |call| {
        let item = call.item();
        if item.before > 0 || item.key.as_str() > "k0001" {
            return Answer::all(call);
        }
        wait::until("it is woken", || flag.load(Ordering::SeqCst));
        Answer::results(&[serde_json::json!({ "id": item.id, "output": "too late" })])
    });
    let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let args = ["run", "p.toml", "--lease", "3s", "--json"];
    let sleeper = place.start(&args);
    server.until_open(2);
    wait::until("everything is admitted", || place.json(&["show"])["admitted_all"] == true);
    sleeper.signal("STOP");
    let report = place.run(&args).expect(0).json();
    assert_eq!((&report["status"], count(&report["attempts"]["crashes"])), (&"completed".into(), 2));
    woken.store(true, Ordering::SeqCst);
    sleeper.signal("CONT");
    let ran = sleeper.finish().expect(0);
    assert!(ran.stderr.contains("too late"), "{}", ran.stderr);
    assert_eq!(ran.json()["attempts"], report["attempts"], "nothing was added");
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!(place.results().values().all(|output| output["twice"].is_u64()), "no late result was taken");
    place.check();
}
