//! Items from a queue of a real RabbitMQ, and queues of messages that cannot be used.

use serde_json::Value;

use crate::schemas::Schemas;
use crate::support::broker::{Client, PASSWORD};
use crate::support::{Broker, Daemon, Place, array, count, one_stage, text, wait};

fn pipeline(key: &str) -> String {
    let source = format!("kind = \"inbox\"\nqueue = \"orders\"\n{key}");
    one_stage("kind = \"pass\"").replace("path = \"in.jsonl\"\nkey = \"/id\"", &source)
}

#[test]
fn items_come_from_a_queue_once_and_what_cannot_be_used_is_put_aside_and_sent_back() {
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    let mut place = Place::with(&pipeline("key = \"/id\""), "");
    place.set("REDRIVE_BUS", &url);
    client.declare("orders");
    let orders: Vec<String> = (0..300).map(|n| format!("{{\"id\":{n}}}")).collect();
    let orders: Vec<&str> = orders.iter().map(String::as_str).collect();
    client.put("orders", &orders, &[]);
    let daemon = Daemon::start(&place, &["--pipelines", "."]);
    // The same once more, as a queue delivers it whose consumer was gone before it could say that it has it.
    client.put("orders", &orders, &[]);
    client.put("orders", &["{}"], &[("redrive-key", "named"), ("redrive-category", "rush")]);
    client.put("orders", &["no JSON", "{\"n\":1}"], &[]);
    let runs = succeeded(&daemon, 301);
    let admitted: u64 = array(&runs["items"]).iter().map(|run| count(&run["counts"]["admitted"])).sum();
    assert_eq!((admitted, array(&runs["items"]).len()), (301, 2), "each once, in the run of its category");
    wait::until("the queue is empty", || client.count("orders") == 0);
    failed_messages_are_looked_after(&place, &client, &daemon);
    for args in [&["doctor", &url][..], &["queues", "list"], &["queues", "list", "--json"]] {
        let ran = place.run(args).expect(0);
        assert!(!ran.stdout.contains(PASSWORD) && !ran.stderr.contains(PASSWORD), "{args:?}: {ran:?}");
    }
    let told = place.run(&["doctor", &url]).expect(0).stdout;
    for words in ["RabbitMQ 3", "a message was taken over", "orders.failed: ", "set_policy", "delivery-limit"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    place.run(&["doctor", &url.replace(PASSWORD, "a-wrong-word")]).expect(1);
    let ran = daemon.stop().expect(0);
    assert!(ran.stderr.contains("message put aside") && !ran.stderr.contains(PASSWORD), "{}", ran.stderr);
    place.check();
}

/// Waits until so many items of all runs have succeeded.
fn succeeded(daemon: &Daemon, wanted: u64) -> Value {
    daemon.until("/v1/runs", |runs| {
        let runs = runs["items"].as_array();
        runs.is_some_and(|runs| {
            runs.iter().map(|run| count(&run["counts"]["succeeded"])).sum::<u64>() == wanted
        })
    })
}

fn failed_messages_are_looked_after(place: &Place, client: &Client, daemon: &Daemon) {
    let schemas = Schemas::of(place);
    wait::until("two are put aside", || client.count("orders.failed") == 2);
    let list = place.json(&["queues", "list"]);
    schemas.check("queues list", &list);
    assert_eq!(
        (&list["items"][0]["queue"], count(&list["items"][0]["messages"])),
        (&"orders.failed".into(), 2)
    );
    schemas.check("queues list", &place.json(&["queues", "list", "no-such-queue"]));
    let lines = place.run(&["queues", "export", "orders.failed"]).expect(0).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.iter().for_each(|line| schemas.check("queues export", line));
    let reasons: Vec<String> = lines.iter().map(|line| text(&line["reason"])).collect();
    assert!(reasons[0].contains("JSON") && reasons[1].contains("/id"), "{reasons:?}");
    assert_eq!((&lines[0]["body"], &lines[0]["queue"]), (&"no JSON".into(), &"orders".into()));
    let file = place.json(&["queues", "export", "orders.failed", "--output", "failed.jsonl"]);
    schemas.check("queues export file", &file);
    wait::until("all are back in their queue", || client.count("orders.failed") == 2);
    for verb in ["requeue", "purge"] {
        place.run(&["queues", verb, "orders.failed"]).expect(2);
        place.run(&["queues", verb, "no-such-queue", "--yes"]).expect(2);
    }
    assert_eq!(client.count("orders.failed"), 2, "nobody said yes");
    // Somebody mends the pipeline; one of the messages cannot be used still.
    let since = daemon.get("/v1/pipelines").json()["items"][0]["since"].clone();
    place.write("p.toml", pipeline(""));
    daemon.until("/v1/pipelines", |list| list["items"][0]["since"] != since);
    let done = place.json(&["queues", "requeue", "orders.failed", "--yes"]);
    schemas.check("queues requeue", &done);
    assert_eq!((count(&done["requeued"]), &done["to"]), (2, &"orders".into()));
    wait::until("one is put aside again", || {
        client.count("orders") == 0 && client.count("orders.failed") >= 1
    });
    succeeded(daemon, 302);
    wait::until("only that one", || client.count("orders.failed") == 1);
    let done = place.json(&["queues", "purge", "orders.failed", "--yes"]);
    schemas.check("queues purge", &done);
    assert_eq!((count(&done["purged"]), client.count("orders.failed")), (1, 0));
}
