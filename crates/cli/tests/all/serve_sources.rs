//! What the daemon reads for whom: whoever is no administrator has it read the folder of pipelines, and nothing beside it.

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, Reply, Server, names, one_stage, results, text};

/// A place with a folder of pipelines, a source in it and one beside it, and ways from the one to the other.
fn place(server: &Server) -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("pipelines/deep")).expect("made");
    std::fs::create_dir(place.path("private")).expect("made");
    place.write("pipelines/lines.toml", one_stage(&server.stage()));
    place.write("pipelines/deep/inside.jsonl", "{\"id\":\"inside\",\"n\":1}\n");
    place.write("private/outside.jsonl", "{\"id\":\"outside\",\"n\":1}\n");
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, place.path(at)).expect("linked");
    link("../private/outside.jsonl", "pipelines/file.jsonl");
    link("../private", "pipelines/folder");
    place
}

fn token(place: &Place, name: &str, role: &str) -> String {
    place.run(&["token", "create", name, "--role", role]).expect(0).stdout.trim().to_owned()
}

fn begin(daemon: &Daemon, token: &str, input: Value) -> Reply {
    daemon.post_as(token, "/v1/runs", &json!({"pipeline": "test", "input": input}))
}

/// The ways out of the folder, as whoever asks would write them.
fn outside(place: &Place) -> Vec<String> {
    let whole = place.path("private/outside.jsonl").display().to_string();
    let ways = [
        "../private/outside.jsonl",
        "deep/../../private/outside.jsonl",
        "./deep/.././../private/outside.jsonl",
        "file.jsonl",
        "folder/outside.jsonl",
    ];
    ways.into_iter().map(str::to_owned).chain([whole]).collect()
}

#[test]
fn an_operator_has_nothing_read_outside_the_folder_of_pipelines() {
    let server = Server::good();
    let place = place(&server);
    let operator = token(&place, "otto", "operator");
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let mut refused: Vec<Value> = outside(&place).into_iter().map(Value::from).collect();
    refused.extend([json!("/etc/passwd"), json!("/proc/self/environ"), json!("-"), json!("..")]);
    // One that is inside lets no other in.
    refused.push(json!(["deep/inside.jsonl", "../private/outside.jsonl"]));
    // What is not there is told as what is: whoever asks learns nothing about the machine.
    refused.extend([json!("../private/nothing.jsonl"), json!("/nowhere/at/all")]);
    let mut told = Vec::new();
    for input in refused {
        let reply = begin(&daemon, &operator, input.clone());
        assert_eq!(reply.status, 403, "{input}: {reply:?}");
        let problem = reply.json();
        assert_eq!(problem["code"], "forbidden", "{input}: {problem}");
        told.push(text(&problem["detail"]));
    }
    assert_eq!(names(&told).len(), 1, "all in the same words: {told:?}");
    assert_eq!(daemon.get("/v1/runs").expect(200).json()["items"], json!([]), "nothing was begun");
    let begun = begin(&daemon, &operator, json!("deep/inside.jsonl")).expect(201).json();
    let run = text(&begun["run"]);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["status"] == "completed");
    assert_eq!(server.times_called(), [("inside".to_owned(), 1)].into());
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_administrator_names_any_source() {
    let server = Server::good();
    let place = place(&server);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    for input in outside(&place) {
        let body = json!({"pipeline": "test", "input": input, "new": true});
        let begun = daemon.post_as(TOKEN, "/v1/runs", &body).expect(201).json();
        let run = text(&begun["run"]);
        daemon.until(&format!("/v1/runs/{run}"), |report| report["status"] == "completed");
        let found = results(&daemon.get(&format!("/v1/runs/{run}/results")).expect(200).body);
        assert_eq!(names(found.keys()), names(["outside"]), "{input}");
    }
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn without_a_folder_an_operator_has_nothing_read_at_all() {
    let server = Server::good();
    let place = place(&server);
    let operator = token(&place, "otto", "operator");
    let daemon = Daemon::start(&place, &[]);
    begin(&daemon, &operator, json!("pipelines/deep/inside.jsonl")).expect(404);
    let sent = |input: &str| json!({"pipeline": one_stage(&server.stage()), "input": input});
    for input in ["pipelines/deep/inside.jsonl", "private/outside.jsonl", "/etc/passwd"] {
        daemon.post_as(&operator, "/v1/runs", &sent(input)).expect(403);
    }
    assert_eq!(server.count(), 0);
    let begun = daemon.post("/v1/runs", &sent("private/outside.jsonl")).expect(201).json();
    let run = text(&begun["run"]);
    daemon.until(&format!("/v1/runs/{run}"), |report| report["status"] == "completed");
    daemon.stop().expect(0);
}
