//! Before something is sent back it is said what that costs and what is there already: the same over HTTP, on the command line and
//! to an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::serve_operations::operation;
use crate::support::server::failed;
use crate::support::{Answer, Daemon, Place, Server, count, one_stage};

/// What a call costs.
const USD: f64 = 0.002;
/// Items that fail, and those of them whose content passes under another key.
const DEAD: u64 = 4;
const REUSED: u64 = 3;

/// A service that says what each call costs, and fails what is called dead until it is mended.
fn priced(good: Arc<AtomicBool>) -> Server {
    Server::start(move |call| {
        let item = call.item();
        if item.key.starts_with("dead") && !good.load(Ordering::SeqCst) {
            return Answer::results(&[failed(item, "final", "no good")]);
        }
        let usage = json!({"prompt_tokens": 40, "completion_tokens": 10, "usd": USD});
        let result = json!({"id": item.id, "output": {"of": item.key}});
        Answer::status(200, &json!({"results": [result], "usage": usage}).to_string())
    })
}

/// A daemon on a run with dead items, of which some have the content of others that passed.
fn world(server: &Server) -> (Place, Daemon) {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = format!("{}\nreuse = true", server.stage());
    let inbox = one_stage(&stage).replace("path = \"in.jsonl\"", "kind = \"inbox\"");
    place.write("pipelines/box.toml", inbox);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    // The dead come first: what passes later makes an output of the same content.
    for (name, many, state) in [("dead", DEAD, "dead"), ("good", REUSED, "succeeded")] {
        let one = |n: u64| json!({"key": format!("{name}{n}"), "payload": {"n": n}});
        let items: Vec<Value> = (0..many).map(one).collect();
        daemon.post("/v1/pipelines/test/items", &json!({"items": items})).expect(200);
        daemon.until("/v1/runs/r1", |report| report["counts"][state] == many);
    }
    (place, daemon)
}

/// What a look at some dead items says of them: how many, for how much, and how many outputs are there.
fn assert_told(preview: &Value, items: u64, reused: u64) {
    let usd = preview["usd"].as_f64().unwrap_or_else(|| panic!("a price: {preview}"));
    assert!((usd * 1e6 - USD * 1e6 * items as f64).abs() < 1e-3, "{usd} for {items} items");
    let told = (count(&preview["items"]), count(&preview["reused"]), count(&preview["unpriced"]));
    assert_eq!(told, (items, reused, 0), "{preview}");
}

#[test]
fn a_preview_says_the_price_and_how_many_outputs_are_there_whoever_asks() {
    let good = Arc::new(AtomicBool::new(false));
    let server = priced(good.clone());
    let (place, daemon) = world(&server);
    let asked = |filter: Value| json!({"kind": "redrive", "filter": filter, "all": true, "dry_run": true});
    let ask = |filter: Value| daemon.post("/v1/operations", &asked(filter)).expect(201).json();
    assert_told(&ask(json!({"run": "r1"}))["preview"], DEAD, REUSED);
    assert_told(&ask(json!({"item": "dead0"}))["preview"], 1, 1);
    let frozen = ask(json!({"item": "dead3"}));
    assert_told(&frozen["preview"], 1, 0);
    assert_told(&place.json(&["dead", "freeze", "--all"])["preview"], DEAD, REUSED);
    let words = place.run(&["dead", "freeze", "--all"]).expect(0);
    let words = format!("{}{}", words.stdout, words.stderr);
    assert!(words.contains("0.008") && words.contains('3'), "{words}");
    let mut agent = Client::start(&place, &["--write", "--max-usd", "0.0079"]);
    let preview = agent.get("redrive_preview", &json!({"run": "r1"}));
    assert_told(&preview, DEAD, REUSED);
    let refused = agent.refused("redrive_start", &json!({"set": preview["set"]}));
    assert!(refused.to_string().contains("at most $0.0079"), "{refused}");
    // Within the limit it is done, and what is there already is not called for again.
    good.store(true, Ordering::SeqCst);
    let calls = server.count();
    let few = agent.get("redrive_preview", &json!({"run": "r1", "limit": 3}));
    assert_told(&few, 3, 3);
    let sent = agent.get("redrive_start", &json!({"set": few["set"]}));
    assert_eq!(sent["items"], 3, "{sent}");
    agent.end();
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == REUSED + 3);
    assert_eq!(server.count(), calls, "their outputs were there");
    let id = crate::support::text(&frozen["operations"][0]["id"]);
    daemon.post(&format!("/v1/operations/{id}/start"), &json!({})).expect(200);
    operation(&daemon, &frozen);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == REUSED + DEAD);
    assert_eq!(server.count(), calls + 1);
    daemon.stop().expect(0);
    place.check();
}
