//! The daemon forgets what a pipeline keeps no longer, and nothing else.

use serde_json::{Value, json};

use crate::support::server::{failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, samples, text};

const DAY: i64 = 24 * 3_600 * 1_000;

/// Every third item dies at once.
fn server() -> Server {
    Server::start(|call| {
        let one = |item: &crate::support::server::Item| match item.payload["n"].as_u64() {
            Some(n) if n % 3 == 0 => failed(item, "final", "no good"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    })
}

fn start(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

fn until_ended(daemon: &Daemon, run: &str) {
    daemon.until(&format!("/v1/runs/{run}"), |report| !report["finished_at"].is_null());
}

fn runs(place: &Place) -> Vec<String> {
    let mut runs: Vec<String> =
        array(&place.json(&["runs"])["runs"]).iter().map(|run| text(&run["run"])).collect();
    runs.sort();
    runs
}

#[test]
fn finished_runs_are_forgotten_by_age_and_those_with_dead_items_later() {
    let server = server();
    let mut place = Place::new();
    let clock = Shifted::in_place(&mut place);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let keeps = "[retention]\nruns = \"10d\"\nruns_with_dead = \"20d\"\n";
    let pipeline = one_stage(&server.stage());
    place.write("pipelines/p.toml", format!("{pipeline}\n{keeps}"));
    place.write("pipelines/other.toml", pipeline.replace("name = \"test\"", "name = \"other\""));
    let item = |key: &str, n: u64| json!({"key": key, "payload": {"id": key, "n": n}});
    let daemon = start(&place);
    let begin = |pipeline: &str, items: Value| {
        let begun =
            daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201).json();
        until_ended(&daemon, &text(&begun["run"]));
        text(&begun["run"])
    };
    begin("test", json!([item("a", 1), item("b", 2)]));
    let bad = begin("test", json!([item("c", 1), item("d", 3)]));
    let other = begin("other", json!([item("e", 1)]));
    daemon.stop().expect(0);
    let after = |days: i64, left: &[&String]| {
        clock.put(days * DAY);
        let daemon = start(&place);
        let left: Vec<String> = left.iter().map(|run| (*run).clone()).collect();
        crate::support::wait::until(&format!("after {days} days"), || runs(&place) == left);
        daemon.stop().expect(0);
        place.check();
    };
    after(11, &[&bad, &other]);
    after(21, &[&other]);
    let operations = place.json(&["dead", "operations"]);
    let told: Vec<(String, String, u64)> = array(&operations["operations"])
        .iter()
        .map(|one| (text(&one["kind"]), text(&one["actor"]), count(&one["changed"])))
        .collect();
    let forgot = |n| ("prune".to_owned(), "retention".to_owned(), n);
    assert_eq!(told, [forgot(2), forgot(2)], "{operations}");
}

#[test]
fn items_of_a_standing_run_leave_tombstones_and_are_not_admitted_again() {
    let server = server();
    let mut place = Place::new();
    let clock = Shifted::in_place(&mut place);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let keeps = "[retention]\nsucceeded = \"5d\"\ndead = \"8d\"\n";
    place.write(
        "pipelines/box.toml",
        format!(
            "name = \"box\"\ndeadline = \"none\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n{keeps}[[stage]]\nname = \"work\"\n{}",
            server.stage()
        ),
    );
    let lines = samples(9);
    let items: Vec<Value> = lines
        .lines()
        .map(|line| json!({"payload": serde_json::from_str::<Value>(line).expect("JSON")}))
        .collect();
    let daemon = start(&place);
    daemon.post("/v1/pipelines/box/items", &json!({"items": items})).expect(200);
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 6 && report["counts"]["dead"] == 3);
    daemon.stop().expect(0);
    for (days, purged, dead) in [(4, 0, 3), (6, 6, 3), (9, 9, 0)] {
        clock.put(days * DAY);
        let daemon = start(&place);
        let report = daemon.until("/v1/runs/r1", |report| report["counts"]["purged"] == purged);
        assert_eq!(
            (count(&report["counts"]["dead"]), count(&report["counts"]["admitted"])),
            (dead, 9),
            "{days}"
        );
        let again = daemon.post("/v1/pipelines/box/items", &json!({"items": items})).expect(200).json();
        assert_eq!((count(&again["counts"]["known"]), count(&again["counts"]["admitted"])), (9, 0), "{days}");
        daemon.stop().expect(0);
        place.check();
    }
    assert_eq!(server.count(), 9, "nothing was done again");
}
