//! `redrive serve` on a disk that has no room: it says so, stays, and goes on when there is some.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, Place, Server, quick_retry, text, wait};

/// Longer than a store that does not answer is borne with.
const LONG: Duration = Duration::from_secs(36);
/// Sooner than anybody gives up who waits for an answer.
const SOON: Duration = Duration::from_secs(8);

/// Has every write of a process fail, or none.
fn disk_is_full(daemon: &Daemon, full: bool) {
    let limit = if full { "--fsize=0:" } else { "--fsize=unlimited:" };
    let set = Command::new("prlimit").args(["--pid", &daemon.pid().to_string(), limit]).status();
    assert!(set.expect("prlimit starts").success());
}

fn place(server: &Server) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let pipeline = format!(
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"work\"\n{}\n{}",
        server.stage(),
        quick_retry(3)
    );
    place.write("pipelines/box.toml", pipeline);
    place
}

fn items(from: u32) -> Value {
    let item = |n: u32| json!({"payload": {"id": format!("k{n}")}});
    json!({"items": (from..from + 3).map(item).collect::<Vec<_>>()})
}

fn is_ready(daemon: &Daemon, ready: bool) {
    let status = if ready { 200 } else { 503 };
    wait::until("it says whether it is ready", || daemon.get("/readyz").status == status);
    let told = daemon.get("/readyz").json();
    assert_eq!(
        (&told["ready"], &told["writes"], &told["store"]),
        (&json!(ready), &json!(ready), &json!(true))
    );
}

#[test]
fn a_daemon_outlasts_a_full_disk_says_that_it_is_not_ready_and_records_what_it_has_in_hand() {
    let server = Server::good();
    let place = place(&server);
    let mut daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    is_ready(&daemon, true);
    server.hold();
    let handed = daemon.post("/v1/pipelines/box/items", &items(0)).expect(200).json();
    wait::until("all are under way", || server.count() == 3);
    disk_is_full(&daemon, true);
    let full = wait::now();
    is_ready(&daemon, false);
    server.release();
    let asked = wait::now();
    daemon.post("/v1/pipelines/box/pause", &json!({})).expect(507);
    let refused = daemon.post("/v1/pipelines/box/items", &items(10)).expect(507).json();
    assert_eq!(refused["code"], "store_full");
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    wait::until("nobody would have borne it any more", || {
        assert!(!daemon.process().has_ended(), "it ended after {:?}", full.elapsed());
        full.elapsed() > LONG
    });
    disk_is_full(&daemon, false);
    is_ready(&daemon, true);
    let run = text(&handed["runs"][0]["run"]);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["succeeded"] == 3);
    assert_eq!(server.count(), 3, "what was in hand is recorded, and not done again");
    daemon.post("/v1/pipelines/box/items", &items(10)).expect(200);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["succeeded"] == 6);
    let ran = daemon.stop().expect(0);
    assert!(ran.stderr.contains("the store cannot be written"), "{}", ran.stderr);
    place.check();
}

#[test]
fn a_daemon_that_is_told_to_stop_on_a_full_disk_ends_and_the_next_one_does_what_it_had_in_hand() {
    let server = Server::good();
    let place = place(&server);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    server.hold();
    let handed = daemon.post("/v1/pipelines/box/items", &items(0)).expect(200).json();
    wait::until("all are under way", || server.count() == 3);
    disk_is_full(&daemon, true);
    server.release();
    is_ready(&daemon, false);
    daemon.stop();
    let next = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let run = text(&handed["runs"][0]["run"]);
    next.until(&format!("/v1/runs/{run}"), |report| report["counts"]["succeeded"] == 3);
    next.stop().expect(0);
    place.check();
}
