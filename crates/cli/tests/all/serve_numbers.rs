//! Numbers in answers are those that JavaScript has: whole ones of at most 2^53 - 1. In requests they may be written as it writes them.

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::{Answer, Daemon, Place, Server, one_stage, text};

const MOST: f64 = 9_007_199_254_740_991.0;

/// Fails for a number that JavaScript would read as another one.
fn assert_numbers(what: &str, value: &Value) {
    match value {
        Value::Number(number) => {
            let fits = number.as_f64().is_some_and(|number| number.abs() <= MOST);
            assert!(fits, "{what} is {number}");
        }
        Value::Array(list) => list.iter().for_each(|below| assert_numbers(what, below)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, below)| assert_numbers(&format!("{what}.{name}"), below));
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A service that names the largest numbers it can wherever a number is looked at.
fn boasting() -> Server {
    Server::start(|call| {
        let (item, large) = (call.item(), u64::MAX.to_string());
        let usage = json!({"prompt_tokens": u64::MAX, "completion_tokens": 1e300, "usd": 1e300});
        let results = match (item.key.as_str(), item.before) {
            ("late", 0) => {
                json!([{"id": item.id, "error": {"class": "rate_limited", "message": "x", "retry_after_ms": u64::MAX}}])
            }
            ("dead", _) => {
                json!([{"id": item.id, "error": {"class": "final", "message": large, "status": u64::MAX}}])
            }
            _ => json!([{"id": item.id, "output": {"n": 1}}]),
        };
        let headers = [
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-limit-tokens",
            "x-ratelimit-remaining-tokens",
        ];
        let headers = headers.map(|name| (name, large.clone())).to_vec();
        Answer::Http(200, headers, json!({"results": results, "usage": usage}).to_string())
    })
}

#[test]
fn no_answer_has_a_number_that_javascript_does_not() {
    let server = boasting();
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let keys = [json!("fine"), json!("dead"), json!("late"), json!(i64::MAX), json!("other")];
    let items: Vec<Value> = keys.iter().map(|key| json!({"key": key, "payload": {"n": 1}})).collect();
    let pipeline = one_stage(&format!("{}\nconcurrency = 1\n", server.stage()));
    let run = json!({"pipeline": pipeline, "items": items, "priority": i32::MAX});
    let begun = daemon.post("/v1/runs", &run).expect(201).json();
    assert_numbers("begun", &begun);
    daemon.until("/v1/items/late", |item| item["throttles"] == 1);
    daemon.until("/v1/items/dead", |item| item["state"] == "dead");
    // A key that is a number is a text from then on, with all its digits.
    let item = daemon.get(&format!("/v1/items/{}", i64::MAX)).expect(200).json();
    assert_eq!(text(&item["key"]), i64::MAX.to_string());
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if methods.get("get").is_none() || path == "/v1/events" {
            continue;
        }
        for key in ["fine", "dead", "late"] {
            let path = path.replace("{run}", "r1").replace("{item}", key).replace("{policy}", "daemon");
            let reply = daemon.get(&path);
            let documents = reply.body.lines().filter_map(|line| serde_json::from_str(line).ok());
            documents.for_each(|document: Value| assert_numbers(&path, &document));
            asked += usize::from(reply.status == 200);
        }
    }
    assert!(asked > 50, "{asked} answers");
    for wrong in
        ["since=9007199254740992", "since=18446744073709551616", "since=1e3", "limit=9007199254740992"]
    {
        daemon.get(&format!("/v1/runs?{wrong}")).expect(400);
    }
    daemon.get("/v1/runs?since=9007199254740991").expect(200);
    // Ids are texts: a number that counts up without end is in none of the fields that name something.
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for (shape, schema) in schemas {
        for name in ["id", "run", "item", "operation", "group", "cursor", "next", "version", "key"] {
            let kind = schema["properties"][name]["type"].as_str();
            assert_ne!(kind, Some("integer"), "{name} of {shape}");
        }
    }
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_whole_number_of_a_request_may_be_written_with_a_fraction_of_nothing() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let pipeline = one_stage("kind = \"pass\"").replace('"', "\\\"").replace('\n', "\\n");
    let run = |priority: &str| {
        format!(
            r#"{{"pipeline": "{pipeline}", "items": [{{"payload": {{"id": "a"}}}}], "priority": {priority}}}"#
        )
    };
    for (path, body, wanted) in [
        ("/v1/work/claim", r#"{"max_items": 2.0, "wait_ms": 0.0, "lease_ms": 3e4}"#.to_owned(), [200, 200]),
        ("/v1/work/claim", r#"{"max_items": 2.5, "wait_ms": 0}"#.to_owned(), [400, 400]),
        ("/v1/work/claim", r#"{"wait_ms": -1.0}"#.to_owned(), [400, 400]),
        ("/v1/work/claim", r#"{"wait_ms": 1e300}"#.to_owned(), [400, 400]),
        ("/v1/runs", run("-3.0"), [200, 201]),
        ("/v1/runs", run("2147483648.0"), [400, 400]),
        ("/v1/operations", r#"{"kind": "redrive", "all": true, "limit": 2.0}"#.to_owned(), [200, 201]),
        ("/v1/operations", r#"{"kind": "redrive", "all": true, "limit": 0.5}"#.to_owned(), [400, 400]),
        (
            "/v1/operations",
            r#"{"kind": "purge", "filter": {"within_ms": 1000.0}, "undo_ms": 0.0}"#.to_owned(),
            [200, 201],
        ),
    ] {
        let reply = daemon.ask("POST", path, &headers, &body);
        assert!(wanted.contains(&reply.status), "{path} {body}: {reply:?}");
    }
    daemon.stop().expect(0);
}
