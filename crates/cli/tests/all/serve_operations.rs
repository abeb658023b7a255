//! Operations over HTTP are durable: they are carried on by the daemon, also by one that is started after a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, samples, text};

/// As many as take more than a few pages.
const ITEMS: usize = 10_000;

/// A service that fails everything for good until it is mended.
pub fn mended_later() -> (Server, Arc<AtomicBool>) {
    let good = Arc::new(AtomicBool::new(false));
    let mended = good.clone();
    let server = Server::start(move |call| {
        let good = mended.load(Ordering::SeqCst);
        let one = |item| if good { passed(item) } else { failed(item, "final", "no good") };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    (server, good)
}

/// A place with a run of so many dead items.
pub fn all_dead(server: &Server, items: usize) -> Place {
    let stage = format!("{}\nbatch = 50\nconcurrency = 8", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(items));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    place
}

pub fn operation(daemon: &Daemon, started: &Value) -> Value {
    let id = text(&array(&started["operations"]).last().expect("one")["id"]);
    daemon.until(&format!("/v1/operations/{id}"), |operation| operation["state"] != "open")
}

#[test]
fn a_redrive_that_is_killed_in_the_middle_is_carried_on_and_sends_each_item_once() {
    let (server, good) = mended_later();
    let mut place = all_dead(&server, ITEMS);
    let clock = Shifted::in_place(&mut place);
    good.store(true, Ordering::SeqCst);
    let before = server.times_called();
    // It dies with the second page written, and nothing of it told.
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "redrive.after_page:2")]);
    let asked = json!({"kind": "redrive", "all": true});
    let started = dies.post("/v1/operations", &asked).expect(201);
    let id = text(&started.json()["operations"][0]["id"]);
    assert_eq!(started.headers["location"], format!("/v1/operations/{id}"));
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    // Whoever did it is known to be gone when nothing was heard of it for a while.
    clock.put(11_000);
    let daemon = Daemon::start(&place, &[]);
    let done = operation(&daemon, &started.json());
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), ITEMS as u64), "{done}");
    let report = daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == ITEMS as u64);
    assert_eq!(count(&report["counts"]["dead"]), 0);
    let after = server.times_called();
    assert_eq!(after.len(), ITEMS);
    for (key, calls) in &after {
        assert_eq!(*calls, before[key] + 1, "{key} is sent back once");
    }
    assert_eq!(done["actor"], "admin");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn the_others_follow_a_canary_only_when_it_passed() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 40);
    let daemon = Daemon::start(&place, &[]);
    let asked = json!({"kind": "redrive", "filter": {"run": "r1"}, "all": true, "canary": 3});
    let failing = daemon.post("/v1/operations", &asked).expect(201).json();
    let stopped = operation(&daemon, &failing);
    assert_eq!(
        (&stopped["state"], count(&stopped["changed"])),
        (&json!("cancelled"), 3),
        "the canary died again"
    );
    assert!(text(&stopped["stopped"]).contains("canaries failed"), "{stopped}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == 40);
    assert_eq!(server.by_key().values().filter(|calls| calls.len() == 2).count(), 3);
    good.store(true, Ordering::SeqCst);
    let passing = daemon.post("/v1/operations", &asked).expect(201).json();
    assert_eq!(operation(&daemon, &passing)["state"], "done");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 40);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_purge_and_a_rerun_are_carried_on_and_what_makes_no_sense_is_refused() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 20);
    good.store(true, Ordering::SeqCst);
    let daemon = Daemon::start(&place, &[]);
    let ask = |body: Value| daemon.post("/v1/operations", &body);
    for wrong in [
        json!({"kind": "redrive"}),
        json!({"kind": "explode", "all": true}),
        json!({"kind": "redrive", "all": true, "rate_per_second": 0}),
        json!({"kind": "purge", "all": true, "canary": 1}),
        json!({"kind": "redrive", "filter": {"colour": "red"}}),
        json!({"kind": "redrive", "filter": [], "all": true}),
        json!({"kind": "rerun", "filter": {"run": "r1"}}),
        json!({"kind": "cancel", "filter": {"run": "r1", "text": "x"}}),
        json!({"kind": "redrive", "all": true, "stop_at": 1.5}),
        json!({"kind": "redrive", "all": true, "undo_ms": 5}),
        json!({"kind": "purge", "all": true, "undo_ms": -5}),
        json!({"kind": "retry", "all": true, "stop_at": 0.1}),
    ] {
        ask(wrong.clone()).expect(400);
    }
    ask(json!({"kind": "redrive", "filter": {"run": "r9"}, "all": true})).expect(404);
    let one = json!({"kind": "purge", "filter": {"item": "k0003"}});
    let purged = operation(&daemon, &ask(one).expect(201).json());
    assert_eq!((&purged["state"], count(&purged["changed"])), (&json!("done"), 1));
    let rest = json!({"kind": "redrive", "all": true, "limit": 10, "rate_per_second": 1000});
    let sent = operation(&daemon, &ask(rest).expect(201).json());
    assert_eq!(count(&sent["changed"]), 10);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 10);
    let again = json!({"kind": "rerun", "filter": {"run": "r1", "stage": "work"}});
    let again = operation(&daemon, &ask(again).expect(201).json());
    assert_eq!(again["state"], "done");
    daemon.post("/v1/operations/op99/stop", &json!({})).expect(404);
    let known = text(&again["id"]);
    daemon.post(&format!("/v1/operations/{known}/stop"), &json!({})).expect(409);
    assert!(array(&daemon.get("/v1/operations?limit=2").json()["items"]).len() == 2);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn dead_items_are_written_out_edited_and_sent_back_once() {
    let server = Server::start(|call| {
        let one = |item: &crate::support::server::Item| match item.payload["n"] == json!(-1) {
            true => passed(item),
            false => failed(item, "final", "no good"),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = all_dead(&server, 12);
    let daemon = Daemon::start(&place, &[]);
    let exported = daemon.get("/v1/dead/export?run=r1").expect(200);
    assert_eq!(exported.headers["content-type"], "application/jsonl");
    let mut lines: Vec<Value> =
        exported.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found =
        lines.iter().map(|line| text(&line["item"]["key"])).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(found, crate::support::keys(12));
    assert_eq!(daemon.get("/v1/dead/export?text=nowhere").expect(200).body, "");
    lines.truncate(5);
    lines.iter_mut().for_each(|line| line["item"]["payload"]["n"] = json!(-1));
    lines.push(json!({"item": {"id": "nothing"}}));
    let sent = daemon.post("/v1/dead/import", &json!({"items": lines})).expect(200).json();
    let became: Vec<String> = array(&sent["items"]).iter().map(|one| text(&one["became"])).collect();
    assert_eq!(became[..5], ["sent_back"; 5], "{sent}");
    assert_eq!((became[5].as_str(), sent["items"][5]["why"].is_string()), ("left_alone", true), "{sent}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 5);
    lines.truncate(5);
    let again = daemon.post("/v1/dead/import", &json!({"items": lines})).expect(200).json();
    let became: Vec<String> = array(&again["items"]).iter().map(|one| text(&one["became"])).collect();
    assert_eq!(became, ["sent_back_before"; 5], "{again}");
    daemon.post("/v1/dead/import", &json!({"items": []})).expect(400);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_purge_that_is_killed_in_the_middle_is_carried_on_and_removes_each_item_once() {
    let (server, _) = mended_later();
    let mut place = all_dead(&server, ITEMS);
    let clock = Shifted::in_place(&mut place);
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "purge.after_page:2")]);
    let started = dies.post("/v1/operations", &json!({"kind": "purge", "all": true})).expect(201).json();
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    // Whoever did it is known to be gone when nothing was heard of it for a while.
    clock.put(11_000);
    let daemon = Daemon::start(&place, &[]);
    let done = operation(&daemon, &started);
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), ITEMS as u64), "{done}");
    assert_eq!((&done["actor"], &done["kind"]), (&json!("admin"), &json!("purge")), "it is on record");
    let counts = daemon.get("/v1/runs/r1").json()["counts"].clone();
    assert_eq!((count(&counts["purged"]), count(&counts["dead"])), (ITEMS as u64, 0), "{counts}");
    // What is gone can be told, by its key.
    let told = daemon.get("/v1/items/k0007/explain").expect(200).json();
    assert!(text(&told["now"]).contains("purged"), "{told}");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_export_that_breaks_off_with_a_kill_is_not_taken_for_whole_and_comes_whole_again() {
    use std::io::{Read, Write};
    let (server, _) = mended_later();
    // More than fits between two processes.
    let line = |n| json!({"id": format!("k{n:04}"), "text": "x".repeat(50_000)}).to_string() + "\n";
    let lines: String = (0..600).map(line).collect();
    let place = Place::with(&one_stage(&format!("{}\nbatch = 20", server.stage())), &lines);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let mut stream = std::net::TcpStream::connect(daemon.address()).expect("connected");
    let head = format!(
        "GET /v1/dead/export HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        daemon.address(),
        crate::support::daemon::TOKEN
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut some = [0; 2_000];
    stream.read_exact(&mut some).expect("it has begun");
    daemon.kill();
    let mut rest = Vec::new();
    // The end of a body in pieces is a piece without anything in it.
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "it ended as if it were whole");
    let again = Daemon::start(&place, &["--no-work"]);
    let exported = again.get("/v1/dead/export").expect(200).body;
    let keys = exported.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let keys: std::collections::BTreeSet<String> = keys.map(|line| text(&line["item"]["key"])).collect();
    assert_eq!(keys, crate::support::keys(600));
    again.stop().expect(0);
    place.check();
}
