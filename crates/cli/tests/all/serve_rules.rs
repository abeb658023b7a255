//! Dead items that a rule of their pipeline sends back, and a limit on how many there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::serve_operations::mended_later;
use crate::support::{Daemon, Place, Server, array, count, one_stage, samples, text, wait};

fn with_rule(server: &Server, rule: &str, items: usize) -> Place {
    let stage = format!("{}\nbatch = 50\ngate = \"it\"", server.stage());
    let rule = format!("[[rule]]\nname = \"again\"\nwhen = \"gate_open\"\ngate = \"it\"\n{rule}\n");
    let place = Place::with(&format!("{}\n{rule}", one_stage(&stage)), &samples(items));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    place
}

/// The gate is closed and opened again, by a person.
fn close_and_open(place: &Place) {
    place.run(&["gates", "pause", "it"]).expect(0);
    place.run(&["gates", "resume", "it"]).expect(0);
}

fn by_the_rule(place: &Place) -> Vec<Value> {
    let all = place.json(&["dead", "operations", "-n", "100"]);
    array(&all["operations"]).iter().filter(|it| it["actor"] == "rule:test/again").cloned().collect()
}

fn until_it_has_acted(place: &Place, times: usize) {
    wait::until("the rule has acted", || by_the_rule(place).len() == times);
}

fn mended(good: &Arc<AtomicBool>) {
    good.store(true, Ordering::SeqCst);
}

#[test]
fn a_gate_that_is_open_again_has_what_died_before_sent_back_at_most_so_many_an_hour() {
    let (server, good) = mended_later();
    let place = with_rule(&server, "class = \"final\"\nat_most = 25", 40);
    mended(&good);
    let daemon = Daemon::start(&place, &[]);
    close_and_open(&place);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 25);
    wait::until("it has ended", || by_the_rule(&place).first().is_some_and(|it| it["state"] == "done"));
    let done = by_the_rule(&place);
    assert_eq!((done.len(), count(&done[0]["changed"])), (1, 25));
    // Closed and opened once more within the hour: no more may go.
    close_and_open(&place);
    let asked = json!({"kind": "redrive", "filter": {"item": "k0039"}});
    daemon.post("/v1/operations", &asked).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 26);
    assert_eq!(by_the_rule(&place).len(), 1);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn what_dies_again_is_not_taken_before_the_gate_was_closed_anew() {
    let (server, _) = mended_later();
    let place = with_rule(&server, "at_most = 1000", 12);
    close_and_open(&place);
    let daemon = Daemon::start(&place, &[]);
    until_it_has_acted(&place, 1);
    daemon.until("/v1/runs/r1", |report| {
        report["counts"]["dead"] == 12 && report["attempts"]["failures"] == 24
    });
    // Ordinary work goes on meanwhile, and the rules are looked at several times.
    for n in 1..4 {
        daemon.post("/v1/operations", &json!({"kind": "redrive", "filter": {"item": "k0001"}})).expect(201);
        daemon.until("/v1/runs/r1", |report| report["attempts"]["failures"] == 24 + n);
    }
    assert_eq!(by_the_rule(&place).len(), 1, "they died after the gate was opened");
    close_and_open(&place);
    until_it_has_acted(&place, 2);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_rule_that_is_killed_in_the_middle_sends_each_item_once_whoever_goes_on() {
    const ITEMS: u64 = 10_000;
    let (server, good) = mended_later();
    let place = with_rule(&server, "at_most = 20000\ncanary = 3", 10_000);
    mended(&good);
    let before = server.times_called();
    close_and_open(&place);
    let dies = Daemon::start_with(&place, &[], &[("REDRIVE_CRASH_AT", "redrive.after_page:3")]);
    assert!(dies.finish().killed_by().is_some(), "it was killed");
    // Two daemons share what is left.
    let (one, other) = (Daemon::start(&place, &[]), Daemon::start(&place, &[]));
    one.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == ITEMS);
    one.until("/v1/operations", |all| all["items"][0]["state"] == "done");
    let done = by_the_rule(&place);
    assert_eq!((done.len(), count(&done[0]["changed"])), (1, ITEMS));
    // Each is sent back once; what the killed daemon had in hand is called once more, and counted as a crash.
    let after = server.times_called();
    let more: Vec<usize> = after.iter().map(|(key, calls)| calls - before[key]).collect();
    let twice = more.iter().filter(|calls| **calls > 1).count() as u64;
    let crashes = count(&one.get("/v1/runs/r1").json()["attempts"]["crashes"]);
    assert!(more.iter().all(|calls| (1..=2).contains(calls)), "{more:?}");
    assert!(twice <= crashes, "{twice} were called twice, and {crashes} crashes are counted");
    one.stop().expect(0);
    other.stop().expect(0);
    place.check();
}

#[test]
fn a_rule_whose_canary_fails_sends_no_more_until_there_is_a_new_reason() {
    let (server, good) = mended_later();
    let place = with_rule(&server, "at_most = 1000\ncanary = 2", 30);
    close_and_open(&place);
    let daemon = Daemon::start(&place, &[]);
    wait::until("it has stopped", || by_the_rule(&place).iter().any(|it| it["state"] == "cancelled"));
    mended(&good);
    daemon.post("/v1/operations", &json!({"kind": "redrive", "filter": {"item": "k0029"}})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 1);
    assert_eq!(by_the_rule(&place).len(), 1);
    close_and_open(&place);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 30);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_wrong_rule_is_told_with_its_line_and_key() {
    let server = Server::good();
    let pipeline = one_stage(&server.stage());
    for (rule, wrong) in [
        ("when = \"gate_open\"\ngate = \"it\"\nat_most = 5", "name"),
        ("name = \"a\"\nwhen = \"gate_open\"\nat_most = 5", "gate"),
        ("name = \"a\"\nwhen = \"full_moon\"\nat_most = 5", "full_moon"),
        ("name = \"a\"\nwhen = \"configuration_changed\"\ngate = \"it\"\nat_most = 5", "gate_open"),
        ("name = \"a\"\nwhen = \"configuration_changed\"", "at_most"),
        ("name = \"a\"\nwhen = \"configuration_changed\"\nat_most = 0", "at_most"),
        ("name = \"a\"\nwhen = \"configuration_changed\"\nat_most = 5\nstage = \"nowhere\"", "nowhere"),
        ("name = \"a\"\nwhen = \"configuration_changed\"\nat_most = 5\nclass = \"finial\"", "final"),
        ("name = \"a\"\nwhen = \"configuration_changed\"\nat_most = 5\ncolour = \"red\"", "colour"),
    ] {
        let place = Place::with(&format!("{pipeline}\n[[rule]]\n{rule}\n"), "");
        let told = place.run(&["run", "p.toml"]).expect(2).stderr;
        assert!(told.contains(wrong) && told.contains("rule"), "{rule}: {told}");
    }
}

#[test]
fn a_run_with_as_many_dead_items_as_it_may_have_is_paused_and_takes_no_more() {
    let (server, good) = mended_later();
    let stage = format!("{}\nconcurrency = 1", server.stage());
    let pipeline = one_stage(&stage)
        .replace("failure_budget = false", "failure_budget = false\nmax_dead = 5")
        .replace("path = \"in.jsonl\"", "kind = \"inbox\"");
    let place = Place::with(&pipeline, "");
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/p.toml", &pipeline);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let hand_in = |from: usize, n: usize| {
        let all =
            (from..from + n).map(|n| json!({"key": format!("k{n}"), "payload": {"id": format!("k{n}")}}));
        daemon.post("/v1/pipelines/test/items", &json!({"items": all.collect::<Vec<_>>()}))
    };
    hand_in(0, 20).expect(200);
    let paused = daemon.until("/v1/runs/r1", |report| report["status"] == "paused_budget");
    assert!((5..10).contains(&count(&paused["counts"]["dead"])), "{paused}");
    assert!(text(&paused["reason"]).contains("max_dead is 5"), "{paused}");
    let refused = hand_in(100, 1).expect(409).json();
    assert_eq!(refused["code"], "run_paused");
    assert!(text(&refused["hint"]).contains("dead purge"), "{refused}");
    daemon.post("/v1/runs/r1/resume", &json!({})).expect(409);
    place.run(&["resume", "r1"]).expect(5);
    assert_eq!(count(&place.json(&["show", "r1"])["counts"]["admitted"]), 20, "nothing was dropped or taken");
    mended(&good);
    daemon.post("/v1/operations", &json!({"kind": "redrive", "all": true})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == 0);
    daemon.post("/v1/runs/r1/resume", &json!({})).expect(200);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 20);
    hand_in(100, 1).expect(200);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 21);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_run_over_a_file_stops_at_its_limit_with_exit_code_five() {
    let (server, _) = mended_later();
    let stage = format!("{}\nconcurrency = 1", server.stage());
    let pipeline =
        one_stage(&stage).replace("failure_budget = false", "failure_budget = false\nmax_dead = 5");
    let place = Place::with(&pipeline, &samples(2_000));
    let report = place.run(&["run", "p.toml", "--json", "--quiet"]).expect(5).json();
    assert_eq!(report["status"], "paused_budget");
    assert!(count(&report["counts"]["dead"]) < 10, "{report}");
    place.run(&["run", "p.toml", "--json", "--quiet"]).expect(5);
    place.check();
}
