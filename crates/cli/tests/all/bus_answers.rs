//! A stage over the bus: items are told as events of a name, and their answers come by a queue.

use serde_json::{Value, json};

use crate::support::broker::{Client, Message};
use crate::support::{Broker, Daemon, Place, array, count, key, quick_retry, results, text, wait};

const EVENT: &str = "translation.requested";
const ANSWERS: &str = "redrive.answers";

fn place(url: &str) -> Place {
    let mut place = Place::new();
    place.set("REDRIVE_BUS", url);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = format!("name = \"translate\"\nkind = \"event\"\nevent = \"{EVENT}\"\n{}", quick_retry(2));
    let pipeline = format!(
        "name = \"jobs\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\n{stage}"
    );
    place.write("pipelines/jobs.toml", pipeline);
    place
}

fn hand_in(daemon: &Daemon, items: usize) {
    let items: Vec<Value> = (0..items).map(|n| json!({"payload": {"id": key(n), "n": n}})).collect();
    daemon.post("/v1/pipelines/jobs/items", &json!({"items": items})).expect(200);
}

fn told(client: &Client, messages: u32) -> Vec<Message> {
    wait::until("they are told", || client.count("translator") >= messages);
    client.drain("translator")
}

fn answer(message: &Message, result: &Value) -> String {
    json!({"token": message.json()["token"], "result": result}).to_string()
}

#[test]
fn a_stage_over_the_bus_is_told_by_its_name_and_answered_by_a_queue_once() {
    let broker = Broker::start();
    let (client, url) = (broker.client(), broker.url());
    client.bind("translator", &[EVENT], &[]);
    client.bind("others", &["#"], &[]);
    let place = place(&url);
    let mut daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    hand_in(&daemon, 40);
    let messages = told(&client, 40);
    assert_eq!(messages.len(), 40, "each once");
    let first = &messages[0];
    let body = first.json();
    assert_eq!((&body["event"], &body["fact"]), (&EVENT.into(), &"item.handed_over".into()), "{body}");
    assert_eq!(first.properties.reply_to().as_ref().map(ToString::to_string).as_deref(), Some(ANSWERS));
    assert!(body["due"].is_string() && body.get("payload").is_none(), "it names no content: {body}");
    // The truth is in the store.
    let payload = daemon.get(&format!("/v1/items/{}/payload", text(&body["item"]))).expect(200).json();
    assert_eq!(payload["id"], body["key"]);
    wait::until("the daemon takes answers", || client.has(ANSWERS));
    // One fails and is told anew, with another token; each of the others is answered, some of them twice.
    let failed = json!({"error": {"class": "retryable", "message": "no dictionary"}});
    client.put(ANSWERS, &[&answer(first, &failed)], &[]);
    let done = |message: &Message| answer(message, &json!({"output": {"said": message.json()["key"]}}));
    let answers: Vec<String> =
        messages[1..].iter().flat_map(|message| [done(message), done(message)]).collect();
    client.put(ANSWERS, &answers.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let again = told(&client, 1);
    assert_eq!((again.len(), &again[0].json()["key"]), (1, &body["key"]));
    assert_eq!(again[0].json()["attempt"], 2);
    // A late answer to the first attempt changes nothing; the daemon is killed and finds the answer in the queue.
    daemon.kill();
    client.put(ANSWERS, &[&answer(first, &json!({"output": "late"})), &done(&again[0])], &[]);
    let nobody = messages[1].json()["token"].to_string().replace(|c: char| c.is_ascii_digit(), "0");
    let poison =
        ["no JSON", "{\"token\":\"x\"}", &format!("{{\"token\":{nobody},\"result\":{{\"output\":1}}}}")];
    client.put(ANSWERS, &poison, &[]);
    daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 40);
    assert_eq!(count(&report["awaited"]), 0);
    assert_eq!((count(&report["attempts"]["total"]), count(&report["attempts"]["failures"])), (41, 1));
    let came = results(&daemon.get("/v1/runs/r1/results").expect(200).body);
    assert!(came.len() == 40 && came.iter().all(|(key, output)| output["said"] == key.as_str()), "{came:?}");
    wait::until("the queue is empty", || client.count(ANSWERS) == 0);
    wait::until("what is no answer is put aside", || client.has("redrive.answers.failed"));
    wait::until("all of it", || client.count("redrive.answers.failed") == 3);
    let listed = place.json(&["queues", "list"]);
    assert_eq!(array(&listed["items"])[0]["queue"], "redrive.answers.failed", "{listed}");
    let ran = daemon.stop().expect(0);
    assert!(ran.stderr.contains("message put aside"), "{}", ran.stderr);
    place.check();
}
