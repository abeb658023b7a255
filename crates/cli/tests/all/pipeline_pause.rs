//! Pipelines and stages are paused and resumed: by whom, what it costs, and what everybody is told.

use serde_json::{Value, json};

use crate::support::index::Library;
use crate::support::{Daemon, Place, Server, array, count, key, keys, one_stage, quick_retry, samples, text};

const ITEMS: usize = 120;

/// Two stages, each with a service of its own.
fn two_stages(name: &str, first: &Server, second: &Server) -> String {
    let stage = |name: &str, server: &Server| {
        format!("[[stage]]\nname = \"{name}\"\n{}\nconcurrency = 2\n{}", server.stage(), quick_retry(2))
    };
    format!(
        "name = \"{name}\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n{}{}",
        stage("first", first),
        stage("second", second)
    )
}

#[test]
fn a_stage_is_paused_and_resumed_under_a_run_and_nothing_is_spent() {
    let (first, second) = (Server::good(), Server::good());
    second.hold();
    let place = Place::with(&two_stages("test", &first, &second), &samples(ITEMS));
    let mut started = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    second.until_open(2);
    let paused = place.json(&["pipelines", "pause", "test", "--stage", "second", "--why", "invoice"]);
    let told = &paused["pipelines"][0]["paused"][0];
    assert_eq!((&told["stage"], &told["why"]), (&json!("second"), &json!("invoice")), "{paused}");
    assert_eq!(told["resume"], "redrive pipelines resume test --stage second");
    second.release();
    // What runs is finished, what goes before goes on at full speed, and nothing more is begun.
    place.until_json(&["show"], |run| {
        let stages = array(&run["stages"]);
        run["admitted_all"] == true
            && count(&stages[0]["counts"]["waiting"]) + count(&run["counts"]["running"]) == 0
    });
    assert_eq!(first.count(), ITEMS);
    let called = second.count();
    assert!(called <= 8, "{called} calls were made, two at a time");
    assert!(!started.has_ended(), "the run waits for whoever paused it");
    let life = text(&place.json(&["explain", &key(ITEMS - 1)])["now"]);
    for part in [
        "stage second of pipeline test is paused",
        "invoice",
        "`redrive pipelines resume test --stage second`",
    ] {
        assert!(life.contains(part), "{life}");
    }
    let shown = place.run(&["show"]).expect(0).stdout;
    assert!(
        shown.contains("stage second of pipeline test is paused") && shown.contains("pipelines resume"),
        "{shown}"
    );
    let listed = place.run(&["runs"]).expect(0).stdout;
    assert!(listed.contains("redrive pipelines resume test --stage second"), "{listed}");
    let stuck = place.json(&["stuck", "--older-than", "0s"])["items"][0].clone();
    assert_eq!(stuck["way_out"], "redrive pipelines resume test --stage second", "{stuck}");
    assert_eq!(second.count(), called, "nothing is called meanwhile");
    place.run(&["pipelines", "resume", "test", "--stage", "second"]).expect(0);
    let ran = started.finish().expect(0);
    let report = ran.json();
    assert_eq!(
        (&report["status"], count(&report["attempts"]["total"])),
        (&json!("completed"), 2 * ITEMS as u64)
    );
    assert!(ran.stderr.contains("stage second of pipeline test is paused"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`redrive pipelines resume test --stage second` lets it go on"),
        "{}",
        ran.stderr
    );
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn a_paused_pipeline_holds_up_its_next_run_and_no_other_pipeline() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    place.run(&["run", "p.toml"]).expect(0);
    place.run(&["pipelines", "pause", "test"]).expect(0);
    // Whoever does not wait is told that only waiting is left, as behind a gate that is paused.
    let waits = place.run(&["run", "p.toml", "--new", "--max-wait", "0s", "--json"]).expect(3).json();
    assert_eq!((&waits["status"], count(&waits["counts"]["waiting"])), (&json!("partially_completed"), 3));
    assert_eq!((server.count(), array(&waits["paused"]).len()), (3, 1));
    place.write("q.toml", one_stage(&server.stage()).replace("\"test\"", "\"other\""));
    place.run(&["run", "q.toml"]).expect(0);
    assert_eq!(server.count(), 6, "another pipeline goes on");
    let mut started = place.start(&["resume", "r2", "--json"]);
    place.until_json(&["runs"], |runs| array(&runs["runs"]).iter().any(|run| run["workers"] != json!([])));
    assert!(!started.has_ended());
    place.run(&["pipelines", "resume", "test"]).expect(0);
    assert_eq!(started.finish().expect(0).json()["status"], "completed");
    assert_eq!(server.count(), 9);
    place.check();
}

#[test]
fn who_paused_what_when_and_why_is_kept() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(1));
    place.run(&["run", "p.toml"]).expect(0);
    for _ in 0..2 {
        place.run(&["pipelines", "pause", "test", "--stage", "work", "--why", "a look"]).expect(0);
    }
    place.run(&["pipelines", "resume", "test", "--stage", "work"]).expect(0);
    place.run(&["pipelines", "resume", "test", "--stage", "work"]).expect(0);
    let kept = place.json(&["dead", "operations"]);
    let kinds: Vec<Value> =
        array(&kept["operations"]).iter().map(|operation| operation["kind"].clone()).collect();
    assert_eq!(kinds, [json!("resume"), json!("pause")], "said twice it is done once: {kept}");
    let request: Value = serde_json::from_str(&text(&kept["operations"][1]["request"])).expect("JSON");
    let asked = json!({"kind": "pause", "pipeline": "test", "stage": "work", "why": "a look"});
    assert_eq!(request, asked, "{kept}");
    let told = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(told.contains("pipeline test, stage work, a look"), "{told}");
    let wrong = place.run(&["pipelines", "pause", "tset"]).expect(2).stderr;
    assert!(wrong.contains("\"tset\"") && wrong.contains("known pipelines: test"), "{wrong}");
    let wrong = place.run(&["pipelines", "pause", "test", "--stage", "wurk"]).expect(2).stderr;
    assert!(wrong.contains("no stage \"wurk\"") && wrong.contains("its stages are work"), "{wrong}");
    assert_eq!(place.json(&["pipelines"])["pipelines"], json!([]), "nothing goes on, and nothing is paused");
}

#[test]
fn a_daemon_leaves_a_paused_pipeline_alone_and_goes_on_with_it_when_it_is_resumed() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/other.toml", one_stage(&server.stage()).replace("\"test\"", "\"other\""));
    place.write("pipelines/in.jsonl", samples(4));
    let mut daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let paused = daemon.post("/v1/pipelines/other/pause", &json!({"why": "a look"})).expect(200).json();
    assert_eq!(
        (&paused["paused"][0]["actor"], &paused["paused"][0]["why"]),
        (&json!("admin"), &json!("a look"))
    );
    assert_eq!(daemon.get("/v1/pipelines").expect(200).json()["items"][0]["paused"][0]["stage"], Value::Null);
    let begun = text(&daemon.post("/v1/runs", &json!({"pipeline": "other"})).expect(201).json()["run"]);
    place.run(&["submit", "p.toml"]).expect(0);
    daemon.until("/v1/runs/r2", |run| run["status"] == "completed");
    assert_eq!(server.count(), 5, "only the other pipeline was worked on");
    daemon.process().signal("KILL");
    assert!(daemon.finish().killed_by().is_some());
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let held = daemon.get(&format!("/v1/runs/{begun}")).expect(200).json();
    assert_eq!((server.count(), array(&held["paused"]).len()), (5, 1), "a pause outlives the daemon: {held}");
    let left = daemon.post("/v1/pipelines/other/resume", &json!({})).expect(200).json();
    assert_eq!(left["paused"], json!([]));
    daemon.until(&format!("/v1/runs/{begun}"), |run| run["status"] == "completed");
    assert_eq!(server.count(), 9);
    daemon.post("/v1/pipelines/nothing/pause", &json!({})).expect(404);
    daemon.post("/v1/pipelines/other/pause", &json!({"stage": "nothing"})).expect(404);
    daemon.post("/v1/pipelines/other/pause", &json!({"who": "me"})).expect(400);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_index_is_paused_by_its_stage() {
    let library = Library::builtin();
    library.write("one.txt", "the first text of all");
    library.index(&[], 0);
    library.place.run(&["pipelines", "pause", "index", "--stage", "embed"]).expect(0);
    library.write("two.txt", "a second text that waits");
    let waits = library.index(&["--max-wait", "0s"], 3);
    assert_eq!(waits["paused"][0]["resume"], "redrive pipelines resume index --stage embed", "{waits}");
    library.place.run(&["pipelines", "resume", "index", "--stage", "embed"]).expect(0);
    assert_eq!(library.index(&[], 0)["status"], "completed");
    library.place.check();
}
