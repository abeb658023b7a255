//! `redrive mail --bus`: a service for each stage that takes long, over a real broker.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_mail::corpus::{Options, make};
use serde_json::{Value, json};

use crate::mail::{LEASE, archive, by_first, mail, message, threads, write};
use crate::support::broker::{Client, Message};
use crate::support::index::{dice, tell};
use crate::support::{Broker, Names, Place, Started, array, column, count, text, wait};

const EVENTS: [&str; 4] = ["archive.ingested", "json.parsed", "chunks.prepared", "summarization.requested"];
const EXAMPLE: &str = include_str!("../../../../examples/mail/list.mbox");

fn bus(broker: &Broker) -> Place {
    let mut place = Place::new();
    place.set("REDRIVE_BUS", &broker.url());
    place
}

fn service(place: &Place, event: &str) -> Started {
    place.start(&["work", "--event", event])
}

fn services(place: &Place) -> Vec<Started> {
    EVENTS.iter().map(|event| service(place, event)).collect()
}

fn end(services: Vec<Started>) {
    services.iter().for_each(|service| service.signal("TERM"));
    services.into_iter().for_each(|service| drop(service.finish().expect(0)));
}

fn found(place: &Place, words: &str) -> Names {
    column(&place.json(&["search", words, "-k", "20"])["hits"], "path")
}

/// Facts that were told, by their names.
fn told(client: &Client, queue: &str) -> BTreeMap<String, Vec<Message>> {
    let mut all: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    for message in client.drain(queue) {
        all.entry(message.routing_key.clone()).or_default().push(message);
    }
    all
}

fn attempts(place: &Place) -> u64 {
    array(&place.json(&["runs"])["runs"])
        .iter()
        .map(|run| count(&place.json(&["show", &text(&run["run"])])["attempts"]["total"]))
        .sum()
}

#[test]
fn services_make_of_mail_what_one_process_does_and_whoever_comes_late_finds_the_work() {
    let (alone, broker) = (Place::new(), Broker::start());
    alone.write("list.mbox", EXAMPLE);
    mail(&alone, &["list.mbox"], 0);
    let (client, place) = (broker.client(), bus(&broker));
    place.write("list.mbox", EXAMPLE);
    client.bind("all", &["#"], &[]);
    // Nobody is there to do it: the archive waits, and so does the word of it, whoever else hears it.
    let first = mail(&place, &["list.mbox", "--max-wait", "1s"], 3);
    assert_eq!((count(&first["awaited"]), &first["status"]), (1, &"partially_completed".into()), "{first:#}");
    assert_eq!(client.count("redrive.work.archive.ingested"), 1);
    let services = services(&place);
    let second = mail(&place, &["list.mbox"], 0);
    assert_eq!(threads(&place), threads(&alone));
    assert_eq!(second["run"], first["run"], "it went on");
    for words in ["disk of the backup host", "dumplings"] {
        assert_eq!(found(&place, words), found(&alone, words));
    }
    let told = told(&client, "all");
    for (name, messages) in &told {
        let with_token = messages.iter().filter(|message| message.json()["token"].is_string()).count();
        let wanted = if EVENTS.contains(&name.as_str()) { messages.len() } else { 0 };
        assert_eq!(with_token, wanted, "{name} is told with a token, or without one");
    }
    let many = |name: &str| told.get(name).map_or(0, Vec::len);
    assert_eq!((many("archive.complete"), many("message.complete"), many("summary.complete")), (1, 4, 2));
    assert!(many("json.parsed") == 4 && many("embeddings.generated") >= 4, "{:?}", told.keys());
    // What is told twice, or is no event, changes nothing.
    let before = attempts(&place);
    for event in ["json.parsed", "chunks.prepared", "summarization.requested"] {
        let body = String::from_utf8(told[event][0].body.clone()).expect("text");
        let queue = format!("redrive.work.{event}");
        client.put(&queue, &[&body, &body, "{\"token\":\"x\"}", "{}", "no JSON"], &[]);
        let failed = format!("{queue}.failed");
        wait::until("what is no event is put aside", || client.has(&failed) && client.count(&failed) == 1);
        wait::until("the rest is done with", || client.count(&queue) == 0);
    }
    let third = mail(&place, &["list.mbox"], 0);
    assert_eq!(
        (count(&third["attempts"]["total"]), &third["mail"]["summaries"]),
        (0, &Value::Null),
        "{third:#}"
    );
    assert_eq!(attempts(&place), before);
    end(services);
    place.check();
}

#[test]
fn killed_services_and_a_killed_mailer_leave_what_an_undisturbed_run_makes() {
    let corpus = make(Options { seed: 7, messages: 500, big: 1, big_bytes: 1 << 20 });
    let calm = Place::new();
    write(&calm, &corpus);
    let undisturbed = mail(&calm, &["mail"], 0);
    let messages = count(&undisturbed["mail"]["threads"]["messages"]);
    let broker = Broker::start();
    let place = bus(&broker);
    write(&place, &corpus);
    let begin = || place.start(&["mail", "mail", LEASE[0], LEASE[1], "--json"]);
    let (mut mailer, mut services) = (begin(), services(&place));
    let (mut kills, mut mailers) = (0, 0);
    for luck in dice(11).take(60) {
        let (rest, begun) = (Duration::from_secs_f64(0.1 + luck * 0.6), wait::now());
        wait::until("its time has come", || begun.elapsed() >= rest || mailer.has_ended());
        if mailer.has_ended() {
            break;
        }
        let at = kills % EVENTS.len();
        let killed = std::mem::replace(&mut services[at], service(&place, EVENTS[at])).kill();
        kills += usize::from(killed.killed_by() == Some(9));
        if kills == 6 && mailers == 0 {
            mailers += usize::from(std::mem::replace(&mut mailer, begin()).kill().killed_by() == Some(9));
        }
    }
    let last = mailer.finish();
    assert_eq!(last.code(), Some(0), "{last:?}");
    tell(&format!("{kills} kills of services, {mailers} of the mailer, {messages} messages"));
    assert!(messages > 200, "{messages} messages are few");
    assert!(kills >= 6 && mailers == 1, "{kills} and {mailers} kills prove little");
    assert_eq!(count(&last.json()["mail"]["threads"]["messages"]), messages);
    assert!(threads(&place) == threads(&calm), "the threads and summaries are others");
    assert_eq!(place.dead_keys(), calm.dead_keys());
    assert_eq!(found(&place, "release"), found(&calm, "release"));
    assert_eq!(mail(&place, &["mail"], 0)["mail"]["summaries"], Value::Null, "nothing is left to do");
    end(services);
    place.check();
}

#[test]
fn a_message_that_no_service_can_read_is_dead_with_its_reason_and_that_is_told() {
    let broker = Broker::start();
    let (client, place) = (broker.client(), bus(&broker));
    client.bind("failed", &["parsing.failed", "chunking.failed"], &[]);
    let poison = "From x@x Tue Nov 17 10:00:00 2026\n\nno header, only text\n\n";
    place.write("list.mbox", format!("{}{poison}", archive()));
    place.write("only.mbox", poison.replace("only text", "only another text"));
    let services = services(&place);
    let report = mail(&place, &["list.mbox", "only.mbox"], 3);
    assert_eq!(
        (count(&report["mail"]["taken_in"]), count(&report["mail"]["failed_messages"])),
        (5, 2),
        "{report:#}"
    );
    let dead = place.dead();
    let of_messages: Vec<&Value> = dead.iter().filter(|dead| dead["stage"] == "message").collect();
    assert!(
        of_messages.len() == 2
            && of_messages.iter().all(|dead| text(&dead["message"]).contains("no headers")),
        "{dead:#?}"
    );
    wait::until("all are told", || client.count("failed") >= 3);
    let told = told(&client, "failed");
    let told: BTreeMap<&str, usize> = told.iter().map(|(name, all)| (name.as_str(), all.len())).collect();
    assert_eq!(told, BTreeMap::from([("chunking.failed", 2), ("parsing.failed", 1)]));
    end(services);
    place.check();
}

#[test]
fn summaries_may_come_from_services_of_others() {
    const ASKED: &str = "redrive.work.summarization.requested";
    let broker = Broker::start();
    let client = broker.client();
    for (more, by) in
        [(&[] as &[&str], "service"), (&["--chat", "http://127.0.0.1:9", "--chat-model", "m"], "m")]
    {
        let place = bus(&broker);
        place.write("list.mbox", archive());
        let ours: Vec<Started> = EVENTS[..3].iter().map(|event| service(&place, event)).collect();
        let args: Vec<&str> = ["mail", "list.mbox", "--json"].iter().chain(more).copied().collect();
        let mailer = place.start(&args);
        wait::until("threads are handed over", || client.has(ASKED) && client.count(ASKED) == 3);
        let asked = client.drain(ASKED);
        let answer = |message: &Message, said: Value| {
            json!({"token": message.json()["token"], "result": {"output": said}}).to_string()
        };
        let wrong = answer(&asked[0], json!(7));
        let mut answers: Vec<String> = asked.iter().map(|one| answer(one, json!("In short. [1]"))).collect();
        answers.insert(0, wrong);
        client.put("redrive.answers", &answers.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        mailer.finish().expect(0);
        for thread in array(&threads(&place)["threads"]) {
            assert_eq!(thread["summary"], json!({"by": by, "text": "In short. [1]", "cites": [1]}));
        }
        assert_eq!(client.take("redrive.answers.failed", 1).len(), 1);
        end(ours);
        place.check();
    }
}

#[test]
fn a_growing_archive_is_followed_with_services() {
    let broker = Broker::start();
    let place = bus(&broker);
    place.write("list.mbox", archive());
    let mut watching = place.start(&["mail", "list.mbox", "--watch"]);
    let services = services(&place);
    place.until_json(&["runs"], |runs| {
        array(&runs["runs"]).iter().any(|run| run["pipeline"] == "mail-threads")
    });
    wait::until("it is summarised", || by_first(&place).len() == 3);
    let more = message("a3", &["a2"], "Re: The walrus leaks", 10, "The walrus is bounded now.");
    place.write("list.mbox", archive() + &more);
    wait::until("it is followed", || {
        by_first(&place).get("a1").is_some_and(|thread| count(&thread["messages"]) == 3)
    });
    wait::until("it ends", || {
        if !watching.has_ended() {
            watching.signal("TERM");
            wait::work(Duration::from_millis(200));
        }
        watching.has_ended()
    });
    watching.finish().expect(130);
    end(services);
}
