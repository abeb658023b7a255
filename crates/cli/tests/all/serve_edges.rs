//! `redrive serve` at its edges: what lies in its folder, what is asked twice, numbers that mean nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::passed;
use crate::support::{
    Answer, Daemon, Place, Server, array, count, keys, one_stage, results, samples, text, wait,
};

#[test]
fn what_is_no_file_in_the_folder_of_pipelines_is_told_and_stops_nobody() {
    let server = Server::good();
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/good.toml", one_stage(&server.stage()));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let made = Command::new("mkfifo").arg(place.path("pipelines/pipe.toml")).status();
    assert!(made.expect("mkfifo is everywhere").success());
    std::fs::create_dir(place.path("pipelines/folder.toml")).expect("made");
    std::os::unix::fs::symlink("/dev/zero", place.path("pipelines/endless.toml")).expect("linked");
    let listed = daemon.until("/v1/pipelines", |list| array(&list["items"]).len() == 4);
    for file in array(&listed["items"]).iter().filter(|file| file["file"] != "good.toml") {
        assert!(text(&file["problem"]["message"]).contains("is no file"), "{file}");
    }
    let none = daemon.post("/v1/pipelines/nothing/items", &json!({"items": [{"payload": 1}]})).expect(404);
    assert!(text(&none.json()["hint"]).contains("pipe.toml"), "{}", none.body);
    daemon.stop().expect(0);
}

#[test]
fn items_that_are_sent_again_after_a_kill_are_the_same_run() {
    let server = Server::good();
    let place = Place::new();
    let items: Vec<Value> =
        (0..2_500).map(|n| json!({"key": format!("k{n:04}"), "payload": {"n": n}})).collect();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/p.toml", one_stage(&format!("{}\nbatch = 100", server.stage())));
    let asked = json!({"pipeline": "test", "items": items});
    let body = asked.to_string();
    let dies = Daemon::start_with(
        &place,
        &["--pipelines", "pipelines"],
        &[("REDRIVE_CRASH_AT", "inbox.after_submit:2")],
    );
    let mut stream = TcpStream::connect(dies.address()).expect("connected");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        dies.address(),
        crate::support::daemon::TOKEN,
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert!(dies.finish().killed_by().is_some());
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let begun = daemon.post("/v1/runs", &asked).expect(200).json();
    assert_eq!(
        (&begun["run"], count(&begun["counts"]["known"])),
        (&json!("r1"), 2_000),
        "{}",
        begun["counts"]
    );
    let report = daemon.until("/v1/runs/r1", |report| !report["finished_at"].is_null());
    assert_eq!(count(&report["counts"]["succeeded"]), 2_500);
    // Once more, with nothing left to do: the same run, and an answer for each item.
    let again = daemon.post("/v1/runs", &asked).expect(200).json();
    assert_eq!((&again["run"], count(&again["counts"]["known"])), (&json!("r1"), 2_500));
    assert_eq!(again["items"][7]["id"], begun["items"][7]["id"]);
    let found = results(&daemon.get("/v1/runs/r1/results").expect(200).body);
    assert_eq!(found.into_keys().collect::<std::collections::BTreeSet<_>>(), keys(2_500));
    let mut new = asked.clone();
    new["new"] = json!(true);
    assert_eq!(daemon.post("/v1/runs", &new).expect(201).json()["run"], "r2");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn numbers_and_words_that_mean_nothing_are_refused_before_anything_is_done() {
    let server = Server::start(|call| {
        let failed = |item| crate::support::server::failed(item, "final", "no good");
        Answer::results(&call.items.iter().map(failed).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    let daemon = Daemon::start(&place, &["--no-work"]);
    for body in [
        r#"{"kind": "redrive", "all": true, "rate_per_second": 1e-300}"#,
        r#"{"kind": "redrive", "all": true, "rate_per_second": 1e300}"#,
        r#"{"kind": "purge", "filter": {"text": ""}, "dry_run": true}"#,
        r#"{"kind": "purge", "filter": {"item": ""}}"#,
        r#"{"kind": "purge", "filter": {"run": "r1", "run": "r1", "class": "final"}, "dry_run": true}"#,
        r#"{"kind": "redrive", "filter": {"within_ms": -5}}"#,
        r#"{"kind": "retry", "filter": {"run": "r1"}, "in_ms": -5}"#,
        r#"{"kind": "redrive", "filter": ["r1"]}"#,
    ] {
        let bearer = format!("Bearer {}", crate::support::daemon::TOKEN);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let refused = daemon.ask("POST", "/v1/operations", &headers, body);
        assert_eq!(refused.status, 400, "{body}: {}", refused.body);
    }
    assert_eq!(count(&daemon.get("/v1/runs/r1").json()["counts"]["dead"]), 5);
    assert_eq!(array(&daemon.get("/v1/operations").json()["items"]).len(), 0);
    daemon.stop().expect(0);
    place.run(&["dead", "purge", "--text", "", "--yes"]).expect(2);
    place.run(&["dead", "redrive", "--all", "--rate", "0.00001"]).expect(2);
    place.check();
}

#[test]
fn whoever_follows_by_a_token_that_is_taken_back_is_let_go() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let made = place.run(&["token", "create", "vera", "--role", "viewer"]).expect(0);
    let mut stream = TcpStream::connect(daemon.address()).expect("connected");
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        daemon.address(),
        made.stdout.trim()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut some = [0; 4_096];
    let first = stream.read(&mut some).expect("answered");
    assert!(some[..first].starts_with(b"HTTP/1.1 200"));
    place.run(&["token", "revoke", "vera"]).expect(0);
    // Something happens: the next that would be told is told to nobody.
    let pipeline = one_stage(&Server::good().stage());
    daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": [{"payload": 1}]})).expect(201);
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ends by itself");
    daemon.stop().expect(0);
}

#[test]
fn what_a_handler_says_of_items_nobody_sent_is_not_logged() {
    let server = Server::start(|call| {
        let mut said: Vec<Value> = call.items.iter().map(passed).collect();
        said.push(json!({"id": "somebody-else", "output": {"secret": "CONTENT-OF-ANOTHER"}}));
        Answer::results(&said)
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(2));
    let ran = place.run(&["run", "p.toml"]).expect(0);
    assert!(ran.stderr.contains("somebody-else"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("CONTENT-OF-ANOTHER"), "{}", ran.stderr);
}

#[test]
fn a_daemon_that_begins_while_somebody_writes_waits_for_its_turn() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    place.run(&["submit", "p.toml"]).expect(0);
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    store.execute_batch("BEGIN IMMEDIATE").expect("begun");
    let daemon = Daemon::start(&place, &[]);
    let calls = server.count();
    // Longer than a write waits for another one.
    wait::work(Duration::from_secs(8));
    store.execute_batch("COMMIT").expect("done");
    assert_eq!(calls, 0);
    daemon.until("/v1/runs/r1", |report| report["status"] == "completed");
    daemon.stop().expect(0);
}

#[test]
fn the_name_of_a_file_of_the_folder_begins_no_line_of_the_log() {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let name = "pipelines/a\nERROR forged.toml";
    place.write(name, "name = 1\n");
    let mut daemon = Daemon::start_with(&place, &["--pipelines", "pipelines"], &[("REDRIVE_LOG", "info")]);
    place.write(name, "name = 22\n");
    daemon.process().until_said("pipeline refused");
    let ran = daemon.stop().expect(0);
    assert!(ran.stderr.contains("a\\nERROR forged.toml is left out"), "{}", ran.stderr);
    assert!(!ran.stderr.lines().any(|line| line.starts_with("ERROR forged")), "{}", ran.stderr);
}
