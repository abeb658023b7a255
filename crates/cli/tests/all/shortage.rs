//! What the machine is short of is no item's fault; what an answer asks for is no item's end.

use std::os::unix::fs::PermissionsExt;

use crate::support::server::failed;
use crate::support::{Answer, Place, Server, count, one_stage, quick_retry, samples, text, wait};

/// A handler that answers everything.
const GOOD: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"results": [{"id": item["id"], "output": 1} for item in request["items"]]}), flush=True)
"#;

#[test]
fn a_shortage_of_files_costs_no_item_an_attempt() {
    let stage = "kind = \"command\"\ncommand = [\"python3\", \"good.py\"]\nconcurrency = 40\nretry.max_attempts = 1\n";
    let place = Place::with(&one_stage(stage), &samples(300));
    place.write("good.py", GOOD);
    let limited = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let ran = place.start_under(&limited, &["run", "p.toml", "--json"]).finish().expect(0);
    let report = ran.json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"])), (300, 0));
    assert_eq!(ran.stderr.matches("cannot start more than").count(), 1, "told once: {}", ran.stderr);
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report}");
    place.check();
}

#[test]
fn a_shortage_of_files_costs_no_item_of_a_service_an_attempt() {
    let server = Server::start(|call| {
        wait::work(std::time::Duration::from_millis(20));
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = 60\nretry.max_attempts = 1\n", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(300));
    let limited = ["sh", "-c", "ulimit -n 40; exec \"$@\"", "sh"];
    let report = place.start_under(&limited, &["run", "p.toml", "--json"]).finish().expect(0).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"])), (300, 0));
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report}");
    assert!(count(&report["attempts"]["throttles"]) > 0, "it met a shortage: {report}");
    place.check();
}

#[test]
fn a_shortage_of_files_loses_no_file_of_an_index() {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    for n in 0..40 {
        place.write(&format!("docs/{n}.md"), format!("# Page {n}\n\nA walrus with number {n}.\n"));
    }
    // So few files are enough for the store, and not for a child.
    let limited = ["sh", "-c", "ulimit -n 32; exec \"$@\"", "sh"];
    let short = place.start_under(&limited, &["index", "docs", "--processes", "4"]);
    short.until_said("cannot start more than");
    place.until_json(&["show"], |run| count(&run["attempts"]["throttles"]) > 0);
    short.signal("TERM");
    drop(short.finish());
    let report = place.json(&["show"]);
    assert_eq!(
        (count(&report["attempts"]["failures"]), count(&report["counts"]["dead"])),
        (0, 0),
        "{report}"
    );
    place.run(&["index", "docs", "--processes", "2"]).expect(0);
    let found = place.json(&["search", "walrus", "-k", "50", "--mode", "words"]);
    assert_eq!(crate::support::array(&found["hits"]).len(), 40, "{found}");
    assert_eq!(place.dead_keys(), crate::support::Names::new());
    place.check();
}

#[test]
fn a_program_that_vanishes_while_a_run_is_worked_on_is_a_final_mistake() {
    let stage = format!("kind = \"command\"\ncommand = [\"./once\"]\n{}", quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(2));
    place.write("once", "#!/bin/sh\nrm -f once\nexit 1\n");
    std::fs::set_permissions(place.path("once"), PermissionsExt::from_mode(0o755)).expect("changed");
    let report = place.run(&["run", "p.toml", "--json"]).expect(4).json();
    assert_eq!(count(&report["counts"]["dead"]), 2);
    for dead in place.dead() {
        assert_eq!(dead["reason"], "final", "{dead}");
        assert!(text(&dead["message"]).contains("there is no such program"), "{dead}");
    }
}

#[test]
fn a_hint_on_any_class_parks_the_item_and_never_kills_it() {
    for class in ["retryable", "timeout", "rate_limited"] {
        let server = Server::start(move |call| {
            let item = call.item();
            let mut result = failed(item, class, "busy");
            result["error"]["retry_after_ms"] = 90_000_000_u64.into();
            Answer::results(&[result])
        });
        let stage = format!("{}\ngate = \"plain\"\n", server.stage());
        let place =
            Place::with(&format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage)), &samples(1));
        let report = place.run(&["run", "p.toml", "--max-wait", "1s", "--json"]).expect(3).json();
        assert_eq!(count(&report["counts"]["waiting"]), 1, "{class}: {report}");
        let now = text(&place.json(&["explain", "k0000"])["now"]);
        assert!(now.contains("hint_cap") || now.contains("gate"), "{class}: {now}");
        place.check();
    }
}

#[test]
fn a_shortage_of_files_at_the_start_is_told_in_words() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.run(&["run", "p.toml"]).expect(0);
    let limited = ["sh", "-c", "ulimit -n 6; exec \"$@\"", "sh"];
    let ran = place.start_under(&limited, &["items", "-n", "1"]).finish().expect(1);
    assert!(ran.stderr.starts_with("error: cannot start: Too many open files"), "{}", ran.stderr);
}
