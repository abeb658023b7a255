//! Facts on a real RabbitMQ: which are held, who passes them on, and what a crash in between costs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapin::types::AMQPValue;

use crate::support::broker::{Client, PASSWORD};
use crate::support::{Broker, Daemon, Ledger, Place, count, one_stage, samples, wait};

fn relay(place: &Place, url: &str, code: i32) -> serde_json::Value {
    place.run(&["relay", "--once", "--json", "--bus", url]).expect(code).json()
}

#[test]
fn what_no_queue_takes_stays_in_the_store_in_order_and_is_told() {
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(20));
    relay(&place, &url, 0);
    let ledger = Ledger::begin(&place);
    place.run_pipeline(0);
    let facts = ledger.waiting();
    assert_eq!(facts, ledger.written());
    // Nobody is bound to anything.
    let told = relay(&place, &url, 3);
    assert_eq!((count(&told["passed"]), count(&told["waiting"])), (0, facts as u64));
    // One fact of each item and of the run was tried; those behind them were not.
    assert_eq!((count(&told["unroutable"]), count(&told["refused"])), (21, 0), "{told}");
    let ran = place.run(&["relay", "--once", "--bus", &url]).expect(3);
    assert!(ran.stderr.contains("no queue is bound for 21"), "{}", ran.stderr);
    // A queue that is full refuses.
    let full = [
        ("x-max-length", AMQPValue::LongInt(5)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    client.bind("small", &["#"], &full);
    let told = relay(&place, &url, 3);
    let (passed, refused) = (count(&told["passed"]), count(&told["refused"]));
    assert!(passed > 0 && refused > 0, "{told}");
    assert_eq!(ledger.waiting() as u64, facts as u64 - passed);
    let mut came = client.drain("small");
    assert_eq!(came.len() as u64, passed, "what was refused is not there");
    client.delete("small");
    client.bind("all", &["#"], &[]);
    let told = relay(&place, &url, 0);
    assert_eq!((count(&told["passed"]), count(&told["waiting"])), (facts as u64 - passed, 0));
    came.extend(client.drain("all"));
    let arrived = ledger.compare(&came);
    assert_eq!(arrived.twice, 0);
    let run = came.iter().find(|message| message.routing_key == "run.created").expect("it was told").json();
    assert_eq!(
        (&run["item"], &run["run"], &run["pipeline"]),
        (&serde_json::Value::Null, &"r1".into(), &"test".into())
    );
    let passed = came.iter().find(|message| message.routing_key == "item.stage_passed").expect("it was told");
    let body = passed.json();
    assert_eq!((&body["stage"], &body["attempt"]), (&"work".into(), &1.into()), "{body}");
    assert!(body["key"].is_string() && body["item"].is_string() && body["at"].is_string());
    assert_eq!(passed.properties.delivery_mode(), &Some(2));
    one_relay_at_a_time(&place, &ledger, &client, &url);
}

/// The second one is refused while the first lives, and takes over at once when it is killed.
fn one_relay_at_a_time(place: &Place, ledger: &Ledger, client: &Client, url: &str) {
    let first = place.start(&["relay", "--bus", url]);
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    wait::until("the first passes facts on", || ledger.waiting() == 0);
    let ran = place.run(&["relay", "--once", "--bus", url]).expect(2);
    assert!(ran.stderr.contains("another process passes facts of this store on"), "{}", ran.stderr);
    first.kill();
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    assert!(ledger.waiting() > 0);
    assert_eq!(count(&relay(place, url, 0)["waiting"]), 0);
    client.drain("all");
    // A daemon that is told to stop lets the next one begin at once.
    let daemon = Daemon::start_with(place, &[], &[("REDRIVE_BUS", url)]);
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    wait::until("the daemon passes facts on", || ledger.waiting() == 0);
    let ran = daemon.stop().expect(0);
    assert!(!ran.stderr.contains(PASSWORD), "{}", ran.stderr);
    relay(place, url, 0);
    somebody_is_told_or_nobody_is(place, url);
    let off = place.json(&["relay", "--off"]);
    assert_eq!((count(&off["waiting"]), &off["kept"]), (0, &false.into()), "{off}");
    let before = ledger.written();
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    assert_eq!(ledger.written(), before, "nobody is told any more");
}

/// Facts are kept as long as somebody passes them on, and a second one waits for its turn.
fn somebody_is_told_or_nobody_is(place: &Place, url: &str) {
    let mut daemon = Daemon::start_with(place, &[], &[("REDRIVE_BUS", url)]);
    wait::until("the daemon has its turn", || place.run(&["relay", "--off"]).code() == Some(2));
    let ran = place.run(&["relay", "--off"]).expect(2);
    assert!(ran.stderr.contains("a process passes facts of this store on"), "{}", ran.stderr);
    assert!(ran.stderr.contains("as long as somebody passes them on"), "{}", ran.stderr);
    let second = place.start(&["relay", "--bus", url]);
    second.until_said("waiting for the turn to pass them on");
    second.signal("TERM");
    second.finish().expect(0);
    // Whoever has none kept all the same is contradicted by the daemon.
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("open");
    store.execute("UPDATE outbox SET keeps = 0", []).expect("off");
    drop(store);
    daemon.process().until_said("they are kept again from now on");
    daemon.stop().expect(0);
}

#[test]
fn what_nobody_is_bound_for_is_dropped_where_that_was_said_and_events_stay() {
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    let place = Place::with(&one_stage("kind = \"event\"\nevent = \"text.check\""), &samples(3));
    relay(&place, &url, 0);
    let run = place.start(&["run", "p.toml", "--quiet"]);
    wait::until("all are handed over", || {
        place.run(&["items", "--json"]).stdout.matches("\"token\"").count() == 3
    });
    run.signal("INT");
    run.finish();
    client.bind("wanted", &["item.admitted"], &[]);
    let told =
        place.run(&["relay", "--once", "--json", "--bus", &url, "--bus-unrouted", "drop"]).expect(3).json();
    assert_eq!((count(&told["passed"]), count(&told["waiting"])), (3, 3), "{told}");
    assert!(count(&told["dropped"]) >= 1 && count(&told["unroutable"]) == 3, "{told}");
    client.bind("service", &["text.check"], &[]);
    let told = relay(&place, &url, 0);
    assert_eq!((count(&told["passed"]), count(&told["waiting"])), (3, 0), "{told}");
    assert_eq!((client.drain("wanted").len(), client.drain("service").len()), (3, 3));
}

#[test]
fn an_exchange_of_another_kind_is_found_by_the_doctor() {
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    let told = place.run(&["doctor", &url]).expect(0).stdout;
    assert!(told.contains("redrive.events: not there yet"), "{told}");
    client.declare_another_exchange();
    let told = place.run(&["doctor", &url]).expect(1).stdout;
    assert!(told.contains("BAD  bus exchange"), "{told}");
    // What is to be pasted is in one line, and the broker takes it.
    let command = told.lines().find(|line| line.starts_with("rabbitmqctl ")).expect("a policy");
    let words: Vec<String> =
        command.split(' ').skip(1).map(|word| word.trim_matches('\'').to_owned()).collect();
    broker.control(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_broker_that_is_not_there_is_told_without_its_password() {
    let port = crate::support::tools::free_port();
    let url = format!("amqp://me:{PASSWORD}@127.0.0.1:{port}/jobs");
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    place.run(&["relay", "--once", "--bus", &url]).expect(0);
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let shown = format!("amqp://127.0.0.1:{port}/jobs");
    for (args, code, words) in [
        (&["relay", "--once", "--bus", &url][..], 1, shown.as_str()),
        (&["queues", "list", "x.failed", "--bus", &url], 1, &shown),
        (&["doctor", &url], 1, &shown),
        (&["relay", "--once", "--bus", &url.replace("amqp", "amqps")], 1, &shown.replace("amqp", "amqps")),
        (&["relay", "--once", "--bus", &url, "--bus-ca", "no.pem"], 2, "amqps://"),
        (&["relay", "--once", "--bus", &url.replace("amqp", "amqps"), "--bus-ca", "no.pem"], 2, "no.pem"),
        (
            &["relay", "--once", "--bus", &url.replace("amqp", "http")],
            2,
            "amqp://USER:PASSWORD@HOST:5672/VHOST",
        ),
        (&["serve", "--bus", "an-open-sesame"], 2, "amqp://USER:PASSWORD@HOST:5672/VHOST"),
        (&["queues", "purge", "x"], 2, "REDRIVE_BUS"),
        (&["relay", "--help"], 0, "REDRIVE_BUS"),
    ] {
        let ran = place.run_with(args, &[]);
        let ran = ran.expect(code);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(words) && !told.contains(PASSWORD), "{args:?}: {told}");
    }
    let ran = place.run_with(&["relay", "--help"], &[("REDRIVE_BUS", &url)]).expect(0);
    assert!(!ran.stdout.contains(PASSWORD), "{}", ran.stdout);
}

/// One broker for all crash points of a process.
fn shared() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(Broker::start)
}

/// A name that no other scenario has.
fn unique(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

/// Dies while facts are passed on; what follows passes on the rest.
pub fn passes_on_although_one_dies(at: &str) -> bool {
    let (client, url, queue) = (shared().client(), shared().url(), unique("facts"));
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(20));
    relay(&place, &url, 0);
    let ledger = Ledger::begin(&place);
    client.bind(&queue, &["#"], &[]);
    place.run_pipeline(0);
    let ran = place.run_with(&["relay", "--once", "--bus", &url], &[("REDRIVE_CRASH_AT", at)]);
    let died = ran.killed_by() == Some(9);
    assert_eq!(count(&relay(&place, &url, 0)["waiting"]), 0);
    let own = ledger.written();
    let store = client.drain(&queue);
    // Other scenarios use the same exchange.
    let mine = |message: &crate::support::broker::Message| message.id.starts_with(&store_of(&place));
    let arrived = ledger.compare(&store.into_iter().filter(mine).collect::<Vec<_>>());
    assert_eq!(arrived.facts as i64, own);
    assert_eq!(arrived.twice > 0, died && at.starts_with("relay.before_forget"));
    died
}

fn store_of(place: &Place) -> String {
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("a store");
    let name: i64 = store.query_row("SELECT store FROM outbox", [], |row| row.get(0)).expect("a name");
    format!("{:016x}-", name.cast_unsigned())
}

/// Dies between keeping a message and telling the queue so, or after one was put aside.
pub fn takes_although_one_dies(at: &str) -> bool {
    let (client, url, queue) = (shared().client(), shared().url(), unique("orders"));
    let pipeline = one_stage("kind = \"pass\"");
    let pipeline = pipeline.replace("path = \"in.jsonl\"", &format!("kind = \"inbox\"\nqueue = \"{queue}\""));
    let place = Place::with(&pipeline, "");
    client.declare(&queue);
    client.put(&queue, &["{\"id\":1}", "{\"id\":2}", "no JSON", "{\"id\":3}"], &[]);
    let args = ["--pipelines", ".", "--bus", &url];
    let dying = Daemon::start_with(&place, &args, &[("REDRIVE_CRASH_AT", at)]);
    let died = dying.finish().killed_by() == Some(9);
    let failed = format!("{queue}.failed");
    let daemon = Daemon::start(&place, &args);
    daemon.until("/v1/runs", |runs| runs["items"][0]["counts"]["succeeded"] == 3);
    wait::until("the queue is empty", || client.count(&queue) == 0);
    daemon.stop().expect(0);
    let report = place.json(&["show", "r1"]);
    assert_eq!(count(&report["counts"]["admitted"]), 3, "each once");
    let aside = client.drain(&failed);
    assert!(!aside.is_empty() && aside.iter().all(|message| message.body == b"no JSON"), "{aside:?}");
    died
}

/// Dies while failed messages are sent back: none is lost.
pub fn sends_back_although_one_dies(at: &str) -> bool {
    let (client, url, queue) = (shared().client(), shared().url(), unique("back"));
    let failed = format!("{queue}.failed");
    client.declare(&queue);
    client.declare(&failed);
    client.put(&failed, &["1", "2", "3"], &[]);
    let place = Place::new();
    let args = ["queues", "requeue", &failed, "--yes", "--bus", &url];
    let died = place.run_with(&args, &[("REDRIVE_CRASH_AT", at)]).killed_by() == Some(9);
    wait::until("what was in hand is back", || client.count(&failed) == 3);
    place.run(&args).expect(0);
    let bodies: std::collections::BTreeSet<Vec<u8>> =
        client.drain(&queue).into_iter().map(|message| message.body).collect();
    assert_eq!(bodies.len(), 3);
    assert_eq!(client.count(&failed), 0);
    died
}
