//! A planted secret is in no answer to whoever changes something, in no event, and in no row of what somebody is told by.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::serve_notify::{Receiver, SECRET, begin, place as with_notify, start, until_watched};
use crate::serve_secrets::{CANARY, VARIABLE, echoing, search};
use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, Server, array, one_stage, quick_retry, text, wait};

/// Follows the events of a daemon.
fn events(daemon: &Daemon) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    let address = daemon.address();
    let head = format!("GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("set");
    stream
}

/// Reads until so many events were told.
fn until_told(stream: &mut TcpStream, told: &mut String, events: usize) {
    let mut buffer = [0; 4096];
    while told.matches("event: changed").count() < events {
        let n = stream.read(&mut buffer).expect("it tells");
        assert_ne!(n, 0, "it ended: {told}");
        told.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}

#[test]
fn a_secret_of_a_stage_is_in_no_answer_to_a_change_and_in_no_event() {
    let server = echoing();
    let place = Place::new();
    let bearer = format!("Bearer {CANARY}");
    let variables = [(VARIABLE, bearer.as_str())];
    let daemon = Daemon::start_with(&place, &["--allow-outbound", server.address()], &variables);
    let (mut following, mut told) = (events(&daemon), String::new());
    until_told(&mut following, &mut told, 1);
    let stage =
        format!("{}\nheader_env = {{ Authorization = \"{VARIABLE}\" }}\n{}", server.stage(), quick_retry(1));
    let pipeline = one_stage(&stage);
    let mut asked = 0;
    let mut post = |path: &str, body: &Value| {
        let reply = daemon.post(path, body);
        search(path, format!("{:?}{}", reply.headers, reply.body).as_bytes());
        asked += usize::from((200..300).contains(&reply.status));
        reply
    };
    let items: Vec<Value> =
        ["told", "status", "broken"].iter().map(|key| json!({"key": key, "payload": {"n": 1}})).collect();
    post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == 3);
    // What it says of its stages would show it, were it kept with the run.
    post("/v1/runs", &json!({"pipeline": pipeline.replace("[run]", "[wrong]"), "items": items})).expect(422);
    post("/v1/runs/r1/pause", &json!({}));
    post("/v1/runs/r1/resume", &json!({}));
    let frozen = json!({"kind": "redrive", "all": true, "dry_run": true});
    let frozen = post("/v1/operations", &frozen).expect(201).json();
    let preview = text(&frozen["preview"]["first"][0]["message"]);
    assert!(preview.contains("[redacted]"), "it would be in what is previewed: {frozen}");
    let group = text(&daemon.get("/v1/dead").expect(200).json()["items"][0]["group"]);
    post(&format!("/v1/dead/groups/{group}/note"), &json!({"words": "known"})).expect(200);
    let exported = daemon.get("/v1/dead/export").expect(200).body;
    search("the export", exported.as_bytes());
    let lines: Vec<Value> =
        exported.lines().take(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    post("/v1/dead/import", &json!({"items": lines})).expect(200);
    let id = text(&frozen["operations"][0]["id"]);
    post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    daemon.until(&format!("/v1/operations/{id}"), |it| it["state"] == "done");
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == 3);
    let gates = daemon.get("/v1/gates").expect(200).json();
    let gate =
        text(&gates.get("items").or_else(|| gates.get("gates")).map(array).expect("a list")[0]["name"]);
    for act in ["pause", "resume", "reset"] {
        post(&format!("/v1/gates/{gate}/{act}"), &json!({})).expect(200);
    }
    post("/v1/pipelines/test/pause", &json!({"stage": "work"})).expect(200);
    post("/v1/pipelines/test/resume", &json!({})).expect(200);
    post("/v1/items/told/kill", &json!({}));
    post("/v1/operations", &json!({"kind": "purge", "all": true})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["purged"] == 3);
    post("/v1/runs/r1/cancel", &json!({}));
    assert!(asked >= 10, "{asked} changes were made");
    until_told(&mut following, &mut told, 2);
    daemon.stop().expect(0);
    following.read_to_string(&mut told).expect("it ends with the daemon");
    search("events", told.as_bytes());
}

#[test]
fn the_secret_of_a_webhook_is_in_no_row_and_no_answer_while_messages_go_wrong() {
    // A receiver that repeats what it was told, and takes nothing.
    let (server, receiver) = (Server::good(), Receiver::start(500));
    let place = with_notify(&server, &receiver.entry("\"run.ended\""));
    let daemon = start(&place, &[("REDRIVE_LOG", "trace")]);
    until_watched(&place);
    begin(&daemon, 2);
    receiver.until(1);
    let key = SECRET.strip_prefix("whsec_").expect("as they are written");
    let looks = |what: &str, bytes: &[u8]| {
        for part in [SECRET, key, "canary-canary-canary!"] {
            let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!found, "{what} shows the secret");
        }
    };
    let own = place.until_json(&["runs", "--pipeline", "redrive.notify"], |list| {
        list["runs"][0]["attempts"]["failures"].as_u64() > Some(0)
    });
    let run = text(&own["runs"][0]["run"]);
    for path in
        ["/v1/pipelines", "/v1/runs", "/v1/overview", "/metrics", "/v1/failures?all=true", "/v1/gates"]
    {
        looks(path, daemon.get(path).expect(200).body.as_bytes());
    }
    let waiting = daemon.get(&format!("/v1/runs/{run}/items")).expect(200).json();
    let id = text(&waiting["items"][0]["id"]);
    for path in
        [format!("/v1/items/{id}/explain"), format!("/v1/items/{id}/payload"), format!("/v1/runs/{run}")]
    {
        looks(&path, daemon.get(&path).expect(200).body.as_bytes());
    }
    let ran = daemon.stop().expect(0);
    looks("the log", ran.stderr.as_bytes());
    looks("standard output", ran.stdout.as_bytes());
    for file in std::fs::read_dir(place.path(".redrive")).expect("there") {
        let file = file.expect("listed").path();
        looks(&file.display().to_string(), &std::fs::read(&file).expect("read"));
    }
}
