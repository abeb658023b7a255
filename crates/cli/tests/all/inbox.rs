//! Standing runs: items are handed in one by one or as a stream, each once, to the open run of its category.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    Names, Place, Server, array, count, key, keys, names, quick_retry, samples, text, wait,
};

fn pipeline(stage: &str) -> String {
    format!(
        "name = \"test\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"work\"\n{stage}\n{}",
        quick_retry(2)
    )
}

fn open() -> (Server, Place) {
    let server = Server::good();
    let place = Place::with(&pipeline(&server.stage()), "");
    (server, place)
}

/// Hands items in and gives the answer.
fn hand_in(place: &Place, more: &[&str], input: &str, code: i32) -> Value {
    let args: Vec<&str> = ["submit", "p.toml", "--json"].into_iter().chain(more.iter().copied()).collect();
    place.start_with(&args, &[], input.as_bytes()).finish().expect(code).json()
}

fn stream(place: &Place, input: &str) -> Value {
    hand_in(place, &["--items", "-"], input, 0)
}

fn fates(answer: &Value) -> Vec<(String, String)> {
    array(&answer["items"]).iter().map(|item| (text(&item["key"]), text(&item["outcome"]))).collect()
}

fn counts(answer: &Value) -> [u64; 4] {
    ["admitted", "changed", "known", "refused"].map(|name| count(&answer["counts"][name]))
}

fn run_all(place: &Place) -> Value {
    place.run_pipeline(0)
}

#[test]
fn an_item_is_admitted_once_and_an_edited_one_takes_its_place() {
    let (server, place) = open();
    let (first, other) = ("{\"id\":\"a\",\"n\":1}", "{\"id\":\"b\",\"n\":2}");
    let answer = hand_in(&place, &["--item", first, "--item", other], "", 0);
    let run = json!({"run": "r1", "category": null, "priority": 0, "created": true, "paused": false});
    assert_eq!((&answer["pipeline"], &answer["runs"]), (&json!("test"), &json!([run])));
    assert_eq!(answer["counts"], json!({"admitted": 2, "known": 0, "changed": 0, "refused": 0}));
    let id = text(&answer["items"][0]["id"]);
    let item = json!({
        "line": 1, "key": "a", "id": id, "run": "r1", "category": null, "outcome": "admitted",
    });
    assert_eq!((&answer["items"][0], &answer["left_off"]), (&item, &json!(0)));
    let pair = |key: &str, fate: &str| (key.to_owned(), fate.to_owned());
    let again = hand_in(&place, &["--item", first], "", 0);
    assert_eq!(fates(&again), [pair("a", "known")]);
    assert_eq!((&again["items"][0]["id"], &again["runs"][0]["created"]), (&json!(id), &json!(false)));
    let report = run_all(&place);
    assert_eq!((&report["status"], &report["admitted_all"]), (&json!("open"), &json!(false)));
    assert_eq!(place.result_keys(), names(["a", "b"]));

    let edited = hand_in(&place, &["--item", "{\"id\":\"a\",\"n\":5}"], "", 0);
    assert_eq!((fates(&edited), edited["items"][0]["id"] == json!(id)), (vec![pair("a", "changed")], false));
    run_all(&place);
    assert_eq!(count(&place.results()["a"]["twice"]), 10);
    // What it was before is back, and what had succeeded is not worked on again.
    assert_eq!(fates(&hand_in(&place, &["--item", first], "", 0)), [pair("a", "changed")]);
    run_all(&place);
    assert_eq!((count(&place.results()["a"]["twice"]), server.count()), (2, 3));
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 1);
    place.check();
}

#[test]
fn the_last_version_of_a_key_in_a_stream_holds() {
    let (_server, place) = open();
    let line = |n: u32| format!("{{\"id\":\"a\",\"n\":{n}}}\n");
    let versions = [line(1), line(2), line(2), line(1), line(3)].concat();
    for expected in [[1, 3, 1, 0], [0, 4, 1, 0]] {
        assert_eq!(counts(&stream(&place, &versions)), expected);
    }
    run_all(&place);
    assert_eq!(place.results().into_keys().collect::<Names>(), names(["a"]));
    assert_eq!(count(&place.results()["a"]["twice"]), 6);
    let report = place.json(&["show"]);
    assert_eq!((count(&report["counts"]["admitted"]), count(&report["counts"]["superseded"])), (3, 2));
    place.check();
}

#[test]
fn a_stream_that_breaks_off_is_said_again_and_admits_nothing_twice() {
    const ITEMS: usize = 5_000;
    let (_server, place) = open();
    place.write("p.toml", pipeline("kind = \"pass\""));
    let mut started = place.start_open(&["submit", "p.toml", "--items", "-"], &[]);
    started.say(&samples(ITEMS / 2));
    place.until_json(&["show"], |run| count(&run["counts"]["admitted"]) > 0);
    started.kill();
    let before = count(&place.json(&["show"])["counts"]["admitted"]);
    assert!(before > 0 && before <= ITEMS as u64 / 2);
    assert_eq!(counts(&stream(&place, &samples(ITEMS))), [ITEMS as u64 - before, 0, before, 0]);
    assert_eq!(counts(&stream(&place, &samples(ITEMS))), [0, 0, ITEMS as u64, 0]);
    let report = run_all(&place);
    assert_eq!((count(&report["counts"]["admitted"]), &report["duplicates"]), (ITEMS as u64, &json!(0)));
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn two_that_hand_in_the_same_stream_at_once_admit_each_item_once() {
    const ITEMS: usize = 3_000;
    let (_server, place) = open();
    place.write("p.toml", pipeline("kind = \"pass\""));
    let input = samples(ITEMS);
    let args = ["submit", "p.toml", "--items", "-", "--json"];
    let started: Vec<_> = (0..2).map(|_| place.start_with(&args, &[], input.as_bytes())).collect();
    let answers: Vec<Value> = started.into_iter().map(|started| started.finish().expect(0).json()).collect();
    let sums: Vec<u64> = answers.iter().map(|answer| counts(answer)[0]).collect();
    assert_eq!(sums.iter().sum::<u64>(), ITEMS as u64, "{sums:?}");
    assert!(answers.iter().all(|answer| answer["runs"][0]["run"] == "r1"), "one run for both");
    assert!(answers.iter().all(|answer| counts(answer).iter().sum::<u64>() == ITEMS as u64));
    run_all(&place);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn every_category_has_an_open_run_of_its_own() {
    let (_server, place) = open();
    place.write("p.toml", format!("category = \"day\"\npriority = 2\n{}", pipeline("kind = \"pass\"")));
    let envelopes = "{\"key\":\"a\",\"payload\":{\"n\":1},\"category\":\"night\"}\n\
                     {\"key\":\"a\",\"payload\":{\"n\":2}}\n\
                     {\"payload\":{\"id\":\"b\"},\"category\":\"night\"}\n\
                     {\"key\":7,\"payload\":[],\"category\":\"weekend\"}\n";
    place.write("mail.jsonl", envelopes);
    let answer = hand_in(&place, &["--items", "mail.jsonl", "--envelope"], "", 0);
    assert_eq!(counts(&answer), [4, 0, 0, 0]);
    let by_category: BTreeMap<String, (String, u64)> = array(&place.json(&["runs"])["runs"])
        .iter()
        .map(|run| {
            let counts = (text(&run["run"]), count(&run["counts"]["admitted"]));
            assert_eq!(run["source"], format!("inbox:{}", text(&run["category"])));
            (text(&run["category"]), counts)
        })
        .collect();
    let sizes: Vec<(&str, u64)> = by_category.iter().map(|(name, (_, n))| (name.as_str(), *n)).collect();
    assert_eq!(sizes, [("day", 1), ("night", 2), ("weekend", 1)]);
    // A key is known within its category.
    let same = ["--item", "{\"n\":1}", "--key", "a"];
    let elsewhere = hand_in(&place, &[&same[..], &["--category", "other"]].concat(), "", 0);
    assert_eq!(counts(&elsewhere), [1, 0, 0, 0]);
    let known = hand_in(&place, &[&same[..], &["--category", "night"]].concat(), "", 0);
    assert_eq!((counts(&known), &known["items"][0]["category"]), ([0, 0, 1, 0], &json!("night")));
    // `run` works on the one of the file's own category; any other by its number.
    assert_eq!((&run_all(&place)["run"], place.result_keys()), (&json!(by_category["day"].0), names(["a"])));
    place.run(&["resume", &by_category["night"].0, "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), names(["a", "b"]));
    place.check();
}

#[test]
fn what_cannot_be_used_is_told_with_its_line_and_the_rest_is_taken() {
    let (_server, place) = open();
    let bad = format!("{}not json\n\n{{\"n\":1}}\n{{\"id\":\"k0001\",\"n\":1}}\n", samples(1));
    let answer = hand_in(&place, &["--items", "-"], &bad, 3);
    assert_eq!(counts(&answer), [2, 0, 0, 2]);
    let told: Vec<(u64, String)> =
        array(&answer["items"]).iter().map(|item| (count(&item["line"]), text(&item["reason"]))).collect();
    let column = "is not JSON: expected value at column 2".to_owned();
    assert_eq!(told, [(2, column), (4, "has no string, number or boolean at /id for its key".to_owned())]);
    for (args, input, why) in [
        (&["--item", "nope"][..], "", "item 1 is not JSON"),
        (&["--item", "{}"], "", "item 1 has no string, number or boolean at /id for its key"),
        (&["--item", "[1", "--key", "a"], "", "item 1 is not JSON: EOF while parsing a list"),
        (&["--items", "-", "--envelope"], "{\"id\":\"a\"}", "line 1 is no envelope"),
        (
            &["--items", "-", "--envelope"],
            "{\"payload\":{}}",
            "line 1 has no string, number or boolean at /id",
        ),
        (
            &["--items", "-", "--envelope"],
            "{\"key\":\"a\",\"payload\":1,\"category\":\"a b\"}",
            "line 1 has a category that cannot be used: \"a b\" is no name",
        ),
        (&["--items", "-"], "\u{0}", "line 1 is not JSON"),
        (&["--items", "-", "--envelope"], "[\"z\",{\"q\":1},\"catz\"]", "line 1 is no envelope {\"key\""),
        (&["--item", "{\"id\":20261117000000000001}"], "", "item 1 has a key at /id that is no whole number"),
        (
            &["--items", "-", "--envelope"],
            "{\"key\":20261117000000000001,\"payload\":1}",
            "line 1 has a key at /key that is no whole number of 64 bits; write it as a string",
        ),
    ] {
        let args: Vec<&str> = ["submit", "p.toml"].into_iter().chain(args.iter().copied()).collect();
        let ran = place.start_with(&args, &[], input.as_bytes()).finish().expect(2);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.contains("0 admitted, 1 refused"), "{args:?}: {}", ran.stdout);
    }
    let report = place.json(&["show", "r1"]);
    assert_eq!((count(&report["counts"]["admitted"]), count(&report["counts"]["dead"])), (2, 0));
    let deep = "[".repeat(200);
    let many = format!("{deep}\n{}", "x\n".repeat(30));
    let ran =
        place.start_with(&["submit", "p.toml", "--items", "-"], &[], many.as_bytes()).finish().expect(2);
    assert!(ran.stderr.contains("line 1 is nested deeper than the 128 levels allowed"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("it is refused").count(), 20, "{}", ran.stderr);
    assert!(ran.stderr.contains("more are refused") && ran.stdout.contains("31 refused"), "{ran:?}");
}

#[test]
fn an_open_run_is_worked_on_until_nothing_is_left_and_stays_open() {
    let (server, place) = open();
    let empty = place.run(&["run", "p.toml"]).expect(0);
    assert!(empty.stdout.contains("over inbox: open"), "{}", empty.stdout);
    assert!(empty.stderr.contains("redrive close r1"), "{}", empty.stderr);
    stream(&place, &samples(3));
    let waiting = place.run(&["show"]).expect(0);
    assert!(waiting.stdout.contains("over inbox: open") && waiting.stderr.contains("redrive resume r1"));
    server.hold();
    let started = place.start(&["run", "p.toml"]);
    server.until_open(1);
    assert_eq!(place.json(&["show"])["status"], "running");
    // What comes meanwhile is worked on as well.
    stream(&place, &samples(5));
    server.release();
    started.finish().expect(0);
    assert_eq!(server.by_key().into_keys().collect::<Names>(), keys(5));
    let refused = place.run(&["run", "p.toml", "--new"]).expect(2);
    assert!(refused.stderr.contains("one open run for each category"), "{}", refused.stderr);
    server.hold();
    stream(&place, &samples(6));
    let stopped = place.start(&["run", "p.toml", "--json"]);
    server.until_open(1);
    stopped.signal("INT");
    stopped.until_said("stopping");
    server.release();
    assert_eq!(stopped.finish().expect(130).json()["status"], "interrupted");
    assert_eq!(place.json(&["show"])["status"], "open");
    place.check();
}

#[test]
fn a_paused_open_run_takes_items_which_wait() {
    let (server, place) = open();
    stream(&place, &samples(1));
    let paused = place.run(&["pause", "r1", "--json"]).expect(0).json();
    assert_eq!(paused["status"], "paused");
    let answer = stream(&place, &samples(2));
    assert_eq!((counts(&answer), &answer["runs"][0]["paused"]), ([1, 0, 1, 0], &json!(true)));
    place.run(&["run", "p.toml"]).expect(5);
    assert_eq!(server.count(), 0);
    assert_eq!(place.run(&["resume", "r1", "--json"]).expect(0).json()["status"], "open");
    assert_eq!(server.count(), 2);
    place.run(&["cancel", "r1", "--yes"]).expect(0);
    let next = stream(&place, &samples(2));
    assert_eq!((counts(&next), &next["runs"][0]["run"]), ([2, 0, 0, 0], &json!("r2")));
    place.run(&["close", "r1"]).expect(2);
    place.check();
}

#[test]
fn a_closed_run_ends_with_its_items_and_the_next_item_begins_another() {
    let (_server, place) = open();
    stream(&place, &samples(2));
    let closed = place.run(&["close", "r1", "--json"]).expect(0).json();
    assert_eq!((&closed["status"], &closed["admitted_all"]), (&json!("queued"), &json!(true)));
    let next = stream(&place, &samples(2));
    assert_eq!(
        (counts(&next), &next["runs"][0]["run"]),
        ([2, 0, 0, 0], &json!("r2")),
        "nothing is known there"
    );
    assert_eq!(place.run(&["resume", "r1", "--json"]).expect(0).json()["status"], "completed");
    assert!(place.json(&["show", "r1"])["finished_at"].is_string());
    assert_eq!(run_all(&place)["status"], "open");
    let empty = place.run(&["close", "r2"]).expect(0);
    assert!(empty.stdout.contains("completed"), "{}", empty.stdout);
    let again = place.run(&["close", "r2"]).expect(0);
    assert!(again.stderr.contains("run r2 was closed before"), "{}", again.stderr);
    assert!(place.json(&["show", "r2"])["finished_at"].is_string());
    place.write("lines.toml", crate::support::one_stage("kind = \"pass\""));
    place.write("in.jsonl", samples(1));
    place.run(&["submit", "lines.toml"]).expect(0);
    let other = place.run(&["close", "r3"]).expect(2);
    assert!(other.stderr.contains("run r3 reads a source, and ends with it"), "{}", other.stderr);
    // An open run is never old enough to be forgotten; closed ones are.
    stream(&place, &samples(1));
    place.run(&["prune", "--older-than", "0s", "--yes"]).expect(0);
    let left: Names = array(&place.json(&["runs"])["runs"]).iter().map(|run| text(&run["run"])).collect();
    assert_eq!(left, names(["r3", "r4"]));
    place.check();
}

#[test]
fn results_of_an_open_run_are_followed_until_it_is_closed() {
    let (_server, place) = open();
    stream(&place, &samples(2));
    let followed = place.start(&["results", "r1", "--follow"]);
    run_all(&place);
    followed.until_said("results follow until `redrive close r1` ends it");
    stream(&place, &samples(3));
    run_all(&place);
    place.run(&["close", "r1"]).expect(0);
    let lines = followed.finish().expect(0).stdout;
    assert_eq!(crate::support::results(&lines).into_keys().collect::<Names>(), keys(3));
}

#[test]
fn dead_items_of_an_open_run_are_sent_back_and_worked_on() {
    use crate::support::Answer;
    let server = Server::start(|call| match call.item().before {
        0 => Answer::status(422, "never"),
        _ => Answer::all(call),
    });
    let place = Place::with(&pipeline(&server.stage()), "");
    stream(&place, &samples(2));
    assert_eq!(run_all(&place)["status"], "open");
    assert_eq!(place.dead_keys(), keys(2));
    let sent = place.run(&["dead", "redrive", "--run", "r1", "--all", "--work", "--json"]).expect(0).json();
    assert_eq!((count(&sent["items"]), &sent["runs"][0]["status"]), (2, &json!("open")));
    assert_eq!(count(&place.json(&["show"])["counts"]["succeeded"]), 2);
    place.check();
}

#[test]
fn an_edited_pipeline_is_taken_over_and_other_stages_need_another_run() {
    let (_server, place) = open();
    place.write("p.toml", pipeline("kind = \"filter\"\nkeep = \"payload.n > 0\""));
    stream(&place, &samples(2));
    run_all(&place);
    assert_eq!(place.result_keys(), names([key(1)]));
    place.write("p.toml", pipeline("kind = \"filter\"\nkeep = \"payload.n >= 0\""));
    let answer = stream(&place, &samples(3));
    assert_eq!(answer["runs"][0]["edit"]["what"], "again", "{answer:#}");
    run_all(&place);
    assert_eq!(place.result_keys(), keys(3), "what the filter took out went again");
    place.write("p.toml", pipeline("kind = \"pass\"").replace("\"work\"", "\"other\""));
    let args = ["submit", "p.toml", "--item", "{\"id\":\"z\"}"];
    let refused = place.run(&args).expect(2);
    assert!(refused.stderr.contains("with other stages") && refused.stderr.contains("redrive close r1"));
    place.run(&["close", "r1"]).expect(0);
    place.run(&args).expect(0);
    wait::until("the new run is there", || array(&place.json(&["runs"])["runs"]).len() == 2);
    place.check();
}
