//! A service that goes away for good stops the run before it has killed everything, and the run goes on later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Answer, Place, Server, column, count, keys, samples};

const ITEMS: usize = 2_600;
const GOOD: usize = 2_000;
const CONCURRENCY: usize = 16;
const ATTEMPTS: usize = 2;
const CONSECUTIVE: usize = 25;

/// Without the breaker, which would have work wait for the service instead.
fn pipeline(server: &Server) -> String {
    format!("{}gate = \"plain\"\n[gate.plain]\nbreaker = false\n", with_breaker(server))
}

/// With the gate that every host has.
fn with_breaker(server: &Server) -> String {
    format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n\
         [run]\nfailure_budget = {{ consecutive = {CONSECUTIVE} }}\n\
         [[stage]]\nname = \"work\"\n{}\nconcurrency = {CONCURRENCY}\n\
         retry = {{ max_attempts = {ATTEMPTS}, backoff = {{ kind = \"none\" }} }}\n",
        server.stage()
    )
}

#[test]
fn an_outage_pauses_the_run_soon_and_resume_finishes_it() {
    let away = Arc::new(AtomicBool::new(false));
    let (flag, answered) = (away.clone(), std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |call| {
        if answered.fetch_add(1, Ordering::SeqCst) + 1 == GOOD {
            flag.store(true, Ordering::SeqCst);
            return Answer::all(call);
        }
        if flag.load(Ordering::SeqCst) { Answer::status(503, "away") } else { Answer::all(call) }
    });
    let place = Place::with(&pipeline(&server), &samples(ITEMS));
    let ran = place.run(&["run", "p.toml", "--json"]).expect(5);
    let report = ran.json();
    assert_eq!(report["status"], "paused_budget");
    assert!(
        crate::support::text(&report["reason"]).contains("stage work: 25 of its items died in a row"),
        "{}",
        report["reason"]
    );
    assert!(ran.stderr.contains("redrive resume r1"), "{}", ran.stderr);
    // Every dead item took its attempts. Besides them there can be as many as are called, as many as have just
    // failed and wait, and as many as were claimed in the same turn.
    let spent = server.count() - GOOD;
    let most = ATTEMPTS * (CONSECUTIVE + 3 * CONCURRENCY);
    assert!(
        spent >= ATTEMPTS * CONSECUTIVE && spent <= most,
        "{spent} calls into the outage, at most {most}"
    );
    let counts = &report["counts"];
    let (dead, waiting) = (count(&counts["dead"]), count(&counts["waiting"]));
    assert!(dead as usize >= CONSECUTIVE && dead as usize <= CONSECUTIVE + 2 * CONCURRENCY, "{counts}");
    // Calls that were under way when the service went count as good ones.
    let succeeded = count(&counts["succeeded"]);
    assert_eq!((succeeded + dead + waiting, &counts["running"]), (ITEMS as u64, &0.into()), "{counts}");
    let dead_keys = place.dead_keys();
    assert_eq!(dead_keys.len() as u64, dead);
    place.check();

    let before = server.count();
    let again = place.run(&["run", "p.toml"]).expect(5);
    assert!(again.stderr.contains("is paused"), "{}", again.stderr);
    assert!((again.stdout + &again.stderr).contains("in a row"), "it says why");
    assert_eq!(place.json(&["show", "r1"])["status"], "paused_budget");
    let waits = place.json(&["explain", &crate::support::key(ITEMS - 1)]);
    assert!(crate::support::text(&waits["now"]).contains("paused"), "{}", waits["now"]);
    assert_eq!(server.count(), before, "nobody was called");

    // Still away: the budget is forgiven, and spent again.
    let report = place.run(&["resume", "r1", "--json"]).expect(5).json();
    assert_eq!(report["status"], "paused_budget");
    assert!(server.count() - before <= most);

    away.store(false, Ordering::SeqCst);
    let dead_keys = place.dead_keys();
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(place.dead_keys(), dead_keys, "what died stays dead until it is sent back");
    assert_eq!(place.result_keys(), &keys(ITEMS) - &dead_keys);

    let done = place.run(&["dead", "redrive", "--run", "r1", "--all", "--work", "--json"]).expect(0).json();
    let report = &done["runs"][0];
    assert_eq!(
        (&report["status"], count(&report["counts"]["succeeded"])),
        (&"completed".into(), ITEMS as u64)
    );
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    assert!(place.dead().is_empty());
    place.check();
}

#[test]
fn an_outage_from_the_start_of_a_small_run_pauses_it() {
    let server = Server::start(|_| Answer::Cut);
    let place = Place::with(&pipeline(&server), &samples(200));
    let report = place.run(&["run", "p.toml", "--json"]).expect(5).json();
    assert_eq!(report["status"], "paused_budget");
    assert!(server.count() <= ATTEMPTS * (CONSECUTIVE + 3 * CONCURRENCY), "{}", server.count());
    let dead = place.dead();
    assert!(dead.iter().all(|item| item["reason"] == "exhausted" && item["class"] == "retryable"));
    assert!(column(&dead.into(), "key").is_subset(&keys(200)));
    place.check();
}

#[test]
fn the_same_outage_kills_nothing_where_the_gate_watches_for_it() {
    let away = Arc::new(AtomicBool::new(false));
    let (flag, answered) = (away.clone(), std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |call| {
        if answered.fetch_add(1, Ordering::SeqCst) + 1 == GOOD {
            flag.store(true, Ordering::SeqCst);
            return Answer::all(call);
        }
        if flag.load(Ordering::SeqCst) { Answer::status(503, "away") } else { Answer::all(call) }
    });
    let place = Place::with(&with_breaker(&server), &samples(ITEMS));
    let started = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    let gate = place.until_gate(server.address(), "away");
    assert!(gate["until"].is_string(), "{gate:#}");
    crate::support::wait::until("what was under way has ended", || server.open() == 0);
    let parked = place.until_json(&["show", "r1"], |run| run["counts"]["running"] == 0);
    // Twenty in a row close it; besides them there is what was under way and what had failed once and was tried again. A 503
    // shortly after a call that passed is a limiter's: how many calls fit into that moment is a matter of the machine, but none
    // of the items in hand is turned away more than ten times.
    let spent = server.count() - GOOD;
    assert!((20..=20 + (2 + 10) * CONCURRENCY).contains(&spent), "{spent} calls into the outage");
    let waits = place.json(&["explain", &crate::support::key(ITEMS - 1)]);
    assert!(crate::support::text(&waits["now"]).contains("gate"), "{}", waits["now"]);
    away.store(false, Ordering::SeqCst);
    let report = started.finish().expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(report["attempts"]["failures"], parked["attempts"]["failures"], "waiting spends nothing");
    // Twenty failures in a row close it, and what is under way then fails as well: every dead item is two of these, and how
    // many of them are of the same items is a matter of who is answered first.
    let (failures, dead) =
        (count(&report["attempts"]["failures"]) as usize, count(&report["counts"]["dead"]) as usize);
    assert!(failures < 20 + CONCURRENCY, "{report:#}");
    assert!(dead <= failures / ATTEMPTS, "{report:#}");
    assert_eq!(place.result_keys(), &keys(ITEMS) - &place.dead_keys());
    place.check();
}

#[test]
fn used_up_credit_pauses_the_run_and_kills_nothing() {
    let paid = Arc::new(AtomicBool::new(false));
    let flag = paid.clone();
    let server = Server::start(move |call| {
        if flag.load(Ordering::SeqCst) {
            return Answer::all(call);
        }
        Answer::status(
            429,
            r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#,
        )
    });
    let place = Place::with(&pipeline(&server), &samples(200));
    let report = place.run(&["run", "p.toml", "--json"]).expect(5).json();
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"paused_quota".into(), 0));
    assert_eq!(count(&report["attempts"]["failures"]), 0);
    assert!(crate::support::text(&report["reason"]).contains("quota"), "{}", report["reason"]);
    assert!(server.count() <= 2 * CONCURRENCY, "{} calls", server.count());
    let before = server.count();
    place.run(&["run", "p.toml"]).expect(5);
    assert_eq!(server.count(), before);
    place.check();
    paid.store(true, Ordering::SeqCst);
    let report = place.run(&["resume", "r1", "--results", "out.jsonl", "--json"]).expect(0).json();
    assert_eq!(report["status"], "completed");
    assert_eq!(place.result_keys(), keys(200));
    place.check();
}
