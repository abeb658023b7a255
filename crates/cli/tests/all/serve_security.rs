//! Who is let in to `redrive serve`, and what those are told who are not.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::server::failed;
use crate::support::{Answer, Daemon, Place, Reply, Server, array, one_stage, text};

/// Makes a token and gives it.
fn token(place: &Place, args: &[&str]) -> String {
    place.run(&[&["token", "create"], args].concat()).expect(0).stdout.trim().to_owned()
}

/// Every route: its method, a path, and whether a token is needed.
fn routes(daemon: &Daemon) -> Vec<(String, String, Value)> {
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let parts = path.split('/').map(|part| match part {
                "{run}" => "r1",
                "{operation}" => "op1",
                part if part.starts_with('{') => "x",
                part => part,
            });
            let path = parts.collect::<Vec<_>>().join("/");
            found.push((method.to_ascii_uppercase(), path, route.clone()));
        }
    }
    assert!(found.len() > 35, "{found:?}");
    found
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
fn every_route_asks_for_a_token_and_a_role() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let viewer = token(&place, &["vera", "--role", "viewer"]);
    let operator = token(&place, &["otto", "--role", "operator"]);
    let worker = token(&place, &["wanda", "--role", "worker"]);
    let json = ("Content-Type", "application/json");
    for (method, path, route) in routes(&daemon) {
        let ask = |headers: &[(&str, &str)]| daemon.ask(&method, &path, headers, "");
        let open = route["security"] == json!([]);
        assert_eq!(open, ["/healthz", "/readyz"].contains(&path.as_str()), "{path}");
        if open {
            ask(&[]).expect(200);
            continue;
        }
        for wrong in [None, Some("Bearer "), Some("Bearer wrong"), Some("Basic YTpi"), Some(TOKEN)] {
            let headers: Vec<(&str, &str)> = wrong.iter().map(|value| ("Authorization", *value)).collect();
            let reply = ask(&headers);
            assert_eq!(reply.status, 401, "{method} {path} with {wrong:?}");
            assert_eq!(
                (problem(&reply)["code"].as_str(), reply.headers["www-authenticate"].as_str()),
                (Some("unauthenticated"), "Bearer")
            );
        }
        assert_eq!(
            daemon.ask(&method, &format!("{path}?token={TOKEN}"), &[], "").status,
            401,
            "not in the query"
        );
        if path == "/v1/events" {
            continue;
        }
        let bearer = |token: &str| format!("Bearer {token}");
        let (viewer, operator, worker) = (bearer(&viewer), bearer(&operator), bearer(&worker));
        let seen = ask(&[("Authorization", &viewer), json]);
        let changes = method == "POST";
        assert_eq!(seen.status == 403, changes, "{method} {path} as a viewer: {seen:?}");
        let works = path.starts_with("/v1/work/");
        let least = if works {
            "worker"
        } else if changes {
            "operator"
        } else {
            "viewer"
        };
        assert_eq!(route["x-least-role"], least, "{path}");
        let worked = ask(&[("Authorization", &worker), json]);
        assert_eq!(worked.status == 403, !works, "{method} {path} as a worker: {worked:?}");
        let acted = ask(&[("Authorization", &operator), json]);
        assert!(![401, 403].contains(&acted.status), "{method} {path} as an operator: {acted:?}");
        for reply in [&seen, &acted] {
            assert!(reply.status < 500, "{method} {path}: {reply:?}");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
            assert_eq!(reply.headers["cache-control"], "no-store");
            assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'"));
            assert!(!reply.headers.contains_key("access-control-allow-origin"));
        }
    }
    daemon.ask("GET", "/v1/nothing", &[], "").expect(401);
    daemon.get("/v1/nothing").expect(404);
    daemon.post("/v1/gates", &json!({})).expect(405);
    daemon.stop().expect(0);
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
    assert_eq!(daemon.ask("GET", "/healthz", &[("Host", "evil.example")], "").status, 421);
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

#[test]
fn hostile_strings_come_back_as_text() {
    let hostile = [
        "<script>alert(1)</script>",
        "\"; drop table items; --",
        "../../../../etc/passwd",
        "%2e%2e%2f",
        "\u{202e}gpj.exe",
        "\r\nSet-Cookie: a=b",
        "{{7*7}}",
        "\u{1b}[2J",
        "'\"`$(id)",
        "\u{0}nul",
        "a,b;c|d",
        "😀",
        "=1+1",
        "null",
        "-1",
    ];
    let server = Server::start(|call| {
        Answer::results(
            &call
                .items
                .iter()
                .map(|item| failed(item, "final", &text(&item.payload["s"])))
                .collect::<Vec<_>>(),
        )
    });
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let items: Vec<Value> =
        hostile.iter().map(|s| json!({"key": format!("k{s}"), "payload": {"s": s}})).collect();
    let pipeline = one_stage(&server.stage());
    let begun = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    assert!(!begun.headers.contains_key("set-cookie"));
    daemon.until("/v1/runs/r1", |report| report["counts"]["dead"] == hostile.len());
    let dead = daemon.get("/v1/dead").expect(200);
    assert_eq!(dead.headers["content-type"], "application/json");
    let keys: Vec<String> = array(&dead.json()["items"]).iter().map(|item| text(&item["key"])).collect();
    for s in hostile {
        assert!(keys.contains(&format!("k{s}")), "{s:?} in {keys:?}");
        let escaped: String = format!("k{s}").bytes().map(|byte| format!("%{byte:02x}")).collect();
        let item = daemon.get(&format!("/v1/items/{escaped}/payload")).expect(200);
        assert_eq!(item.json(), json!({"s": s}));
        daemon.get(&format!("/v1/dead?text={escaped}")).expect(200);
        daemon.post("/v1/dead/groups/x/note", &json!({"words": s})).expect(404);
        daemon.get(&format!("/v1/runs?pipeline={escaped}")).expect(200);
        daemon.get(&format!("/v1/policies/{escaped}")).expect(404);
    }
    daemon.stop().expect(0);
}
