//! Every kind of operation over HTTP: waiting items are told to go, runs are taken out, items are given up, and what is under way is
//! stopped for good.

use serde_json::{Value, json};

use crate::serve_operations::{mended_later, operation};
use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, key, one_stage, samples, text};
use std::sync::atomic::Ordering;

const MINUTE: i64 = 60_000;
/// What fails once waits for an hour.
const HOUR: &str =
    "retry.max_attempts = 3\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }\nretry.jitter = \"none\"";

/// A daemon with a clock on a run of so many items, of which the first wait for an hour.
fn waiting(items: usize, first: usize) -> (Place, Shifted, Server, Daemon) {
    let server = Server::start(move |call| {
        let one = |item: &crate::support::server::Item| match item.before == 0 && item.key < key(first) {
            true => failed(item, "retryable", "not yet"),
            false => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let mut place = Place::with(&one_stage(&format!("{}\n{HOUR}", server.stage())), &samples(items));
    let clock = Shifted::in_place(&mut place);
    let daemon = Daemon::start(&place, &[]);
    let begun = json!({"pipeline": place.read("p.toml"), "input": "in.jsonl"});
    daemon.post("/v1/runs", &begun).expect(201);
    daemon.until("/v1/runs/r1", |report| {
        report["counts"]["succeeded"] == items - first && report["attempts"]["failures"] == first
    });
    (place, clock, server, daemon)
}

fn ask(daemon: &Daemon, body: &Value) -> Value {
    daemon.post("/v1/operations", body).expect(201).json()
}

/// Asks what an operation would do, and expects that nothing is kept of the question.
fn foreseen(daemon: &Daemon, mut body: Value) -> (u64, u64) {
    let rows = |daemon: &Daemon| daemon.get("/v1/operations").expect(200).json();
    body["dry_run"] = json!(true);
    let before = rows(daemon);
    let told = daemon.post("/v1/operations", &body).expect(200).json();
    assert_eq!((&told["dry_run"], &told["operations"]), (&json!(true), &json!([])), "{told}");
    assert_eq!(rows(daemon), before, "a look is no operation");
    (count(&told["items"]), count(&told["skipped"]))
}

fn state(daemon: &Daemon, key: &str) -> Value {
    daemon.get(&format!("/v1/items/{key}")).expect(200).json()["state"].clone()
}

/// Has the daemon carry something else out: whatever it would have gone on with was looked at before that.
fn until_carried(daemon: &Daemon, body: &Value) -> Value {
    operation(daemon, &ask(daemon, body))
}

#[test]
fn waiting_items_go_now_when_a_retry_is_asked_for() {
    let (place, _clock, server, daemon) = waiting(6, 3);
    let all = json!({"kind": "retry", "filter": {"run": "r1"}});
    let one = json!({"kind": "retry", "filter": {"run": "r1", "item": "k0001"}});
    assert_eq!((foreseen(&daemon, all.clone()), foreseen(&daemon, one.clone())), ((3, 0), (1, 0)));
    assert_eq!(server.count(), 6, "nobody was called");
    let done = operation(&daemon, &ask(&daemon, &one));
    assert_eq!(
        (&done["kind"], &done["state"], count(&done["changed"])),
        (&json!("retry"), &json!("done"), 1)
    );
    daemon.until("/v1/items/k0001", |item| item["state"] == "succeeded");
    assert_eq!((state(&daemon, "k0000"), state(&daemon, "k0002")), (json!("waiting"), json!("waiting")));
    let done = operation(&daemon, &ask(&daemon, &all));
    assert_eq!((count(&done["changed"]), &done["actor"]), (2, &json!("admin")), "{done}");
    let report = daemon.until("/v1/runs/r1", |report| report["status"] == "completed");
    assert_eq!((count(&report["counts"]["succeeded"]), server.count()), (6, 9));
    daemon.post("/v1/operations", &one).expect(409);
    assert_eq!(foreseen(&daemon, all), (0, 0), "nothing waits any more");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn waiting_items_go_at_the_time_that_a_retry_names() {
    let (place, clock, server, daemon) = waiting(4, 2);
    let later = json!({"kind": "retry", "filter": {"run": "r1", "item": "k0000"}, "in_ms": 10 * MINUTE});
    assert_eq!(foreseen(&daemon, later.clone()), (1, 0));
    let done = operation(&daemon, &ask(&daemon, &later));
    assert_eq!((&done["state"], count(&done["changed"])), (&json!("done"), 1));
    // The clock is put while nobody works: whoever begins looks for what is due.
    daemon.stop().expect(0);
    clock.put(9 * MINUTE);
    let daemon = Daemon::start(&place, &[]);
    // The other one goes now: whoever looked for what is due has seen that this one is not.
    let now = json!({"kind": "retry", "filter": {"run": "r1", "item": "k0001"}});
    operation(&daemon, &ask(&daemon, &now));
    daemon.until("/v1/items/k0001", |item| item["state"] == "succeeded");
    assert_eq!((state(&daemon, "k0000"), server.count()), (json!("waiting"), 5));
    daemon.stop().expect(0);
    clock.put(11 * MINUTE);
    let daemon = Daemon::start(&place, &[]);
    daemon.until("/v1/items/k0000", |item| item["state"] == "succeeded");
    assert_eq!(server.times_called()["k0000"], 2, "long before its hour is over");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_run_is_taken_out_by_an_operation_that_says_how_many() {
    let (place, _clock, server, daemon) = waiting(6, 4);
    let asked = json!({"kind": "cancel", "filter": {"run": "r1"}});
    assert_eq!(foreseen(&daemon, asked.clone()), (4, 0));
    assert_eq!(state(&daemon, "k0001"), "waiting");
    let done = operation(&daemon, &ask(&daemon, &asked));
    assert_eq!(
        (&done["kind"], &done["state"], count(&done["changed"])),
        (&json!("cancel"), &json!("done"), 4)
    );
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((&report["status"], count(&report["counts"]["cancelled"])), (&json!("cancelled"), 4));
    assert_eq!((count(&report["counts"]["succeeded"]), server.count()), (2, 6));
    // Whoever says it once more, because he does not know whether he was heard, changes nothing.
    assert_eq!(foreseen(&daemon, asked.clone()), (0, 0));
    assert_eq!(count(&operation(&daemon, &ask(&daemon, &asked))["changed"]), 0);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_item_is_given_up_with_words_and_can_be_sent_back() {
    let (place, _clock, server, daemon) = waiting(3, 1);
    let viewer = place.run(&["token", "create", "vera", "--role", "viewer"]).expect(0).stdout;
    daemon.post_as(viewer.trim(), "/v1/items/k0000/kill", &json!({})).expect(403);
    let life = daemon.post("/v1/items/k0000/kill", &json!({"why": "the customer left"})).expect(200).json();
    assert_eq!((&life["item"]["state"], &life["item"]["reason"]), (&json!("dead"), &json!("operator")));
    assert!(text(&life["item"]["message"]).contains("the customer left"), "{life}");
    daemon.post("/v1/items/k0000/kill", &json!({})).expect(200);
    let over = daemon.post("/v1/items/k0001/kill", &json!({})).expect(409).json();
    assert_eq!(over["code"], "item_finished", "{over}");
    daemon.post("/v1/items/nobody/kill", &json!({})).expect(404);
    daemon.post("/v1/items/k0000/kill?run=r9", &json!({})).expect(404);
    daemon.post("/v1/items/k0000/kill", &json!({"colour": "red"})).expect(400);
    let back = json!({"kind": "redrive", "filter": {"item": "k0000"}});
    operation(&daemon, &ask(&daemon, &back));
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 3);
    assert_eq!(server.times_called()["k0000"], 2);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_redrive_that_is_stopped_stays_so_and_leaves_the_others_dead() {
    const ITEMS: u64 = 40;
    const SENT: u64 = 3;
    let (server, good) = mended_later();
    let stage = format!("{}\nbatch = 50", server.stage());
    let mut place = Place::with(&one_stage(&stage), &samples(usize::try_from(ITEMS).expect("few")));
    let clock = Shifted::in_place(&mut place);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    good.store(true, Ordering::SeqCst);
    server.hold();
    let daemon = Daemon::start(&place, &[]);
    // Those that go first are under way, and the others wait for what becomes of them.
    let slow = json!({"kind": "redrive", "filter": {"run": "r1"}, "all": true, "canary": SENT});
    let path = format!("/v1/operations/{}", text(&ask(&daemon, &slow)["operations"][0]["id"]));
    daemon.until(&path, |it| it["changed"] == SENT);
    server.until_open(1);
    let stopped = daemon.post(&format!("{path}/stop"), &json!({})).expect(200).json();
    assert_eq!(stopped["state"], "cancelled", "{stopped}");
    daemon.post(&format!("{path}/stop"), &json!({})).expect(409);
    server.release();
    let left = |daemon: &Daemon| {
        let want = |report: &Value| report["counts"]["succeeded"] == SENT;
        count(&daemon.until("/v1/runs/r1", want)["counts"]["dead"])
    };
    // One more that is asked for shows that whoever carries operations on has looked.
    until_carried(&daemon, &json!({"kind": "purge", "filter": {"item": "k0039"}}));
    assert_eq!(left(&daemon), ITEMS - SENT - 1);
    daemon.stop().expect(0);
    // Neither the next daemon nor time goes on with it.
    clock.put(MINUTE);
    let daemon = Daemon::start(&place, &[]);
    until_carried(&daemon, &json!({"kind": "purge", "filter": {"item": "k0038"}}));
    let after = daemon.get(&path).expect(200).json();
    assert_eq!((&after["state"], count(&after["changed"])), (&json!("cancelled"), SENT), "{after}");
    assert_eq!(left(&daemon), ITEMS - SENT - 2);
    assert_eq!(server.by_key().values().filter(|calls| calls.len() > 1).count() as u64, SENT);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_purge_is_undone_by_stopping_it_within_its_time() {
    let (server, _) = mended_later();
    let stage = format!("{}\nbatch = 50", server.stage());
    let mut place = Place::with(&one_stage(&stage), &samples(12));
    let clock = Shifted::in_place(&mut place);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let started = ask(&daemon, &json!({"kind": "purge", "all": true, "undo_ms": 10 * MINUTE}));
    let path = format!("/v1/operations/{}", text(&started["operations"][0]["id"]));
    let doomed = |daemon: &Daemon| {
        let list = daemon.get("/v1/dead").expect(200).json();
        array(&list["items"]).iter().filter(|item| item["purge_at"].is_string()).count()
    };
    assert_eq!(doomed(&daemon), 12);
    let undone = daemon.post(&format!("{path}/stop"), &json!({})).expect(200).json();
    assert_eq!((&undone["state"], count(&undone["changed"])), (&json!("cancelled"), 0), "{undone}");
    assert_eq!(doomed(&daemon), 0);
    clock.put(11 * MINUTE);
    until_carried(&daemon, &json!({"kind": "purge", "filter": {"item": "k0000"}}));
    assert_eq!(daemon.get(&path).expect(200).json()["state"], "cancelled");
    let counts = daemon.get("/v1/runs/r1").expect(200).json()["counts"].clone();
    assert_eq!((count(&counts["dead"]), count(&counts["purged"])), (11, 1), "{counts}");
    daemon.stop().expect(0);
    place.check();
}
