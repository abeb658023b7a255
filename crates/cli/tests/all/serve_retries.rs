//! A daemon that takes runs, classifies what goes wrong and tries again: on a clock that is moved while it is down.

use serde_json::{Value, json};

use crate::support::server::{Item, failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, names, text};

const SECOND: i64 = 1_000;
const DAY: i64 = 24 * 3_600 * SECOND;
/// The waits after each failure but the last, in seconds: 60 s doubled, at most an hour.
const WAITS: [i64; 7] = [60, 120, 240, 480, 960, 1_920, 3_600];
/// What everything is handed in after that shows that the daemon works.
const MARKER: &str = "marker";

/// A place with a folder of pipelines, of which there is one, and a clock.
fn place(server: &Server, retry: &str) -> (Place, Shifted) {
    let mut place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let pipeline = format!(
        "name = \"box\"\ndeadline = \"none\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n\
         [run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\n{}\nconcurrency = 1\n{retry}\n",
        server.stage()
    );
    place.write("pipelines/box.toml", pipeline);
    let clock = Shifted::in_place(&mut place);
    (place, clock)
}

fn start(place: &Place, more: &[&str]) -> Daemon {
    Daemon::start(place, &[&["--pipelines", "pipelines"], more].concat())
}

/// Hands an item to the standing run of a category.
fn hand_in(daemon: &Daemon, key: &str, category: Option<&str>) {
    let body = json!({"items": [{"payload": {"id": key}}], "category": category});
    let handed = daemon.post("/v1/pipelines/box/items", &body).expect(200).json();
    assert_eq!(handed["counts"]["admitted"], 1, "{handed}");
}

/// Begins a run of its own over one item.
fn begin(daemon: &Daemon, place: &Place, key: &str, category: Option<&str>) {
    let text = place.read("pipelines/box.toml").replace("kind = \"inbox\"\n", "path = \"none\"\n");
    let items = json!([{"key": key, "payload": {"id": key}}]);
    daemon.post("/v1/runs", &json!({"pipeline": text, "items": items, "category": category})).expect(201);
}

fn item(daemon: &Daemon, key: &str) -> Value {
    daemon.get(&format!("/v1/items/{key}")).expect(200).json()
}

/// Waits until an item is as wanted.
fn until(daemon: &Daemon, key: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
    daemon.until(&format!("/v1/items/{key}"), &mut wanted)
}

/// Has the daemon work on something that passes at once: whatever else was due has been called for before that.
fn until_marker_passed(daemon: &Daemon, n: usize) {
    let key = format!("{MARKER}{n}");
    hand_in(daemon, &key, None);
    until(daemon, &key, |item| item["state"] == "succeeded");
}

fn called(server: &Server) -> Vec<String> {
    let calls = server.calls();
    let keys = calls.iter().flat_map(|call| call.items.iter().map(|item| item.key.clone()));
    keys.filter(|key| !key.starts_with(MARKER)).collect()
}

/// A service that answers for each item.
fn service(answer: impl Fn(&Item) -> Value + Send + Sync + 'static) -> Server {
    Server::start(move |call| {
        let answers = call.items.iter().map(|item| match item.key.starts_with(MARKER) {
            true => passed(item),
            false => answer(item),
        });
        Answer::results(&answers.collect::<Vec<_>>())
    })
}

/// The table of the order: submitted on the 1st and due again on the 5th; new on the 3rd; new on the 4th; submitted on the
/// 4th and not due before the 8th. On the 5th the first three are called for in this order, and the last is not.
#[test]
fn new_items_and_due_retries_compete_by_submission() {
    let retry = "retry.max_attempts = 3\nretry.jitter = \"none\"\nretry.backoff = { kind = \"fixed\", delay = \"96h\" }";
    for runs_of_their_own in [false, true] {
        let server = service(|item| match item.before {
            0 if ["first", "last"].contains(&&*item.key) => failed(item, "retryable", "not yet"),
            _ => passed(item),
        });
        let (place, clock) = place(&server, retry);
        let give = |daemon: &Daemon, key: &str, category| match runs_of_their_own {
            true => begin(daemon, &place, key, category),
            false => hand_in(daemon, key, category),
        };
        clock.put(DAY);
        let daemon = start(&place, &[]);
        give(&daemon, "first", None);
        until(&daemon, "first", |item| item["failures"] == 1 && item["state"] == "waiting");
        daemon.stop().expect(0);
        clock.put(3 * DAY);
        let daemon = start(&place, &["--no-work"]);
        give(&daemon, "second", None);
        daemon.stop().expect(0);
        clock.put(4 * DAY);
        let daemon = start(&place, &["--categories", "late"]);
        give(&daemon, "third", None);
        give(&daemon, "last", Some("late"));
        until(&daemon, "last", |item| item["failures"] == 1 && item["state"] == "waiting");
        daemon.stop().expect(0);
        assert_eq!(called(&server), ["first", "last"]);
        clock.put(5 * DAY + 60 * SECOND);
        // Runs that are opened together are called for in no order that anybody promises.
        let daemon = start(&place, &["--runs-at-once", "1"]);
        until(&daemon, "third", |item| item["state"] == "succeeded");
        assert_eq!(called(&server), ["first", "last", "first", "second", "third"], "{runs_of_their_own}");
        assert_eq!(item(&daemon, "last")["state"], "waiting");
        daemon.stop().expect(0);
        place.check();
    }
}

#[test]
fn a_final_error_is_never_retried() {
    let server = service(|item| failed(item, "final", "no such document"));
    let (place, clock) = place(&server, "retry = { preset = \"daemon\" }");
    let daemon = start(&place, &[]);
    hand_in(&daemon, "bad", None);
    let dead = until(&daemon, "bad", |item| item["state"] == "dead");
    assert_eq!(
        (&dead["reason"], &dead["class"], &dead["due"]),
        (&json!("final"), &json!("final"), &Value::Null)
    );
    daemon.stop().expect(0);
    for (n, days) in [1, 30].into_iter().enumerate() {
        clock.put(days * DAY);
        let daemon = start(&place, &[]);
        until_marker_passed(&daemon, n);
        assert_eq!((called(&server).len(), &item(&daemon, "bad")["state"]), (1, &json!("dead")));
        daemon.stop().expect(0);
    }
    place.check();
}

#[test]
fn a_retryable_error_is_tried_eight_times_each_wait_twice_the_one_before() {
    let server = service(|item| failed(item, "retryable", "not yet"));
    let (place, clock) = place(&server, "retry = { preset = \"daemon\" }");
    let daemon = start(&place, &[]);
    hand_in(&daemon, "poor", None);
    let failed_for = |daemon: &Daemon, times: usize| {
        until(daemon, "poor", |item| item["failures"] == times && item["state"] != "running")
    };
    failed_for(&daemon, 1);
    daemon.stop().expect(0);
    // Put anew at every step, so that what the steps themselves take adds up to nothing that matters.
    let mut at = 0;
    for (n, wait) in WAITS.into_iter().enumerate() {
        clock.put(at + (wait - 20) * SECOND);
        let early = start(&place, &[]);
        until_marker_passed(&early, n);
        assert_eq!(called(&server).len(), n + 1, "not before {wait} s have passed");
        assert_eq!(item(&early, "poor")["state"], "waiting");
        early.stop().expect(0);
        at += wait * SECOND;
        clock.put(at);
        let due = start(&place, &[]);
        // The item n + 2 times and n + 1 markers, counted without a look at the server: it may have been called by now.
        server.until_called(2 * n + 3);
        failed_for(&due, n + 2);
        assert_eq!(called(&server).len(), n + 2);
        due.stop().expect(0);
    }
    clock.put(at + 30 * DAY);
    let daemon = start(&place, &[]);
    until_marker_passed(&daemon, WAITS.len());
    let dead = item(&daemon, "poor");
    assert_eq!(
        (&dead["state"], &dead["reason"], &dead["due"]),
        (&json!("dead"), &json!("exhausted"), &Value::Null)
    );
    let life = daemon.get("/v1/items/poor/explain").expect(200).json();
    let waits: Vec<Value> =
        array(&life["attempts"]).iter().map(|attempt| attempt["wait_ms"].clone()).collect();
    let planned = WAITS.map(|wait| json!(wait * SECOND)).into_iter().chain([Value::Null]);
    assert_eq!(waits, planned.collect::<Vec<_>>());
    assert_eq!((called(&server).len(), count(&dead["attempts"])), (8, 8));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_throttle_that_says_when_spends_no_attempt() {
    const THROTTLES: usize = 12;
    let server = Server::start(|call| match call.item() {
        item if item.key.starts_with(MARKER) => Answer::all(call),
        item if item.before < THROTTLES => {
            Answer::Http(429, vec![("retry-after", "900".to_owned())], "later".to_owned())
        }
        item if item.before < THROTTLES + 7 => Answer::status(500, "not yet"),
        _ => Answer::all(call),
    });
    let (place, clock) = place(&server, "retry = { preset = \"daemon\" }");
    let mut at = 0;
    let mut daemon = start(&place, &[]);
    hand_in(&daemon, "busy", None);
    for n in 1..=THROTTLES {
        let item = until(&daemon, "busy", |item| item["throttles"] == n && item["state"] == "waiting");
        assert_eq!((count(&item["failures"]), item["class"].as_str()), (0, Some("rate_limited")), "{item}");
        daemon.stop().expect(0);
        at += 901 * SECOND;
        clock.put(at);
        daemon = start(&place, &[]);
    }
    // It has all of its eight attempts yet.
    for (n, wait) in WAITS.into_iter().enumerate() {
        until(&daemon, "busy", |item| item["failures"] == n + 1 && item["state"] == "waiting");
        daemon.stop().expect(0);
        at += (wait + 1) * SECOND;
        clock.put(at);
        daemon = start(&place, &[]);
    }
    let passed = until(&daemon, "busy", |item| item["state"] == "succeeded");
    assert_eq!(count(&passed["attempts"]), (THROTTLES + 8) as u64);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_daemon_works_only_on_the_categories_it_was_given() {
    let server = service(passed);
    let (place, _clock) = place(&server, "");
    let night = start(&place, &["--categories", "night,weekly"]);
    for (key, category) in [("a", Some("night")), ("b", Some("day")), ("c", None), ("d", Some("weekly"))] {
        hand_in(&night, key, category);
        begin(&night, &place, &format!("{key}{key}"), category);
    }
    let taken = names(["a", "aa", "d", "dd"]);
    taken.iter().for_each(|key| drop(until(&night, key, |item| item["state"] == "succeeded")));
    assert_eq!(names(called(&server)), taken);
    for key in ["b", "bb", "c", "cc"] {
        assert_eq!(item(&night, key)["state"], "waiting", "{key}");
    }
    night.stop().expect(0);
    let all = start(&place, &[]);
    for key in ["b", "bb", "c", "cc"] {
        until(&all, key, |item| item["state"] == "succeeded");
    }
    assert_eq!(called(&server).len(), 8, "each once");
    all.stop().expect(0);
}

#[test]
fn what_a_retry_needed_is_cleared_when_it_succeeds_and_the_history_stays() {
    let server = service(|item| match item.before {
        0 | 1 => failed(item, "retryable", "not yet"),
        _ => passed(item),
    });
    let (place, clock) = place(&server, "retry = { preset = \"daemon\" }");
    let mut daemon = start(&place, &[]);
    hand_in(&daemon, "late", None);
    for (failures, at) in [(1, 61), (2, 200)] {
        let waits = until(&daemon, "late", |item| item["failures"] == failures && item["state"] == "waiting");
        assert!(waits["due"].is_string(), "{waits}");
        assert_eq!((&waits["class"], &waits["message"]), (&json!("retryable"), &json!("not yet")));
        daemon.stop().expect(0);
        clock.put(at * SECOND);
        daemon = start(&place, &[]);
    }
    let passed = until(&daemon, "late", |item| item["state"] == "succeeded");
    for field in ["due", "class", "message", "reason", "group"] {
        assert_eq!(passed[field], Value::Null, "{field}: {passed}");
    }
    let life = daemon.get("/v1/items/late/explain").expect(200).json();
    let outcomes: Vec<(String, Option<&str>)> = array(&life["attempts"])
        .iter()
        .map(|attempt| (text(&attempt["outcome"]), attempt["message"].as_str()))
        .collect();
    let outcomes: Vec<(&str, Option<&str>)> =
        outcomes.iter().map(|(outcome, message)| (outcome.as_str(), *message)).collect();
    assert_eq!(
        outcomes,
        [("failed", Some("not yet")), ("failed", Some("not yet")), ("succeeded", None)],
        "{life}"
    );
    daemon.stop().expect(0);
    place.check();
}
