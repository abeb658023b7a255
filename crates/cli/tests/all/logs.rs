//! What is logged: a run's life at level info, an item's at debug, nothing of items unless it is asked for.

use serde_json::{Value, json};

use crate::support::server::{failed, passed};
use crate::support::{Answer, Place, Ran, Server, one_stage, quick_retry};

/// One item of each kind: passes, is flaky, is worn out, is refused. The message of a failure holds a secret.
fn place(server: &Server) -> Place {
    let stage = format!("{}\nconcurrency = 1\nbatch = 1\n{}", server.stage(), quick_retry(2));
    Place::with(
        &one_stage(&stage),
        "{\"id\":\"good\",\"text\":\"private words\"}\n{\"id\":\"flaky\"}\n{\"id\":\"worn\"}\n{\"id\":\"bad\"}\n",
    )
}

fn server() -> Server {
    Server::start(|call| {
        let answers = call.items.iter().map(|item| match (item.key.as_str(), item.before) {
            ("good", _) | ("flaky", 1..) => passed(item),
            ("bad", _) => failed(item, "final", "no good: api_key=sk-abcdefghijklmnopqrstuvwx"),
            _ => failed(item, "retryable", "again"),
        });
        Answer::results(&answers.collect::<Vec<_>>())
    })
}

/// Every line of standard error, which are JSON objects.
fn lines(ran: &Ran) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    ran.stderr.lines().map(read).collect()
}

fn logged(place: &Place, level: &str, code: i32) -> Vec<Value> {
    let args = ["run", "p.toml", "--json", "--log-format", "json"];
    lines(&place.run_with(&args, &[("REDRIVE_LOG", level)]).expect(code))
}

/// The messages that are logged of an item, in order.
fn of_item<'a>(lines: &'a [Value], key: &str) -> Vec<&'a str> {
    let own = lines.iter().filter(|line| line["key"] == key && line["target"] == "redrive::item");
    own.filter_map(|line| line["message"].as_str()).collect()
}

fn find<'a>(lines: &'a [Value], key: &str, message: &str) -> &'a Value {
    let found = lines.iter().find(|line| {
        line["key"] == key && line["message"].as_str().is_some_and(|told| told.starts_with(message))
    });
    found.unwrap_or_else(|| panic!("{message} of {key} among {lines:#?}"))
}

#[test]
fn debug_tells_an_items_life_and_tells_retries_from_the_initial_attempt() {
    let server = server();
    let place = place(&server);
    let lines = logged(&place, "debug", 3);
    assert_eq!(of_item(&lines, "good"), ["claimed", "initial attempt started", "initial attempt ended"]);
    let again = ["claimed", "initial attempt started", "initial attempt ended", "retry scheduled"];
    let flaky = [&again[..], &["claimed", "retry started", "retry ended", "retry succeeded"]].concat();
    assert_eq!(of_item(&lines, "flaky"), flaky);
    let spent = "limit reached: attempts spent; the item is dead";
    let worn = [&again[..], &["claimed", "retry started", "retry ended", spent]].concat();
    assert_eq!(of_item(&lines, "worn"), worn);
    assert_eq!(of_item(&lines, "bad").last(), Some(&"dead"));
    let scheduled = find(&lines, "flaky", "retry scheduled");
    for (field, value) in [
        ("run", json!("r1")),
        ("stage", json!("work")),
        ("attempt", json!(1)),
        ("max_attempts", json!(2)),
        ("class", json!("retryable")),
        ("wait_ms", json!(20)),
        ("cause", json!("backoff")),
        ("level", json!("DEBUG")),
    ] {
        assert_eq!(scheduled[field], value, "{field} of {scheduled}");
    }
    let ended = find(&lines, "worn", "retry ended");
    assert_eq!((&ended["outcome"], &ended["why"]), (&json!("failed"), &json!("again")));
    assert!(ended["duration_ms"].is_i64(), "{ended}");
    let all = format!("{lines:?}");
    assert!(
        !all.contains("sk-abcdefghij") && !all.contains("private words"),
        "no secret and no content: {all}"
    );
}

#[test]
fn a_limit_that_is_reached_is_an_error_that_names_the_item() {
    let server = server();
    let place = place(&server);
    let lines = logged(&place, "error", 3);
    let of_items: Vec<&Value> = lines.iter().filter(|line| line["target"] == "redrive::item").collect();
    let [limit] = of_items[..] else { panic!("one limit is reached: {lines:#?}") };
    assert_eq!((&limit["level"], &limit["key"]), (&json!("ERROR"), &json!("worn")));
    assert_eq!((&limit["attempt"], &limit["max_attempts"]), (&json!(2), &json!(2)));
    assert!(limit["last_attempt_at"].is_string() && limit["item"].is_string(), "{limit}");
}

#[test]
fn info_tells_a_runs_life() {
    let server = server();
    let place = place(&server);
    let of_run = |lines: &[Value]| -> Vec<String> {
        let own = lines.iter().filter(|line| line["target"] == "redrive::run");
        own.filter_map(|line| Some(line["message"].as_str()?.to_owned())).collect()
    };
    let lines = logged(&place, "info", 3);
    assert_eq!(of_run(&lines), ["run started", "source read", "run ended"]);
    let read = lines.iter().find(|line| line["message"] == "source read").expect("there");
    assert_eq!(read["new"], 4, "{read}");
    let ended = lines.iter().find(|line| line["message"] == "run ended").expect("there");
    assert_eq!((&ended["succeeded"], &ended["dead"]), (&json!(2), &json!(2)), "{ended}");
    place.run(&["dead", "redrive", "--all"]).expect(0);
    let args = ["pause", "r1", "--log-format", "json"];
    let paused = self::lines(&place.run_with(&args, &[("REDRIVE_LOG", "info")]).expect(0));
    assert_eq!(of_run(&paused), ["run paused"]);
    let args = ["resume", "r1", "--log-format", "json"];
    let resumed = self::lines(&place.run_with(&args, &[("REDRIVE_LOG", "info")]).expect(3));
    let told = of_run(&resumed);
    assert_eq!(told[..2], ["run may go on", "run gone on with"], "{resumed:#?}");
    assert_eq!(told.last().map(String::as_str), Some("run ended"));
}

#[test]
fn a_gate_that_closes_and_opens_again_is_told_with_its_reason() {
    let server = Server::start(|call| match call.item().before {
        0 => Answer::Http(429, vec![("retry-after", "1".to_owned())], "slow down".to_owned()),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&server.stage()), "{\"id\":\"a\"}\n");
    let lines = logged(&place, "info", 0);
    let of_gate: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["target"] == "redrive::gate")
        .filter_map(|line| Some((line["message"].as_str()?, line["why"].as_str()?)))
        .collect();
    let [(closed, why), (opened, _)] = of_gate[..] else { panic!("closed and opened: {lines:#?}") };
    assert_eq!((closed, opened), ("gate closed", "gate opened again"));
    assert!(why.contains("asked to be left alone"), "{why}");
}

#[test]
fn a_failure_budget_that_is_spent_is_told_with_why_the_run_is_paused() {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no")).collect::<Vec<_>>())
    });
    let pipeline =
        one_stage(&server.stage()).replace("failure_budget = false", "failure_budget = { consecutive = 3 }");
    let source: String = (0..40).map(|n| format!("{{\"id\":\"k{n}\"}}\n")).collect();
    let place = Place::with(&pipeline, &source);
    let lines = logged(&place, "info", 5);
    let paused = lines.iter().find(|line| line["message"] == "run paused").expect("told");
    assert_eq!(paused["status"], "paused_budget");
    assert!(paused["why"].as_str().is_some_and(|why| why.contains("in a row")), "{paused}");
}

#[test]
fn nothing_is_logged_of_items_unless_it_is_asked_for() {
    let server = server();
    let place = place(&server);
    let told = place.run(&["run", "p.toml"]).expect(3).stderr;
    assert!(!told.contains("limit reached") && !told.contains("ERROR"), "{told}");
}

#[test]
fn everything_on_standard_error_is_json_where_that_is_asked_for() {
    let server = server();
    let place = place(&server);
    place.write("odd.toml", place.read("p.toml").replace("name = \"test\"", "name = \"odd\"\n[gate.nobody]"));
    for (args, code) in [
        (&["run", "p.toml"][..], 3),
        (&["run", "odd.toml"], 3),
        (&["show", "r99"], 2),
        (&["runs", "--nonsense"], 2),
        (&["dead", "redrive", "--all", "--dry-run"], 0),
        (&["dead", "redrive", "--all", "--work"], 3),
        (&["cancel", "r1"], 2),
    ] {
        let ran = place.run(&[args, &["--log-format", "json"]].concat()).expect(code);
        for line in lines(&ran) {
            assert!(line["timestamp"].is_string() && line["message"].is_string(), "{args:?}: {line}");
            assert!(
                ["ERROR", "WARN", "INFO"].contains(&line["level"].as_str().unwrap_or_default()),
                "{line}"
            );
        }
        assert!(!ran.stderr.is_empty(), "{args:?} has something to say");
    }
    let refused = lines(&place.run(&["show", "r99", "--log-format", "json"]).expect(2));
    assert_eq!((&refused[0]["code"], &refused[0]["level"]), (&json!("run_not_found"), &json!("ERROR")));
}
