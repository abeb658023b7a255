//! Who did what to runs, gates and tokens is written down.

use serde_json::{Value, json};

use crate::serve_operations::mended_later;
use crate::support::{Daemon, Place, array, one_stage, samples, text, wait};

/// Operations, oldest first: kind, actor and what was asked.
fn written(place: &Place) -> Vec<(String, String, Value)> {
    let list = place.json(&["dead", "operations"]);
    let row = |one: &Value| {
        let asked = serde_json::from_str(&text(&one["request"])).expect("JSON");
        (text(&one["kind"]), text(&one["actor"]), asked)
    };
    array(&list["operations"]).iter().rev().map(row).collect()
}

#[test]
fn acts_on_runs_and_gates_are_kept_with_who_did_them() {
    let (server, _) = mended_later();
    let stage = format!("{}\ngate = \"it\"", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(1));
    let inbox = "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n";
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/box.toml", inbox);
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let otto = place.run(&["token", "create", "otto", "--role", "operator"]).expect(0).stdout;
    let otto = otto.trim();
    let daemon = Daemon::start(&place, &["--no-work", "--pipelines", "pipelines"]);
    let item = json!({"items": [{"payload": 1}]});
    let run = text(&daemon.post("/v1/pipelines/box/items", &item).expect(200).json()["runs"][0]["run"]);
    for (path, body) in [
        (format!("/v1/runs/{run}/pause"), json!({})),
        (format!("/v1/runs/{run}/resume"), json!({})),
        (format!("/v1/runs/{run}/close"), json!({})),
        ("/v1/gates/it/pause".to_owned(), json!({"why": "invoice"})),
        ("/v1/gates/it/resume".to_owned(), json!({})),
        ("/v1/gates/it/reset".to_owned(), json!({})),
    ] {
        daemon.post_as(otto, &path, &body).expect(200);
    }
    daemon.post_as(otto, "/v1/gates/nothing/reset", &json!({})).expect(404);
    daemon.post_as(otto, "/v1/runs/r1/pause", &json!({})).expect(409);
    let act = |kind: &str, act: Value| {
        let mut asked = act;
        asked["kind"] = json!("act");
        (kind.to_owned(), "otto".to_owned(), asked)
    };
    assert_eq!(
        written(&place),
        [
            act("pause", json!({"act": "pause_run", "run": run})),
            act("resume", json!({"act": "resume_run", "run": run})),
            act("close", json!({"act": "close_run", "run": run})),
            act("pause", json!({"act": "pause_gate", "gate": "it", "why": "invoice"})),
            act("resume", json!({"act": "resume_gate", "gate": "it"})),
            act("reset", json!({"act": "reset_gate", "gate": "it"})),
        ]
    );
    let told = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(told.contains("gate it, invoice") && told.contains(&format!("run {run}")), "{told}");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_daemon_logs_which_tokens_come_and_go() {
    let place = Place::new();
    place.run(&["token", "create", "old", "--role", "viewer"]).expect(0);
    let daemon = Daemon::start(&place, &["--no-work"]);
    daemon.get("/v1/runs").expect(200);
    let made = place.run(&["token", "create", "vera", "--role", "viewer"]).expect(0).stdout;
    wait::until("it is let in", || daemon.get_as(made.trim(), "/v1/runs").status == 200);
    place.run(&["token", "rotate", "vera"]).expect(0);
    wait::until("it is let in no more", || daemon.get_as(made.trim(), "/v1/runs").status == 401);
    place.run(&["token", "revoke", "vera"]).expect(0);
    daemon.get("/v1/runs").expect(200);
    let log = daemon.stop().expect(0).stderr;
    for word in ["token made", "token rotated", "token revoked"] {
        let lines = log.lines().filter(|line| line.contains(word) && line.contains("vera"));
        assert_eq!(lines.count(), 1, "{word}: {log}");
    }
    assert!(!log.contains("old") && !log.contains(made.trim()), "{log}");
}

#[test]
fn who_stops_an_operation_kills_an_item_or_writes_a_note_is_kept() {
    let (server, _) = mended_later();
    let place = Place::with(&one_stage(&server.stage()), &samples(2));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let inbox = "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n";
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/box.toml", inbox);
    let olaf = place.run(&["token", "create", "olaf", "--role", "operator"]).expect(0).stdout;
    let olaf = olaf.trim();
    let daemon = Daemon::start(&place, &["--no-work", "--pipelines", "pipelines"]);
    let purge = json!({"kind": "purge", "all": true, "undo_ms": 600_000});
    let purge = text(&daemon.post("/v1/operations", &purge).expect(201).json()["operations"][0]["id"]);
    let frozen = json!({"kind": "redrive", "all": true, "dry_run": true});
    let frozen = text(&daemon.post("/v1/operations", &frozen).expect(201).json()["operations"][0]["id"]);
    let group = text(&daemon.get("/v1/dead").expect(200).json()["items"][0]["group"]);
    let handed = daemon.post("/v1/pipelines/box/items", &json!({"items": [{"key": "k", "payload": 1}]}));
    let handed = handed.expect(200).json()["items"][0].clone();
    let item = text(&handed["id"]);
    for (path, body, status) in [
        (format!("/v1/operations/{purge}/stop"), json!({}), 200),
        (format!("/v1/operations/{purge}/stop"), json!({}), 409),
        (format!("/v1/operations/{frozen}/stop"), json!({}), 200),
        ("/v1/operations/op99/stop".to_owned(), json!({}), 404),
        (format!("/v1/items/{item}/kill"), json!({"why": "not wanted"}), 200),
        (format!("/v1/items/{item}/kill"), json!({"why": "not wanted"}), 200),
        (format!("/v1/dead/groups/{group}/note"), json!({"words": "ticket 7", "acknowledged": true}), 200),
        ("/v1/dead/groups/typo/note".to_owned(), json!({"words": "ticket 7"}), 404),
    ] {
        daemon.post_as(olaf, &path, &body).expect(status);
    }
    let of_olaf: Vec<(String, Value)> = written(&place)
        .into_iter()
        .filter(|(_, actor, _)| actor == "olaf")
        .map(|(kind, _, asked)| (kind, asked))
        .collect();
    let act = |kind: &str, act: Value| {
        let mut asked = act;
        asked["kind"] = json!("act");
        (kind.to_owned(), asked)
    };
    assert_eq!(
        of_olaf,
        [
            act("stop", json!({"act": "undo_operation", "operation": purge})),
            act("stop", json!({"act": "stop_operation", "operation": frozen})),
            act("kill", json!({"act": "kill_item", "run": handed["run"], "item": item, "why": "not wanted"})),
            act(
                "note",
                json!({"act": "note_group", "group": group, "words": "ticket 7", "acknowledged": true})
            ),
        ]
    );
    let told = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(told.contains("olaf"), "{told}");
    daemon.stop().expect(0);
    place.check();
}
