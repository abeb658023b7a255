//! Every route of the daemon by who may ask and by how it answers. A route that is not in this table fails the build.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use self::Way::{Events, Json, Lines, Metrics};
use self::Who::{Anybody, Operator, Viewer, Worker};
use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, Reply};

/// The least role that may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Anybody,
    Worker,
    Viewer,
    Operator,
}

impl Who {
    /// Whether somebody of this role may ask for what takes at least that. Who works looks at nothing, and who looks does no work.
    fn may(self, least: Self) -> bool {
        match least {
            Anybody => true,
            Worker => self != Viewer,
            Viewer => self != Worker,
            Operator => self == Operator,
        }
    }
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Json,
    Lines,
    Events,
    Metrics,
}

type Row = (&'static str, &'static str, Who, Way);

const TABLE: &[Row] = &[
    ("GET", "/healthz", Anybody, Json),
    ("GET", "/metrics", Viewer, Metrics),
    ("GET", "/readyz", Anybody, Json),
    ("GET", "/v1/dead", Viewer, Json),
    ("GET", "/v1/dead/export", Viewer, Lines),
    ("GET", "/v1/dead/groups", Viewer, Json),
    ("POST", "/v1/dead/groups/{group}/note", Operator, Json),
    ("POST", "/v1/dead/import", Operator, Json),
    ("GET", "/v1/dead/{item}", Viewer, Json),
    ("GET", "/v1/events", Viewer, Events),
    ("GET", "/v1/failures", Viewer, Json),
    ("GET", "/v1/gates", Viewer, Json),
    ("POST", "/v1/gates/{gate}/pause", Operator, Json),
    ("POST", "/v1/gates/{gate}/reset", Operator, Json),
    ("POST", "/v1/gates/{gate}/resume", Operator, Json),
    ("GET", "/v1/items/{item}", Viewer, Json),
    ("GET", "/v1/items/{item}/attempts", Viewer, Json),
    ("GET", "/v1/items/{item}/explain", Viewer, Json),
    ("POST", "/v1/items/{item}/kill", Operator, Json),
    ("GET", "/v1/items/{item}/payload", Viewer, Json),
    ("GET", "/v1/openapi.json", Viewer, Json),
    ("GET", "/v1/operations", Viewer, Json),
    ("POST", "/v1/operations", Operator, Json),
    ("GET", "/v1/operations/{operation}", Viewer, Json),
    ("GET", "/v1/operations/{operation}/items", Viewer, Json),
    ("POST", "/v1/operations/{operation}/start", Operator, Json),
    ("POST", "/v1/operations/{operation}/stop", Operator, Json),
    ("GET", "/v1/overview", Viewer, Json),
    ("GET", "/v1/pipelines", Viewer, Json),
    ("POST", "/v1/pipelines/{pipeline}/items", Operator, Json),
    ("POST", "/v1/pipelines/{pipeline}/pause", Operator, Json),
    ("POST", "/v1/pipelines/{pipeline}/resume", Operator, Json),
    ("GET", "/v1/policies", Viewer, Json),
    ("GET", "/v1/policies/{policy}", Viewer, Json),
    ("GET", "/v1/policies/{policy}/lint", Viewer, Json),
    ("GET", "/v1/policies/{policy}/simulate", Viewer, Json),
    ("GET", "/v1/runs", Viewer, Json),
    ("POST", "/v1/runs", Operator, Json),
    ("GET", "/v1/runs/{run}", Viewer, Json),
    ("POST", "/v1/runs/{run}/cancel", Operator, Json),
    ("POST", "/v1/runs/{run}/close", Operator, Json),
    ("GET", "/v1/runs/{run}/items", Viewer, Json),
    ("POST", "/v1/runs/{run}/pause", Operator, Json),
    ("GET", "/v1/runs/{run}/results", Viewer, Lines),
    ("POST", "/v1/runs/{run}/resume", Operator, Json),
    ("GET", "/v1/search", Viewer, Json),
    ("GET", "/v1/stats", Viewer, Json),
    ("GET", "/v1/stuck", Viewer, Json),
    ("POST", "/v1/answers", Worker, Json),
    ("POST", "/v1/answers/{token}", Worker, Json),
    ("POST", "/v1/work/claim", Worker, Json),
    ("POST", "/v1/work/complete", Worker, Json),
    ("POST", "/v1/work/fail", Worker, Json),
    ("POST", "/v1/work/heartbeat", Worker, Json),
    ("GET", "/v1/workers", Viewer, Json),
];

/// The routes whose answers show contents of items or files; `serve_blind` holds every route to it.
pub const SHOW_CONTENTS: &[(&str, &str)] = &[
    ("GET", "/v1/dead/export"),
    ("GET", "/v1/dead/{item}"),
    ("GET", "/v1/items/{item}/explain"),
    ("GET", "/v1/items/{item}/payload"),
    ("GET", "/v1/runs/{run}/results"),
    ("GET", "/v1/search"),
    ("POST", "/v1/items/{item}/kill"),
    ("POST", "/v1/work/claim"),
];

/// What the daemon says of its routes, as rows of the table.
fn told(document: &Value) -> BTreeSet<(String, String, Option<Who>, Option<Way>)> {
    let mut rows = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let who = match (route["x-least-role"].as_str(), route["security"] == json!([])) {
                (None, true) => Some(Anybody),
                (Some("worker"), false) => Some(Worker),
                (Some("viewer"), false) => Some(Viewer),
                (Some("operator"), false) => Some(Operator),
                _ => None,
            };
            let answers = route["responses"].as_object().expect("responses");
            let content =
                answers.iter().find(|(status, _)| status.starts_with('2')).map(|(_, told)| &told["content"]);
            let has = |kind: &str| content.is_some_and(|content| content.get(kind).is_some());
            let ways = [
                ("application/json", Json),
                ("application/jsonl", Lines),
                ("text/event-stream", Events),
                ("text/plain", Metrics),
            ];
            let way = ways.into_iter().find(|(kind, _)| has(kind)).map(|(_, way)| way);
            rows.insert((method.to_ascii_uppercase(), path.clone(), who, way));
        }
    }
    rows
}

fn written() -> BTreeSet<(String, String, Option<Who>, Option<Way>)> {
    let row =
        |(method, path, who, way): &Row| ((*method).to_owned(), (*path).to_owned(), Some(*who), Some(*way));
    TABLE.iter().map(row).collect()
}

/// A path with something in place of its names.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{run}" => "r1",
        "{operation}" => "op1",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Asks for a stream; its status and the kind of its content.
fn begun(daemon: &Daemon, path: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", daemon.address());
    stream.write_all(head.as_bytes()).expect("sent");
    let (mut told, mut byte) = (Vec::new(), [0]);
    while !told.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("answered") == 1 {
        told.push(byte[0]);
    }
    let told = String::from_utf8(told).expect("a head").to_ascii_lowercase();
    let status = told.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let kind = told.lines().find_map(|line| line.strip_prefix("content-type: "));
    (status, kind.unwrap_or_default().to_owned())
}

fn token(place: &Place, args: &[&str]) -> String {
    place.run(&[&["token", "create"], args].concat()).expect(0).stdout.trim().to_owned()
}

/// No answer may be kept, framed or taken for something else, whoever asked.
fn assert_protected(reply: &Reply, asked: &str) {
    assert!(reply.status < 500, "{asked}: {reply:?}");
    assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{asked}");
    assert_eq!(reply.headers["cache-control"], "no-store", "{asked}");
    assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'"), "{asked}");
    assert!(!reply.headers.contains_key("access-control-allow-origin"), "{asked}");
}

#[test]
fn a_route_that_is_not_in_the_table_is_found() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let mut document = daemon.get("/v1/openapi.json").expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(told(&document), written(), "the table has every route, with its role and its way");
    // It would be seen, and so would a route that asks for less than it did.
    let runs = document["paths"]["/v1/runs"].clone();
    document["paths"]["/v1/new"] = json!({ "get": runs["get"] });
    assert_eq!(told(&document).difference(&written()).count(), 1);
    document["paths"]["/v1/runs"]["post"]["x-least-role"] = json!("viewer");
    assert_eq!(told(&document).difference(&written()).count(), 2);
    daemon.stop().expect(0);
}

#[test]
fn every_route_asks_for_a_token_and_a_role() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let viewer = token(&place, &["vera", "--role", "viewer"]);
    let operator = token(&place, &["otto", "--role", "operator"]);
    let worker = token(&place, &["wanda", "--role", "worker"]);
    for (method, path, who, way) in TABLE {
        let (path, asked) = (filled(path), format!("{method} {path}"));
        let ask = |headers: &[(&str, &str)]| daemon.ask(method, &path, headers, "");
        if *who == Anybody {
            ask(&[]).expect(200);
            continue;
        }
        for wrong in [None, Some("Bearer "), Some("Bearer wrong"), Some("Basic YTpi"), Some(TOKEN)] {
            let headers: Vec<(&str, &str)> = wrong.iter().map(|value| ("Authorization", *value)).collect();
            let reply = ask(&headers).expect(401);
            assert_eq!(reply.headers["content-type"], "application/problem+json", "{asked}");
            assert_eq!(
                (&reply.json()["code"], reply.headers["www-authenticate"].as_str()),
                (&json!("unauthenticated"), "Bearer")
            );
            assert_protected(&reply, &asked);
        }
        daemon.ask(method, &format!("{path}?token={TOKEN}"), &[], "").expect(401);
        if *way == Events {
            for token in [&*viewer, &*operator, TOKEN] {
                assert_eq!(begun(&daemon, &path, token), (200, "text/event-stream".to_owned()), "{asked}");
            }
            assert_eq!(begun(&daemon, &path, "wrong").0, 401);
            assert_eq!(begun(&daemon, &path, &worker).0, 403);
            continue;
        }
        for (token, role) in [(&*worker, Worker), (&*viewer, Viewer), (&*operator, Operator)] {
            let bearer = format!("Bearer {token}");
            let reply = ask(&[("Authorization", &bearer), ("Content-Type", "application/json")]);
            assert_eq!(reply.status == 403, !role.may(*who), "{asked} as a {role:?}: {reply:?}");
            assert_ne!(reply.status, 401, "{asked}");
            assert_protected(&reply, &asked);
        }
    }
    daemon.ask("GET", "/v1/nothing", &[], "").expect(401);
    daemon.get("/v1/nothing").expect(404);
    let method = daemon.post("/v1/gates", &json!({})).expect(405).json();
    assert_eq!(method["code"], "invalid_request", "{method}");
    daemon.stop().expect(0);
}
