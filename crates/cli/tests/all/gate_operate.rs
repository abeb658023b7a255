//! What operators do with gates while a run goes on, and what they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{
    Answer, Place, Rehearsal, Server, count, key, keys, one_stage, quick_retry, samples, text, wait,
};

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];

fn gated(stage: &str) -> String {
    one_stage(&format!("{stage}\nconcurrency = 2\ngate = \"api\"\n{}", quick_retry(2)))
}

#[test]
fn a_gate_is_paused_and_resumed_under_a_run() {
    const ITEMS: usize = 400;
    let server = Rehearsal::start("[latency]\nbase = \"10ms\"\n");
    let place = Place::with(&gated(&server.http()), &samples(ITEMS));
    let mut started = place.start(&RUN);
    wait::until("calls are made", || server.count("ok") >= 20);
    let paused = place.run(&["gates", "pause", "api", "--why", "invoice", "--json"]).expect(0).json();
    assert_eq!(paused["gates"][0]["state"], "paused");
    assert!(text(&paused["gates"][0]["why"]).contains("an operator paused it: invoice"), "{paused:#}");
    let begun = wait::now();
    let mut last = (server.count("calls"), wait::now());
    // Calls end soon: none for half a second.
    while last.1.elapsed() < Duration::from_millis(500) {
        let calls = server.count("calls");
        if calls != last.0 {
            last = (calls, wait::now());
        }
        wait::pause();
    }
    let stopped = last.1 - begun;
    assert!(stopped < Duration::from_millis(1_500), "calls went on for {stopped:?}");
    assert!(last.0 < ITEMS as u64, "{} of {ITEMS} calls were made before it was paused", last.0);
    assert!(!started.has_ended(), "the run waits for the operator");
    let life = place.json(&["explain", &key(ITEMS - 1)]);
    assert!(
        text(&life["now"]).contains("gate api") && text(&life["now"]).contains("invoice"),
        "{}",
        life["now"]
    );
    assert_eq!(server.count("calls"), last.0, "nothing is called meanwhile");

    let resumed = place.run(&["gates", "resume", "--json"]).expect(0).json();
    assert_eq!(resumed["gates"][0]["state"], "open");
    let report = started.finish().expect(0).json();
    assert_eq!((&report["status"], count(&report["attempts"]["failures"])), (&"completed".into(), 0));
    assert_eq!(place.result_keys(), keys(ITEMS));
    let served = server.end();
    assert_eq!((count(&served["distinct_served"]), count(&served["paid_again"])), (ITEMS as u64, 0));
    place.check();
}

#[test]
fn the_calls_of_a_gate_add_up_with_batches_that_were_refused() {
    let server = Server::start(|call| {
        let bad = call.items.iter().any(|item| item.key == "k0003");
        if bad { Answer::status(422, "not like this") } else { Answer::all(call) }
    });
    let place = Place::with(&gated(&format!("{}\nbatch = 8", server.stage())), &samples(8));
    place.run(&RUN).expect(3);
    let gate = place.json(&["gates"])["gates"][0].clone();
    let of = |name: &str| count(&gate["totals"][name]);
    assert_eq!(of("calls"), server.count() as u64, "{gate:#}");
    assert!(of("other") > 0, "a batch that is taken apart is not told of as passed: {gate:#}");
    let ended = of("passed") + of("throttled") + of("failed") + of("other");
    assert_eq!((ended, count(&gate["concurrency"]["now"])), (of("calls"), 0), "{gate:#}");
    let table = place.run(&["gates"]).expect(0).stdout;
    let columns = ["CALLS/MIN", "LIMIT/MIN", "CALLS", "PASSED", "TURNED AWAY", "FAILED", "OTHER"];
    assert!(columns.iter().all(|column| table.contains(column)), "{table}");
}

#[test]
fn a_reset_forgets_what_was_learnt_and_work_goes_on() {
    const ITEMS: usize = 60;
    let well = Arc::new(AtomicBool::new(false));
    let flag = well.clone();
    let server = Server::start(move |call| {
        if flag.load(Ordering::SeqCst) {
            return Answer::all(call);
        }
        Answer::Http(429, vec![("Retry-After", "600".to_owned())], "come back in ten minutes".to_owned())
    });
    let place = Place::with(&gated(&server.stage()), &samples(ITEMS));
    let mut started = place.start(&RUN);
    let gate = place.until_gate("api", "closed");
    assert!(text(&gate["why"]).contains("asked to be left alone for"), "{gate:#}");
    well.store(true, Ordering::SeqCst);
    let calls = server.count();
    place.run(&["gates", "reset", "api"]).expect(0);
    // What was turned away does not wait out what the service asked for before.
    let begun = wait::now();
    wait::until("it ends soon", || started.has_ended() || begun.elapsed() > Duration::from_secs(10));
    assert!(started.has_ended(), "{:#}", place.json(&["show", "r1"])["counts"]);
    let report = started.finish().expect(0).json();
    assert!(calls <= 2, "{calls} calls");
    assert_eq!((&report["status"], count(&report["attempts"]["failures"])), (&"completed".into(), 0));
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.gate("api")["state"], "open");
    place.check();
}

#[test]
fn a_gate_that_was_paused_holds_up_the_next_run_until_it_is_resumed() {
    const ITEMS: usize = 20;
    let server = Server::good();
    let place = Place::with(&gated(&server.stage()), &samples(ITEMS));
    place.run(&RUN).expect(0);
    place.run(&["gates", "pause", "api"]).expect(0);
    place.write("in.jsonl", samples(ITEMS * 2).lines().skip(ITEMS).collect::<Vec<_>>().join("\n"));
    let mut started = place.start(&["run", "p.toml", "--new", "--results", "out.jsonl", "--json"]);
    place.until_json(&["show", "r2"], |run| run["admitted_all"] == true);
    assert!(!started.has_ended());
    assert_eq!(server.count(), ITEMS, "a new run passes no paused gate");
    place.run(&["gates", "resume", "api"]).expect(0);
    started.finish().expect(0);
    assert_eq!(place.result_keys(), &keys(2 * ITEMS) - &keys(ITEMS));
    place.check();
}

#[test]
fn gates_that_are_not_there_are_named_with_those_that_are() {
    let server = Server::good();
    let place = Place::with(&gated(&server.stage()), &samples(3));
    let nothing = place.run(&["gates"]).code();
    assert_eq!(nothing, Some(2), "there is no store yet");
    place.run(&RUN).expect(0);
    for verb in ["pause", "resume", "reset"] {
        let ran = place.run(&["gates", verb, "apj"]).expect(2);
        assert!(ran.stderr.contains("\"apj\"") && ran.stderr.contains("known gates: api"), "{}", ran.stderr);
    }
    let ran = place.run(&["gates", "resume"]).expect(2);
    assert!(ran.stderr.contains("every gate is open"), "{}", ran.stderr);
    assert_eq!(place.gate("api")["state"], "open", "nothing was changed");
    let table = place.run(&["gates"]).expect(0).stdout;
    assert!(table.contains("api") && table.contains("open"), "{table}");
}
