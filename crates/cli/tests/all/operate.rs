//! What operators look at and do with runs: lists, lives, statistics, pausing, cancelling, pruning, edited pipelines.

use std::collections::BTreeMap;

use crate::support::{
    Answer, Call, Names, Place, Server, array, column, count, key, keys, names, one_stage, quick_retry,
    samples, wait,
};
use serde_json::{Value, json};

const ITEMS: usize = 40;
const ATTEMPTS: u32 = 3;

/// Of ten items one is refused, one fails once, one fails twice, one always, one is filtered; the others pass.
fn mixed(call: &Call) -> Answer {
    let item = call.item();
    match (item.payload["n"].as_u64().unwrap_or(0) % 10, item.before) {
        (1, _) => Answer::status(422, "not like this"),
        (2, 0) | (3, 0 | 1) => Answer::status(502, "busy"),
        (4, _) => Answer::status(500, "broken"),
        (5, _) => Answer::results(&[json!({ "id": item.id, "filtered": "too old" })]),
        _ => Answer::all(call),
    }
}

fn each(rest: &[usize]) -> Names {
    (0..ITEMS).filter(|n| rest.contains(&(n % 10))).map(key).collect()
}

fn mixed_run() -> (Server, Place) {
    let server = Server::start(mixed);
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run_pipeline(3);
    (server, place)
}

fn fields(value: &Value) -> Names {
    value.as_object().unwrap_or_else(|| panic!("an object: {value}")).keys().cloned().collect()
}

fn has_fields(value: &Value, wanted: &[&str]) {
    let missing = &names(wanted) - &fields(value);
    assert!(missing.is_empty(), "{missing:?} are missing in {value}");
}

#[test]
fn every_json_answer_has_the_fields_of_the_contract() {
    let (_server, place) = mixed_run();
    let report =
        ["run", "pipeline", "status", "counts", "attempts", "dead", "next_due", "elapsed_ms", "stages"];
    let shown = place.json(&["show", "r1"]);
    has_fields(&shown, &report);
    let states = [
        "admitted",
        "succeeded",
        "filtered",
        "superseded",
        "cancelled",
        "dead",
        "waiting",
        "running",
        "joining",
        "purged",
    ];
    assert_eq!(fields(&shown["counts"]), names(states));
    assert_eq!(fields(&shown["attempts"]), names(["total", "failures", "throttles", "crashes"]));
    assert_eq!(fields(&shown["dead"]), names(["by_reason", "by_class"]));
    assert_eq!(shown["pipeline"], "test");
    assert_eq!(place.json(&["show"]), shown, "the newest run is meant");
    let runs = place.json(&["runs"]);
    has_fields(&array(&runs["runs"])[0], &report);
    let list = place.json(&["dead", "list"]);
    has_fields(&list, &["items", "next"]);
    for item in array(&list["items"]) {
        let wanted =
            ["id", "key", "run", "stage", "reason", "class", "message", "attempts", "failed_at", "group"];
        has_fields(item, &wanted);
    }
    let life = place.json(&["explain", &key(4)]);
    has_fields(&life, &["item", "attempts", "now"]);
    for attempt in array(&life["attempts"]) {
        let wanted = [
            "stage",
            "attempt",
            "generation",
            "started_at",
            "ended_at",
            "outcome",
            "class",
            "message",
            "wait_ms",
            "wait_cause",
            "worker",
        ];
        has_fields(attempt, &wanted);
    }
    let check = place.json(&["check"]);
    let laws: Names = (1..=12).map(|n| format!("L{n}")).collect();
    assert_eq!((&check["ok"], column(&check["laws"], "law")), (&json!(true), laws));
    for law in array(&check["laws"]) {
        has_fields(law, &["law", "ok", "violations"]);
    }
    for args in [
        &["failures"][..],
        &["stats"],
        &["dead", "groups"],
        &["dead", "operations"],
        &["dead", "show", "k0001"],
        &["doctor"],
        &["check", "--run", "r1"],
        &["runs", "--pipeline", "test", "-n", "1"],
    ] {
        assert!(place.json(args).is_object(), "{args:?}");
    }
}

#[test]
fn reading_commands_speak_to_people_too_and_quiet_is_quiet() {
    let (_server, place) = mixed_run();
    for (args, fragments) in [
        (&["show"][..], &["partial_success", "40 admitted", "28 succeeded", "8 dead", "4 filtered"][..]),
        (&["runs"], &["r1", "test", "partial_success"]),
        (&["explain", "k0004"], &["k0004", "exhausted", "HTTP 500"]),
        (&["failures"], &["k0001", "k0004", "dead (exhausted)"]),
        (&["stats"], &["work", "passed after retries"]),
        (&["check"], &["L1", "holds"]),
        (&["dead", "list"], &["k0001", "422"]),
        (&["dead", "groups"], &["HTTP 422", "HTTP 500"]),
        (&["dead", "show", "k0001"], &["not like this"]),
        (&["doctor"], &["ok", "sound"]),
    ] {
        let ran = place.run(args).expect(0);
        for fragment in fragments {
            assert!(ran.stdout.contains(fragment), "{args:?}: no {fragment:?} in\n{}", ran.stdout);
        }
        assert!(!ran.stdout.contains('\u{1b}'), "{args:?} has colours though nobody looks");
    }
    let loud = place.run(&["run", "p.toml", "--new"]).expect(3);
    assert!(loud.stderr.contains("hint:"), "{}", loud.stderr);
    let quiet = place.run(&["run", "p.toml", "--new", "--quiet", "--results", "out.jsonl"]).expect(3);
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("r3"));
    place.check();
}

#[test]
fn an_item_is_found_by_id_by_the_beginning_of_it_and_by_key() {
    let (_server, place) = mixed_run();
    let by_key = place.json(&["explain", &key(3)]);
    let id = crate::support::text(&by_key["item"]["id"]);
    for name in [&id[..], &id[..12], &id[..8]] {
        assert_eq!(place.json(&["explain", name])["item"], by_key["item"], "{name}");
    }
    let outcomes: Vec<String> =
        array(&by_key["attempts"]).iter().map(|row| crate::support::text(&row["outcome"])).collect();
    assert_eq!(outcomes, ["failed", "failed", "succeeded"]);
    let waits: Vec<&Value> = array(&by_key["attempts"]).iter().map(|row| &row["wait_ms"]).collect();
    assert_eq!(waits, [&json!(20), &json!(20), &Value::Null]);
    assert_eq!(by_key["item"]["payload"], json!({ "id": key(3), "twice": 6 }));
    // The same key in two runs means the newest one's, which is said; the other is told by --run.
    place.run(&["run", "p.toml", "--new"]).expect(3);
    let both = place.run(&["explain", &key(3)]).expect(0);
    assert!(both.stderr.contains("r2") && both.stderr.contains("--run"), "{}", both.stderr);
    assert_eq!(place.json(&["explain", &key(3)])["item"]["run"], "r2");
    for run in ["r1", "r2"] {
        let one = place.run(&["explain", &key(3), "--run", run, "--json"]).expect(0);
        assert_eq!((&one.json()["item"]["run"], one.stderr.as_str()), (&json!(run), ""));
    }
    // What changes an item has to be told which.
    let refused = place.run(&["kill", &key(3)]).expect(2);
    assert!(refused.stderr.contains("several items are called"), "{}", refused.stderr);
    place.check();
}

#[test]
fn failures_and_statistics_are_exact() {
    let (_server, place) = mixed_run();
    let failures = place.json(&["failures", "r1"]);
    let listed: Vec<String> =
        array(&failures["items"]).iter().map(|row| crate::support::text(&row["item"]["key"])).collect();
    let sorted: Vec<String> = each(&[1, 4]).into_iter().collect();
    assert_eq!(listed, sorted, "sorted by key");
    for row in array(&failures["items"]) {
        let errors = if row["item"]["class"] == "final" { 1 } else { ATTEMPTS as usize };
        assert_eq!(array(&row["errors"]).len(), errors, "{row}");
        assert_eq!(count(&row["retries"]) as usize, errors - 1);
    }
    let part = place.json(&["failures", "r1", "-n", "3"]);
    assert_eq!((array(&part["items"]).len(), &part["more"]), (3, &json!(true)));
    assert_eq!(count(&part["total"]), 8);
    let stats = place.json(&["stats", "r1"]);
    let stage = &stats["stages"][0];
    assert_eq!(stage["passed_after"], json!({ "0": 20, "1": 4, "2": 4 }));
    assert_eq!(stage["dead_after"], json!({ "0": 4, "2": 4 }));
    assert_eq!(stage["waiting_after"], json!({}));
    assert_eq!(stage["retry_histogram"], json!({ "0": 24, "1": 4, "2": 8 }));
    assert_eq!((&stage["tried"], &stage["first_try_rate"]), (&json!(36), &json!(20.0 / 36.0)));
    assert_eq!(stage["passed"], 28);
    assert_eq!(stage["statuses"], json!({ "422": 4, "500": 12, "502": 12 }));
    assert_eq!(stage["errors"], json!({ "final/client": 4, "retryable/server": 24 }));
    assert_eq!(stage["time_to_successful_retry"]["items"], 8);
    assert_eq!(stage["attempts"]["failures"], 28);
    place.check();
}

#[test]
fn failures_are_sorted_over_all_pages() {
    let server = Server::start(|_| Answer::status(422, "not like this"));
    // The source has them in another order than their keys.
    let lines: String =
        [7, 2, 9, 0, 5, 1, 8, 3, 6, 4].map(|n| format!("{{\"id\":\"{}\"}}\n", key(n))).concat();
    let place = Place::with(&one_stage(&server.stage()), &lines);
    place.run(&["run", "p.toml"]).expect(4);
    let (mut pages, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["failures", "r1", "-n", "3"];
        args.extend(after.as_deref().map(|after| ["--after", after]).into_iter().flatten());
        let page = place.json(&args);
        assert_eq!(count(&page["total"]), 10);
        let listed = array(&page["items"]);
        pages.push(listed.iter().map(|row| crate::support::text(&row["item"]["key"])).collect::<Vec<_>>());
        assert_eq!(page["more"], json!(page["next"].is_string()));
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    let all: Vec<Vec<String>> = [0..3, 3..6, 6..9, 9..10].map(|page| page.map(key).collect()).to_vec();
    assert_eq!(pages, all);
    let shown = place.run(&["failures", "-n", "3"]).expect(0);
    assert!(shown.stdout.contains("3 of 10 items that failed"), "{}", shown.stdout);
    assert!(shown.stderr.contains("--after"), "{}", shown.stderr);
}

#[test]
fn a_paused_run_tells_how_an_edited_pipeline_is_taken_over() {
    let server = Server::start(|_| Answer::status(422, "not like this"));
    let budget = "failure_budget.consecutive = 3";
    let pipeline = |more: &str| {
        one_stage(&format!("{}{more}", server.stage())).replace("failure_budget = false", budget)
    };
    let place = Place::with(&pipeline(""), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(5);
    let same = place.run(&["run", "p.toml"]).expect(5);
    assert!(!same.stderr.contains("--pipeline"), "{}", same.stderr);
    place.write("p.toml", pipeline("\nconcurrency = 2"));
    let edited = place.run(&["run", "p.toml"]).expect(5);
    assert!(edited.stderr.contains("hint: p.toml was edited"), "{}", edited.stderr);
    assert!(edited.stderr.contains("redrive resume r1 --pipeline p.toml"), "{}", edited.stderr);
}

#[test]
fn a_run_is_paused_resumed_and_cancelled() {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--json"]);
    server.until_open(4);
    wait::until("all is admitted", || place.json(&["show"])["admitted_all"] == true);
    let report = place.json(&["pause", "r1", "--why", "the model is being replaced"]);
    assert_eq!(report["status"], "paused");
    assert!(report["reason"].to_string().contains("the model is being replaced"), "{report}");
    let again = place.json(&["pause", "r1"]);
    assert_eq!(again["reason"], report["reason"], "without words, those that were given before stand");
    // The worker sees it within a tick, finishes what runs, and ends.
    let waiting = |n: u64| count(&place.json(&["show"])["counts"]["waiting"]) >= n;
    wait::until("nothing new is begun", || waiting(ITEMS as u64 - 4));
    server.release();
    let report = started.finish().expect(5).json();
    assert_eq!(report["status"], "paused");
    let done = count(&report["counts"]["succeeded"]);
    assert_eq!(
        (count(&report["counts"]["waiting"]), count(&report["counts"]["running"])),
        (ITEMS as u64 - done, 0)
    );
    let before = server.count();
    place.run(&["run", "p.toml"]).expect(5);
    assert_eq!(server.count(), before);
    place.check();
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!(server.times_called().values().all(|times| *times == 1));
    place.run(&["pause", "r1"]).expect(2);
    place.run(&["cancel", "r1", "--yes"]).expect(2);
    place.check();
}

#[test]
fn a_cancelled_run_ends_under_its_worker_and_never_goes_on() {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--json"]);
    server.until_open(4);
    wait::until("all is admitted", || place.json(&["show"])["admitted_all"] == true);
    place.run(&["cancel", "r1"]).expect(2);
    let report = place.json(&["cancel", "r1", "--yes"]);
    assert_eq!(
        (&report["status"], count(&report["counts"]["cancelled"])),
        (&json!("cancelled"), ITEMS as u64)
    );
    server.release();
    let report = started.finish().expect(4).json();
    assert_eq!(
        (&report["status"], count(&report["counts"]["cancelled"])),
        (&json!("cancelled"), ITEMS as u64)
    );
    assert_eq!(server.count(), 4, "nothing new was begun");
    place.run(&["resume", "r1"]).expect(2);
    place.check();
    // The next `run` is another one.
    let report = place.run_pipeline(0);
    assert_eq!(report["run"], "r2");
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn prune_forgets_finished_runs_and_nothing_else() {
    let (_server, place) = mixed_run();
    place.run(&["run", "p.toml", "--new"]).expect(3);
    let held = Server::good();
    held.hold();
    let stage = format!("{}\nconcurrency = 2\n", held.stage());
    place.write("open.toml", one_stage(&stage).replace("\"test\"", "\"open\""));
    let started = place.start(&["run", "open.toml"]);
    held.until_open(2);
    let kept = place.json(&["prune", "--older-than", "1h", "--yes"]);
    assert_eq!((&kept["runs"], &kept["items"]), (&json!(0), &json!(0)));
    // Each of the two has eight dead letters that nobody looked at.
    let spared = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!((&spared["runs"], &spared["items"]), (&json!(0), &json!(0)));
    assert_eq!(spared["spared"], json!({ "runs": 2, "dead": 16 }));
    assert_eq!(place.dead().len(), 16);
    place.run(&["dead", "purge", "--run", "r2", "--all", "--yes"]).expect(0);
    let gone = place.json(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!(
        (&gone["runs"], &gone["items"], &gone["tombstones"]),
        (&json!(1), &json!(ITEMS - 8), &json!(8))
    );
    let gone = place.json(&["prune", "--older-than", "0s", "--with-dead", "--yes"]);
    assert_eq!((&gone["runs"], &gone["items"], &gone["dead"]), (&json!(1), &json!(ITEMS), &json!(8)));
    assert_eq!(column(&place.json(&["runs"])["runs"], "run"), names(["r3"]));
    held.release();
    started.finish().expect(0);
    place.run(&["resume", "r3", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn known_outputs_are_used_again_where_the_pipeline_says_so() {
    let server = Server::good();
    let stage = format!("{}\nreuse = true\n", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run_pipeline(0);
    let first = place.results();
    place.run(&["run", "p.toml", "--new", "--results", "out.jsonl"]).expect(0);
    assert_eq!(server.count(), ITEMS, "the second run makes no call");
    assert_eq!(place.results(), first);
    for key in keys(ITEMS) {
        let life = place.json(&["explain", &key, "--run", "r2"]);
        let outcomes: Vec<&Value> = array(&life["attempts"]).iter().map(|row| &row["outcome"]).collect();
        assert_eq!(outcomes, ["reused"], "{key}");
    }
    // Other content is another input, and a retuned stage is the same stage.
    place.write("in.jsonl", samples(ITEMS).replace("\"n\":7}", "\"n\":70}"));
    place.write("p.toml", one_stage(&format!("{stage}concurrency = 3\n")));
    place.run(&["run", "p.toml", "--new", "--results", "out.jsonl"]).expect(0);
    assert_eq!(server.count(), ITEMS + 1);
    assert_eq!(place.results()[&key(7)]["twice"], 140);
    place.check();
    // Without it every run pays for itself.
    place.write("p.toml", one_stage(&server.stage()));
    place.run(&["run", "p.toml", "--new"]).expect(0);
    assert_eq!(server.count(), 2 * ITEMS + 1);
    place.check();
}

#[test]
fn an_edited_pipeline_is_taken_over_unless_its_stages_changed() {
    let server = Server::start(|call| match call.item().before {
        0..=3 if call.item().key == "k0002" => Answer::status(500, "not yet"),
        _ => Answer::all(call),
    });
    let late = "retry = { max_attempts = 2, backoff = { kind = \"schedule\", delays = [\"50ms\"] } }";
    let file = |retry: &str| one_stage(&format!("{}\n{retry}", server.stage()));
    let place = Place::with(
        &file("retry = { max_attempts = 9, backoff = { kind = \"fixed\", delay = \"1h\" } }"),
        &samples(5),
    );
    place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    // Other stages: refused, with a hint, and nothing changed.
    place.write("p.toml", file(late).replace("\"work\"", "\"other\""));
    let ran = place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(2);
    assert!(ran.stderr.contains("other stages") && ran.stderr.contains("--new"), "{}", ran.stderr);
    assert_eq!(place.json(&["show", "r1"])["stages"][0]["name"], "work");
    let ran = place.run(&["resume", "r1", "--pipeline", "p.toml"]).expect(2);
    assert!(ran.stderr.contains("other stages"), "{}", ran.stderr);
    // Another policy for the same stages: the file is refused when wrong, taken over when right.
    place.write("p.toml", file("retry = { max_attempts = 0 }"));
    place.run(&["run", "p.toml"]).expect(2);
    place.write("p.toml", file("retry = { max_attempts = 1, backoff = { kind = \"none\" } }"));
    let report = place.run(&["run", "p.toml", "--max-wait", "1s", "--json"]).expect(3).json();
    assert_eq!(
        (&report["run"], count(&report["counts"]["waiting"])),
        (&json!("r1"), 1),
        "what waits keeps its due time"
    );
    place.check();
}

#[test]
fn more_attempts_in_an_edited_file_hold_for_what_is_sent_back() {
    let server = Server::start(|call| match call.item().before {
        0..=3 if call.item().key == "k0002" => Answer::status(500, "not yet"),
        _ => Answer::all(call),
    });
    let file = |attempts: u32| one_stage(&format!("{}\n{}", server.stage(), quick_retry(attempts)));
    let place = Place::with(&file(2), &samples(5));
    place.run_pipeline(3);
    assert_eq!(place.dead_keys(), names([key(2)]));
    place.run(&["dead", "redrive", "--item", &key(2)]).expect(0);
    // The redriven run is unfinished again, so the same command goes on with it, by the new file.
    place.write("p.toml", file(3));
    let report = place.run_pipeline(0);
    assert_eq!(report["run"], "r1");
    assert_eq!(place.result_keys(), keys(5));
    assert_eq!(server.times_called()[&key(2)], 5);
    let life = place.json(&["explain", &key(2)]);
    let tries: Vec<(u64, u64)> = array(&life["attempts"])
        .iter()
        .map(|row| (count(&row["generation"]), count(&row["attempt"])))
        .collect();
    assert_eq!(tries, [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]);
    let marks: BTreeMap<u64, String> = array(&life["attempts"])
        .iter()
        .map(|row| (count(&row["generation"]), crate::support::text(&row["config"])))
        .collect();
    assert_ne!(marks[&0], marks[&1], "attempts tell which configuration they were made with");
    place.check();
}

#[test]
fn doctor_and_completions_answer() {
    let place = Place::new();
    let found = place.json(&["doctor"]);
    assert_eq!(found["ok"], true);
    let server = Server::good();
    place.write("p.toml", one_stage(&server.stage()));
    place.write("in.jsonl", samples(2));
    place.run_pipeline(0);
    let found = place.json(&["doctor", "p.toml"]);
    let what: Names =
        array(&found["findings"]).iter().map(|finding| crate::support::text(&finding["what"])).collect();
    assert!(what.is_superset(&names(["version", "store file", "pipeline", "stage work"])), "{what:?}");
    let script = place.run(&["completions", "bash"]).expect(0).stdout;
    assert!(script.contains("redrive") && script.contains("complete"));
    place.write("complete.bash", &script);
    let parsed = std::process::Command::new("bash")
        .args(["-n", "complete.bash"])
        .current_dir(place.path("."))
        .status();
    assert!(parsed.expect("bash").success());
    for shell in ["zsh", "fish"] {
        assert!(!place.run(&["completions", shell]).expect(0).stdout.is_empty());
    }
    place.check();
}

#[test]
fn an_item_under_way_is_explained_and_can_be_given_up() {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 1\n{}", server.stage(), quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(3));
    let started = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    server.until_open(1);
    let life = place.json(&["explain", &key(0)]);
    assert_eq!(life["attempts"][0]["outcome"], "running");
    assert_eq!(life["attempts"][0]["ended_at"], Value::Null);
    assert!(crate::support::text(&life["now"]).contains("Attempt 1 at work runs"), "{}", life["now"]);
    assert_eq!(place.json(&["show"])["status"], "running");
    place.check();
    // A waiting one is given up; the run goes on without it.
    place.run(&["kill", &key(2), "--why", "not worth it"]).expect(0);
    server.release();
    let report = started.finish().expect(3).json();
    assert_eq!(report["dead"]["by_reason"], json!({ "operator": 1 }));
    assert_eq!(place.dead_keys(), names([key(2)]));
    assert_eq!(place.result_keys(), names([key(0), key(1)]));
    assert_eq!(server.count(), 2);
    place.run(&["dead", "redrive", "--reason", "operator", "--work"]).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(3));
    place.check();
}

#[test]
fn content_passes_through_letter_by_letter() {
    let lines = [
        r#"{"id":"a","n":12345678901234567890123456789,"x":1.10,"z":1e2}"#,
        r#"{ "id" : "b" , "text" : "snow ☃ \u2603 \ud83d\ude00 \"quoted\" <html>" }"#,
        r#"{"id":"c","deep":[[[[{"a":null,"a2":true}]]]],"":""}"#,
        r#"{"id":7,"n":-0.0}"#,
    ];
    let place = Place::with(&one_stage("kind = \"pass\""), &(lines.join("\n") + "\n"));
    place.run_pipeline(0);
    let out = place.read("out.jsonl");
    for line in lines {
        assert!(out.contains(&format!("\"output\":{line}}}")), "{line} in\n{out}");
    }
    assert_eq!(place.result_keys(), names(["a", "b", "c", "7"]));
    place.check();
}

#[test]
fn results_that_cannot_be_written_are_told_before_the_work_and_can_be_written_later() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    let ran = place.run(&["run", "p.toml", "--results", "no/such/folder/out.jsonl"]).expect(2);
    assert!(ran.stderr.contains("no/such/folder") && ran.stderr.contains("mkdir"), "{}", ran.stderr);
    assert_eq!((server.count(), place.path(".redrive").exists()), (0, false), "nothing was done");
    place.run(&["run", "p.toml"]).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!((place.result_keys(), server.count()), (keys(5), 5));
    place.check();
}

#[test]
fn what_is_sent_back_to_a_paused_run_waits_until_it_is_resumed() {
    let (server, place) = mixed_run();
    place.run(&["dead", "redrive", "--item", &key(1)]).expect(0);
    place.run(&["pause", "r1"]).expect(0);
    let before = server.count();
    let ran = place.run(&["dead", "redrive", "--class", "retryable", "--work"]).expect(5);
    assert!(ran.stderr.contains("paused"), "{}", ran.stderr);
    assert_eq!((place.dead_keys(), server.count()), (&each(&[1]) - &names([key(1)]), before));
    place.run(&["resume", "r1"]).expect(3);
    assert_eq!(place.dead_keys(), each(&[1, 4]));
    place.check();
}
