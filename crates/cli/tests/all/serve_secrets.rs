//! A planted secret is never seen again: not in what the daemon answers or logs, not in the store, not in exports.

use serde_json::json;

use crate::support::server::{failed, passed};
use crate::support::{Answer, Daemon, Place, Server, array, one_stage, quick_retry, text};

/// Does not look like any known kind of key, so that only knowing it helps.
pub const CANARY: &str = "walnut-copper-drizzle-5530";
pub const VARIABLE: &str = "SERVICE_KEY";

/// Looks for the secret, and for a good part of it, in some bytes.
pub fn search(what: &str, bytes: &[u8]) {
    for part in [CANARY, &CANARY[..18]] {
        let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
        assert!(!found, "{what} shows the secret");
    }
}

/// A service that repeats what it is told by in every part of an answer.
pub fn echoing() -> Server {
    Server::start(|call| {
        let sent = call.headers.get("authorization").cloned().unwrap_or_default();
        assert_eq!(sent, format!("Bearer {CANARY}"), "the service gets it");
        let echo = format!("you sent {sent} ({CANARY})");
        let item = call.item();
        match item.key.as_str() {
            "status" => Answer::status(422, &echo),
            "server" => Answer::status(500, &echo.repeat(200)),
            "broken" => Answer::status(200, &echo),
            "told" => Answer::results(&[failed(item, "final", &echo)]),
            "filtered" => Answer::results(&[json!({"id": item.id, "filtered": echo})]),
            "redirect" => {
                Answer::Http(302, vec![("Location", format!("http://127.0.0.1:1/?t={CANARY}"))], echo)
            }
            "throttled" if item.before == 0 => Answer::Http(429, vec![("Retry-After", "0".to_owned())], echo),
            _ => Answer::results(&[passed(item)]),
        }
    })
}

const KEYS: [&str; 8] = ["status", "server", "broken", "told", "filtered", "redirect", "throttled", "fine"];

#[test]
fn a_secret_of_a_stage_is_kept_out_of_answers_logs_rows_and_exports() {
    let server = echoing();
    let place = Place::new();
    let bearer = format!("Bearer {CANARY}");
    let variables = [(VARIABLE, bearer.as_str()), ("REDRIVE_LOG", "trace")];
    let daemon = Daemon::start_with(&place, &["--allow-outbound", server.address()], &variables);
    let stage =
        format!("{}\nheader_env = {{ Authorization = \"{VARIABLE}\" }}\n{}", server.stage(), quick_retry(2));
    let items: Vec<_> = KEYS.iter().map(|key| json!({"key": key, "payload": {"n": 1}})).collect();
    daemon.post("/v1/runs", &json!({"pipeline": one_stage(&stage), "items": items})).expect(201);
    daemon
        .until("/v1/runs/r1", |report| report["status"] == "partial_success" || report["status"] == "failed");
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if methods.get("get").is_none() || path == "/v1/events" {
            continue;
        }
        for key in KEYS {
            let path = path.replace("{run}", "r1").replace("{item}", key).replace("{operation}", "op1");
            let reply = daemon.get(&path.replace("{policy}", "sample"));
            search(&path, format!("{:?}{}", reply.headers, reply.body).as_bytes());
            asked += usize::from(reply.status == 200);
        }
    }
    assert!(asked > 100, "{asked} answers");
    let dead = daemon.get("/v1/dead").expect(200).json();
    assert!(
        text(&array(&dead["items"])[0]["message"]).contains("[redacted]"),
        "it would be in a message: {dead}"
    );
    let stopped = daemon.stop().expect(0);
    search("standard output", stopped.stdout.as_bytes());
    search("the log", stopped.stderr.as_bytes());
    assert!(stopped.stderr.contains("told"), "there is a log: {}", stopped.stderr);
    for args in
        [&["dead", "export"][..], &["results", "r1"], &["backup", "copy.db"], &["failures"], &["schema"]]
    {
        let ran = place.run(args).expect(0);
        search(&args.join(" "), format!("{}{}", ran.stdout, ran.stderr).as_bytes());
    }
    let mut files = vec![place.path("copy.db")];
    files.extend(
        std::fs::read_dir(place.path(".redrive")).expect("there").map(|file| file.expect("listed").path()),
    );
    assert!(files.len() >= 2, "the store and its copy are there: {files:?}");
    for file in files {
        search(&file.display().to_string(), &std::fs::read(&file).expect("read"));
    }
}
