//! Any stage can be told as an event, and a process of its own does its work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Answer, Item, failed, passed};
use crate::support::{Broker, Daemon, Place, Server, count, key, quick_retry, results, wait};

const ITEMS: usize = 60;

fn place(url: &str, stage: &str) -> Place {
    let mut place = Place::new();
    place.set("REDRIVE_BUS", url);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let pipeline = format!(
        "name = \"jobs\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\nname = \"call\"\n{stage}\n{}",
        quick_retry(2)
    );
    place.write("pipelines/jobs.toml", pipeline);
    place
}

#[test]
fn a_service_calls_for_what_it_hears_and_what_is_turned_away_or_fails_goes_on_under_the_policy() {
    let broker = Broker::start();
    broker.client().bind("others", &["#"], &[]);
    let (calls, failed_once) = (AtomicUsize::new(0), AtomicBool::new(false));
    // The first call is turned away as a whole; later one item fails once, another for good, and one makes its whole batch fail.
    let server = Server::start(move |call| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Http(429, vec![("Retry-After", "1".to_owned())], String::new()),
        _ if call.items.iter().any(|item| item.key == key(9)) => Answer::status(422, "poison"),
        _ => {
            let result = |item: &Item| match () {
                () if item.key == key(3) => failed(item, "final", "never"),
                () if item.key == key(5) && !failed_once.swap(true, Ordering::SeqCst) => {
                    failed(item, "retryable", "not now")
                }
                () => passed(item),
            };
            Answer::results(&call.items.iter().map(result).collect::<Vec<Value>>())
        }
    });
    let stage = format!("{}\nbatch = 16\nconcurrency = 2\nevent = \"call.wanted\"", server.stage());
    let place = place(&broker.url(), &stage);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let items: Vec<Value> = (0..ITEMS).map(|n| json!({"payload": {"id": key(n), "n": n}})).collect();
    daemon.post("/v1/pipelines/jobs/items", &json!({"items": items})).expect(200);
    let all = daemon.until("/v1/runs/r1", |report| count(&report["awaited"]) == ITEMS as u64);
    assert_eq!(count(&all["counts"]["waiting"]), ITEMS as u64, "{all:#}");
    assert_eq!(server.calls().len(), 0, "whoever works on the run calls nobody");
    let service = place.start(&["work", "--event", "call.wanted"]);
    let report = daemon.until("/v1/runs/r1", |report| {
        count(&report["counts"]["succeeded"]) + count(&report["counts"]["dead"]) == ITEMS as u64
    });
    assert_eq!(count(&report["counts"]["dead"]), 2, "{report:#}");
    let attempts = &report["attempts"];
    assert!(count(&attempts["throttles"]) >= 1, "turned away, and no attempt spent: {report:#}");
    assert_eq!(count(&attempts["failures"]), 3, "{report:#}");
    let came = results(&daemon.get("/v1/runs/r1/results").expect(200).body);
    assert_eq!(came.len(), ITEMS - 2);
    let client = broker.client();
    wait::until("all messages are done with", || client.count("redrive.work.call.wanted") == 0);
    service.signal("TERM");
    service.finish().expect(0);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn what_has_no_meaning_with_an_event_is_refused() {
    let place = Place::new();
    for (stage, key) in [
        ("kind = \"pass\"\nevent = \"a.b\"", "event"),
        ("kind = \"http\"\nurl = \"http://a.example\"\nevent = \"A b\"", "event"),
        ("kind = \"http\"\nurl = \"http://a.example\"\nevent = \"a.b\"\ndefer = true", "defer"),
    ] {
        place.write(
            "p.toml",
            format!("name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"s\"\n{stage}\n"),
        );
        place.write("in.jsonl", "");
        let ran = place.run(&["run", "p.toml"]).expect(2);
        assert!(ran.stderr.contains(&format!("stage.s.{key}")), "{stage}: {}", ran.stderr);
    }
    place.run(&["work", "--event", "a.b"]).expect(2);
    place.run(&["work", "--event", "a.b", "--until-idle", "--bus", "amqp://127.0.0.1"]).expect(2);
}
