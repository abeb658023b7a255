//! What the daemon tells by itself, and what it finds: credit that ran out, changes under load, passages of files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::serve_notify::{Receiver, begin, is_as_the_page_says, place as with_notify, start, until_watched};
use crate::support::daemon::TOKEN;
use crate::support::server::failed;
use crate::support::{Answer, Daemon, Place, Server, array, count, text, wait};

#[test]
fn credit_that_ran_out_is_told_of_the_run_and_of_the_gate() {
    let server = Server::start(|call| {
        let quota = |item| failed(item, "quota", "your credit is exhausted");
        Answer::results(&call.items.iter().map(quota).collect::<Vec<_>>())
    });
    let receiver = Receiver::start(200);
    let place = with_notify(&server, &receiver.entry("\"run.paused\", \"gate.paused\""));
    let daemon = start(&place, &[]);
    until_watched(&place);
    let run = begin(&daemon, 3);
    let came: Vec<Value> = receiver.until(2).iter().map(|one| one.message()).collect();
    let told = |kind: &str| came.iter().find(|one| one["type"] == kind).cloned().unwrap_or_default();
    let (of_run, of_gate) = (told("run.paused"), told("gate.paused"));
    assert_eq!((&of_run["data"]["run"], &of_run["data"]["status"]), (&json!(run), &json!("paused_quota")));
    assert_eq!(of_run["data"]["counts"]["dead"].as_u64().unwrap_or(0), 0, "nothing is lost: {of_run}");
    assert_eq!(of_gate["data"]["pipeline"], "test", "{of_gate}");
    assert!(text(&of_gate["data"]["why"]).contains("credit"), "{of_gate}");
    came.iter().for_each(is_as_the_page_says);
    // Nothing happens any more, and nobody is told twice.
    let report = daemon.get(&format!("/v1/runs/{run}")).expect(200).json();
    assert_eq!((&report["status"], count(&report["counts"]["waiting"])), (&json!("paused_quota"), 3));
    daemon.stop().expect(0);
    assert_eq!(receiver.came().len(), 2, "{:?}", receiver.came());
    place.check();
}

/// Follows events for a while, and gives what was told and how long that took.
fn followed(daemon: &Daemon, span: Duration, ready: impl FnOnce()) -> (String, Duration) {
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    let address = daemon.address();
    let head = format!("GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let begun = wait::now();
    stream.write_all(head.as_bytes()).expect("sent");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("set");
    let (mut told, mut buffer) = (String::new(), [0; 4096]);
    let mut ready = Some(ready);
    while begun.elapsed() < span {
        let n = stream.read(&mut buffer).expect("it tells");
        assert_ne!(n, 0, "it ended: {told}");
        told.push_str(&String::from_utf8_lossy(&buffer[..n]));
        ready.take().into_iter().for_each(|ready| ready());
    }
    (told, begun.elapsed())
}

#[test]
fn changes_under_load_are_told_together_at_most_four_times_a_second() {
    let server = Server::good();
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = server.stage();
    place.write(
        "pipelines/box.toml",
        format!(
            "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"work\"\n{stage}\n"
        ),
    );
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let over = std::sync::atomic::AtomicBool::new(false);
    let load = |begins: std::sync::mpsc::Receiver<()>| {
        begins.recv().expect("somebody follows");
        let mut changes = 0_usize;
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            let item = json!({"items": [{"payload": {"id": format!("k{changes}"), "n": 1}}]});
            daemon.post("/v1/pipelines/box/items", &item).expect(200);
            changes += 1;
        }
        changes
    };
    let (told, took, changes) = std::thread::scope(|scope| {
        let (begin, begins) = std::sync::mpsc::channel();
        let loading = scope.spawn(move || load(begins));
        let (told, took) = followed(&daemon, Duration::from_secs(2), || begin.send(()).expect("it waits"));
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        (told, took, loading.join().expect("it ends"))
    });
    let events = told.matches("event: changed").count();
    // One at once for whoever comes, and one that was on its way.
    let most = usize::try_from(took.as_millis() / 250).expect("few") + 2;
    assert!((2..=most).contains(&events), "{events} events in {took:?}: {told}");
    assert!(changes > events, "{changes} changes and {events} events");
    // What was left out of one is in the next: whoever comes back is told of the last.
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == changes);
    daemon.stop().expect(0);
}

#[test]
fn a_passage_is_found_over_http_as_by_the_command() {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/bread.md", "# Bread\n\nFlour, water, salt and a walrus.\n");
    place.write("docs/stone.md", "# Stones\n\nGranite and basalt are hard.\n");
    place.run(&["index", "docs", "--processes", "1", "--quiet"]).expect(0);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let found = daemon.get("/v1/search?q=walrus&k=2").expect(200).json();
    let hit = &found["hits"][0];
    assert!(text(&hit["path"]).ends_with("bread.md"), "{found}");
    assert!(text(&hit["text"]).contains("salt and a walrus"), "{found}");
    for (query, file) in [("granite", "stone.md"), ("hard%20rock&mode=meaning", "stone.md")] {
        let found = daemon.get(&format!("/v1/search?q={query}&k=1")).expect(200).json();
        assert!(text(&found["hits"][0]["path"]).ends_with(file), "{query}: {found}");
    }
    let only = daemon.get("/v1/search?q=walrus&path=*stone*").expect(200).json();
    assert!(array(&only["hits"]).iter().all(|hit| text(&hit["path"]).ends_with("stone.md")), "{only}");
    let command = place.json(&["search", "walrus", "-k", "2"]);
    assert_eq!(found["hits"], command["hits"], "both doors find the same");
    daemon.get("/v1/search").expect(400);
    daemon.get("/v1/search?q=walrus&k=0").expect(400);
    daemon.stop().expect(0);
}
