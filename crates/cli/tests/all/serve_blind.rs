//! Whoever is not to see contents sees none of them, whatever is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::serve_table::SHOW_CONTENTS;
use crate::support::daemon::TOKEN;
use crate::support::server::{failed, passed};
use crate::support::{Answer, Daemon, Place, Server, array, text};

/// In every content, and nowhere else.
const CANARY: &str = "zanzibarwalrus5530";
/// Who asks for everything, in turn; what can be done once is there for each of them.
const ASKERS: usize = 2;

/// What there is to be asked for.
struct World {
    gate: String,
    group: String,
    /// Lines of an export, for each who asks.
    lines: Vec<Value>,
    /// Operations that can be started, and such that can be stopped.
    frozen: Vec<String>,
    open: Vec<String>,
    /// Runs that something is done to, by what and who.
    runs: BTreeMap<String, String>,
    /// Leases on work, one for each thing that can be said of it.
    leases: BTreeMap<&'static str, Value>,
    /// Tokens of answers that are awaited, two for each who asks.
    awaited: Vec<String>,
}

/// What came, with what a route has to be asked with to answer well.
struct Request {
    method: String,
    /// As in the table.
    route: String,
    path: String,
    body: Value,
}

fn service() -> Server {
    Server::start(|call| {
        let one = |item: &crate::support::server::Item| match item.key.get(..4) {
            Some("dead") => failed(item, "final", "no good"),
            Some("wait") => failed(item, "retryable", "not yet"),
            _ => {
                json!({"id": item.id, "output": passed(item)["output"].as_object().map(|_| item.payload.clone())})
            }
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    })
}

fn place(server: &Server) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/garden.md", format!("# The garden\n\nA {CANARY} sits in the garden.\n"));
    let head = |name: &str| {
        format!(
            "name = \"{name}\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\n"
        )
    };
    let retry = "retry.max_attempts = 2\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }";
    place.write("pipelines/box.toml", format!("{}{}\n{retry}\n", head("box"), server.stage()));
    place.write("pipelines/outside.toml", format!("{}kind = \"external\"\n", head("outside")));
    place.write("pipelines/later.toml", format!("{}kind = \"event\"\nevent = \"told\"\n", head("later")));
    place.run(&["index", "docs", "--processes", "1", "--quiet"]).expect(0);
    place
}

fn hand_in(daemon: &Daemon, pipeline: &str, keys: &[String], category: Option<&str>) -> Value {
    let items: Vec<Value> = keys.iter().map(|key| json!({"payload": {"id": key, "text": CANARY}})).collect();
    let body = json!({"items": items, "category": category});
    daemon.post(&format!("/v1/pipelines/{pipeline}/items"), &body).expect(200).json()
}

fn numbered(name: &str, many: usize) -> Vec<String> {
    (0..many).map(|n| format!("{name}{n}")).collect()
}

/// An operation that is written down, by its id.
fn written(daemon: &Daemon, body: &Value) -> String {
    text(&daemon.post("/v1/operations", body).expect(201).json()["operations"][0]["id"])
}

impl World {
    fn of(daemon: &Daemon) -> Self {
        let mut runs = BTreeMap::new();
        let keys = [numbered("dead", 8), numbered("wait", ASKERS), numbered("good", 3)].concat();
        let main = text(&hand_in(daemon, "box", &keys, None)["runs"][0]["run"]);
        daemon.until(&format!("/v1/runs/{main}"), |report| {
            let counts = &report["counts"];
            counts["dead"] == 8 && counts["succeeded"] == 3 && report["attempts"]["failures"] == 8 + ASKERS
        });
        runs.insert("main".to_owned(), main);
        for name in ["cancel", "close", "pause"].iter().flat_map(|act| numbered(act, ASKERS)) {
            let handed = hand_in(daemon, "box", &[format!("of-{name}")], Some(&name));
            runs.insert(name, text(&handed["runs"][0]["run"]));
        }
        hand_in(daemon, "outside", &numbered("work", 4), None);
        let lease = || {
            let ask = json!({"pipeline": "outside", "max_items": 1, "wait_ms": 30_000, "lease_ms": 600_000});
            daemon.post("/v1/work/claim", &ask).expect(200).json()
        };
        let leases = ["complete", "fail", "heartbeat"].into_iter().map(|act| (act, lease())).collect();
        let awaited = numbered("later", 2 * ASKERS);
        let later = text(&hand_in(daemon, "later", &awaited, None)["runs"][0]["run"]);
        daemon.until(&format!("/v1/runs/{later}"), |report| report["awaited"] == 2 * ASKERS);
        let token = |key: String| {
            text(
                &daemon.get(&format!("/v1/items/{key}/explain")).expect(200).json()["item"]["awaited"]["token"],
            )
        };
        let exported = daemon.get("/v1/dead/export").expect(200).body;
        let line = |key: String| {
            let mut lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            lines.find(|line| line["item"]["key"] == key).expect("exported")
        };
        let frozen = |key: &str| {
            written(daemon, &json!({"kind": "redrive", "filter": {"item": key}, "dry_run": true}))
        };
        let open = |key: &str| {
            written(daemon, &json!({"kind": "purge", "filter": {"item": key}, "undo_ms": 3_600_000}))
        };
        let gates = daemon.get("/v1/gates").expect(200).json();
        let gates = gates.get("items").or_else(|| gates.get("gates")).map(array).expect("a list");
        Self {
            gate: text(&gates[0]["name"]),
            group: text(&daemon.get("/v1/dead").expect(200).json()["items"][0]["group"]),
            lines: numbered("dead", ASKERS).into_iter().map(line).collect(),
            frozen: vec![frozen("dead2"), frozen("dead3")],
            open: vec![open("dead4"), open("dead5")],
            runs,
            leases,
            awaited: awaited.into_iter().map(token).collect(),
        }
    }

    /// How a route is asked so that it does what it is there for.
    fn request(&self, method: &str, route: &str, who: usize) -> Request {
        let act = route.rsplit('/').next().unwrap_or_default();
        let run = self.runs.get(&format!("{}{who}", if act == "resume" { "pause" } else { act }));
        let run = run.filter(|_| method == "POST").unwrap_or(&self.runs["main"]);
        let operation = if act == "stop" { &self.open[who] } else { &self.frozen[who] };
        let item = if act == "kill" { format!("wait{who}") } else { "dead7".to_owned() };
        let mut path = route.to_owned();
        for (name, value) in [
            ("{run}", run.as_str()),
            ("{operation}", operation),
            ("{item}", &item),
            ("{gate}", &self.gate),
            ("{group}", &self.group),
            ("{pipeline}", "box"),
            ("{policy}", "box"),
            ("{token}", &self.awaited[who]),
        ] {
            path = path.replace(name, value);
        }
        if route == "/v1/search" {
            path.push_str("?q=garden");
        }
        let lease = |act: &str| self.leases[act]["lease"].clone();
        let body = match route {
            "/v1/answers/{token}" => json!({"output": {}}),
            "/v1/answers" => {
                json!({"answers": [{"token": self.awaited[ASKERS + who], "result": {"output": {}}}]})
            }
            "/v1/dead/groups/{group}/note" => json!({"words": "known"}),
            "/v1/dead/import" => json!({"items": [self.lines[who]]}),
            "/v1/operations" => json!({"kind": "redrive", "filter": {"item": "dead6"}, "dry_run": true}),
            "/v1/runs" => json!({"pipeline": "box", "items": [{"key": format!("new{who}"), "payload": {}}]}),
            "/v1/pipelines/{pipeline}/items" => json!({"items": [{"payload": {"id": format!("more{who}")}}]}),
            "/v1/work/claim" => json!({"pipeline": "outside", "wait_ms": 30_000}),
            "/v1/work/heartbeat" => json!({"lease": lease("heartbeat")}),
            "/v1/work/fail" => json!({"lease": lease("fail"), "error": {"class": "final", "message": "no"}}),
            "/v1/work/complete" => {
                let id = &self.leases["complete"]["items"][0]["id"];
                json!({"lease": lease("complete"), "results": [{"id": id, "output": {}}]})
            }
            _ => json!({}),
        };
        Request { method: method.to_owned(), route: route.to_owned(), path, body }
    }
}

/// Asks with a token: the status, and everything that was told.
fn told(daemon: &Daemon, request: &Request, token: &str) -> (u16, String) {
    if request.route == "/v1/events" {
        return (200, first_event(daemon, token));
    }
    let reply = match request.method.as_str() {
        "POST" => daemon.post_as(token, &request.path, &request.body),
        _ => daemon.get_as(token, &request.path),
    };
    (reply.status, format!("{:?}{}", reply.headers, reply.body))
}

fn first_event(daemon: &Daemon, token: &str) -> String {
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    let address = daemon.address();
    let head = format!("GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let (mut told, mut buffer) = (String::new(), [0; 4096]);
    while !told.contains("event: changed") {
        let n = stream.read(&mut buffer).expect("it tells");
        assert_ne!(n, 0, "it ended: {told}");
        told.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    told
}

#[test]
fn no_route_shows_a_content_to_whoever_is_not_to_see_it() {
    let server = service();
    let place = place(&server);
    let create = ["token", "create", "bert", "--role", "admin", "--hide-payloads"];
    let blind = place.run(&create).expect(0).stdout.trim().to_owned();
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let world = World::of(&daemon);
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        routes
            .extend(methods.as_object().expect("methods").keys().map(|it| (it.to_uppercase(), path.clone())));
    }
    let mut shown = BTreeSet::new();
    for (method, route) in &routes {
        for (who, token) in [&*blind, TOKEN].into_iter().enumerate() {
            let request = world.request(method, route, who);
            let (status, said) = told(&daemon, &request, token);
            let asked = format!("{method} {}", request.path);
            if token == TOKEN {
                assert!(
                    (200..300).contains(&status),
                    "{asked} has to be asked otherwise here: {status} {said}"
                );
                shown.extend(said.contains(CANARY).then_some((method.as_str(), route.as_str())));
            } else {
                assert!(status < 500 && !said.contains(CANARY), "{asked} shows a content: {status} {said}");
            }
        }
    }
    assert_eq!(shown, SHOW_CONTENTS.iter().copied().collect(), "the table says which answers show contents");
    // Work that is held would be waited for.
    daemon.kill();
    place.check();
}
