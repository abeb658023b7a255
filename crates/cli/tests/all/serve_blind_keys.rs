//! Whoever contents are kept from hands in new keys only: nothing is replaced, and no answer tells whether a guess is right.

use serde_json::{Value, json};

use crate::support::server::failed;
use crate::support::{Answer, Daemon, Place, Server, array, text};

fn world() -> (Server, Place) {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no good")).collect::<Vec<_>>())
    });
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let head = "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n";
    place.write("pipelines/box.toml", format!("{head}[[stage]]\nname = \"work\"\n{}\n", server.stage()));
    (server, place)
}

/// What is told of one item that is handed in, by either door, but for its key.
fn told(daemon: &Daemon, token: &str, door: &str, payload: &Value) -> Value {
    let items = json!([{"payload": payload}]);
    let body = match door {
        "/v1/runs" => json!({"pipeline": "box", "items": items}),
        _ => json!({"items": items}),
    };
    let reply = daemon.post_as(token, door, &body).json();
    let mut one = array(&reply["items"])[0].clone();
    one.as_object_mut().expect("an object").remove("key");
    one
}

#[test]
fn a_key_that_is_there_is_refused_with_one_answer_whatever_the_content_is() {
    let (_server, place) = world();
    let blind =
        place.run(&["token", "create", "bo", "--role", "operator", "--hide-payloads"]).expect(0).stdout;
    let sees = place.run(&["token", "create", "sy", "--role", "operator"]).expect(0).stdout;
    let (blind, sees) = (blind.trim(), sees.trim());
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let doors = ["/v1/pipelines/box/items", "/v1/runs"];
    let secret = json!({"id": "a", "salary": 4711});
    let first = told(&daemon, sees, doors[0], &secret);
    assert_eq!(first["outcome"], "admitted");
    let (run, id) = (text(&first["run"]), text(&first["id"]));
    daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["dead"] == 1);
    for door in doors {
        let answers = [&secret, &json!({"id": "a", "salary": 1}), &json!({"id": "a"})]
            .map(|payload| told(&daemon, blind, door, payload));
        assert_eq!((&answers[0]["outcome"], &answers[0]["id"]), (&json!("refused"), &Value::Null));
        assert!(text(&answers[0]["reason"]).contains("new keys only"), "{door}: {}", answers[0]);
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{door}: {answers:?}");
        let new = told(&daemon, blind, door, &json!({"id": format!("new at {door}")}));
        assert_eq!(new["outcome"], "admitted", "{door}");
    }
    // What was there is as it was, and whoever sees contents replaces it.
    let item = daemon.get(&format!("/v1/items/{id}")).expect(200).json();
    assert_eq!(item["state"], "dead", "{item}");
    for door in doors {
        assert_eq!(told(&daemon, sees, door, &secret)["outcome"], "known", "{door}");
    }
    assert_eq!(told(&daemon, sees, doors[0], &json!({"id": "a", "salary": 1}))["outcome"], "changed");
    daemon.stop().expect(0);
    place.check();
}
