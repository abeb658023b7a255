//! `redrive serve`: work is handed over HTTP, worked on, and told.

use serde_json::{Value, json};

use crate::support::server::{failed, passed};
use crate::support::{
    Answer, Daemon, Place, Server, array, count, keys, names, one_stage, quick_retry, results, samples, text,
    wait,
};

/// A place with a folder of pipelines.
fn place(pipelines: &[(&str, &str)]) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    pipelines.iter().for_each(|(name, text)| place.write(&format!("pipelines/{name}.toml"), text));
    place
}

fn inbox(server: &Server) -> String {
    format!(
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\n{}\n{}",
        server.stage(),
        quick_retry(2)
    )
}

fn until_ended(daemon: &Daemon, run: &str) -> Value {
    daemon.until(&format!("/v1/runs/{run}"), |report| !report["finished_at"].is_null())
}

#[test]
fn a_run_that_is_sent_is_worked_on_and_its_results_are_streamed() {
    let server = Server::good();
    let place = place(&[("lines", &one_stage(&server.stage()))]);
    place.write("pipelines/in.jsonl", samples(30));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let begun =
        daemon.post("/v1/runs", &json!({"pipeline": "test", "category": "night", "priority": 3})).expect(201);
    let run = text(&begun.json()["run"]);
    assert_eq!(begun.headers["location"], format!("/v1/runs/{run}"));
    let report = until_ended(&daemon, &run);
    assert_eq!((&report["status"], count(&report["counts"]["succeeded"])), (&json!("completed"), 30));
    assert_eq!((&report["category"], &report["priority"]), (&json!("night"), &json!(3)));
    let streamed = daemon.get(&format!("/v1/runs/{run}/results")).expect(200);
    assert_eq!(streamed.headers["content-type"], "application/jsonl");
    assert_eq!(results(&streamed.body).into_keys().collect::<std::collections::BTreeSet<_>>(), keys(30));
    // The same again goes on with the same run; another input is another run.
    place.write("pipelines/other.jsonl", samples(3));
    let other =
        daemon.post("/v1/runs", &json!({"pipeline": "test", "input": "other.jsonl"})).expect(201).json();
    assert_ne!(text(&other["run"]), run);
    until_ended(&daemon, &text(&other["run"]));
    let page = daemon.get("/v1/runs?limit=1&status=completed").json();
    assert_eq!(page["items"][0]["run"], other["run"]);
    let next = daemon.get(&format!("/v1/runs?limit=1&after={}", text(&page["next"]))).json();
    assert_eq!((&next["items"][0]["run"], &next["next"]), (&json!(run), &Value::Null));
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn items_are_sent_with_a_run_and_end_with_it() {
    let server = Server::good();
    let place = place(&[]);
    let daemon = Daemon::start(&place, &[]);
    let pipeline = one_stage(&server.stage());
    let items = json!([{"key": "a", "payload": {"n": 1}}, {"key": "b", "payload": {"n": 2}}]);
    let begun = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201).json();
    let report = until_ended(&daemon, &text(&begun["run"]));
    assert_eq!((&report["status"], count(&report["counts"]["succeeded"])), (&json!("completed"), 2));
    let both = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items, "input": "x"}));
    both.expect(400);
    let none = daemon.post("/v1/runs", &json!({"pipeline": "nothing", "items": items})).expect(404).json();
    assert_eq!(none["code"], "pipeline_not_found");
    let wrong = daemon.post("/v1/runs", &json!({"pipeline": "name = \"x\"\n[[stage]]\n"})).expect(422).json();
    assert_eq!((&wrong["code"], wrong["problems"].is_array()), (&json!("invalid_pipeline"), true));
    let command = "name = \"x\"\n[[stage]]\nname = \"a\"\nkind = \"command\"\ncommand = [\"cat\"]\n";
    let refused = daemon.post("/v1/runs", &json!({"pipeline": command, "items": items})).expect(403).json();
    assert!(text(&refused["detail"]).contains("may not start its `command`"), "{refused}");
    daemon.stop().expect(0);
}

#[test]
fn an_item_that_is_handed_in_twice_is_there_once() {
    let server = Server::good();
    let place = place(&[("box", &inbox(&server))]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let items = json!({"items": [
        {"payload": {"id": "a", "n": 1}}, {"payload": {"id": "b", "n": 2}}, {"payload": {"n": 3}}, {"key": "c", "payload": {"n": 4}},
    ]});
    let first = daemon.post("/v1/pipelines/box/items", &items).expect(200).json();
    let fates = |answer: &Value| -> Vec<String> {
        array(&answer["items"]).iter().map(|item| text(&item["outcome"])).collect()
    };
    assert_eq!(fates(&first), ["admitted", "admitted", "refused", "admitted"]);
    for wrong in [json!([]), json!([[null, 1]]), json!([{"payload": 1, "colour": 2}]), json!([{"key": "a"}])]
    {
        daemon.post("/v1/pipelines/box/items", &json!({"items": wrong})).expect(400);
    }
    let again = daemon.post("/v1/pipelines/box/items", &items).expect(200).json();
    assert_eq!(fates(&again), ["known", "known", "refused", "known"]);
    let run = text(&first["runs"][0]["run"]);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["succeeded"] == 3);
    assert_eq!(server.count(), 3);
    daemon.post(&format!("/v1/runs/{run}/close"), &json!({})).expect(200);
    assert_eq!(until_ended(&daemon, &run)["status"], "completed");
    let listed = daemon.get(&format!("/v1/runs/{run}/items?state=succeeded&limit=2")).expect(200).json();
    assert_eq!((array(&listed["items"]).len(), listed["next"].is_string()), (2, true));
    let next = format!("/v1/runs/{run}/items?state=succeeded&after={}", text(&listed["next"]));
    assert_eq!(array(&daemon.get(&next).expect(200).json()["items"]).len(), 1);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_stop_costs_no_attempt_and_the_next_daemon_goes_on() {
    let server = Server::good();
    let place = place(&[("box", &inbox(&server))]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    server.hold();
    let items: Vec<Value> = (0..40).map(|n| json!({"payload": {"id": format!("k{n}"), "n": n}})).collect();
    daemon.post("/v1/pipelines/box/items", &json!({"items": items})).expect(200);
    server.until_open(4);
    let mut following = std::net::TcpStream::connect(daemon.address()).expect("it listens");
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        daemon.address(),
        crate::support::daemon::TOKEN
    );
    std::io::Write::write_all(&mut following, head.as_bytes()).expect("sent");
    let mut daemon = daemon;
    daemon.process().signal("TERM");
    daemon.process().until_said("stopping");
    server.release();
    daemon.finish().expect(0);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut following, &mut told).expect("it ends with the daemon");
    assert!(told.contains("event: changed") && told.contains("\"runs\""), "{told}");
    assert!(told.to_lowercase().contains("x-accel-buffering: no"), "{told}");
    let next = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let report = next.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == 40);
    assert_eq!((count(&report["attempts"]["total"]), count(&report["attempts"]["crashes"])), (40, 0));
    assert_eq!(server.count(), 40);
    next.stop().expect(0);
}

#[test]
fn pipelines_of_the_folder_are_taken_over_when_they_are_right() {
    let server = Server::good();
    let place = place(&[("box", &inbox(&server)), ("broken", "name = \"broken\"\n")]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let file = |list: &Value, name: &str| {
        array(&list["items"]).iter().find(|view| view["file"] == name).cloned().unwrap_or_default()
    };
    let list = daemon.get("/v1/pipelines").expect(200).json();
    assert_eq!(
        (&file(&list, "box.toml")["name"], &file(&list, "box.toml")["problem"]),
        (&json!("box"), &Value::Null)
    );
    assert_eq!(file(&list, "broken.toml")["problem"]["code"], "invalid_pipeline");
    assert_eq!(daemon.get("/readyz").expect(200).json()["pipelines"], false);
    let unknown =
        daemon.post("/v1/pipelines/broken/items", &json!({"items": [{"payload": 1}]})).expect(404).json();
    assert!(text(&unknown["hint"]).contains("broken.toml (line 1: "), "{unknown}");
    place.write("pipelines/box.toml", "name = \"box\"\nsorce = 1\n");
    let list = daemon.until("/v1/pipelines", |list| !file(list, "box.toml")["problem"].is_null());
    assert_eq!(file(&list, "box.toml")["name"], "box", "the version before is in force");
    let item = json!({"items": [{"payload": {"id": "a", "n": 1}}]});
    daemon.post("/v1/pipelines/box/items", &item).expect(200);
    place.write("pipelines/new.toml", inbox(&server).replace("\"box\"", "\"fresh\""));
    daemon.until("/v1/pipelines", |list| file(list, "new.toml")["name"] == "fresh");
    daemon.post("/v1/pipelines/fresh/items", &item).expect(200);
    std::fs::remove_file(place.path("pipelines/new.toml")).expect("removed");
    daemon.until("/v1/pipelines", |list| array(&list["items"]).len() == 2);
    daemon.post("/v1/pipelines/fresh/items", &item).expect(404);
    place.write("pipelines/box.toml", inbox(&server));
    daemon.until("/v1/pipelines", |list| file(list, "box.toml")["problem"].is_null());
    let told = daemon.stop().expect(0).stderr;
    assert!(told.contains("pipeline is right again"), "whoever was warned is told that it is over: {told}");
}

#[test]
fn a_file_that_its_standing_run_cannot_take_over_is_told() {
    let server = Server::good();
    let place = place(&[("box", &inbox(&server))]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let item = |key: &str| json!({"items": [{"payload": {"id": key, "n": 1}}]});
    daemon.post("/v1/pipelines/box/items", &item("a")).expect(200);
    assert_eq!(daemon.get("/readyz").expect(200).json()["pipelines"], true);
    place.write("pipelines/box.toml", inbox(&server).replace("\"work\"", "\"labour\""));
    let list = daemon.until("/v1/pipelines", |list| !list["items"][0]["problem"].is_null());
    let problem = &list["items"][0]["problem"];
    assert!(text(&problem["message"]).contains("other stages"), "{problem}");
    assert_eq!(daemon.get("/readyz").expect(200).json()["pipelines"], false);
    daemon.post("/v1/pipelines/box/items", &item("b")).expect(409);
    let told = |place: &Place| place.run(&["pipelines"]).expect(0).stdout;
    wait::until("the store knows it", || told(&place).contains("box takes nothing: run r1"));
    assert!(text(&place.json(&["pipelines"])["pipelines"][0]["problem"]).contains("other stages"));
    // It is over when the run takes nothing more.
    daemon.post("/v1/runs/r1/close", &json!({})).expect(200);
    daemon.until("/v1/pipelines", |list| list["items"][0]["problem"].is_null());
    assert!(!told(&place).contains("takes nothing"), "{}", told(&place));
    daemon.post("/v1/pipelines/box/items", &item("b")).expect(200);
    let said = daemon.stop().expect(0).stderr;
    assert_eq!(said.matches("pipeline refused").count(), 1, "it is logged once: {said}");
    place.check();
}

#[test]
fn an_operator_acts_on_runs_groups_and_gates() {
    let server = Server::start(|call| {
        let answers = call.items.iter().map(|item| match item.key.as_str() {
            "k0001" => failed(item, "final", "no good"),
            _ => passed(item),
        });
        Answer::results(&answers.collect::<Vec<_>>())
    });
    let place = place(&[("lines", &one_stage(&server.stage()))]);
    place.write("pipelines/in.jsonl", samples(3));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    daemon.post("/v1/runs", &json!({"pipeline": "test"})).expect(201);
    until_ended(&daemon, "r1");
    let groups = daemon.get("/v1/dead/groups").expect(200).json();
    let group = text(&groups["items"][0]["group"]);
    let noted = daemon
        .post(&format!("/v1/dead/groups/{group}/note"), &json!({"words": "known", "acknowledged": true}));
    assert_eq!((&noted.json()["note"], &noted.json()["by"]), (&json!("known"), &json!("admin")));
    let dead = daemon.get("/v1/dead?class=final&run=r1").expect(200).json();
    assert_eq!(array(&dead["items"]).len(), 1);
    let same = daemon.get("/v1/dead?item=k0001&sort=oldest").expect(200).json();
    assert_eq!(same["items"], dead["items"], "filters and orders are those of the command");
    let groups =
        |query: &str| daemon.get(&format!("/v1/dead/groups?{query}")).expect(200).json()["items"].clone();
    assert_eq!(array(&groups(&format!("group={group}&item=k0001"))).len(), 1);
    assert_eq!(array(&groups("open=true")).len(), 0, "it is acknowledged");
    let id = text(&dead["items"][0]["id"]);
    assert_eq!(daemon.get(&format!("/v1/dead/{id}")).expect(200).json()["item"]["key"], "k0001");
    assert_eq!(
        daemon.get(&format!("/v1/items/{id}/payload")).expect(200).json(),
        json!({"id": "k0001", "n": 1})
    );
    let gate = text(&daemon.get("/v1/gates").expect(200).json()["items"][0]["name"]);
    let paused =
        daemon.post(&format!("/v1/gates/{gate}/pause"), &json!({"why": "a look"})).expect(200).json();
    assert_eq!(paused["items"][0]["state"], "paused");
    let resumed = daemon.post(&format!("/v1/gates/{gate}/resume"), &json!({})).expect(200).json();
    assert_eq!(resumed["items"][0]["state"], "open");
    daemon.post("/v1/gates/nothing/reset", &json!({})).expect(404);
    daemon.post("/v1/runs/r1/cancel", &json!({})).expect(409);
    daemon.post("/v1/runs/r77/pause", &json!({})).expect(404);
    for path in
        ["overview", "stats", "failures", "stuck", "workers", "policies", "policies/sample", "operations"]
    {
        daemon.get(&format!("/v1/{path}")).expect(200);
    }
    daemon.get("/v1/policies/..%2Fpipelines%2Flines.toml").expect(404);
    let lint = daemon.get("/v1/policies/test/lint").expect(200).json();
    assert_eq!(lint["checked"], json!(["test"]), "a pipeline is called by its name: {lint}");
    let simulated = daemon.get("/v1/policies/test/simulate?failure_rate=0.5&items=10").expect(200).json();
    assert_eq!((&simulated["source"], &simulated["policies"][0]["stage"]), (&json!("test"), &json!("work")));
    assert_eq!(simulated["policies"][0]["outlook"]["items"], 10, "{simulated}");
    daemon.get("/v1/policies/test/simulate?failure_rate=2").expect(400);
    assert_eq!(daemon.get("/v1/workers").json()["items"][0]["alive"], true);
    let stages = daemon.get("/v1/runs/r1/results?stage=nothing").expect(404).json();
    assert!(text(&stages["hint"]).contains("work"), "{stages}");
    daemon.stop().expect(0);
    assert_eq!(names([group.as_str()]).len(), 1);
}

/// Follows events until what was told is as wanted.
fn follow(daemon: &Daemon, last: &str, wanted: impl Fn(&str) -> bool) -> String {
    followed(daemon, last, wanted).1
}

/// The same, and goes on to follow.
fn followed(daemon: &Daemon, last: &str, wanted: impl Fn(&str) -> bool) -> (std::net::TcpStream, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(daemon.address()).expect("it listens");
    let token = crate::support::daemon::TOKEN;
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nLast-Event-ID: {last}\r\n\r\n",
        daemon.address()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
    let (mut told, mut buffer) = (String::new(), [0; 4096]);
    while !wanted(&told) {
        let n = stream.read(&mut buffer).expect("it tells");
        assert_ne!(n, 0, "it ended: {told}");
        told.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    (stream, told)
}

#[test]
fn one_follower_too_many_is_told_to_come_later() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let told = |told: &str| told.contains("event: changed");
    let mut all: Vec<_> = (0..64).map(|_| followed(&daemon, "", told).0).collect();
    let refused = daemon.get("/v1/events").expect(503);
    assert_eq!((refused.headers["retry-after"].as_str(), &refused.json()["code"]), ("1", &json!("crowded")));
    daemon.get("/v1/runs").expect(200);
    all.pop();
    wait::until("there is room again", || {
        followed(&daemon, "", |told| told.contains("\r\n\r\n")).1.contains("200 OK")
    });
    daemon.stop().expect(0);
}

#[test]
fn whoever_follows_is_told_what_to_look_at_and_whoever_comes_back_what_changed_since() {
    let server = Server::good();
    let place = place(&[("box", &inbox(&server))]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let first = follow(&daemon, "of-another-process", |told| told.matches("event: changed").count() == 2);
    let last = |told: &str| {
        let mut ids = told.lines().rev().filter_map(|line| line.strip_prefix("id: "));
        ids.next().expect("a number").to_owned()
    };
    assert!(first.contains("\"changed\":[\"runs\",\"gates\",\"dead\",\"operations\"]"), "{first}");
    let item = json!({"items": [{"payload": {"id": "a", "n": 1}}]});
    daemon.post("/v1/pipelines/box/items", &item).expect(200);
    let since = follow(&daemon, &last(&first), |told| told.contains("event: changed"));
    let data = since.lines().find_map(|line| line.strip_prefix("data: ")).expect("what changed");
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert!(array(&data["changed"]).contains(&json!("runs")), "{data}");
    assert!(!array(&data["changed"]).contains(&json!("dead")), "{data}");
    daemon.stop().expect(0);
}
