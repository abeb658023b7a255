//! Daemons come and go on one store: two share the work, any process goes on with what one left, and a stop costs nothing.

use serde_json::{Value, json};

use crate::serve_operations::mended_later;
use crate::support::shifted::Shifted;
use crate::support::{
    Daemon, Names, Place, Server, array, count, names, one_stage, quick_retry, samples, text, wait,
};
use std::sync::atomic::Ordering;

/// Calls at once that one process makes.
const CONCURRENCY: usize = 2;

/// A place with a folder of pipelines that has one with an inbox.
fn place(stage: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/box.toml", inbox(stage));
    place
}

fn inbox(stage: &str) -> String {
    format!(
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\n{stage}\n{}",
        quick_retry(2)
    )
}

fn start(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

/// Hands in items with these numbers, and expects that none is refused.
fn hand_in(daemon: &Daemon, numbers: std::ops::Range<usize>) {
    let items: Vec<Value> = numbers.map(|n| json!({"payload": {"id": format!("k{n}"), "n": n}})).collect();
    let handed = daemon.post("/v1/pipelines/box/items", &json!({"items": items})).expect(200).json();
    assert_eq!(handed["counts"]["refused"], 0, "{handed}");
}

/// Who made the attempts of an item, one after another.
fn workers_of(daemon: &Daemon, key: &str) -> Vec<String> {
    let life = daemon.get(&format!("/v1/items/{key}/explain")).expect(200).json();
    array(&life["attempts"]).iter().map(|attempt| text(&attempt["worker"])).collect()
}

#[test]
fn a_second_daemon_shares_the_work() {
    let server = Server::good();
    let place = place(&format!("{}\nconcurrency = {CONCURRENCY}", server.stage()));
    let (one, two) = (start(&place), start(&place));
    server.hold();
    hand_in(&two, 0..60);
    // Nothing is answered yet: more than one process calls at a time are calls of both.
    server.until_open(CONCURRENCY + 1);
    let held: Names = names(server.calls().iter().map(|call| call.item().key.clone()));
    server.release();
    one.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 60);
    assert_eq!(server.count(), 60, "each item once");
    let workers: Names = held.iter().flat_map(|key| workers_of(&one, key)).collect();
    assert_eq!(workers.len(), 2, "two have made attempts: {workers:?}");
    let listed = one.get("/v1/workers").expect(200).json();
    assert_eq!(array(&listed["items"]).iter().filter(|worker| worker["alive"] == true).count(), 2);
    one.stop().expect(0);
    two.stop().expect(0);
    place.check();
}

#[test]
fn a_worker_without_a_door_goes_on_with_a_redrive_that_a_killed_daemon_left() {
    const ITEMS: usize = 1_700;
    let (server, good) = mended_later();
    let stage = format!("{}\nbatch = 50\nconcurrency = 8", server.stage());
    let mut place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let clock = Shifted::in_place(&mut place);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    good.store(true, Ordering::SeqCst);
    let before = server.times_called();
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "redrive.after_page:2")]);
    let started = dies.post("/v1/operations", &json!({"kind": "redrive", "all": true})).expect(201).json();
    let id = text(&started["operations"][0]["id"]);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    let left = place.json(&["dead", "operations"])["operations"][0].clone();
    assert_eq!((&left["id"], &left["state"]), (&json!(id), &json!("open")), "it is in the middle of it");
    assert!((1..ITEMS as u64).contains(&count(&left["changed"])), "{left}");
    // Whoever did it is known to be gone when nothing was heard of it for a while.
    clock.put(11_000);
    let worker = place.start(&["work"]);
    place.until_json(&["show", "r1"], |report| report["counts"]["succeeded"] == ITEMS);
    worker.signal("TERM");
    worker.finish().expect(0);
    let done = place.json(&["dead", "operations"])["operations"][0].clone();
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), ITEMS as u64), "{done}");
    assert_eq!(done["actor"], "admin", "whoever asked for it is on record, not whoever went on with it");
    let after = server.times_called();
    assert_eq!(after.len(), ITEMS);
    assert!(after.iter().all(|(key, calls)| *calls == before[key] + 1), "each is sent back once");
    place.check();
}

#[test]
fn no_signal_that_stops_it_costs_an_attempt_and_nobody_is_sent_to_it_meanwhile() {
    let server = Server::good();
    let place = place(&format!("{}\nconcurrency = {CONCURRENCY}", server.stage()));
    for (n, signal) in ["TERM", "HUP", "INT"].into_iter().enumerate() {
        let mut daemon = start(&place);
        assert_eq!(daemon.get("/readyz").expect(200).json()["draining"], false);
        server.hold();
        hand_in(&daemon, n * 10..(n + 1) * 10);
        server.until_open(CONCURRENCY);
        daemon.process().signal(signal);
        daemon.process().until_said("stopping");
        wait::until("it says that it is not ready", || daemon.get("/readyz").status == 503);
        let ready = daemon.get("/readyz").expect(503).json();
        assert_eq!((&ready["ready"], &ready["draining"]), (&json!(false), &json!(true)), "{signal}");
        assert_eq!(ready["store"], true, "nothing else is wrong: {ready}");
        daemon.get("/healthz").expect(200);
        server.release();
        daemon.finish().expect(0);
    }
    let next = start(&place);
    let report = next.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 30);
    assert_eq!((count(&report["attempts"]["total"]), count(&report["attempts"]["crashes"])), (30, 0));
    assert_eq!(server.count(), 30, "what was in hand was finished and recorded");
    server.assert_numbered();
    next.stop().expect(0);
    place.check();
}

#[test]
fn a_pipeline_that_is_edited_holds_for_the_next_item() {
    let (before, after) = (Server::good(), Server::good());
    let place = place(&before.stage());
    let daemon = start(&place);
    let version = |list: &Value| list["items"][0]["since"].clone();
    let edit = |text: String| {
        let before = version(&daemon.get("/v1/pipelines").expect(200).json());
        place.write("pipelines/box.toml", text);
        daemon.until("/v1/pipelines", |list| version(list).is_string() && version(list) != before);
    };
    let passed = |key: &str| daemon.until(&format!("/v1/items/{key}"), |item| item["state"] == "succeeded");
    hand_in(&daemon, 0..1);
    passed("k0");
    edit(inbox(&after.stage()));
    hand_in(&daemon, 1..2);
    passed("k1");
    assert_eq!(before.times_called(), [("k0".to_owned(), 1)].into(), "nothing more goes there");
    assert_eq!(after.times_called()["k1"], 1);
    // Other stages are for another run: whoever hands in is told, and how to go on.
    edit(format!("{}[[stage]]\nname = \"last\"\n{}\n", inbox(&after.stage()), before.stage()));
    let item = json!({"items": [{"payload": {"id": "k2", "n": 2}}]});
    let refused = daemon.post("/v1/pipelines/box/items", &item).expect(409).json();
    assert!(text(&refused["hint"]).contains("POST /v1/runs/r1/close"), "{refused}");
    daemon.post("/v1/runs/r1/close", &json!({})).expect(200);
    daemon.post("/v1/pipelines/box/items", &item).expect(200);
    passed("k2");
    let stages: Vec<String> = before.by_key()["k2"].iter().map(|(call, _)| call.stage.clone()).collect();
    assert_eq!((stages, after.times_called()["k2"]), (vec!["last".to_owned()], 1));
    daemon.stop().expect(0);
    place.check();
}
