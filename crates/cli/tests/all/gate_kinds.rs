//! Kinds of trouble that are told apart: items that nobody can serve, limiters that say 503, chance, few calls at once.

use std::time::Duration;

use crate::support::{
    Answer, Names, Place, Rehearsal, Server, count, key, keys, one_stage, quick_retry, samples, text, texts,
    wait,
};

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];

fn gated(stage: &str, gate: &str) -> String {
    format!("{}[gate.api]\n{gate}\n", one_stage(&format!("{stage}\ngate = \"api\"\n")))
}

/// A service that answers the last items with 500, for ever.
fn never_the_last(good: usize) -> Server {
    Server::start(move |call| {
        let n = call.item().payload["n"].as_u64().unwrap_or(0);
        if n >= good as u64 { Answer::status(500, "broken") } else { Answer::all(call) }
    })
}

#[test]
fn a_run_whose_last_items_always_fail_ends_with_these_dead() {
    const ITEMS: usize = 200;
    const GOOD: usize = 170;
    let server = never_the_last(GOOD);
    let stage = format!("{}\nconcurrency = 8\n{}", server.stage(), quick_retry(3));
    let breaker = "breaker = { min_calls = 20, failure_rate = 0.5, window = \"30s\", open_for = \"100ms\" }";
    let place = Place::with(&gated(&stage, breaker), &samples(ITEMS));
    place.run(&RUN).expect(3);
    assert_eq!(place.result_keys(), keys(GOOD));
    assert_eq!(place.dead_keys(), &keys(ITEMS) - &keys(GOOD));
    assert_eq!(place.gate("api")["state"], "open", "the service answers");
    place.check();
}

#[test]
fn once_somebody_resumed_it_a_run_of_bad_items_ends() {
    const ITEMS: usize = 60;
    const GOOD: usize = 20;
    let server = never_the_last(GOOD);
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(2));
    let breaker = "breaker = { min_calls = 6, failure_rate = 0.5, window = \"30s\", open_for = \"2s\", pause_after = \"1s\" }";
    let place = Place::with(&gated(&stage, breaker), &samples(ITEMS));
    let report = place.run(&RUN).expect(5).json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_outage".into(), 0));
    // Whoever lets it go on has looked at it: what the service answers is its answer.
    place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(4);
    assert_eq!(place.result_keys(), keys(GOOD));
    assert_eq!(place.dead_keys(), &keys(ITEMS) - &keys(GOOD));
    place.check();
}

#[test]
fn a_limiter_that_says_503_kills_nobody() {
    const ITEMS: usize = 120;
    let server = Rehearsal::start("[latency]\nbase = \"30ms\"\nmax_concurrency = 3\nover_status = 503\n");
    // Before a call has passed, and while most are turned away, nobody can know it for a limiter: that costs an attempt.
    let retry = quick_retry(5).replace("20ms", "300ms");
    let stage = format!("{}concurrency = 16\n{retry}", server.http());
    let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
    let report = place.run(&RUN).expect(0).json();
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.dead_keys(), Names::new());
    assert!(count(&report["attempts"]["throttles"]) > 0, "{report:#}");
    assert!(count(&server.end()["paid_again"]) == 0);
    place.check();
}

#[test]
fn what_chance_turns_away_makes_nobody_else_wait_and_the_gate_says_so() {
    const ITEMS: usize = 600;
    let server = Rehearsal::start(
        "[latency]\nbase = \"20ms\"\n[[fault]]\nkind = \"status\"\nstatus = 429\nrate = 0.1\nretry_after = \"1s\"\n",
    );
    let stage = format!("{}concurrency = 16\n{}", server.http(), quick_retry(2));
    let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let gate = place.gate("api");
    assert!(text(&gate["why"]).contains("whatever their rate"), "{gate:#}");
    let report = server.end();
    // Each that was turned away came back once, and no more often than chance has it.
    assert_eq!(count(&report["calls"]), ITEMS as u64 + count(&report["rejected"]), "{report:#}");
    place.check();
}

#[test]
fn a_service_that_takes_two_calls_at_once_does_not_stall() {
    const ITEMS: usize = 60;
    let server = Rehearsal::start("[latency]\nbase = \"100ms\"\nmax_concurrency = 2\nover_status = 429\n");
    let stage = format!("{}concurrency = 16\n{}", server.http(), quick_retry(2));
    let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let gate = place.gate("api");
    assert!(
        text(&gate["why"]).contains("turned away") || text(&gate["why"]).contains("turned calls away"),
        "{gate:#}"
    );
    let report = server.end();
    assert!(count(&report["rejected"]) <= ITEMS as u64, "it is found out how many are too many: {report:#}");
    place.check();
}

#[test]
fn an_item_that_spoils_its_batch_costs_few_calls_however_soon_it_is_tried_again() {
    const ITEMS: usize = 128;
    const BATCH: usize = 16;
    const ATTEMPTS: u32 = 4;
    let server =
        Rehearsal::start("[latency]\nbase = \"5ms\"\n[[poison]]\nmarker = \"TOXIC\"\nstatus = 500\n");
    let stage = format!("{}batch = {BATCH}\nconcurrency = 1\n{}", server.embed(), quick_retry(ATTEMPTS));
    let place = Place::with(&gated(&stage, ""), &texts(ITEMS).replace("text of k0037", "TOXIC text"));
    assert!(place.read("in.jsonl").contains("TOXIC"));
    place.run(&RUN).expect(0);
    assert_eq!(place.dead_keys(), Names::from([key(37)]));
    let calls = count(&server.end()["calls"]);
    let needed = (ITEMS / BATCH) as u64;
    let extra = 2 * u64::from(BATCH.ilog2()) + u64::from(ATTEMPTS);
    assert!(calls <= needed + extra, "{calls} calls, {needed} are needed, {extra} more are granted");
    place.check();
}

#[test]
fn an_item_on_which_its_batch_hangs_or_is_cut_off_costs_few_calls() {
    const ITEMS: usize = 128;
    const BATCH: usize = 16;
    const ATTEMPTS: u32 = 4;
    for hangs in [true, false] {
        let server = Server::start(move |call| match call.items.iter().any(|item| item.key == key(37)) {
            true if hangs => Answer::Never,
            true => Answer::Cut,
            false => Answer::all(call),
        });
        let stage = format!(
            "{}\ntimeout = \"300ms\"\nbatch = {BATCH}\nconcurrency = 1\n{}",
            server.stage(),
            quick_retry(ATTEMPTS)
        );
        let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
        place.run(&RUN).expect(0);
        assert_eq!(place.dead_keys(), Names::from([key(37)]));
        assert_eq!(place.result_keys(), &keys(ITEMS) - &Names::from([key(37)]));
        let needed = ITEMS / BATCH;
        let extra = 2 * BATCH.ilog2() as usize + ATTEMPTS as usize;
        assert!(server.count() <= needed + extra, "{} calls, {needed} are needed", server.count());
        place.check();
    }
}

#[test]
fn an_absurd_wait_that_is_asked_of_one_item_while_others_pass_is_that_item_s() {
    const ITEMS: usize = 300;
    let server = Server::start(|call| match (&*call.item().key, call.item().before) {
        ("k0150", 0) => Answer::Http(429, vec![("Retry-After", "72000".to_owned())], "later".to_owned()),
        _ => Answer::all(call),
    });
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&gated(&stage, "hint_cap = \"3s\""), &samples(ITEMS));
    let started = place.start(&RUN);
    place.until_json(&["show", "r1"], |run| count(&run["counts"]["succeeded"]) == ITEMS as u64 - 1);
    assert_eq!(place.gate("api")["state"], "open");
    started.finish().expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn an_item_that_is_always_turned_away_does_not_take_its_batch_with_it() {
    const ITEMS: usize = 24;
    let server = Server::start(|call| {
        if call.items.iter().any(|item| item.key == key(7)) {
            return Answer::status(429, "slow down");
        }
        Answer::all(call)
    });
    let stage = format!("{}\nbatch = 8\nconcurrency = 1\n{}", server.stage(), quick_retry(2));
    let pipeline =
        gated(&stage, "").replacen("name = \"test\"\n", "name = \"test\"\ndeadline = \"25s\"\n", 1);
    let place = Place::with(&pipeline, &samples(ITEMS));
    let begun = wait::now();
    let started = place.start(&RUN);
    place.until_json(&["show", "r1"], |run| count(&run["counts"]["succeeded"]) == ITEMS as u64 - 1);
    started.finish();
    // It has its last try just before its deadline, and does not die long before it.
    assert!(begun.elapsed() >= Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(place.result_keys(), &keys(ITEMS) - &Names::from([key(7)]));
    assert_eq!(place.dead_keys(), Names::from([key(7)]));
    place.check();
}

#[test]
fn the_last_item_that_is_turned_away_alone_is_not_made_to_wait_for_long() {
    const ITEMS: usize = 40;
    let server = Server::start(|call| match (&*call.item().key, call.item().before) {
        ("k0000", 0..9) => Answer::status(429, "later"),
        _ => Answer::all(call),
    });
    let stage = format!("{}\nconcurrency = 8\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    let attempts = place.json(&["explain", "k0000"])["attempts"].as_array().expect("a list").clone();
    let waits: Vec<u64> = attempts.iter().filter_map(|attempt| attempt["wait_ms"].as_u64()).collect();
    assert!(waits.len() >= 9 && waits.iter().all(|wait| *wait < 15_000), "{waits:?}");
    place.check();
}

#[test]
fn a_service_with_one_place_that_says_503_to_others_kills_nobody() {
    const ITEMS: usize = 6;
    let server = Rehearsal::start("[latency]\nbase = \"1500ms\"\nmax_concurrency = 1\nover_status = 503\n");
    let stage = format!("{}concurrency = 16\n{}", server.http(), quick_retry(3));
    let place = Place::with(&gated(&stage, ""), &samples(ITEMS));
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert_eq!(place.dead_keys(), Names::new());
    place.check();
}

#[test]
fn no_failure_makes_an_item_wait_for_longer_than_its_gate_grants() {
    const ITEMS: usize = 8;
    let server = Server::start(|call| match (&*call.item().key, call.item().before) {
        ("k0003", 0) => Answer::Http(504, vec![("Retry-After", "10000".to_owned())], "away".to_owned()),
        _ => Answer::all(call),
    });
    let stage = format!("{}\nconcurrency = 2\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&gated(&stage, "hint_cap = \"1s\""), &samples(ITEMS));
    place.run(&RUN).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn a_service_that_turns_everything_away_from_the_first_call_on_is_left_alone_ever_longer() {
    let server = Server::start(|_| Answer::status(429, "no"));
    let stage = format!("{}\nconcurrency = 4\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&gated(&stage, ""), &samples(100));
    let started = place.start(&RUN);
    // Each silence is half as long again as the one before: so many calls are enough to come to one of seconds.
    let (mut calls, mut since) = (0, wait::now());
    wait::until("it is left alone for some seconds", || {
        if server.count() != calls {
            (calls, since) = (server.count(), wait::now());
        }
        let silent = calls >= 20 && since.elapsed() > Duration::from_millis(2_500);
        silent && text(&place.gate("api")["why"]).contains("turns every call away")
    });
    assert!(server.count() <= 80, "{} calls until it was left alone", server.count());
    started.kill();
    place.check();
}
