//! External workers: what is answered too late, twice, by others, or while the daemon stops.

use serde_json::{Value, json};

use crate::serve_external::{claim, complete, hand_in, keys_of, moods, place};
use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, array, count, keys, names, quick_retry, samples, text};

fn code(daemon: &Daemon, token: &str, path: &str, body: &Value) -> (u16, String) {
    let reply = daemon.post_as(token, path, body);
    let document = reply.json();
    assert!(reply.status == 200 || document["hint"].is_string(), "{document}");
    (reply.status, document["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn late_second_forged_and_foreign_answers_change_nothing() {
    let place = place();
    let create = |name: &str| {
        place.run(&["token", "create", name, "--role", "worker"]).expect(0).stdout.trim().to_owned()
    };
    let (wanda, walter) = (create("wanda"), create("walter"));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 4);
    let ask = json!({"max_items": 4, "wait_ms": 30_000});
    let claim = daemon.post_as(&wanda, "/v1/work/claim", &ask).expect(200).json();
    let lease = text(&claim["lease"]);
    let result = |at: usize, output: &str| json!({"id": claim["items"][at]["id"], "output": output});
    let says = |token: &str, lease: &str, results: Value| {
        code(&daemon, token, "/v1/work/complete", &json!({"lease": lease, "results": results}))
    };
    let first = || json!([result(0, "first")]);
    let foreign = (403, "lease_foreign".to_owned());
    assert_eq!(says(&walter, &lease, first()), foreign, "of somebody else");
    assert_eq!(says(TOKEN, &lease, first()), foreign, "of an administrator");
    let forged = format!("{}{}", &lease[..lease.len() - 1], if lease.ends_with('0') { '1' } else { '0' });
    for forged in [forged.as_str(), "", "rdl", "x_y_z_a_b"] {
        assert_eq!(says(&wanda, forged, first()), foreign, "{forged}");
        let beat = code(&daemon, &wanda, "/v1/work/heartbeat", &json!({"lease": forged}));
        assert_eq!(beat, foreign, "{forged}");
    }
    let stranger = json!([result(0, "first"), {"id": "nobody", "output": 1}]);
    assert_eq!(says(&wanda, &lease, stranger), (400, "invalid_request".to_owned()));
    assert_eq!(says(&wanda, &lease, json!([])), (400, "invalid_request".to_owned()));
    // A part is taken; the same again is not.
    let part = daemon.post_as(&wanda, "/v1/work/complete", &json!({"lease": lease, "results": first()}));
    let part = part.expect(200).json();
    assert_eq!((&part["accepted"], &part["left"], &part["recorded"]), (&json!(1), &json!(3), &json!(0)));
    assert!(count(&part["lease"]["lease_ms"]) > 20_000, "{part}");
    let over = (409, "lease_over".to_owned());
    assert_eq!(says(&wanda, &lease, json!([result(0, "second")])), over);
    let oversized = json!({"lease": lease, "error": {"class": "oversized", "message": "too much"}});
    assert_eq!(code(&daemon, &wanda, "/v1/work/fail", &oversized).0, 400);
    let failed = json!({"lease": lease, "error": {"class": "final", "message": "cannot be done", "retry_after_ms": 5}});
    let heard = daemon.post_as(&wanda, "/v1/work/fail", &failed).expect(200).json();
    assert_eq!((&heard["accepted"], &heard["recorded"]), (&json!(3), &json!(4)));
    assert_eq!(code(&daemon, &wanda, "/v1/work/fail", &failed), over, "twice");
    assert_eq!(says(&wanda, &lease, json!([result(1, "late")])), over);
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"])), (1, 3));
    assert_eq!(moods(&daemon)[&text(&claim["items"][0]["key"])]["mood"], "first");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_daemon_that_is_killed_counts_a_crash_and_its_leases_are_worth_nothing() {
    let place = place();
    let mut daemon = Daemon::start(&place, &["--pipelines", "pipelines", "--lease", "3s"]);
    hand_in(&daemon, 6);
    let held = claim(&daemon, 4, 30_000);
    daemon.process().signal("KILL");
    let _ = daemon.finish();
    let next = Daemon::start(&place, &["--pipelines", "pipelines", "--lease", "3s"]);
    let late = complete(&next, &held, "late").expect(409).json();
    assert_eq!(late["code"], "lease_over", "{late}");
    next.until("/v1/runs/r1", |report| report["attempts"]["crashes"] == 4);
    let mut done = Vec::new();
    while done.len() < 6 {
        let claim = claim(&next, 6, 30_000);
        complete(&next, &claim, "good").expect(200);
        done.extend(keys_of(&claim));
    }
    assert_eq!((done.len(), names(&done)), (6, keys(6)));
    assert!(moods(&next).values().all(|content| content["mood"] == "good"));
    next.stop().expect(0);
    place.check();
}

#[test]
fn a_clean_stop_lets_work_in_hand_be_completed_and_costs_no_attempt() {
    let place = place();
    let mut daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 12);
    let (kept, left) = (claim(&daemon, 4, 30_000), claim(&daemon, 4, 2_000));
    let waits = json!({"stages": ["other"], "wait_ms": 60_000});
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| daemon.post("/v1/work/claim", &waits).expect(200).json());
        daemon.until("/v1/workers", |workers| !array(&workers["items"]).is_empty());
        let pid = daemon.pid().to_string();
        assert!(
            std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().expect("kill").success()
        );
        let answered = waiting.join().expect("answered");
        assert_eq!((array(&answered["items"]).len(), &answered["stopping"]), (0, &json!(true)));
    });
    daemon.process().until_said("stopping");
    let none = daemon.post("/v1/work/claim", &json!({"wait_ms": 60_000})).expect(200).json();
    assert_eq!((&none["lease"], &none["stopping"]), (&Value::Null, &json!(true)), "nothing new is given out");
    let beat = daemon.post("/v1/work/heartbeat", &json!({"lease": kept["lease"]})).expect(200).json();
    assert_eq!(beat["stopping"], true);
    assert_eq!(complete(&daemon, &kept, "kept").expect(200).json()["recorded"], 4);
    daemon.finish().expect(0);
    let next = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let report = next.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["waiting"])), (4, 8));
    let spent = &report["attempts"];
    assert_eq!((count(&spent["failures"]), count(&spent["crashes"])), (0, 0), "{spent}");
    complete(&next, &left, "late").expect(409);
    let rest = claim(&next, 100, 30_000);
    assert_eq!(keys_of(&rest).len(), 8);
    complete(&next, &rest, "rest").expect(200);
    assert_eq!(moods(&next).len(), 12);
    next.stop().expect(0);
    place.check();
}

#[test]
fn a_call_that_lasts_longer_than_the_stage_allows_is_over_whatever_signs_of_life_come() {
    let place = place();
    let short = place.read("pipelines/moods.toml").replace("60s", "1500ms");
    place.write("pipelines/moods.toml", short);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 2);
    let held = claim(&daemon, 2, 30_000);
    assert!(count(&held["lease_ms"]) <= 1_500 && count(&held["most_ms"]) <= 1_500, "{held}");
    let mut refused = 0;
    crate::support::wait::until("it is over", || {
        refused = daemon.post("/v1/work/heartbeat", &json!({"lease": held["lease"]})).status;
        refused != 200
    });
    assert_eq!(refused, 409);
    let report = daemon.until("/v1/runs/r1", |report| report["attempts"]["failures"] == 2);
    assert_eq!(count(&report["attempts"]["crashes"]), 0, "a timeout is no crash");
    daemon.stop().expect(0);
}

#[test]
fn a_process_that_nobody_can_ask_says_so_and_does_the_rest() {
    let place = Place::new();
    place.write(
        "p.toml",
        format!(
            "name = \"moods\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[[stage]]\nname = \"first\"\nkind = \"pass\"\n\
             [[stage]]\nname = \"mood\"\nkind = \"external\"\nbatch = 10\n{}",
            quick_retry(2)
        ),
    );
    place.write("in.jsonl", samples(3));
    // What can be done next leads to a daemon, and not from one command that leaves them to the next.
    for args in [
        &["submit", "p.toml"][..],
        &["run", "p.toml", "--max-wait", "0s"],
        &["resume", "r1", "--max-wait", "0s"],
    ] {
        let told = place.run(args).stderr;
        let hint = told.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
        assert!(hint.contains("`redrive serve`") && !hint.contains("redrive work"), "{args:?}: {told}");
    }
    let refused = place.run(&["try", "p.toml", "mood", "--payload", "{}"]);
    assert!(refused.code() != Some(0) && refused.stderr.contains("external workers"), "{}", refused.stderr);
    let run = place.start(&["run", "p.toml"]);
    run.until_said("nobody can ask this process");
    place.until_json(&["show", "r1"], |report| {
        report["reason"] == "no external worker asks for stage mood"
            && report["stages"][1]["counts"]["waiting"] == 3
    });
    run.signal("INT");
    run.finish();
    // One that only works ends, too, instead of waiting for nobody.
    let worked = place.run(&["work", "--until-idle"]);
    assert!(worked.code().is_some(), "{}", worked.stderr);
    let daemon = Daemon::start(&place, &[]);
    let claim = claim(&daemon, 10, 30_000);
    assert_eq!(keys_of(&claim), keys(3));
    complete(&daemon, &claim, "good").expect(200);
    daemon.until("/v1/runs/r1", |report| report["status"] == "completed");
    assert_eq!(moods(&daemon).len(), 3);
    assert_eq!(count(&daemon.get("/v1/runs/r1").json()["attempts"]["total"]), 6);
    daemon.stop().expect(0);
    let idle = Daemon::start(&place, &["--no-work"]);
    let ready = idle.get("/readyz").expect(200).json();
    assert_eq!((&ready["ready"], &ready["workers"]), (&json!(true), &json!(false)), "it is to answer only");
    let nobody = idle.post("/v1/work/claim", &json!({"wait_ms": 60_000})).expect(409).json();
    assert!(text(&nobody["detail"]).contains("nobody works"), "{nobody}");
    idle.stop().expect(0);
    place.check();
}
