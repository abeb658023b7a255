//! Every refusal says what to do about it.

use serde_json::{Value, json};

use crate::support::{Daemon, Place, Reply, text};

/// Fails when a refusal has no hint; whether it was one.
fn is_hinted(reply: &Reply, asked: &str) -> bool {
    if !(400..500).contains(&reply.status) {
        return false;
    }
    let problem = reply.json();
    let hint = problem["hint"].as_str().unwrap_or_default();
    assert!(hint.len() > 8, "{asked}: {problem}");
    // A hint is for whoever asks over HTTP.
    assert!(text(&problem["detail"]) != hint, "{asked}: {problem}");
    true
}

#[test]
fn whatever_is_refused_comes_with_a_hint() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--no-work"]);
    let viewer =
        place.run(&["token", "create", "vera", "--role", "viewer", "--hide-payloads"]).expect(0).stdout;
    let viewer = viewer.trim();
    let document = daemon.get("/v1/openapi.json").expect(200).json();
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let method = method.to_ascii_uppercase();
            if path == "/v1/events" {
                continue;
            }
            let asked = path.replace("{run}", "r77").replace("{operation}", "op77");
            let asked = asked.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
            let asked = asked.collect::<Vec<_>>().join("/");
            let bearer = format!("Bearer {}", crate::support::daemon::TOKEN);
            let blind = format!("Bearer {viewer}");
            let kind = ("Content-Type", "application/json");
            for (headers, body) in [
                (&[][..], "{}"),
                (&[("Authorization", bearer.as_str()), kind], ""),
                (&[("Authorization", bearer.as_str()), kind], "{}"),
                (&[("Authorization", bearer.as_str()), kind], "[]"),
                (&[("Authorization", bearer.as_str()), kind], "{\"colour\": 1}"),
                (&[("Authorization", bearer.as_str())], "{}"),
                (&[("Authorization", blind.as_str()), kind], "{}"),
                (&[("Authorization", bearer.as_str()), ("Host", "elsewhere")], "{}"),
                (&[("Authorization", bearer.as_str()), kind, ("Origin", "http://elsewhere")], "{}"),
            ] {
                let reply = daemon.ask(&method, &asked, headers, body);
                refused += usize::from(is_hinted(&reply, &format!("{method} {asked} {headers:?} {body}")));
            }
            let strange = daemon.get(&format!("{asked}?colour=red"));
            refused += usize::from(is_hinted(&strange, &format!("{asked}?colour=red")));
        }
    }
    assert!(refused > 200, "{refused}");
    for asked in [
        json!({"kind": "redrive"}),
        json!({"kind": "cancel", "filter": {"run": "r77"}}),
        json!({"kind": "rerun", "filter": {"run": "r77", "stage": "a"}}),
        json!({"kind": "retry", "filter": {"run": "r77"}, "in_ms": -1}),
    ] {
        assert!(is_hinted(&daemon.post("/v1/operations", &asked), &asked.to_string()), "{asked}");
    }
    for pipeline in [
        "nothing",
        "a = 1\n",
        "name = \"x\"\n[[stage]]\nname = \"a\"\nkind = \"command\"\ncommand = [\"cat\"]\n",
    ] {
        let asked: Value = json!({"pipeline": pipeline, "items": [{"key": "a", "payload": 1}]});
        assert!(is_hinted(&daemon.post("/v1/runs", &asked), pipeline), "{pipeline}");
    }
    daemon.stop().expect(0);
}
