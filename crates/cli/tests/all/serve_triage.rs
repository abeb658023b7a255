//! Sets that are frozen: looked at, started exactly as they were seen, stopped, undone, carried on after a kill.

use serde_json::{Value, json};

use crate::serve_operations::{all_dead, mended_later, operation};
use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, samples, text};
use std::sync::atomic::Ordering;

fn outcomes(operation: &Value) -> (u64, u64, u64, u64) {
    let told = &operation["outcomes"];
    (count(&told["items"]), count(&told["passed"]), count(&told["failed_again"]), count(&told["left_alone"]))
}

#[test]
fn a_frozen_set_is_sent_back_exactly_as_it_was_seen() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 30);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let asked = json!({"kind": "redrive", "all": true, "limit": 20, "dry_run": true});
    let reply = daemon.post("/v1/operations", &asked).expect(201);
    let frozen = reply.json();
    let id = text(&frozen["operations"][0]["id"]);
    assert_eq!(reply.headers["location"], format!("/v1/operations/{id}"));
    assert_eq!((count(&frozen["items"]), &frozen["operations"][0]["state"]), (20, &json!("frozen")));
    let preview = &frozen["preview"];
    assert_eq!(
        (count(&preview["matching"]), count(&preview["reused"]), &preview["usd"]),
        (30, 0, &Value::Null)
    );
    assert_eq!(preview["by"], json!([{"stage": "work", "class": "final", "items": 20}]));
    // Nothing is done by it, and one of the set goes its own way meanwhile: it dies again, and is left alone; it is none that
    // the set was too early for.
    daemon.post("/v1/operations", &json!({"kind": "redrive", "filter": {"item": "k0003"}})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == 29);
    place.run(&["resume", "r1", "--quiet"]).expect(4);
    let seen = daemon.get(&format!("/v1/operations/{id}")).expect(200).json();
    assert_eq!((outcomes(&seen), count(&seen["late"])), ((20, 0, 0, 1), 0), "{seen}");
    good.store(true, Ordering::SeqCst);
    daemon.stop().expect(0);

    let daemon = Daemon::start(&place, &[]);
    daemon.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    let done = operation(&daemon, &frozen);
    assert_eq!((count(&done["changed"]), count(&done["skipped"])), (19, 1), "{done}");
    let ended = daemon.until(&format!("/v1/operations/{id}"), |it| it["outcomes"]["passed"] == 19);
    assert_eq!(outcomes(&ended), (20, 19, 0, 1));
    let left = daemon.get(&format!("/v1/operations/{id}/items?outcome=left_alone")).expect(200).json();
    assert_eq!((array(&left["items"]).len(), &left["items"][0]["key"]), (1, &json!("k0003")));
    let page = daemon.get(&format!("/v1/operations/{id}/items?limit=12")).expect(200).json();
    let next = text(&page["next"]);
    let rest = daemon.get(&format!("/v1/operations/{id}/items?limit=12&after={next}")).expect(200).json();
    assert_eq!(
        (array(&page["items"]).len(), array(&rest["items"]).len(), &rest["next"]),
        (12, 8, &Value::Null)
    );
    daemon.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(409);
    daemon.post("/v1/operations/op99/start", &json!({})).expect(404);
    daemon.get(&format!("/v1/operations/{id}/items?outcome=eaten")).expect(400);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_redrive_stops_when_too_large_a_share_fails_again() {
    let server = Server::start(|call| {
        let one = |item: &crate::support::server::Item| match item.before {
            0 => failed(item, "final", "at first"),
            _ if item.key.ends_with('7') => passed(item),
            _ => failed(item, "final", "again"),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = all_dead(&server, 400);
    let daemon = Daemon::start(&place, &[]);
    let asked = json!({"kind": "redrive", "filter": {"run": "r1"}, "all": true, "stop_at": 0.5});
    let stopped = operation(&daemon, &daemon.post("/v1/operations", &asked).expect(201).json());
    assert_eq!(stopped["state"], "cancelled");
    assert!(text(&stopped["stopped"]).contains("failed again, more than 50 percent"), "{stopped}");
    assert!(count(&stopped["changed"]) < 400, "{stopped}");
    let id = text(&stopped["id"]);
    daemon.until(&format!("/v1/operations/{id}"), |it| it["outcomes"]["live"] == 0);
    let tried = server.by_key().values().filter(|calls| calls.len() > 1).count() as u64;
    assert_eq!(tried, count(&stopped["changed"]), "the others stay as they were");
    daemon.stop().expect(0);
    // The same on the command line, by itself.
    let ran = place.run(&["dead", "redrive", "--all", "--stop-at", "0.5", "--work", "--json", "--quiet"]);
    let done = ran.expect(3).json();
    assert!(count(&done["items"]) < 400, "{done}");
    place.check();
}

#[test]
fn a_frozen_redrive_of_ten_thousand_that_is_killed_sends_each_item_once() {
    const ITEMS: usize = 10_000;
    let (server, good) = mended_later();
    let place = all_dead(&server, ITEMS);
    good.store(true, Ordering::SeqCst);
    let before = server.times_called();
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "redrive.after_page:7")]);
    let asked = json!({"kind": "redrive", "all": true, "dry_run": true});
    let frozen = dies.post("/v1/operations", &asked).expect(201).json();
    let id = text(&frozen["operations"][0]["id"]);
    dies.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    // The next one is killed as well, by its own number of pages.
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "redrive.before_page:3")]);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    let daemon = Daemon::start(&place, &[]);
    let done = operation(&daemon, &frozen);
    assert_eq!((count(&done["changed"]), count(&done["skipped"])), (ITEMS as u64, 0), "{done}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == ITEMS as u64);
    let after = server.times_called();
    assert_eq!(after.len(), ITEMS);
    assert!(after.iter().all(|(key, calls)| *calls == before[key] + 1), "each is sent back once");
    let audit = daemon.get("/v1/operations").expect(200).json();
    assert_eq!((array(&audit["items"]).len(), &audit["items"][0]["actor"]), (1, &json!("admin")));
    daemon.stop().expect(0);
    place.check();
}

/// A place with dead items and a clock that can be put.
fn with_clock(items: usize) -> (Place, Shifted, Server) {
    let (server, _) = mended_later();
    let stage = format!("{}\nbatch = 50", server.stage());
    let mut place = Place::with(&one_stage(&stage), &samples(items));
    let clock = Shifted::in_place(&mut place);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    (place, clock, server)
}

#[test]
fn a_purge_can_be_undone_until_its_time_and_is_carried_out_then() {
    let (place, clock, _server) = with_clock(12);
    let told = place.json(&["dead", "purge", "--all", "--yes", "--undo-for", "10m"]);
    let first = text(&told["operation"]);
    assert_eq!(count(&told["items"]), 12);
    let dead = || count(&place.json(&["show", "r1"])["counts"]["dead"]);
    let now = text(&place.json(&["explain", "k0001"])["now"]);
    assert!(now.contains("to be purged at"), "{now}");
    let listed = place.json(&["dead", "list"]);
    assert!(array(&listed["items"]).iter().all(|item| item["purge_at"].is_string()), "{listed}");
    let rows = place.run(&["dead", "list"]).expect(0).stdout;
    assert!(rows.contains("REMOVED") && rows.contains("in 10 min"), "{rows}");
    let operations = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(operations.contains("removed in 10 min"), "{operations}");
    place.run(&["dead", "operations", "--stop", &first]).expect(0);
    let rows = place.run(&["dead", "list"]).expect(0).stdout;
    assert!(!rows.contains("REMOVED"), "{rows}");
    let listed = place.json(&["dead", "list"]);
    assert!(array(&listed["items"]).iter().all(|item| item["purge_at"].is_null()), "it is undone");
    clock.put(11 * 60_000);
    place.run(&["dead", "start", &first]).expect(2);
    assert_eq!(dead(), 12, "it was undone");

    let daemon = Daemon::start(&place, &[]);
    let asked = json!({"kind": "purge", "filter": {"text": "k000"}, "undo_ms": 600_000});
    let begun = daemon.post("/v1/operations", &asked).expect(201).json();
    let id = text(&begun["operations"][0]["id"]);
    let waits = daemon.get(&format!("/v1/operations/{id}")).expect(200).json();
    assert_eq!((&waits["state"], waits["undo_until"].is_string()), (&json!("open"), true));
    clock.put(20 * 60_000);
    daemon.get("/healthz").expect(200);
    assert_eq!(dead(), 12, "it is not time yet");
    clock.put(22 * 60_000);
    let done = operation(&daemon, &begun);
    assert_eq!((count(&done["changed"]), count(&done["outcomes"]["gone"])), (10, 10), "{done}");
    assert_eq!(dead(), 2);
    let gone = place.json(&["dead", "outcomes", &id, "--outcome", "gone", "-n", "3"]);
    assert_eq!((array(&gone["items"]).len(), &gone["items"][0]["key"]), (3, &json!("k0000")));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn the_command_line_freezes_and_starts_as_the_api_does() {
    let (server, good) = mended_later();
    let place = all_dead(&server, 15);
    let frozen = place.json(&["dead", "freeze", "--all", "--canary", "2"]);
    let id = text(&frozen["operations"][0]["id"]);
    assert_eq!((count(&frozen["items"]), &frozen["operations"][0]["state"]), (15, &json!("frozen")));
    good.store(true, Ordering::SeqCst);
    let begun = place.json(&["dead", "start", &id]);
    assert_eq!((&begun["state"], count(&begun["changed"])), (&json!("open"), 2), "the canaries go first");
    place.run(&["resume", "r1", "--quiet"]).expect(4);
    let done = place.json(&["dead", "start", &id]);
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), 15));
    place.run(&["resume", "r1", "--quiet"]).expect(0);
    let passed = place.json(&["dead", "outcomes", &id, "--outcome", "passed"]);
    assert_eq!(array(&passed["items"]).len(), 15);
    place.check();
}

/// Three stages whose last one fails everything until it is mended.
fn three_stages(items: usize) -> (Place, Server, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let good = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mended = good.clone();
    let server = Server::start(move |call| {
        let bad = call.stage == "last" && !mended.load(Ordering::SeqCst);
        let one = |item| if bad { failed(item, "final", "made wrong") } else { passed(item) };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = |name: &str| {
        let kind = server.stage().replace("/work", &format!("/{name}"));
        format!("[[stage]]\nname = \"{name}\"\n{kind}\nreuse = true\nbatch = 50\n")
    };
    let head =
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n";
    let stages = format!("{}{}{}", stage("first"), stage("middle"), stage("last"));
    let place = Place::with(&format!("{head}{stages}"), &samples(items));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    (place, server, good)
}

/// How many items a stage was called for.
fn asked_of(server: &Server, stage: &str) -> usize {
    server.calls().iter().filter(|call| call.stage == stage).map(|call| call.items.len()).sum()
}

#[test]
fn a_frozen_set_goes_again_from_an_earlier_stage_exactly_as_it_was_seen_also_after_a_kill() {
    const ITEMS: usize = 1_100;
    let (place, server, good) = three_stages(ITEMS);
    let dies = Daemon::start_with(&place, &["--no-work"], &[("REDRIVE_CRASH_AT", "rerun.after_page:2")]);
    let asked = json!({"kind": "redrive", "all": true, "from": "middle", "dry_run": true});
    let frozen = dies.post("/v1/operations", &asked).expect(201).json();
    let id = text(&frozen["operations"][0]["id"]);
    assert_eq!((count(&frozen["items"]), count(&frozen["skipped"])), (ITEMS as u64, 0), "{frozen}");
    let shown = &frozen["operations"][0];
    assert_eq!((&shown["state"], &shown["kind"]), (&json!("frozen"), &json!("rerun")));
    // One goes its own way meanwhile and dies again: it is left alone, and none that the set was too early for.
    dies.post("/v1/operations", &json!({"kind": "redrive", "filter": {"item": "k0003"}})).expect(201);
    dies.until("/v1/runs/r1", |report| report["counts"]["dead"] == ITEMS as u64 - 1);
    place.run(&["resume", "r1", "--quiet"]).expect(4);
    let seen = dies.get(&format!("/v1/operations/{id}")).expect(200).json();
    assert_eq!((outcomes(&seen), count(&seen["late"])), ((ITEMS as u64, 0, 0, 1), 0), "{seen}");
    good.store(true, Ordering::SeqCst);
    dies.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    let daemon = Daemon::start(&place, &[]);
    let done = operation(&daemon, &frozen);
    let left = ITEMS as u64 - 1;
    assert_eq!((count(&done["changed"]), count(&done["skipped"])), (left, 1), "{done}");
    let ended = daemon.until(&format!("/v1/operations/{id}"), |it| it["outcomes"]["passed"] == left);
    assert_eq!(outcomes(&ended), (ITEMS as u64, left, 0, 1));
    assert_eq!((asked_of(&server, "first"), asked_of(&server, "middle")), (ITEMS, 2 * ITEMS - 1));
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"])), (left, 1));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn what_would_be_done_again_is_frozen_too_and_can_be_stopped_before_it_starts() {
    let (place, server, good) = three_stages(20);
    good.store(true, Ordering::SeqCst);
    let frozen = place.json(&["dead", "freeze", "--all", "--from", "middle"]);
    let id = text(&frozen["operations"][0]["id"]);
    assert_eq!((count(&frozen["items"]), &frozen["preview"]), (20, &Value::Null));
    place.run(&["dead", "operations", "--stop", &id]).expect(0);
    place.run(&["dead", "start", &id]).expect(2);
    let listed = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(listed.contains("the set as frozen") && listed.contains("from stage middle"), "{listed}");
    place.run(&["dead", "redrive", "--all", "--work", "--quiet"]).expect(0);
    let before = asked_of(&server, "middle");

    let frozen =
        place.json(&["rerun", "r1", "--stage", "middle", "--key", "k0001", "--key", "k0002", "--freeze"]);
    let id = text(&frozen["operations"][0]["id"]);
    assert_eq!(count(&frozen["items"]), 2, "{frozen}");
    place.run(&["rerun", "r1", "--stage", "last", "--key", "k0001", "--yes", "--work", "--quiet"]).expect(0);
    let done = place.json(&["dead", "start", &id]);
    assert_eq!((&done["state"], count(&done["changed"]), count(&done["skipped"])), (&json!("done"), 1, 1));
    place.run(&["resume", "r1", "--quiet"]).expect(0);
    assert_eq!(asked_of(&server, "middle"), before + 1, "what somebody else had done again is left alone");
    let daemon = Daemon::start(&place, &[]);
    let asked = |key: &str| json!({"kind": "rerun", "filter": {"run": "r1", "stage": "middle"}, "keys": [key], "dry_run": true});
    daemon.post("/v1/operations", &asked("nobody")).expect(404);
    let frozen = daemon.post("/v1/operations", &asked("k0007")).expect(201).json();
    let id = text(&frozen["operations"][0]["id"]);
    daemon.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    daemon.until(&format!("/v1/operations/{id}"), |it| it["outcomes"]["passed"] == 1);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn dead_items_go_again_from_an_earlier_stage_with_what_the_stages_before_it_made() {
    let server = Server::start(|call| {
        let one = |item: &crate::support::server::Item| match (call.stage.as_str(), item.before) {
            ("last", before) if before < 2 => failed(item, "final", "made wrong"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = |name: &str| {
        let kind = server.stage().replace("/work", &format!("/{name}"));
        format!("[[stage]]\nname = \"{name}\"\n{kind}\nreuse = true\n")
    };
    let run = "[run]\nfailure_budget = false\n";
    let source = "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n";
    let stages = format!("{}{}{}", stage("first"), stage("middle"), stage("last"));
    let place = Place::with(&format!("{source}{run}{stages}"), &samples(6));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let calls = |stage: &str| server.calls().iter().filter(|call| call.stage == stage).count();
    assert_eq!((calls("first"), calls("middle"), calls("last")), (6, 6, 6));
    let dry = place.json(&["dead", "redrive", "--all", "--from", "middle", "--dry-run"]);
    assert_eq!((count(&dry["items"]), count(&dry["skipped"])), (6, 0));
    place.run(&["dead", "redrive", "--all", "--from", "middle", "--work", "--quiet"]).expect(4);
    assert_eq!(
        (calls("first"), calls("middle"), calls("last")),
        (6, 12, 12),
        "what is before it is not called again"
    );
    let daemon = Daemon::start(&place, &[]);
    let asked = |from: &str| json!({"kind": "redrive", "all": true, "from": from});
    daemon.post("/v1/operations", &asked("nowhere")).expect(404);
    let done = operation(&daemon, &daemon.post("/v1/operations", &asked("first")).expect(201).json());
    assert_eq!((&done["kind"], count(&done["changed"])), (&json!("rerun"), 6), "{done}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 6);
    assert_eq!((calls("first"), calls("middle"), calls("last")), (12, 18, 18));
    daemon.stop().expect(0);
    place.check();
}
