//! `--on-end COMMAND` is started once when work ends, whatever the end.

use serde_json::Value;

use crate::support::server::failed;
use crate::support::{Answer, Place, Server, one_stage, samples};

/// Writes what it is given into files named after the run.
const NOTE: &str = "echo \"$REDRIVE_RUN $REDRIVE_PIPELINE $REDRIVE_STATUS $REDRIVE_EXIT_CODE $REDRIVE_STORE\" >> ends; \
                    cat > report.json; echo told";

fn pass() -> Place {
    Place::with(&one_stage("kind = \"pass\""), &samples(3))
}

#[test]
fn it_is_given_the_report_and_says_its_words_on_standard_error() {
    let place = pass();
    let ran = place.run(&["run", "p.toml", "--json", "--on-end", NOTE]).expect(0);
    assert_eq!(place.read("ends"), "r1 test completed 0 sqlite:.redrive/state.db\n");
    let given: Value = serde_json::from_str(&place.read("report.json")).expect("a document");
    assert_eq!(given, ran.json(), "the document that --json prints");
    assert!(ran.stderr.contains("told\n"), "{}", ran.stderr);
    place.run(&["resume", "r1", "--on-end", NOTE]).expect(0);
    assert_eq!(place.read("ends").lines().count(), 2);
}

#[test]
fn it_is_told_of_failures_pauses_and_interruptions() {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no")).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    place.run(&["run", "p.toml", "--on-end", NOTE]).expect(4);
    assert!(place.read("ends").starts_with("r1 test failed 4 "), "{}", place.read("ends"));

    let budget =
        place.read("p.toml").replace("failure_budget = false", "failure_budget = { consecutive = 3 }");
    let place = Place::with(&budget, &samples(40));
    place.run(&["run", "p.toml", "--on-end", NOTE]).expect(5);
    // Nothing is done, and whoever waits for an end should know why.
    place.run(&["run", "p.toml", "--on-end", NOTE]).expect(5);
    let ends = place.read("ends");
    assert_eq!(ends.matches("r1 test paused_budget 5 ").count(), 2, "{ends}");

    let server = Server::start(Answer::all);
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2\n", server.stage())), &samples(30));
    let running = place.start(&["run", "p.toml", "--on-end", NOTE]);
    server.until_open(2);
    running.signal("TERM");
    running.until_said("stopping");
    server.release();
    running.finish().expect(130);
    assert!(place.read("ends").starts_with("r1 test interrupted 130 "), "{}", place.read("ends"));
}

#[test]
fn its_failure_is_a_warning_and_changes_nothing() {
    let place = pass();
    let ran = place.run(&["run", "p.toml", "--on-end", "exit 7"]).expect(0);
    assert!(
        ran.stderr.contains("warning: the command of --on-end ended with exit status: 7"),
        "{}",
        ran.stderr
    );
    let ran = place.run(&[
        "run",
        "p.toml",
        "--new",
        "--on-end",
        "echo one; echo two >&2; exit 7",
        "--log-format",
        "json",
    ]);
    let told: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let messages: Vec<&str> = told.iter().filter_map(|line| line["message"].as_str()).collect();
    assert!(messages.contains(&"one") && messages.contains(&"two"), "{messages:?}");
    assert!(told.iter().any(|line| line["level"] == "WARN"), "{told:?}");
    ran.expect(0);
}

#[test]
fn it_is_not_started_where_no_work_begins() {
    let place = pass();
    place.write("p.toml", "nonsense");
    place.run(&["run", "p.toml", "--on-end", NOTE]).expect(2);
    assert_eq!(place.read("ends"), "");
}

#[test]
fn a_worker_starts_it_once_for_each_run_that_ends() {
    let place = pass();
    place.run(&["submit", "p.toml"]).expect(0);
    place.write("other.toml", place.read("p.toml").replace("\"test\"", "\"other\""));
    place.run(&["submit", "other.toml"]).expect(0);
    place.run(&["work", "--until-idle", "--on-end", NOTE]).expect(0);
    let ends = place.read("ends");
    let mut ends: Vec<&str> = ends.lines().collect();
    ends.sort_unstable();
    let store = "sqlite:.redrive/state.db";
    assert_eq!(ends, [format!("r1 test completed 0 {store}"), format!("r2 other completed 0 {store}")]);
}

#[test]
fn indexing_starts_it_too() {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/a.txt", "the walrus and the carpenter");
    place.run(&["index", "docs", "--on-end", NOTE]).expect(0);
    assert!(place.read("ends").contains(" completed 0 "), "{}", place.read("ends"));
    let given: Value = serde_json::from_str(&place.read("report.json")).expect("a document");
    assert_eq!(given["status"], "completed");
}
