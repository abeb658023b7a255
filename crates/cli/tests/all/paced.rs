//! A redrive at a rate goes item by item: it stops by itself, can be stopped, and outlives its process.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve_operations::{all_dead, mended_later, operation};
use crate::support::server::{Item, failed, passed};
use crate::support::{Answer, Daemon, Place, Server, count, one_stage, samples, text};

/// The calls after so many, each of one item: how often for which, and when.
fn calls(server: &Server, before: usize) -> (BTreeMap<String, usize>, Vec<Instant>) {
    let (mut times, mut at) = (BTreeMap::new(), Vec::new());
    for call in &server.calls()[before..] {
        for item in &call.items {
            *times.entry(item.key.clone()).or_default() += 1;
            at.push(call.at);
        }
    }
    (times, at)
}

fn dead(place: &Place) -> u64 {
    count(&place.json(&["show", "r1"])["counts"]["dead"])
}

#[test]
fn a_share_that_fails_again_stops_a_redrive_at_a_rate() {
    let (server, _) = mended_later();
    let place = all_dead(&server, 60);
    let before = server.calls().len();
    let daemon = Daemon::start(&place, &[]);
    let filter = json!({"run": "r1", "stage": "work"});
    let asked = json!({"kind": "redrive", "filter": filter, "rate_per_second": 2, "stop_at": 0.1});
    let started = daemon.post("/v1/operations", &asked).expect(201).json();
    assert_eq!(started["operations"][0]["state"], "open", "{started}");
    let again = daemon.post("/v1/operations", &asked).expect(201).json();
    assert_eq!(again["operations"][0]["id"], started["operations"][0]["id"], "it is under way already");
    let stopped = operation(&daemon, &started);
    assert_eq!(stopped["state"], "cancelled", "{stopped}");
    assert!(text(&stopped["stopped"]).contains("failed again, more than 10 percent"), "{stopped}");
    let sent = count(&stopped["changed"]);
    assert!((5..=12).contains(&sent), "{stopped}");
    assert_eq!(count(&stopped["outcomes"]["pending"]), 60 - sent, "{stopped}");
    let id = text(&stopped["id"]);
    daemon.until(&format!("/v1/operations/{id}"), |it| it["outcomes"]["live"] == 0);
    assert_eq!(calls(&server, before).0.len() as u64, sent, "the others stay as they were");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_redrive_that_stops_by_its_share_does_not_pause_a_run_that_is_well() {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.payload["n"].as_u64().is_some_and(|n| n % 20 == 0) {
            true => failed(item, "final", "no good"),
            false => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = format!("{}\nbatch = 50\nconcurrency = 8", server.stage());
    let with_budget = one_stage(&stage).replace("[run]\nfailure_budget = false\n", "");
    let place = Place::with(&with_budget, &samples(1_000));
    // As many as one in twenty, in whatever order batches end.
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let were_dead = dead(&place);
    assert_eq!(were_dead, 50);
    let before = server.calls().len();
    let daemon = Daemon::start(&place, &[]);
    for asked in [
        json!({"kind": "redrive", "all": true, "stop_at": 0.1}),
        json!({"kind": "redrive", "all": true, "stop_at": 0.1, "rate_per_second": 50}),
    ] {
        let stopped = operation(&daemon, &daemon.post("/v1/operations", &asked).expect(201).json());
        assert_eq!((&stopped["state"], count(&stopped["changed"])), (&json!("cancelled"), 5), "{stopped}");
        let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["dead"]) == were_dead);
        assert!(!text(&report["status"]).contains("paused"), "{report}");
    }
    assert!(calls(&server, before).0.len() <= 10, "the others stay as they were");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_redrive_at_a_rate_is_under_way_until_its_last_item_and_can_be_stopped() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 300);
    good.store(true, Ordering::SeqCst);
    let daemon = Daemon::start(&place, &[]);
    let told = place.run(&["dead", "redrive", "--all", "--rate", "3"]).expect(0);
    assert!(told.stdout.contains("op1 is open") && told.stdout.contains("to go"), "{}", told.stdout);
    assert!(told.stderr.contains("`redrive dead operations --stop op1`"), "{}", told.stderr);
    daemon.until("/v1/operations/op1", |it| count(&it["outcomes"]["passed"]) >= 10);
    let told = place.run(&["dead", "operations", "--stop", "op1"]).expect(0);
    assert!(told.stderr.contains("op1 is stopped") && told.stderr.contains("stay as"), "{}", told.stderr);
    let stopped = daemon.until("/v1/operations/op1", |it| it["outcomes"]["live"] == 0);
    let (sent, left) = (count(&stopped["outcomes"]["passed"]), count(&stopped["outcomes"]["pending"]));
    assert_eq!((&stopped["state"], sent + left), (&json!("cancelled"), 300), "{stopped}");
    assert!(sent < 60, "{stopped}");
    assert_eq!(dead(&place), left);
    let told = place.run(&["dead", "operations", "--stop", "op1"]).expect(2);
    assert!(told.stderr.contains("not under way"), "{}", told.stderr);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_kill_in_the_middle_of_a_redrive_at_a_rate_loses_neither_an_item_nor_the_rate() {
    const ITEMS: u64 = 60;
    let (server, good) = mended_later();
    let place = all_dead(&server, 60);
    good.store(true, Ordering::SeqCst);
    let before = server.calls().len();
    let daemon = Daemon::start(&place, &[]);
    let asked = json!({"kind": "redrive", "all": true, "rate_per_second": 8});
    let started = daemon.post("/v1/operations", &asked).expect(201).json();
    let id = text(&started["operations"][0]["id"]);
    let under_way = |it: &Value| count(&it["outcomes"]["passed"]) >= 20;
    let open = daemon.until(&format!("/v1/operations/{id}"), under_way);
    assert_eq!(open["state"], "open", "{open}");
    daemon.kill();
    let daemon = Daemon::start(&place, &[]);
    let done = operation(&daemon, &started);
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), ITEMS), "{done}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == ITEMS);
    let (times, at) = calls(&server, before);
    assert_eq!(times.len() as u64, ITEMS);
    // A call that the kill cut off is made again; an item is sent back once, whatever becomes of its call.
    let twice = times.values().filter(|times| **times > 1).count();
    assert!(twice <= 8, "{times:?}");
    let outcomes = daemon.get(&format!("/v1/operations/{id}")).json()["outcomes"].clone();
    assert_eq!(count(&outcomes["passed"]), ITEMS, "{outcomes}");
    // What is due while nobody is there, of two seconds at most, goes at once; all else goes at the rate.
    let took = at.iter().max().expect("calls").duration_since(*at.iter().min().expect("calls"));
    assert!(took >= Duration::from_millis((ITEMS - 18) * 125), "it took {took:?}");
    let most = at.iter().map(|from| {
        at.iter().filter(|at| **at >= *from && at.duration_since(*from) < Duration::from_secs(1)).count()
    });
    assert!(most.max().is_some_and(|most| most <= 8 + 18 + 2), "a burst");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn work_keeps_a_rate_by_itself_and_goes_on_after_an_interrupt() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 60);
    good.store(true, Ordering::SeqCst);
    let before = server.calls().len();
    let working = place.start(&["dead", "redrive", "--all", "--rate", "10", "--work"]);
    place.until_json(&["show", "r1"], |report| count(&report["counts"]["succeeded"]) >= 10);
    working.signal("INT");
    let told = working.finish().expect(130);
    assert!(told.stdout.contains("op1 is open"), "{}", told.stdout);
    assert!(told.stderr.contains("`redrive dead start op1 --work`"), "{}", told.stderr);
    assert!(dead(&place) > 0, "some are left");
    // The same again is the same operation.
    place.run(&["dead", "redrive", "--all", "--rate", "10", "--work", "--quiet"]).expect(0);
    assert_eq!(place.json(&["dead", "operations"])["operations"].as_array().map(Vec::len), Some(1));
    let (times, at) = calls(&server, before);
    assert_eq!(times.len(), 60);
    let took = at.iter().max().expect("calls").duration_since(*at.iter().min().expect("calls"));
    assert!(took >= Duration::from_millis((60 - 22) * 100), "it took {took:?}");
    assert_eq!(dead(&place), 0);
    // Nothing is dead any more: that is no mistake, and nothing is left open.
    place.run(&["dead", "redrive", "--all", "--rate", "10", "--work"]).expect(0);
    place.run(&["dead", "start", "op1", "--work"]).expect(2);
    place.check();
}
