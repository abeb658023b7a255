//! `redrive results`: what became of a run's items, at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Answer, Server, failed, output, passed};
use crate::support::{Place, count, key, keys, names, one_stage, results, samples, wait};

const ITEMS: usize = 20;

/// A service that keeps the answers for some keys back until it is told otherwise.
fn holding(held: &'static [&'static str]) -> (Server, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let told = go.clone();
    let server = Server::start(move |call| {
        if held.contains(&call.item().key.as_str()) {
            wait::until("it is let go", || told.load(Ordering::SeqCst));
        }
        Answer::all(call)
    });
    (server, go)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn keys_of(text: &str) -> Vec<String> {
    lines(text).iter().map(|line| crate::support::text(&line["key"])).collect()
}

#[test]
fn results_are_there_while_a_run_runs_and_after_it_in_the_order_of_its_source() {
    let (server, go) = holding(&["k0003", "k0007"]);
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--results", "out.jsonl"]);
    place.until_json(&["show"], |report| report["counts"]["succeeded"] == ITEMS - 2);
    let early = place.run(&["results"]).expect(0).stdout;
    let expected: Vec<String> =
        keys(ITEMS).into_iter().filter(|key| key != "k0003" && key != "k0007").collect();
    assert_eq!(keys_of(&early), expected);
    go.store(true, Ordering::SeqCst);
    started.finish().expect(0);
    let whole = place.run(&["results", "r1"]).expect(0).stdout;
    assert_eq!(keys_of(&whole), keys(ITEMS).into_iter().collect::<Vec<_>>());
    assert_eq!(whole, place.read("out.jsonl"), "the same as --results writes");
    let document = place.json(&["results", "r1"]);
    assert_eq!(document["items"], json!(lines(&whole)));
    assert_eq!(
        (&document["run"], &document["stage"], &document["written"], &document["left_out"]),
        (&json!("r1"), &Value::Null, &json!(ITEMS), &json!(0))
    );
    let told = place.json(&["results", "r1", "-o", "again.jsonl"]);
    assert_eq!((&told["file"], &told["written"]), (&json!("again.jsonl"), &json!(ITEMS)));
    assert_eq!(place.read("again.jsonl"), whole);
    place.run(&["results", "r9"]).expect(2);
    place.run(&["results", "r1", "--stage", "nope"]).expect(2);
}

#[test]
fn a_run_without_results_gives_an_empty_list() {
    let place = Place::with(&one_stage("kind = \"filter\"\nkeep = \"false\""), &samples(2));
    place.run(&["run", "p.toml"]).expect(0);
    assert_eq!(place.run(&["results"]).expect(0).stdout, "");
    assert_eq!(place.json(&["results"])["items"], json!([]));
}

#[test]
fn following_gives_each_result_once_until_the_run_ends() {
    let (server, go) = holding(&["k0000", "k0011"]);
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    let run = place.start(&["run", "p.toml"]);
    place.until_json(&["show"], |report| report["counts"]["succeeded"] == ITEMS - 2);
    let mut follow = place.start(&["results", "--follow"]);
    let document = place.start(&["results", "--follow", "--json"]);
    let file = place.start(&["results", "--follow", "-o", "followed.jsonl"]);
    let broken_off = place.start(&["results", "--follow", "-o", "broken.jsonl"]);
    assert!(follow.first_line().contains("k0001"), "what is final is given before the run ends");
    assert!(!follow.has_ended());
    wait::until("both files are begun", || unfinished(&place) == 2);
    broken_off.signal("INT");
    broken_off.finish().expect(130);
    assert_eq!(results(&place.read("broken.jsonl")).len(), ITEMS - 2, "what was given by then is kept");
    go.store(true, Ordering::SeqCst);
    run.finish().expect(0);
    let followed = follow.finish().expect(0).stdout;
    assert_eq!(results(&followed).into_keys().collect::<crate::support::Names>(), keys(ITEMS));
    let last: Vec<String> = keys_of(&followed)[ITEMS - 2..].to_vec();
    assert_eq!(names(last), names([key(0), key(11)]), "in the order they became final");
    file.finish().expect(0);
    assert_eq!(results(&place.read("followed.jsonl")).len(), ITEMS);
    assert_eq!(count(&document.finish().expect(0).json()["written"]), ITEMS as u64);
    // Of a run that has ended it gives all, and ends.
    assert_eq!(place.run(&["results", "-f"]).expect(0).stdout, place.run(&["results"]).stdout);
}

#[test]
fn following_sees_what_was_dead_and_came_back() {
    let mended = Arc::new(AtomicBool::new(false));
    let (fine, go) = (mended.clone(), Arc::new(AtomicBool::new(false)));
    let told = go.clone();
    let server = Server::start(move |call| match call.item().key.as_str() {
        "k0000" if !fine.load(Ordering::SeqCst) => {
            Answer::results(&[failed(call.item(), "final", "not yet")])
        }
        "k0002" => {
            wait::until("it is let go", || told.load(Ordering::SeqCst));
            Answer::all(call)
        }
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let run = place.start(&["run", "p.toml"]);
    place.until_json(&["show"], |report| report["counts"]["dead"] == 1 && report["counts"]["succeeded"] == 1);
    let follow = place.start(&["results", "--follow"]);
    assert!(follow.first_line().contains("k0001"));
    mended.store(true, Ordering::SeqCst);
    place.run(&["dead", "redrive", "--all"]).expect(0);
    go.store(true, Ordering::SeqCst);
    run.finish().expect(0);
    assert_eq!(results(&follow.finish().expect(0).stdout).len(), 3);
}

/// The source is edited while the last item of its first reading is under way: whoever works sees that when all is done, waits
/// a moment and goes on, and that is not the end for who follows.
fn followed_over_an_edit(hand_over: &[&str], work: &[&str]) {
    let (server, go) = holding(&["k0002"]);
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    if !hand_over.is_empty() {
        place.run(hand_over).expect(0);
    }
    let worker = place.start(work);
    place.until_json(&["show"], |report| report["counts"]["succeeded"] == 2);
    let follow = place.start(&["results", "--follow"]);
    assert!(follow.first_line().contains("k0000"));
    place.write("in.jsonl", samples(5));
    go.store(true, Ordering::SeqCst);
    assert_eq!(results(&follow.finish().expect(0).stdout).len(), 5, "what the edit brought is given, too");
    worker.finish().expect(0);
    assert_eq!(place.json(&["show"])["status"], "completed");
    place.check();
}

#[test]
fn following_goes_on_where_the_source_was_edited_during_the_run() {
    followed_over_an_edit(&[], &["run", "p.toml"]);
}

#[test]
fn following_goes_on_where_the_source_was_edited_while_a_worker_had_the_run() {
    followed_over_an_edit(&["submit", "p.toml"], &["work", "--until-idle"]);
}

#[test]
fn following_says_when_nobody_works_on_the_run() {
    let (server, _) = holding(&["k0002"]);
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let run = place.start(&["run", "p.toml"]);
    place.until_json(&["show"], |report| report["counts"]["succeeded"] == 2);
    place.run(&["pause", "r1"]).expect(0);
    let follow = place.start(&["results", "--follow"]);
    follow.until_said("run r1 is paused; `redrive resume r1` goes on");
    place.run(&["cancel", "r1", "--yes"]).expect(0);
    assert_eq!(results(&follow.finish().expect(0).stdout).len(), 2, "a cancelled run has ended");
    run.kill();
}

/// How many files are being written, with something in them.
fn unfinished(place: &Place) -> usize {
    let entries = std::fs::read_dir(place.path(".")).expect("listed").map(|entry| entry.expect("listed"));
    let begun = |entry: &std::fs::DirEntry| entry.metadata().is_ok_and(|there| there.len() > 0);
    let entries = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
    entries.filter(begun).count()
}

/// Stages `a`, `b` and `c` that each add their name; `b` fails for one item.
fn three_stages(reuse: bool) -> (Server, Place) {
    let server = Server::start(|call| {
        let item = call.item();
        if (call.stage.as_str(), item.key.as_str()) == ("b", "k0001") {
            return Answer::results(&[failed(item, "final", "not b")]);
        }
        let mut payload = item.payload.clone();
        payload[&call.stage] = json!(true);
        Answer::results(&[json!({ "id": item.id, "output": payload })])
    });
    let stage = |name: &str| format!("[[stage]]\nname = \"{name}\"\n{}\nreuse = {reuse}\n", server.stage());
    let pipeline = format!(
        "name = \"three\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n{}{}{}",
        stage("a"),
        stage("b"),
        stage("c")
    );
    let place = Place::with(&pipeline, &samples(3));
    place.run(&["run", "p.toml"]).expect(3);
    (server, place)
}

#[test]
fn outputs_of_a_stage_are_given_where_they_are_kept_and_counted_where_not() {
    let (_server, place) = three_stages(false);
    // The dead item waits before b with what a made of it; the others have gone on to the end.
    let ran = place.run(&["results", "--stage", "a"]).expect(0);
    assert_eq!(
        lines(&ran.stdout)
            .iter()
            .map(|line| (&line["key"], &line["state"], &line["stage"], &line["output"]))
            .collect::<Vec<_>>(),
        [(&json!("k0001"), &json!("dead"), &json!("a"), &json!({ "id": "k0001", "n": 1, "a": true }))]
    );
    assert!(ran.stderr.contains("2 items passed a") && ran.stderr.contains("reuse"), "{}", ran.stderr);
    let document = place.json(&["results", "--stage", "b"]);
    assert_eq!(
        (&document["items"], &document["not_kept"], &document["stage"]),
        (&json!([]), &json!(2), &json!("b"))
    );
    let of_last = place.run(&["results", "--stage", "c"]).expect(0).stdout;
    assert_eq!(keys_of(&of_last), [key(0), key(2)]);
    assert!(of_last.contains("\"c\":true"));
    // Where outputs are kept, all of them are there.
    let (_server, place) = three_stages(true);
    let of_first = place.run(&["results", "--stage", "a"]).expect(0);
    assert_eq!(keys_of(&of_first.stdout), [key(0), key(1), key(2)]);
    let outputs: Vec<Value> = lines(&of_first.stdout).iter().map(|line| line["output"].clone()).collect();
    assert!(outputs.iter().all(|output| output["a"] == true && output["b"].is_null()), "{outputs:?}");
    let of_second = place.run(&["results", "--stage", "b", "--follow"]).expect(0).stdout;
    assert_eq!(keys_of(&of_second), [key(0), key(2)]);
    assert!(!of_second.contains("\"c\":true") && of_second.contains("\"b\":true"));
}

#[test]
fn outputs_of_a_nested_stage_name_the_item_they_came_from() {
    let server = Server::start(|call| match call.stage.as_str() {
        "split" => {
            let child =
                |n: usize| json!({ "key": format!("{}/{n}", call.item().key), "payload": { "n": n } });
            let children: Vec<Value> = (0..2).map(child).collect();
            Answer::results(&[json!({ "id": call.item().id, "children": children })])
        }
        _ => Answer::results(&[passed(call.item())]),
    });
    let pipeline = one_stage(&server.stage()).replace("\"work\"", "\"split\"")
        + &format!("[[stage.children]]\nname = \"part\"\n{}\n", server.stage());
    let place = Place::with(&pipeline, &samples(2));
    place.run(&["run", "p.toml"]).expect(0);
    let parts = lines(&place.run(&["results", "--stage", "part"]).expect(0).stdout);
    assert_eq!(parts.len(), 4);
    for part in &parts {
        let parent = place.json(&["explain", &crate::support::text(&part["parent"])]);
        let whole = crate::support::text(&parent["item"]["key"]);
        assert!(crate::support::text(&part["key"]).starts_with(&whole), "{part}");
    }
    let whole = || results(&place.run(&["results"]).expect(0).stdout).len();
    assert_eq!(whole(), 2, "children are no results of the run");
    // What left the source takes the outputs of its children along.
    place.write("in.jsonl", samples(1));
    place.run(&["run", "p.toml"]).expect(0);
    let parts = lines(&place.run(&["results", "--stage", "part"]).expect(0).stdout);
    let left: Vec<String> = parts.iter().map(|part| crate::support::text(&part["key"])).collect();
    assert_eq!((left, whole()), (vec!["k0000/0".to_owned(), "k0000/1".to_owned()], 1));
}

/// Changes a byte of what is kept of an item, as a bad disk would.
fn damage(place: &Place, key: &str, bytes: &[u8]) {
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    let changed =
        store.execute("UPDATE item SET payload = ?1 WHERE key = ?2", (bytes, key)).expect("changed");
    assert_eq!(changed, 1);
}

#[test]
fn a_damaged_result_is_left_out_and_told_and_the_others_are_given() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run_pipeline(0);
    damage(&place, "k0004", b"{\"id\":\"k00\xff4\"}");
    damage(&place, "k0005", b"{\"id\":");
    let expected = &keys(ITEMS) - &names([key(4), key(5)]);
    for args in [&["results", "r1", "-o", "out.jsonl"][..], &["resume", "r1", "--results", "out.jsonl"]] {
        std::fs::remove_file(place.path("out.jsonl")).expect("removed");
        let ran = place.run(args).expect(1);
        assert_eq!(place.result_keys(), expected);
        let told =
            ran.stderr.contains("k0004") && ran.stderr.contains("k0005") && ran.stderr.contains("left out");
        assert!(told, "{}", ran.stderr);
    }
    let document = place.run(&["results", "r1", "--json"]).expect(1).json();
    assert_eq!((count(&document["written"]), count(&document["left_out"])), (ITEMS as u64 - 2, 2));
    assert_eq!(crate::support::column(&document["left_out_items"], "key"), names([key(4), key(5)]));
}

#[test]
fn a_result_is_one_line_whatever_a_handler_answers() {
    let server = Server::start(|call| {
        let pretty = serde_json::to_string_pretty(&output(call.item())).expect("written");
        let results =
            format!("{{\"results\": [{{\"id\": \"{}\",\r\n\"output\": {pretty}}}]}}", call.item().id);
        Answer::status(200, &results)
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    place.run_pipeline(0);
    assert_eq!(place.read("out.jsonl").lines().count(), 3);
    assert_eq!(place.results()[&key(2)], json!({ "id": key(2), "twice": 4 }));
}

#[test]
fn redriven_runs_have_their_results_written_as_well() {
    let mended = Arc::new(AtomicBool::new(false));
    let fine = mended.clone();
    let server = Server::start(move |call| match call.item().key.as_str() {
        "k0001" if !fine.load(Ordering::SeqCst) => {
            Answer::results(&[failed(call.item(), "final", "not yet")])
        }
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    place.run(&["run", "p.toml"]).expect(3);
    place.run(&["run", "p.toml", "--new"]).expect(3);
    mended.store(true, Ordering::SeqCst);
    place.run(&["dead", "redrive", "--all", "--results", "out.jsonl"]).expect(2);
    let done = place
        .run(&["dead", "redrive", "--all", "--work", "--results", "out.jsonl", "--json"])
        .expect(0)
        .json();
    assert_eq!(crate::support::array(&done["runs"]).len(), 2);
    assert_eq!(place.read("out.jsonl").lines().count(), 10);
}

#[test]
fn redriving_prints_one_document_of_one_shape_in_every_case() {
    let mended = Arc::new(AtomicBool::new(false));
    let fine = mended.clone();
    let server = Server::start(move |call| match call.item().payload["n"].as_u64() {
        Some(1..=3) if !fine.load(Ordering::SeqCst) => Answer::results(&[failed(call.item(), "final", "no")]),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    place.run(&["run", "p.toml"]).expect(4);
    place.run(&["run", "p.toml", "--new"]).expect(4);
    let shape = |args: &[&str], code: i32| {
        let args: Vec<&str> = ["dead", "redrive"].iter().chain(args).chain(&["--json"]).copied().collect();
        let document = place.run(&args).expect(code).json();
        let fields: Vec<&str> =
            document.as_object().expect("a document").keys().map(String::as_str).collect();
        assert_eq!(
            names(fields),
            names(["dry_run", "items", "skipped", "ids", "calls", "canary", "operation", "runs"]),
            "{args:?}"
        );
        assert!(document["runs"].is_array() && document["items"].is_u64(), "{document}");
        document
    };
    assert_eq!(crate::support::array(&shape(&["--all", "--dry-run"], 0)["ids"]).len(), 6);
    let failed = shape(&["--all", "--canary", "2"], 3);
    assert_eq!(failed["canary"], json!({ "sent": 2, "passed": 0, "went_on": false }));
    assert_eq!((count(&failed["items"]), failed["runs"].as_array().map(Vec::len)), (2, Some(0)));
    assert_eq!(shape(&["--text", "no such thing", "--canary", "2"], 0)["items"], 0);
    mended.store(true, Ordering::SeqCst);
    let one = shape(&["--run", "r1", "--all", "--canary", "1", "--work"], 0);
    assert_eq!(one["canary"], json!({ "sent": 1, "passed": 1, "went_on": true }));
    assert_eq!((count(&one["items"]), one["runs"].as_array().map(Vec::len)), (3, Some(1)));
    assert_eq!(one["runs"][0]["status"], "completed");
    assert_eq!(shape(&["--all"], 0)["items"], 3);
}

#[test]
fn canaries_of_a_paused_run_stay_and_the_items_of_a_cancelled_one_are_told() {
    let (server, go) = holding(&["k0003"]);
    let place = Place::with(&one_stage(&server.stage()), &samples(5));
    let run = place.start(&["run", "p.toml"]);
    place.until_json(&["show"], |report| report["counts"]["succeeded"] == 4);
    place.run(&["kill", "k0001"]).expect(2);
    place.run(&["kill", "k0003"]).expect(0);
    go.store(true, Ordering::SeqCst);
    run.finish();
    place.run(&["dead", "redrive", "--all"]).expect(0);
    let paused = place.run(&["pause", "r1"]).expect(0);
    assert!(paused.stderr.contains("redrive resume r1") && !paused.stderr.contains("what went wrong"));
    place.run(&["kill", "k0003"]).expect(0);
    for _ in 0..2 {
        let ran = place.run(&["dead", "redrive", "--all", "--canary", "1"]).expect(5);
        assert!(ran.stderr.contains("nothing was sent back"), "{}", ran.stderr);
        assert_eq!(place.dead_keys(), names([key(3)]));
    }
    place.run(&["cancel", "r1", "--yes"]).expect(0);
    for work in [&["dead", "redrive", "--all"][..], &["dead", "redrive", "--all", "--work"]] {
        let ran = place.run(work).expect(0);
        assert!(
            ran.stderr.contains("run r1 was cancelled") && !ran.stderr.contains("resume"),
            "{}",
            ran.stderr
        );
        assert_eq!(place.dead_keys(), names([key(3)]));
    }
}
