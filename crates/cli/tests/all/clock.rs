//! Clocks that are put while runs wait: no wait is longer than what was decided, and it is told.

use std::time::Duration;

use serde_json::Value;

use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Place, Server, count, one_stage, samples};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// More than any wait of these runs takes on a slow machine, and far less than a step.
const SOON: Duration = Duration::from_secs(40);

/// Three attempts, two seconds between them.
const RETRY: &str = "retry = { max_attempts = 3, backoff = { kind = \"fixed\", delay = \"2s\" } }\n";

/// Fails the first attempt of everything.
fn fails_once() -> Server {
    Server::start(|call| {
        let item = call.item();
        let again = item.attempt > 1;
        Answer::results(&[if again { passed(item) } else { failed(item, "retryable", "not yet") }])
    })
}

fn place(server: &Server, more: &str) -> (Place, Shifted) {
    let mut place = Place::with(&one_stage(&format!("{}\n{RETRY}{more}", server.stage())), &samples(6));
    let clock = Shifted::in_place(&mut place);
    (place, clock)
}

fn ended(report: &Value) -> (u64, u64) {
    (count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"]))
}

#[test]
fn retries_that_a_clock_ahead_put_off_run_when_they_were_meant_to() {
    for (ahead, is_told) in [(2 * DAY, true), (HOUR, true), (1_000, false)] {
        let server = fails_once();
        let (place, clock) = place(&server, "");
        clock.put(ahead);
        // Everything has failed once and waits; the process that knows of it goes.
        place.run(&["run", "p.toml", "--max-wait", "0s", "--json"]).expect(3);
        clock.put(0);
        let ran = place.run(&["run", "p.toml", "--json"]).expect(0);
        assert!(ran.took < SOON, "{ahead} ms ahead: {:?}", ran.took);
        assert_eq!(ended(&ran.json()), (6, 0));
        assert_eq!(ran.stderr.contains("begin anew"), is_told, "{ahead}: {}", ran.stderr);
        if is_told {
            let life = place.json(&["explain", "k0000"]);
            assert!(life.to_string().contains("the clock is back by"), "{life}");
        }
        place.check();
    }
}

#[test]
fn what_was_in_flight_under_a_clock_ahead_is_tried_again_soon() {
    let server =
        Server::start(|call| if call.item().attempt > 1 { Answer::all(call) } else { Answer::Never });
    let (place, clock) = place(&server, "");
    clock.put(2 * DAY);
    let running = place.start(&["run", "p.toml", "--json"]);
    server.until_called(6);
    running.kill();
    clock.put(0);
    let ran = place.run(&["run", "p.toml", "--json"]).expect(0);
    assert!(ran.took < SOON, "{:?}", ran.took);
    assert_eq!(ended(&ran.json()), (6, 0));
    place.check();
}

#[test]
fn a_clock_that_is_put_back_while_a_run_waits_does_not_make_it_wait_longer() {
    for back in [2 * DAY, HOUR] {
        let server = fails_once();
        let (place, clock) = place(&server, "");
        let running = place.start(&["run", "p.toml", "--json"]);
        server.until_called(6);
        clock.put(-back);
        let ran = running.finish().expect(0);
        assert!(ran.took < SOON, "{back} ms back: {:?}", ran.took);
        assert_eq!(ended(&ran.json()), (6, 0));
        assert!(ran.stderr.contains("the clock was put back by"), "{}", ran.stderr);
        place.check();
    }
}

#[test]
fn a_clock_that_is_put_forward_while_a_run_waits_expires_nothing() {
    for forward in [2 * DAY, HOUR] {
        let server = fails_once();
        let mut text = one_stage(&format!("{}\n{RETRY}", server.stage()));
        text.insert_str(0, "deadline = \"30m\"\n");
        let mut place = Place::with(&text, &samples(6));
        let clock = Shifted::in_place(&mut place);
        let running = place.start(&["run", "p.toml", "--json"]);
        server.until_called(6);
        clock.put(forward);
        let ran = running.finish().expect(0);
        assert_eq!(ended(&ran.json()), (6, 0), "{forward} ms forward: {}", ran.stderr);
        assert!(ran.stderr.contains("the clock was put forward by"), "{}", ran.stderr);
        place.check();
    }
}

#[test]
fn a_step_of_a_second_while_a_run_waits_changes_nothing() {
    for step in [1_000, -1_000] {
        let server = fails_once();
        let (place, clock) = place(&server, "");
        let running = place.start(&["run", "p.toml", "--json"]);
        server.until_called(6);
        clock.put(step);
        let ran = running.finish().expect(0);
        assert!(ran.took < SOON, "{step} ms: {:?}", ran.took);
        assert_eq!(ended(&ran.json()), (6, 0), "{step} ms: {}", ran.stderr);
        assert_eq!(server.count(), 12, "{step} ms: each was tried twice");
        place.check();
    }
}

#[test]
fn a_clock_that_is_put_forward_between_two_commands_is_time_that_has_passed() {
    let server = fails_once();
    let (place, clock) = place(&server, "");
    place.run(&["run", "p.toml", "--max-wait", "0s", "--json"]).expect(3);
    clock.put(2 * DAY);
    // The deadline is 24 hours: what waits is dead by then, and can be sent back.
    let ran = place.run(&["run", "p.toml", "--json"]).expect(4);
    assert_eq!(ended(&ran.json()), (0, 6), "{}", ran.stderr);
    assert!(place.dead().iter().all(|dead| dead["reason"] == "expired"), "{:?}", place.dead());
    assert_eq!(server.count(), 6);
    place.run(&["dead", "redrive", "--all", "--work"]).expect(0);
    place.check();
}

#[test]
fn a_gate_that_a_clock_ahead_closed_opens_when_it_was_meant_to() {
    let server = Server::start(|call| {
        if call.item().attempt > 1 {
            Answer::all(call)
        } else {
            Answer::Http(429, vec![("retry-after", "2".to_owned())], "later".to_owned())
        }
    });
    let (place, clock) = place(&server, "");
    clock.put(2 * DAY);
    place.run(&["run", "p.toml", "--max-wait", "0s", "--json"]).expect(3);
    clock.put(0);
    let ran = place.run(&["run", "p.toml", "--json"]).expect(0);
    assert!(ran.took < SOON, "{:?}", ran.took);
    assert_eq!(ended(&ran.json()), (6, 0));
    place.check();
}

#[test]
fn a_run_that_sleeps_says_for_how_long_and_why() {
    let server = Server::start(|call| {
        let item = call.item();
        Answer::results(&[failed(item, "retryable", "not yet")])
    });
    let stage = format!(
        "{}\nretry = {{ max_attempts = 3, backoff = {{ kind = \"fixed\", delay = \"10m\" }} }}\n",
        server.stage()
    );
    let place = Place::with(&one_stage(&stage), &samples(3));
    let running = place.start(&["run", "p.toml", "--json"]);
    let told = "3 items wait for a retry of stage work (retryable)";
    running.until_said(told);
    running.signal("TERM");
    let ran = running.finish();
    assert_eq!(ran.stderr.matches(told).count(), 1, "once: {}", ran.stderr);
    assert!(ran.stderr.contains("nothing is due for 9m 5"), "{}", ran.stderr);
}

#[test]
fn a_run_that_waits_for_a_gate_says_which() {
    let server =
        Server::start(|_| Answer::Http(429, vec![("retry-after", "600".to_owned())], "later".to_owned()));
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let running = place.start(&["run", "p.toml", "--json"]);
    running.until_said("nothing is due for ");
    running.signal("TERM");
    let ran = running.finish();
    assert!(ran.stderr.contains("gate ") && ran.stderr.contains("3 items wait for"), "{}", ran.stderr);
}

#[test]
fn a_hangup_drains_as_a_request_to_stop_does() {
    let server = Server::start(Answer::all);
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 3\n", server.stage())), &samples(30));
    let running = place.start(&["run", "p.toml", "--json"]);
    server.until_open(3);
    running.signal("HUP");
    running.until_said("stopping");
    server.release();
    let ran = running.finish().expect(130);
    assert_eq!(ended(&ran.json()), (3, 0), "what ran is finished and recorded");
    let life = place.json(&["explain", "k0000"]);
    assert!(!life.to_string().contains("crashed"), "{life}");
    place.check();
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let server = Server::start(Answer::all);
    server.hold();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let running =
        place.start_under(&["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"], &["run", "p.toml", "--json"]);
    server.until_open(3);
    running.signal("HUP");
    server.release();
    let ran = running.finish().expect(0);
    assert_eq!(ended(&ran.json()), (3, 0));
}
