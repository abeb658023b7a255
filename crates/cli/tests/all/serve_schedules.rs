//! Schedules of the daemon: each time begins one run, whatever happens to daemons and clocks.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, samples, text, wait};

const SECOND: i64 = 1_000;
const DAY: i64 = 24 * 3_600 * SECOND;
/// 2030-01-07T03:00:00Z, a Monday.
const THREE: i64 = 1_893_985_200 * SECOND;

/// A place with a folder of one pipeline that runs at three every night, and a clock that shows half a minute before.
fn place(server: &Server, rules: &str) -> (Place, Shifted) {
    let mut place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/in.jsonl", samples(5));
    let clock = Shifted::in_place(&mut place);
    nightly(&place, server, rules);
    at(&clock, THREE - 30 * SECOND);
    (place, clock)
}

fn nightly(place: &Place, server: &Server, rules: &str) {
    let schedule = format!("[schedule]\ncron = \"0 3 * * *\"\n{rules}\n");
    place.write("pipelines/p.toml", format!("{}\n{schedule}", one_stage(&server.stage())));
}

/// Has the clock show a time.
fn at(clock: &Shifted, ms: i64) {
    let now = UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    clock.put(ms - i64::try_from(now).expect("before the end of time"));
}

fn start(place: &Place, env: &[(&str, &str)]) -> Daemon {
    Daemon::start_with(place, &["--pipelines", "pipelines"], env)
}

/// The one schedule, once it is as wanted.
fn until(place: &Place, wanted: impl Fn(&Value) -> bool) -> Value {
    place.until_json(&["schedules"], |list| list["schedules"].get(0).is_some_and(&wanted))["schedules"][0]
        .clone()
}

fn until_ended(daemon: &Daemon, run: &str, succeeded: u64) {
    daemon.until(&format!("/v1/runs/{run}"), |report| {
        !report["finished_at"].is_null() && report["counts"]["succeeded"] == succeeded
    });
}

#[test]
fn a_schedule_does_what_is_new_in_the_source_and_a_clock_put_back_brings_nothing_again() {
    let server = Server::good();
    let (place, clock) = place(&server, "");
    let daemon = start(&place, &[]);
    let known = until(&place, |schedule| schedule["next"][0] == "2030-01-07T03:00:00.000Z");
    assert_eq!((&known["last"], count(&known["times_fired"])), (&Value::Null, 0));
    let listed = daemon.get("/v1/pipelines").json();
    assert_eq!(listed["items"][0]["schedule"], known);
    assert_eq!(server.count(), 0);
    at(&clock, THREE + SECOND);
    let fired = until(&place, |schedule| schedule["times_fired"] == 1);
    assert_eq!((&fired["last"]["run"], &fired["last"]["failed"]), (&json!("r1"), &Value::Null));
    assert_eq!(fired["last"]["due"], "2030-01-07T03:00:00.000Z");
    assert_eq!(fired["next"][0], "2030-01-08T03:00:00.000Z");
    until_ended(&daemon, "r1", 5);
    // The next night only what is new is done.
    place.write("pipelines/in.jsonl", samples(7));
    at(&clock, THREE + DAY + SECOND);
    until_ended(&daemon, "r1", 7);
    until(&place, |schedule| schedule["times_fired"] == 2);
    // By a clock that is put back, nothing is fired again; that it was looked at shows in the edited rule.
    at(&clock, THREE - 10 * SECOND);
    nightly(&place, &server, "overlap = \"queue\"");
    until(&place, |schedule| schedule["overlap"] == "queue");
    at(&clock, THREE + SECOND);
    nightly(&place, &server, "overlap = \"allow\"");
    let kept = until(&place, |schedule| schedule["overlap"] == "allow");
    assert_eq!((count(&kept["times_fired"]), count(&kept["times_skipped"])), (2, 0), "{kept}");
    assert!(server.times_called().values().all(|calls| *calls == 1), "{:?}", server.times_called());
    assert_eq!(server.count(), 7);
    daemon.stop().expect(0);
    place.check();
}

/// A daemon dies between a decision and what follows from it; two others do that once. Tells whether it died.
pub fn fires_although_one_dies(point: &str) -> bool {
    let server = Server::good();
    let (place, clock) = place(&server, "");
    let dies = start(&place, &[("REDRIVE_CRASH_AT", point)]);
    until(&place, |schedule| schedule["next"][0] == "2030-01-07T03:00:00.000Z");
    at(&clock, THREE + SECOND);
    let killed = dies.finish().killed_by() == Some(9);
    let decided = until(&place, |schedule| array(&schedule["waiting"]).len() == 1);
    assert_eq!(count(&decided["times_fired"]), 0, "{point}: {decided}");
    let daemons = [start(&place, &[]), start(&place, &[])];
    // Nobody else begins it before the one that decided is taken for gone.
    at(&clock, THREE + 40 * SECOND);
    let fired = until(&place, |schedule| schedule["times_fired"] == 1);
    assert_eq!(fired["last"]["due"], "2030-01-07T03:00:00.000Z", "{point}");
    until_ended(&daemons[0], "r1", 5);
    // At the next time both are there, and one of them fires.
    place.write("pipelines/in.jsonl", samples(6));
    at(&clock, THREE + DAY);
    until_ended(&daemons[1], "r1", 6);
    let fired = until(&place, |schedule| schedule["times_fired"] == 2 && schedule["waiting"] == json!([]));
    assert_eq!((count(&fired["times_fired"]), count(&fired["times_skipped"])), (2, 0), "{point}: {fired}");
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 1, "{point}");
    assert!(server.times_called().values().all(|calls| *calls == 1), "{point}");
    daemons.into_iter().for_each(|daemon| drop(daemon.stop().expect(0)));
    place.check();
    killed
}

#[test]
fn a_time_is_fired_once_by_two_daemons_although_a_third_dies_after_its_decision() {
    assert!(fires_although_one_dies("schedule.decided:1"));
}

#[test]
fn a_time_at_which_the_run_goes_on_is_skipped_or_waits() {
    for (overlap, skipped, waiting) in [("skip", 1, 0), ("queue", 0, 1)] {
        let server = Server::start(Answer::all);
        server.hold();
        let (place, clock) = place(&server, &format!("overlap = \"{overlap}\""));
        let daemon = start(&place, &[]);
        until(&place, |schedule| schedule["overlap"] == overlap);
        at(&clock, THREE + SECOND);
        server.until_open(5);
        at(&clock, THREE + DAY + SECOND);
        let busy = until(&place, |schedule| {
            array(&schedule["waiting"]).len() == waiting
                && count(&schedule["times_skipped"]) == skipped
                && schedule["times_fired"] == 1
                && schedule["next"][0] == "2030-01-09T03:00:00.000Z"
        });
        if skipped == 1 {
            assert_eq!(
                (&busy["skipped"]["why"], &busy["skipped"]["due"]),
                (&json!("overlap"), &json!("2030-01-08T03:00:00.000Z"))
            );
            let told = place.run(&["schedules"]).expect(0).stdout;
            assert!(told.contains("the run before had not ended"), "{told}");
        }
        server.release();
        until(&place, |schedule| count(&schedule["times_fired"]) == 1 + waiting as u64);
        wait::until("the run has ended", || daemon.get("/v1/runs/r1").json()["counts"]["succeeded"] == 5);
        daemon.stop().expect(0);
    }
}

#[test]
fn a_time_at_which_the_run_goes_on_is_fired_nevertheless_where_that_is_allowed() {
    let server = Server::start(Answer::all);
    server.hold();
    let (place, clock) = place(&server, "overlap = \"allow\"");
    let daemon = start(&place, &[]);
    until(&place, |schedule| schedule["overlap"] == "allow");
    at(&clock, THREE + SECOND);
    server.until_open(5);
    place.write("pipelines/in.jsonl", samples(7));
    at(&clock, THREE + DAY + SECOND);
    let fired = until(&place, |schedule| schedule["times_fired"] == 2);
    assert_eq!((count(&fired["times_skipped"]), array(&fired["waiting"]).len()), (0, 0), "{fired}");
    assert_eq!(fired["last"]["due"], "2030-01-08T03:00:00.000Z");
    // What is new is taken in while what was there before is still at work.
    let run = text(&fired["last"]["run"]);
    daemon.until(&format!("/v1/runs/{run}"), |report| {
        count(&report["counts"]["running"]) + count(&report["counts"]["waiting"]) == 7
    });
    server.release();
    until_ended(&daemon, &run, 7);
    assert_eq!(server.by_key().values().map(Vec::len).max(), Some(1), "each item is asked for once");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn times_at_which_no_daemon_was_there_are_made_up_for_as_the_rule_says() {
    for (missed, fired, skipped) in [("once", 1, 2), ("skip", 0, 3), ("all", 3, 0)] {
        let server = Server::good();
        let (place, clock) = place(&server, &format!("missed = \"{missed}\""));
        let daemon = start(&place, &[]);
        until(&place, |schedule| schedule["missed"] == missed);
        daemon.stop().expect(0);
        at(&clock, THREE + 2 * DAY + 3_600 * SECOND);
        let daemon = start(&place, &[]);
        let made_up = until(&place, |schedule| {
            (&schedule["times_fired"], &schedule["times_skipped"]) == (&json!(fired), &json!(skipped))
        });
        assert_eq!(made_up["next"][0], "2030-01-10T03:00:00.000Z", "{missed}");
        if fired > 0 {
            until_ended(&daemon, "r1", 5);
            assert_eq!(server.count(), 5, "{missed}: nothing is done twice");
        }
        daemon.stop().expect(0);
    }
}

#[test]
fn what_cannot_be_begun_is_told_and_what_is_wrong_names_file_line_and_key() {
    let server = Server::good();
    let (place, clock) = place(&server, "");
    let daemon = start(&place, &[]);
    until(&place, |schedule| schedule["times_fired"] == 0);
    std::fs::remove_file(place.path("pipelines/in.jsonl")).expect("removed");
    at(&clock, THREE + SECOND);
    let fired = until(&place, |schedule| schedule["times_fired"] == 1);
    assert!(text(&fired["last"]["failed"]).contains("in.jsonl"), "{fired}");
    // A zone that nobody knows leaves the version before in force.
    nightly(&place, &server, "time_zone = \"Europe/Berln\"");
    let listed = daemon.until("/v1/pipelines", |list| !list["items"][0]["problem"].is_null());
    let problem = &listed["items"][0]["problem"]["problems"][0];
    assert_eq!(problem["key"], "schedule.time_zone");
    assert_eq!(problem["message"], "time zone \"Europe/Berln\" is not known");
    assert_eq!(listed["items"][0]["schedule"]["time_zone"], "UTC");
    place.write("pipelines/in.jsonl", samples(5));
    let ran = place.run(&["run", "pipelines/p.toml"]).expect(2);
    assert!(ran.stderr.contains("schedule.time_zone") && ran.stderr.contains("p.toml:"), "{}", ran.stderr);
    // A pipeline that has no schedule any more is not listed.
    place.write("pipelines/p.toml", one_stage(&server.stage()));
    place.until_json(&["schedules"], |list| list["schedules"] == json!([]));
    daemon.stop().expect(0);
}
