//! A service that limits its callers is worked with at its pace: nothing fails, and it is left alone when it asks for that.

use std::time::Duration;

use crate::support::{
    Names, Place, Rehearsal, Started, count, key, keys, one_stage, quick_retry, samples, texts, wait,
};

/// How long a thing may take that is not held up. What is held up for good takes longer than any patience.
const PATIENCE: Duration = Duration::from_secs(100);

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];

/// Everything passed, and the service agrees: every item was served once.
fn all_passed(place: &Place, server: &Rehearsal, items: usize) {
    assert_eq!(place.dead_keys(), Names::new());
    assert_eq!(place.result_keys(), keys(items));
    let served = server.report();
    assert_eq!(
        (count(&served["distinct_served"]), count(&served["paid_again"])),
        (items as u64, 0),
        "{served:#}"
    );
    place.check();
}

#[test]
fn a_limit_is_kept_without_a_failure_and_nothing_is_served_twice() {
    const ITEMS: usize = 400;
    const CONCURRENCY: u64 = 16;
    let server = Rehearsal::start(
        "[limit]\nrequests_per_second = 50\nburst = 10\nhint = \"both\"\n[latency]\nbase = \"20ms\"\n",
    );
    let stage = format!("{}concurrency = {CONCURRENCY}\n{}", server.http(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    let report = place.run_pipeline(0);
    assert_eq!(report["status"], "completed");
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report:#}");
    all_passed(&place, &server, ITEMS);
    let served = server.end();
    let (ok, rejected) = (count(&served["ok"]), count(&served["rejected"]));
    assert_eq!((ok, count(&served["failed"])), (ITEMS as u64, 0), "{served:#}");
    assert!(rejected > 0, "the limit was met: {served:#}");
    assert!(rejected * 5 <= ok, "{rejected} rejected for {ok} good answers");
    // A burst of calls that were on their way when the first of them was turned away, a few times over.
    let early = count(&served["early_calls"]);
    assert!(early < rejected && early <= 4 * CONCURRENCY, "{early} came early: {served:#}");
    let gate = only_gate(&place);
    assert_eq!(count(&gate["totals"]["throttled"]), rejected, "the gate counts the same: {gate:#}");
    assert_eq!(count(&gate["totals"]["passed"]), ok, "{gate:#}");
}

fn only_gate(place: &Place) -> serde_json::Value {
    let gates = place.json(&["gates"]);
    let gates = crate::support::array(&gates["gates"]);
    assert_eq!(gates.len(), 1, "one gate per host");
    gates[0].clone()
}

/// A service that turns everything away for some seconds, and says so with each answer.
fn closed_for(seconds: u64, from: &str, until: &str) -> Rehearsal {
    Rehearsal::start(&format!(
        "[latency]\nbase = \"20ms\"\n[[fault]]\nkind = \"status\"\nstatus = 429\nretry_after = \"{seconds}s\"\n\
         from = \"{from}\"\nuntil = \"{until}\"\n"
    ))
}

fn gated(server: &Rehearsal, concurrency: u64, gate: &str) -> String {
    let stage = format!("{}concurrency = {concurrency}\ngate = \"api\"\n{}", server.http(), quick_retry(2));
    format!("{}[gate.api]\n{gate}\n", one_stage(&stage))
}

#[test]
fn a_pause_outlives_a_kill() {
    const ITEMS: usize = 300;
    let server = closed_for(4, "300ms", "4s");
    let place = Place::with(&gated(&server, 4, ""), &samples(ITEMS));
    let started = place.start(&RUN);
    let gate = place.until_gate("api", "closed");
    assert!(crate::support::text(&gate["why"]).contains("asked to be left alone for"), "{gate:#}");
    started.kill();
    let before = server.report();
    assert!(count(&before["rejected"]) > 0 && count(&before["ok"]) < ITEMS as u64, "{before:#}");
    place.run(&RUN).expect(0);
    let after = server.report();
    assert_eq!(after["early_calls"], before["early_calls"], "not one call before the end: {after:#}");
    assert_eq!(after["rejected"], before["rejected"]);
    // What was under way when it was killed may have been served, and is asked for again.
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!(count(&after["paid_again"]) <= 4, "{after:#}");
    place.check();
}

#[test]
fn two_processes_share_one_pause_and_a_third_learns_of_it() {
    const ITEMS: usize = 200;
    const CONCURRENCY: u64 = 2;
    /// So many calls around one that was turned away tell that it is for everybody.
    const LOOKED_AT: u64 = 6;
    let server = closed_for(3, "1s", "3s");
    let place = Place::with(&gated(&server, CONCURRENCY, ""), &samples(ITEMS));
    place.write("q.toml", gated(&server, CONCURRENCY, "").replace("\"test\"", "\"other\""));
    place.write("r.toml", gated(&server, CONCURRENCY, "").replace("\"test\"", "\"third\""));
    let run = |pipeline: &str, results: &str| -> Started {
        place.start(&["run", pipeline, "--results", results, "--json"])
    };
    let (one, two) = (run("p.toml", "out.jsonl"), run("q.toml", "two.jsonl"));
    place.until_gate("api", "closed");
    wait::until("calls that were under way are answered", || server.count("open") == 0);
    wait::until("both have heard of it", || {
        server.report()["calls"] == {
            wait::work(Duration::from_millis(300));
            server.report()["calls"].clone()
        }
    });
    let closed = server.report();
    let third = run("r.toml", "three.jsonl");
    for started in [one, two, third] {
        started.finish().expect(0);
    }
    let report = server.end();
    // What both looked at, and what was under way when it closed.
    assert!(count(&report["rejected"]) <= 2 * (LOOKED_AT + CONCURRENCY), "{report:#}");
    assert_eq!(report["early_calls"], closed["early_calls"], "none comes before the end once it is closed");
    for file in ["out.jsonl", "two.jsonl", "three.jsonl"] {
        assert_eq!(
            crate::support::results(&place.read(file)).into_keys().collect::<Names>(),
            keys(ITEMS),
            "{file}"
        );
    }
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}

#[test]
fn a_hint_of_ten_years_parks_the_gate_for_as_long_as_its_cap() {
    const ITEMS: usize = 60;
    let server = Rehearsal::start(
        "[limit]\nrequests_per_second = 20\nburst = 20\nhint = \"ten-years\"\n[latency]\nbase = \"10ms\"\n",
    );
    let place = Place::with(&gated(&server, 8, "hint_cap = \"1s\""), &samples(ITEMS));
    let started = place.start(&RUN);
    let gate = place.until_gate("api", "parked");
    assert!(crate::support::text(&gate["why"]).contains("more than hint_cap grants"), "{gate:#}");
    assert!(gate["until"].is_string() && gate["since"].is_string(), "{gate:#}");
    let words = waiting_words(&place, ITEMS).expect("most of them wait");
    assert!(words.contains("gate api"), "{words}");
    started.finish().expect(0);
    all_passed(&place, &server, ITEMS);
}

/// What `explain` says of an item that waits at a gate.
fn waiting_words(place: &Place, items: usize) -> Option<String> {
    (0..items)
        .rev()
        .map(|n| place.json(&["explain", &key(n)]))
        .find(|life| life["item"]["state"] == "waiting")
        .map(|life| crate::support::text(&life["now"]))
}

#[test]
fn hints_that_say_nothing_do_not_stall_anything() {
    const ITEMS: usize = 60;
    std::thread::scope(|scope| {
        for hint in ["negative", "past", "garbage", "none"] {
            scope.spawn(move || {
                let server = Rehearsal::start(&format!(
                    "[limit]\nrequests_per_second = 50\nburst = 10\nhint = \"{hint}\"\n[latency]\nbase = \"10ms\"\n"
                ));
                let place = Place::with(&gated(&server, 8, ""), &samples(ITEMS));
                let started = wait::now();
                let report = place.run_pipeline(0);
                assert_eq!(count(&report["attempts"]["failures"]), 0, "{hint}: {report:#}");
                assert!(server.count("rejected") > 0, "{hint}: the limit was met");
                assert!(started.elapsed() < PATIENCE / 2, "{hint} took {:?}", started.elapsed());
                all_passed(&place, &server, ITEMS);
            });
        }
    });
}

#[test]
fn known_limits_are_used_nearly_whole_and_never_overstepped() {
    // 47 texts of 400 tokens at 180 requests and 600,000 tokens a minute, five times as fast.
    const ITEMS: usize = 47;
    let server = Rehearsal::start(
        "tokens_per_text = 400\n[limit]\nrequests_per_minute = 900\ntokens_per_minute = 3000000\nburst = 3\n\
         headers = true\nhint = \"both\"\n[latency]\nbase = \"20ms\"\n",
    );
    let stage = format!("{}batch = 1\nconcurrency = 8\ngate = \"api\"\n{}", server.embed(), quick_retry(2));
    let pipeline =
        format!("{}[gate.api]\nrequests_per_minute = 900\ntokens_per_minute = 3000000\n", one_stage(&stage));
    let place = Place::with(&pipeline, &texts(ITEMS));
    let report = place.run_pipeline(0);
    assert_eq!(count(&report["attempts"]["failures"]), 0, "{report:#}");
    let served = server.report();
    assert!(count(&served["rejected"]) <= 2, "{served:#}");
    let least = (ITEMS as u64 - 3) * 1_000 / 15;
    let took = count(&served["lasted_ms"]);
    assert!(took < 2 * least, "{took} ms where {least} ms are needed: {served:#}");
    all_passed(&place, &server, ITEMS);
}

/// Plays a plan until so many items have succeeded; fails when patience ends.
fn gets_through(plan: &str, items: usize, wanted: u64) {
    let server = Rehearsal::start(plan);
    let place = Place::with(&gated(&server, 8, ""), &samples(items));
    let begun = wait::now();
    let mut started = place.start(&RUN);
    wait::until("enough has passed, or it takes too long", || {
        started.has_ended() || server.count("ok") >= wanted || begun.elapsed() > PATIENCE
    });
    let served = server.report();
    assert!(count(&served["ok"]) >= wanted, "{} of {items} in {PATIENCE:?}: {served:#}", served["ok"]);
    assert!(count(&served["rejected"]) > 0 && count(&served["paid_again"]) == 0, "{served:#}");
    if !started.has_ended() {
        started.signal("INT");
    }
    started.finish();
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}

#[test]
fn an_item_that_is_always_turned_away_does_not_hold_up_the_others() {
    // One item in a hundred, whenever it comes.
    let fault = "[[fault]]\nkind = \"status\"\nstatus = 429\nrate = 0.01\nby = \"item\"\n";
    gets_through(&format!("seed = 1\n[latency]\nbase = \"10ms\"\n{fault}"), 600, 580);
}
