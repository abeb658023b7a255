//! Items go again by somebody's word: `redrive retry` and `redrive rerun`.

use serde_json::json;

use crate::support::server::{Answer, Item, Server, failed, passed};
use crate::support::{Names, Place, key, keys, one_stage, samples, text};

const ITEMS: usize = 6;
const HOUR: &str =
    "retry.max_attempts = 3\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }\nretry.jitter = \"none\"";

/// A service that fails the first try of some keys, each with words of its own kind.
fn failing_first(bad: &'static [(&'static str, &'static str)]) -> Server {
    Server::start(move |call| {
        let one = |item: &Item| match bad.iter().find(|(key, _)| *key == item.key) {
            Some((_, words)) if item.before == 0 => failed(item, "retryable", words),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    })
}

fn waiting(server: &Server) -> Place {
    let place = Place::with(&one_stage(&format!("{}\n{HOUR}", server.stage())), &samples(ITEMS));
    place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    place
}

#[test]
fn a_waiting_item_goes_now_though_a_worker_sleeps_for_an_hour() {
    let server = failing_first(&[("k0002", "later")]);
    let place = Place::with(&one_stage(&format!("{}\n{HOUR}", server.stage())), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--results", "out.jsonl"]);
    place.until_json(&["show"], |run| run["counts"]["succeeded"] == ITEMS - 1);
    let told = place.json(&["retry", "k0002"]);
    assert_eq!((&told["items"], &told["skipped"], &told["held"]), (&json!(1), &json!(0), &json!([])));
    started.finish().expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let life = place.json(&["explain", "k0002"]);
    let marks: Vec<String> =
        life["marks"].as_array().expect("marks").iter().map(|mark| text(&mark["what"])).collect();
    assert_eq!(marks, ["rescheduled"]);
    let operation = &place.json(&["dead", "operations"])["operations"][0];
    assert_eq!((&operation["kind"], &operation["state"]), (&json!("retry"), &json!("done")));
    place.check();
}

#[test]
fn work_on_what_is_told_to_go_ends_when_it_has_ended_or_waits_again() {
    let server = Server::start(|call| {
        let one = |item: &Item| match (item.key.as_str(), item.before) {
            ("k0001" | "k0003", 0) | ("k0004", 0 | 1) => failed(item, "retryable", "later"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = waiting(&server);
    let state = |key: &str| place.json(&["explain", key])["item"]["state"].clone();
    // The others of its run wait for an hour, and nobody waits for them.
    let told = place.run(&["retry", "k0001", "--work", "--json"]).expect(3).json();
    assert_eq!((&told["items"], &told["runs"][0]["status"]), (&json!(1), &json!("partially_completed")));
    assert_eq!((state("k0001"), state("k0003")), (json!("succeeded"), json!("waiting")));
    // One that fails again waits again, which ends it as well.
    place.run(&["retry", "k0004", "--work"]).expect(3);
    assert_eq!(state("k0004"), "waiting");
    assert_eq!(place.json(&["explain", "k0004"])["item"]["failures"], 2);
    // What is to go later is waited for.
    place.run(&["retry", "--run", "r1", "--in", "300ms", "--work"]).expect(0);
    assert_eq!(place.json(&["show"])["status"], "completed");
    place.check();
}

#[test]
fn what_was_told_to_go_before_is_worked_on_all_the_same() {
    let server = failing_first(&[("k0001", "later")]);
    let place = waiting(&server);
    let told = place.run(&["retry", "k0001"]).expect(0).stderr;
    assert!(told.contains("nobody works on run r1"), "{told}");
    let again = place.run(&["retry", "k0001"]).expect(0).stderr;
    assert!(again.contains("nobody works on run r1"), "{again}");
    let shown = place.run(&["show"]).stderr;
    assert!(shown.contains("what waits is due: `redrive resume r1` works on it"), "{shown}");
    place.run(&["retry", "k0001", "--work", "--json"]).expect(0);
    assert_eq!(place.json(&["explain", "k0001"])["item"]["state"], "succeeded");
}

#[test]
fn what_is_not_admitted_yet_is_not_said_to_be_unknown() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run(&["run", "p.toml", "--limit", "1"]).expect(0);
    let told = place.run(&["explain", "k0003"]).expect(2).stderr;
    assert!(told.contains("run r1 has not read all of its source"), "{told}");
    place.run(&["run", "p.toml"]).expect(0);
    let told = place.run(&["explain", "k9999"]).expect(2).stderr;
    assert!(!told.contains("has not read all"), "{told}");
}

#[test]
fn only_those_go_that_are_meant() {
    let server =
        failing_first(&[("k0001", "quota of ann"), ("k0003", "no such model"), ("k0004", "no such model")]);
    let place = waiting(&server);
    place.run(&["retry"]).expect(2);
    place.run(&["retry", "--stage", "nowhere"]).expect(2);
    let listed = place.json(&["items", "--state", "waiting"]);
    let group = listed["items"][1]["group"].clone();
    assert_eq!(
        (&listed["items"][1]["key"], &listed["items"][1]["message"]),
        (&json!("k0003"), &json!("no such model"))
    );
    let ahead = place.json(&["retry", "--text", "model", "--dry-run"]);
    assert_eq!((&ahead["items"], &ahead["dry_run"]), (&json!(2), &json!(true)));
    assert_eq!(ahead["held"], json!([{ "by": "nobody", "run": "r1" }]), "a preview says what will hold them");
    assert_eq!(place.json(&["retry", "--class", "timeout"])["items"], 0);
    let told = place.json(&["retry", "--group", &text(&group)]);
    assert_eq!((&told["items"], &told["held"]), (&json!(2), &json!([{ "by": "nobody", "run": "r1" }])));
    place.run(&["resume", "r1", "--max-wait", "1s"]).expect(3);
    assert_eq!(place.json(&["show", "r1"])["counts"]["succeeded"], 5);
    assert_eq!(place.json(&["retry", "--group", &text(&group)])["items"], 0, "said again, nothing is left");
    let calls: Names =
        server.by_key().into_iter().filter(|(_, calls)| calls.len() == 2).map(|(key, _)| key).collect();
    assert_eq!(calls, [key(3), key(4)].into());
    place.check();
}

#[test]
fn a_wait_is_made_longer_but_never_past_the_deadline() {
    let server = failing_first(&[("k0001", "later")]);
    let place = waiting(&server);
    let told = place.json(&["retry", "--run", "r1", "--in", "10h"]);
    assert_eq!(told["items"], 1);
    let due = text(&place.json(&["items", "--state", "waiting"])["items"][0]["due"]);
    assert_eq!(due[..19], text(&told["due"])[..19], "to the second: {told}");
    let told = place.json(&["retry", "--run", "r1", "--in", "30h"]);
    assert_eq!((&told["items"], &told["skipped"]), (&json!(0), &json!(1)), "its deadline is in 24 hours");
    place.check();
}

#[test]
fn what_does_not_wait_is_told_apart_with_a_way_out() {
    let server = Server::start(|call| match &*call.item().key {
        "k0001" => Answer::results(&[failed(call.item(), "final", "no")]),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(3);
    let dead = place.run(&["retry", "k0001"]).expect(2).stderr;
    assert!(dead.contains("is dead") && dead.contains("dead redrive --item"), "{dead}");
    let done = place.run(&["retry", "k0002"]).expect(2).stderr;
    assert!(done.contains("redrive rerun r1"), "{done}");
}

#[test]
fn what_holds_an_item_up_all_the_same_is_told() {
    let server = failing_first(&[("k0001", "later")]);
    let place = waiting(&server);
    let told = place.json(&["retry", "k0001"]);
    assert_eq!(told["held"], json!([{ "by": "nobody", "run": "r1" }]));
    place.run(&["pause", "r1"]).expect(0);
    let said = place.run(&["retry", "k0001", "--in", "1m"]).expect(0).stderr;
    assert!(said.contains("run r1 is paused") && said.contains("redrive resume r1"), "{said}");
}

fn two_stages(first: &Server, second: &Server, reuse: &str) -> String {
    let stages =
        format!("{}\n{reuse}\n[[stage]]\nname = \"second\"\n{}\n{reuse}", first.stage(), second.stage());
    one_stage(&stages)
}

#[test]
fn what_has_succeeded_is_done_again_from_the_start_where_nothing_is_kept() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    let ahead = place.json(&["rerun", "r1", "--stage", "second", "--dry-run"]);
    assert_eq!((&ahead["from_start"], &ahead["from_stage"]), (&json!(ITEMS), &json!(0)));
    assert_eq!((first.count(), second.count()), (ITEMS, ITEMS), "nothing was done");
    let told = place.json(&["rerun", "r1", "--stage", "second", "--yes", "--work"]);
    assert_eq!((&told["from_start"], &told["report"]["status"]), (&json!(ITEMS), &json!("completed")));
    assert_eq!((first.count(), second.count()), (2 * ITEMS, 2 * ITEMS));
    place.check();
}

/// Items that went again from the start were superseded until somebody read them; a check took them for lost.
#[test]
fn a_rerun_that_nobody_works_on_yet_breaks_no_law() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    assert_eq!(place.json(&["rerun", "r1", "--stage", "second", "--yes"])["from_start"], ITEMS);
    place.check();
    place.run(&["resume", "r1"]).expect(0);
    assert_eq!((first.count(), second.count()), (2 * ITEMS, 2 * ITEMS));
    place.check();
}

#[test]
fn an_item_keeps_what_it_came_to_until_it_goes_again_and_every_law_holds() {
    let (first, second) = (Server::good(), Server::good());
    for between in ["nothing", "emptied", "edited", "gone", "cancelled"] {
        let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
        place.run(&["run", "p.toml"]).expect(0);
        let source = place.path("in.jsonl");
        let lines = std::fs::read_to_string(&source).expect("the source");
        let told = place.json(&["rerun", "r1", "--stage", "second", "--yes"]);
        assert_eq!(told["from_start"], ITEMS, "{between}");
        place.check();
        match between {
            "emptied" => std::fs::write(&source, "").expect("written"),
            "edited" => std::fs::write(&source, lines.replacen("k0001", "other", 1)).expect("written"),
            "gone" => std::fs::remove_file(&source).expect("removed"),
            "cancelled" => drop(place.run(&["cancel", "r1", "--yes"]).expect(0)),
            _ => {}
        }
        place.check();
        if between != "cancelled" {
            place.run(&["resume", "r1"]).expect(0);
        }
        place.check();
        let counts = &place.json(&["show", "r1"])["counts"];
        let left = match between {
            "cancelled" => &counts["cancelled"],
            _ => &counts["succeeded"],
        };
        assert_eq!(left, &json!(ITEMS), "{between}: {counts}");
    }
}

#[test]
fn what_the_source_does_not_have_any_more_stays_as_it_is_and_a_preview_knows_it() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    let source = place.path("in.jsonl");
    let lines = std::fs::read_to_string(&source).expect("the source");
    let kept: Vec<&str> = lines.lines().skip(1).collect();
    std::fs::write(&source, kept.join("\n") + "\n").expect("written");
    for args in [&["--dry-run"][..], &["--yes"]] {
        let told = place.json(&[&["rerun", "r1", "--stage", "second"], args].concat());
        assert_eq!((&told["from_start"], &told["gone"]), (&json!(ITEMS - 1), &json!(1)), "{args:?}");
        assert_eq!(first.count(), ITEMS, "nothing was worked on");
    }
    place.check();
}

#[test]
fn items_of_a_part_are_done_again_and_nothing_else_of_the_source_is_admitted() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
    place.run(&["run", "p.toml", "--limit", "2"]).expect(0);
    let told = place.json(&["rerun", "r1", "--stage", "second", "--yes", "--work"]);
    assert_eq!((&told["from_start"], &told["report"]["counts"]["admitted"]), (&json!(2), &json!(2)));
    assert_eq!((first.count(), second.count()), (4, 4));
    place.check();
}

#[test]
fn a_rerun_that_nobody_has_worked_on_goes_on_when_it_is_said_again_with_work() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, ""), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    place.json(&["rerun", "r1", "--stage", "second", "--yes"]);
    let told = place.json(&["rerun", "r1", "--stage", "second", "--yes", "--work"]);
    assert_eq!((&told["goes_on"], &told["report"]["status"]), (&json!(true), &json!("completed")));
    assert_eq!((first.count(), second.count()), (2 * ITEMS, 2 * ITEMS), "each was done again once");
    let again = place.json(&["rerun", "r1", "--stage", "second", "--yes", "--work"]);
    assert_eq!(
        (&again["goes_on"], &again["from_start"]),
        (&json!(false), &json!(ITEMS)),
        "that was another word"
    );
    place.check();
}

#[test]
fn kept_outputs_are_used_before_the_stage_and_made_anew_from_it_on() {
    let (first, second) = (Server::good(), Server::good());
    let place = Place::with(&two_stages(&first, &second, "reuse = true"), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    let told =
        place.json(&["rerun", "--stage", "second", "--key", "k0002", "--key", "k0004", "--yes", "--work"]);
    assert_eq!((&told["from_stage"], &told["from_start"]), (&json!(2), &json!(0)));
    assert_eq!((first.count(), second.count()), (ITEMS, ITEMS + 2));
    let again = second.by_key().into_iter().filter(|(_, calls)| calls.len() == 2).map(|(key, _)| key);
    assert_eq!(again.collect::<Names>(), [key(2), key(4)].into());
    let missing = place.run(&["rerun", "--stage", "second", "--key", "nobody", "--yes"]).expect(2).stderr;
    assert!(missing.contains("nobody"), "{missing}");
    place.check();
}

#[test]
fn what_came_by_standard_input_stays_unless_its_content_is_kept() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "");
    let input = samples(ITEMS);
    place.start_with(&["run", "p.toml", "--input", "-"], &[], input.as_bytes()).finish().expect(0);
    let told = place.json(&["rerun", "--stage", "work", "--yes"]);
    assert_eq!((&told["not_kept"], &told["from_start"]), (&json!(ITEMS), &json!(0)));
    assert_eq!(place.json(&["show"])["counts"]["succeeded"], ITEMS, "nothing was touched");
    place.check();
}

#[test]
fn what_a_stage_filtered_goes_again_from_it_and_other_stages_are_named() {
    let server = Server::start(|call| {
        let one = |item: &Item| match (&*item.key, item.before) {
            ("k0001", 0) => json!({ "id": item.id, "filtered": "dull" }),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(0);
    let told = place.json(&["rerun", "--stage", "work", "--key", "k0001", "--yes", "--work"]);
    assert_eq!((&told["from_stage"], &told["report"]["counts"]["succeeded"]), (&json!(1), &json!(ITEMS)));
    let wrong = place.run(&["rerun", "--stage", "wrk", "--yes"]).expect(2).stderr;
    assert!(wrong.contains("its stages are work"), "{wrong}");
    place.check();
}

#[test]
fn a_preview_of_a_retry_says_what_will_hold_the_items() {
    let server = failing_first(&[("k0001", "later")]);
    let place = waiting(&server);
    place.run(&["gates", "pause", server.address()]).expect(0);
    let ahead = place.json(&["retry", "k0001", "--dry-run"]);
    let by: Vec<String> =
        ahead["held"].as_array().expect("a list").iter().map(|it| text(&it["by"])).collect();
    assert_eq!(by, ["nobody", "gate"], "{ahead}");
    place.run(&["pause", "r1"]).expect(0);
    let ahead = place.run(&["retry", "k0001", "--dry-run"]).expect(0);
    assert!(ahead.stdout.contains("1 waiting item would go now"), "{}", ahead.stdout);
    for held in ["run r1 is paused", "lets nothing through"] {
        assert!(ahead.stderr.contains(held), "{}", ahead.stderr);
    }
    place.check();
}

#[test]
fn a_key_of_several_runs_means_the_one_item_that_waits() {
    let server = Server::start(|call| {
        let one = |item: &Item| match (&*item.key, item.before) {
            ("k0001", 1..) => failed(item, "retryable", "later"),
            ("k0002", _) => failed(item, "retryable", "later"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&format!("{}\n{HOUR}", server.stage())), &samples(ITEMS));
    place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    place.run(&["run", "p.toml", "--new", "--max-wait", "1s"]).expect(3);
    assert_eq!(place.json(&["items", "--state", "waiting"])["items"].as_array().map(Vec::len), Some(3));
    let told = place.json(&["retry", "k0001", "--dry-run"]);
    assert_eq!((&told["items"], &told["held"][0]["run"]), (&json!(1), &json!("r2")), "it has passed in r1");
    let refused = place.run(&["retry", "k0002"]).expect(2);
    assert!(refused.stderr.contains("several items are called k0002"), "both wait: {}", refused.stderr);
    let none = place.run(&["retry", "k0003"]).expect(2);
    assert!(none.stderr.contains("several items are called k0003"), "none waits: {}", none.stderr);
}
