//! A planted token is never seen again: not on the screen, not in the logs, not in the store, not in exports.

use crate::support::server::passed;
use crate::support::{Answer, Names, Place, Ran, Server, keys, names, one_stage, quick_retry, samples};

/// Does not look like any known kind of key, so that only knowing it helps.
const CANARY: &str = "zebra-quartz-lantern-9417";

/// Looks for the token, and for a good part of it, in some bytes.
fn search(what: &str, bytes: &[u8]) {
    for part in [CANARY, &CANARY[..18]] {
        let found = bytes.windows(part.len()).position(|window| window == part.as_bytes());
        assert_eq!(found, None, "{what} shows the token");
    }
}

fn search_all(place: &Place, outputs: &[Ran]) {
    for ran in outputs {
        search("standard output", ran.stdout.as_bytes());
        search("standard error", ran.stderr.as_bytes());
    }
    let mut files = vec![place.path("out.jsonl"), place.path("dead.jsonl")];
    files.extend(
        std::fs::read_dir(place.path(".redrive")).expect("listed").map(|entry| entry.expect("listed").path()),
    );
    assert!(files.len() > 2, "the store is there");
    for file in files {
        search(&file.display().to_string(), &std::fs::read(&file).unwrap_or_default());
    }
}

fn look_everywhere(place: &Place) -> Vec<Ran> {
    let mut outputs = Vec::new();
    for args in [
        &["show", "--json"][..],
        &["explain", "k0001", "--json"],
        &["explain", "k0001"],
        &["failures", "--json"],
        &["failures"],
        &["stats", "--json"],
        &["dead", "list", "--json"],
        &["dead", "list"],
        &["dead", "groups", "--json"],
        &["dead", "show", "k0001"],
        &["dead", "export", "-o", "dead.jsonl"],
        &["dead", "export"],
        &["doctor", "p.toml"],
        &["check", "--json"],
    ] {
        outputs.push(place.run_with(args, &[("REDRIVE_LOG", "trace")]));
    }
    outputs
}

const RUN: [&str; 5] = ["run", "p.toml", "--results", "out.jsonl", "--json"];

#[test]
fn a_token_in_a_header_is_kept_out_of_everything_that_a_service_echoes() {
    let bearer = format!("Bearer {CANARY}");
    let expected = bearer.clone();
    let server = Server::start(move |call| {
        let sent = call.headers.get("authorization").cloned().unwrap_or_default();
        assert_eq!(sent, expected, "the service gets it");
        let echo = format!("you sent {sent} ({CANARY})");
        match call.item().key.as_str() {
            "k0001" => Answer::status(422, &echo),
            "k0002" => Answer::status(500, &echo.repeat(500)),
            "k0003" => Answer::status(200, &echo),
            "k0004" => Answer::status(200, &format!("<html>{echo}")),
            "k0005" => Answer::results(&[crate::support::server::failed(call.item(), "final", &echo)]),
            "k0006" => Answer::results(&[serde_json::json!({ "id": call.item().id, "filtered": echo })]),
            "k0007" => Answer::results(&[serde_json::json!({ "id": CANARY, "output": echo })]),
            "k0008" => {
                Answer::Http(302, vec![("Location", format!("http://127.0.0.1:1/?token={CANARY}"))], echo)
            }
            "k0009" => Answer::Http(429, vec![("Retry-After-Ms", "50".to_owned())], echo),
            _ => Answer::results(&[passed(call.item())]),
        }
    });
    let stage = format!(
        "{}\nheader_env = {{ Authorization = \"SERVICE_TOKEN\" }}\ntimeout = \"20s\"\n{}",
        server.stage(),
        quick_retry(2)
    );
    // A throttle without end would keep the run going; its deadline ends it.
    let pipeline = format!("deadline = \"3s\"\n{}", one_stage(&stage));
    let mut place = Place::with(&pipeline, &samples(12));
    place.set("SERVICE_TOKEN", &bearer);
    place.set("REDRIVE_LOG", "trace");
    let mut outputs = vec![place.run(&RUN).expect(4)];
    assert_eq!(place.result_keys(), names(["k0000", "k0010", "k0011"]));
    let dead: Names = ["k0001", "k0002", "k0003", "k0004", "k0005", "k0007", "k0008", "k0009"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(place.dead_keys(), dead);
    outputs.extend(look_everywhere(&place));
    search_all(&place, &outputs);
    assert!(outputs.iter().any(|ran| ran.stdout.contains("[redacted]")), "something was there to be removed");
    place.check();
}

/// A model service that echoes the key it was sent in every way it can.
fn echoing(call: &crate::support::Call) -> Answer {
    let sent = call.headers.get("authorization").cloned().unwrap_or_default();
    assert_eq!(sent, format!("Bearer {CANARY}"), "the service gets it");
    let error = |code: &str| {
        let message = format!("Incorrect key {CANARY} in {sent}");
        serde_json::json!({ "error": { "message": message, "type": CANARY, "code": code } }).to_string()
    };
    let vector = serde_json::json!({ "data": [{ "index": 0, "embedding": [0.6, 0.8] }], "model": CANARY });
    let chosen =
        serde_json::json!({ "choices": [{ "message": { "content": "fine" }, "finish_reason": "stop" }] });
    match call.item().key.rsplit(' ').next().unwrap_or_default() {
        "k0001" => Answer::status(400, &error("invalid_value")),
        "k0002" => Answer::status(500, &error(CANARY)),
        "k0003" => Answer::status(200, &error("server_error")),
        "k0004" => Answer::status(200, &format!("<html>{sent}")),
        "k0005" => Answer::status(413, &error("context_length_exceeded")),
        "k0006" if call.item().before == 0 => {
            Answer::Http(429, vec![("Retry-After-Ms", "20".to_owned())], error("rate_limit_exceeded"))
        }
        // What failed before is tried again before the gate is paused.
        "k0008" => {
            crate::support::wait::work(std::time::Duration::from_millis(200));
            Answer::status(
                200,
                &if call.item().payload["messages"].is_array() { chosen } else { vector }.to_string(),
            )
        }
        "k0057" => Answer::status(401, &error("invalid_api_key")),
        "k0058" => Answer::status(429, &error("insufficient_quota")),
        _ if call.item().payload["messages"].is_array() => Answer::status(200, &chosen.to_string()),
        _ => Answer::status(200, &vector.to_string()),
    }
}

#[test]
fn a_model_s_key_is_kept_out_of_everything_that_its_service_echoes() {
    for kind in ["kind = \"embed\"\nbatch = 1", "kind = \"chat\"\nprompt = \"{/text}\""] {
        let server = Server::start(echoing);
        let stage = format!(
            "{kind}\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\napi_key_env = \"MODEL_KEY\"\nconcurrency = 1\n{}",
            server.address(),
            quick_retry(2)
        );
        let mut place = Place::with(&one_stage(&stage), &crate::support::texts(60));
        place.set("MODEL_KEY", CANARY);
        place.set("REDRIVE_LOG", "trace");
        let run: Vec<&str> = RUN.into_iter().chain(["--log-format", "json"]).collect();
        // The key is refused, so that the gate keeps the service's words too.
        let mut outputs = vec![place.run(&run).expect(5)];
        let gates = place.run(&["gates", "--json"]).expect(0);
        assert!(gates.stdout.contains("credit is exhausted"), "{}", gates.stdout);
        outputs.extend([gates, place.run(&["gates"]), place.run(&["explain", "k0057", "--json"])]);
        assert_eq!(place.dead_keys(), names(["k0001", "k0002", "k0003", "k0004", "k0005"]));
        outputs.extend(look_everywhere(&place));
        search_all(&place, &outputs);
        assert!(
            outputs.iter().any(|ran| ran.stdout.contains("[redacted]")),
            "something was there to be removed"
        );
        place.check();
    }
}

#[test]
fn a_token_in_a_child_s_environment_is_kept_out_of_everything_it_says() {
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nenv = [\"SERVICE_TOKEN\"]\nconcurrency = 2\nretry.crash_limit = 2\n{}",
        quick_retry(2)
    );
    let mut place = Place::with(&one_stage(&stage), &samples(6));
    place.write(
        "work.py",
        r#"
import json, os, sys
token = os.environ["SERVICE_TOKEN"]
assert "REDRIVE_LOG" not in os.environ
for line in sys.stdin:
    item = json.loads(line)["items"][0]
    sys.stderr.write("using " + token + "\n")
    sys.stderr.flush()
    if item["key"] == "k0001":
        print("garbage with " + token, flush=True)
    elif item["key"] == "k0002":
        sys.exit(9)
    elif item["key"] == "k0003":
        print(json.dumps({"results": [{"id": item["id"], "error": {"class": "final", "message": "no " + token}}]}), flush=True)
    else:
        print(json.dumps({"results": [{"id": item["id"], "output": item["payload"]}]}), flush=True)
"#,
    );
    place.set("SERVICE_TOKEN", CANARY);
    place.set("REDRIVE_LOG", "trace");
    let mut outputs = vec![place.run(&RUN).expect(3)];
    let dead = names(["k0001", "k0002", "k0003"]);
    assert_eq!(place.dead_keys(), dead);
    assert_eq!(place.result_keys(), &keys(6) - &dead);
    outputs.extend(look_everywhere(&place));
    search_all(&place, &outputs);
    assert!(
        outputs.iter().any(|ran| ran.stdout.contains("using [redacted]")),
        "its last words are kept, without the token"
    );
    place.check();
}

#[test]
fn what_looks_like_a_key_is_removed_even_if_nobody_knows_it() {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0001" => Answer::status(401, &format!("Incorrect API key provided: sk-proj-{CANARY}")),
        "k0002" => Answer::status(422, &format!("https://api.test/v1?api_key={CANARY}&x=1")),
        "k0003" => Answer::status(422, &format!("{{\"password\": \"{CANARY}\"}}")),
        _ => Answer::all(call),
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(1));
    let mut place = Place::with(&one_stage(&stage), &samples(5));
    place.set("REDRIVE_LOG", "trace");
    let mut outputs = vec![place.run(&RUN).expect(4)];
    assert_eq!(place.dead_keys(), names(["k0001", "k0002", "k0003"]));
    outputs.extend(look_everywhere(&place));
    search_all(&place, &outputs);
    place.check();
}
