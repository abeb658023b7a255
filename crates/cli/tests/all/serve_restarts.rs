//! A daemon that is stopped or killed in the middle of anything leaves nothing behind that the next one does not finish.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, text, wait};

/// How a daemon is ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// It is told to stop.
    Stop,
    /// It is killed, as a power failure would.
    Kill,
}

fn folder() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place
}

fn start(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

/// A service that keeps its answer for what is under way until it is let go.
fn holding(released: Arc<AtomicBool>) -> Server {
    Server::start(move |call| {
        let item = call.item();
        let answer = match item.key.as_str() {
            "filtered" => json!({"id": item.id, "filtered": "not wanted"}),
            "dead" => failed(item, "final", "no good"),
            "retrying" if item.before == 0 && call.stage == "work" => failed(item, "retryable", "not yet"),
            "joining" if call.stage == "work" => {
                json!({"id": item.id, "children": [{"key": "child", "payload": {}}]})
            }
            _ => passed(item),
        };
        if ["running", "child"].contains(&item.key.as_str()) {
            wait::until("the answer is let go", || released.load(Ordering::SeqCst));
        }
        Answer::results(&[answer])
    })
}

/// One item in every state there is; those of `slow` wait for a gate.
fn pipelines(place: &Place, server: &Server, slow: &Server) {
    let retry = "retry.max_attempts = 3\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }\nretry.jitter = \"none\"\n\
                 retry.on.crash = { backoff = { kind = \"fixed\", delay = \"20ms\" } }";
    let written = |name: &str, source: &str, stages: &str| {
        let text = format!(
            "name = \"{name}\"\n[source]\n{source}\nkey = \"/id\"\n[run]\nfailure_budget = false\n{stages}"
        );
        place.write(&format!("pipelines/{name}.toml"), text);
    };
    let inbox = |name: &str, stages: &str| written(name, "kind = \"inbox\"", stages);
    let asked = |server: &Server| format!("{}\nconcurrency = 1\n{retry}\n", server.stage());
    let stages = format!(
        "[[stage]]\nname = \"work\"\n{0}[[stage.children]]\nname = \"part\"\n{0}[[stage]]\nname = \"after\"\n{0}",
        asked(server)
    );
    inbox("box", &stages);
    inbox("paused", &stages);
    written("lone", "path = \"none.jsonl\"", &stages);
    inbox("slow", &format!("[[stage]]\nname = \"work\"\n{}", asked(slow)));
}

fn hand_in(daemon: &Daemon, pipeline: &str, key: &str, version: u32) -> String {
    let body = json!({"items": [{"payload": {"id": key, "v": version}}]});
    let handed = daemon.post(&format!("/v1/pipelines/{pipeline}/items"), &body).expect(200).json();
    assert_eq!(handed["counts"]["refused"], 0, "{handed}");
    text(&handed["items"][0]["id"])
}

/// The states of these items, by what they are called here.
fn states(daemon: &Daemon, ids: &BTreeMap<&'static str, String>) -> BTreeMap<&'static str, String> {
    let state = |id: &String| text(&daemon.get(&format!("/v1/items/{id}")).expect(200).json()["state"]);
    ids.iter().map(|(name, id)| (*name, state(id))).collect()
}

/// Brings one item into every state, and gives their ids.
fn in_every_state(daemon: &Daemon, server: &Server) -> BTreeMap<&'static str, String> {
    let mut ids = BTreeMap::new();
    let settled = |id: &str, wanted: &str| {
        daemon.until(&format!("/v1/items/{id}"), |item| item["state"] == wanted);
    };
    for (key, state) in
        [("succeeded", "succeeded"), ("filtered", "filtered"), ("dead", "dead"), ("joining", "joining")]
    {
        ids.insert(key, hand_in(daemon, "box", key, 1));
        settled(&ids[key], state);
    }
    ids.insert("retrying", hand_in(daemon, "box", "retrying", 1));
    daemon.until("/v1/items/retrying", |item| item["failures"] == 1 && item["state"] == "waiting");
    ids.insert("throttled", hand_in(daemon, "slow", "throttled", 1));
    daemon.until("/v1/items/throttled", |item| item["throttles"] == 1 && item["state"] == "waiting");
    let before = server.count();
    ids.insert("running", hand_in(daemon, "box", "running", 1));
    server.until_called(before + 1);
    settled(&ids["running"], "running");
    ids.insert("queued", hand_in(daemon, "box", "queued", 1));
    ids.insert("superseded", hand_in(daemon, "box", "changed", 1));
    ids.insert("changed", hand_in(daemon, "box", "changed", 2));
    ids.insert("first of paused", hand_in(daemon, "paused", "first", 1));
    ids
}

fn every_state_survives(end: End) {
    let released = Arc::new(AtomicBool::new(false));
    let server = holding(released.clone());
    let slow = Server::start(|call| match call.item().before {
        0 => Answer::Http(429, vec![("retry-after", "1800".to_owned())], "later".to_owned()),
        _ => Answer::all(call),
    });
    let mut place = folder();
    let clock = Shifted::in_place(&mut place);
    pipelines(&place, &server, &slow);
    let mut daemon = start(&place);
    let mut ids = in_every_state(&daemon, &server);
    let runs = daemon.get("/v1/runs").json();
    let run_of = |pipeline: &str| {
        let run = array(&runs["items"]).iter().find(|run| run["pipeline"] == pipeline);
        text(&run.expect("begun")["run"])
    };
    let paused = run_of("paused");
    daemon.post(&format!("/v1/runs/{paused}/pause"), &json!({})).expect(200);
    // A run of its own that is taken out; it waits for the same place as all that call the service.
    let items = json!([{"key": "cancelled", "payload": {}}]);
    let begun = daemon.post("/v1/runs", &json!({"pipeline": "lone", "items": items})).expect(201).json();
    daemon.post(&format!("/v1/runs/{}/cancel", text(&begun["run"])), &json!({})).expect(200);
    ids.insert("cancelled", text(&begun["items"][0]["id"]));
    hand_in(&daemon, "paused", "held", 1);
    ids.insert("held", text(&daemon.get("/v1/items/held").json()["id"]));
    let before = states(&daemon, &ids);
    let expected: BTreeMap<&str, &str> = [
        ("succeeded", "succeeded"),
        ("filtered", "filtered"),
        ("dead", "dead"),
        ("joining", "joining"),
        ("retrying", "waiting"),
        ("throttled", "waiting"),
        ("running", "running"),
        ("queued", "waiting"),
        ("superseded", "superseded"),
        ("changed", "waiting"),
        ("held", "waiting"),
        ("cancelled", "cancelled"),
    ]
    .into();
    for (name, state) in &expected {
        assert_eq!(&before[name], state, "{name}: {before:?}");
    }
    match end {
        End::Stop => {
            daemon.process().signal("TERM");
            daemon.process().until_said("stopping");
            released.store(true, Ordering::SeqCst);
            daemon.finish().expect(0);
        }
        End::Kill => {
            daemon.kill();
            released.store(true, Ordering::SeqCst);
        }
    }
    // The waits of a retry and of a hint are over.
    clock.put(3_700_000);
    let daemon = start(&place);
    let ends = ["filtered", "dead", "superseded", "cancelled"];
    let end_of = |name: &str| ends.into_iter().find(|state| *state == name).unwrap_or("succeeded");
    for (name, id) in ids.iter().filter(|(name, _)| !["held", "first of paused"].contains(*name)) {
        daemon.until(&format!("/v1/items/{id}"), |item| item["state"] == end_of(name));
    }
    assert_eq!(daemon.get("/v1/items/held").json()["state"], "waiting", "its run is paused yet");
    daemon.post(&format!("/v1/runs/{paused}/resume"), &json!({})).expect(200);
    daemon.until("/v1/items/held", |item| item["state"] == "succeeded");
    let mut crashes = 0;
    for run in array(&daemon.get("/v1/runs").json()["items"]) {
        crashes += count(&run["attempts"]["crashes"]);
    }
    // What was under way: one item and one child of another.
    assert_eq!(crashes, if end == End::Kill { 2 } else { 0 });
    let calls = server.times_called();
    let twice = |key: &str| ["running", "child"].contains(&key) && end == End::Kill;
    for (key, stages) in
        [("succeeded", 2), ("filtered", 1), ("dead", 1), ("running", 2), ("child", 1), ("queued", 2)]
    {
        assert_eq!(calls[key], stages + usize::from(twice(key)), "{key} after {end:?}: {calls:?}");
    }
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_clean_stop_in_the_middle_of_every_state_loses_nothing_and_costs_no_attempt() {
    every_state_survives(End::Stop);
}

#[test]
fn a_kill_in_the_middle_of_every_state_loses_nothing_and_is_counted() {
    every_state_survives(End::Kill);
}
