//! The process is killed at every named crash point, and the same command again loses nothing and does nothing twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::server::{Item, failed, passed};
use crate::support::{
    Answer, Call, Names, Place, Ran, Server, array, count, key, keys, names, one_stage, quick_retry, samples,
    wait,
};
use redrive_engine::crash::POINTS;
use serde_json::{Value, json};

/// What is done while the process dies, and how it is found out that nothing was lost.
type Scenario = fn(&str) -> bool;

/// Which points are met in which scenario, and at which visits. Visit 1 has to be met; of the others it is reported.
const JOBS: &[(Scenario, &[&str], &[u32])] = &[
    (crate::serve_notify::tells_although_one_dies, &["notify.decided", "notify.handed_over"], &[1]),
    (crate::answers::taken_although_one_dies, &["answer.before_commit", "answer.after_commit"], &[1, 2]),
    (crate::serve_schedules::fires_although_one_dies, &["schedule.decided", "schedule.begun"], &[1]),
    (crate::bus::passes_on_although_one_dies, &["relay.before_forget", "relay.after_forget"], &[1]),
    (crate::bus::takes_although_one_dies, &["bus.before_ack", "bus.after_bury"], &[1]),
    (crate::bus::sends_back_although_one_dies, &["requeue.before_ack"], &[1]),
    (
        plain,
        &[
            "run.created",
            "run.before_finish",
            "run.after_finish",
            "admit.before_submit",
            "admit.after_submit",
            "stop.before_release",
            "stop.after_release",
            "results.before_rename",
            "sqlite.mid_migration",
        ],
        &[1],
    ),
    (
        plain,
        &[
            "claim.before",
            "claim.after",
            "execute.before_call",
            "execute.after_call",
            "record.before_commit",
            "record.after_commit",
        ],
        &[1, 2, 7],
    ),
    (turned_away, &["gates.before_save", "gates.after_save"], &[1, 2, 3]),
    (plain, &["sqlite.before_begin", "sqlite.before_commit", "sqlite.after_commit"], &[1, 2, 3, 5, 9]),
    (large_lines, &["admit.before_submit", "admit.after_submit"], &[2, 3]),
    (
        edited,
        &["admit.reading_begun", "admit.before_sweep", "admit.before_submit", "admit.after_submit"],
        &[1],
    ),
    (edited, &["sqlite.before_commit", "sqlite.after_commit"], &[1, 2, 3, 5]),
    (
        reconfigured,
        &["edit.taken_over", "reconfigure.reading_begun", "admit.reading_begun", "admit.before_sweep"],
        &[1],
    ),
    (reconfigured, &["sqlite.before_commit", "sqlite.after_commit"], &[1, 2, 3, 5, 8]),
    (
        children,
        &["join.before_commit", "join.after_commit", "record.before_commit", "record.after_commit"],
        &[1, 2, 3],
    ),
    (interrupted, &["stop.before_release", "stop.after_release"], &[1]),
    (heartbeat, &["heartbeat.after_renew"], &[1, 2, 3]),
    (reaped, &["reap.before_commit", "reap.after_commit"], &[1]),
    (redriven, &["redrive.before_page", "redrive.after_page"], &[1, 2, 3]),
    (redriven, &["sqlite.before_commit", "sqlite.after_commit"], &[2, 4]),
    (retried, &["retry.before_page", "retry.after_page"], &[1, 2, 3]),
    (rerun, &["rerun.before_page", "rerun.after_page"], &[1, 2, 3]),
    (purged, &["purge.before_page", "purge.after_page"], &[1, 2, 3]),
    (cancelled, &["cancel.before_page", "cancel.after_page"], &[1, 2, 3]),
    (imported, &["import.before_page", "import.after_page"], &[1, 2]),
    (pruned, &["prune.opened"], &[1]),
    (pruned, &["prune.after_page"], &[1, 2]),
    (handed_in, &["inbox.begun", "inbox.before_submit", "inbox.after_submit"], &[1, 2]),
    (handed_in, &["sqlite.before_commit", "sqlite.after_commit"], &[1, 2, 3, 4]),
    (closed, &["inbox.closed", "sqlite.before_commit", "sqlite.after_commit"], &[1, 2]),
];

#[test]
fn every_crash_point_is_met_and_loses_nothing() {
    let jobs: Vec<(Scenario, String)> = JOBS
        .iter()
        .flat_map(|(scenario, points, visits)| {
            points.iter().flat_map(move |point| {
                visits.iter().map(move |visit| (*scenario, format!("{point}:{visit}")))
            })
        })
        .collect();
    let (next, met, broken) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((scenario, at)) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match catch_unwind(AssertUnwindSafe(|| scenario(at))) {
                        Ok(died) => {
                            let (point, visit) = at.split_once(':').expect("a visit");
                            let mut met = met.lock().expect("not poisoned");
                            let hits: &mut Vec<String> = met.entry(point.to_owned()).or_default();
                            hits.extend(died.then(|| visit.to_owned()));
                        }
                        Err(_) => broken.lock().expect("not poisoned").push(at.clone()),
                    }
                }
            });
        }
    });
    let met = met.into_inner().expect("not poisoned");
    let mut table = String::from("crash point              died at visits\n");
    for point in POINTS {
        let visits = met.get(*point).map(|visits| visits.join(" ")).unwrap_or_default();
        table.push_str(&format!("{point:<24} {visits}\n"));
    }
    let _ = std::io::stderr().write_all(table.as_bytes());
    let broken = broken.into_inner().expect("not poisoned");
    assert!(broken.is_empty(), "lost something at {broken:?}");
    let missed: Vec<&&str> =
        POINTS.iter().filter(|point| met.get(**point).is_none_or(Vec::is_empty)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
    let unknown: BTreeSet<&String> = met.keys().filter(|point| !POINTS.contains(&point.as_str())).collect();
    assert!(unknown.is_empty(), "no such points: {unknown:?}");
}

/// Whether it died of the crash point. It has to, at the first visit.
fn died(ran: &Ran, at: &str) -> bool {
    let killed = ran.killed_by() == Some(9);
    assert!(killed || !at.ends_with(":1"), "{at} was not met: {ran:?}");
    assert!(killed || ran.code().is_some(), "{ran:?}");
    killed
}

fn crash_in(place: &Place, args: &[&str], at: &str) -> bool {
    died(&place.run_with(args, &[("REDRIVE_CRASH_AT", at)]), at)
}

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];

/// The same command again; a run that is finished is only asked for its results.
fn again(place: &Place, code: i32) -> Value {
    // Dying before the store was made leaves none; dying in the middle of it, one without runs.
    let runs = if place.path(".redrive/state.db").exists() {
        place.json(&["runs"])["runs"].clone()
    } else {
        json!([])
    };
    let newest = array(&runs).first().filter(|run| run["finished_at"].is_string());
    let report = match newest {
        Some(run) => {
            let id = crate::support::text(&run["run"]);
            place.run(&["resume", &id, "--results", "out.jsonl", "--json"])
        }
        None => place.run(&RUN),
    };
    let report = report.expect(code).json();
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 1, "one run all the time");
    report
}

/// Items that fail at first, items that are refused, and items that pass.
fn mixed(call: &Call) -> Answer {
    let item = call.item();
    match (item.payload["n"].as_u64().unwrap_or(0) % 10, item.before) {
        (3, 0) => Answer::status(500, "not yet"),
        (6, _) => Answer::status(422, "never"),
        _ => Answer::all(call),
    }
}

fn refused(items: usize) -> Names {
    (0..items).filter(|n| n % 10 == 6).map(key).collect()
}

fn plain(at: &str) -> bool {
    const ITEMS: usize = 40;
    let server = Server::start(mixed);
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let died = crash_in(&place, &RUN, at);
    let before = server.count();
    let report = again(&place, 3);
    assert_eq!(count(&report["counts"]["admitted"]), ITEMS as u64);
    assert_eq!(place.dead_keys(), refused(ITEMS));
    assert_eq!(place.result_keys(), &keys(ITEMS) - &refused(ITEMS));
    // One call each, one more for those that fail at first, and what was under way when it died.
    let least = ITEMS + ITEMS / 10;
    assert!(
        (least..=least + 4).contains(&server.count()),
        "{} calls, {before} before the crash",
        server.count()
    );
    place.check();
    died
}

/// Dies while it tells others that the service wants to be left alone.
fn turned_away(at: &str) -> bool {
    const ITEMS: usize = 20;
    let server = Server::start(|call| match call.item().payload["n"].as_u64().unwrap_or(0) {
        3 | 12 if call.item().before == 0 => {
            Answer::Http(429, vec![("Retry-After-Ms", "100".to_owned())], "slow down".to_owned())
        }
        _ => Answer::all(call),
    });
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let died = crash_in(&place, &RUN, at);
    let report = again(&place, 0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report:#}");
    assert!((ITEMS + 2..=ITEMS + 2 + 4).contains(&server.count()), "{} calls", server.count());
    let gates = place.json(&["gates"]);
    assert_eq!(array(&gates["gates"]).len(), 1);
    let totals = &gates["gates"][0]["totals"];
    let ended: u64 = ["passed", "failed", "throttled"].iter().map(|end| count(&totals[*end])).sum();
    assert!(ended <= server.count() as u64, "what ended was called: {gates:#}");
    // Of the others nothing is known, and they are no more than were under way when it died.
    assert!(count(&totals["calls"]) - ended <= 4, "{gates:#}");
    place.check();
    died
}

/// Dies while it reads a source that was edited after the end of its run.
fn edited(at: &str) -> bool {
    const ITEMS: usize = 12;
    let server = Server::good();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2", server.stage())), &samples(ITEMS));
    place.run(&RUN).expect(0);
    // One line is removed, one changed, one new.
    let text =
        samples(ITEMS + 1).replace("{\"id\":\"k0003\",\"n\":3}\n", "").replace("\"n\":7}", "\"n\":77}");
    place.write("in.jsonl", text);
    let died = crash_in(&place, &RUN, at);
    again(&place, 0);
    assert_eq!(place.result_keys(), &keys(ITEMS + 1) - &names([key(3)]));
    assert_eq!(count(&place.results()[&key(7)]["twice"]), 154);
    let calls = server.count();
    assert!((ITEMS + 2..=ITEMS + 2 + 2).contains(&calls), "{calls} calls");
    place.check();
    died
}

/// Dies while items are sent again because a stage was changed.
fn reconfigured(at: &str) -> bool {
    const ITEMS: usize = 12;
    let (before, after) = (Server::good(), Server::good());
    let stage = |server: &Server| one_stage(&format!("{}\nconcurrency = 2", server.stage()));
    let place = Place::with(&stage(&before), &samples(ITEMS));
    place.run(&RUN).expect(0);
    place.write("p.toml", stage(&after));
    let died = crash_in(&place, &RUN, at);
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(before.count(), ITEMS);
    let called: Names = after.by_key().into_keys().collect();
    assert_eq!(called, keys(ITEMS), "everything went through the stage as it is now");
    assert!(after.count() <= ITEMS + 2, "{} calls", after.count());
    place.check();
    died
}

/// Few lines, but so large that the source is read in several pieces.
fn large_lines(at: &str) -> bool {
    const ITEMS: usize = 8;
    let filler = "x".repeat(1_500_000);
    let source: String =
        (0..ITEMS).map(|n| format!("{{\"id\":\"{}\",\"text\":\"{filler}\"}}\n", key(n))).collect();
    let place = Place::with(&one_stage("kind = \"pass\""), &source);
    let died = crash_in(&place, &RUN, at);
    let report = again(&place, 0);
    assert_eq!((count(&report["counts"]["admitted"]), &report["duplicates"]), (ITEMS as u64, &0.into()));
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
    died
}

const PARENTS: usize = 6;

fn expand(item: &Item) -> Value {
    let child = |n: usize| json!({ "key": format!("{}/{n}", item.key), "payload": { "n": n } });
    json!({ "id": item.id, "children": (0..3).map(child).collect::<Vec<_>>() })
}

fn children(at: &str) -> bool {
    let server = Server::start(|call| match call.stage.as_str() {
        "expand" => Answer::results(&[expand(call.item())]),
        _ => Answer::results(&[passed(call.item())]),
    });
    let retry = quick_retry(5);
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"expand\"\n{http}\nconcurrency = 2\n{retry}\
         [[stage.children]]\nname = \"part\"\n{http}\nconcurrency = 2\n{retry}\
         [[stage]]\nname = \"after\"\n{http}\n{retry}",
        http = server.stage()
    );
    let place = Place::with(&pipeline, &samples(PARENTS));
    let died = crash_in(&place, &RUN, at);
    let report = again(&place, 0);
    assert_eq!(count(&report["counts"]["succeeded"]), PARENTS as u64);
    assert_eq!(place.result_keys(), keys(PARENTS));
    let parts: Names =
        keys(PARENTS).iter().flat_map(|key| (0..3).map(move |n| format!("{key}/{n}"))).collect();
    let called: Names = server
        .calls()
        .iter()
        .filter(|call| call.stage == "part")
        .map(|call| call.item().key.clone())
        .collect();
    assert_eq!(called, parts);
    let part = array(&report["stages"]).iter().find(|stage| stage["name"] == "part").expect("it is there");
    assert_eq!(count(&part["counts"]["succeeded"]), parts.len() as u64);
    place.check();
    died
}

/// Dies while it stops in good order.
fn interrupted(at: &str) -> bool {
    const ITEMS: usize = 20;
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start_with(&RUN, &[("REDRIVE_CRASH_AT", at)], b"");
    server.until_open(4);
    started.signal("INT");
    started.until_said("stopping");
    // Without the service's answers: the second signal breaks calls off, so that there is something to give back.
    started.signal("INT");
    let died = died(&started.finish(), at);
    server.release();
    again(&place, 0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!((ITEMS..=ITEMS + 4).contains(&server.count()), "{} calls", server.count());
    place.check();
    died
}

fn heartbeat(at: &str) -> bool {
    const ITEMS: usize = 8;
    let server = Server::start(|call| {
        wait::work(Duration::from_millis(150));
        Answer::all(call)
    });
    let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let args: Vec<&str> = RUN.into_iter().chain(["--lease", "300ms"]).collect();
    let died = crash_in(&place, &args, at);
    again(&place, 0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    // What was under way when it died; and once more where a busy machine let so short a lease run out.
    assert!((ITEMS..=ITEMS + 4).contains(&server.count()), "{} calls", server.count());
    place.check();
    died
}

/// Dies with calls under way, and again while those are taken back.
fn reaped(at: &str) -> bool {
    const ITEMS: usize = 20;
    let server = Server::good();
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    assert!(crash_in(&place, &RUN, "execute.after_call:1"));
    let died = crash_in(&place, &RUN, at);
    let report = again(&place, 0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let crashes = count(&report["attempts"]["crashes"]);
    assert!((1..=4).contains(&crashes), "taken back once: {crashes}");
    place.check();
    died
}

/// More dead items than fit into two pages; each passes when it is sent back.
fn dead_run(place: &Place, runs: usize) -> (Server, Names) {
    const ITEMS: usize = 1_100;
    let server = Server::start(move |call| {
        let one = |item: &Item| if item.before < runs { failed(item, "final", "no") } else { passed(item) };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    place.write("p.toml", one_stage(&format!("{}\nbatch = 500", server.stage())));
    place.write("in.jsonl", samples(ITEMS));
    for _ in 0..runs {
        place.run(&["run", "p.toml", "--new"]).expect(4);
    }
    (server, keys(ITEMS))
}

fn redriven(at: &str) -> bool {
    let place = Place::new();
    let (_server, all) = dead_run(&place, 1);
    assert_eq!(place.dead_keys(), all);
    let args = ["dead", "redrive", "--run", "r1", "--all", "--json"];
    let died = crash_in(&place, &args, at);
    place.run(&args).expect(0);
    assert!(place.dead().is_empty());
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(place.result_keys(), all);
    assert_eq!(count(&report["attempts"]["total"]), 2 * all.len() as u64, "each was sent back once");
    place.check();
    died
}

/// Items that wait for an hour are told to go.
fn retried(at: &str) -> bool {
    const ITEMS: usize = 1_100;
    let server = Server::start(|call| {
        let one = |item: &Item| if item.before < 1 { failed(item, "retryable", "no") } else { passed(item) };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = format!(
        "{}\nbatch = 500\nretry.max_attempts = 3\nretry.backoff = {{ kind = \"fixed\", delay = \"1h\" }}",
        server.stage()
    );
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    let args = ["retry", "--run", "r1", "--json"];
    let died = crash_in(&place, &args, at);
    place.check();
    place.run(&args).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(server.times_called().values().max(), Some(&2));
    place.check();
    died
}

/// Items that have succeeded are done again.
fn rerun(at: &str) -> bool {
    const ITEMS: usize = 1_100;
    let server = Server::good();
    let stage = format!("{}\nbatch = 500", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run(&RUN).expect(0);
    let args = ["rerun", "r1", "--stage", "work", "--yes", "--json"];
    let died = crash_in(&place, &args, at);
    place.run(&args).expect(0);
    place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let called = server.times_called();
    assert!(called.values().all(|times| *times == 2) && called.len() == ITEMS, "each was done again once");
    place.check();
    died
}

fn purged(at: &str) -> bool {
    let place = Place::new();
    let (_server, all) = dead_run(&place, 1);
    let args = ["dead", "purge", "--run", "r1", "--all", "--yes", "--json"];
    let died = crash_in(&place, &args, at);
    place.check();
    assert!(place.dead_keys().is_subset(&all));
    place.run(&args).expect(0);
    assert!(place.dead().is_empty());
    let counts = &place.json(&["show", "r1"])["counts"];
    assert_eq!((count(&counts["admitted"]), count(&counts["purged"])), (all.len() as u64, all.len() as u64));
    place.check();
    died
}

fn cancelled(at: &str) -> bool {
    const ITEMS: usize = 1_100;
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(5));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let started = place.start(&RUN);
    server.until_open(2);
    wait::until("everything is admitted", || place.json(&["show"])["admitted_all"] == true);
    started.kill();
    let args = ["cancel", "r1", "--yes", "--json"];
    let died = crash_in(&place, &args, at);
    let report = place.run(&args).expect(0).json();
    assert_eq!(report["status"], "cancelled");
    let counts = &report["counts"];
    assert_eq!(
        (count(&counts["cancelled"]), count(&counts["admitted"])),
        (ITEMS as u64, ITEMS as u64),
        "{counts}"
    );
    server.release();
    assert_eq!(server.count(), 2, "nothing new is begun");
    for key in [key(0), key(1), key(600), key(ITEMS - 1)] {
        assert_eq!(place.json(&["explain", &key])["item"]["state"], "cancelled", "{key}");
    }
    place.check();
    died
}

fn imported(at: &str) -> bool {
    let place = Place::new();
    let (_server, all) = dead_run(&place, 1);
    place.run(&["dead", "export", "--run", "r1", "-o", "dead.jsonl"]).expect(0);
    let edited = place.read("dead.jsonl").replace("\"n\":", "\"mended\":true,\"n\":");
    // One line is none, before and after: it is told by its number.
    place.write("dead.jsonl", format!("{edited}nonsense\n"));
    let args = ["dead", "import", "dead.jsonl", "--json"];
    let died = crash_in(&place, &args, at);
    place.check();
    let sent = all.len() - place.dead().len();
    assert!(sent.is_multiple_of(500), "whole pages: {sent}");
    let second = place.run(&args).expect(3);
    assert!(second.stderr.contains("dead.jsonl:1101: not a line of an export"), "{}", second.stderr);
    assert_eq!(count(&second.json()["items"]), (all.len() - sent) as u64);
    assert!(place.dead().is_empty());
    let operations = place.json(&["dead", "operations"]);
    assert_eq!(array(&operations["operations"]).len(), 1, "it goes on with what was begun: {operations}");
    assert_eq!(count(&operations["operations"][0]["changed"]), all.len() as u64, "{operations}");
    place.run(&["resume", "r1"]).expect(0);
    place.check();
    died
}

fn pruned(at: &str) -> bool {
    let place = Place::new();
    dead_run(&place, 2);
    let args = ["prune", "--older-than", "0s", "--with-dead", "--yes", "--json"];
    let died = crash_in(&place, &args, at);
    place.check();
    place.run(&args).expect(0);
    assert_eq!(place.json(&["runs"])["runs"], json!([]));
    assert_eq!(names(place.dead_keys()), Names::new());
    let operations = place.json(&["dead", "operations"]);
    let prunes: Vec<&Value> =
        array(&operations["operations"]).iter().filter(|one| one["kind"] == "prune").collect();
    assert_eq!(prunes.len(), 1, "the second goes on with what the first began: {operations}");
    assert_eq!((&prunes[0]["state"], count(&prunes[0]["changed"])), (&json!("done"), 2_200), "{operations}");
    place.check();
    died
}

/// A pipeline whose run stays open.
fn standing(stage: &str) -> String {
    one_stage(stage).replace("path = \"in.jsonl\"", "kind = \"inbox\"")
}

const HAND_IN: [&str; 6] = ["submit", "p.toml", "--items", "in.jsonl", "--envelope", "--json"];

/// Dies while a stream of items of two categories is handed in, some of which were there with other content.
fn handed_in(at: &str) -> bool {
    const ITEMS: usize = 1_500;
    let envelope = |n: usize, version: usize| {
        let category = if n.is_multiple_of(2) { "even" } else { "odd" };
        format!("{{\"payload\":{{\"id\":\"{}\",\"n\":{version}}},\"category\":\"{category}\"}}\n", key(n))
    };
    let place =
        Place::with(&standing("kind = \"pass\""), &(0..20).map(|n| envelope(n, 0)).collect::<String>());
    let before = at.starts_with("sqlite");
    if before {
        place.run(&HAND_IN).expect(0);
    }
    place.write("in.jsonl", (0..ITEMS).map(|n| envelope(n, 1)).collect::<String>());
    let died = crash_in(&place, &HAND_IN, at);
    let answer = place.run(&HAND_IN).expect(0).json();
    let counts = &answer["counts"];
    let sum: u64 = ["admitted", "changed", "known"].iter().map(|name| count(&counts[*name])).sum();
    assert_eq!((sum, count(&counts["refused"])), (ITEMS as u64, 0));
    let runs = place.json(&["runs"]);
    assert_eq!(array(&runs["runs"]).len(), 2, "one run for each category");
    let mut found = Names::new();
    for run in array(&runs["runs"]) {
        let superseded = if before { 10 } else { 0 };
        assert_eq!(count(&run["counts"]["superseded"]), superseded, "{run:#}");
        assert_eq!(count(&run["counts"]["admitted"]), ITEMS as u64 / 2 + superseded);
        let id = crate::support::text(&run["run"]);
        place.run(&["resume", &id, "--results", "out.jsonl"]).expect(0);
        found.extend(place.result_keys());
    }
    assert_eq!(found, keys(ITEMS));
    place.check();
    died
}

/// Dies while a standing run is closed.
fn closed(at: &str) -> bool {
    let place = Place::with(&standing("kind = \"pass\""), &samples(3));
    let hand_in = ["submit", "p.toml", "--items", "in.jsonl"];
    place.run(&hand_in).expect(0);
    place.run(&["run", "p.toml"]).expect(0);
    let died = crash_in(&place, &["close", "r1"], at);
    let report = place.run(&["close", "r1", "--json"]).expect(0).json();
    assert_eq!((&report["status"], report["finished_at"].is_string()), (&"completed".into(), true));
    place.run(&hand_in).expect(0);
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 2, "what is handed in then begins another one");
    place.check();
    died
}
