//! Facts on a real RabbitMQ that stops, dies and runs out of memory.

use std::io::Write;

use serde_json::Value;

use crate::monitor::thirds;
use crate::support::{
    Broker, Daemon, Ledger, Place, Server, count, one_stage, quick_retry, samples, text, wait,
};

const EACH: usize = 60;

/// A pipeline whose run stays open.
fn standing(server: &Server) -> String {
    one_stage(&format!("{}\n{}", server.stage(), quick_retry(3)))
        .replace("path = \"in.jsonl\"", "kind = \"inbox\"")
}

/// Hands further items in, from another process than the one that passes facts on.
fn hand_in(place: &Place, from: usize) {
    let lines: String = samples(from + EACH).lines().skip(from).map(|line| format!("{line}\n")).collect();
    place.write("in.jsonl", lines);
    place.run(&["submit", "p.toml", "--items", "in.jsonl", "--quiet"]).expect(0);
}

fn ended(place: &Place) -> u64 {
    let report: Value = place.json(&["show", "r1"]);
    count(&report["counts"]["succeeded"]) + count(&report["counts"]["dead"])
}

#[test]
fn every_fact_arrives_in_order_though_the_broker_stops_dies_and_is_blocked() {
    let mut broker = Broker::start();
    broker.client().bind("all", &["#"], &[]);
    let (server, url) = (thirds(), broker.url());
    let place = Place::with(&standing(&server), "");
    place.run(&["relay", "--once", "--bus", &url]).expect(0);
    let ledger = Ledger::begin(&place);
    let passed_on = || wait::until("all facts are passed on", || ledger.waiting() == 0);
    let held_back = || wait::until("facts wait in the store", || ledger.waiting() > 0);
    let args = ["--pipelines", ".", "--bus", &url, "--allow-outbound", "127.0.0.0/8"];
    let mut daemon = Daemon::start_with(&place, &args, &[("REDRIVE_LOG", "warn")]);
    hand_in(&place, 0);
    passed_on();
    hand_in(&place, EACH);
    broker.stop();
    hand_in(&place, 2 * EACH);
    held_back();
    broker.begin();
    hand_in(&place, 3 * EACH);
    broker.kill();
    hand_in(&place, 4 * EACH);
    held_back();
    broker.begin();
    passed_on();
    broker.alarm(true);
    let told = place.run(&["doctor", &url]).expect(1).stdout;
    assert!(told.contains("BAD  bus alarms"), "{told}");
    hand_in(&place, 5 * EACH);
    held_back();
    daemon.process().until_said("takes nothing now");
    broker.alarm(false);
    wait::until("all items have ended", || ended(&place) == 6 * EACH as u64);
    passed_on();
    let arrived = ledger.compare(&broker.client().drain("all"));
    assert_eq!(arrived.events["item.admitted"], 6 * EACH);
    assert_eq!(arrived.events["item.dead"], 2 * EACH);
    assert_eq!(arrived.events["item.succeeded"], 4 * EACH);
    assert_eq!(arrived.events["item.retry_scheduled"], 2 * EACH);
    let report = place.json(&["show", "r1"]);
    assert_eq!(text(&report["status"]), "open");
    // Said so that a run of the tests tells how much the faults cost.
    let told = format!("{} facts, {} of them twice\n", arrived.facts, arrived.twice);
    let _ = std::io::stderr().write_all(told.as_bytes());
    let ran = daemon.stop().expect(0);
    assert!(!ran.stderr.contains(crate::support::broker::PASSWORD), "{}", ran.stderr);
    place.check();
}
