//! Samples against a service that answers by plan: every count, call and exit code is as the policy says.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::server::{Item, failed, passed};
use crate::support::{
    Answer, Call, Names, Place, Server, count, key, keys, one_stage, quick_retry, samples, without_breaker,
};
use serde_json::{Value, json};

const SAMPLES: usize = 600;
const ATTEMPTS: usize = 3;

/// What an item is in for, and what has to come of it.
struct Fate {
    calls: usize,
    failures: usize,
    throttles: usize,
    /// Reason and class; `None`: it succeeds.
    dead: Option<(&'static str, &'static str)>,
    hint: Option<Duration>,
}

impl Fate {
    fn passes_after(failures: usize) -> Self {
        Self { calls: failures + 1, failures, throttles: 0, dead: None, hint: None }
    }

    fn throttled(throttles: usize, hint: u64) -> Self {
        let hint = Some(Duration::from_millis(hint));
        Self { calls: throttles + 1, failures: 0, throttles, dead: None, hint }
    }

    fn dies_after(failures: usize, reason: &'static str, class: &'static str) -> Self {
        Self { calls: failures, failures, throttles: 0, dead: Some((reason, class)), hint: None }
    }
}

fn number(key: &str) -> usize {
    key[1..].parse().expect("a number")
}

fn selected(wanted: impl Fn(&Fate) -> bool, fate: fn(usize) -> Fate) -> Names {
    (0..SAMPLES).filter(|n| wanted(&fate(*n))).map(key).collect()
}

/// Compares everything that can be seen of a run with the items' fates.
fn compare(place: &Place, server: &Server, report: &Value, fate: fn(usize) -> Fate) {
    let fates: Vec<Fate> = (0..SAMPLES).map(fate).collect();
    let sum = |of: fn(&Fate) -> usize| fates.iter().map(of).sum::<usize>() as u64;
    let dead = fates.iter().filter(|fate| fate.dead.is_some()).count() as u64;
    let all = SAMPLES as u64;
    let counts = json!({
        "admitted": all, "succeeded": all - dead, "dead": dead, "filtered": 0, "superseded": 0, "cancelled": 0,
        "waiting": 0, "running": 0, "joining": 0, "purged": 0,
    });
    assert_eq!(report["counts"], counts);
    let attempts = json!({
        "total": sum(|fate| fate.calls), "failures": sum(|fate| fate.failures),
        "throttles": sum(|fate| fate.throttles), "crashes": 0,
    });
    assert_eq!(report["attempts"], attempts);
    let (mut by_reason, mut by_class) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
    for (reason, class) in fates.iter().filter_map(|fate| fate.dead) {
        *by_reason.entry(reason).or_default() += 1;
        *by_class.entry(class).or_default() += 1;
    }
    assert_eq!(report["dead"], json!({ "by_reason": by_reason, "by_class": by_class }));
    assert_eq!(report["next_due"], Value::Null);
    assert_eq!(report["stages"][0]["attempts"], attempts);

    let called: BTreeMap<String, usize> =
        fates.iter().enumerate().map(|(n, fate)| (key(n), fate.calls)).collect();
    assert_eq!(server.times_called(), called);
    for (n, fate) in fates.iter().enumerate() {
        if let Some(hint) = fate.hint {
            // The engine's clock counts whole milliseconds.
            let gap = server.shortest_gap(&key(n)) + Duration::from_millis(2);
            assert!(gap >= hint, "{} was called {gap:?} after a hint of {hint:?}", key(n));
        }
    }
    let expected: BTreeMap<String, Value> = (0..SAMPLES)
        .filter(|n| fates[*n].dead.is_none())
        .map(|n| (key(n), json!({ "id": key(n), "twice": n * 2 })))
        .collect();
    assert_eq!(place.results(), expected);
    let died = |reason, class| selected(|fate| fate.dead == Some((reason, class)), fate);
    let mut found: BTreeMap<(String, String), Names> = BTreeMap::new();
    for item in place.dead() {
        let why = (crate::support::text(&item["reason"]), crate::support::text(&item["class"]));
        found.entry(why).or_default().insert(crate::support::text(&item["key"]));
    }
    for ((reason, class), keys) in &found {
        let of = |known: &(&'static str, &'static str)| known.0 == reason && known.1 == class;
        let (reason, class) = fates.iter().filter_map(|fate| fate.dead).find(of).expect("a planned end");
        assert_eq!(*keys, died(reason, class), "{reason} {class}");
    }
    assert_eq!(place.dead_keys(), selected(|fate| fate.dead.is_some(), fate));
    place.check();
}

/// Being turned away concerns everybody at the same gate, so only a few items are: the others wait with them.
const THROTTLED: usize = 12;

fn single(n: usize) -> Fate {
    match n % 12 {
        6 | 7 if n >= THROTTLED => Fate::passes_after(0),
        0 => Fate::passes_after(0),
        1 => Fate::dies_after(1, "final", "final"),
        2 | 5 | 8 | 9 => Fate::passes_after(1),
        3 | 11 => Fate::passes_after(2),
        4 | 10 => Fate::dies_after(ATTEMPTS, "exhausted", "retryable"),
        6 => Fate::throttled(1, 1_000),
        _ => Fate::throttled(ATTEMPTS + 1, 150),
    }
}

fn answer_single(call: &Call) -> Answer {
    let item = call.item();
    let throttled = |ms: u64| json!({ "id": item.id, "error": { "class": "rate_limited", "retry_after_ms": ms, "message": "slow" } });
    match (number(&item.key) % 12, item.before) {
        (1, _) => Answer::status(422, "no"),
        (2, 0) | (3, 0 | 1) | (4, _) => Answer::status(500, "broken"),
        (5, 0) => Answer::status(502, "busy"),
        (6 | 7, _) if number(&item.key) >= THROTTLED => Answer::all(call),
        (6, 0) => Answer::Http(429, vec![("Retry-After", "1".to_owned())], "slow down".to_owned()),
        (7, 0..=ATTEMPTS) => Answer::results(&[throttled(150)]),
        (8, 0) if number(&item.key) % 24 == 8 => Answer::Cut,
        (8, 0) => Answer::CutInside,
        (9, 0) => Answer::status(200, "\u{1}\u{2}garbage{{{"),
        (10, _) => Answer::status(200, "<html><body>Bad gateway</body></html>"),
        (11, 0 | 1) => Answer::results(&[]),
        _ => Answer::all(call),
    }
}

#[test]
fn every_count_and_call_is_as_the_policy_says() {
    let server = Server::start(answer_single);
    let stage = format!("{}\nconcurrency = 16\n{}", server.stage(), quick_retry(ATTEMPTS as u32));
    let place = Place::with(&one_stage(&stage), &samples(SAMPLES));
    let report = place.run_pipeline(3);
    assert_eq!(report["status"], "partial_success");
    compare(&place, &server, &report, single);
    server.assert_numbered();
    let run = crate::support::text(&report["run"]);
    let shown = place.json(&["show", &run]);
    for field in ["run", "pipeline", "status", "counts", "attempts", "dead", "next_due"] {
        assert_eq!(shown[field], report[field], "{field}");
    }
}

fn batched(n: usize) -> Fate {
    match n % 8 {
        1 => Fate::dies_after(1, "final", "final"),
        2 => Fate::passes_after(1),
        3 => Fate::dies_after(ATTEMPTS, "exhausted", "retryable"),
        4 => Fate::throttled(2, 150),
        5 => Fate::passes_after(2),
        6 => Fate::dies_after(1, "final", "oversized"),
        7 => Fate::dies_after(ATTEMPTS, "exhausted", "timeout"),
        _ => Fate::passes_after(0),
    }
}

fn verdict(item: &Item) -> Option<Value> {
    Some(match (number(&item.key) % 8, item.before) {
        (1, _) => failed(item, "final", "not this one"),
        (2, 0) | (3, _) => failed(item, "retryable", "later"),
        (4, 0 | 1) => json!({ "id": item.id, "error": { "class": "rate_limited", "retry_after_ms": 150 } }),
        (5, 0 | 1) => return None,
        (6, _) => failed(item, "oversized", "too much"),
        (7, _) => failed(item, "timeout", "too slow"),
        _ => passed(item),
    })
}

#[test]
fn a_batch_is_judged_item_by_item() {
    let server =
        Server::start(|call| Answer::results(&call.items.iter().filter_map(verdict).collect::<Vec<_>>()));
    let stage = format!("{}\nbatch = 8\nconcurrency = 4\n{}", server.stage(), quick_retry(ATTEMPTS as u32));
    let place = Place::with(&one_stage(&stage), &samples(SAMPLES));
    let report = place.run_pipeline(3);
    compare(&place, &server, &report, batched);
    assert!(server.calls().iter().all(|call| (1..=8).contains(&call.items.len())));
}

/// One poison item in every third batch: it is found and dies, everything else passes.
fn poison(status: u16, attempts: u32) {
    let is_poison = |key: &str| number(key) % 24 == 5;
    let server = Server::start(move |call| {
        let poisoned = call.items.iter().any(|item| is_poison(&item.key));
        if poisoned { Answer::status(status, "cannot work on this") } else { Answer::all(call) }
    });
    let retry = quick_retry(attempts);
    let stage = format!("{}\nbatch = 8\nconcurrency = 4\n{retry}", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(SAMPLES));
    let report = place.run_pipeline(0);
    assert_eq!(report["status"], "completed");
    let guilty: Names = keys(SAMPLES).into_iter().filter(|key| is_poison(key)).collect();
    assert_eq!(place.dead_keys(), guilty);
    assert_eq!(place.result_keys(), &keys(SAMPLES) - &guilty);
    let tries = if status == 500 { attempts as usize } else { 1 };
    assert!(
        place.dead().iter().all(|item| count(&item["attempts"]) == tries as u64),
        "each had its attempts"
    );
    let failures = count(&report["attempts"]["failures"]);
    let own = (guilty.len() * tries) as u64;
    if tries == 1 {
        assert_eq!(failures, own, "finding them costs the others nothing");
    } else {
        // Retries come together: two poison items in one batch look like an outage, which the others share once.
        assert!((own..=2 * own).contains(&failures), "{failures} failures, {own} of poison items");
    }
    assert_eq!(count(&report["attempts"]["total"]), SAMPLES as u64 - guilty.len() as u64 + failures);
    // 2·log2(8) + 1 for each poison item and attempt.
    let extra = server.count() - SAMPLES / 8;
    assert!(extra <= guilty.len() * tries * 7, "{extra} extra calls for {} poison items", guilty.len());
    place.check();
}

#[test]
fn a_poison_item_that_is_refused_is_found_and_dies_alone() {
    poison(400, 3);
}

#[test]
fn a_poison_item_that_is_too_large_is_found_and_dies_alone() {
    poison(413, 3);
}

#[test]
fn a_poison_item_that_breaks_the_service_is_found_and_dies_alone() {
    poison(500, 1);
}

#[test]
fn a_poison_item_that_breaks_the_service_is_retried_and_dies_alone() {
    poison(500, 3);
}

#[test]
fn exit_codes_follow_the_share_of_success() {
    let server = Server::start(|call| {
        let die = call.item().payload["die"] == true;
        if die { Answer::status(422, "no") } else { Answer::results(&[passed(call.item())]) }
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(1));
    for (dead, code, status) in
        [(1, 0, "completed"), (2, 3, "partial_success"), (10, 3, "partial_success"), (11, 4, "failed")]
    {
        let source: String =
            (0..20).map(|n| format!("{{\"id\":\"{}\",\"n\":{n},\"die\":{}}}\n", key(n), n < dead)).collect();
        let place = Place::with(&one_stage(&stage), &source);
        let report = place.run_pipeline(code);
        assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&json!(status), dead as u64));
        assert_eq!(place.dead_keys(), keys(dead));
        assert_eq!(place.result_keys(), &keys(20) - &keys(dead));
        place.check();
    }
}

#[test]
fn the_bare_form_sends_the_payload_and_takes_the_body_as_output() {
    let bare = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = bare.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::{BufRead, BufReader, Read, Write};
        for stream in bare.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let sent: Value = serde_json::from_slice(&body).expect("JSON");
            let answer = json!({ "got": sent }).to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
            (&stream).write_all((head + &answer).as_bytes()).expect("answered");
        }
    });
    let stage =
        format!("kind = \"http\"\nurl = \"http://{address}/\"\nbody = \"payload\"\nconcurrency = 1\n");
    let place = Place::with(&one_stage(&stage), &samples(3));
    place.run_pipeline(0);
    let expected: BTreeMap<String, Value> =
        (0..3).map(|n| (key(n), json!({ "got": { "id": key(n), "n": n } }))).collect();
    assert_eq!(place.results(), expected);
    place.check();
}

#[test]
fn a_poison_item_that_kills_its_process_is_found_in_its_batch() {
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nbatch = 8\nconcurrency = 2\nretry.crash_limit = 2\n{}",
        quick_retry(5)
    );
    let place = Place::with(&one_stage(&stage), &samples(48));
    place.write(
        "work.py",
        r#"
import json, os, sys
for line in sys.stdin:
    items = json.loads(line)["items"]
    if any(item["key"] in ("k0005", "k0030") for item in items):
        os.kill(os.getpid(), 9)
    print(json.dumps({"results": [{"id": item["id"], "output": 1} for item in items]}), flush=True)
"#,
    );
    let report = place.run_pipeline(0);
    let guilty = crate::support::names(["k0005", "k0030"]);
    assert_eq!(place.dead_keys(), guilty);
    assert_eq!(place.result_keys(), &keys(48) - &guilty);
    assert_eq!(report["dead"], json!({ "by_reason": { "quarantined": 2 }, "by_class": { "crash": 2 } }));
    place.check();
}

#[test]
fn an_item_on_which_its_whole_batch_hangs_dies_alone() {
    let server = Server::start(|call| {
        let hangs = call.items.iter().any(|item| item.key == "k0009");
        if hangs { Answer::Never } else { Answer::all(call) }
    });
    let stage = format!("{}\nbatch = 8\ntimeout = \"400ms\"\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(24));
    let report = place.run_pipeline(0);
    assert_eq!(place.dead_keys(), crate::support::names(["k0009"]));
    assert_eq!(place.result_keys(), &keys(24) - &crate::support::names(["k0009"]));
    assert_eq!(report["dead"], json!({ "by_reason": { "exhausted": 1 }, "by_class": { "timeout": 1 } }));
    place.check();
}

#[test]
fn a_service_that_takes_only_single_items_gets_single_items() {
    for status in [400, 413, 500] {
        let server = Server::start(move |call| match call.items.len() {
            1 => Answer::all(call),
            _ => Answer::status(status, "one at a time"),
        });
        let stage = format!("{}\nbatch = 8\nconcurrency = 1\n{}", server.stage(), quick_retry(3));
        let place = Place::with(&one_stage(&stage), &samples(120));
        let report = place.run_pipeline(0);
        assert_eq!(place.result_keys(), keys(120), "{status}");
        assert_eq!(place.dead_keys(), Names::new(), "{status}");
        assert_eq!(
            count(&report["attempts"]["failures"]),
            0,
            "{status}: taking a batch apart costs no attempt"
        );
        // The shape is remembered: a batch of eight is not tried again and again.
        assert!(server.count() <= 2 * 120, "{status}: {} calls for 120 items", server.count());
        place.check();
    }
}

#[test]
fn a_batch_is_not_taken_apart_in_an_outage() {
    let server = Server::start(|_| Answer::status(500, "away"));
    let stage = format!("{}\nbatch = 8\nconcurrency = 2\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&without_breaker(&stage), &samples(64));
    let report = place.run_pipeline(4);
    assert_eq!(place.dead_keys(), keys(64));
    assert_eq!(report["attempts"], json!({ "total": 192, "failures": 192, "throttles": 0, "crashes": 0 }));
    // Twice three calls for each batch, and for one that was not full; at the last attempt each item is asked for alone.
    assert!(server.count() <= 2 * 3 * 9 + 64, "{} calls", server.count());
    place.check();
}
