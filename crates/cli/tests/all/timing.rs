//! When things happen: retries on time, timeouts, quarantine, and an orderly stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{
    Answer, Names, Place, Server, array, column, count, key, keys, names, one_stage, quick_retry, samples,
    wait, without_breaker,
};
use serde_json::json;

#[test]
fn a_retry_runs_on_time_on_an_idle_engine() {
    let server = Server::start(|call| match call.item().before {
        0 => Answer::status(500, "not yet"),
        _ => Answer::all(call),
    });
    let stage = format!(
        "{}\nretry = {{ max_attempts = 2, backoff = {{ kind = \"fixed\", delay = \"2s\" }}, jitter = \"none\" }}",
        server.stage()
    );
    let place = Place::with(&one_stage(&stage), &samples(1));
    place.run_pipeline(0);
    let gap = server.shortest_gap(&key(0));
    let early = Duration::from_millis(1_998);
    assert!(gap >= early && gap <= Duration::from_millis(3_500), "the retry came after {gap:?}");
    let life = place.json(&["explain", &key(0)]);
    assert_eq!(life["attempts"][0]["wait_ms"], 2_000);
    assert_eq!(life["attempts"][0]["wait_cause"], "backoff");
    assert_eq!(place.result_keys(), keys(1));
    place.check();
}

#[test]
fn slow_calls_do_not_keep_the_free_ones_waiting() {
    const ITEMS: usize = 40;
    let slow = |key: &str| key < "k0007";
    let free = Arc::new(AtomicBool::new(false));
    let flag = free.clone();
    let server = Server::start(move |call| {
        if slow(&call.item().key) {
            wait::until("the others are through", || flag.load(Ordering::SeqCst));
        }
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = 8\ntimeout = \"10m\"\n{}", server.stage(), quick_retry(1));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    server.until_open(7);
    let begun = wait::now();
    server.until_called(ITEMS);
    // One free call of eight does all the others; it must not wait for a tick of a second before each.
    let took = begun.elapsed();
    free.store(true, Ordering::SeqCst);
    started.finish().expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!(took < Duration::from_secs(15), "{} items took {took:?} beside seven slow ones", ITEMS - 7);
    place.check();
}

#[test]
fn a_retry_that_falls_due_while_the_store_is_busy_is_not_overlooked() {
    let server = Server::start(|call| match call.item().before {
        0..60 => Answer::status(500, "not yet"),
        _ => Answer::all(call),
    });
    // So short that it is often over before the engine has written it down.
    let stage = format!(
        "{}\nretry = {{ max_attempts = 61, backoff = {{ kind = \"fixed\", delay = \"3ms\" }}, jitter = \"none\" }}",
        server.stage()
    );
    let place = Place::with(&without_breaker(&stage), &samples(1));
    let begun = wait::now();
    place.run_pipeline(0);
    let took = begun.elapsed();
    assert_eq!(server.count(), 61);
    assert!(took < Duration::from_secs(20), "sixty retries of 3 ms took {took:?}");
    assert_eq!(place.result_keys(), keys(1));
    place.check();
}

#[test]
fn an_item_that_kills_its_process_is_quarantined_and_harms_nobody() {
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nconcurrency = 2\nretry.crash_limit = 2\n{}",
        quick_retry(5)
    );
    let place = Place::with(&one_stage(&stage), &samples(40));
    place.write(
        "work.py",
        r#"
import json, os, sys
for line in sys.stdin:
    item = json.loads(line)["items"][0]
    if item["key"] in ("k0007", "k0023"):
        sys.stderr.write("segmentation fault\n")
        sys.stderr.flush()
        os.kill(os.getpid(), 11)
    print(json.dumps({"results": [{"id": item["id"], "output": item["payload"]}]}), flush=True)
"#,
    );
    let report = place.run_pipeline(0);
    let guilty = names([key(7), key(23)]);
    assert_eq!(place.dead_keys(), guilty);
    assert_eq!(place.result_keys(), &keys(40) - &guilty);
    assert_eq!(report["attempts"], json!({ "total": 42, "failures": 0, "throttles": 0, "crashes": 4 }));
    assert_eq!(report["dead"], json!({ "by_reason": { "quarantined": 2 }, "by_class": { "crash": 2 } }));
    let message = crate::support::text(&place.dead()[0]["message"]);
    assert!(message.contains("signal 11") && message.contains("segmentation fault"), "{message}");
    place.check();
}

#[test]
fn a_call_that_is_never_answered_times_out() {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0003" => Answer::Never,
        _ => Answer::all(call),
    });
    let stage = format!("{}\ntimeout = \"300ms\"\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(20));
    let report = place.run_pipeline(0);
    assert_eq!(place.dead_keys(), names([key(3)]));
    assert_eq!(place.result_keys(), &keys(20) - &names([key(3)]));
    assert_eq!(report["dead"], json!({ "by_reason": { "exhausted": 1 }, "by_class": { "timeout": 1 } }));
    assert_eq!(server.times_called()[&key(3)], 2);
    place.check();
}

/// The states of all items, by key.
fn states(place: &Place, items: usize) -> BTreeMap<String, String> {
    let state = |key: String| {
        let life = place.json(&["explain", &key]);
        (key, crate::support::text(&life["item"]["state"]))
    };
    keys(items).into_iter().map(state).collect()
}

fn in_state(states: &BTreeMap<String, String>, state: &str) -> Names {
    states.iter().filter(|(_, is)| *is == state).map(|(key, _)| key.clone()).collect()
}

fn held_run(items: usize, concurrency: usize) -> (Server, Place) {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = {concurrency}\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(items));
    (server, place)
}

#[test]
fn the_first_signal_lets_what_runs_finish_and_be_recorded() {
    for signal in ["INT", "TERM"] {
        let (server, place) = held_run(12, 4);
        let started = place.start(&["run", "p.toml", "--json"]);
        server.until_open(4);
        started.signal(signal);
        started.until_said("stopping");
        server.release();
        let report = started.finish().expect(130).json();
        assert_eq!(report["status"], "interrupted", "{signal}");
        let under_way =
            column(&server.calls().iter().map(|call| json!({ "key": call.item().key })).collect(), "key");
        assert_eq!(under_way.len(), 4);
        let states = states(&place, 12);
        assert_eq!(in_state(&states, "succeeded"), under_way);
        assert_eq!(in_state(&states, "waiting"), &keys(12) - &under_way);
        assert_eq!(report["attempts"], json!({ "total": 4, "failures": 0, "throttles": 0, "crashes": 0 }));
        place.check();
        place.run_pipeline(0);
        assert_eq!(place.result_keys(), keys(12));
        let once: BTreeMap<String, usize> = keys(12).into_iter().map(|key| (key, 1)).collect();
        assert_eq!(server.times_called(), once);
        server.assert_numbered();
        place.check();
    }
}

#[test]
fn the_second_signal_breaks_off_and_costs_no_attempt() {
    for signal in ["INT", "TERM"] {
        let (server, place) = held_run(12, 4);
        let mut started = place.start(&["run", "p.toml", "--json"]);
        server.until_open(4);
        started.signal(signal);
        started.until_said("stopping");
        assert!(!started.has_ended(), "calls are under way");
        started.signal(signal);
        let report = started.finish().expect(130).json();
        assert_eq!(count(&report["counts"]["waiting"]), 12);
        let broken_off: Names = server.calls().iter().map(|call| call.item().key.clone()).collect();
        for key in keys(12) {
            let life = place.json(&["explain", &key]);
            let outcomes: Names =
                array(&life["attempts"]).iter().map(|row| crate::support::text(&row["outcome"])).collect();
            let expected = if broken_off.contains(&key) { names(["interrupted"]) } else { Names::new() };
            assert_eq!(outcomes, expected, "{key}");
            assert_eq!((&life["item"]["state"], &life["item"]["failures"]), (&"waiting".into(), &0.into()));
        }
        place.check();
        server.release();
        let report = place.run_pipeline(0);
        assert_eq!(report["attempts"], json!({ "total": 16, "failures": 0, "throttles": 0, "crashes": 0 }));
        assert_eq!(place.result_keys(), keys(12));
        place.check();
    }
}

#[test]
fn waiting_no_longer_than_asked_leaves_a_partially_completed_run() {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0001" | "k0004" => Answer::status(500, "later"),
        _ => Answer::all(call),
    });
    let stage = format!(
        "{}\nretry = {{ max_attempts = 3, backoff = {{ kind = \"fixed\", delay = \"1h\" }} }}",
        server.stage()
    );
    let place = Place::with(&one_stage(&stage), &samples(10));
    let args = ["run", "p.toml", "--max-wait", "1s", "--results", "out.jsonl", "--json"];
    let report = place.run(&args).expect(3).json();
    assert_eq!(report["status"], "partially_completed");
    assert_eq!(count(&report["counts"]["waiting"]), 2);
    assert!(report["next_due"].is_string(), "{}", report["next_due"]);
    let late = names([key(1), key(4)]);
    assert_eq!(place.result_keys(), &keys(10) - &late);
    assert_eq!(in_state(&states(&place, 10), "waiting"), late);
    let life = place.json(&["explain", &key(1)]);
    assert!(crate::support::text(&life["now"]).contains("backs off"), "{}", life["now"]);
    // The same again: the run is still there, and nobody is called before the time.
    let report = place.run(&args).expect(3).json();
    assert_eq!((&report["run"], server.count()), (&"r1".into(), 10));
    place.check();
}

#[test]
fn a_signal_ends_a_run_that_only_waits() {
    let server = Server::start(|call| match call.item().before {
        0 => Answer::status(500, "later"),
        _ => Answer::all(call),
    });
    let stage = format!(
        "{}\nretry = {{ max_attempts = 2, backoff = {{ kind = \"fixed\", delay = \"1h\" }} }}",
        server.stage()
    );
    let place = Place::with(&one_stage(&stage), &samples(2));
    let started = place.start(&["run", "p.toml", "--json"]);
    server.until_called(2);
    wait::until("both wait", || {
        let report = place.json(&["show"]);
        count(&report["attempts"]["failures"]) == 2
    });
    started.signal("INT");
    let report = started.finish().expect(130).json();
    assert_eq!(report["status"], "interrupted");
    assert_eq!(
        place.json(&["show"])["status"],
        "partially_completed",
        "nobody works on it: only retries remain"
    );
    let failures = place.json(&["failures"]);
    let waiting: Names =
        array(&failures["items"]).iter().map(|row| crate::support::text(&row["item"]["key"])).collect();
    assert_eq!(waiting, keys(2));
    assert!(array(&failures["items"]).iter().all(|row| row["next_at"].is_string()), "{failures}");
    place.check();
}

#[test]
fn a_signal_ends_a_run_whose_input_does_not_end() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "");
    let args = ["run", "p.toml", "--input", "-", "--results", "out.jsonl", "--json"];
    let mut started = place.start_open(&args, &[]);
    started.say(&samples(5));
    // A piece of a source is admitted when it is full or the source ends, so nothing needs to have been called yet.
    wait::until("the run is there", || place.path(".redrive/state.db").exists());
    wait::until("the run is there", || place.run(&["show"]).code() == Some(0));
    started.signal("INT");
    started.finish().expect(130);
    place.check();
    // The same command with the same input goes on.
    let report = place.start_with(&args, &[], samples(5).as_bytes()).finish().expect(0).json();
    assert_eq!((&report["run"], &report["duplicates"]), (&json!("r1"), &json!(0)));
    assert_eq!(place.result_keys(), keys(5));
    place.check();
}

#[test]
fn throttling_without_end_is_ended_by_the_deadline_and_spends_nothing() {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0001" => Answer::Http(429, vec![("Retry-After-Ms", "100".to_owned())], "slow down".to_owned()),
        _ => Answer::all(call),
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(1));
    let place = Place::with(&format!("deadline = \"1500ms\"\n{}", one_stage(&stage)), &samples(4));
    let report = place.run_pipeline(3);
    assert_eq!(report["dead"], json!({ "by_reason": { "expired": 1 }, "by_class": { "rate_limited": 1 } }));
    assert_eq!((place.dead_keys(), count(&report["attempts"]["failures"])), (names([key(1)]), 0));
    let throttles = count(&report["attempts"]["throttles"]);
    assert!((2..=16).contains(&throttles), "{throttles} throttles of 100 ms within 1500 ms");
    assert_eq!(server.times_called()[&key(1)] as u64, throttles);
    assert_eq!(place.result_keys(), &keys(4) - &names([key(1)]));
    place.check();
}

#[test]
fn a_killed_run_over_standard_input_goes_on_with_the_same_input() {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), "");
    let args = ["run", "p.toml", "--input", "-", "--results", "out.jsonl", "--json"];
    let started = place.start_with(&args, &[], samples(30).as_bytes());
    server.until_open(4);
    started.kill();
    server.release();
    let report = place.start_with(&args, &[], samples(30).as_bytes()).finish().expect(0).json();
    assert_eq!((&report["run"], &report["duplicates"]), (&json!("r1"), &json!(0)));
    assert_eq!(place.result_keys(), keys(30));
    assert!(server.count() <= 34, "{} calls", server.count());
    place.check();
}

#[test]
fn a_run_never_ends_before_its_source_does() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(30));
    for _ in 0..30 {
        let args = ["run", "p.toml", "--new", "--results", "out.jsonl", "--json"];
        assert_eq!(place.run(&args).expect(0).json()["status"], "completed");
        assert_eq!(place.result_keys(), keys(30));
    }
    place.check();
}
