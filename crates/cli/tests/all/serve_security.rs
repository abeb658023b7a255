//! Who is let in to `redrive serve`, and what those are told who are not.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, Reply, Server, array, one_stage, text};

/// Makes a token and gives it.
fn token(place: &Place, args: &[&str]) -> String {
    place.run(&[&["token", "create"], args].concat()).expect(0).stdout.trim().to_owned()
}

fn problem(reply: &Reply) -> Value {
    assert_eq!(reply.headers["content-type"], "application/problem+json", "{reply:#?}");
    let document = reply.json();
    for field in ["type", "title", "status", "detail", "code"] {
        assert!(!document[field].is_null(), "{field}: {document}");
    }
    assert_eq!(document["status"], reply.status);
    document
}

#[test]
fn other_hosts_and_pages_of_other_sites_are_refused() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--host", "redrive.lan"]);
    let bearer = format!("Bearer {TOKEN}");
    let ask = |more: &[(&str, &str)]| {
        let headers: Vec<(&str, &str)> =
            [("Authorization", bearer.as_str())].into_iter().chain(more.iter().copied()).collect();
        daemon.ask("GET", "/v1/runs", &headers, "").status
    };
    assert_eq!((ask(&[]), ask(&[("Host", "redrive.lan")]), ask(&[("Host", "localhost:1")])), (200, 200, 200));
    assert_eq!((ask(&[("Host", "evil.example")]), ask(&[("Host", "127.0.0.1.evil.example")])), (421, 421));
    // Probes ask by whatever name or address they know; nothing is told but that it lives.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(daemon.ask("GET", path, &[("Host", "10.1.2.3:7300")], "").status, 200);
        assert_eq!(daemon.ask("GET", path, &[("Origin", "http://evil.example")], "").status, 403);
    }
    assert_eq!(ask(&[("Origin", "http://evil.example")]), 403);
    assert_eq!((ask(&[("Origin", "null")]), ask(&[("Sec-Fetch-Site", "cross-site")])), (403, 403));
    assert_eq!(ask(&[("Origin", &format!("http://{}", daemon.address()))]), 200);
    let form = [("Authorization", bearer.as_str()), ("Content-Type", "text/plain")];
    daemon.ask("POST", "/v1/runs", &form, "{}").expect(415);
    daemon.stop().expect(0);
    for args in
        [&["serve", "--listen", "0.0.0.0:0"][..], &["serve", "--listen", "0.0.0.0:0", "--allow-remote"]]
    {
        let refused = place.run(args).expect(2);
        assert!(refused.stdout.is_empty() && refused.stderr.contains("hint"), "{}", refused.stderr);
    }
}

#[test]
fn what_nobody_knows_is_refused_with_words() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    for path in [
        "/v1/runs?colour=red",
        "/v1/runs?limit=0",
        "/v1/runs?limit=1&limit=2",
        "/v1/runs?status=odd",
        "/v1/dead?class=odd",
        "/v1/runs/x",
        "/v1/search",
    ] {
        assert_eq!(problem(&daemon.get(path).expect(400))["code"], "invalid_request", "{path}");
    }
    for body in [
        json!({"pipeline": "x", "colour": 1}),
        json!({"pipeline": "x", "items": {"payload": 1}}),
        json!({}),
        json!([]),
        json!("x"),
    ] {
        problem(&daemon.post("/v1/runs", &body).expect(400));
    }
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    problem(&daemon.ask("POST", "/v1/runs", &headers, "{\"pipeline\":").expect(400));
    let large = format!("{{\"pipeline\":\"{}\"}}", "x".repeat(17 << 20));
    // It may be refused before all of it is sent.
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        daemon.address(),
        large.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(large.as_bytes()));
    let mut answer = [0; 12];
    let _ = std::io::Read::read_exact(&mut stream, &mut answer);
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
    daemon.get("/v1/runs").expect(200);
    daemon.stop().expect(0);
}

#[test]
fn tokens_are_made_rotated_and_revoked_while_it_runs_and_some_see_no_contents() {
    let server = Server::good();
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let items = json!([{"key": "a", "payload": {"n": 1}}]);
    daemon.post("/v1/runs", &json!({"pipeline": one_stage(&server.stage()), "items": items})).expect(201);
    daemon.until("/v1/runs/r1", |report| report["status"] == "completed");
    let blind = token(&place, &["bob", "--role", "operator", "--hide-payloads"]);
    for path in ["/v1/items/a/payload", "/v1/runs/r1/results", "/v1/search?q=x"] {
        assert_eq!(problem(&daemon.get_as(&blind, path).expect(403))["code"], "forbidden", "{path}");
    }
    let explained = daemon.get_as(&blind, "/v1/items/a/explain").expect(200).json();
    assert!(explained["item"].get("payload").is_none(), "{explained}");
    assert!(daemon.get("/v1/items/a/explain").json()["item"]["payload"].is_object());
    // A pipeline that is sent reaches beyond the store, and so does a path.
    let sent = json!({"pipeline": one_stage(&server.stage()), "items": items});
    daemon.post_as(&blind, "/v1/runs", &sent).expect(403);
    let rotated = place.run(&["token", "rotate", "bob", "--json"]).expect(0).json();
    assert_eq!((daemon.get_as(&blind, "/v1/runs").status, rotated["role"].as_str()), (401, Some("operator")));
    daemon.get_as(&text(&rotated["token"]), "/v1/runs").expect(200);
    let left = place.json(&["token", "revoke", "bob"]);
    assert!(array(&left["items"]).is_empty());
    daemon.get_as(&text(&rotated["token"]), "/v1/runs").expect(401);
    place.run(&["token", "create", "no name", "--role", "viewer"]).expect(2);
    let stopped = daemon.stop().expect(0);
    // Neither token nor hash is in what was printed; the token is in no file.
    let kept = [stopped.stdout, stopped.stderr, place.read(".redrive/tokens.json")].concat();
    assert!(!kept.contains(TOKEN) && !kept.contains(&blind), "{kept}");
    for file in std::fs::read_dir(place.path(".redrive")).expect("there") {
        let bytes = std::fs::read(file.expect("read").path()).expect("read");
        for secret in [TOKEN, &blind] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
        }
    }
}

#[test]
fn the_first_administrator_is_made_at_the_first_start_and_shown_once() {
    let place = Place::new();
    let args = ["serve", "--listen", "127.0.0.1:0", "--no-work"];
    let started = place.start(&args);
    started.until_said("rdv_");
    started.first_line();
    started.signal("INT");
    let first = started.finish().expect(0);
    let made =
        first.stderr.lines().find_map(|line| line.split("rdv_").nth(1)).expect("a token").trim().to_owned();
    let again = place.start(&args);
    let address = again.first_line().trim_start_matches("listening at http://").to_owned();
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let head = format!(
        "GET /v1/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer rdv_{made}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    again.signal("HUP");
    assert!(!again.finish().expect(0).stderr.contains("rdv_"));
}
