//! An item that was tried very often: answers about it are bounded, and all its attempts come in pages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::server::failed;
use crate::support::{
    Answer, Daemon, Place, Server, array, count, one_stage, samples, text, without_breaker,
};

/// Attempts of one generation.
const TRIED: usize = 45;
/// Generations.
const LIVES: usize = 5;

#[test]
fn a_life_has_the_newest_attempts_and_says_how_many_are_left_off_and_pages_have_all() {
    let server = Server::start(|call| {
        let again = |item| failed(item, "retryable", "not yet");
        Answer::results(&call.items.iter().map(again).collect::<Vec<_>>())
    });
    let retry = format!("retry = {{ max_attempts = {TRIED}, backoff = {{ kind = \"none\" }} }}");
    let pipeline = format!("{}\n{retry}", server.stage());
    let place = Place::with(&without_breaker(&pipeline), &samples(1));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    for _ in 1..LIVES {
        place.run(&["dead", "redrive", "--all", "--quiet"]).expect(0);
        place.run(&["resume", "r1", "--quiet"]).expect(4);
    }
    let whole = place.json(&["explain", "k0000"]);
    assert_eq!((array(&whole["attempts"]).len(), &whole["left_off"]), (TRIED * LIVES, &Value::Null));
    let daemon = Daemon::start(&place, &["--no-work"]);
    let told = |life: &Value| (array(&life["attempts"]).len(), count(&life["left_off"]["attempts"]));
    for path in ["/v1/items/k0000/explain", "/v1/dead/k0000"] {
        let life = daemon.get(path).expect(200).json();
        assert_eq!(told(&life), (200, 25), "{path}");
        assert_eq!(array(&life["attempts"])[..], array(&whole["attempts"])[25..], "{path}: the newest");
    }
    let exported = daemon.get("/v1/dead/export").expect(200).body;
    let line: Value = serde_json::from_str(exported.trim()).expect("one line");
    assert_eq!(told(&line), (200, 25));
    let failures = daemon.get("/v1/failures").expect(200).json();
    assert_eq!(array(&failures["items"][0]["errors"]).len(), 200);
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = daemon.get(&format!("/v1/items/k0000/attempts?limit=60{after}")).expect(200).json();
        assert!(array(&page["items"]).len() <= 60);
        all.extend(array(&page["items"]).iter().cloned());
        match &page["next"] {
            Value::Null => break,
            next => after = format!("&after={}", text(next)),
        }
    }
    all.reverse();
    assert_eq!(all[..], array(&whole["attempts"])[..], "each once, newest first");
    let numbers: BTreeSet<(u64, u64)> =
        all.iter().map(|one| (count(&one["generation"]), count(&one["attempt"]))).collect();
    assert_eq!(numbers.len(), TRIED * LIVES);
    daemon.get("/v1/items/nothing/attempts").expect(404);
    daemon.post("/v1/operations", &json!({"kind": "purge", "all": true})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["purged"] == 1);
    let gone = daemon.get("/v1/items/k0000/attempts").expect(404).json();
    assert!(text(&gone["hint"]).contains("/explain"), "{gone}");
    daemon.stop().expect(0);
}

#[test]
fn the_attempt_that_runs_comes_first() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(1));
    let daemon = Daemon::start(&place, &["--pipelines", "."]);
    server.hold();
    daemon.post("/v1/runs", &json!({"pipeline": "test", "input": "in.jsonl"})).expect(201);
    let page = daemon.until("/v1/items/k0000/attempts", |page| page["items"][0]["outcome"] == "running");
    assert_eq!(array(&page["items"]).len(), 1);
    server.release();
    daemon.until("/v1/items/k0000/attempts", |page| page["items"][0]["outcome"] == "succeeded");
    daemon.stop().expect(0);
}
