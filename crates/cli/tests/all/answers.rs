//! Answers that come later: an item is handed over, holds no place, and goes on when its answer comes, or fails when none does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::server::{Item, output};
use crate::support::{Answer, Daemon, Place, Server, array, count, key, quick_retry, results, text, wait};

/// A service that takes items and answers later.
fn deferring() -> Server {
    Server::start(|call| {
        let said = |item: &Item| json!({"id": item.id, "deferred": {}});
        Answer::results(&call.items.iter().map(said).collect::<Vec<_>>())
    })
}

/// A pipeline of a standing run whose only stage is this.
fn pipeline(stage: &str) -> String {
    format!(
        "name = \"jobs\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\n\
         name = \"work\"\n{stage}\n{}",
        quick_retry(2)
    )
}

fn place(stage: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/jobs.toml", pipeline(stage));
    place
}

fn http(server: &Server, more: &str) -> String {
    format!("kind = \"http\"\nurl = \"http://{}/work\"\n{more}", server.address())
}

fn serve(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

fn hand_in(daemon: &Daemon, items: usize) {
    let items: Vec<Value> = (0..items).map(|n| json!({"payload": {"id": key(n), "n": n}})).collect();
    daemon.post("/v1/pipelines/jobs/items", &json!({"items": items})).expect(200);
}

fn until_awaited(daemon: &Daemon, n: u64) -> Value {
    daemon.until("/v1/runs/r1", |report| {
        count(&report["awaited"]) == n && count(&report["counts"]["running"]) == 0
    })
}

fn answer(daemon: &Daemon, item: &Item) -> Value {
    daemon.post(&format!("/v1/answers/{}", item.token), &json!({"output": output(item)})).expect(200).json()
}

/// What each item came to, by its key.
fn done(daemon: &Daemon) -> BTreeMap<String, Value> {
    results(&daemon.get("/v1/runs/r1/results").expect(200).body)
}

fn only_item(server: &Server) -> Item {
    server.until_called(1);
    server.calls()[0].item().clone()
}

#[test]
fn an_answer_that_comes_later_is_kept_and_a_second_one_changes_nothing() {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    let report = until_awaited(&daemon, 1);
    assert_eq!((count(&report["counts"]["waiting"]), count(&report["attempts"]["total"])), (1, 0));
    assert_eq!(count(&report["stages"][0]["awaited"]), 1);
    let item = only_item(&server);
    let life = daemon.get(&format!("/v1/items/{}/explain", item.key)).expect(200).json();
    assert!(text(&life["now"]).contains("its answer is awaited until"), "{}", life["now"]);
    assert!(text(&life["now"]).contains("attempt 1 of 2"), "{}", life["now"]);
    assert_eq!(life["item"]["awaited"]["token"], item.token.as_str());
    assert_eq!(life["attempts"][0]["outcome"], "handed_over");
    let rows = daemon.get("/v1/runs/r1/items").expect(200).json();
    assert_eq!(rows["items"][0]["awaited"]["token"], item.token.as_str());
    let shown = place.run(&["show", "r1"]).expect(0).stdout;
    assert!(shown.contains("1 answer is awaited, until "), "{shown}");
    // What is no answer changes nothing.
    let at = format!("/v1/answers/{}", item.token);
    for wrong in [
        json!({}),
        json!({"output": 1, "filtered": "x"}),
        json!({"deferred": {}}),
        json!({"id": "other", "output": 1}),
        json!([1]),
        json!({"error": {"class": "bogus", "message": "x"}}),
        json!({"error": {"class": "crash"}}),
        json!({"error": {"message": 1}}),
        json!({"error": {"retry_after_ms": "soon"}}),
        json!({"error": 7}),
    ] {
        daemon.post(&at, &wrong).expect(400);
    }
    daemon.post("/v1/answers/nonsense", &json!({"output": 1})).expect(404);
    let other = format!("{}.0.0.1", "0".repeat(32));
    daemon.post(&format!("/v1/answers/{other}"), &json!({"output": 1})).expect(404);
    // Nor does an answer for an attempt that never was.
    for never in ["0.0.2", "0.0.0", "0.1.1", "1.0.1"] {
        daemon.post(&format!("/v1/answers/{}.{never}", item.item), &json!({"output": 1})).expect(404);
    }
    assert_eq!(count(&until_awaited(&daemon, 1)["attempts"]["total"]), 0);
    let taken = answer(&daemon, &item);
    assert_eq!((&taken["fate"], &taken["item"]), (&json!("taken"), &json!(item.item)));
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["awaited"])), (1, 0));
    let late = answer(&daemon, &item);
    assert_eq!(late["fate"], "late");
    assert!(text(&late["message"]).contains("Nothing was changed"), "{late}");
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["attempts"]["total"])), (1, 1));
    assert_eq!(server.count(), 1, "it was handed over once");
    assert_eq!(done(&daemon)[&item.key], output(&item));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn many_answers_are_taken_in_one_call_each_by_itself() {
    let server = deferring();
    let place = place(&http(&server, "defer = true\nbatch = 10\nconcurrency = 1"));
    let daemon = serve(&place);
    hand_in(&daemon, 5);
    until_awaited(&daemon, 5);
    let items: Vec<Item> = server.calls().into_iter().flat_map(|call| call.items).collect();
    let by = |n: usize, result: Value| json!({"token": items[n].token, "result": result});
    let answers = json!({"answers": [
        by(0, json!({"output": {"n": 0}})),
        by(1, json!({"filtered": "dull"})),
        by(2, json!({"error": {"class": "final", "message": "no such thing"}})),
        by(0, json!({"output": {"n": 9}})),
        by(3, json!({"nothing": true})),
        {"token": "nobody", "result": {"output": 1}},
    ]});
    let taken = daemon.post("/v1/answers", &answers).expect(200).json();
    let fates: Vec<String> = array(&taken["answers"]).iter().map(|one| text(&one["fate"])).collect();
    assert_eq!(fates, ["taken", "taken", "taken", "late", "wrong", "unknown"]);
    let report = daemon.get("/v1/runs/r1").expect(200).json();
    let counts = &report["counts"];
    assert_eq!((count(&counts["succeeded"]), count(&counts["filtered"]), count(&counts["dead"])), (1, 1, 1));
    assert_eq!(count(&report["awaited"]), 2);
    daemon.post("/v1/answers", &json!({"answers": []})).expect(400);
    assert_eq!(done(&daemon)[&items[0].key], json!({"n": 0}), "the first answer counts");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_missing_answer_is_an_attempt_and_a_late_one_is_told_so() {
    let server = deferring();
    let place = place(&http(&server, "defer = true\nstuck_after = \"300ms\""));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["dead"]) == 1);
    assert_eq!((count(&report["attempts"]["failures"]), count(&report["awaited"])), (2, 0));
    let calls = server.calls();
    assert_eq!(calls.iter().map(|call| call.item().attempt).collect::<Vec<_>>(), [1, 2]);
    assert_ne!(calls[0].item().token, calls[1].item().token, "each attempt has a token of its own");
    for call in &calls {
        assert_eq!(answer(&daemon, call.item())["fate"], "late");
    }
    let life = daemon.get(&format!("/v1/items/{}/explain", calls[0].item().key)).expect(200).json();
    for attempt in array(&life["attempts"]) {
        assert_eq!((&attempt["outcome"], &attempt["class"]), (&json!("failed"), &json!("timeout")));
        assert!(text(&attempt["message"]).contains("no answer within"), "{attempt}");
    }
    assert_eq!(count(&daemon.get("/v1/runs/r1").expect(200).json()["counts"]["dead"]), 1);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_answer_may_come_before_it_is_known_that_the_item_was_handed_over() {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let daemon = serve(&place);
    server.hold();
    hand_in(&daemon, 1);
    let item = only_item(&server);
    assert_eq!(answer(&daemon, &item)["fate"], "taken");
    server.release();
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 1);
    assert_eq!((count(&report["awaited"]), count(&report["attempts"]["total"])), (0, 1));
    let ran = daemon.stop().expect(0);
    assert!(!ran.stderr.contains("too late"), "{}", ran.stderr);
    place.check();
}

#[test]
fn a_daemon_that_is_killed_between_hand_over_and_answer_loses_neither() {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let daemon = serve(&place);
    hand_in(&daemon, 20);
    until_awaited(&daemon, 20);
    daemon.kill();
    let daemon = serve(&place);
    let items: Vec<Item> = server.calls().into_iter().flat_map(|call| call.items).collect();
    assert_eq!(items.len(), 20);
    for item in &items {
        assert_eq!(answer(&daemon, item)["fate"], "taken");
    }
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 20);
    assert_eq!(count(&report["attempts"]["total"]), 20, "the kill cost nothing");
    assert_eq!(server.count(), 20, "and nothing was handed over twice");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_run_that_is_cancelled_takes_no_answer() {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let daemon = serve(&place);
    hand_in(&daemon, 2);
    until_awaited(&daemon, 2);
    daemon.post("/v1/runs/r1/cancel", &json!({})).expect(200);
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["cancelled"]) == 2);
    assert_eq!((count(&report["awaited"]), count(&report["attempts"]["total"])), (0, 2));
    for call in server.calls() {
        assert_eq!(answer(&daemon, call.item())["fate"], "late");
    }
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_item_that_waits_for_an_answer_is_listed_and_never_starved() {
    let server = deferring();
    let place = place(&http(&server, "defer = true\nstuck_after = \"400ms\""));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    until_awaited(&daemon, 1);
    let stuck = place.json(&["stuck", "--older-than", "1ms"]);
    assert_eq!(stuck["items"][0]["what"], "awaited", "{stuck}");
    daemon.kill();
    // Nobody is there to see that its time is over.
    let item = only_item(&server);
    let over = |place: &Place| place.json(&["stuck", "--older-than", "1ms"])["items"][0].clone();
    wait::until("its time is over", || over(&place)["what"] == "stuck");
    assert!(text(&over(&place)["why"]).contains("no answer has come until"), "{}", over(&place));
    let told = place.run(&["explain", &item.key]).expect(0).stdout;
    assert!(told.contains("no answer has come until"), "{told}");
    let metrics = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    assert!(metrics.contains("redrive_awaited_items{pipeline=\"jobs\",stage=\"work\"} 1"), "{metrics}");
    assert!(
        !metrics.lines().any(|line| line.starts_with("redrive_starved_items{") && !line.ends_with(" 0")),
        "{metrics}"
    );
    // The answer is taken all the same: the attempt is open until somebody has ended it.
    let daemon = Daemon::start(&place, &["--no-work"]);
    assert_eq!(answer(&daemon, &item)["fate"], "taken");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn answers_are_taken_of_workers_and_of_nobody_who_may_only_look() {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    until_awaited(&daemon, 1);
    let item = only_item(&server);
    let at = format!("/v1/answers/{}", item.token);
    let token = |role: &str| {
        let made = place.json(&["token", "create", role, "--role", role]);
        text(&made["token"])
    };
    let said = json!({"output": 1});
    daemon.ask("POST", &at, &[], &said.to_string()).expect(401);
    daemon.post_as(&token("viewer"), &at, &said).expect(403);
    daemon.post_as(&token("worker"), &at, &said).expect(200);
    daemon.stop().expect(0);
}

#[test]
fn a_command_hands_over_too() {
    let script = "import sys, json\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    \
                  open('tokens', 'a').write(''.join(i['answer_token'] + ' ' + i['answer_url'] + '\\n' for i in items))\n    \
                  print(json.dumps({'results': [{'id': i['id'], 'deferred': {}} for i in items]}), flush=True)\n";
    let place = place(
        "kind = \"command\"\ncommand = [\"python3\", \"hand_over.py\"]\ndefer = { callback = \"https://redrive.example/v1/answers\" }",
    );
    place.write("pipelines/hand_over.py", script);
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    until_awaited(&daemon, 1);
    let told = place.read("pipelines/tokens");
    let (token, url) = told.trim().split_once(' ').expect("both");
    assert_eq!(url, format!("https://redrive.example/v1/answers/{token}"));
    daemon.post(&format!("/v1/answers/{token}"), &json!({"output": {"done": true}})).expect(200);
    daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 1);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_answer_that_is_asked_for_costs_no_attempt_until_it_is_there() {
    let server = Server::start(|call| match call.stage.strip_prefix("/jobs/") {
        None => Answer::results(&[json!({"id": call.item().id, "deferred": {"ticket": "t/1"}})]),
        Some(_) if call.item().before < 3 => Answer::status(202, ""),
        Some(_) if call.item().before == 3 => Answer::status(503, "busy"),
        Some(ticket) => Answer::Http(200, Vec::new(), json!({"output": {"ticket": ticket}}).to_string()),
    });
    let poll =
        format!("defer = {{ poll = \"http://{}/jobs/{{ticket}}\", every = \"100ms\" }}", server.address());
    let place = place(&http(&server, &poll));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 1);
    assert_eq!((count(&report["attempts"]["total"]), count(&report["attempts"]["failures"])), (1, 0));
    let calls = server.calls();
    assert_eq!(calls.iter().filter(|call| call.stage == "work").count(), 1, "it is begun with once");
    assert!(calls.iter().filter(|call| call.stage == "/jobs/t%2F1").count() >= 5, "{calls:?}");
    let result = done(&daemon).into_values().next().expect("one");
    assert_eq!(result, json!({"ticket": "t%2F1"}));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_answer_that_is_asked_for_in_vain_is_an_attempt_when_its_time_is_over() {
    let server = Server::start(|call| match call.stage.starts_with("/jobs/") {
        true => Answer::status(202, ""),
        false => Answer::status(202, "accepted"),
    });
    let poll = format!(
        "stuck_after = \"500ms\"\ndefer = {{ poll = \"http://{}/jobs/{{id}}\", every = \"100ms\" }}",
        server.address()
    );
    let place = place(&http(&server, &poll));
    let daemon = serve(&place);
    hand_in(&daemon, 1);
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["dead"]) == 1);
    assert_eq!(count(&report["attempts"]["total"]), 2);
    let calls = server.calls();
    assert_eq!(calls.iter().filter(|call| call.stage == "work").count(), 2, "each attempt hands over anew");
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_event_is_kept_for_whoever_listens_and_answered() {
    let place = place("kind = \"event\"\nevent = \"text.summarise\"\noutput = \"/summary\"");
    let daemon = serve(&place);
    hand_in(&daemon, 3);
    until_awaited(&daemon, 3);
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("the store");
    let routed = "SELECT count(*) FROM fact WHERE route = 'text.summarise' AND what = 'item.handed_over'";
    let kept: i64 = store.query_row(routed, [], |row| row.get(0)).expect("counted");
    assert_eq!(kept, 3, "with no relay at work");
    for n in 0..3 {
        let item = daemon.get(&format!("/v1/items/{}", key(n))).expect(200).json();
        let token = text(&item["awaited"]["token"]);
        assert_eq!(item["awaited"]["event"], "text.summarise");
        daemon.post(&format!("/v1/answers/{token}"), &json!({"output": "short"})).expect(200);
    }
    daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 3);
    assert_eq!(done(&daemon)[&key(1)], json!({"id": key(1), "n": 1, "summary": "short"}));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_run_waits_for_answers_as_it_waits_for_retries() {
    let server = deferring();
    let stage = http(&server, "defer = true");
    let place = Place::with(&crate::support::one_stage(&stage), "{\"id\": \"a\"}\n");
    let report = place.run(&["run", "p.toml", "--max-wait", "1s", "--json"]).expect(3).json();
    assert_eq!((&report["status"], count(&report["awaited"])), (&json!("partially_completed"), 1));
    // An answer is called no retry.
    let said = place.run(&["run", "p.toml", "--max-wait", "1s"]).expect(3);
    let told = format!("{}{}{}", said.stdout, said.stderr, place.run(&["show", "r1"]).expect(0).stdout);
    for words in [
        "1 answer is awaited, until ",
        "0 attempts that ended and 1 whose answer is awaited",
        "redrive stuck r1",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    assert!(!told.contains("retry due") && !told.contains("retries"), "{told}");
    let waits = place.start(&["run", "p.toml", "--json"]);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let item = only_item(&server);
    assert_eq!(answer(&daemon, &item)["fate"], "taken");
    let report = waits.finish().expect(0).json();
    assert_eq!((&report["status"], count(&report["attempts"]["total"])), (&json!("completed"), 1));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_pipeline_file_says_wherein_it_is_wrong() {
    let place = Place::new();
    for (stage, message) in [
        ("kind = \"pass\"\ndefer = true", "answers at once"),
        ("kind = \"pass\"\nstuck_after = \"1h\"", "stuck_after"),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\nbody = \"webhook\"\ndefer = true",
            "nothing is asked of a webhook",
        ),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\ndefer = { poll = \"http://a.example/x\" }",
            "names no work",
        ),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\ndefer = { poll = \"http://{id}.example/x\" }",
            "the host cannot depend",
        ),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\ndefer = { poll = \"http://a.example/{name}/{id}\" }",
            "in braces",
        ),
        ("kind = \"http\"\nurl = \"http://a.example\"\ndefer = { every = \"5s\" }", "no poll to repeat"),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\ndefer = { poll = \"http://a.example/{id}\", every = \"1ms\" }",
            "shorter than 100ms",
        ),
        ("kind = \"http\"\nurl = \"http://a.example\"\ndefer = { pol = \"http://a.example/{id}\" }", "pol"),
        (
            "kind = \"http\"\nurl = \"http://a.example\"\ndefer = true\nstuck_after = \"0s\"",
            "must be above zero",
        ),
        (
            "kind = \"command\"\ncommand = [\"true\"]\ndefer = { poll = \"http://a.example/{id}\" }",
            "not asked for its answer",
        ),
        ("kind = \"event\"", "event"),
        ("kind = \"event\"\nevent = \"No Name\"", "no name of an event"),
        ("kind = \"event\"\nevent = \"a.b\"\ndefer = true", "answered later in any case"),
    ] {
        place.write("pipeline.toml", pipeline(stage));
        let said = place.run(&["run", "pipeline.toml", "--dry-run"]).expect(2).stderr;
        assert!(said.contains(message), "{stage}\n{said}");
    }
}

/// A daemon dies at this point while it takes answers; whoever brings them brings them again. `true` when it died.
pub fn taken_although_one_dies(point: &str) -> bool {
    let server = deferring();
    let place = place(&http(&server, "defer = true"));
    let outbound = ["--allow-outbound", "127.0.0.0/8", "--pipelines", "pipelines"];
    let dies = Daemon::start_with(&place, &outbound, &[("REDRIVE_CRASH_AT", point)]);
    hand_in(&dies, 3);
    until_awaited(&dies, 3);
    let items: Vec<Item> = server.calls().into_iter().flat_map(|call| call.items).collect();
    let bring = |daemon: &Daemon, item: &Item| {
        let (at, said) = (format!("/v1/answers/{}", item.token), json!({"output": output(item)}).to_string());
        daemon.bring(&at, &said)
    };
    let heard = items.iter().take_while(|item| bring(&dies, item)).count();
    let killed = heard < items.len() && dies.finish().killed_by() == Some(9);
    let daemon = serve(&place);
    for (n, item) in items.iter().enumerate() {
        let fate = text(&answer(&daemon, item)["fate"]);
        assert!(n != 2 || fate == "taken", "{point}: {fate}");
        assert!(
            n >= heard || fate == "late",
            "{point}: what was answered with 200 is kept, and {fate} was said"
        );
    }
    let report = daemon.until("/v1/runs/r1", |report| count(&report["counts"]["succeeded"]) == 3);
    assert_eq!((count(&report["attempts"]["total"]), server.count()), (3, 3), "{point}");
    daemon.stop().expect(0);
    place.check();
    killed
}
