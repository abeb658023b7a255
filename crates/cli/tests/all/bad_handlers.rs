//! Handlers that answer anything but what they should: each leads to its class, nothing hangs, nothing is lost.

use crate::support::server::{failed, passed};
use crate::support::{
    Answer, Call, Names, Place, Server, array, count, key, keys, names, one_stage, quick_retry, samples,
};
use serde_json::{Value, json};

const ITEMS: usize = 4;
const ATTEMPTS: u32 = 2;

/// What every item of a run has to end as: reason, class and kind of its last failure, and what its message says.
struct End(&'static str, &'static str, &'static str, &'static str);

/// Runs a pipeline whose handler is bad for every item, and compares how the items end.
fn all_end(what: &str, place: &Place, attempts: u32, end: &End) {
    let report = place.run_pipeline(4);
    let End(reason, class, kind, message) = end;
    assert_eq!(place.dead_keys(), keys(ITEMS), "{what}");
    assert_eq!(place.result_keys(), Names::new(), "{what}");
    for item in place.dead() {
        assert_eq!((&item["reason"], &item["class"]), (&json!(reason), &json!(class)), "{what}: {item}");
        assert!(crate::support::text(&item["message"]).contains(message), "{what}: {item}");
    }
    let life = place.json(&["explain", &key(0)]);
    let tries = array(&life["attempts"]);
    assert_eq!(tries.len(), attempts as usize, "{what}: {tries:?}");
    assert!(tries.iter().all(|row| row["class"] == *class && row["kind"] == *kind), "{what}: {tries:?}");
    assert_eq!(count(&report["attempts"]["total"]), u64::from(attempts) * ITEMS as u64, "{what}");
    place.check();
}

type Plan = fn(&Call) -> Answer;

/// An HTTP handler, how often an item is tried, and how it ends.
const SERVICES: &[(&str, Plan, u32, End)] = &[
    (
        "garbage",
        |_| Answer::status(200, "\u{1}}{"),
        2,
        End("exhausted", "retryable", "answer", "not a JSON object"),
    ),
    (
        "HTML",
        |_| Answer::status(200, "<!doctype html><p>Sorry"),
        2,
        End("exhausted", "retryable", "answer", "HTML"),
    ),
    ("nothing", |_| Answer::status(200, ""), 2, End("exhausted", "retryable", "answer", "empty")),
    (
        "no results",
        |_| Answer::status(200, "{\"ok\":true}"),
        2,
        End("exhausted", "retryable", "answer", "has no \"results\""),
    ),
    (
        "results that are no list",
        |_| Answer::status(200, "{\"results\":7}"),
        2,
        End("exhausted", "retryable", "answer", "no list"),
    ),
    ("too few", |_| Answer::results(&[]), 2, End("exhausted", "retryable", "answer", "left out")),
    (
        "unknown ids",
        |_| Answer::results(&[json!({ "id": "0123", "output": 1 })]),
        2,
        End("exhausted", "retryable", "answer", "for no item of the request"),
    ),
    (
        "the same twice",
        |call| Answer::results(&[passed(call.item()), passed(call.item())]),
        2,
        End("exhausted", "retryable", "answer", "twice"),
    ),
    (
        "two things at once",
        |call| Answer::results(&[json!({ "id": call.item().id, "output": 1, "filtered": "no" })]),
        2,
        End("exhausted", "retryable", "answer", "more than one thing"),
    ),
    (
        "an unknown class",
        |call| Answer::results(&[failed(call.item(), "bad_mood", "not today")]),
        2,
        End("exhausted", "retryable", "unknown", "bad_mood"),
    ),
    ("an endless body", |_| Answer::Endless, 2, End("exhausted", "retryable", "answer", "larger than")),
    ("never", |_| Answer::Never, 2, End("exhausted", "timeout", "timeout", "no answer within")),
    ("cut off", |_| Answer::Cut, 2, End("exhausted", "retryable", "connection", "connection broken")),
    ("cut off inside", |_| Answer::CutInside, 2, End("exhausted", "retryable", "connection", "broken off")),
    (
        "a redirect",
        |_| Answer::Http(302, vec![("Location", "http://127.0.0.1:1/".to_owned())], String::new()),
        1,
        End("final", "final", "answer", "redirects are not followed"),
    ),
    ("forbidden", |_| Answer::status(403, "no"), 1, End("final", "final", "client", "HTTP 403")),
    ("too large", |_| Answer::status(413, "no"), 1, End("final", "oversized", "client", "HTTP 413")),
    ("gateway timeout", |_| Answer::status(504, "no"), 2, End("exhausted", "timeout", "server", "HTTP 504")),
];

#[test]
fn a_service_that_answers_anything_leads_to_the_documented_class() {
    for (what, plan, attempts, end) in SERVICES {
        let server = Server::start(plan);
        let stage = format!(
            "{}\ntimeout = \"400ms\"\nmax_answer = \"64kB\"\n{}",
            server.stage(),
            quick_retry(ATTEMPTS)
        );
        let place = Place::with(&one_stage(&stage), &samples(ITEMS));
        all_end(what, &place, *attempts, end);
        assert!(server.times_called().values().all(|times| *times == *attempts as usize), "{what}");
    }
}

#[test]
fn a_service_that_is_not_there_is_a_connection_failure() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let stage = format!("kind = \"http\"\nurl = \"http://{free}/\"\n{}", quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    all_end("nobody listens", &place, 2, &End("exhausted", "retryable", "connection", "no connection"));
}

#[test]
fn results_beyond_those_asked_for_harm_nobody() {
    let server = Server::start(|call| {
        let mut results: Vec<Value> = call.items.iter().map(passed).collect();
        results.push(json!({ "id": "ffffffffffffffffffffffffffffffff", "output": 1 }));
        Answer::results(&results)
    });
    let stage = format!("{}\nbatch = 3\n{}", server.stage(), quick_retry(ATTEMPTS));
    let place = Place::with(&one_stage(&stage), &samples(7));
    let report = place.run_pipeline(0);
    assert_eq!(place.result_keys(), keys(7));
    assert_eq!(count(&report["attempts"]["total"]), 7);
    place.check();
}

/// Makes a python handler of the lines that are done for every request; `items` are its items.
fn python(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import json, os, sys, time\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    \
         good = json.dumps({{'results': [{{'id': i['id'], 'output': i['payload']}} for i in items]}})\n{body}"
    )
}

const CHILDREN: &[(&str, &str, u32, End)] = &[
    ("exits at once", "sys.exit(3)", 2, End("quarantined", "crash", "process", "exited with status 3")),
    ("is killed", "os.kill(os.getpid(), 9)", 2, End("quarantined", "crash", "process", "killed by signal 9")),
    ("garbage", "print('}{', flush=True)", 2, End("exhausted", "retryable", "answer", "not a JSON object")),
    ("an empty line", "print('', flush=True)", 2, End("exhausted", "retryable", "answer", "empty")),
    ("HTML", "print('<html>', flush=True)", 2, End("exhausted", "retryable", "answer", "HTML")),
    (
        "too few",
        "print('{\"results\": []}', flush=True)",
        2,
        End("exhausted", "retryable", "answer", "left out"),
    ),
    (
        "closes its output",
        "os.close(1)\ntime.sleep(60)",
        2,
        End("exhausted", "retryable", "answer", "closed its standard output"),
    ),
    (
        "an endless line",
        "while True: sys.stdout.write('x' * 65536)",
        2,
        End("exhausted", "retryable", "answer", "larger than"),
    ),
    ("never", "time.sleep(60)", 2, End("exhausted", "timeout", "timeout", "no answer within")),
];

fn command(program: &[&str]) -> String {
    let retry = quick_retry(ATTEMPTS);
    let argv = json!(program);
    one_stage(&format!(
        "kind = \"command\"\ncommand = {argv}\nconcurrency = 2\ntimeout = \"60s\"\nmax_answer = \"64kB\"\nretry.crash_limit = 2\n{retry}"
    ))
}

#[test]
fn a_child_that_answers_anything_leads_to_the_documented_class() {
    for (what, body, attempts, end) in CHILDREN {
        let place = Place::with(&command(&["python3", "work.py"]), &samples(ITEMS));
        place.write("work.py", python(body));
        if *what == "never" {
            place.write("p.toml", place.read("p.toml").replace("timeout = \"60s\"", "timeout = \"300ms\""));
        }
        all_end(what, &place, *attempts, end);
    }
}

#[test]
fn a_child_that_ends_before_it_is_asked_crashes_its_items_only_so_often() {
    let place = Place::with(&command(&["sh", "-c", "echo goodbye >&2; exit 7"]), &samples(ITEMS));
    all_end("ends at once", &place, 2, &End("quarantined", "crash", "process", "goodbye"));
}

fn executable(place: &Place, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o755)).expect("changed");
}

#[test]
fn a_program_that_is_not_there_is_told_before_anything_begins() {
    let missing = "stage work: there is no program no-such-program-here in PATH";
    let place = Place::with(&command(&["no-such-program-here"]), &samples(ITEMS));
    for verb in ["run", "submit"] {
        let told = place.run(&[verb, "p.toml"]).expect(2).stderr;
        assert!(told.contains(missing), "{verb}: {told}");
        assert!(!place.path(".redrive").exists(), "{verb}: no store is made");
    }
    let place = Place::with(&command(&["./work.py"]), &samples(ITEMS));
    place.write("work.py", "#!/usr/bin/env python3\n");
    let told = place.run(&["run", "p.toml"]).expect(2).stderr;
    assert!(told.contains("work.py is not executable"), "{told}");
    let found = place.run(&["doctor", "p.toml", "--json"]).expect(1).json();
    assert!(array(&found["findings"]).iter().any(|finding| finding["ok"] == false), "{found}");
}

#[test]
fn a_run_whose_program_is_missing_is_left_alone_and_keeps_its_items() {
    let place = Place::with(&command(&["./work.py"]), &samples(ITEMS));
    place.write("work.py", format!("#!/usr/bin/env python3\n{}", python("print(good, flush=True)")));
    executable(&place, "work.py");
    place.run(&["submit", "p.toml"]).expect(0);
    std::fs::rename(place.path("work.py"), place.path("away.py")).expect("moved");
    let left = place.run(&["work", "--until-idle", "--json"]).expect(2);
    assert!(left.stderr.contains("stage work: there is no program"), "{}", left.stderr);
    assert!(left.json()["unworkable"]["r1"].is_string(), "{}", left.stdout);
    assert_eq!(place.json(&["show"])["counts"]["dead"], 0);
    std::fs::rename(place.path("away.py"), place.path("work.py")).expect("moved");
    place.run(&["work", "--until-idle"]).expect(0);
    assert_eq!(place.json(&["show"])["counts"]["succeeded"], ITEMS);
}

#[test]
fn a_program_that_cannot_be_started_though_it_is_there_is_final() {
    let place = Place::with(&command(&["./work.py"]), &samples(ITEMS));
    place.write("work.py", "#!/no/such/interpreter\n");
    executable(&place, "work.py");
    all_end("no interpreter", &place, 1, &End("final", "final", "process", "no such program"));
}

#[test]
fn a_hundred_megabytes_of_complaints_harm_nobody() {
    let place = Place::with(&command(&["python3", "work.py"]), &samples(ITEMS));
    // Twenty-five megabytes for each of four items, before its answer.
    place.write("work.py", python("for _ in range(25): sys.stderr.write('w' * 1000000)\nsys.stderr.flush()\nprint(good, flush=True)"));
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let kept = std::fs::metadata(place.path(".redrive/state.db")).expect("there").len();
    assert!(kept < 4_000_000, "{kept} bytes are kept");
    place.check();
}

#[test]
fn a_child_that_answers_twice_is_not_asked_again_and_nobody_gets_a_wrong_answer() {
    let place = Place::with(&command(&["python3", "work.py"]), &samples(20));
    place.write("work.py", python("print(good, flush=True)\nprint(good, flush=True)"));
    // A second answer that comes late meets the next item, which then fails for it: that is retried, and no answer is
    // given to an item that it is not for.
    place.write("p.toml", place.read("p.toml").replace("max_attempts = 2", "max_attempts = 50"));
    place.run_pipeline(0);
    let expected: Vec<(String, Value)> = (0..20).map(|n| (key(n), json!({ "id": key(n), "n": n }))).collect();
    assert_eq!(place.results().into_iter().collect::<Vec<_>>(), expected);
    place.check();
}

#[test]
fn no_child_outlives_its_run() {
    let place = Place::with(&command(&["python3", "work.py"]), &samples(ITEMS));
    place.write(
        "work.py",
        format!(
            "import os\nopen('pids', 'a').write(str(os.getpid()) + '\\n')\n{}",
            python("print(good, flush=True)\nif items[0]['key'] == 'k0003': time.sleep(600)")
        ),
    );
    place.run_pipeline(0);
    let pids = names(place.read("pids").lines());
    assert!(!pids.is_empty());
    crate::support::wait::until("they end", || {
        pids.iter().all(|pid| !std::path::Path::new("/proc").join(pid).exists())
    });
    place.check();
}
