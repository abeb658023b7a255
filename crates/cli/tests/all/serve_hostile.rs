//! Whatever somebody writes into a text field comes back as that text.

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::server::failed;
use crate::support::{Answer, Daemon, Names, Place, Server, array, names, one_stage, results, text};

/// What is written by those who mean harm, and what breaks programs by accident.
const SEEDS: [&str; 25] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'; drop table items; --",
    "1 or 1=1",
    "../../../../etc/passwd",
    "..%2f..%2f",
    "%00",
    "\u{202e}gpj.exe",
    "\r\nSet-Cookie: a=b",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "`id`$(id)|id;id&&id",
    "\u{0}nul",
    "a,b;c|d\te",
    "😀👩‍👩‍👧‍👦",
    "=1+1",
    "null",
    "-1",
    "ﷺ\u{301}\u{301}\u{301}",
    "\u{feff}bom",
    "\u{2028}\u{2029}",
    "\\\\host\\share",
    "%s%n%x",
    "\u{10ffff}\u{fffd}",
    "[\"a\", {\"b\": 1}]",
];

/// Two hundred: each as it is, before and after another, in a long one and twisted otherwise.
pub fn hostile() -> Vec<String> {
    let twisted = |n: usize, seed: &str| {
        let next = SEEDS[(n + 1) % SEEDS.len()];
        [
            seed.to_owned(),
            format!("{seed}{next}"),
            format!("{next} {seed}"),
            format!("{}{seed}", "x".repeat(300)),
            format!("{seed}\n{seed}"),
            seed.to_uppercase() + "\u{200b}",
            format!("\"{seed}\""),
            format!("/{seed}/.."),
        ]
    };
    SEEDS.iter().enumerate().flat_map(|(n, seed)| twisted(n, seed)).collect()
}

pub fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Begins a run over items whose key and content are hostile, and whose failures repeat the content.
fn begun(daemon: &Daemon, server: &Server, all: &[String]) {
    let items: Vec<Value> =
        all.iter().map(|s| json!({"key": format!("k{s}"), "payload": {"s": s}})).collect();
    let pipeline = one_stage(&format!("{}\nretry = {{ preset = \"none\" }}", server.stage()));
    let begun = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    assert!(!begun.headers.contains_key("set-cookie"));
    let told: Names = names(array(&begun.json()["items"]).iter().map(|item| text(&item["key"])));
    assert_eq!(told, all.iter().map(|s| format!("k{s}")).collect::<Names>());
    daemon
        .until("/v1/runs/r1", |report| report["counts"]["waiting"] == 0 && report["counts"]["running"] == 0);
}

#[test]
fn two_hundred_hostile_strings_come_back_as_text_from_every_field() {
    let all = hostile();
    assert_eq!(names(&all).len(), 200);
    // Every other item passes with what it has, the others fail with it.
    let server = Server::start(|call| {
        let item = call.item();
        let said = text(&item.payload["s"]);
        Answer::results(&[match said.len() % 2 {
            0 => failed(item, "final", &said),
            _ => json!({"id": item.id, "output": {"said": said}}),
        }])
    });
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    begun(&daemon, &server, &all);
    let streamed = daemon.get("/v1/runs/r1/results").expect(200);
    let outputs: Names = results(&streamed.body).values().map(|output| text(&output["said"])).collect();
    assert_eq!(outputs, all.iter().filter(|s| s.len() % 2 == 1).cloned().collect::<Names>());
    let groups = daemon.get("/v1/dead/groups?limit=500").expect(200).json();
    let group = text(&groups["items"][0]["group"]);
    let gate = text(&daemon.get("/v1/gates").expect(200).json()["items"][0]["name"]);
    for s in &all {
        let key = escaped(&format!("k{s}"));
        let content = if s.len() % 2 == 0 { json!({ "s": s }) } else { json!({ "said": s }) };
        assert_eq!(daemon.get(&format!("/v1/items/{key}/payload")).expect(200).json(), content);
        let life = daemon.get(&format!("/v1/items/{key}/explain")).expect(200);
        assert_eq!(life.headers["content-type"], "application/json");
        assert_eq!(life.json()["item"]["key"], format!("k{s}"));
        // What is asked for by a text is looked for as that text.
        let found = daemon.get(&format!("/v1/runs/r1/items?text={key}&limit=500")).expect(200).json();
        let found = names(array(&found["items"]).iter().map(|item| text(&item["key"])));
        assert!(found.contains(&format!("k{s}")), "{s:?} is not among {found:?}");
        let noted = daemon.post(&format!("/v1/dead/groups/{group}/note"), &json!({ "words": s })).expect(200);
        assert_eq!(text(&noted.json()["note"]), s.trim(), "only what is blank around it is left out");
        let why = daemon.post(&format!("/v1/gates/{gate}/pause"), &json!({ "why": s })).expect(200).json();
        assert!(text(&why["items"][0]["why"]).contains(s.as_str()), "{s:?}: {why}");
        for (path, expected) in [
            (format!("/v1/dead?text={key}"), &[200][..]),
            (format!("/v1/runs?pipeline={}", escaped(s)), &[200]),
            (format!("/v1/policies/{}", escaped(s)), &[404]),
            (format!("/v1/dead?group={}", escaped(s)), &[200]),
            (format!("/v1/runs/{}", escaped(s)), &[400, 404]),
            (format!("/v1/items/{}", escaped(s)), &[200, 404, 409]),
            (format!("/v1/search?q={}", escaped(s)), &[200, 404]),
        ] {
            let reply = daemon.get(&path);
            assert!(expected.contains(&reply.status), "{path} ({s:?}): {reply:?}");
            assert!(reply.headers["content-type"].starts_with("application/"), "{path}");
            reply.json();
        }
        // Names that are no names are refused with words; nothing of it becomes a header.
        for body in [
            json!({"pipeline": s, "items": []}),
            json!({"pipeline": "box", "category": s, "items": [{"payload": 1}]}),
        ] {
            let reply = daemon.post("/v1/runs", &body);
            assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
            assert!(!reply.headers.contains_key("set-cookie"), "{reply:?}");
        }
    }
    // In the terminal no sign steers it, and in a file every line is one document.
    let stopped = daemon.stop().expect(0);
    let listed = place.run(&["dead", "list", "-n", "500"]).expect(0);
    for said in [&listed.stdout, &listed.stderr, &stopped.stderr] {
        assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:?}");
    }
    let exported = place.run(&["dead", "export"]).expect(0).stdout;
    let exported: Names = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .map(|line| text(&line["item"]["key"]))
        .collect();
    assert_eq!(exported, all.iter().filter(|s| s.len() % 2 == 0).map(|s| format!("k{s}")).collect::<Names>());
    assert!(!stopped.stderr.contains(TOKEN));
    place.check();
}
