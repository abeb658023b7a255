//! Exhausted credit stops everything that costs, says so once, and loses nothing.

use crate::support::{Names, Place, Rehearsal, count, key, keys, one_stage, quick_retry, text, texts};

const ITEMS: usize = 120;
const CONCURRENCY: u64 = 4;
const CREDIT: u64 = 50;

fn place(server: &Rehearsal) -> Place {
    let stage = format!(
        "{}batch = 1\nconcurrency = {CONCURRENCY}\ngate = \"api\"\n{}",
        server.embed(),
        quick_retry(2)
    );
    Place::with(&one_stage(&stage), &texts(ITEMS))
}

fn provider() -> Rehearsal {
    Rehearsal::start(&format!("[latency]\nbase = \"10ms\"\n[quota]\nrequests = {CREDIT}\n"))
}

#[test]
fn exhausted_credit_pauses_gate_and_run_until_somebody_resumes() {
    let server = provider();
    let place = place(&server);
    let ran = place.run(&["run", "p.toml", "--json"]).expect(5);
    let report = ran.json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_quota".into(), 0));
    assert_eq!(count(&report["counts"]["succeeded"]), CREDIT);
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report:#}");
    let about: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("gate paused")).collect();
    assert!(about.len() == 1 && about[0].contains("api"), "one notice: {}", ran.stderr);
    let served = server.report();
    assert_eq!(count(&served["ok"]), CREDIT);
    assert!(count(&served["rejected"]) <= CONCURRENCY, "only what was under way: {served:#}");
    let gate = place.gate("api");
    assert_eq!((&gate["state"], &gate["until"]), (&"paused".into(), &serde_json::Value::Null));
    assert!(text(&gate["why"]).contains("credit is exhausted"), "{gate:#}");
    let waiting = (0..ITEMS).rev().map(|n| place.json(&["explain", &key(n)]));
    let life = waiting.into_iter().find(|life| life["item"]["state"] == "waiting").expect("one waits");
    assert!(text(&life["now"]).contains("paused"), "{}", life["now"]);
    place.check();

    // Neither the same run nor a new one costs anything.
    place.run(&["run", "p.toml"]).expect(5);
    place.write("in2.jsonl", texts(ITEMS).replace("text of", "other text of"));
    let other = place.run(&["run", "p.toml", "--input", "in2.jsonl", "--json"]).expect(5).json();
    assert_eq!(other["status"], "paused_quota", "{other:#}");
    assert_eq!(server.count("calls"), count(&served["calls"]), "nobody was called");

    server.top_up();
    let resumed = place.run(&["gates", "resume", "api"]).expect(0);
    assert!(resumed.stderr.contains("run r1 may go on"), "{}", resumed.stderr);
    assert!(resumed.stderr.contains("run r2 may go on"), "{}", resumed.stderr);
    assert_eq!(place.gate("api")["state"], "open");
    // The credit is for as many answers again, so it takes a second purchase.
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]);
    let report = if report.code() == Some(5) {
        assert_eq!(report.json()["status"], "paused_quota");
        server.top_up();
        place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json()
    } else {
        report.expect(0).json()
    };
    assert_eq!(report["status"], "completed");
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.dead_keys(), Names::new());
    let served = server.report();
    assert_eq!((count(&served["distinct_served"]), count(&served["paid_again"])), (ITEMS as u64, 0));
    place.check();
}

#[test]
fn resuming_the_run_alone_is_enough() {
    let server = provider();
    let place = place(&server);
    place.run(&["run", "p.toml"]).expect(5);
    let calls = server.count("calls");
    // Nobody has paid: it stops again after what is under way, and nothing is lost.
    let report = place.run(&["resume", "r1", "--json"]).expect(5).json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_quota".into(), 0));
    let more = server.count("calls") - calls;
    assert!((1..=CONCURRENCY).contains(&more), "{more} more calls");
    for _ in 0..4 {
        server.top_up();
        if place.run(&["resume", "r1", "--results", "out.jsonl"]).code() == Some(0) {
            break;
        }
    }
    assert_eq!(place.result_keys(), keys(ITEMS));
    let served = server.end();
    assert_eq!((count(&served["distinct_served"]), count(&served["paid_again"])), (ITEMS as u64, 0));
    place.check();
}
