//! The failure budget of stages of different speed, with default settings: healthy runs come to their end.

use serde_json::Value;

use crate::support::{Place, count, text};

/// A handler that gives up some items by their number, and takes its time over each call.
const STEP: &str = r#"
import json, sys, time
every, at, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
for line in sys.stdin:
    request = json.loads(line)
    time.sleep(pause)
    results = []
    for item in request["items"]:
        n = item["payload"]["n"]
        if every and n % every == at:
            results.append({"id": item["id"], "error": {"class": "final", "message": "bad input"}})
        else:
            results.append({"id": item["id"], "output": item["payload"]})
    print(json.dumps({"results": results}), flush=True)
"#;

fn stage(name: &str, every: usize, at: usize, pause: &str, more: &str) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\nkind = \"command\"\n\
         command = [\"python3\", \"step.py\", \"{every}\", \"{at}\", \"{pause}\"]\n{more}\n"
    )
}

/// Default settings, but for the folder.
fn place(stages: &[String], items: usize) -> Place {
    let pipeline =
        format!("name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n{}", stages.concat());
    let lines: String = (0..items).map(|n| format!("{{\"id\": \"k{n}\", \"n\": {n}}}\n")).collect();
    let place = Place::with(&pipeline, &lines);
    place.write("step.py", STEP);
    place
}

fn ended(report: &Value) -> (String, u64, u64) {
    let counts = &report["counts"];
    (text(&report["status"]), count(&counts["succeeded"]), count(&counts["dead"]))
}

#[test]
fn bad_input_before_a_slow_stage_does_not_pause_a_healthy_run() {
    let stages =
        [stage("parse", 50, 0, "0", "batch = 50"), stage("llm", 0, 0, "0.05", "batch = 8\nconcurrency = 4")];
    let place = place(&stages, 1_500);
    let report = place.run(&["run", "p.toml", "--json"]).expect(0).json();
    assert_eq!(ended(&report), ("completed".to_owned(), 1_470, 30), "{}", report["reason"]);
    place.check();
}

#[test]
fn a_few_final_failures_in_three_stages_do_not_pause_a_healthy_run() {
    let stages = [
        stage("parse", 300, 7, "0", "batch = 50"),
        stage("clean", 300, 8, "0.01", "batch = 20"),
        stage("llm", 300, 9, "0.05", "batch = 10\nconcurrency = 4"),
    ];
    let place = place(&stages, 3_000);
    let report = place.run(&["run", "p.toml", "--json"]).expect(0).json();
    assert_eq!(ended(&report), ("completed".to_owned(), 2_970, 30), "{}", report["reason"]);
    place.check();
}

#[test]
fn a_sick_stage_pauses_the_run_and_is_named_and_resume_forgives_it() {
    let stages =
        [stage("parse", 0, 0, "0", "batch = 50"), stage("llm", 5, 0, "0.01", "batch = 10\nconcurrency = 2")];
    let place = place(&stages, 600);
    let report = place.run(&["run", "p.toml", "--json"]).expect(5).json();
    let reason = text(&report["reason"]);
    assert!(
        reason.starts_with("stage llm: ") && reason.contains(" items died, more than 10.0 %"),
        "{reason}"
    );
    // It goes on for at least as long as a window says something again.
    let before = ended(&report);
    let report = place.run(&["resume", "r1", "--json"]).expect(5).json();
    let after = ended(&report);
    assert!(after.1 + after.2 >= before.1 + before.2 + 50, "{before:?}, then {after:?}");
    place.check();
}

#[test]
fn a_budget_that_counted_finished_items_starts_anew_and_says_so() {
    let place = place(&[stage("work", 0, 0, "0", "")], 3);
    let run =
        place.start_with(&["run", "p.toml", "--json"], &[("REDRIVE_CRASH_AT", "record.before_commit")], b"");
    run.finish();
    let db = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("the store");
    let old = r#"{"window":"xxxx","dead_in_window":4,"in_a_row":24,"finished":4,"dead":4}"#;
    db.execute("UPDATE run SET budget = ?1", [old]).expect("as it was kept before");
    drop(db);
    let ran = place.run(&["run", "p.toml", "--json"]).expect(0);
    assert!(ran.stderr.contains("the saved failure budget is of another version"), "{}", ran.stderr);
    assert_eq!(ended(&ran.json()), ("completed".to_owned(), 3, 0));
}
