//! A service that goes away closes its gate: work waits there without spending anything, and goes on when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{
    Answer, Names, Place, Rehearsal, Server, count, key, keys, one_stage, quick_retry, samples, text, texts,
    wait,
};
use serde_json::Value;

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];
const BREAKER: &str = "min_calls = 6, failure_rate = 0.5, window = \"5s\", open_for = \"300ms\"";

fn pipeline(stage: &str, breaker: &str) -> String {
    format!("{}[gate.api]\nbreaker = {{ {breaker} }}\n", one_stage(&format!("{stage}\ngate = \"api\"\n")))
}

#[test]
fn an_outage_closes_the_gate_and_work_goes_on_by_itself() {
    const ITEMS: usize = 1_200;
    const BATCH: usize = 8;
    const CONCURRENCY: u64 = 4;
    let server = Rehearsal::start(
        "[latency]\nbase = \"40ms\"\n[[fault]]\nkind = \"outage\"\nstatus = 500\nfrom = \"600ms\"\nuntil = \"5s\"\n",
    );
    let stage = format!("{}batch = {BATCH}\nconcurrency = {CONCURRENCY}\n{}", server.embed(), quick_retry(3));
    let place = Place::with(&pipeline(&stage, BREAKER), &texts(ITEMS));
    let started = place.start(&RUN);
    let gate = place.until_gate("api", "away");
    assert!(text(&gate["why"]).contains("calls fail"), "{gate:#}");
    assert!(gate["since"].is_string() && gate["until"].is_string(), "{gate:#}");
    let (parked, closed) = once_what_was_under_way_has_ended(&place, &server);
    let waits = place.json(&["explain", &key(ITEMS - 1)]);
    assert!(text(&waits["now"]).contains("gate api"), "{}", waits["now"]);
    let report = started.finish().expect(0).json();

    assert_eq!(report["status"], "completed");
    assert_eq!(place.dead_keys(), Names::new());
    assert_eq!(place.result_keys(), keys(ITEMS));
    // Whatever failed, failed before it closed; what tried it out afterwards spent nothing.
    assert_eq!(report["attempts"]["failures"], parked["attempts"]["failures"], "{report:#}");
    let served = server.end();
    let failed = count(&served["failed"]);
    assert!(failed > 0 && count(&served["paid_again"]) == 0, "{served:#}");
    assert_eq!(count(&served["distinct_served"]), ITEMS as u64);
    // A batch that fails takes two more calls to know that it is not its items; the breaker opens after six. From then
    // on it is tried out with one call every 300 ms, for as long as the service is away.
    let tried_out = since(&closed["last_call"], &gate["since"]) / 300 + 1;
    assert!(count(&closed["failed"]) <= 3 * (2 + CONCURRENCY) + tried_out, "{closed:#}");
    assert!(failed <= 3 * (2 + CONCURRENCY) + 4_400 / 300 + 1, "{served:#}");
    place.check();
}

/// The run, and what the service saw, once two more calls have tried it out and nothing else was said to have failed meanwhile.
/// Items may stay in hand all the while: parts of a batch that is being taken apart wait for the next try.
fn once_what_was_under_way_has_ended(place: &Place, server: &Rehearsal) -> (Value, Value) {
    let (mut run, mut served) = (place.json(&["show"]), server.report());
    loop {
        let tried_out = count(&served["failed"]) + 2;
        wait::until("it is tried out twice more", || {
            served = server.report();
            count(&served["failed"]) >= tried_out
        });
        let before = std::mem::replace(&mut run, place.json(&["show"]));
        if before["attempts"]["failures"] == run["attempts"]["failures"] {
            return (run, served);
        }
    }
}

/// Milliseconds from one time to another of the same day.
fn since(later: &Value, earlier: &Value) -> u64 {
    let of_day = |time: &Value| {
        let time = text(time);
        let clock = time.split_once('T').expect("a time").1.trim_end_matches('Z').to_owned();
        let parts: Vec<f64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
        ((parts[0] * 60.0 + parts[1]) * 60_000.0 + parts[2] * 1_000.0) as u64
    };
    of_day(later).saturating_sub(of_day(earlier))
}

#[test]
fn a_call_from_before_an_outage_that_passes_late_does_not_open_the_gate() {
    const ITEMS: usize = 40;
    let (late, back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (released, well) = (late.clone(), back.clone());
    let server = Server::start(move |call| {
        if call.item().key == key(0) {
            wait::until("it may pass", || released.load(Ordering::SeqCst));
            return Answer::all(call);
        }
        if well.load(Ordering::SeqCst) { Answer::all(call) } else { Answer::status(500, "away") }
    });
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(9));
    let breaker = "min_calls = 6, failure_rate = 0.5, window = \"5s\", open_for = \"3s\"";
    let place = Place::with(&pipeline(&stage, breaker), &samples(ITEMS));
    let started = place.start(&RUN);
    place.until_gate("api", "away");
    wait::until("only the first call is left", || server.open() == 1);
    let calls = server.count();
    late.store(true, Ordering::SeqCst);
    place.until_json(&["explain", &key(0)], |life| life["item"]["state"] == "succeeded");
    assert_eq!(place.gate("api")["state"], "away", "it says nothing of how the service is now");
    back.store(true, Ordering::SeqCst);
    assert!(server.count() <= calls + 1, "at most one call tried it out");
    started.finish().expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn a_long_outage_pauses_the_run_and_resume_finishes_it() {
    const ITEMS: usize = 300;
    let away = Arc::new(AtomicBool::new(true));
    let flag = away.clone();
    let server = Server::start(move |call| {
        if flag.load(Ordering::SeqCst) { Answer::status(503, "away") } else { Answer::all(call) }
    });
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(3));
    let breaker = format!("{BREAKER}, pause_after = \"1s\"");
    let place = Place::with(&pipeline(&stage, &breaker), &samples(ITEMS));
    let ran = place.run(&RUN).expect(5);
    let report = ran.json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_outage".into(), 0));
    assert!(text(&report["reason"]).contains("gate api"), "{}", report["reason"]);
    assert!(ran.stderr.contains("redrive resume r1"), "{}", ran.stderr);
    // Six close it, and as many again as were under way; then one every 300 ms, for a second.
    assert!(server.count() <= 6 + 4 + 5, "{} calls", server.count());
    let before = server.count();
    place.run(&["run", "p.toml"]).expect(5);
    assert_eq!(server.count(), before, "a paused run calls nobody");
    assert_eq!(place.gate("api")["state"], "away");
    place.check();

    away.store(false, Ordering::SeqCst);
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.dead_keys(), Names::new());
    assert_eq!(place.gate("api")["state"], "open");
    place.check();
}

#[test]
fn a_service_that_is_still_away_pauses_a_resumed_run_again() {
    let server = Server::start(|_| Answer::Cut);
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(3));
    let breaker = format!("{BREAKER}, pause_after = \"600ms\"");
    let place = Place::with(&pipeline(&stage, &breaker), &samples(100));
    assert_eq!(place.run(&RUN).expect(5).json()["status"], "paused_outage");
    let (before, failures) = (server.count(), place.json(&["show"])["attempts"]["failures"].clone());
    let report = place.run(&["resume", "r1", "--json"]).expect(5).json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_outage".into(), 0));
    assert!(
        (1..=6).contains(&(server.count() - before)),
        "it is tried out: {} calls",
        server.count() - before
    );
    assert_eq!(report["attempts"]["failures"], failures, "which spends nothing");
    place.check();
}

#[test]
fn a_gate_at_429_for_ever_holds_up_nobody_else() {
    const ITEMS: usize = 60;
    let stuck = Rehearsal::start("[[fault]]\nkind = \"status\"\nstatus = 429\n");
    let good = Rehearsal::start("[latency]\nbase = \"5ms\"\n");
    let retry = quick_retry(2);
    let two = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"first\"\n{}gate = \"good\"\n{retry}[[stage]]\nname = \"second\"\n{}gate = \"stuck\"\n{retry}",
        good.http(),
        stuck.http()
    );
    let place = Place::with(&two, &samples(ITEMS));
    let other =
        one_stage(&format!("{}gate = \"good\"\n{retry}", good.http())).replace("\"test\"", "\"other\"");
    place.write("q.toml", other);
    let started = place.start(&RUN);
    // Everything gets through the first stage, and waits at the second.
    place.until_json(&["show", "r1"], |run| run["stages"][1]["counts"]["waiting"] == ITEMS as u64);
    // A run of its own through the good gate, while the other is closed.
    assert!(place.until_gate("stuck", "closed")["until"].is_string());
    let report = place.run(&["run", "q.toml", "--results", "q.jsonl", "--json"]).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(crate::support::results(&place.read("q.jsonl")).into_keys().collect::<Names>(), keys(ITEMS));
    let shown = place.json(&["show", "r1"]);
    assert_eq!((count(&shown["counts"]["dead"]), count(&shown["attempts"]["failures"])), (0, 0), "{shown:#}");
    assert_eq!(place.gate("good")["state"], "open");
    let calls = stuck.count("calls");
    assert!(calls > 0 && calls <= 40, "{calls} calls at a service that turns all away");
    started.signal("INT");
    started.finish().expect(130);
    assert_eq!(count(&good.end()["distinct_served"]), 2 * ITEMS as u64, "once in each run");
    place.check();
}
