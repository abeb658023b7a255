//! The daemon that passes facts on and takes items from a queue is killed again and again.

use std::io::Write;
use std::time::Duration;

use crate::support::{Broker, Daemon, Ledger, Place, array, count, key, one_stage, wait};

/// Kills that are wanted, and how long they may take.
const KILLS: usize = 50;
const BUDGET: Duration = Duration::from_secs(45);
const AT_LEAST: usize = 10;
const EACH: usize = 20;

#[test]
fn nothing_is_lost_or_done_twice_though_the_daemon_is_killed_again_and_again() {
    let broker = Broker::start();
    let client = broker.client();
    client.bind("all", &["#"], &[]);
    client.declare("orders");
    let pipeline =
        one_stage("kind = \"pass\"").replace("path = \"in.jsonl\"", "kind = \"inbox\"\nqueue = \"orders\"");
    let place = Place::with(&pipeline, "");
    let url = broker.url();
    place.run(&["relay", "--once", "--bus", &url]).expect(0);
    let ledger = Ledger::begin(&place);
    let (begun, mut kills, mut redelivered) = (wait::now(), 0, 0);
    while kills < KILLS && begun.elapsed() < BUDGET {
        let bodies: Vec<String> =
            (kills * EACH..(kills + 1) * EACH).map(|n| format!("{{\"id\":\"{}\"}}", key(n))).collect();
        client.put("orders", &bodies.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let before = ledger.written() - ledger.waiting();
        let daemon = Daemon::start(&place, &["--pipelines", ".", "--bus", &url]);
        // It dies at different moments: before it does anything, in the middle, and when little is left.
        let some = i64::try_from((kills % 5) * EACH / 2).expect("few");
        wait::until("something is passed on", || ledger.written() - ledger.waiting() >= before + some);
        daemon.kill();
        redelivered += client.count("orders");
        kills += 1;
    }
    let items = kills * EACH;
    let daemon = Daemon::start(&place, &["--pipelines", ".", "--bus", &url]);
    wait::until("the queue is empty and all items have ended", || {
        let runs = place.json(&["runs"]);
        let done = array(&runs["runs"]).first().map_or(0, |run| count(&run["counts"]["succeeded"]));
        client.count("orders") == 0 && done == items as u64
    });
    wait::until("all facts are passed on", || ledger.waiting() == 0);
    daemon.stop().expect(0);
    let report = place.json(&["show", "r1"]);
    assert_eq!(count(&report["counts"]["admitted"]), items as u64, "each once: {report:#}");
    let arrived = ledger.compare(&client.drain("all"));
    assert_eq!((arrived.events["item.admitted"], arrived.events["item.succeeded"]), (items, items));
    let told = format!(
        "{kills} kills, {items} items of which {redelivered} were in the queue at a kill, {} facts, {} of them twice\n",
        arrived.facts, arrived.twice
    );
    let _ = std::io::stderr().write_all(told.as_bytes());
    assert!(kills >= AT_LEAST, "only {kills} kills within {BUDGET:?}");
    assert_eq!(client.count("orders"), 0);
    place.check();
}
