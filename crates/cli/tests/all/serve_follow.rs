//! Whoever follows events is told of a change however much is newer, larger or later than what changed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::serve_operations::{all_dead, mended_later};
use crate::support::daemon::TOKEN;
use crate::support::server::{Item, failed};
use crate::support::{Answer, Daemon, Place, Server, array, text};

/// Somebody who follows, and has heard everything up to now.
struct Follower {
    stream: TcpStream,
    heard: String,
}

impl Follower {
    fn of(daemon: &Daemon) -> Self {
        let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
        let head = format!(
            "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
            daemon.address()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let mut follower = Self { stream, heard: String::new() };
        // Everything is told at once, and again when it was looked at for the first time.
        follower.hear("operations");
        follower.hear("operations");
        follower
    }

    /// Waits for the next event that names this. When nothing has changed for long, that is told instead: then it fails.
    fn hear(&mut self, subject: &str) {
        let mut buffer = [0; 4096];
        loop {
            while let Some(end) = self.heard.find("\n\n") {
                let event: String = self.heard.drain(..end + 2).collect();
                assert!(!event.contains("nothing happened"), "{subject} is not told");
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let data: Option<Value> = data.and_then(|data| serde_json::from_str(data).ok());
                if data.is_some_and(|data| array(&data["changed"]).contains(&json!(subject))) {
                    return;
                }
            }
            let n = self.stream.read(&mut buffer).expect("it tells");
            assert_ne!(n, 0, "it ended");
            self.heard.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }
}

fn with_box(stage: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let pipeline = format!(
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\n{stage}"
    );
    place.write("pipelines/box.toml", pipeline);
    place
}

fn hand_in(daemon: &Daemon, items: impl IntoIterator<Item = Value>) -> String {
    let items: Vec<Value> = items.into_iter().map(|payload| json!({ "payload": payload })).collect();
    let handed = daemon.post("/v1/pipelines/box/items", &json!({ "items": items })).expect(200).json();
    text(&handed["runs"][0]["run"])
}

#[test]
fn an_item_of_the_oldest_run_is_told_with_two_hundred_newer_runs() {
    let place = with_box("kind = \"pass\"");
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines", "--no-work"]);
    let oldest = hand_in(&daemon, [json!({"id": "a"})]);
    let pipeline = "name = \"other\"\n[[stage]]\nname = \"work\"\nkind = \"pass\"\n";
    for n in 0..201 {
        let items = json!([{"key": format!("k{n}"), "payload": n}]);
        daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    }
    let mut follower = Follower::of(&daemon);
    assert_eq!(hand_in(&daemon, [json!({"id": "b"})]), oldest);
    follower.hear("runs");
    daemon.stop().expect(0);
}

#[test]
fn an_item_that_dies_in_the_smallest_of_many_groups_is_told() {
    let server = Server::start(|call| {
        let word = |item: &Item| failed(item, "final", &format!("no good: {}", text(&item.payload["word"])));
        Answer::results(&call.items.iter().map(word).collect::<Vec<_>>())
    });
    let place = with_box(&format!("{}\nbatch = 20", server.stage()));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    // Groups are by words; numbers in them would be taken for the same.
    let letters: Vec<char> = ('g'..='z').collect();
    let words = letters.iter().flat_map(|a| letters.iter().map(move |b| format!("zz{a}{b}")));
    let words: Vec<String> = words.take(52).collect();
    let (last, many) = words.split_last().expect("some");
    let both =
        many.iter().flat_map(|word| ["a", "b"].map(|n| json!({"id": format!("{word}{n}"), "word": word})));
    let run = hand_in(&daemon, both);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["dead"] == 102);
    let groups = daemon.get("/v1/dead/groups?limit=500").expect(200).json();
    assert_eq!(array(&groups["items"]).len(), 51, "{groups}");
    let mut follower = Follower::of(&daemon);
    hand_in(&daemon, [json!({"id": "one more", "word": last})]);
    follower.hear("dead");
    daemon.stop().expect(0);
}

#[test]
fn an_operation_that_is_stopped_is_told_with_fifty_newer_ones() {
    let (server, _) = mended_later();
    let place = all_dead(&server, 1);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let purge = json!({"kind": "purge", "all": true, "undo_ms": 3_600_000});
    let started = daemon.post("/v1/operations", &purge).expect(201).json();
    let first = text(&started["operations"][0]["id"]);
    for _ in 0..51 {
        let frozen = json!({"kind": "redrive", "all": true, "dry_run": true});
        daemon.post("/v1/operations", &frozen).expect(201);
    }
    let mut follower = Follower::of(&daemon);
    daemon.post(&format!("/v1/operations/{first}/stop"), &json!({})).expect(200);
    follower.hear("operations");
    daemon.stop().expect(0);
}
