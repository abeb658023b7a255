//! The example of a service over the bus, killed in the middle of its work again and again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{
    Broker, Daemon, Ledger, Names, Place, Script, count, key, keys, names, python_with, results, text, wait,
};

const ITEMS: usize = 200;
const KILLS: usize = 5;
/// The queue of the service, and the one that it answers by.
const QUEUE: &str = "word-counter";
const ANSWERS: &str = "redrive.answers";

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bus")
}

struct Service<'a> {
    python: PathBuf,
    bus: &'a str,
    token: &'a str,
}

impl Service<'_> {
    fn start(&self, daemon: &Daemon) -> Script {
        let url = format!("http://{}", daemon.address());
        let env = [("REDRIVE_BUS", self.bus), ("REDRIVE_URL", &url), ("REDRIVE_TOKEN", self.token)];
        Script::start(&self.python, &example().join("service.py"), &env)
    }
}

/// The item of a number has one word more than the number's remainder.
fn item(n: usize) -> Value {
    json!({"payload": {"id": key(n), "text": "word ".repeat(n % 7 + 1)}})
}

fn hand_in(daemon: &Daemon, items: &[Value]) {
    daemon.post("/v1/pipelines/word-counts/items", &json!({"items": items})).expect(200);
}

fn succeeded(daemon: &Daemon) -> u64 {
    count(&daemon.get("/v1/runs/r1").expect(200).json()["counts"]["succeeded"])
}

#[test]
fn the_example_of_a_service_answers_each_item_once_though_it_and_the_daemon_are_killed() {
    let python = python_with("pika", "1.4.4", "REDRIVE_PIKA_PYTHON");
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    client.bind("all", &["#"], &[]);
    let mut place = Place::new();
    place.set("REDRIVE_BUS", &url);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    std::fs::copy(example().join("pipeline.toml"), place.path("pipelines/words.toml")).expect("copied");
    let token = place.run(&["token", "create", "counter", "--role", "viewer"]).expect(0).stdout;
    let service = Service { python, bus: &url, token: token.trim() };
    let start = || Daemon::start(&place, &["--pipelines", "pipelines"]);
    let (mut daemon, mut in_hand) = (start(), 0);
    let ledger = Ledger::begin(&place);
    let items: Vec<Value> = (0..ITEMS).map(item).collect();
    for (n, some) in items.chunks(ITEMS / KILLS).enumerate() {
        let before = if n == 0 { 0 } else { succeeded(&daemon) };
        let running = service.start(&daemon);
        // What is told before a queue is bound is not in it.
        wait::until("it has its queue", || client.has(QUEUE));
        hand_in(&daemon, some);
        wait::until("some are answered", || succeeded(&daemon) >= before + 3);
        if n == KILLS / 2 {
            daemon.kill();
            daemon = start();
        }
        running.kill();
        // What it had in hand is in its queue again, or was not told yet.
        let left = (n + 1) * some.len() - usize::try_from(succeeded(&daemon)).expect("few");
        assert!(left > 0, "kill {n} came after the end");
        in_hand += left;
    }
    hand_in(&daemon, &[json!({"payload": {"id": "none"}})]);
    let mut running = service.start(&daemon);
    let ended = |report: &Value| {
        count(&report["counts"]["succeeded"]) == ITEMS as u64 && report["counts"]["dead"] == 1
    };
    daemon.until("/v1/runs/r1", ended);
    // All of it comes once more, as brokers do at times: every answer is late.
    wait::until("its queue is empty", || client.count(QUEUE) == 0);
    wait::until("all facts are passed on", || ledger.waiting() == 0);
    let told = client.drain("all");
    let handed: Vec<_> =
        told.iter().filter(|message| message.routing_key == "words.requested").cloned().collect();
    client.put_again(QUEUE, &handed);
    // Those that it has in hand count as well: killed, it would give them back.
    let in_line = || broker.control(&["list_queues", "--quiet", "--no-table-headers", "name", "messages"]);
    wait::until("each is answered again", || {
        let told = in_line();
        [QUEUE, ANSWERS].iter().all(|queue| told.contains(&format!("{queue}\t0\n")))
    });
    assert!(!running.has_ended());
    running.kill();
    assert_eq!((client.count(QUEUE), client.count(ANSWERS)), (0, 0), "nothing is left");
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert!(ended(&report), "{report:#}");
    let attempts = ["total", "failures", "crashes"].map(|kind| count(&report["attempts"][kind]));
    assert_eq!(attempts, [ITEMS as u64 + 1, 1, 0], "each item was tried once: {report:#}");
    let dead = daemon.get("/v1/dead").expect(200).json();
    assert_eq!((&dead["items"][0]["key"], &dead["items"][0]["class"]), (&json!("none"), &json!("final")));
    let came = results(&daemon.get("/v1/runs/r1/results").expect(200).body);
    let counted: BTreeMap<String, Value> =
        came.into_iter().map(|(key, content)| (key, content["words"].clone())).collect();
    let wanted = (0..ITEMS).map(|n| (key(n), json!(n % 7 + 1))).collect();
    assert_eq!(counted, wanted);
    let ends: BTreeMap<String, String> = told
        .iter()
        .filter(|message| message.routing_key == "item.succeeded")
        .map(|message| (message.id.clone(), text(&message.json()["key"])))
        .collect();
    assert_eq!((ends.len(), names(ends.values()) as Names), (ITEMS, keys(ITEMS)), "each ended once");
    assert!(!client.has("redrive.answers.failed"), "nothing that it says is wrong");
    let said =
        format!("{KILLS} kills with {in_hand} items in hand or in line, {} messages twice\n", handed.len());
    let _ = std::io::stderr().write_all(said.as_bytes());
    daemon.stop().expect(0);
    place.check();
}
