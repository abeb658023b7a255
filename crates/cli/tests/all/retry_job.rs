//! The retry job: what nobody holds is taken back, the rest is left to its time, and one bad run stops nothing.

use serde_json::json;

use crate::monitor::{samples_of, scraped};
use crate::support::shifted::Shifted;
use crate::support::tools::{Service, free_port, needed};
use crate::support::{Daemon, Place, Server, count, one_stage, quick_retry, samples, wait};

const HOUR: i64 = 3_600_000;

/// A place where a worker was killed with so many items in hand.
fn abandoned(server: &Server, place: &Place, items: usize) {
    server.hold();
    let before = server.count();
    let worker = place.start(&["work"]);
    server.until_called(before + items);
    assert_eq!(worker.kill().killed_by(), Some(9));
    server.release();
}

fn stage(server: &Server, more: &str) -> String {
    one_stage(&format!("{}\nconcurrency = 8\n{}{more}", server.stage(), quick_retry(3)))
}

#[test]
fn what_a_worker_left_behind_is_in_line_again_though_nobody_works() {
    let server = Server::good();
    let place = Place::with(&stage(&server, ""), &samples(3));
    place.run(&["submit", "p.toml"]).expect(0);
    abandoned(&server, &place, 3);
    assert_eq!(place.json(&["show", "r1"])["counts"]["running"], json!(3));
    let sweep = place.json(&["retry-job", "--once"]);
    assert_eq!(
        (&sweep["taken_back"], &sweep["exhausted"], &sweep["errors"]),
        (&json!(3), &json!(0), &json!([]))
    );
    assert_eq!(place.json(&["show", "r1"])["counts"]["waiting"], json!(3));
    let told = scraped(&place);
    assert_eq!(told["retry_job_documents_requeued_total{collection=\"test\"}"], 3.0);
    assert_eq!(told["retry_job_stuck_documents{collection=\"test\"}"], 0.0);
    assert_eq!(told["redrive_lease_losses_total{pipeline=\"test\",stage=\"work\"}"], 3.0);
    assert_eq!(told["retry_job_runs_total{status=\"success\"}"], 1.0);
    assert_eq!(told["retry_job_duration_seconds_count"], 1.0);
    // A second sweep finds nothing to take back, and what was taken back is worked on.
    assert_eq!(place.json(&["retry-job", "--once"])["taken_back"], json!(0));
    place.run(&["work", "--until-idle", "--max-wait", "30s"]).expect(0);
    assert_eq!(place.json(&["show", "r1"])["counts"]["succeeded"], json!(3));
    place.check();
}

#[test]
fn an_item_that_lost_its_worker_too_often_is_dead_by_the_sweep() {
    let server = Server::good();
    let place = Place::with(&stage(&server, "retry.worker_limit = 1\n"), &samples(1));
    place.run(&["submit", "p.toml"]).expect(0);
    abandoned(&server, &place, 1);
    let sweep = place.json(&["retry-job", "--once"]);
    assert_eq!((&sweep["taken_back"], &sweep["exhausted"]), (&json!(0), &json!(1)));
    assert_eq!(place.dead()[0]["reason"], json!("quarantined"));
    assert_eq!(
        scraped(&place)["redrive_deaths_total{pipeline=\"test\",stage=\"work\",reason=\"quarantined\"}"],
        1.0
    );
    place.check();
}

#[test]
fn backoff_is_waited_for_and_a_starved_item_is_only_reported() {
    let server = Server::start(|_| crate::support::Answer::status(500, "no"));
    let mut place = Place::new();
    let clock = Shifted::in_place(&mut place);
    let retry = "retry.max_attempts = 3\nretry.backoff = { kind = \"fixed\", delay = \"10m\" }\nretry.jitter = \"none\"\n";
    place.write(
        "p.toml",
        one_stage(&format!("{}\n{retry}", server.stage()))
            .replace("[source]", "deadline = \"none\"\n[source]"),
    );
    place.write("in.jsonl", samples(2));
    place.run(&["run", "p.toml", "--max-wait", "0s", "--quiet"]).expect(3);
    let swept = |after: i64| {
        clock.put(after);
        let sweep = place.json(&["retry-job", "--once"]);
        [count(&sweep["backing_off"]), count(&sweep["came_due"]), count(&sweep["starved"])]
    };
    assert_eq!(swept(0), [2, 0, 0], "ten minutes are not over");
    assert_eq!(swept(HOUR), [0, 2, 0], "their time has come since");
    assert_eq!(swept(2 * HOUR), [0, 0, 0], "each is counted once");
    assert_eq!(swept(30 * HOUR), [0, 0, 2]);
    let told = scraped(&place);
    assert_eq!(told["retry_job_documents_requeued_total{collection=\"test\"}"], 2.0);
    assert_eq!(told["retry_job_documents_skipped_backoff_total{collection=\"test\"}"], 2.0);
    assert_eq!(told["redrive_starved_items{pipeline=\"test\",stage=\"work\",cause=\"nobody\"}"], 2.0);
    assert!(told["redrive_due_lag_seconds{pipeline=\"test\",stage=\"work\"}"] > 86_400.0);
    assert_eq!(place.json(&["show", "r1"])["counts"]["waiting"], json!(2), "nothing was done to them");
}

#[test]
fn a_run_that_cannot_be_read_keeps_no_other_from_being_swept() {
    let server = Server::good();
    let place = Place::with(&stage(&server, ""), &samples(2));
    place.write("other.toml", stage(&server, "").replace("name = \"test\"", "name = \"other\""));
    place.run(&["submit", "other.toml"]).expect(0);
    place.run(&["submit", "p.toml"]).expect(0);
    abandoned(&server, &place, 4);
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    store.execute("UPDATE run SET definition = 'nonsense' WHERE pipeline = 'other'", []).expect("spoilt");
    drop(store);
    let swept = place.run(&["retry-job", "--once", "--json"]).expect(1).json();
    assert_eq!((&swept["runs"], &swept["taken_back"]), (&json!(2), &json!(2)));
    assert_eq!(swept["errors"].as_array().map(Vec::len), Some(1), "{swept}");
    let told = scraped(&place);
    assert_eq!(told["retry_job_runs_total{status=\"failure\"}"], 1.0);
    assert_eq!(told["retry_job_errors_total{error_type=\"unreadable\"}"], 1.0);
}

#[test]
fn a_setting_that_is_not_known_is_refused_by_name() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    for command in [&["retry-job", "--once"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let refused = place.run_with(command, &[("RETRY_JOB_PERIOD_SECONDS", "5")]).expect(2);
        assert!(
            refused.stderr.contains("RETRY_JOB_PERIOD_SECONDS: there is no such setting"),
            "{}",
            refused.stderr
        );
    }
    let other = place.run_with(&["retry-job", "--once"], &[("RETRY_JOB_MAX_ATTEMPTS_CHUNKS", "7")]).expect(2);
    assert!(other.stderr.contains("max_attempts = 7"), "{}", other.stderr);
    place.run_with(&["retry-job", "--once"], &[("RETRY_JOB_MAX_ATTEMPTS_CHUNKS", "5")]).expect(0);
    place.run(&["retry-job", "--once", "--pushgateway", "nowhere"]).expect(2);
}

#[test]
fn a_daemon_sweeps_and_audits_by_itself() {
    let server = Server::good();
    let place = Place::with(&stage(&server, ""), &samples(2));
    place.run(&["submit", "p.toml"]).expect(0);
    abandoned(&server, &place, 2);
    let daemon = Daemon::start_with(&place, &["--no-work"], &[("RETRY_JOB_INTERVAL_SECONDS", "3600")]);
    let told = || samples_of(&daemon.get("/metrics").expect(200).body);
    wait::until("a sweep", || told()["retry_job_runs_total{status=\"success\"}"] == 1.0);
    assert_eq!(told()["retry_job_documents_requeued_total{collection=\"test\"}"], 2.0);
    wait::until("a look at the laws", || told()["redrive_laws_checked_timestamp_seconds"] > 0.0);
    assert_eq!(told()["redrive_laws_items_checked_total"], 2.0);
    assert!(
        told().iter().filter(|(name, _)| name.starts_with("redrive_laws_broken")).all(|(_, n)| *n == 0.0)
    );
    daemon.stop().expect(0);
}

#[test]
fn a_broken_law_is_told_without_anybody_asking_for_a_check() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(5));
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("opened");
    let changed = store.execute("UPDATE counter SET n = n + 1 WHERE metric = 200000", []).expect("spoilt");
    assert_eq!(changed, 1, "one more is admitted than there is");
    drop(store);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let told = || samples_of(&daemon.get("/metrics").expect(200).body);
    wait::until("a look at the laws", || told()["redrive_laws_broken{law=\"L1\"}"] == 1.0);
    daemon.stop().expect(0);
}

#[test]
fn metrics_of_a_job_that_ends_are_left_at_a_real_pushgateway() {
    needed("prometheus-pushgateway", "prometheus-pushgateway");
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let port = free_port();
    let args = [format!("--web.listen-address=127.0.0.1:{port}")];
    let gateway = Service::start(&place, "prometheus-pushgateway", &args, port, "/-/ready");
    let url = format!("http://{}", gateway.address());
    place.run(&["retry-job", "--once", "--pushgateway", &url]).expect(0);
    // By the variable of the seed as well.
    place.run_with(&["retry-job", "--once"], &[("PUSHGATEWAY_URL", &url)]).expect(0);
    let (_, page) = gateway.get("/metrics").expect("it answers");
    let pushed =
        page.lines().find(|line| line.starts_with("retry_job_runs_total{") && line.contains("success"));
    assert!(pushed.is_some_and(|line| line.contains("job=\"retry-job\"") && line.ends_with(" 2")), "{page}");
    drop(gateway);
    let refused = place.run(&["retry-job", "--once", "--pushgateway", &url]).code();
    assert_ne!(refused, Some(0), "nobody is there any more");
}
