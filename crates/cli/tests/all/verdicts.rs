//! Verdicts: what a pipeline finds of its items, apart from how the work on them went.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Item, output, passed};
use crate::support::{
    Answer, Daemon, Place, Server, column, count, key, names, one_stage, quick_retry, samples, text,
};

/// What is said of an item: its number tells.
fn verdict_of(item: &Item) -> Option<&'static str> {
    [Some("passed"), Some("needs_review"), Some("failed"), None]
        [item.payload["n"].as_u64().unwrap_or(0) as usize % 4]
}

fn judged(item: &Item) -> Value {
    match verdict_of(item) {
        Some(verdict) => json!({ "id": item.id, "output": output(item), "verdict": verdict }),
        None => passed(item),
    }
}

fn judge() -> Server {
    Server::start(|call| Answer::results(&call.items.iter().map(judged).collect::<Vec<_>>()))
}

/// Ten items: three passed, three to be looked at, two failed, two without a verdict.
fn ten() -> (Server, Place) {
    let server = judge();
    let place = Place::with(&one_stage(&server.stage()), &samples(10));
    let report = place.json(&["run", "p.toml"]);
    assert_eq!(report["status"], "completed", "a verdict is no failure: {report}");
    let counts = json!({ "passed": 3, "needs_review": 3, "failed": 2, "none": 2 });
    assert_eq!((&report["verdicts"], &report["counts"]["succeeded"]), (&counts, &json!(10)));
    (server, place)
}

#[test]
fn verdicts_are_counted_wherever_a_run_is_told() {
    let (_server, place) = ten();
    let shown = place.run(&["show"]).expect(0).stdout;
    assert!(shown.contains("verdicts: 3 passed, 3 needs_review, 2 failed, 2 without"), "{shown}");
    let listed = place.run_with(&["runs"], &[("COLUMNS", "200")]).expect(0).stdout;
    assert!(listed.contains("NEEDS_REVIEW"), "{listed}");
    assert_eq!(place.json(&["runs"])["runs"][0]["verdicts"]["failed"], 2);
    assert_eq!(place.json(&["stats"])["verdicts"]["needs_review"], 3);
    place.check();
}

#[test]
fn items_and_results_are_listed_by_their_verdict() {
    let (_server, place) = ten();
    let found = place.json(&["items", "--verdict", "needs_review"]);
    assert_eq!(column(&found["items"], "key"), names([key(1), key(5), key(9)]));
    assert_eq!(found["items"][0]["verdict"], "needs_review");
    let csv = place.run(&["items", "--verdict", "failed", "--csv"]).expect(0).stdout;
    assert!(csv.starts_with("id,run,key,stage,state,verdict,attempts,message\n"), "{csv}");
    let chosen = place.run(&["items", "--csv", "--columns", "key,verdict", "-n", "4"]).expect(0).stdout;
    assert_eq!(chosen, "key,verdict\nk0000,passed\nk0001,needs_review\nk0002,failed\nk0003,\n");
    let table = place.run(&["items"]).expect(0).stdout;
    assert!(table.contains("VERDICT") && table.contains("needs_review"), "{table}");
    let lines = place.run(&["results", "--verdict", "failed"]).expect(0).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["verdict"] == "failed"), "{lines:?}");
    assert_eq!(column(&json!(lines), "key"), names([key(2), key(6)]));
    let followed = place.run(&["results", "--follow", "--verdict", "passed"]).expect(0).stdout;
    assert_eq!(followed.lines().count(), 3, "{followed}");
    let all = place.run(&["results"]).expect(0).stdout;
    assert_eq!((all.lines().count(), all.matches("\"verdict\":").count()), (10, 8), "{all}");
    let wrong = place.run(&["items", "--verdict", "good"]).expect(2).stderr;
    assert!(wrong.contains("passed, needs_review, failed"), "{wrong}");
}

#[test]
fn explain_tells_a_verdict_and_which_attempt_gave_it() {
    let (_server, place) = ten();
    let life = place.json(&["explain", &key(2)]);
    assert_eq!((&life["item"]["state"], &life["item"]["verdict"]), (&json!("succeeded"), &json!("failed")));
    assert_eq!(life["attempts"][0]["verdict"], "failed");
    let now = text(&life["now"]);
    assert_eq!(now, "It has passed every stage; its verdict is failed.");
    let shown = place.run(&["explain", &key(2)]).expect(0).stdout;
    assert!(shown.contains("  verdict failed\n"), "{shown}");
    assert_eq!(place.json(&["explain", &key(3)])["item"]["verdict"], Value::Null);
}

#[test]
fn a_verdict_of_another_word_is_a_broken_answer_and_never_kept() {
    let server = Server::start(|call| {
        let said = |item: &Item| json!({ "id": item.id, "output": 1, "verdict": "excellent" });
        Answer::results(&call.items.iter().map(said).collect::<Vec<_>>())
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(1));
    place.run(&["run", "p.toml"]).expect(4);
    let dead = place.json(&["dead", "list"])["items"][0].clone();
    assert_eq!(
        (&dead["class"], &dead["reason"], count(&dead["attempts"])),
        (&json!("retryable"), &json!("exhausted"), 2)
    );
    assert!(text(&dead["message"]).contains("\"excellent\" for a verdict"), "{dead}");
    let life = place.json(&["explain", &key(0)]);
    assert!(
        life["attempts"].as_array().expect("attempts").iter().all(|row| row["verdict"] == Value::Null),
        "{life}"
    );
    place.check();
}

#[test]
fn a_pipeline_names_the_place_of_the_verdict_in_the_output() {
    let server = Server::start(|call| {
        let one = |item: &Item| {
            let status =
                ["passed", "needs_review", "failed"][item.payload["n"].as_u64().unwrap_or(0) as usize % 3];
            json!({ "id": item.id, "output": { "check": { "status": status } } })
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = format!("{}\noutput = \"/answer\"\nverdict = \"/check/status\"", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(3));
    let report = place.json(&["run", "p.toml"]);
    assert_eq!(report["verdicts"], json!({ "passed": 1, "needs_review": 1, "failed": 1, "none": 0 }));
    let tried = place.json(&["try", "p.toml", "work", "--payload", "{\"n\": 2}"]);
    assert_eq!(tried["verdict"], "failed", "{tried}");
    let dir = Place::with(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[[stage]]\nname = \"keep\"\nkind = \"pass\"\nverdict = \"/mark\"\n",
        "{\"id\":\"a\",\"mark\":\"failed\"}\n{\"id\":\"b\"}\n",
    );
    let report = dir.json(&["run", "p.toml"]);
    assert_eq!(report["verdicts"], json!({ "passed": 0, "needs_review": 0, "failed": 1, "none": 1 }));
    let wrong = Place::with(&one_stage("kind = \"pass\"\nverdict = \"status\""), &samples(1));
    let told = wrong.run(&["run", "p.toml"]).expect(2).stderr;
    assert!(told.contains("verdict") && told.contains("no JSON pointer"), "{told}");
}

/// Two stages: the first finds that an item needs review, the second that it passed, until it is told to say nothing.
fn two_stages(silent: &Arc<AtomicBool>) -> (Server, Place) {
    let quiet = silent.clone();
    let server = Server::start(move |call| {
        let verdict = match call.stage.as_str() {
            "first" => json!("needs_review"),
            _ if quiet.load(Ordering::SeqCst) => Value::Null,
            _ => json!("passed"),
        };
        let one = |item: &Item| json!({ "id": item.id, "output": item.payload, "verdict": verdict });
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    // Stages that are configured alike would use each other's outputs.
    let stage = |name: &str, answers: &str| {
        format!(
            "[[stage]]\nname = \"{name}\"\n{}\nreuse = true\nmax_answer = \"{answers}\"\n",
            server.stage()
        )
    };
    let stages = [stage("first", "8MiB"), stage("second", "9MiB")];
    let pipeline =
        format!("name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n{}", stages.concat());
    let place = Place::with(&pipeline, &samples(3));
    (server, place)
}

#[test]
fn a_rerun_takes_back_what_its_stage_said_and_what_was_said_before_counts_again() {
    let silent = Arc::new(AtomicBool::new(false));
    let (_server, place) = two_stages(&silent);
    assert_eq!(place.json(&["run", "p.toml"])["verdicts"]["passed"], 3);
    silent.store(true, Ordering::SeqCst);
    place.run(&["rerun", "r1", "--stage", "second", "--yes"]).expect(0);
    let waits = json!({ "passed": 0, "needs_review": 0, "failed": 0, "none": 0 });
    assert_eq!(place.json(&["show"])["verdicts"], waits, "nothing has succeeded");
    place.check();
    place.run(&["resume", "r1"]).expect(0);
    let report = place.json(&["show"]);
    assert_eq!(report["verdicts"], json!({ "passed": 0, "needs_review": 3, "failed": 0, "none": 0 }));
    let said: Vec<Value> = place.json(&["explain", &key(0)])["attempts"]
        .as_array()
        .expect("attempts")
        .iter()
        .map(|row| row["verdict"].clone())
        .collect();
    assert_eq!(said, [json!("needs_review"), json!("passed"), Value::Null], "the history keeps all");
    place.check();
}

#[test]
fn a_reused_output_brings_the_verdict_it_was_kept_with() {
    let silent = Arc::new(AtomicBool::new(false));
    let (server, place) = two_stages(&silent);
    place.run(&["run", "p.toml"]).expect(0);
    let called = server.count();
    silent.store(true, Ordering::SeqCst);
    let report = place.json(&["run", "p.toml", "--new"]);
    assert_eq!((server.count(), &report["verdicts"]["passed"]), (called, &json!(3)), "nothing was called");
}

#[test]
fn the_api_lists_items_and_results_by_verdict() {
    let (_server, place) = ten();
    let daemon = Daemon::start(&place, &["--no-work"]);
    assert_eq!(daemon.get("/v1/runs/r1").expect(200).json()["verdicts"]["failed"], 2);
    let page = daemon.get("/v1/runs/r1/items?verdict=failed").expect(200).json();
    assert_eq!(column(&page["items"], "key"), names([key(2), key(6)]));
    let lines = daemon.get("/v1/runs/r1/results?verdict=needs_review").expect(200).body;
    assert_eq!(lines.lines().count(), 3, "{lines}");
    daemon.get("/v1/runs/r1/items?verdict=good").expect(400);
    daemon.stop().expect(0);
}
