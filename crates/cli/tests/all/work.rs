//! One worker works on any number of runs, in a fair order.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::support::{Answer, Names, Place, Server, count, names, one_stage, samples, wait};

/// Hands over a run of so many items, with keys that begin with the run's name.
fn hand_over(place: &Place, name: &str, items: usize, more: &[&str]) -> Names {
    let file = format!("{name}.jsonl");
    let keys: Vec<String> = (0..items).map(|n| format!("{name}-{n}")).collect();
    let lines = keys.iter().enumerate().map(|(n, key)| format!("{}\n", json!({ "id": key, "n": n })));
    place.write(&file, lines.collect::<String>());
    let args: Vec<&str> =
        ["submit", "p.toml", "--input", &file].into_iter().chain(more.iter().copied()).collect();
    place.run(&args).expect(0);
    names(keys)
}

fn called(server: &Server) -> Vec<String> {
    server.calls().iter().flat_map(|call| call.items.iter().map(|item| item.key.clone())).collect()
}

fn place(server: &Server, more: &str) -> Place {
    Place::with(&one_stage(&format!("{}\n{more}", server.stage())), "")
}

#[test]
fn every_run_that_was_handed_over_is_worked_on_once() {
    let server = Server::good();
    let place = place(&server, "concurrency = 8");
    let mut all = BTreeSet::new();
    for run in 0..30 {
        all.extend(hand_over(&place, &format!("run{run}"), 4, &[]));
    }
    let served = place.run(&["work", "--until-idle", "--json"]).expect(0).json();
    assert_eq!((count(&served["finished"]), &served["left"]), (30, &json!({})), "{served}");
    let calls = called(&server);
    assert_eq!((names(&calls), calls.len()), (names(&all), 120), "each was called for once");
    let listed = place.json(&["runs", "--limit", "100"]);
    let listed = listed["runs"].as_array().or(listed.as_array()).expect("a list").clone();
    assert!(listed.iter().all(|run| run["status"] == "completed"), "{listed:?}");
    place.check();
    assert_eq!(count(&place.run(&["work", "--until-idle", "--json"]).expect(0).json()["finished"]), 0);
}

#[test]
fn new_runs_and_due_retries_compete_by_submission() {
    // The oldest waits for its retry, two are new, and the last one's retry is not due yet.
    let server = Server::start(|call| match call.item() {
        item if item.before == 0 && matches!(&*item.key, "oldest-0" | "late-0") => {
            Answer::status(500, "not yet")
        }
        _ => Answer::all(call),
    });
    let place = place(
        &server,
        "concurrency = 1\nretry.max_attempts = 3\nretry.jitter = \"none\"\n\
                                retry.backoff = { kind = \"fixed\", delay = \"1h\" }",
    );
    hand_over(&place, "oldest", 1, &[]);
    place.run(&["work", "--until-idle"]).expect(3);
    hand_over(&place, "second", 1, &[]);
    hand_over(&place, "third", 1, &[]);
    hand_over(&place, "late", 1, &["--category", "late"]);
    place.run(&["work", "--until-idle", "--categories", "late"]).expect(3);
    let due = "UPDATE item SET due = 1 WHERE state = 0 AND key = 'oldest-0'";
    rusqlite::Connection::open(place.path(".redrive/state.db")).expect("open").execute(due, []).expect("due");
    // One at a time: of runs that are opened together, nobody says whose first call is made first.
    place.run(&["work", "--until-idle", "--runs-at-once", "1"]).expect(3);
    assert_eq!(called(&server), ["oldest-0", "late-0", "oldest-0", "second-0", "third-0"]);
    place.check();
}

#[test]
fn a_higher_priority_goes_first_and_no_run_starves_another() {
    let server = Server::good();
    let place = place(&server, "concurrency = 1");
    hand_over(&place, "large", 200, &[]);
    hand_over(&place, "small", 5, &[]);
    hand_over(&place, "urgent", 5, &["--priority", "9"]);
    place.run(&["work", "--until-idle"]).expect(0);
    let calls = called(&server);
    let last = |of: &str| calls.iter().rposition(|key| key.starts_with(of)).expect("called");
    assert_eq!(calls.len(), 210);
    assert!(last("urgent") < 20, "{calls:?}");
    assert!(last("small") < 60, "every fifth place is for those that do not go first: {calls:?}");
}

#[test]
fn no_run_starves_another_at_a_stage_that_is_not_the_first() {
    let server = Server::good();
    let stages = format!("kind = \"pass\"\n[[stage]]\nname = \"slow\"\n{}\nconcurrency = 2", server.stage());
    let place = Place::with(&one_stage(&stages), "");
    hand_over(&place, "large", 600, &[]);
    hand_over(&place, "small", 40, &[]);
    place.run(&["work", "--until-idle"]).expect(0);
    let calls = called(&server);
    let last = calls.iter().rposition(|key| key.starts_with("small")).expect("called");
    assert_eq!(calls.len(), 640);
    assert!(last < 40 * 5 + 60, "every fifth place is for those that do not go first: {last} {calls:?}");
}

#[test]
fn a_worker_takes_only_the_categories_and_pipelines_it_was_given() {
    let server = Server::good();
    let place = place(&server, "");
    let night = hand_over(&place, "night", 3, &["--category", "night"]);
    hand_over(&place, "day", 3, &["--category", "day"]);
    hand_over(&place, "none", 3, &[]);
    place.run(&["work", "--until-idle", "--categories", "night,weekly"]).expect(0);
    assert_eq!(names(called(&server)), night);
    place.run(&["work", "--until-idle", "--pipelines", "other"]).expect(0);
    assert_eq!(server.count(), 3);
    place.run(&["work", "--until-idle", "--pipelines", "test"]).expect(0);
    assert_eq!(server.count(), 9);
}

#[test]
fn what_a_killed_command_left_is_gone_on_with_to_the_end_of_its_source() {
    let server = Server::good();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2", server.stage())), &samples(40));
    server.hold();
    let started = place.start(&["run", "p.toml"]);
    server.until_open(2);
    started.kill();
    server.release();
    place.run(&["work", "--until-idle", "--max-wait", "5s"]).expect(0);
    let run = place.json(&["show", "r1"]);
    assert_eq!((&run["status"], count(&run["counts"]["succeeded"])), (&json!("completed"), 40), "{run}");
    place.check();
}

#[test]
fn a_finished_run_that_is_handed_over_again_is_read_anew() {
    let server = Server::good();
    let place = place(&server, "");
    hand_over(&place, "run", 3, &[]);
    place.run(&["work", "--until-idle"]).expect(0);
    let all = hand_over(&place, "run", 5, &[]);
    place.run(&["work", "--until-idle"]).expect(0);
    assert_eq!((names(called(&server)), server.count()), (all, 5), "what is new is worked on");
    assert_eq!(place.json(&["show", "r1"])["status"], "completed");
}

#[test]
fn a_standing_run_is_served_whenever_something_is_handed_in() {
    let server = Server::good();
    let pipeline = one_stage(&server.stage()).replace("path = \"in.jsonl\"", "kind = \"inbox\"");
    let place = Place::with(&pipeline, "");
    let worker = place.start(&["work"]);
    for n in 0..4 {
        let item = json!({ "id": format!("k{n}"), "n": n }).to_string();
        place.run(&["submit", "p.toml", "--item", &item, "--item", &item]).expect(0);
        server.until_called(n + 1);
    }
    worker.signal("TERM");
    worker.finish().expect(0);
    assert_eq!(called(&server).len(), 4, "each once");
    assert_eq!(place.json(&["show", "r1"])["status"], "open");
    place.check();
}

#[test]
fn a_run_that_cannot_be_worked_on_here_is_told_and_harms_no_other() {
    let server = Server::good();
    let place = place(&server, "");
    let good = hand_over(&place, "good", 3, &[]);
    place.write(
        "secret.toml",
        one_stage(&format!("{}\nheader_env = {{ X-Key = \"NOT_SET_HERE\" }}", server.stage())),
    );
    place.write("in.jsonl", samples(2));
    place.run_with(&["submit", "secret.toml"], &[("NOT_SET_HERE", "value-of-a-key")]).expect(0);
    let ran = place.run(&["work", "--until-idle", "--json"]).expect(2);
    let served = ran.json();
    assert_eq!(names(called(&server)), good);
    assert!(served["unworkable"]["r2"].to_string().contains("NOT_SET_HERE"), "{served}");
    assert!(ran.stderr.contains("run r2 cannot be worked on here"), "{}", ran.stderr);
}

#[test]
fn a_worker_that_waits_takes_what_is_handed_over_and_a_word_to_stop_costs_no_attempt() {
    let server = Server::good();
    let place = place(&server, "concurrency = 4");
    let worker = place.start(&["work"]);
    hand_over(&place, "first", 3, &[]);
    server.until_called(3);
    hand_over(&place, "second", 3, &[]);
    server.until_called(6);
    server.hold();
    hand_over(&place, "third", 3, &[]);
    server.until_open(3);
    worker.signal("TERM");
    worker.until_said("stopping");
    server.release();
    worker.finish().expect(0);
    let run = place.json(&["show", "r3"]);
    let attempts = &run["attempts"];
    assert_eq!((count(&attempts["crashes"]), count(&attempts["failures"])), (0, 0), "{run}");
    place.run(&["work", "--until-idle"]).expect(0);
    assert_eq!(called(&server).len(), 9);
    place.check();
}

#[test]
fn two_workers_of_which_one_is_killed_again_and_again_lose_nothing() {
    const SECONDS: u64 = 12;
    let server = Server::good();
    let place = place(
        &server,
        "concurrency = 4\nretry.on.crash = { backoff = { kind = \"fixed\", delay = \"20ms\" } }\n\
                                retry.crash_limit = 50",
    );
    let mut all = BTreeSet::new();
    for run in 0..40 {
        all.extend(hand_over(&place, &format!("run{run}"), 25, &[]));
    }
    let steady = place.start(&["work", "-q"]);
    let (begun, mut kills) = (wait::now(), 0);
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        let other = place.start(&["work", "-q"]);
        wait::work(Duration::from_millis(700));
        other.kill();
        kills += 1;
    }
    steady.signal("TERM");
    steady.finish().expect(0);
    place.run(&["work", "--until-idle", "--max-wait", "10s"]).expect(0);
    assert!(kills >= 5, "{kills} kills");
    assert_eq!(names(called(&server)), names(&all));
    let done: u64 =
        (1..=40).map(|run| count(&place.json(&["show", &format!("r{run}")])["counts"]["succeeded"])).sum();
    assert_eq!(done, 1_000);
    place.check();
}

#[test]
fn names_that_no_run_can_have_are_refused_and_those_that_none_has_are_told() {
    let server = Server::good();
    let place = place(&server, "");
    hand_over(&place, "one", 1, &[]);
    for (args, why) in [
        (["--categories", ""], "'--categories <NAME>'"),
        (["--categories", "a b"], "\"a b\" is no name"),
        (["--pipelines", "a/b"], "'--pipelines <NAME>'"),
    ] {
        let ran = place.run(&[&["work", "--until-idle"][..], &args].concat()).expect(2);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
    }
    let typo = place.run(&["work", "--until-idle", "--pipelines", "tset"]).expect(0);
    assert!(typo.stderr.contains("hint: no run of this store is of a pipeline tset"), "{}", typo.stderr);
    let right = place.run(&["work", "--until-idle", "--pipelines", "test"]).expect(0);
    assert!(!right.stderr.contains("no run of this store"), "{}", right.stderr);
}

#[test]
fn a_worker_that_has_nothing_to_do_has_told_what_its_gates_counted() {
    let server = Server::good();
    let place = place(&server, "gate = \"api\"\n[gate.api]\n");
    let worker = place.start(&["work"]);
    hand_over(&place, "one", 30, &[]);
    place.until_json(&["gates"], |list| list["gates"][0]["totals"]["calls"] == 30);
    worker.kill();
    assert_eq!(server.count(), 30);
}

#[test]
fn a_run_whose_input_broke_off_is_named_every_time() {
    let server = Server::good();
    let place = place(&server, "");
    let mut handing = place.start_open(&["submit", "p.toml", "--input", "-"], &[]);
    handing.say(&samples(5));
    wait::until("they are admitted", || {
        let runs = place.run(&["runs", "--json"]);
        runs.code() == Some(0) && runs.json()["runs"][0]["counts"]["admitted"] == 5
    });
    handing.kill();
    for _ in 0..2 {
        let served = place.run(&["work", "--until-idle", "--json"]).expect(130).json();
        assert_eq!(served["left"], json!({ "r1": "queued" }), "{served}");
    }
    assert_eq!(server.count(), 5);
}
